//! The database behind the simulated source: its tables at every position, its log, its publication and its slot, with the
//! semantics of Postgres.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use calve_core::{
    Column, ColumnType, Lsn, NativeType, Partition, Partitions, Position, TableMode, TableName, TableSchema,
};

use super::chosen;
use super::random::Random;

/// A row of every simulated table: key and value. No two changes write the same value, so every version of a row differs.
pub(crate) type Row = (i64, i64);

/// A change as the application's SQL made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A new key.
    Insert(i64),
    /// A new value under a key.
    Update(i64),
    /// Another key (first to second) and a new value.
    Rekey(i64, i64),
    /// An update of something else: the row stays as it is, and the log does not say what its value is.
    Keep(i64),
    /// Another key (first to second), and the value left out likewise.
    Move(i64, i64),
    /// A key goes.
    Delete(i64),
    /// All rows go.
    Truncate,
    /// An update that the stream cannot represent, though a load can read the row.
    Unrepresentable(i64),
    /// The value's column is renamed.
    Alter,
}

/// One change of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged {
    /// Index of the table.
    pub(crate) table: usize,
    /// What was done.
    pub(crate) change: Change,
    /// The value written, where one is.
    pub(crate) value: i64,
    /// The value that a row had which goes, where the log has it: one of three does, and all where loads drift.
    pub(crate) before: Option<i64>,
}

/// A committed transaction.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// Where its commit record begins.
    pub(crate) commit: Lsn,
    /// And ends.
    pub(crate) end: Lsn,
    /// In order.
    pub(crate) changes: Vec<Logged>,
}

/// The replication slot.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// Where it was created.
    pub(crate) created: Lsn,
    /// The log up to here is forgotten, and never sent again.
    pub(crate) confirmed: Lsn,
    /// The process that streams from it.
    pub(crate) owner: Option<usize>,
    /// The server has not noticed yet that its last owner died.
    pub(crate) busy_until: Duration,
}

#[derive(Debug)]
struct SourceTable {
    /// The schema after each transaction that changed it, in order; the last is the present one.
    schemas: Vec<(Lsn, Arc<TableSchema>)>,
    rows: BTreeMap<i64, i64>,
    /// The rows after each transaction that changed them, in order.
    history: Vec<(Lsn, Arc<Vec<Row>>)>,
    /// Changes of transactions that commit after this are in the log as the publication sends it.
    followed_since: Option<Lsn>,
    /// It was taken out of the publication, and not read again since.
    gap: bool,
}

/// The source.
#[derive(Debug)]
pub(crate) struct SourceLog {
    tables: Vec<SourceTable>,
    transactions: Vec<Arc<Transaction>>,
    end: Lsn,
    values: i64,
    pub(crate) slot: Option<Slot>,
    /// The log is gone below what was acknowledged, and nobody says so before it is asked for.
    pub(crate) purges: bool,
    /// A load's rows are read one by one, each at some position between two, as a source without exported snapshots reads
    /// them. The log carries every table, whatever is followed; a pipeline without streaming tables begins at its end.
    pub(crate) drifts: bool,
    /// So many of the tables, from the first on, are logs of their changes in the lake.
    logs: usize,
    /// So many after these keep deleted rows there.
    retiring: usize,
    /// Of tables in mode upsert the lake gets some of the rows only.
    chooses: bool,
}

impl SourceLog {
    /// A database of empty tables `sim.a`, `sim.b`, ...
    pub(crate) fn new(tables: usize) -> Self {
        let tables = (0..tables)
            .map(|index| SourceTable {
                schemas: vec![(Lsn(0), Arc::new(schema(index, 0, TableMode::Upsert, false)))],
                rows: BTreeMap::new(),
                history: vec![(Lsn(0), Arc::new(Vec::new()))],
                followed_since: None,
                gap: false,
            })
            .collect();
        let (transactions, end) = (Vec::new(), Lsn(0x100));
        Self {
            tables,
            transactions,
            end,
            values: 0,
            slot: None,
            purges: false,
            drifts: false,
            logs: 0,
            retiring: 0,
            chooses: false,
        }
    }

    /// So many of the tables, from the first on, are logs of their changes in the lake, and so many after these keep deleted rows
    /// there. Said before anything is committed.
    pub(crate) fn keep_history_of(&mut self, logs: usize, retiring: usize) {
        (self.logs, self.retiring) = (logs, retiring);
        for index in 0..self.tables.len() {
            self.tables[index].schemas = vec![(Lsn(0), Arc::new(schema(index, 0, self.mode(index), false)))];
        }
    }

    /// Of tables in mode upsert the lake gets some of the rows only. Said after the modes, and before anything is committed.
    pub(crate) fn choose_rows(&mut self) {
        self.chooses = true;
        for index in 0..self.tables.len() {
            let chooses = self.is_chosen(index);
            self.tables[index].schemas = vec![(Lsn(0), Arc::new(schema(index, 0, self.mode(index), chooses)))];
        }
    }

    /// Whether the lake gets some of the table's rows only. Its columns are not renamed, and its updates say all of their values.
    pub(crate) fn is_chosen(&self, table: usize) -> bool {
        self.chooses && self.mode(table).is_upsert()
    }

    /// The rows that the lake gets, as they were at a position.
    pub(crate) fn chosen_rows_at(&self, table: usize, position: Lsn) -> Vec<Row> {
        let rows = self.rows_at(table, position).iter();
        rows.filter(|row| !self.is_chosen(table) || chosen::is_chosen(row)).copied().collect()
    }

    /// Whether the table is a log in the lake.
    pub(crate) fn keeps_log(&self, table: usize) -> bool {
        table < self.logs
    }

    fn mode(&self, table: usize) -> TableMode {
        match table {
            log if log < self.logs => TableMode::Append { preimages: false },
            retiring if retiring < self.logs + self.retiring => TableMode::SoftDelete,
            _ => TableMode::Upsert,
        }
    }

    /// How many tables there are.
    pub(crate) fn table_count(&self) -> usize {
        self.tables.len()
    }

    /// The table's schema now.
    pub(crate) fn schema(&self, table: usize) -> &Arc<TableSchema> {
        self.schema_at(table, self.end)
    }

    /// The table's schema as it was at a position.
    pub(crate) fn schema_at(&self, table: usize, position: Lsn) -> &Arc<TableSchema> {
        let schemas = &self.tables[table].schemas;
        let after = schemas.partition_point(|(end, _)| *end <= position);
        &schemas[after.max(1) - 1].1
    }

    /// Where the table's schema became what it is now.
    pub(crate) fn altered(&self, table: usize) -> Lsn {
        self.tables[table].schemas.last().map_or(Lsn(0), |(end, _)| *end)
    }

    /// Which table has this name.
    pub(crate) fn index_of(&self, name: &TableName) -> Option<usize> {
        (0..self.tables.len()).find(|index| table_name(*index) == *name)
    }

    /// End of the log.
    pub(crate) fn end(&self) -> Lsn {
        self.end
    }

    /// The rows as they are now.
    pub(crate) fn rows(&self, table: usize) -> &BTreeMap<i64, i64> {
        &self.tables[table].rows
    }

    /// The rows as they were at a position.
    pub(crate) fn rows_at(&self, table: usize, position: Lsn) -> &[Row] {
        let history = &self.tables[table].history;
        let after = history.partition_point(|(end, _)| *end <= position);
        history[..after].last().map_or(&[], |(_, rows)| rows)
    }

    /// Rows each read at a position of its own, from `low` to `high`.
    pub(crate) fn rows_between(&self, table: usize, low: Lsn, high: Lsn, random: &mut Random) -> Vec<Row> {
        let history = &self.tables[table].history;
        let first = history.partition_point(|(end, _)| *end <= low).saturating_sub(1);
        let past = history.partition_point(|(end, _)| *end <= high);
        let states = &history[first..past];
        let keys: BTreeSet<i64> = states.iter().flat_map(|(_, rows)| rows.iter().map(|(key, _)| *key)).collect();
        let read = |key: i64| {
            let (_, rows) = &states[random.index(states.len())];
            rows.iter().find(|(found, _)| *found == key).copied()
        };
        keys.into_iter().filter_map(read).collect()
    }

    /// Ends of transactions from `low` on.
    pub(crate) fn ends_from(&self, low: Lsn) -> Vec<Lsn> {
        let later = self.transactions.iter().map(|transaction| transaction.end).filter(|end| *end > low);
        std::iter::once(low).chain(later).collect()
    }

    /// Whether the transactions that end in (`low`, `high`] changed the table; a row that came and went did not.
    /// Of a log everything counts, and of a table that keeps deleted rows every change of a row.
    pub(crate) fn changed(&self, table: usize, low: Lsn, high: Lsn) -> bool {
        if self.keeps_log(table) {
            return !super::change_log::expected(self, table, low, high).is_empty();
        }
        if self.mode(table) == TableMode::SoftDelete {
            let range = self.transactions_until(low)..self.transactions_until(high).max(self.transactions_until(low));
            let mut changes = range.filter_map(|at| self.transaction(at)).flat_map(|transaction| &transaction.changes);
            let says_something = |change| !matches!(change, Change::Alter | Change::Keep(_));
            return changes.any(|logged| logged.table == table && says_something(logged.change));
        }
        low < high && self.chosen_rows_at(table, low) != self.chosen_rows_at(table, high)
    }

    /// The transaction after the first `count`.
    pub(crate) fn transaction(&self, count: usize) -> Option<&Arc<Transaction>> {
        self.transactions.get(count)
    }

    /// How many transactions end at or below a position.
    pub(crate) fn transactions_until(&self, position: Lsn) -> usize {
        self.transactions.partition_point(|transaction| transaction.end <= position)
    }

    /// Whether the publication sends this table's changes of a transaction.
    pub(crate) fn is_followed(&self, table: usize, transaction: &Transaction) -> bool {
        self.drifts || self.tables[table].followed_since.is_some_and(|since| transaction.commit >= since)
    }

    /// Sets the publication. A table added sees its changes from here on; one taken out and put back has a hole.
    pub(crate) fn follow(&mut self, tables: &[usize]) {
        let end = self.end;
        for (index, table) in self.tables.iter_mut().enumerate() {
            table.gap |= table.followed_since.is_some() && !tables.contains(&index);
            table.followed_since = tables.contains(&index).then(|| table.followed_since.unwrap_or(end));
        }
    }

    /// Whether the table was taken out of the publication since it was read last.
    pub(crate) fn has_gap(&self, table: usize) -> bool {
        self.tables[table].gap && !self.drifts
    }

    /// These tables are read as they are now: what they missed does not matter.
    pub(crate) fn forgive_gaps(&mut self, tables: &[usize]) {
        for &table in tables {
            self.tables[table].gap &= self.tables[table].followed_since.is_none();
        }
    }

    /// Others write to the log.
    pub(crate) fn foreign_traffic(&mut self) {
        self.end.0 += 0x20;
    }

    /// Commits a transaction.
    ///
    /// # Panics
    /// When a change is impossible on the rows as they are: a workload that does this is wrong.
    pub(crate) fn commit(&mut self, changes: &[(usize, Change)]) {
        let commit = Lsn(self.end.0 + 0x8);
        let end = Lsn(commit.0 + 0x8);
        let mut logged = Vec::new();
        for &(table, change) in changes {
            self.values += 1;
            let (value, mode, chooses) = (self.values, self.mode(table), self.is_chosen(table));
            let rows = &mut self.tables[table].rows;
            let before = match change {
                Change::Delete(key) | Change::Rekey(key, _) => rows.get(&key).copied(),
                _ => None,
            };
            let before = before.filter(|value| self.drifts || value % 3 == 0);
            let free = |rows: &BTreeMap<i64, i64>, key| assert!(!rows.contains_key(&key), "key {key} is taken");
            match change {
                Change::Insert(key) => {
                    free(rows, key);
                    rows.insert(key, value);
                }
                Change::Update(key) | Change::Unrepresentable(key) => {
                    *rows.get_mut(&key).unwrap_or_else(|| panic!("no key {key} to update")) = value;
                }
                Change::Rekey(old, new) => {
                    rows.remove(&old).unwrap_or_else(|| panic!("no key {old} to change"));
                    free(rows, new);
                    rows.insert(new, value);
                }
                Change::Keep(key) => assert!(rows.contains_key(&key), "no key {key} to leave as it is"),
                Change::Move(old, new) => {
                    let value = rows.remove(&old).unwrap_or_else(|| panic!("no key {old} to move"));
                    free(rows, new);
                    rows.insert(new, value);
                }
                Change::Delete(key) => {
                    rows.remove(&key).unwrap_or_else(|| panic!("no key {key} to delete"));
                }
                Change::Truncate => rows.clear(),
                Change::Alter => {
                    let schemas = &mut self.tables[table].schemas;
                    let next = schema(table, schemas.len(), mode, chooses);
                    schemas.push((end, Arc::new(next)));
                }
            }
            logged.push(Logged { table, change, value, before });
        }
        for (index, table) in self.tables.iter_mut().enumerate() {
            if changes.iter().any(|(changed, _)| *changed == index) {
                let rows = table.rows.iter().map(|(key, value)| (*key, *value)).collect();
                table.history.push((end, Arc::new(rows)));
            }
        }
        self.transactions.push(Arc::new(Transaction { commit, end, changes: logged }));
        self.end = end;
    }
}

/// The name of a simulated table.
pub(crate) fn table_name(index: usize) -> TableName {
    let letter = u8::try_from(index).ok().and_then(|index| b'a'.checked_add(index)).map_or('?', char::from);
    TableName::new("sim", letter)
}

/// The table's schema after so many changes of it.
///
/// A partition comes, of which rows show nothing; a column gets another name, then NULL is allowed in it, forbidden and allowed once
/// more: changes that the lake shows, and two that it does not, the second of which leads back to what was there before the first.
fn schema(index: usize, changes: usize, mode: TableMode, chooses: bool) -> TableSchema {
    let (partition, names) = (changes.div_ceil(5), (changes + 3) / 5);
    let nullable = changes > 1 && [0, 1, 3].contains(&(changes % 5));
    let partition = u32::try_from(partition).expect("a few changes");
    let partitions = (partition > 0).then(|| Partitions {
        known: vec![Partition { native_id: partition, attached_by: 1, file: partition }],
        emptied_by: None,
    });
    let column = |id: u32, name: &str, nullable: bool| Column {
        id,
        name: name.to_owned(),
        ty: ColumnType::Long,
        nullable,
        native: NativeType::new(20, -1, "bigint"),
        usage: calve_core::ColumnUse::Values,
    };
    let native_id = u32::try_from(index).expect("a handful of tables") + 16_384;
    TableSchema {
        filter: chooses.then(|| chosen::condition("value0")),
        mode,
        partitions,
        ..TableSchema::new(
            table_name(index),
            native_id,
            vec![column(1, "id", false), column(2, &format!("value{names}"), nullable)],
            vec![0],
        )
    }
}

/// The LSN of a position.
pub(crate) fn lsn(position: &Position) -> Lsn {
    match position {
        Position::Postgres(lsn) => *lsn,
        other => unreachable!("the simulated log has no position {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_known_at_every_position() {
        let mut log = SourceLog::new(2);
        let start = log.end();
        log.commit(&[(0, Change::Insert(1)), (0, Change::Insert(2)), (1, Change::Insert(1))]);
        let first = log.end();
        log.commit(&[(0, Change::Rekey(1, 3)), (0, Change::Rekey(2, 1)), (0, Change::Rekey(3, 2))]);
        let swapped = log.end();
        log.foreign_traffic();
        assert_eq!(log.rows_at(0, start), []);
        assert_eq!(log.rows_at(0, first), [(1, 1), (2, 2)]);
        assert_eq!(log.rows_at(0, Lsn(swapped.0 - 1)), [(1, 1), (2, 2)]);
        assert_eq!(log.rows_at(0, log.end()), [(1, 5), (2, 6)]);
        assert_eq!(log.rows_at(1, log.end()), [(1, 3)]);
        assert!(log.changed(1, start, swapped) && !log.changed(1, first, log.end()));
    }

    #[test]
    fn a_table_taken_out_of_the_publication_and_put_back_has_a_hole() {
        let mut log = SourceLog::new(1);
        log.follow(&[0]);
        log.commit(&[(0, Change::Insert(1))]);
        log.follow(&[]);
        log.commit(&[(0, Change::Insert(2))]);
        log.follow(&[0]);
        log.commit(&[(0, Change::Insert(3))]);
        let followed: Vec<_> = log.transactions.iter().map(|t| log.is_followed(0, t)).collect();
        assert_eq!(followed, [false, false, true]);
        assert!(log.has_gap(0));
        log.forgive_gaps(&[0]);
        assert!(!log.has_gap(0));
    }
}

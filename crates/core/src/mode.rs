//! What a table in the lake holds: the rows of its source as they are, these and those that were deleted, or the log of their
//! changes.
//!
//! The latter two have columns beside the source's. They are no columns of the source's schema, which decoders and DDL go by:
//! [`TableSchema::in_lake`] adds them where rows are written.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray, TimestampMicrosecondArray, new_null_array};
use serde::{Deserialize, Serialize};

use crate::{Column, ColumnType, ColumnUse, NativeType, TableSchema};

/// What a table in the lake holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableMode {
    /// The rows that the source has.
    #[default]
    Upsert,
    /// The rows that the source has, and those that it had, with the time at which they were deleted.
    SoftDelete,
    /// Every change of a row, as a row.
    Append {
        /// An update is two rows: what the row was, and what it became.
        preimages: bool,
    },
}

impl TableMode {
    /// The words that a configuration has for them.
    pub const WORDS: [&str; 3] = ["upsert", "soft_delete", "append"];

    /// Whether rows are what the source has, and no others.
    pub fn is_upsert(&self) -> bool {
        matches!(self, Self::Upsert)
    }

    /// Whether every change stays.
    pub fn is_append(&self) -> bool {
        matches!(self, Self::Append { .. })
    }

    /// Names of the columns that tables have in the lake beside the source's.
    pub fn added_columns(self) -> impl Iterator<Item = &'static str> {
        self.added().iter().map(|(name, _)| *name)
    }

    fn added(self) -> &'static [(&'static str, ColumnType)] {
        match self {
            Self::Upsert => &[],
            Self::SoftDelete => std::slice::from_ref(&DELETED_AT),
            Self::Append { .. } => &LOG_COLUMNS,
        }
    }
}

impl std::fmt::Display for TableMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Upsert => "upsert",
            Self::SoftDelete => "soft_delete",
            Self::Append { preimages: false } => "append",
            Self::Append { preimages: true } => "append with preimages",
        })
    }
}

/// When a row was deleted; NULL of one that the source has.
const DELETED_AT: (&str, ColumnType) = ("_calve_deleted_at", ColumnType::TimestampTz);

/// The columns of a log beside the source's. What a transaction is called, and when it was committed, is not known of rows that
/// a load brought.
const LOG_COLUMNS: [(&str, ColumnType); 5] = [
    ("_calve_op", ColumnType::String),
    ("_calve_ordinal", ColumnType::Long),
    ("_calve_position", ColumnType::String),
    ("_calve_transaction", ColumnType::String),
    ("_calve_committed_at", ColumnType::TimestampTz),
];

/// What a row of a log says of itself in `_calve_op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogOp {
    /// It was there when the table was read.
    Read,
    /// It was inserted, or came to be by a change of its key.
    Insert,
    /// What an update made of it.
    Update,
    /// What it was before an update.
    UpdatePreimage,
    /// It went, or has another key from here on.
    Delete,
    /// All rows went. No cell of the source's columns says anything.
    Truncate,
}

impl LogOp {
    /// As the lake has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::UpdatePreimage => "update_preimage",
            Self::Delete => "delete",
            Self::Truncate => "truncate",
        }
    }
}

/// What a source knows of a transaction when its rows come, for tables that [want to know](TableSchema::wants_origins).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Where it stands in the source's log, as the source's own tools show it: `16/B374D848`, `binlog.000012:1234`.
    pub position: String,
    /// Its name: the number of a Postgres transaction, a GTID.
    pub transaction: Option<String>,
    /// When it was committed by the source's clock, microseconds since 1970-01-01 UTC.
    pub committed_at: i64,
}

/// The entries of a [`RowBuffer`](crate::RowBuffer) whose transactions matter to their table.
#[derive(Clone, Debug, Default)]
pub struct LogEntries {
    /// The number of the first entry among all changes of its table.
    pub first: u64,
    /// The transactions that the entries are of, each with the place of its first entry here. In order.
    pub transactions: Vec<(usize, Arc<Origin>)>,
}

impl LogEntries {
    /// Takes away the entries from `at` on.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        let kept = self.transactions.partition_point(|(first, _)| *first < at);
        let mut transactions: Vec<_> =
            self.transactions.split_off(kept).into_iter().map(|(first, origin)| (first - at, origin)).collect();
        // A transaction that is cut has entries on both sides.
        if transactions.first().is_none_or(|(first, _)| *first > 0)
            && let Some((_, origin)) = self.transactions.last()
        {
            transactions.insert(0, (0, Arc::clone(origin)));
        }
        Self { first: self.first + at as u64, transactions }
    }

    /// When the transaction was committed that an entry is of.
    ///
    /// # Panics
    /// When it is of none.
    pub fn committed_at(&self, entry: usize) -> i64 {
        let of = self.transactions.partition_point(|(first, _)| *first <= entry).checked_sub(1);
        let (_, origin) = &self.transactions[of.expect("every entry is of a transaction")];
        origin.committed_at
    }

    /// Forgets the transactions of entries from `at` on.
    pub(crate) fn truncate(&mut self, at: usize) {
        let kept = self.transactions.partition_point(|(first, _)| *first < at);
        self.transactions.truncate(kept);
    }
}

impl TableSchema {
    /// Whether the table is the log of its source's changes.
    pub fn keeps_log(&self) -> bool {
        self.mode.is_append()
    }

    /// Whether rows that the source deletes stay, as deleted ones.
    pub fn retires_rows(&self) -> bool {
        self.mode == TableMode::SoftDelete
    }

    /// Whether the table holds what is in no other place, so that reading it again loses something.
    pub fn keeps_history(&self) -> bool {
        !self.mode.is_upsert()
    }

    /// Whether the table says of transactions what only the source knows.
    pub fn wants_origins(&self) -> bool {
        self.keeps_history()
    }

    /// Whether an update says in it what the row was before. Where nothing tells rows apart it always does.
    pub fn keeps_preimages(&self) -> bool {
        self.mode == TableMode::Append { preimages: true } || (self.keeps_log() && self.key.is_empty())
    }

    /// Which columns are kept of a row as it was before a change, as places among `columns`: those of the key, in its order; of
    /// a log all of them.
    pub fn old_columns(&self) -> Vec<usize> {
        if self.keeps_log() { (0..self.columns.len()).collect() } else { self.key.clone() }
    }

    /// Where the columns of the key stand among [`old_columns`](Self::old_columns).
    pub fn old_key(&self) -> impl Iterator<Item = usize> {
        let in_full = self.keeps_log();
        self.key.iter().enumerate().map(move |(place, column)| if in_full { *column } else { place })
    }

    /// As the table is in the lake: without the columns that are left out, with those of its mode. A log has no key, and each of its
    /// columns is optional: a change says of a row what the source's log does.
    pub fn in_lake(&self) -> Cow<'_, Self> {
        let kept = self.kept();
        if self.mode.is_upsert() {
            return kept;
        }
        let keeps_log = self.keeps_log();
        let source =
            kept.columns.iter().map(|column| Column { nullable: column.nullable || keeps_log, ..column.clone() });
        let added = self.mode.added().iter().rev().zip(0_u32..).map(|((name, ty), place)| Column {
            id: u32::MAX - place,
            name: (*name).to_owned(),
            ty: ty.clone(),
            nullable: place < 3,
            native: NativeType::new(0, -1, "calve"),
            usage: ColumnUse::Values,
        });
        let mut added: Vec<Column> = added.collect();
        added.reverse();
        let key = if keeps_log { Vec::new() } else { kept.key.clone() };
        Cow::Owned(Self { columns: source.chain(added).collect(), key, ..self.clone() })
    }

    /// When the rows of a table that keeps deleted ones were deleted, as [`in_lake`](Self::in_lake) has it.
    pub fn deleted_cells(times: impl IntoIterator<Item = Option<i64>>) -> ArrayRef {
        Arc::new(times.into_iter().collect::<TimestampMicrosecondArray>().with_timezone("+00:00"))
    }

    /// What rows that a load brought have in the columns that [`in_lake`](Self::in_lake) adds.
    pub fn loaded_cells(&self, rows: usize) -> Vec<ArrayRef> {
        if !self.keeps_log() {
            return self.mode.added().iter().map(|(_, ty)| new_null_array(&ty.arrow_type(), rows)).collect();
        }
        let op = StringArray::from_iter_values(std::iter::repeat_n(LogOp::Read.word(), rows));
        let ordinal = Int64Array::from(vec![0; rows]);
        let nothing = |ty: &ColumnType| new_null_array(&ty.arrow_type(), rows);
        let [_, _, position, transaction, committed_at] = &LOG_COLUMNS;
        vec![Arc::new(op), Arc::new(ordinal), nothing(&position.1), nothing(&transaction.1), nothing(&committed_at.1)]
    }

    /// What rows of a log have in those columns: what became of each, and which of the entries it is of, ascending.
    ///
    /// # Panics
    /// When an entry is of no transaction.
    pub fn logged_cells(entries: &LogEntries, rows: &[(LogOp, usize)]) -> Vec<ArrayRef> {
        let op = StringArray::from_iter_values(rows.iter().map(|(op, _)| op.word()));
        let number = |entry: usize| i64::try_from(entries.first + entry as u64).unwrap_or(i64::MAX);
        let ordinal = Int64Array::from_iter_values(rows.iter().map(|(_, entry)| number(*entry)));
        let origins = || {
            let mut at = 0;
            rows.iter().map(move |(_, entry)| {
                while entries.transactions.get(at + 1).is_some_and(|(first, _)| first <= entry) {
                    at += 1;
                }
                &*entries.transactions.get(at).expect("every entry of a log is of a transaction").1
            })
        };
        let position = StringArray::from_iter_values(origins().map(|origin| &origin.position));
        let transaction: StringArray = origins().map(|origin| origin.transaction.as_deref()).collect();
        let committed_at = TimestampMicrosecondArray::from_iter_values(origins().map(|origin| origin.committed_at));
        vec![
            Arc::new(op),
            Arc::new(ordinal),
            Arc::new(position),
            Arc::new(transaction),
            Arc::new(committed_at.with_timezone("+00:00")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(name: &str) -> Arc<Origin> {
        Arc::new(Origin { position: name.to_owned(), transaction: None, committed_at: 0 })
    }

    fn shown(entries: &LogEntries) -> Vec<(usize, &str)> {
        entries.transactions.iter().map(|(first, origin)| (*first, origin.position.as_str())).collect()
    }

    #[test]
    fn a_cut_leaves_each_entry_its_transaction() {
        let entries =
            LogEntries { first: 10, transactions: vec![(0, origin("a")), (2, origin("b")), (5, origin("c"))] };
        for (at, before, after) in [
            (0, vec![], vec![(0, "a"), (2, "b"), (5, "c")]),
            (1, vec![(0, "a")], vec![(0, "a"), (1, "b"), (4, "c")]),
            (2, vec![(0, "a")], vec![(0, "b"), (3, "c")]),
            (3, vec![(0, "a"), (2, "b")], vec![(0, "b"), (2, "c")]),
            (6, vec![(0, "a"), (2, "b"), (5, "c")], vec![(0, "c")]),
        ] {
            let mut cut = entries.clone();
            let tail = cut.split_off(at);
            assert_eq!((shown(&cut), shown(&tail)), (before.clone(), after), "at {at}");
            assert_eq!((cut.first, tail.first), (10, 10 + at as u64));
            let mut truncated = entries.clone();
            truncated.truncate(at);
            assert_eq!(shown(&truncated), before, "at {at}");
        }
    }

    #[test]
    fn a_table_in_the_lake_has_the_columns_of_its_mode() {
        let column = |name: &str| Column {
            id: 1,
            name: name.to_owned(),
            ty: ColumnType::Int,
            nullable: false,
            native: NativeType::new(1, -1, "int"),
            usage: crate::ColumnUse::Values,
        };
        let schema = TableSchema::new(crate::TableName::new("shop", "t"), 1, vec![column("id")], vec![0]);
        assert_eq!(*schema.in_lake(), schema);
        let keeps_deleted = TableSchema { mode: TableMode::SoftDelete, ..schema.clone() };
        let in_lake = keeps_deleted.in_lake();
        let names: Vec<_> = in_lake.columns.iter().map(|column| (column.name.as_str(), column.nullable)).collect();
        assert_eq!((names, &in_lake.key), (vec![("id", false), ("_calve_deleted_at", true)], &vec![0]));
        let loaded = keeps_deleted.loaded_cells(2);
        assert_eq!((loaded.len(), loaded[0].null_count()), (1, 2));
        let deleted = TableSchema::deleted_cells([None, Some(7)]);
        assert_eq!(deleted.data_type(), loaded[0].data_type());
        assert_eq!(*deleted.data_type(), in_lake.columns[1].ty.arrow_type());
        let log = TableSchema { mode: TableMode::Append { preimages: false }, ..schema };
        let in_lake = log.in_lake();
        let names: Vec<_> = in_lake.columns.iter().map(|column| (column.name.as_str(), column.nullable)).collect();
        assert_eq!(
            names,
            [
                ("id", true),
                ("_calve_op", false),
                ("_calve_ordinal", false),
                ("_calve_position", true),
                ("_calve_transaction", true),
                ("_calve_committed_at", true)
            ]
        );
        assert!(in_lake.key.is_empty());
        assert_eq!(in_lake.columns[5].id, u32::MAX);
        for cells in [
            log.loaded_cells(2),
            TableSchema::logged_cells(
                &LogEntries { first: 3, transactions: vec![(0, origin("a"))] },
                &[(LogOp::UpdatePreimage, 0), (LogOp::Update, 0)],
            ),
        ] {
            let types: Vec<_> = cells.iter().map(|cells| (cells.data_type().clone(), cells.len())).collect();
            let wanted: Vec<_> = in_lake.columns[1..].iter().map(|column| (column.ty.arrow_type(), 2)).collect();
            assert_eq!(types, wanted);
        }
    }
}

//! Tables in the lake that are logs of their source's changes: what must stand in them, and the table that they tell of.

use calve_core::Lsn;

use super::source_log::{Change, Row, SourceLog};

/// A row of a log beside those that its load brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogRow {
    /// The number of its change.
    pub(crate) ordinal: i64,
    /// What became of the row.
    pub(crate) op: String,
    pub(crate) key: Option<i64>,
    pub(crate) value: Option<i64>,
}

/// What a row of a log says, whatever number it has.
pub(crate) type Said = (&'static str, Option<i64>, Option<i64>);

/// What the log of a table says of the transactions that end in (`low`, `high`].
pub(crate) fn expected(log: &SourceLog, table: usize, low: Lsn, high: Lsn) -> Vec<Said> {
    let mut said = Vec::new();
    let range = log.transactions_until(low)..log.transactions_until(high).max(log.transactions_until(low));
    for transaction in range.filter_map(|at| log.transaction(at)) {
        for logged in transaction.changes.iter().filter(|logged| logged.table == table) {
            let value = Some(logged.value);
            match logged.change {
                Change::Insert(key) => said.push(("insert", Some(key), value)),
                Change::Update(key) | Change::Unrepresentable(key) => said.push(("update", Some(key), value)),
                Change::Rekey(old, new) => {
                    said.push(("delete", Some(old), None));
                    said.push(("insert", Some(new), value));
                }
                Change::Delete(key) => said.push(("delete", Some(key), None)),
                Change::Truncate => said.push(("truncate", None, None)),
                Change::Alter => {}
                Change::Keep(_) | Change::Move(..) => unreachable!("values of a log are never left out here"),
            }
        }
    }
    said
}

/// In the order of the changes. Of those with one number the row that goes comes first.
pub(crate) fn in_order(rows: &mut [LogRow]) {
    rows.sort_by(|a, b| (a.ordinal, &a.op).cmp(&(b.ordinal, &b.op)));
}

/// Puts the changes on the rows that the load brought.
pub(crate) fn replay(rows: &mut Vec<Row>, log: &[LogRow]) {
    for change in log {
        match (change.op.as_str(), change.key, change.value) {
            ("insert", Some(key), Some(value)) => rows.push((key, value)),
            ("update", Some(key), Some(value)) => {
                for row in rows.iter_mut().filter(|(found, _)| *found == key) {
                    row.1 = value;
                }
            }
            ("delete", Some(key), None) => rows.retain(|(found, _)| *found != key),
            ("truncate", None, None) => rows.clear(),
            // Nothing that a log says: the rows will not be the source's.
            _ => rows.push((i64::MIN, i64::MIN)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_tells_of_its_table() {
        let mut log = SourceLog::new(1);
        log.commit(&[(0, Change::Insert(1)), (0, Change::Insert(2))]);
        let (low, mut rows) = (log.end(), log.rows_at(0, log.end()).to_vec());
        log.commit(&[(0, Change::Update(1)), (0, Change::Rekey(2, 3)), (0, Change::Delete(1)), (0, Change::Insert(1))]);
        log.commit(&[(0, Change::Rekey(3, 2)), (0, Change::Rekey(1, 3))]);
        let said = expected(&log, 0, low, log.end());
        let row = |(at, (op, key, value)): (i64, &Said)| {
            let (op, key, value) = ((*op).to_owned(), *key, *value);
            LogRow { ordinal: at, op, key, value }
        };
        assert_eq!(said.len(), 9);
        let mut all: Vec<_> = (0..).zip(&said).map(row).collect();
        all.reverse();
        in_order(&mut all);
        replay(&mut rows, &all);
        rows.sort_unstable();
        assert_eq!(rows, log.rows_at(0, log.end()));
        assert_eq!(expected(&log, 0, log.end(), log.end()), []);
    }
}

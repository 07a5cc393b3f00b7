//! Tables in the lake that keep deleted rows: which must stand in them.

use std::collections::BTreeMap;

use calve_core::Lsn;

use super::source_log::{Change, SourceLog};

/// A deleted row: key, the value that it had, and when it went.
pub(crate) type Retired = (i64, i64, i64);

/// When a transaction was committed, by the source's clock.
pub(crate) fn committed_at(commit: Lsn) -> i64 {
    i64::try_from(commit.0).unwrap_or(i64::MAX)
}

/// The rows deleted by transactions that end in (`low`, `high`] whose keys did not come again. By key.
pub(crate) fn expected(log: &SourceLog, table: usize, low: Lsn, high: Lsn) -> Vec<Retired> {
    let mut rows: BTreeMap<i64, i64> = log.rows_at(table, low).iter().copied().collect();
    let mut gone: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    let first = log.transactions_until(low);
    for transaction in (first..log.transactions_until(high).max(first)).filter_map(|at| log.transaction(at)) {
        let at = committed_at(transaction.commit);
        for logged in transaction.changes.iter().filter(|logged| logged.table == table) {
            let mut goes = |rows: &mut BTreeMap<i64, i64>, key: i64| {
                let value = rows.remove(&key);
                gone.extend(value.map(|value| (key, (value, at))));
                value
            };
            let (comes, value) = match logged.change {
                Change::Insert(key) | Change::Update(key) | Change::Unrepresentable(key) => (key, Some(logged.value)),
                Change::Rekey(old, new) => {
                    goes(&mut rows, old);
                    (new, Some(logged.value))
                }
                Change::Move(old, new) => {
                    let value = goes(&mut rows, old);
                    (new, value)
                }
                Change::Delete(key) => {
                    goes(&mut rows, key);
                    continue;
                }
                Change::Truncate => {
                    gone.extend(std::mem::take(&mut rows).into_iter().map(|(key, value)| (key, (value, at))));
                    continue;
                }
                Change::Keep(_) | Change::Alter => continue,
            };
            gone.remove(&comes);
            rows.extend(value.map(|value| (comes, value)));
        }
    }
    gone.into_iter().map(|(key, (value, at))| (key, value, at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_rows_stay_until_their_keys_come_again() {
        let mut log = SourceLog::new(1);
        log.commit(&[(0, Change::Insert(1)), (0, Change::Insert(2)), (0, Change::Insert(3))]);
        let low = log.end();
        log.commit(&[(0, Change::Delete(1)), (0, Change::Rekey(2, 4)), (0, Change::Update(3))]);
        let (first, middle) = (committed_at(log.transaction(1).unwrap().commit), log.end());
        assert_eq!(expected(&log, 0, low, middle), [(1, 1, first), (2, 2, first)]);
        log.commit(&[(0, Change::Insert(2)), (0, Change::Move(3, 1)), (0, Change::Truncate)]);
        let second = committed_at(log.transaction(2).unwrap().commit);
        assert_eq!(expected(&log, 0, low, log.end()), [(1, 6, second), (2, 7, second), (3, 6, second), (4, 5, second)]);
        assert_eq!(expected(&log, 0, middle, middle), []);
    }
}

//! Random transactions that are possible on the rows as they are.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::random::Random;
use super::source_log::{Change, SourceLog};

/// Keys are few, so that they meet again in every checkpoint.
const KEYS: u64 = 10;

/// A transaction over some of the tables; one in eight is large.
pub(crate) fn transaction(log: &SourceLog, random: &mut Random) -> Vec<(usize, Change)> {
    let mut rows: Vec<BTreeMap<i64, i64>> = (0..log.table_count()).map(|table| log.rows(table).clone()).collect();
    // Such sources send whole rows: what they read while they load is of no one position that a value could be looked up at.
    // And a log does not look values up, nor is a row there to be found that was not chosen.
    let leaves_out = |table: usize| !log.drifts && !log.keeps_log(table) && !log.is_chosen(table);
    let length = if random.chance(12) { 8 + random.below(12) } else { 1 + random.below(4) };
    let mut changes = Vec::new();
    for _ in 0..length {
        let table = random.index(rows.len());
        if rows[table].len() >= 2 && random.chance(8) {
            let leaves_out = leaves_out(table) && random.chance(50);
            swap(table, &mut rows[table], random, leaves_out, &mut changes);
            continue;
        }
        let mut change = change(&mut rows[table], random, leaves_out(table));
        // The column that rows are chosen by.
        if log.is_chosen(table) && change == Change::Alter {
            change = rows[table].keys().next().map_or(Change::Truncate, |key| Change::Update(*key));
        }
        changes.push((table, change));
    }
    changes
}

fn change(rows: &mut BTreeMap<i64, i64>, random: &mut Random, leaves_out: bool) -> Change {
    let key = random.below(KEYS).cast_signed();
    if let Entry::Vacant(vacant) = rows.entry(key) {
        vacant.insert(0);
        return Change::Insert(key);
    }
    match random.below(20) {
        0..4 if leaves_out => Change::Keep(key),
        0..9 => Change::Update(key),
        9..14 => {
            rows.remove(&key);
            Change::Delete(key)
        }
        14 => Change::Alter,
        15..19 => {
            let new = random.below(KEYS).cast_signed();
            if rows.contains_key(&new) {
                return Change::Update(key);
            }
            rows.remove(&key);
            rows.insert(new, 0);
            if leaves_out && random.chance(50) { Change::Move(key, new) } else { Change::Rekey(key, new) }
        }
        _ => {
            rows.clear();
            Change::Truncate
        }
    }
}

/// Two keys change places, by way of a third that never stays.
fn swap(
    table: usize,
    rows: &mut BTreeMap<i64, i64>,
    random: &mut Random,
    leaves_out: bool,
    changes: &mut Vec<(usize, Change)>,
) {
    let keys: Vec<i64> = rows.keys().copied().collect();
    let first = keys[random.index(keys.len())];
    let second = keys[random.index(keys.len())];
    if first != second {
        for (old, new) in [(first, -1), (second, first), (-1, second)] {
            changes.push((table, if leaves_out { Change::Move(old, new) } else { Change::Rekey(old, new) }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_change_appears_and_is_possible() {
        let (mut log, mut random) = (SourceLog::new(3), Random::new(1));
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..400 {
            let changes = transaction(&log, &mut random);
            for (_, change) in &changes {
                seen.insert(format!("{change:?}").split('(').next().unwrap_or_default().to_owned());
            }
            log.commit(&changes);
        }
        assert_eq!(
            seen.into_iter().collect::<Vec<_>>(),
            ["Alter", "Delete", "Insert", "Keep", "Move", "Rekey", "Truncate", "Update"]
        );
    }
}

//! The invariants of the protocol, looked at whenever something changed that they speak of.
//!
//! I1: at every stamped snapshot a table's rows are the source's at the stamped position, and no key is ever doubled.
//! I2: the source was told to forget nothing that the lake does not record as complete, nor what a running table lacks.
//! I3: every running table is complete up to every completeness that names it.
//! I4: once faults stop, everything catches up by itself (see [`run`](super::run)).
//! I5: no snapshot references a file that is gone, or that a loss of power would take.
//! I6: a process that was always alone never finds a foreign hand (see [`run`](super::run)).

use std::collections::BTreeMap;

use calve_core::{Lsn, MemberDigest, TableName};

use super::source_log::{Row, lsn, table_name};
use super::world::World;

/// What checking has to remember.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    files: u64,
    /// Which tables a digest names, for every set of the simulated tables.
    sets: BTreeMap<MemberDigest, Vec<TableName>>,
}

impl Checker {
    /// Numbers a file.
    pub(crate) fn count_file(&mut self) -> u64 {
        self.files += 1;
        self.files
    }

    fn members(&mut self, tables: usize, digest: &MemberDigest) -> &[TableName] {
        if self.sets.is_empty() {
            for bits in 0..1_usize << tables {
                let set: Vec<_> = (0..tables).filter(|index| bits >> index & 1 == 1).map(table_name).collect();
                self.sets.insert(MemberDigest::of(&set), set);
            }
        }
        self.sets.get(digest).map_or(&[], Vec::as_slice)
    }
}

impl World {
    /// I1 and I5 for a snapshot just made.
    pub(crate) fn check_snapshot(&mut self, name: &TableName, snapshot: u64) {
        let table = &self.lake.tables[name];
        let lacking = table.files(snapshot).find(|path| !self.disk.is_durable(path));
        if let Some(file) = lacking {
            let what = format!("I5: snapshot {snapshot} of {name} references {file}, which is not durably there");
            return self.violate(what);
        }
        let rows = table.live_rows(snapshot, &self.disk);
        if let Some(pair) = rows.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let what = format!("I1: snapshot {snapshot} of {name} holds key {} twice: {pair:?}", pair[0].0);
            return self.violate(what);
        }
        let Some(stamp) = &table.snapshots[&snapshot].stamp else { return };
        let Some(index) = self.log.index_of(name) else { return };
        let expected = self.log.rows_at(index, lsn(&stamp.position));
        if rows != expected {
            let what = format!(
                "I1: snapshot {snapshot} of {name}, stamped {}: {}\n   expected {expected:?}\n   got      {rows:?}",
                stamp.position,
                difference(expected, &rows)
            );
            self.violate(what);
        }
    }

    /// I3, and I2 again since completeness moved.
    pub(crate) fn check_completeness(&mut self) {
        let tables = self.log.table_count();
        let mut broken = None;
        for holder in self.lake.tables.values() {
            for complete in &holder.complete_to {
                for member in self.checker.members(tables, &complete.members) {
                    let Some(table) = self.lake.tables.get(member) else { continue };
                    let (Some(stamp), None) = (&table.stamp, &table.stopped) else { continue };
                    let Some(index) = self.log.index_of(member) else { continue };
                    if self.log.changed(index, lsn(&stamp.position), lsn(&complete.position)) {
                        broken = Some(format!(
                            "I3: completeness up to {} names {member}, which is at {} and lacks changes",
                            complete.position, stamp.position
                        ));
                    }
                }
            }
        }
        if let Some(broken) = broken {
            self.violate(broken);
        }
        self.check_acknowledged();
    }

    /// I2.
    pub(crate) fn check_acknowledged(&mut self) {
        let Some(slot) = &self.log.slot else { return };
        let (confirmed, created) = (slot.confirmed, slot.created);
        if confirmed > created && confirmed > self.greatest_complete() {
            let what = format!(
                "I2: acknowledged {confirmed}, the lake records completeness up to {}",
                self.greatest_complete()
            );
            return self.violate(what);
        }
        if confirmed == created {
            return;
        }
        let lacking = self.lake.tables.iter().find_map(|(name, table)| {
            let (Some(stamp), None) = (&table.stamp, &table.stopped) else { return None };
            let index = self.log.index_of(name)?;
            let from = lsn(&stamp.position);
            self.log.changed(index, from, confirmed).then_some((name, from))
        });
        if let Some((name, from)) = lacking {
            let what = format!("I2: acknowledged {confirmed}, but {name} runs, is at {from}, and lacks changes");
            self.violate(what);
        }
    }

    /// The greatest completeness anywhere in the lake.
    pub(crate) fn greatest_complete(&self) -> Lsn {
        let completes = self.lake.tables.values().flat_map(|table| &table.complete_to);
        completes.map(|complete| lsn(&complete.position)).max().unwrap_or_default()
    }

    /// I5 for everything, after files went.
    pub(crate) fn check_files(&mut self) {
        let missing = self.lake.tables.iter().find_map(|(name, table)| {
            table.snapshots.keys().find_map(|&snapshot| {
                let file = table.files(snapshot).find(|path| self.disk.read(path).is_none())?;
                Some(format!("I5: snapshot {snapshot} of {name} references {file}, which is gone"))
            })
        });
        if let Some(missing) = missing {
            self.violate(missing);
        }
    }

    /// Why not everything of these tables is in the lake, or None where it is. `acknowledged`: the slot has followed too.
    pub(crate) fn behind(&self, tables: usize, acknowledged: bool) -> Option<String> {
        for index in 0..tables {
            let name = table_name(index);
            let Some(table) = self.lake.tables.get(&name) else { return Some(format!("{name} does not exist")) };
            if let Some(mark) = &table.stopped {
                return Some(format!("{name} is stopped: {}", mark.reason));
            }
            let (Some(_), Some(main)) = (&table.stamp, table.main) else {
                return Some(format!("{name} was never loaded"));
            };
            let (rows, expected) = (table.live_rows(main, &self.disk), self.log.rows_at(index, self.log.end()));
            if rows != expected {
                return Some(format!("{name} differs from the source: {}", difference(expected, &rows)));
            }
        }
        match &self.log.slot {
            None => Some("there is no slot".to_owned()),
            Some(slot) if acknowledged && slot.confirmed < self.log.end() => {
                Some(format!("the slot is at {}, the log ends at {}", slot.confirmed, self.log.end()))
            }
            Some(_) => None,
        }
    }
}

/// What two sorted multisets of rows do not have in common.
fn difference(expected: &[Row], got: &[Row]) -> String {
    let only = |a: &[Row], b: &[Row]| {
        let mut rest = b.to_vec();
        let mut only = a.to_vec();
        only.retain(|row| match rest.iter().position(|other| other == row) {
            Some(found) => {
                rest.swap_remove(found);
                false
            }
            None => true,
        });
        only
    };
    format!("missing {:?}, surplus {:?}", only(expected, got), only(got, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_counts_doubled_rows() {
        assert_eq!(
            difference(&[(1, 1), (2, 2)], &[(1, 1), (1, 1), (3, 3)]),
            "missing [(2, 2)], surplus [(1, 1), (3, 3)]"
        );
    }
}

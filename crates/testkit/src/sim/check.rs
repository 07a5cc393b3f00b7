//! The invariants of the protocol, looked at whenever something changed that they speak of.
//!
//! I1: at every stamped snapshot a table's rows are the source's at the stamped position, as far as they are chosen, its schema is the one stamped, and no
//! key is ever doubled.
//! Of a log of changes these are the rows that it tells of, and beside what its load brought it says of every change since what
//! the source's log does, once and in order. A table that keeps deleted rows has, of those that went since its load, each as it was
//! last, unless its key came again.
//! I2: the source was told to forget nothing that the lake does not record as complete, nor what a running table lacks.
//! I3: every running table is complete up to every completeness that names it.
//! I4: once faults stop, everything catches up by itself (see [`run`](super::run)).
//! I5: no snapshot references a file that is gone, or that a loss of power would take.
//! I6: a process that was always alone never finds a foreign hand (see [`run`](super::run)).

use std::collections::BTreeMap;

use calve_core::{CheckpointId, Lsn, MemberDigest, TableName};

use super::change_log;
use super::retired::{self, Retired};
use super::source_log::{Row, lsn, table_name};
use super::world::World;

/// What checking has to remember.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    files: u64,
    /// Which tables a digest names, each by its load: every set of the tables as the loads seen so far have made them.
    sets: BTreeMap<MemberDigest, Vec<Member>>,
}

/// A table and the load that its rows began with.
type Member = (TableName, CheckpointId);

impl Checker {
    /// Numbers a file.
    pub(crate) fn count_file(&mut self) -> u64 {
        self.files += 1;
        self.files
    }

    /// The digest's members; `now` are all loaded tables as they are.
    fn members(&mut self, now: &[Member], digest: &MemberDigest) -> &[Member] {
        if !self.sets.contains_key(digest) {
            for bits in 0..1_usize << now.len() {
                let set: Vec<_> =
                    (0..now.len()).filter(|index| bits >> index & 1 == 1).map(|i| now[i].clone()).collect();
                self.sets.insert(MemberDigest::of(set.iter().map(|(table, load)| (table, *load))), set);
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
        let retired = table.retired(snapshot, &self.disk);
        let mut keys: Vec<i64> = rows.iter().map(|row| row.0).chain(retired.iter().map(|row| row.0)).collect();
        keys.sort_unstable();
        if let Some([key, _]) = keys.array_windows::<2>().find(|[one, other]| one == other) {
            let what =
                format!("I1: snapshot {snapshot} of {name} holds key {key} twice: rows {rows:?}, deleted {retired:?}");
            return self.violate(what);
        }
        let Some(stamp) = &table.snapshots[&snapshot].stamp else { return };
        let Some(index) = self.log.index_of(name) else { return };
        let expected = self.log.chosen_rows_at(index, lsn(&stamp.position));
        if rows != expected {
            let what = format!(
                "I1: snapshot {snapshot} of {name}, stamped {}: {}\n   expected {expected:?}\n   got      {rows:?}",
                stamp.position,
                difference(&expected, &rows)
            );
            return self.violate(what);
        }
        if stamp.schema.keeps_log()
            && let Some(load) = table.loaded_at(stamp)
        {
            let expected = change_log::expected(&self.log, index, lsn(&load.position), lsn(&stamp.position));
            let rows = table.log_rows(snapshot, &self.disk);
            let got: Vec<_> = rows.iter().map(|row| (row.op.as_str(), row.key, row.value)).collect();
            if got != expected {
                let what = format!(
                    "I1: the log in snapshot {snapshot} of {name}, loaded at {} and stamped {}, is not the source's\n   \
                     expected {expected:?}\n   got      {rows:?}",
                    load.position, stamp.position
                );
                return self.violate(what);
            }
        }
        if stamp.schema.retires_rows()
            && let Some(load) = table.loaded_at(stamp)
        {
            let loaded = lsn(&load.position);
            let expected = retired::expected(&self.log, index, loaded, lsn(&stamp.position));
            // Where loads drift, changes are part of them that came while they were read, and what these took may stay.
            let since = |row: &Retired| !self.log.drifts || row.2 > retired::committed_at(loaded);
            let got: Vec<Retired> = retired.into_iter().filter(since).collect();
            if got != expected {
                let what = format!(
                    "I1: the deleted rows in snapshot {snapshot} of {name}, loaded at {loaded} and stamped {}, are not the \
                     source's\n   expected {expected:?}\n   got      {got:?}",
                    stamp.position
                );
                return self.violate(what);
            }
        }
        let schema = self.log.schema_at(index, lsn(&stamp.position));
        if stamp.schema != *schema {
            let what = format!(
                "I1: snapshot {snapshot} of {name}, stamped {}, says its schema is {:?}, and it was {:?}",
                stamp.position, stamp.schema.columns, schema.columns
            );
            self.violate(what);
        }
    }

    /// I3, and I2 again since completeness moved.
    pub(crate) fn check_completeness(&mut self) {
        let loaded =
            self.lake.tables.iter().filter_map(|(name, table)| Some((name.clone(), table.stamp.as_ref()?.load)));
        let loaded: Vec<Member> = loaded.collect();
        let mut broken = None;
        for holder in self.lake.tables.values() {
            for complete in &holder.complete_to {
                for (member, load) in self.checker.members(&loaded, &complete.members) {
                    let Some(table) = self.lake.tables.get(member) else { continue };
                    let (Some(stamp), None) = (&table.stamp, &table.stopped) else { continue };
                    // Read again since: what was said of it before does not speak for it any more.
                    if stamp.load != *load {
                        continue;
                    }
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
        // A late request of an earlier process may publish a table behind this; the next start reads it again.
        if confirmed == created || self.foreign_possible {
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
            // A mark of another process that landed while this one streams counts at the next start.
            if let Some(mark) = table.stopped.as_ref().filter(|_| !self.foreign_possible) {
                return Some(format!("{name} is stopped: {}", mark.reason));
            }
            let (Some(_), Some(main)) = (&table.stamp, table.main) else {
                return Some(format!("{name} was never loaded"));
            };
            let (rows, expected) = (table.live_rows(main, &self.disk), self.log.chosen_rows_at(index, self.log.end()));
            if rows != expected {
                return Some(format!("{name} differs from the source: {}", difference(&expected, &rows)));
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
    use std::sync::Arc;

    use calve_core::{CheckpointId, CompleteTo, Position, SourceIdentity, StagedDelta, Stamp, TableCommit};
    use uuid::Uuid;

    use super::super::disk::Content;
    use super::super::faults::Plan;
    use super::super::lake::{Catalog, DeltaFiles, LakeState};
    use super::super::random::Random;
    use super::super::scenario::Pace;
    use super::super::source_log::{Change, Slot, SourceLog};
    use super::*;

    /// A world whose table `a` was committed as it is at the end of the log, by a file of these rows.
    fn world(rows: &[Row], synced: bool) -> World {
        let mut log = SourceLog::new(2);
        log.commit(&[(0, Change::Insert(1)), (1, Change::Insert(1))]);
        log.slot =
            Some(Slot { created: Lsn(0), confirmed: Lsn(0), owner: None, busy_until: std::time::Duration::ZERO });
        let mut lake = LakeState::new(Catalog::Sql);
        assert!(lake.create(log.schema(0)) && lake.create(log.schema(1)));
        let pace = Pace { varies: false, pieces: 1, load_rows: 1 };
        let mut world = World::new(log, lake, pace, Plan::default(), Random::new(0), false);
        world.disk.write("file", Content::Data(rows.to_vec()));
        if synced {
            world.disk.sync("file");
        }
        let files = DeltaFiles { data: vec!["file".to_owned()], deletes: Vec::new() };
        let delta = StagedDelta {
            replace: true,
            reshapes: false,
            rows: rows.len() as u64,
            deletes: 0,
            nulled: 0,
            clamped: 0,
            changes: 0,
            bytes: 0,
            files: files.data.clone(),
            body: serde_json::to_value(files).unwrap(),
        };
        let stamp = Stamp {
            checkpoint: CheckpointId(Uuid::from_u128(1)),
            position: Position::Postgres(world.log.end()),
            schema: Arc::clone(world.log.schema(0)),
            source: SourceIdentity(String::new()),
            load: CheckpointId(Uuid::from_u128(1)),
            changes: 0,
        };
        commit(&mut world, &TableCommit { deltas: vec![delta], stamp: Some(stamp), ..TableCommit::default() });
        world
    }

    fn commit(world: &mut World, commit: &TableCommit) {
        let name = table_name(0);
        let version = world.lake.describe(&name).unwrap().version;
        world.commit(&name, &version, commit).unwrap();
    }

    fn claim(world: &mut World, position: Lsn) {
        let members = MemberDigest::of([(&table_name(0), CheckpointId(Uuid::from_u128(1)))]);
        let complete_to = Some(CompleteTo { members, position: Position::Postgres(position) });
        commit(world, &TableCommit { complete_to, ..TableCommit::default() });
    }

    fn broken(world: &World) -> &str {
        world.violation.as_deref().unwrap_or("nothing")
    }

    #[test]
    fn a_right_commit_breaks_nothing() {
        let mut world = world(&[(1, 1)], true);
        let end = world.log.end();
        claim(&mut world, end);
        world.log.slot.as_mut().unwrap().confirmed = end;
        world.check_acknowledged();
        world.lose_power();
        assert_eq!(broken(&world), "nothing");
    }

    #[test]
    fn wrong_and_doubled_rows_are_noticed() {
        assert!(broken(&world(&[(1, 7)], true)).starts_with("I1: snapshot 1 of sim.a, stamped"));
        assert!(broken(&world(&[], true)).contains("missing [(1, 1)]"));
        assert!(broken(&world(&[(1, 1), (1, 1)], true)).contains("holds key 1 twice"));
    }

    #[test]
    fn files_that_are_not_durable_or_gone_are_noticed() {
        assert!(broken(&world(&[(1, 1)], false)).starts_with("I5"));
        let mut world = world(&[(1, 1)], true);
        world.disk.remove("file");
        world.check_files();
        assert!(broken(&world).starts_with("I5"));
    }

    #[test]
    fn completeness_beyond_a_table_is_noticed() {
        let mut world = world(&[(1, 1)], true);
        world.log.commit(&[(1, Change::Update(1))]);
        let quiet = world.log.end();
        claim(&mut world, quiet);
        assert_eq!(broken(&world), "nothing", "nothing of the table changed up to there");
        world.log.commit(&[(0, Change::Update(1))]);
        let changed = world.log.end();
        claim(&mut world, changed);
        assert!(broken(&world).starts_with("I3"));
    }

    #[test]
    fn acknowledging_beyond_the_lake_is_noticed() {
        let mut world = world(&[(1, 1)], true);
        world.log.slot.as_mut().unwrap().confirmed = world.log.end();
        world.check_acknowledged();
        assert!(broken(&world).starts_with("I2"), "the stamp alone lets nothing go");
    }

    #[test]
    fn what_is_behind_is_named() {
        let world = world(&[(1, 1)], true);
        assert_eq!(world.behind(1, false), None);
        assert!(world.behind(1, true).is_some_and(|why| why.contains("the slot is at 0/0")));
        assert!(world.behind(2, false).is_some_and(|why| why.contains("sim.b was never loaded")));
    }

    #[test]
    fn a_difference_counts_doubled_rows() {
        assert_eq!(
            difference(&[(1, 1), (2, 2)], &[(1, 1), (1, 1), (3, 3)]),
            "missing [(2, 2)], surplus [(1, 1), (3, 3)]"
        );
    }
}

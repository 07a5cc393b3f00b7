//! The tables in the lake as Iceberg keeps them: snapshots of data files and equality-delete files by sequence number.
//!
//! Deletes are really applied when a table is read, so that a wrong fold, a merged checkpoint or a missing delete shows as
//! a doubled or a lost row.

use std::collections::{BTreeMap, BTreeSet};

use calve_core::{
    CheckpointId, CommitReceipt, CompleteTo, LakeTable, LakeVersion, MemberDigest, StagedDelta, Stamp, StopMark,
    TableCommit, TableName, TableSchema,
};
use serde::{Deserialize, Serialize};

use super::change_log::{LogRow, in_order, replay};
use super::disk::{Content, Disk};
use super::retired::Retired;
use super::source_log::Row;

/// What the simulated writer puts into [`StagedDelta::body`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeltaFiles {
    pub(crate) data: Vec<String>,
    pub(crate) deletes: Vec<String>,
}

/// Which commits a table's version tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Catalog {
    /// The metadata's location: any commit makes another version.
    Sql,
    /// The main branch's snapshot: a commit of properties only leaves the version. A snapshot that is main once more after
    /// the branch was moved back counts as another: who relies on the snapshot's id alone lets a late request in there.
    Rest,
}

/// One snapshot: its files with their sequence numbers, and the stamp in its summary.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) parent: Option<u64>,
    pub(crate) stamp: Option<Stamp>,
    files: Vec<(String, u64)>,
}

/// A table in the catalog.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) snapshots: BTreeMap<u64, Snapshot>,
    pub(crate) main: Option<u64>,
    metadata: u64,
    /// How often main was moved back.
    moved_back: u64,
    sequence: u64,
    pub(crate) stamp: Option<Stamp>,
    pub(crate) complete_to: Vec<CompleteTo>,
    pub(crate) member_of: BTreeSet<MemberDigest>,
    pub(crate) stopped: Option<StopMark>,
}

/// The catalog.
#[derive(Clone, Debug)]
pub(crate) struct LakeState {
    catalog: Catalog,
    pub(crate) tables: BTreeMap<TableName, Table>,
    snapshots: u64,
}

/// Why a commit was not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    NoSuchTable,
    VersionMoved,
}

impl LakeState {
    pub(crate) fn new(catalog: Catalog) -> Self {
        Self { catalog, tables: BTreeMap::new(), snapshots: 0 }
    }

    /// Creates an empty table; false where it exists.
    pub(crate) fn create(&mut self, schema: &TableSchema) -> bool {
        if self.tables.contains_key(&schema.table) {
            return false;
        }
        let table = Table {
            snapshots: BTreeMap::new(),
            main: None,
            metadata: 0,
            moved_back: 0,
            sequence: 0,
            stamp: None,
            complete_to: Vec::new(),
            member_of: BTreeSet::new(),
            stopped: None,
        };
        self.tables.insert(schema.table.clone(), table);
        true
    }

    /// What the table says of itself.
    pub(crate) fn describe(&self, name: &TableName) -> Option<LakeTable> {
        let table = self.tables.get(name)?;
        Some(LakeTable {
            version: self.version(table),
            stamp: table.stamp.clone(),
            rolled_back: table.is_rolled_back(),
            complete_to: table.complete_to.clone(),
            member_of: table.member_of.clone(),
            stopped: table.stopped.clone(),
        })
    }

    fn version(&self, table: &Table) -> LakeVersion {
        match self.catalog {
            Catalog::Sql => LakeVersion(format!("metadata-{}", table.metadata)),
            Catalog::Rest => {
                let main = table.main.map_or("empty".to_owned(), |main| format!("snapshot-{main}"));
                LakeVersion(if table.moved_back > 0 { format!("{main}/{}", table.moved_back) } else { main })
            }
        }
    }

    /// Compare-and-swap. Returns the receipt and the snapshots made.
    pub(crate) fn commit(
        &mut self,
        name: &TableName,
        version: &LakeVersion,
        commit: &TableCommit,
    ) -> Result<(CommitReceipt, Vec<u64>), Refused> {
        let mut table = self.tables.get(name).ok_or(Refused::NoSuchTable)?.clone();
        if self.version(&table) != *version {
            return Err(Refused::VersionMoved);
        }
        table.metadata += 1;
        let mut made = Vec::new();
        let empty = [StagedDelta {
            replace: false,
            reshapes: false,
            rows: 0,
            deletes: 0,
            nulled: 0,
            clamped: 0,
            changes: 0,
            bytes: 0,
            files: Vec::new(),
            body: serde_json::Value::Null,
        }];
        let deltas = if commit.deltas.is_empty() && commit.stamp.is_some() { &empty[..] } else { &commit.deltas };
        for (index, delta) in deltas.iter().enumerate() {
            let stamp = commit.stamp.clone().filter(|_| index + 1 == deltas.len());
            self.snapshots += 1;
            table.push_snapshot(self.snapshots, delta, stamp);
            made.push(self.snapshots);
        }
        if let Some(stamp) = &commit.stamp {
            if table.stamp.as_ref().is_some_and(|old| old.load != stamp.load) {
                table.member_of.clear();
            }
            table.stamp = Some(stamp.clone());
        }
        let said = |c: &CompleteTo| commit.complete_to.as_ref().is_some_and(|new| new.position.covers(&c.position));
        let kept: BTreeSet<MemberDigest> = table.complete_to.iter().filter(|c| !said(c)).map(|c| c.members).collect();
        let left = |members: &MemberDigest| commit.leave.contains(members) && !kept.contains(members);
        table.complete_to.retain(|c| !left(&c.members));
        table.member_of.retain(|members| !left(members));
        table.member_of.extend(&commit.join);
        if let Some(new) = &commit.complete_to {
            table.complete_to.retain(|old| old.members != new.members || !new.position.covers(&old.position));
            table.complete_to.push(new.clone());
        }
        if let Some(stopped) = &commit.stop {
            table.stopped.clone_from(stopped);
        }
        let receipt = CommitReceipt { version: self.version(&table), complete_to: commit.complete_to.clone() };
        self.tables.insert(name.clone(), table);
        Ok((receipt, made))
    }

    /// Somebody else rewrites the live rows into one file.
    pub(crate) fn compact(&mut self, name: &TableName, disk: &mut Disk) {
        let Some(table) = self.tables.get_mut(name) else { return };
        let Some(main) = table.main else { return };
        // Rows of a log stay what they are in whatever files, so there is nothing to see of it.
        if !table.log_rows(main, disk).is_empty() {
            return;
        }
        self.snapshots += 1;
        let path = format!("foreign/{}/{}", name.name, self.snapshots);
        let retired = format!("{path}-retired");
        disk.write(&path, Content::Data(table.live_rows(main, disk)));
        disk.write(&retired, Content::Retired(table.retired(main, disk)));
        disk.sync(&path);
        disk.sync(&retired);
        table.metadata += 1;
        table.sequence += 1;
        let files = vec![(path, table.sequence), (retired, table.sequence)];
        table.snapshots.insert(self.snapshots, Snapshot { parent: Some(main), stamp: None, files });
        table.main = Some(self.snapshots);
    }

    /// Somebody else moves the main branch back to the stamped snapshot before; false where there is none.
    pub(crate) fn roll_back(&mut self, name: &TableName) -> bool {
        let Some(table) = self.tables.get_mut(name) else { return false };
        let mut stamped = table.ancestors().filter(|(_, snapshot)| snapshot.stamp.is_some()).map(|(id, _)| id);
        let Some(before) = stamped.nth(1) else { return false };
        drop(stamped);
        table.metadata += 1;
        table.moved_back += 1;
        table.main = Some(before);
        true
    }

    /// Whether any snapshot of any table references the file.
    pub(crate) fn references(&self, path: &str) -> bool {
        self.tables.values().flat_map(|table| table.snapshots.values()).any(|s| s.files.iter().any(|(f, _)| f == path))
    }
}

impl Table {
    fn push_snapshot(&mut self, id: u64, delta: &StagedDelta, stamp: Option<Stamp>) {
        self.sequence += 1;
        let mut files = match self.main {
            Some(main) if !delta.replace => self.snapshots[&main].files.clone(),
            _ => Vec::new(),
        };
        let new = delta.files_of_body();
        files.extend(new.data.into_iter().chain(new.deletes).map(|path| (path, self.sequence)));
        self.snapshots.insert(id, Snapshot { parent: self.main, stamp, files });
        self.main = Some(id);
    }

    /// From main back to the first snapshot.
    fn ancestors(&self) -> impl Iterator<Item = (u64, &Snapshot)> {
        let mut next = self.main;
        std::iter::from_fn(move || {
            let id = next?;
            let snapshot = self.snapshots.get(&id)?;
            next = snapshot.parent;
            Some((id, snapshot))
        })
    }

    pub(crate) fn is_rolled_back(&self) -> bool {
        let nearest = self.ancestors().find_map(|(_, snapshot)| snapshot.stamp.as_ref());
        let id = |stamp: &Stamp| -> CheckpointId { stamp.checkpoint };
        matches!((nearest, &self.stamp), (Some(nearest), Some(property)) if id(nearest) != id(property))
    }

    /// Files that a snapshot references.
    pub(crate) fn files(&self, snapshot: u64) -> impl Iterator<Item = &str> {
        self.snapshots[&snapshot].files.iter().map(|(path, _)| path.as_str())
    }

    /// The rows a reader sees at a snapshot. Sorted; a doubled row stands there twice.
    pub(crate) fn live_rows(&self, snapshot: u64, disk: &Disk) -> Vec<Row> {
        rows_of(&self.snapshots[&snapshot].files, disk)
    }

    /// The deleted rows that a reader sees at a snapshot. Sorted; a doubled row stands there twice.
    pub(crate) fn retired(&self, snapshot: u64, disk: &Disk) -> Vec<Retired> {
        retired_of(&self.snapshots[&snapshot].files, disk)
    }

    /// What stands in a log beside what its load brought, in the order of the changes.
    pub(crate) fn log_rows(&self, snapshot: u64, disk: &Disk) -> Vec<LogRow> {
        log_rows_of(&self.snapshots[&snapshot].files, disk)
    }

    /// The position that the load ended at which the table's rows began with, where its snapshot is known.
    pub(crate) fn loaded_at(&self, stamp: &Stamp) -> Option<&Stamp> {
        let stamps = self.snapshots.values().filter_map(|snapshot| snapshot.stamp.as_ref());
        stamps.into_iter().find(|found| found.checkpoint == stamp.load)
    }

    /// The rows a reader would see if these were committed as they are.
    pub(crate) fn rows_with(&self, staged: &[StagedDelta], disk: &Disk) -> Vec<Row> {
        rows_of(&self.files_with(staged), disk)
    }

    /// The deleted rows likewise.
    pub(crate) fn retired_with(&self, staged: &[StagedDelta], disk: &Disk) -> Vec<Retired> {
        retired_of(&self.files_with(staged), disk)
    }

    fn files_with(&self, staged: &[StagedDelta]) -> Vec<(String, u64)> {
        let mut files = self.main.map_or_else(Vec::new, |main| self.snapshots[&main].files.clone());
        for (sequence, delta) in (self.sequence + 1..).zip(staged) {
            if delta.replace {
                files.clear();
            }
            let new = delta.files_of_body();
            files.extend(new.data.into_iter().chain(new.deletes).map(|path| (path, sequence)));
        }
        files
    }
}

/// The rows in files with their sequence numbers: a row lives unless an equality delete of a greater one names its key. Missing
/// files hold nothing; their absence is checked elsewhere.
fn rows_of(files: &[(String, u64)], disk: &Disk) -> Vec<Row> {
    let deletes = Deletes::of(files, disk);
    let mut rows: Vec<Row> = Vec::new();
    for (path, sequence) in files {
        if let Some(Content::Data(data)) = disk.read(path) {
            rows.extend(data.iter().filter(|(key, _)| deletes.leave(*key, *sequence)));
        }
    }
    // A log is read as the table that it tells of.
    replay(&mut rows, &log_rows_of(files, disk));
    rows.sort_unstable();
    rows
}

fn retired_of(files: &[(String, u64)], disk: &Disk) -> Vec<Retired> {
    let deletes = Deletes::of(files, disk);
    let mut rows: Vec<Retired> = Vec::new();
    for (path, sequence) in files {
        if let Some(Content::Retired(retired)) = disk.read(path) {
            rows.extend(retired.iter().filter(|(key, ..)| deletes.leave(*key, *sequence)));
        }
    }
    rows.sort_unstable();
    rows
}

/// The newest equality delete of each key.
struct Deletes(BTreeMap<i64, u64>);

impl Deletes {
    fn of(files: &[(String, u64)], disk: &Disk) -> Self {
        let mut newest: BTreeMap<i64, u64> = BTreeMap::new();
        for (path, sequence) in files {
            if let Some(Content::Deletes(keys)) = disk.read(path) {
                for key in keys {
                    let latest = newest.entry(*key).or_default();
                    *latest = (*latest).max(*sequence);
                }
            }
        }
        Self(newest)
    }

    fn leave(&self, key: i64, sequence: u64) -> bool {
        self.0.get(&key).is_none_or(|deleted| *deleted <= sequence)
    }
}

fn log_rows_of(files: &[(String, u64)], disk: &Disk) -> Vec<LogRow> {
    let log = files.iter().filter_map(|(path, _)| match disk.read(path) {
        Some(Content::Log(rows)) => Some(rows.iter().cloned()),
        _ => None,
    });
    let mut log: Vec<LogRow> = log.flatten().collect();
    in_order(&mut log);
    log
}

/// Reads what the simulated writer put into a delta.
pub(crate) trait FilesOfBody {
    fn files_of_body(&self) -> DeltaFiles;
}

impl FilesOfBody for StagedDelta {
    fn files_of_body(&self) -> DeltaFiles {
        if self.body.is_null() {
            return DeltaFiles::default();
        }
        serde_json::from_value(self.body.clone()).expect("the engine hands a delta's body on as it was written")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use calve_core::{Lsn, Position, SourceIdentity, StopReason};
    use uuid::Uuid;

    use super::super::source_log::{SourceLog, table_name};
    use super::*;

    fn delta(disk: &mut Disk, name: &str, replace: bool, rows: &[Row], deletes: &[i64]) -> StagedDelta {
        let mut files = DeltaFiles::default();
        if !rows.is_empty() {
            let path = format!("{name}-data");
            disk.write(&path, Content::Data(rows.to_vec()));
            files.data.push(path);
        }
        if !deletes.is_empty() {
            let path = format!("{name}-deletes");
            disk.write(&path, Content::Deletes(deletes.to_vec()));
            files.deletes.push(path);
        }
        StagedDelta {
            replace,
            reshapes: false,
            rows: rows.len() as u64,
            deletes: deletes.len() as u64,
            nulled: 0,
            clamped: 0,
            changes: 0,
            bytes: 0,
            files: files.data.iter().chain(&files.deletes).cloned().collect(),
            body: serde_json::to_value(files).unwrap(),
        }
    }

    fn stamp(id: u128, position: u64) -> Stamp {
        Stamp {
            changes: 0,
            load: CheckpointId(Uuid::from_u128(0)),
            checkpoint: CheckpointId(Uuid::from_u128(id)),
            position: Position::Postgres(Lsn(position)),
            schema: Arc::clone(SourceLog::new(1).schema(0)),
            source: SourceIdentity("sim".to_owned()),
        }
    }

    fn lake(catalog: Catalog) -> (LakeState, Disk) {
        let mut lake = LakeState::new(catalog);
        assert!(lake.create(SourceLog::new(1).schema(0)) && !lake.create(SourceLog::new(1).schema(0)));
        (lake, Disk::default())
    }

    fn put(lake: &mut LakeState, commit: &TableCommit) {
        let name = table_name(0);
        let version = lake.describe(&name).unwrap().version;
        lake.commit(&name, &version, commit).unwrap();
    }

    fn main_rows(lake: &LakeState, disk: &Disk) -> Vec<Row> {
        let table = &lake.tables[&table_name(0)];
        table.live_rows(table.main.unwrap(), disk)
    }

    #[test]
    fn deletes_reach_rows_of_smaller_sequence_numbers_only() {
        let (mut lake, mut disk) = lake(Catalog::Sql);
        let first = delta(&mut disk, "1", false, &[(1, 10), (2, 20)], &[]);
        let second = delta(&mut disk, "2", false, &[(1, 11)], &[1, 2]);
        let third = delta(&mut disk, "3", false, &[(1, 12), (3, 30)], &[1]);
        put(&mut lake, &TableCommit { deltas: vec![first.clone()], stamp: Some(stamp(1, 1)), ..Default::default() });
        put(&mut lake, &TableCommit { deltas: vec![second, third], stamp: Some(stamp(2, 2)), ..Default::default() });
        assert_eq!(main_rows(&lake, &disk), [(1, 12), (3, 30)]);
        let stamps: Vec<_> = lake.tables[&table_name(0)].snapshots.values().map(|s| s.stamp.is_some()).collect();
        assert_eq!(stamps, [true, false, true], "only the last snapshot of a group is stamped");
        // The same rows once more without a delete are doubled, as a reader would see them.
        put(&mut lake, &TableCommit { deltas: vec![first], stamp: Some(stamp(3, 3)), ..Default::default() });
        assert_eq!(main_rows(&lake, &disk), [(1, 10), (1, 12), (2, 20), (3, 30)]);
    }

    #[test]
    fn two_checkpoints_merged_into_one_snapshot_double_a_row() {
        let (mut lake, mut disk) = lake(Catalog::Sql);
        let mut merged = delta(&mut disk, "1", false, &[(1, 10)], &[]);
        let second = delta(&mut disk, "2", false, &[(1, 11)], &[1]).files_of_body();
        let mut files = merged.files_of_body();
        files.data.extend(second.data);
        files.deletes.extend(second.deletes);
        merged.body = serde_json::to_value(files).unwrap();
        put(&mut lake, &TableCommit { deltas: vec![merged], stamp: Some(stamp(1, 1)), ..Default::default() });
        assert_eq!(main_rows(&lake, &disk), [(1, 10), (1, 11)]);
    }

    #[test]
    fn replace_and_compaction_and_rollback() {
        let (mut lake, mut disk) = lake(Catalog::Sql);
        let name = table_name(0);
        let first = delta(&mut disk, "1", false, &[(1, 10), (2, 20)], &[]);
        let second = delta(&mut disk, "2", false, &[], &[2]);
        let third = delta(&mut disk, "3", true, &[(7, 70)], &[]);
        put(&mut lake, &TableCommit { deltas: vec![first], stamp: Some(stamp(1, 1)), ..Default::default() });
        put(&mut lake, &TableCommit { deltas: vec![second], stamp: Some(stamp(2, 2)), ..Default::default() });
        lake.compact(&name, &mut disk);
        assert_eq!(main_rows(&lake, &disk), [(1, 10)]);
        assert!(!lake.describe(&name).unwrap().rolled_back, "a compaction moves nothing back");
        put(&mut lake, &TableCommit { deltas: vec![third], stamp: Some(stamp(3, 3)), ..Default::default() });
        assert_eq!(main_rows(&lake, &disk), [(7, 70)]);
        assert!(lake.roll_back(&name));
        let described = lake.describe(&name).unwrap();
        assert!(described.rolled_back && described.stamp == Some(stamp(3, 3)));
        assert_eq!(main_rows(&lake, &disk), [(1, 10)]);
    }

    #[test]
    fn a_commit_on_another_version_is_refused_whole() {
        for (catalog, properties_move) in [(Catalog::Sql, true), (Catalog::Rest, false)] {
            let (mut lake, mut disk) = lake(catalog);
            let name = table_name(0);
            let old = lake.describe(&name).unwrap().version;
            let mark = StopMark {
                at: None,
                reason: StopReason { state: "test".into(), detail: String::new(), remedy: String::new() },
            };
            put(&mut lake, &TableCommit { stop: Some(Some(mark)), ..Default::default() });
            let commit = TableCommit {
                deltas: vec![delta(&mut disk, "1", false, &[(1, 1)], &[])],
                stamp: Some(stamp(1, 1)),
                ..Default::default()
            };
            assert_eq!(lake.commit(&name, &old, &commit).is_err(), properties_move, "{catalog:?}");
            assert!(lake.describe(&name).unwrap().stopped.is_some());
            assert_eq!(lake.commit(&name, &LakeVersion("x".into()), &commit), Err(Refused::VersionMoved));
        }
    }

    #[test]
    fn completeness_is_never_lowered_and_leaves_with_its_set() {
        let (mut lake, _) = lake(Catalog::Sql);
        let name = table_name(0);
        let (set, other) = (MemberDigest::of([(&name, stamp(1, 1).load)]), MemberDigest::of([]));
        let complete = |members, at| Some(CompleteTo { members, position: Position::Postgres(Lsn(at)) });
        put(&mut lake, &TableCommit { complete_to: complete(set, 5), join: [set].into(), ..Default::default() });
        put(&mut lake, &TableCommit { complete_to: complete(set, 3), ..Default::default() });
        put(&mut lake, &TableCommit { complete_to: complete(other, 4), ..Default::default() });
        let greatest = lake.describe(&name).unwrap().receipt(set).complete_to.unwrap().position;
        assert_eq!(greatest, Position::Postgres(Lsn(5)));
        // Somebody who knows less of the set does not take away what is recorded of it.
        for (at, members) in [(4, 1), (5, 0)] {
            let commit = TableCommit { complete_to: complete(other, at), leave: [set].into(), ..Default::default() };
            put(&mut lake, &commit);
            let described = lake.describe(&name).unwrap();
            assert_eq!(described.member_of.len(), members);
            assert_eq!(described.receipt(set).complete_to.is_some(), members == 1);
        }
    }
}

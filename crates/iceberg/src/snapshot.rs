//! A chain of snapshots being built for one catalog commit.
//!
//! Each snapshot lists its parent's manifests with the sequence numbers they were given, takes the next sequence number,
//! and a time after its parent's; totals roll from one summary to the next.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use calve_core::Result;
use iceberg::spec::{ManifestFile, Operation, SchemaRef, Snapshot, Summary, TableMetadata};
use uuid::Uuid;

use crate::delta::{FileTotals, StagedManifest};
use crate::manifests::{ManifestStore, is_live};

const TOTAL_DATA_FILES: &str = "total-data-files";
const TOTAL_DELETE_FILES: &str = "total-delete-files";
const TOTAL_RECORDS: &str = "total-records";
const TOTAL_FILES_SIZE: &str = "total-files-size";
const TOTAL_POSITION_DELETES: &str = "total-position-deletes";
const TOTAL_EQUALITY_DELETES: &str = "total-equality-deletes";

/// What a snapshot's summary says the whole table holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) data_files: u64,
    pub(crate) delete_files: u64,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) position_deletes: u64,
    pub(crate) equality_deletes: u64,
}

impl Totals {
    /// From a summary; None where another writer left them out.
    pub(crate) fn of(snapshot: &Snapshot) -> Option<Self> {
        let summary = &snapshot.summary().additional_properties;
        let get = |key: &str| summary.get(key)?.parse().ok();
        Some(Self {
            data_files: get(TOTAL_DATA_FILES)?,
            delete_files: get(TOTAL_DELETE_FILES)?,
            records: get(TOTAL_RECORDS)?,
            bytes: get(TOTAL_FILES_SIZE)?,
            position_deletes: get(TOTAL_POSITION_DELETES)?,
            equality_deletes: get(TOTAL_EQUALITY_DELETES)?,
        })
    }

    fn plus(mut self, added: &FileTotals) -> Self {
        self.data_files += added.data_files;
        self.delete_files += added.delete_files();
        self.records += added.records;
        self.bytes += added.bytes;
        self.position_deletes += added.position_deletes;
        self.equality_deletes += added.equality_deletes;
        self
    }

    fn write(&self, summary: &mut HashMap<String, String>) {
        for (key, value) in [
            (TOTAL_DATA_FILES, self.data_files),
            (TOTAL_DELETE_FILES, self.delete_files),
            (TOTAL_RECORDS, self.records),
            (TOTAL_FILES_SIZE, self.bytes),
            (TOTAL_POSITION_DELETES, self.position_deletes),
            (TOTAL_EQUALITY_DELETES, self.equality_deletes),
        ] {
            summary.insert(key.to_owned(), value.to_string());
        }
    }
}

/// What one snapshot of the chain does.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    /// Everything the table held goes.
    pub(crate) replace: bool,
    /// Manifests of new files.
    pub(crate) manifests: &'a [StagedManifest],
    /// The spec they were written under.
    pub(crate) spec_id: i32,
    /// What is in those files.
    pub(crate) added: FileTotals,
    /// The table's schema from this snapshot on.
    pub(crate) schema: SchemaRef,
    /// What calve says in the summary.
    pub(crate) summary: HashMap<String, String>,
}

impl Change<'_> {
    /// One that adds no files.
    pub(crate) fn of(schema: SchemaRef) -> Self {
        let (manifests, added, summary) = (&[][..], FileTotals::default(), HashMap::new());
        Self { replace: false, manifests, spec_id: 0, added, schema, summary }
    }
}

/// The end of the chain so far.
#[derive(Debug)]
pub(crate) struct Chain {
    parent: Option<i64>,
    sequence_number: i64,
    timestamp_ms: i64,
    totals: Option<Totals>,
    manifests: Vec<ManifestFile>,
    /// Manifests of the base may be merged once, by the first snapshot that keeps them.
    merged: bool,
    taken_ids: Vec<i64>,
}

impl Chain {
    /// Begins at the table's current snapshot, which lists `manifests`.
    pub(crate) fn new(metadata: &TableMetadata, manifests: Vec<ManifestFile>) -> Self {
        let current = metadata.current_snapshot();
        Self {
            parent: current.map(|snapshot| snapshot.snapshot_id()),
            sequence_number: metadata.last_sequence_number(),
            timestamp_ms: metadata.last_updated_ms(),
            totals: current.map_or(Some(Totals::default()), |snapshot| Totals::of(snapshot)),
            manifests,
            merged: false,
            taken_ids: metadata.snapshots().map(|snapshot| snapshot.snapshot_id()).collect(),
        }
    }

    /// The snapshot at the end.
    pub(crate) fn head(&self) -> Option<i64> {
        self.parent
    }

    /// The manifests it lists.
    pub(crate) fn manifests(&self) -> &[ManifestFile] {
        &self.manifests
    }

    /// As [`manifests`](Self::manifests), at the end.
    pub(crate) fn into_manifests(self) -> Vec<ManifestFile> {
        self.manifests
    }

    /// Writes the next snapshot's manifest list and returns the snapshot.
    pub(crate) async fn add(&mut self, change: Change<'_>, store: &mut ManifestStore<'_>) -> Result<Snapshot> {
        let snapshot_id = self.new_id();
        self.sequence_number += 1;
        self.timestamp_ms = now_ms().max(self.timestamp_ms + 1);

        let carried = std::mem::take(&mut self.manifests).into_iter().filter(is_live).collect::<Vec<_>>();
        let mut removed = FileTotals::default();
        let mut manifests = if change.replace {
            let (deleted, counts) = store.delete_all(&carried, snapshot_id, self.sequence_number).await?;
            removed = counts;
            deleted
        } else if self.merged {
            carried
        } else {
            store.merge(carried, &change.schema, snapshot_id, self.sequence_number).await?
        };
        self.merged = true;
        let new = change.manifests.iter();
        manifests.extend(new.map(|m| m.listed(change.spec_id, snapshot_id, self.sequence_number)));

        let before = if change.replace { Some(Totals::default()) } else { self.totals };
        self.totals = before.map(|totals| totals.plus(&change.added));
        let list = store.write_list(&manifests, snapshot_id, self.parent, self.sequence_number).await?;
        let snapshot = Snapshot::builder()
            .with_snapshot_id(snapshot_id)
            .with_parent_snapshot_id(self.parent)
            .with_sequence_number(self.sequence_number)
            .with_timestamp_ms(self.timestamp_ms)
            .with_manifest_list(list)
            .with_summary(self.summary(change.summary, &change.added, &removed))
            .with_schema_id(change.schema.schema_id())
            .build();
        self.parent = Some(snapshot_id);
        self.manifests = manifests;
        Ok(snapshot)
    }

    fn summary(&self, ours: HashMap<String, String>, added: &FileTotals, removed: &FileTotals) -> Summary {
        let mut properties = ours;
        for (key, value) in [
            ("added-data-files", added.data_files),
            ("added-records", added.records),
            ("added-delete-files", added.delete_files()),
            ("added-equality-delete-files", added.equality_delete_files),
            ("added-equality-deletes", added.equality_deletes),
            ("added-files-size", added.bytes),
            ("deleted-data-files", removed.data_files),
            ("deleted-records", removed.records),
            ("removed-delete-files", removed.delete_files()),
            ("removed-equality-delete-files", removed.equality_delete_files),
            ("removed-equality-deletes", removed.equality_deletes),
            ("removed-position-delete-files", removed.position_delete_files),
            ("removed-position-deletes", removed.position_deletes),
            ("removed-files-size", removed.bytes),
        ] {
            if value > 0 {
                properties.insert(key.to_owned(), value.to_string());
            }
        }
        if let Some(totals) = &self.totals {
            totals.write(&mut properties);
        }
        let (puts, takes) = (added.data_files > 0, added.delete_files() > 0 || *removed != FileTotals::default());
        let operation = match (puts, takes) {
            (_, false) => Operation::Append,
            (false, true) => Operation::Delete,
            (true, true) => Operation::Overwrite,
        };
        Summary { operation, additional_properties: properties }
    }

    fn new_id(&mut self) -> i64 {
        loop {
            let (high, low) = Uuid::new_v4().as_u64_pair();
            let id = (high ^ low).cast_signed() & i64::MAX;
            if id != 0 && !self.taken_ids.contains(&id) {
                self.taken_ids.push(id);
                return id;
            }
        }
    }
}

/// Milliseconds since 1970-01-01 UTC.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

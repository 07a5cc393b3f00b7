//! The files of a snapshot, and which deletes may matter to which data.

use calve_core::{Error, ErrorKind, Result, StagedDelta, TableName};
use futures::{StreamExt, TryStreamExt};
use iceberg::io::FileIO;
use iceberg::spec::{DataContentType, DataFileFormat, ManifestEntry, ManifestFile, SnapshotRef, Struct, TableMetadata};

use super::asked::Asked;
use super::deletes::KEY_BYTES;
use crate::delta::{self, DeltaBody, TableLayout};
use crate::manifests::{is_live, read_list, read_manifest};
use crate::partition;

/// Manifests read at a time.
const MANIFESTS_AT_A_TIME: usize = 8;

/// Where a file lies, and when it was added.
#[derive(Clone, Debug)]
pub(crate) struct PlannedFile {
    pub(crate) location: String,
    /// Its data sequence number: the order of changes.
    pub(crate) sequence: i64,
    pub(crate) rows: u64,
    /// Its partition spec and partition, in the widest types.
    pub(crate) partition: (i32, Struct),
}

/// A file of equality deletes.
#[derive(Clone, Debug)]
pub(crate) struct EqualityDeleteFile {
    pub(crate) file: PlannedFile,
    /// The columns compared, ascending.
    pub(crate) ids: Vec<i32>,
    /// Whether it counts for all partitions.
    pub(crate) global: bool,
}

/// The live files of a snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) data: Vec<PlannedFile>,
    pub(crate) equality_deletes: Vec<EqualityDeleteFile>,
    pub(crate) position_deletes: Vec<PlannedFile>,
}

impl Plan {
    /// Reads the snapshot's manifests; where keys are `asked` for, without the files that cannot matter to them.
    pub(crate) async fn read(
        table: &TableName,
        io: &FileIO,
        metadata: &TableMetadata,
        snapshot: &SnapshotRef,
        asked: Option<&Asked>,
    ) -> Result<Self> {
        let list = read_list(table, io, snapshot).await?;
        let mut plan = Self::default();
        plan.add_manifests(table, io, metadata, list, asked).await?;
        plan.drop_stale_deletes();
        Ok(plan)
    }

    /// The files of the table's present snapshot, and of what was staged on it; where keys are `asked` for, without those that cannot
    /// matter to them.
    pub(crate) async fn with_staged(
        layout: &TableLayout,
        metadata: &TableMetadata,
        staged: &[StagedDelta],
        asked: Option<&Asked>,
    ) -> Result<Self> {
        let (table, io) = (&layout.table, &layout.io);
        // Nothing before a replacement is there any more.
        let first = staged.iter().rposition(|delta| delta.replace).unwrap_or(0);
        let replaced = staged.get(first).is_some_and(|delta| delta.replace);
        let mut plan = match metadata.current_snapshot() {
            Some(snapshot) if !replaced => Self::read(table, io, metadata, snapshot, asked).await?,
            _ => Self::default(),
        };
        for (sequence, delta) in (metadata.last_sequence_number() + 1..).zip(&staged[first..]) {
            let body = delta::body(table, delta)?;
            if body.table_uuid != metadata.uuid() {
                let what = format!("table {table} was dropped and made anew meanwhile");
                return Err(Error::new(ErrorKind::Retry, what));
            }
            plan.add_staged(table, io, metadata, &body, sequence, asked).await?;
        }
        plan.drop_stale_deletes();
        Ok(plan)
    }

    /// Adds what was staged on the snapshot and would be committed as the one with this sequence number.
    async fn add_staged(
        &mut self,
        table: &TableName,
        io: &FileIO,
        metadata: &TableMetadata,
        staged: &DeltaBody,
        sequence: i64,
        asked: Option<&Asked>,
    ) -> Result<()> {
        // Whose snapshot it is matters to nobody here.
        let listed = staged.manifests.iter().map(|manifest| manifest.listed(staged.spec_id, 0, sequence)).collect();
        self.add_manifests(table, io, metadata, listed, asked).await
    }

    async fn add_manifests(
        &mut self,
        table: &TableName,
        io: &FileIO,
        metadata: &TableMetadata,
        list: Vec<ManifestFile>,
        asked: Option<&Asked>,
    ) -> Result<()> {
        let live: Vec<ManifestFile> = list.into_iter().filter(is_live).collect();
        let mut manifests = futures::stream::iter(live)
            .map(|manifest| async move {
                read_manifest(table, io, &manifest).await.map(|read| (manifest.partition_spec_id, read))
            })
            .buffered(if asked.is_some() { 1 } else { MANIFESTS_AT_A_TIME });
        while let Some((spec_id, manifest)) = manifests.try_next().await? {
            for entry in manifest.entries().iter().filter(|entry| entry.is_alive()) {
                self.add(table, metadata, spec_id, entry, asked)?;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        table: &TableName,
        metadata: &TableMetadata,
        spec_id: i32,
        entry: &ManifestEntry,
        asked: Option<&Asked>,
    ) -> Result<()> {
        let file = entry.data_file();
        // A delete of positions is not of keys. One that compares other columns has no bounds of the key, or true ones.
        let of_keys = file.content_type() != DataContentType::PositionDeletes;
        if of_keys && asked.is_some_and(|asked| !asked.may_be_in(spec_id, file)) {
            return Ok(());
        }
        let corrupt = |what: &str| {
            Error::new(ErrorKind::Corrupt, format!("table {table}: the manifest entry of {} {what}", file.file_path()))
        };
        if file.file_format() != DataFileFormat::Parquet {
            let what = if file.content_offset().is_some() { "a deletion vector" } else { "no Parquet file" };
            return Err(Error::new(
                ErrorKind::Config,
                format!(
                    "table {table}: somebody else added {} to it in the lake, which is {what} and cannot be read here; \
                     have that engine rewrite the table's files, or run `calve reload {table}`",
                    file.file_path()
                ),
            ));
        }
        let planned = PlannedFile {
            location: file.file_path().to_owned(),
            sequence: entry.sequence_number().ok_or_else(|| corrupt("has no sequence number"))?,
            rows: file.record_count(),
            partition: (spec_id, partition::widest(file.partition())),
        };
        match file.content_type() {
            DataContentType::Data => self.data.push(planned),
            DataContentType::PositionDeletes => self.position_deletes.push(planned),
            DataContentType::EqualityDeletes => {
                let mut ids = file.equality_ids().filter(|ids| !ids.is_empty());
                let ids = ids.as_mut().ok_or_else(|| corrupt("names no columns to compare"))?;
                ids.sort_unstable();
                ids.dedup();
                let global = metadata.partition_spec_by_id(spec_id).is_none_or(|spec| spec.is_unpartitioned());
                self.equality_deletes.push(EqualityDeleteFile { file: planned, ids: ids.clone(), global });
            }
        }
        Ok(())
    }

    /// How many keys the equality deletes name whose columns are chosen.
    pub(crate) fn deleted_keys(&self, chosen: impl Fn(&Vec<i32>) -> bool) -> u64 {
        let chosen = self.equality_deletes.iter().filter(|deletes| chosen(&deletes.ids));
        chosen.map(|deletes| deletes.file.rows).fold(0, u64::saturating_add)
    }

    /// Deletes that cannot be read in parts must fit into memory as a whole. `key` are the field ids of the key, ascending.
    pub(crate) fn check_other_deletes(&self, table: &TableName, key: &[i32], memory: u64) -> Result<()> {
        let keys = self.deleted_keys(|ids| ids != key);
        let positions = self.position_deletes.iter().map(|deletes| deletes.rows).fold(0, u64::saturating_add);
        if keys.saturating_mul(KEY_BYTES).saturating_add(positions.saturating_mul(8)) <= memory {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Config,
            format!(
                "table {table}: others wrote {positions} position deletes and {keys} equality deletes on columns beside the key \
                 to it in the lake, too many to hold in memory; have that engine rewrite the table's data files"
            ),
        ))
    }

    /// How many keys equality deletes name, where [the others](Self::check_other_deletes) fit into memory.
    pub(crate) fn check_deletes_of(&self, layout: &TableLayout, memory: u64) -> Result<u64> {
        let mut key = layout.key_ids.clone();
        key.sort_unstable();
        self.check_other_deletes(&layout.table, &key, memory)?;
        Ok(self.deleted_keys(|ids| *ids == key))
    }

    /// Leaves out deletes older than all data: what they hit is gone.
    fn drop_stale_deletes(&mut self) {
        let oldest = self.data.iter().map(|data| data.sequence).min().unwrap_or(i64::MAX);
        self.equality_deletes.retain(|deletes| deletes.file.sequence > oldest);
        self.position_deletes.retain(|deletes| deletes.sequence >= oldest);
    }
}

//! What a table in the lake holds, for `calve status`.

use calve_core::{Result, Stamp, StopMark, TableName};

use crate::lake::IcebergLake;
use crate::snapshot::Totals;
use crate::stamp;

/// A table as its metadata describes it. Nothing but the metadata file is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSummary {
    /// Its name in the lake.
    pub target: String,
    /// Where the metadata file lies.
    pub metadata_location: String,
    /// What the last data commit recorded.
    pub stamp: Option<Stamp>,
    /// Somebody moved the main branch away from the stamp.
    pub rolled_back: bool,
    /// Values read since the load, the load's own among them, that became NULL because the lake cannot hold them.
    pub nulled: u64,
    /// As `nulled`, of values that became the nearest one that the lake holds.
    pub clamped: u64,
    /// Set while the table is stopped.
    pub stopped: Option<StopMark>,
    /// The current snapshot.
    pub snapshot: Option<i64>,
    /// When it was committed, in milliseconds since 1970-01-01 UTC.
    pub committed_at_ms: Option<i64>,
    /// When the metadata was changed last, in milliseconds since 1970-01-01 UTC.
    pub updated_at_ms: i64,
    /// Rows, as far as the summary tells: rows in data files less keys deleted. None where a foreign writer left totals out.
    pub rows: Option<u64>,
    /// Data files.
    pub data_files: Option<u64>,
    /// Delete files.
    pub delete_files: Option<u64>,
    /// Keys in equality-delete files.
    pub equality_deletes: Option<u64>,
    /// Bytes of data and delete files.
    pub bytes: Option<u64>,
    /// Snapshots kept.
    pub snapshots: usize,
}

impl IcebergLake {
    /// Describes the table; None where it does not exist.
    pub async fn summary(&self, table: &TableName) -> Result<Option<TableSummary>> {
        let slot = self.slot(table)?;
        let Some(known) = self.read(slot).await? else { return Ok(None) };
        let metadata = &known.at.metadata;
        let current = metadata.current_snapshot();
        let totals = current.map_or(Some(Totals::default()), |snapshot| Totals::of(snapshot));
        Ok(Some(TableSummary {
            target: slot.ident.to_string(),
            metadata_location: known.at.location.clone(),
            stamp: known.marks.stamp.clone(),
            rolled_back: stamp::rolled_back(metadata, known.marks.stamp.as_ref()),
            nulled: known.marks.substituted.nulled,
            clamped: known.marks.substituted.clamped,
            stopped: known.marks.stopped.clone(),
            snapshot: current.map(|snapshot| snapshot.snapshot_id()),
            committed_at_ms: current.map(|snapshot| snapshot.timestamp_ms()),
            updated_at_ms: metadata.last_updated_ms(),
            rows: totals.map(|t| t.records.saturating_sub(t.equality_deletes).saturating_sub(t.position_deletes)),
            data_files: totals.map(|t| t.data_files),
            delete_files: totals.map(|t| t.delete_files),
            equality_deletes: totals.map(|t| t.equality_deletes),
            bytes: totals.map(|t| t.bytes),
            snapshots: metadata.snapshots().len(),
        }))
    }
}

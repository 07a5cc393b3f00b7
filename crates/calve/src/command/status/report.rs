//! The answer of `status --json`. Its fields are documented in README.md; they are added to, never changed.

use calve_core::{Position, StopReason};
use serde::Serialize;

use crate::progress::LiveLoad;

/// The layout's number; greater ones only add fields.
pub(super) const FORMAT: u32 = 1;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) format: u32,
    pub(super) pipeline: String,
    pub(super) lake: String,
    /// Whether a calve runs the pipeline now.
    pub(super) running: bool,
    pub(super) process: Option<u32>,
    /// Start of that run, RFC 3339.
    pub(super) since: Option<String>,
    /// What it is trying again, and why.
    pub(super) retrying: Option<String>,
    /// Rows changed a second, over the last minute.
    pub(super) rows_per_second: Option<u64>,
    /// All running tables are complete up to here.
    pub(super) position: Option<Position>,
    pub(super) lag_seconds: Option<u64>,
    pub(super) lag_bytes: Option<u64>,
    pub(super) source: SourceReport,
    pub(super) tables: Vec<TableReport>,
}

#[derive(Debug, Serialize)]
pub(super) struct SourceReport {
    /// Without a password.
    pub(super) address: Option<String>,
    pub(super) reachable: bool,
    pub(super) error: Option<String>,
    /// The end of its log.
    pub(super) position: Option<Position>,
    pub(super) slot: Option<SlotReport>,
}

#[derive(Debug, Serialize)]
pub(super) struct SlotReport {
    pub(super) name: String,
    /// None where the slot does not exist.
    pub(super) active: Option<bool>,
    pub(super) acknowledged: Option<Position>,
    /// Bytes of log that the source keeps for this slot.
    pub(super) retained_bytes: Option<u64>,
    /// Postgres' own word: reserved, extended, unreserved or lost.
    pub(super) wal_status: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct TableReport {
    pub(super) table: String,
    pub(super) target: String,
    /// `pending`, `loading`, `streaming`, `stopped`; of a table whose calve does not run: the state it will go on in.
    pub(super) state: &'static str,
    /// Of a stopped table: why, and the way out.
    pub(super) reason: Option<StopReason>,
    pub(super) load: Option<LiveLoad>,
    /// The table is complete up to here.
    pub(super) position: Option<Position>,
    pub(super) lag_seconds: Option<u64>,
    pub(super) lag_bytes: Option<u64>,
    pub(super) rows: Option<u64>,
    pub(super) data_files: Option<u64>,
    pub(super) delete_files: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) snapshots: Option<u64>,
    /// Values that the lake cannot hold and that became NULL, since the table was loaded.
    pub(super) nulled_values: Option<u64>,
    pub(super) clamped_values: Option<u64>,
    /// RFC 3339.
    pub(super) last_commit: Option<String>,
}

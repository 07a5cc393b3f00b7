//! What a running calve answers to `status`.

use calve_core::{Position, StopReason, TableName};
use serde::{Deserialize, Serialize};

/// Where the running process stands.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LiveStatus {
    pub(crate) process: u32,
    /// Start of the run, in microseconds since 1970-01-01 UTC.
    pub(crate) since: i64,
    pub(crate) read: Option<Position>,
    pub(crate) complete: Option<Position>,
    pub(crate) acknowledged: Option<Position>,
    /// Age of the oldest transaction that was read and is not yet in the lake.
    pub(crate) lag_seconds: u64,
    /// Bytes of log read and not yet in the lake.
    pub(crate) lag_bytes: Option<u64>,
    /// Rows changed since the start.
    pub(crate) changes: u64,
    pub(crate) rows_per_second: u64,
    /// What is being tried again, and why.
    pub(crate) retrying: Option<String>,
    pub(crate) tables: Vec<LiveTable>,
}

/// One table in a [`LiveStatus`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LiveTable {
    pub(crate) table: TableName,
    #[serde(flatten)]
    pub(crate) state: State,
    pub(crate) load: Option<LiveLoad>,
    pub(crate) position: Option<Position>,
    /// Rows put since the start.
    pub(crate) rows: u64,
    /// Keys deleted since the start.
    pub(crate) deletes: u64,
    /// In microseconds since 1970-01-01 UTC, if this process committed to it.
    pub(crate) last_commit: Option<i64>,
}

/// State of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum State {
    Pending,
    Loading,
    Streaming,
    Stopped { reason: StopReason },
}

/// How far a load is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct LiveLoad {
    pub(crate) rows: u64,
    pub(crate) estimated: Option<u64>,
    pub(crate) rows_per_second: u64,
    pub(crate) eta_seconds: Option<u64>,
}

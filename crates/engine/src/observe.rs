//! What the engine tells about itself while it runs, for logs, metrics and `status`.

use std::time::Duration;

use calve_core::{CheckpointId, Position, StopReason, TableName};

/// Where a table stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableState {
    /// Waits for its load to begin.
    Pending,
    /// Its rows are being read; they appear all at once when that is done.
    Loading,
    /// Follows the log.
    Streaming,
    /// Cannot go on.
    Stopped(StopReason),
}

/// Something happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The stream starts; every table that streams is complete up to `resume`.
    Started {
        /// Where reading begins.
        resume: Position,
        /// Tables followed, stopped ones not counted.
        tables: usize,
    },
    /// A table is now in this state.
    State {
        /// The table.
        table: TableName,
        /// Its state.
        state: TableState,
    },
    /// Rows were read by a load.
    LoadProgress {
        /// The table.
        table: TableName,
        /// Rows so far.
        rows: u64,
        /// Rows to expect, by the source's statistics.
        estimated: Option<u64>,
    },
    /// A load became visible.
    Loaded {
        /// The table.
        table: TableName,
        /// Its rows are of this position.
        position: Position,
        /// Rows loaded.
        rows: u64,
    },
    /// The source committed a transaction that was read.
    Read {
        /// Its end.
        position: Position,
        /// Microseconds since 1970-01-01 UTC by the source's clock.
        committed_at: i64,
    },
    /// A table's part of a checkpoint became visible.
    Committed {
        /// The table.
        table: TableName,
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The table is complete up to here.
        position: Position,
        /// Rows put.
        rows: u64,
        /// Keys deleted.
        deletes: u64,
    },
    /// A checkpoint is complete on all tables.
    Checkpoint {
        /// Its end.
        end: Position,
        /// The newest transaction in it, in microseconds since 1970-01-01 UTC; none where it holds no transaction.
        committed_at: Option<i64>,
        /// Tables that had changes.
        tables: usize,
        /// Time from when its rows were staged.
        took: Duration,
    },
    /// The source was told that it may forget its log up to here.
    Acknowledged {
        /// The position.
        position: Position,
    },
    /// Something failed and is tried again.
    Retrying {
        /// What.
        what: String,
        /// The error.
        error: String,
        /// When it is tried again.
        after: Duration,
    },
    /// A table stood otherwise than this process left it: another writer of the pipeline, or a late request.
    Foreign {
        /// The table.
        table: TableName,
    },
    /// A table goes on although its rows or columns are not the source's any more, as its policy says.
    Ignored {
        /// The table.
        table: TableName,
        /// Why it would have stopped.
        reason: StopReason,
    },
    /// Files of earlier runs that nothing references were deleted.
    CleanedUp {
        /// The table.
        table: TableName,
        /// How many.
        files: usize,
    },
}

/// Hears of events. Must not block.
pub trait Observer: Send + Sync {
    /// Called in order, from the engine's task.
    fn event(&self, event: &Event);
}

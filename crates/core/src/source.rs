//! Ports to a source: the log it is read from, and the sink that its transactions are pushed into.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    DurablePosition, Origin, Position, Result, RowBuffer, SchemaChange, TableName, TableSchema, TransactionPoint,
};

/// A table's place in the list that the engine gave to [`ChangeSource::start`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableIndex(pub usize);

/// What identifies a log, in the source's own words (Postgres: system identifier, timeline, database, slot). Kept in every stamp.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SourceIdentity(pub String);

/// Where a source's log stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogState {
    /// Which log it is.
    pub identity: SourceIdentity,
    /// The log is there from here on (Postgres: the slot's `confirmed_flush_lsn`, what the source was last told to forget;
    /// MySQL: what was purged). None where nothing keeps the log for this pipeline yet (no slot).
    pub acknowledged: Option<Position>,
    /// Where reading begins when no table needs anything of the log that is there already.
    pub fresh: Position,
    /// The end of the log now.
    pub end: Position,
}

/// A table to follow.
#[derive(Clone, Debug)]
pub struct SourceTable {
    /// Its name.
    pub name: TableName,
    /// The schema that its rows have had so far. A source that finds another in the log calls [`ChangeSink::schema`], or
    /// [`ChangeSink::stop`] where it cannot say what it is.
    pub schema: Arc<TableSchema>,
}

/// Why a table cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopReason {
    /// One or two words for `status` and metrics: `schema changed`, `unrepresentable value`, `unchanged TOAST`, `log lost`,
    /// `row missing`, `rolled back`, `dropped`, `table swapped`, `rows gone`, `rows unknown`.
    pub state: String,
    /// What happened, with column and key named, never with values of other columns.
    pub detail: String,
    /// The statement or command that mends it.
    pub remedy: String,
}

impl StopReason {
    /// The state of a table whose columns are no longer those that its rows had so far.
    pub const SCHEMA_CHANGED: &str = "schema changed";
    /// The state of a table that waits for being read again, which is done without being asked for.
    pub const RELOADING: &str = "reloading";
    /// The state of a table that the source has no longer, or not under its name.
    pub const DROPPED: &str = "dropped";
    /// The state of a table whose place another one took, of which it is not known that it is the same table altered.
    pub const SWAPPED: &str = "table swapped";
    /// The state of a table that rows went from, all of some partitions, without being in the log. Nothing else changed in it.
    pub const ROWS_GONE: &str = "rows gone";
    /// The state of a table in which rows came, or others took their place, without being in the log.
    pub const ROWS_UNKNOWN: &str = "rows unknown";

    /// The stop of a table whose rows in the lake cannot become what the source's are without being read again.
    pub fn schema_changed(table: &TableName, detail: impl Into<String>) -> Self {
        Self {
            state: Self::SCHEMA_CHANGED.into(),
            detail: detail.into(),
            remedy: format!("run `calve reload {table}` to read it again in its new shape"),
        }
    }

    /// The stop of a table whose place another one took, as `detail` says.
    pub fn swapped(table: &TableName, detail: impl Into<String>) -> Self {
        let remedy = format!("run `calve reload {table}` to read the table that has its name now");
        Self { state: Self::SWAPPED.into(), detail: detail.into(), remedy }
    }

    /// The stop of a table from which rows went as [`ROWS_GONE`](Self::ROWS_GONE) says; `detail` says how.
    pub fn rows_gone(table: &TableName, detail: impl Into<String>) -> Self {
        let remedy = format!("run `calve reload {table}` to read it again without them");
        Self { state: Self::ROWS_GONE.into(), detail: detail.into(), remedy }
    }

    /// The stop of a table whose rows are others as [`ROWS_UNKNOWN`](Self::ROWS_UNKNOWN) says; `detail` says how.
    pub fn rows_unknown(table: &TableName, detail: impl Into<String>) -> Self {
        let remedy = format!("run `calve reload {table}` to read it again");
        Self { state: Self::ROWS_UNKNOWN.into(), detail: detail.into(), remedy }
    }

    /// The stop of a table of which something cannot be read in the lake.
    pub fn unreadable(table: &TableName, what: impl fmt::Display) -> Self {
        Self {
            state: "cannot be read".into(),
            detail: format!("what an update left as it was cannot be looked up: {what}"),
            remedy: format!("run `calve reload {table}` to read it again"),
        }
    }

    /// The stop of a table whose 'where' an update's row comes to satisfy, or may, though values that it left alone are nowhere.
    pub fn unchanged_values_of_new_row(table: &TableName, key: &str) -> Self {
        Self {
            state: "unchanged value".into(),
            detail: format!(
                "an update brought the row with {key} into what 'where' selects, and left large values of it as they were, which neither \
                 the log nor the lake has"
            ),
            remedy: format!("ALTER TABLE {table} REPLICA IDENTITY FULL, then run `calve reload {table}`"),
        }
    }

    /// The stop of a table in which an update's row is not found, by its key as people read it, though the values that the update
    /// left alone are nowhere else.
    pub fn row_missing(table: &TableName, key: &str) -> Self {
        Self {
            state: "row missing".into(),
            detail: format!(
                "a change of the row with {key} does not say what values of it are, and the table in the lake has no such row"
            ),
            remedy: format!("run `calve reload {table}` to read it again"),
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.state, self.detail, self.remedy)
    }
}

/// Receives committed transactions in commit order. Implemented by the engine; called from [`ChangeSource::poll`].
///
/// Calls come as `begin origin? (rows | schema | stop)* (commit | abort)`, with `idle` and further `stop`s between transactions.
pub trait ChangeSink: Send {
    /// A transaction begins.
    fn begin(&mut self, transaction: &TransactionPoint);

    /// Whether a table [wants to know](crate::TableSchema::wants_origins) of each transaction's [`origin`](Self::origin).
    fn wants_origins(&self) -> bool {
        false
    }

    /// What is known of the transaction that began. Comes before anything else of it, where that is wanted.
    fn origin(&mut self, origin: Origin) {
        let _ = origin;
    }

    /// Whether changes of this table in the present transaction are wanted; false where they are in the lake already, or the
    /// table is stopped.
    fn wants(&self, table: TableIndex) -> bool;

    /// The table's rows have another schema from here on, those of the present transaction included. Only for a table that
    /// [`wants`](Self::wants) its changes. A change that its rows in the lake cannot follow stops it,
    /// and so does every change where a sink knows nothing of schemas.
    fn schema(&mut self, table: TableIndex, change: SchemaChange) {
        self.stop(table, change.as_stop());
    }

    /// The buffer to append a change of this table to; the source appends one entry and finishes it. None where the change
    /// is not wanted (already applied, or the table is stopped): the source then decodes nothing of it.
    fn rows(&mut self, table: TableIndex) -> Option<&mut RowBuffer>;

    /// The schema of a table whose changes in the present transaction are wanted; None where they are not.
    fn schema_of(&mut self, table: TableIndex) -> Option<Arc<TableSchema>> {
        self.rows(table).map(|rows| Arc::clone(rows.schema()))
    }

    /// The table cannot go on. What the present transaction, if there is one, has appended to its buffer is taken back.
    fn stop(&mut self, table: TableIndex, reason: StopReason);

    /// The transaction ended. `committed_at` is microseconds since 1970-01-01 UTC by the source's clock.
    fn commit(&mut self, end: Position, committed_at: i64);

    /// The transaction will come again (the connection was lost in the middle of it): back to where it began.
    fn abort(&mut self);

    /// Nothing of this pipeline's tables is in the log up to here.
    fn idle(&mut self, end: Position);

    /// Whether `poll` should return before it handles another message.
    fn is_full(&self) -> bool;

    /// Whether there is memory for what a message of so many bytes holds. Where not, `poll` returns and asks again with the
    /// same message when it is called next.
    fn has_room_for(&mut self, bytes: usize) -> bool {
        let _ = bytes;
        true
    }
}

/// A database as a source of changes.
#[async_trait]
pub trait ChangeSource: Send {
    /// Where the log stands. Connects where needed.
    async fn log_state(&mut self) -> Result<LogState>;

    /// Whether the log found now is the one that was remembered with `at`, so that reading on from `at` misses nothing.
    /// A [`SourceGone`](crate::ErrorKind::SourceGone) error says what differs and what to do.
    fn same_log(&self, now: &LogState, remembered: &SourceIdentity, at: &Position) -> Result<()>;

    /// Makes the log carry these tables (Postgres: publication membership), before anything is loaded or streamed. Stopped
    /// tables are not among them.
    async fn follow(&mut self, tables: &[TableName]) -> Result<()>;

    /// Makes the source keep its log from now on (Postgres: creates the slot). Only called while nothing keeps it.
    async fn keep_log(&mut self) -> Result<LogState>;

    /// The table as it is now.
    async fn describe(&mut self, table: &TableName) -> Result<Arc<TableSchema>>;

    /// Starts streaming transactions that end after `from`. [`TableIndex`] counts in `tables`. Rows of other tables are ignored.
    async fn start(&mut self, from: &Position, tables: &[SourceTable]) -> Result<()>;

    /// Pushes what has arrived into the sink. Returns after at least one message or a short wait, at the latest when the
    /// sink is full, and before it has worked for more than some milliseconds: the committer shares the thread. Cancel-safe:
    /// a message is either still to come or was pushed whole.
    async fn poll(&mut self, sink: &mut dyn ChangeSink) -> Result<()>;

    /// The source may forget its log up to here. Takes effect in the background and never waits.
    fn acknowledge(&mut self, position: &DurablePosition);

    /// Fixes a position and starts reading these tables as they are there. While this waits the stream is not polled;
    /// everything polled before it was called ends at or before the position.
    async fn start_load(&mut self, tables: &[TableName]) -> Result<Box<dyn LoadReader>>;

    /// Ends the stream and its connections.
    async fn stop(&mut self);
}

/// What a load brings.
#[derive(Debug)]
pub enum LoadEvent {
    /// Rows of a table, all inserts.
    Rows(TableName, RowBuffer),
    /// All rows of the table were brought.
    Done(TableName),
    /// The table holds a value or has a shape that cannot be loaded; the others go on.
    Failed(TableName, StopReason),
}

/// A consistent read of some tables at one position. Dropping it ends its connections.
#[async_trait]
pub trait LoadReader: Send {
    /// The rows hold everything up to this position.
    fn position(&self) -> &Position;

    /// The rows hold nothing beyond this position. Where it is beyond [`position`](Self::position), changes in between may
    /// be in the rows or not: the table is consistent only after they were put on it, each in place of the row of its key.
    fn settled(&self) -> &Position;

    /// The one position that the rows of a table are of, where it has another than the others and is read exactly there: at or
    /// beyond [`position`](Self::position).
    fn exact(&self, table: &TableName) -> Option<&Position> {
        let _ = table;
        None
    }

    /// The table's schema at that position.
    fn schema(&self, table: &TableName) -> Option<Arc<TableSchema>>;

    /// Rows to expect, by the source's statistics.
    fn estimated_rows(&self, table: &TableName) -> Option<u64>;

    /// The next event; None after the last table is done. Cancel-safe.
    async fn next(&mut self) -> Result<Option<LoadEvent>>;
}

//! The words of calve: positions, table schemas, row buffers, checkpoints, errors and ports. No I/O.
//!
//! Everything that two crates must agree on stands here; everything else stays behind its own wall. Sources fill
//! [`RowBuffer`]s through a [`ChangeSink`], the engine folds and seals them, a [`DeltaWriter`] stages them as files, the
//! [`Lake`] makes them visible, and the [`PositionStore`] remembers how far that came.

mod checkpoint;
mod column;
mod decimal;
mod error;
mod evolution;
mod excerpt;
mod filter;
mod finding;
mod key;
mod key_text;
mod lake;
mod layout;
mod layout_text;
mod merged;
mod mode;
mod position;
mod positions;
mod rows;
mod rules;
mod schema;
mod secret;
mod shadow;
mod source;
mod type_choice;

pub use checkpoint::{
    CheckpointId, CheckpointIntent, CompleteTo, MemberDigest, StagedDelta, Stamp, StopMark, TableIntent,
};
pub use column::{BufferFull, ColumnBuffer, Values};
pub use decimal::{greatest_decimal, nearest_decimal};
pub use error::{Error, ErrorKind, Result};
pub use evolution::{Evolution, SchemaChange};
pub use excerpt::{ColumnPattern, ColumnSelection, ColumnUse, Excerpt, MaskKey};
pub use filter::{Condition, RowFilter};
pub use finding::{Finding, Severity};
pub use key::{decode_key, encode_key};
pub use key_text::{cell_text, show_key};
pub use lake::{
    CommitReceipt, DeltaBatch, DeltaWriter, DurablePosition, EncodeJob, Ground, IncompleteRows, Lake, LakeTable,
    LakeVersion, LoadWriter, Onto, TableCommit, Written,
};
pub use layout::{BloomFilters, Layout, PartitionBy, SortBy, Transform};
pub use merged::{MemberShape, Members};
pub use mode::{LogEntries, LogOp, Origin, TableMode};
pub use position::{
    BinlogOffset, BinlogPosition, GtidInterval, GtidPosition, GtidSet, GtidSource, LastGtid, Lsn, MariaDbGtid,
    MariaDbPoint, MariaDbPosition, ParsePositionError, Position, TransactionPoint,
};
pub use positions::{PositionStore, SavedState};
pub use rows::{Mark, RowBuffer, RowOp, Substituted, Unchanged};
pub use rules::{CellRule, ColumnRules, OnUnrepresentable, Substitute, TableRules, ValueRules};
pub use schema::{
    Column, ColumnType, NativeElement, NativeType, ParseTableNameError, Partition, Partitions, TableName, TableSchema,
};
pub use secret::Secret;
pub use shadow::{Shadow, Trace};
pub use source::{
    ChangeSink, ChangeSource, LoadEvent, LoadReader, LogState, SourceIdentity, SourceTable, StopReason, TableIndex,
};
pub use type_choice::TypeChoice;

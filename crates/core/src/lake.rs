//! Ports to the lake: writing files nobody sees yet, and commits that make them visible.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;
use async_trait::async_trait;

use crate::{
    CheckpointId, CompleteTo, Excerpt, MemberDigest, Position, Result, RowBuffer, RowFilter, StagedDelta, Stamp,
    StopMark, StopReason, TableName, TableSchema,
};

/// Folded changes of one table, ready to be written: at most one row and one delete a key.
#[derive(Debug)]
pub struct DeltaBatch {
    /// The schema of `rows`.
    pub schema: Arc<TableSchema>,
    /// Whether everything that the table held before goes (TRUNCATE). Then there are no deletes, unless rows [`retire`](Self::retire).
    pub replace: bool,
    /// Rows to put, one column for each that the schema has [in the lake](TableSchema::in_lake).
    pub rows: RecordBatch,
    /// Further rows to put, which lack cells that the table has.
    pub incomplete: Option<IncompleteRows>,
    /// Keys to delete, one column for each of the schema's `key`, in the key's order.
    pub deletes: RecordBatch,
    /// With `replace`: every row that the table held before stays nevertheless, but for those of `deletes`; what was not deleted
    /// yet is from here on, as of this time (microseconds since 1970-01-01 UTC).
    pub retire: Option<i64>,
}

impl DeltaBatch {
    /// Whether it can be written only where the table is known that it is put on.
    pub fn needs_ground(&self) -> bool {
        self.incomplete.is_some() || self.retire.is_some()
    }
}

/// Rows some of whose cells are what the table holds for them: the log does not carry large values that an update left alone.
#[derive(Debug)]
pub struct IncompleteRows {
    /// One column for each that the schema has [in the lake](TableSchema::in_lake). Cells that are missing are NULL, whether or not
    /// the column allows that.
    pub rows: RecordBatch,
    /// The key by which each of the rows is found in the table as it is before the batch, one column for each of the schema's
    /// `key`. One comes more than once where rows stay that went by a change of it: they and what became of them are made of one
    /// row of the table.
    pub keys: RecordBatch,
    /// For each column of `rows`: which of them lack its cell; None where none does. Each row lacks one at least, and none
    /// of the key.
    pub missing: Vec<Option<BooleanBuffer>>,
    /// Which of the rows are put, once they have all of their cells; None: all.
    pub filter: Option<RowFilter>,
}

/// A table as its rows were before a batch, for cells that the batch lacks.
#[derive(Clone, Debug, Default)]
pub struct Ground {
    /// The last data commit that the table records; whatever else was committed since makes it another ground.
    pub base: Option<CheckpointId>,
    /// What was staged on it since, in order.
    pub staged: Vec<StagedDelta>,
}

/// What became of a batch.
#[derive(Debug)]
pub enum Written {
    /// Its files are durable.
    Delta(StagedDelta),
    /// Nothing: the table lacks what it must have, and cannot go on.
    Stops(StopReason),
}

/// Work that ends in a [`DeltaBatch`], to be done wherever the writer encodes, away from the thread that reads the log.
pub type EncodeJob = Box<dyn FnOnce() -> Result<DeltaBatch> + Send>;

/// What changes are put on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onto {
    /// The table as it is in the lake, whose rows stay.
    Table,
    /// A load that is not published yet and replaces what the table holds.
    Load,
}

/// Writes data and delete files.
#[async_trait]
pub trait DeltaWriter: Send + Sync {
    /// Runs the job and writes its batch: data file(s), equality-delete file(s) holding the key columns only, and the
    /// manifests that list them. All are durable (files and directories fsynced, where storage is local) when this returns.
    ///
    /// Where the batch's schema is another than the table's, the commit of the delta gives it to the table; rows that are
    /// there stay, and a column that went keeps its old values.
    ///
    /// Cells that the batch lacks are read from `ground`, and from nothing that came later. Where the table is no longer that,
    /// the error is a [`Retry`](crate::ErrorKind::Retry).
    async fn write(&self, table: &TableName, job: EncodeJob, onto: Onto, ground: &Ground) -> Result<Written>;

    /// Starts an append-only write of a whole table under `schema`, which may differ from the table's present one. Of its rows the
    /// excerpt is written.
    async fn start_load(&self, schema: Arc<TableSchema>, excerpt: Excerpt) -> Result<Box<dyn LoadWriter>>;

    /// Removes files that no commit request was ever sent for.
    async fn discard(&self, deltas: &[StagedDelta]);
}

/// Writes one table's load with flat memory.
#[async_trait]
pub trait LoadWriter: Send {
    /// Appends rows; every entry of the buffer is an insert. May encode in the background, holding back when it is behind.
    async fn append(&mut self, rows: RowBuffer) -> Result<()>;

    /// Completes the files; durable on return. The delta replaces what the table held.
    async fn finish(self: Box<Self>) -> Result<StagedDelta>;

    /// Removes the files written so far.
    async fn abort(self: Box<Self>);
}

/// Names the exact state of a table in the catalog that a commit is meant for; opaque outside the lake's crate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LakeVersion(pub String);

/// What a table in the lake says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LakeTable {
    /// The state read.
    pub version: LakeVersion,
    /// Of the last data commit; none before the first load.
    pub stamp: Option<Stamp>,
    /// The nearest stamped ancestor of the main branch does not carry the stamp's id: somebody moved the branch.
    pub rolled_back: bool,
    /// Every completeness recorded on this table.
    pub complete_to: Vec<CompleteTo>,
    /// The sets that this table, as its load has made it, says it belongs to.
    pub member_of: BTreeSet<MemberDigest>,
    /// Set while the table is stopped.
    pub stopped: Option<StopMark>,
}

/// One catalog commit on one table: any number of snapshots, and properties beside them.
#[derive(Clone, Debug, Default)]
pub struct TableCommit {
    /// One snapshot each, in order. With a stamp and no delta the commit still makes one (empty) snapshot.
    pub deltas: Vec<StagedDelta>,
    /// Written in the last snapshot's summary and in the properties. None = a commit of properties only.
    pub stamp: Option<Stamp>,
    /// Recorded under a key of its own; smaller or equal ones of the same set are removed.
    pub complete_to: Option<CompleteTo>,
    /// Sets the table belongs to from now on. A stamp of another load ends every membership that it had.
    pub join: BTreeSet<MemberDigest>,
    /// Sets of the past, whose membership and completeness are removed; not where more is recorded of one than `complete_to`
    /// says.
    pub leave: BTreeSet<MemberDigest>,
    /// `Some(Some(mark))` stops the table, `Some(None)` takes the mark away.
    pub stop: Option<Option<StopMark>>,
}

/// What a successful commit left in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitReceipt {
    /// The table's state now.
    pub version: LakeVersion,
    /// The completeness recorded with it.
    pub complete_to: Option<CompleteTo>,
}

/// The tables in the lake and their catalog.
#[async_trait]
pub trait Lake: Send + Sync {
    /// Reads a table's state from the catalog. None where it does not exist. An existing table that belongs to another
    /// pipeline, or to none, is a [`Config`](crate::ErrorKind::Config) error.
    async fn load(&self, table: &TableName) -> Result<Option<LakeTable>>;

    /// Creates the table, empty and unstamped, with the pipeline's mark on it.
    async fn create(&self, schema: &TableSchema) -> Result<LakeTable>;

    /// Applies the commit if the table still stands at `version`. Any error leaves open whether it was applied: the caller
    /// reads the table again and looks.
    async fn commit(&self, table: &TableName, version: &LakeVersion, commit: &TableCommit) -> Result<CommitReceipt>;

    /// Files of this pipeline, written by earlier runs, that the table does not reference and `keep` does not name.
    async fn unreferenced_files(&self, table: &TableName, keep: &BTreeSet<String>) -> Result<Vec<String>>;

    /// Deletes those of `files` that the table still does not reference; returns how many went.
    async fn delete_unreferenced(&self, table: &TableName, files: &[String]) -> Result<usize>;
}

/// A position up to which the lake itself says it is complete: the only thing a source can be told to forget.
///
/// It is made from what a commit left in the lake, so that acknowledging earlier cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurablePosition(Position);

impl DurablePosition {
    /// `position`, if the completeness that the receipt recorded covers it.
    pub fn recorded(position: &Position, receipt: &CommitReceipt) -> Option<Self> {
        let complete = receipt.complete_to.as_ref()?;
        complete.position.covers(position).then(|| Self(position.clone()))
    }

    /// The position.
    pub fn position(&self) -> &Position {
        &self.0
    }

    /// The mistake of acknowledging what no receipt covers, for tests that must notice it.
    #[cfg(feature = "mutations")]
    pub fn unproven(position: Position) -> Self {
        Self(position)
    }
}

impl LakeTable {
    /// The id of the last data commit.
    pub fn checkpoint(&self) -> Option<CheckpointId> {
        self.stamp.as_ref().map(|stamp| stamp.checkpoint)
    }

    /// What reading the table back proves about the tables of a set, as a commit's receipt would.
    pub fn receipt(&self, members: MemberDigest) -> CommitReceipt {
        let position = self
            .complete_to
            .iter()
            .filter(|c| c.members == members)
            .map(|c| c.position.clone())
            .reduce(|a, b| a.join(&b));
        CommitReceipt {
            version: self.version.clone(),
            complete_to: position.map(|position| CompleteTo { members, position }),
        }
    }
}

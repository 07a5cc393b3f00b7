//! The books of a session: how far each table is, and what that allows to claim.

use std::collections::BTreeSet;
use std::sync::Arc;

use calve_core::{
    CheckpointId, CommitReceipt, CompleteTo, LakeVersion, MemberDigest, Position, RowBuffer, StagedDelta, TableName,
    TableSchema,
};

use crate::settings::{Mutation, Rules};
use crate::weight::Weight;

/// Where a table stands for the committer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Waits for its load to be published; its changes are staged and kept.
    Loading,
    /// Commits with every checkpoint.
    Streaming,
    /// Commits nothing.
    Stopped,
}

/// Changes that wait to be committed.
#[derive(Debug)]
pub(crate) enum Waiting {
    Files(StagedDelta),
    /// Rows that lack values which only their table has, while it is not there yet.
    Rows(RowBuffer, Weight),
}

impl Waiting {
    pub(crate) fn delta(&self) -> Option<&StagedDelta> {
        match self {
            Self::Files(delta) => Some(delta),
            Self::Rows(..) => None,
        }
    }

    pub(crate) fn into_delta(self) -> Option<StagedDelta> {
        match self {
            Self::Files(delta) => Some(delta),
            Self::Rows(..) => None,
        }
    }
}

/// The files among changes that wait.
pub(crate) fn files_of(waiting: impl IntoIterator<Item = Waiting>) -> Vec<StagedDelta> {
    waiting.into_iter().filter_map(Waiting::into_delta).collect()
}

/// One table.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: TableName,
    /// The schema that the table records.
    pub(crate) schema: Arc<TableSchema>,
    /// The state in the catalog that the next commit is meant for.
    pub(crate) version: LakeVersion,
    /// What the table records; none before its first load.
    pub(crate) base: Option<CheckpointId>,
    /// The load that its rows began with; none before its first.
    pub(crate) load: Option<CheckpointId>,
    /// Changes that it records, where it keeps a log.
    pub(crate) changes: u64,
    /// The position it records.
    pub(crate) position: Option<Position>,
    /// Complete up to here, changed or not; while it loads, the position of the load.
    pub(crate) upto: Position,
    pub(crate) standing: Standing,
    /// A stop mark is in the lake.
    pub(crate) marked: bool,
    pub(crate) member_of: BTreeSet<MemberDigest>,
    /// Sets that something is recorded of on this table.
    pub(crate) known_sets: BTreeSet<MemberDigest>,
    /// Of the checkpoint being put together. While the table streams, files only.
    pub(crate) staged: Vec<Waiting>,
    /// The schema that it ends with, where that is another.
    pub(crate) reshaped: Option<Arc<TableSchema>>,
    /// Schemas that it got while it was loaded, each with the end of its checkpoint.
    pub(crate) reshapes: Vec<(Position, Arc<TableSchema>)>,
    /// Changes beyond the load, each with the end of its checkpoint.
    pub(crate) kept: Vec<(Waiting, Position)>,
    /// While it loads: the rows may hold changes up to here, which is beyond `upto`.
    pub(crate) settles: Option<Position>,
    /// The load's files, while they wait for that.
    pub(crate) loaded: Option<StagedDelta>,
    /// Files of earlier runs were looked for.
    pub(crate) swept: bool,
}

impl Entry {
    /// The schema that rows have by now.
    pub(crate) fn present_schema(&self) -> &Arc<TableSchema> {
        let kept = self.reshapes.last().map(|(_, schema)| schema);
        self.reshaped.as_ref().or(kept).unwrap_or(&self.schema)
    }

    /// The table is to record what it is at `position`.
    pub(crate) fn reshape_until(&mut self, position: &Position) {
        let reached = self.reshapes.iter().take_while(|(end, _)| position.covers(end)).count();
        if let Some((_, schema)) = self.reshapes.drain(..reached).next_back() {
            self.schema = schema;
        }
    }

    /// The files of all that waits, which is of no more use.
    pub(crate) fn take_files(&mut self) -> Vec<StagedDelta> {
        self.reshapes.clear();
        let kept = std::mem::take(&mut self.kept).into_iter().map(|(change, _)| change);
        files_of(std::mem::take(&mut self.staged).into_iter().chain(kept))
    }
}

/// All tables, and what the lake records of them together.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) entries: Vec<Entry>,
    /// End of the last complete checkpoint.
    pub(crate) completed: Position,
    /// End of the checkpoint sealed last in this session, in the words of the log as it is now.
    pub(crate) sealed: Option<Position>,
    /// The greatest completeness that is in the lake and names every streaming table.
    pub(crate) recorded: Option<CommitReceipt>,
    pub(crate) rules: Rules,
}

impl Ledger {
    /// The completeness that may be written now: every table that is not stopped has reached it, loading ones included.
    /// With all tables stopped it speaks for none, and lets the log go.
    pub(crate) fn next_complete(&self) -> Position {
        let counts = |entry: &&Entry| match entry.standing {
            Standing::Streaming => true,
            Standing::Loading => !self.rules.broken(Mutation::PassLoad),
            Standing::Stopped => false,
        };
        let reached = self.entries.iter().filter(counts).map(|entry| entry.upto.clone());
        reached.reduce(|a, b| a.meet(&b)).unwrap_or_else(|| self.completed.clone())
    }

    /// The set that a completeness written now speaks for. A loading table is not in it: a late request of an earlier
    /// process may yet publish it at an older position.
    pub(crate) fn members(&self) -> MemberDigest {
        let streaming = self.entries.iter().filter(|entry| entry.standing == Standing::Streaming);
        MemberDigest::of(streaming.filter_map(|entry| Some((&entry.name, entry.load?))))
    }

    /// Names of the tables that stream: those an intent sealed now has all changes of.
    pub(crate) fn streaming(&self) -> Vec<TableName> {
        self.entries
            .iter()
            .filter(|entry| entry.standing == Standing::Streaming)
            .map(|entry| entry.name.clone())
            .collect()
    }

    /// Whether the lake records less than could be claimed.
    pub(crate) fn is_unrecorded(&self) -> bool {
        !self.recorded_position().is_some_and(|at| at.covers(&self.next_complete()))
    }

    /// The position of `recorded`.
    pub(crate) fn recorded_position(&self) -> Option<&Position> {
        self.recorded.as_ref().and_then(|receipt| receipt.complete_to.as_ref()).map(|complete| &complete.position)
    }

    /// Notes what a commit left in the lake.
    pub(crate) fn record(&mut self, receipt: &CommitReceipt) {
        let Some(CompleteTo { position, .. }) = &receipt.complete_to else { return };
        if !self.recorded_position().is_some_and(|at| at.covers(position)) {
            self.recorded = Some(receipt.clone());
        }
    }

    /// Notes that a checkpoint is complete on the tables it covers.
    pub(crate) fn complete(&mut self, covers: &[TableName], end: &Position) {
        for entry in &mut self.entries {
            if covers.contains(&entry.name) {
                entry.upto = entry.upto.join(end);
            }
        }
    }
}

//! What a pipeline is told at its start.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use calve_core::{TableName, ValueRules};

use crate::policy::SchemaPolicies;

/// Settings of one run of a pipeline.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The tables to replicate.
    pub tables: Vec<TableName>,
    /// Tables to read again and replace, streaming or stopped.
    pub reload: BTreeSet<TableName>,
    /// Load, catch up to the end of the log as it is at the start, and leave.
    pub once: bool,
    /// A checkpoint is sealed after this time, if there is anything to commit,
    pub checkpoint_interval: Duration,
    /// or once it holds this many rows,
    pub checkpoint_rows: u64,
    /// or once its rows use this much memory. A larger transaction is staged in pieces of this size.
    pub checkpoint_bytes: u64,
    /// Tables committed at the same time.
    pub commit_parallelism: usize,
    /// While nothing of these tables changes, the position moves at most this often.
    pub idle_interval: Duration,
    /// What becomes of tables that are altered on the source,
    pub schema_changes: SchemaPolicies,
    /// and of those that have policies of their own.
    pub schema_changes_of: BTreeMap<TableName, SchemaPolicies>,
    /// A table that is read again by itself twice in a row waits so long between.
    pub reload_pause: Duration,
    /// What was chosen for the values of tables.
    pub values: ValueRules,
    /// Mistakes on purpose, for tests that must notice them.
    pub rules: Rules,
}

impl Settings {
    /// What becomes of the table where it is altered.
    pub(crate) fn policies(&self, table: &TableName) -> SchemaPolicies {
        self.schema_changes_of.get(table).copied().unwrap_or(self.schema_changes)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tables: Vec::new(),
            reload: BTreeSet::new(),
            once: false,
            checkpoint_interval: Duration::from_secs(10),
            checkpoint_rows: 1_000_000,
            checkpoint_bytes: 64 << 20,
            commit_parallelism: 8,
            idle_interval: Duration::from_secs(10),
            schema_changes: SchemaPolicies::default(),
            schema_changes_of: BTreeMap::new(),
            reload_pause: Duration::from_mins(1),
            values: ValueRules::default(),
            rules: Rules::default(),
        }
    }
}

/// A rule of the protocol that is switched off. Each carries weight: without it rows are lost or doubled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// The data commit leaves the stamp as it was.
    NoStamp,
    /// Transactions at or below a table's own position are not skipped.
    SkipOff,
    /// The source is acknowledged when the checkpoint is sealed.
    AckEarly,
    /// Resume from the smallest position of any table.
    ResumeSmallest,
    /// Resume from the greatest position of any table.
    ResumeGreatest,
    /// The checkpoint id is a counter of the process, not a random id.
    CounterId,
    /// Unreferenced files of no intent are deleted at the start, without waiting for a later commit.
    DeleteAtStart,
    /// On conflict a recorded position at or beyond ours counts as done, before the id is looked at.
    PositionMeansDone,
    /// On conflict a recorded position other than the base's counts as foreign, before the own id is looked at.
    PositionMeansForeign,
    /// `complete_to` is written as the checkpoint's own end.
    CompleteIsOwnEnd,
    /// On conflict the work is put on whatever snapshot is found.
    BaseUnchecked,
    /// An intent found at the start is redone without asking whether the table stands at its base.
    IntentUnchecked,
    /// An intent found at the start counts also for tables loaded since.
    IntentForAll,
    /// A stopped table is declared running at its old position, then catches up from the stream.
    UnstopFirst,
    /// Idle traffic is acknowledged without raising `complete_to` first.
    IdleAny,
    /// The changes of a loading table beyond its load are discarded.
    KeptLost,
    /// `complete_to` looks at the running tables only and passes the position of a load.
    PassLoad,
    /// `complete_to` passes the position of a load once it is published, before the kept changes are committed.
    PassKept,
    /// A load whose rows may hold changes from beyond its position is published without those changes.
    UnsettledLoad,
    /// A table whose schema changed goes on recording the one before.
    OldSchema,
    /// Inserts that such a load may have read already are put without a delete.
    TrustedInserts,
    /// Values that updates left alone are looked up while the checkpoint before is being committed.
    LookUpAhead,
    /// Values that updates left alone are looked up in what is committed, without the chunks staged on it.
    LookUpBelow,
    /// Of a log's changes to a key within a checkpoint only the last is kept.
    FoldedLog,
    /// A table whose rows came and went is not committed to.
    Unstamped,
    /// A TRUNCATE takes away the rows of a table that keeps deleted ones.
    TruncateForgets,
    /// The changes of a log are numbered from the beginning again by every session.
    NumbersAgain,
    /// Where none of a checkpoint's rows are chosen, nothing is deleted either.
    LeaversStay,
}

/// The rules of the protocol in force: all of them, except in tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    #[cfg(feature = "mutations")]
    without: Option<Mutation>,
}

impl Rules {
    /// All rules but one.
    #[cfg(feature = "mutations")]
    pub fn without(mutation: Mutation) -> Self {
        Self { without: Some(mutation) }
    }

    /// Whether the mistake is made. A constant outside tests.
    #[cfg(feature = "mutations")]
    pub(crate) fn broken(self, mutation: Mutation) -> bool {
        self.without == Some(mutation)
    }

    /// Whether the mistake is made. A constant outside tests.
    #[cfg(not(feature = "mutations"))]
    #[expect(clippy::unused_self, reason = "asked in the same words as where rules can be switched off")]
    pub(crate) fn broken(self, _mutation: Mutation) -> bool {
        false
    }
}

//! The port to local state: a cache of staged work and of how far it came. Losing it costs time, never rows.

use crate::{CheckpointId, CheckpointIntent, MemberDigest, Position, Result};

/// What local state remembers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SavedState {
    /// The greatest position that was complete, and the tables it speaks for.
    pub position: Option<(Position, MemberDigest)>,
    /// Intents not known to be done, oldest first.
    pub intents: Vec<CheckpointIntent>,
}

/// Local state. Every change is durable (fsynced) when the call returns.
pub trait PositionStore: Send + Sync {
    /// Reads everything.
    fn load(&self) -> Result<SavedState>;

    /// Remembers an intent before the first commit of it is sent.
    fn put_intent(&self, intent: &CheckpointIntent) -> Result<()>;

    /// Drops the intent and advances the position, in one step. A position at or below the saved one of the same tables leaves it.
    fn advance(&self, done: &CheckpointId, position: &Position, members: MemberDigest) -> Result<()>;

    /// Drops all intents; the position stays.
    fn drop_intents(&self) -> Result<()>;
}

//! Local state: every write makes a version, durable only once it is synced, so that it can be lost or restored stale.

use calve_core::{CheckpointId, CheckpointIntent, MemberDigest, Position, PositionStore, Result, SavedState};

use super::faults::StepKind;
use super::world::{Process, World};

/// One directory of local state, with its history.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sled {
    /// What it held, oldest first; the last one is what it holds.
    versions: Vec<SavedState>,
    /// How many of them are synced.
    synced: usize,
}

impl Sled {
    /// What it holds.
    pub(crate) fn read(&self) -> SavedState {
        self.versions.last().cloned().unwrap_or_default()
    }

    fn write(&mut self, change: impl FnOnce(&mut SavedState)) {
        let mut state = self.read();
        change(&mut state);
        self.versions.push(state);
    }

    fn sync(&mut self) {
        self.synced = self.versions.len();
    }

    /// A copy as it was some writes ago; empty when there were not so many.
    #[must_use]
    pub(crate) fn as_of(&self, writes_ago: usize) -> Self {
        let mut old = self.clone();
        old.versions.truncate(self.versions.len().saturating_sub(writes_ago));
        old.sync();
        old
    }

    /// What was not synced is gone.
    pub(crate) fn lose_power(&mut self) {
        self.versions.truncate(self.synced);
    }
}

/// The port.
pub(crate) struct SimPositions(pub(crate) Process);

impl SimPositions {
    fn sled<'a>(&self, world: &'a mut World) -> &'a mut Sled {
        let sled = world.processes[self.0.number].sled;
        &mut world.sleds[sled]
    }

    fn write(&self, what: &str, change: impl FnOnce(&mut SavedState)) -> Result<()> {
        self.0.step_now(
            StepKind::Write,
            || format!("local state: {what}"),
            |w| {
                self.sled(w).write(change);
                Ok(())
            },
            |w| self.sled(w).sync(),
        )
    }
}

impl PositionStore for SimPositions {
    fn load(&self) -> Result<SavedState> {
        self.0.step_now(StepKind::Read, || "local state: load".to_owned(), |w| Ok(self.sled(w).read()), |_| ())
    }

    fn put_intent(&self, intent: &CheckpointIntent) -> Result<()> {
        self.write("put intent", |state| state.intents.push(intent.clone()))
    }

    fn advance(&self, done: &CheckpointId, position: &Position, members: MemberDigest) -> Result<()> {
        self.write("advance", |state| advance(state, done, position, members))
    }

    fn drop_intents(&self) -> Result<()> {
        self.write("drop intents", |state| state.intents.clear())
    }
}

fn advance(state: &mut SavedState, done: &CheckpointId, position: &Position, members: MemberDigest) {
    state.intents.retain(|intent| intent.id != *done);
    let behind = state.position.as_ref().is_some_and(|(at, of)| *of == members && at.covers(position));
    if !behind {
        state.position = Some((position.clone(), members));
    }
}

#[cfg(test)]
mod tests {
    use calve_core::{Lsn, TableName};
    use uuid::Uuid;

    use super::*;

    fn intent(id: u128) -> CheckpointIntent {
        let position = Position::Postgres(Lsn(1));
        CheckpointIntent {
            id: CheckpointId(Uuid::from_u128(id)),
            start: position.clone(),
            end: position,
            tables: vec![],
            covers: vec![],
        }
    }

    #[test]
    fn unsynced_writes_vanish_and_old_versions_come_back() {
        let mut sled = Sled::default();
        sled.write(|s| s.intents.push(intent(1)));
        sled.sync();
        sled.write(|s| s.intents.push(intent(2)));
        assert_eq!(sled.read().intents.len(), 2);
        assert_eq!(sled.as_of(1).read().intents.len(), 1);
        assert_eq!(sled.as_of(5).read(), SavedState::default());
        sled.lose_power();
        assert_eq!(sled.read().intents.len(), 1);
    }

    #[test]
    fn a_position_of_the_same_tables_never_goes_back() {
        let mut state = SavedState { position: None, intents: vec![intent(1), intent(2)] };
        let at = |lsn| Position::Postgres(Lsn(lsn));
        let set = |name: &str| MemberDigest::of([(&TableName::new("s", name), intent(0).id)]);
        let (one, two) = (set("a"), set("b"));
        advance(&mut state, &intent(1).id, &at(5), one);
        advance(&mut state, &intent(9).id, &at(4), one);
        assert_eq!((state.position.clone(), state.intents.len()), (Some((at(5), one)), 1));
        advance(&mut state, &intent(9).id, &at(4), two);
        assert_eq!(state.position, Some((at(4), two)));
    }
}

//! The one branch after a catalog commit that was not answered with success.
//!
//! The table is read again. If it records our id, the commit is done; if it records our base, the commit is tried again on the
//! table as it is now; if anything else, the table is foreign. What somebody did to the table since counts in either case.

use std::time::Duration;

use calve_core::{
    CheckpointId, CommitReceipt, Error, ErrorKind, LakeTable, LakeVersion, Position, TableCommit, TableName,
};

use crate::commit::{Committer, Halt, Step, describe};
use crate::observe::Event;
use crate::settings::Mutation;

/// What a data commit is meant to do to a table.
pub(crate) struct Target<'a> {
    pub(crate) name: &'a TableName,
    pub(crate) base: Option<CheckpointId>,
    pub(crate) id: CheckpointId,
    pub(crate) position: &'a Position,
}

impl Committer<'_> {
    /// A commit of properties only, with the same single branch for a bad answer.
    pub(crate) async fn change_properties(
        &mut self,
        index: usize,
        commit: TableCommit,
        reached: impl Fn(&LakeTable) -> bool,
    ) -> Step<()> {
        let entry = &self.ledger.entries[index];
        let (name, base, mut version) = (entry.name.clone(), entry.base, entry.version.clone());
        let mut backoff = Backoff::default();
        let receipt = loop {
            let error = match self.lake.commit(&name, &version, &commit).await {
                Ok(receipt) => break receipt,
                Err(error) => error,
            };
            let table = self.read_again(&name, &error, &mut backoff).await?;
            // First of all: on a base that is not ours even what seems done is somebody else's.
            if table.checkpoint() != base {
                return Err(self.foreign(&name));
            }
            if table.rolled_back {
                return Err(disturbed(&name));
            }
            if reached(&table) {
                break receipt_of(table, &commit);
            }
            if table.stopped.is_some() && !self.ledger.entries[index].marked {
                return Err(disturbed(&name));
            }
            if !may_try_again(&error) {
                return Err(error.into());
            }
            version = table.version;
        };
        self.ledger.record(&receipt);
        self.ledger.entries[index].version = receipt.version;
        Ok(())
    }

    /// Step 3 for one table: commits until it is known what became of it.
    pub(crate) async fn settle(
        &self,
        target: &Target<'_>,
        mut version: LakeVersion,
        commit: &TableCommit,
    ) -> Step<CommitReceipt> {
        let mut backoff = Backoff::default();
        loop {
            let error = match self.lake.commit(target.name, &version, commit).await {
                Ok(receipt) => return Ok(receipt),
                Err(error) => error,
            };
            let table = self.read_again(target.name, &error, &mut backoff).await?;
            let recorded = table.stamp.as_ref().map(|stamp| &stamp.position);
            let rules = self.ledger.rules;
            let covered = recorded.is_some_and(|at| at.covers(target.position));
            let done = table.checkpoint() == Some(target.id) || (covered && rules.broken(Mutation::PositionMeansDone));
            if rules.broken(Mutation::PositionMeansForeign) && covered {
                return Err(self.foreign(target.name));
            }
            let marked = self.ledger.entries.iter().any(|entry| entry.name == *target.name && entry.marked);
            if done {
                // The commit may have taken away a mark that was there before it.
                let stopped = table.stopped.is_some() && (!marked || commit.stop == Some(None));
                if table.rolled_back || stopped {
                    return Err(disturbed(target.name));
                }
                return Ok(receipt_of(table, commit));
            }
            if table.checkpoint() != target.base && !rules.broken(Mutation::BaseUnchecked) {
                return Err(self.foreign(target.name));
            }
            if table.rolled_back || (table.stopped.is_some() && !marked) {
                return Err(disturbed(target.name));
            }
            if !may_try_again(&error) {
                return Err(error.into());
            }
            // It was refused on the table as it still is: what is to be committed does not fit it, and never will.
            if error.kind() == ErrorKind::Conflict && table.version == version {
                return Err(self.foreign(target.name));
            }
            version = table.version;
        }
    }

    /// Reads a table after a commit that was not answered with success. An error that trying again cannot mend ends it here.
    async fn read_again(&self, name: &TableName, error: &Error, backoff: &mut Backoff) -> Step<LakeTable> {
        let mut reported = describe(error);
        loop {
            let after = backoff.next();
            self.observer.event(&Event::Retrying { what: format!("commit to {name}"), error: reported, after });
            self.environment.sleep(after).await;
            match self.lake.load(name).await {
                Ok(Some(table)) => return Ok(table),
                Ok(None) => {
                    let message = format!(
                        "table {name} is gone from the catalog; restore it, or leave it out of the configuration, or let calve \
                         make it anew by starting it again"
                    );
                    return Err(Error::new(ErrorKind::Config, message).into());
                }
                Err(error) if error.kind() == ErrorKind::Retry => reported = describe(&error),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn foreign(&self, name: &TableName) -> Halt {
        self.observer.event(&Event::Foreign { table: name.clone() });
        Halt::Foreign(name.clone())
    }
}

/// What the table says of a commit that was done. A request of an earlier process with the same id may have been the one that landed:
/// then it is complete to where that one knew.
fn receipt_of(table: LakeTable, commit: &TableCommit) -> CommitReceipt {
    match &commit.complete_to {
        Some(claim) => table.receipt(claim.members),
        None => CommitReceipt { version: table.version, complete_to: None },
    }
}

/// The table records our base or our id, but its main branch was moved away from it, or somebody stopped it: the next session heeds
/// that.
fn disturbed(name: &TableName) -> Halt {
    Error::new(ErrorKind::Retry, format!("table {name} was moved back or stopped by someone meanwhile")).into()
}

/// Whether sending the same commit again can end otherwise, now that the table is known to stand where it should.
fn may_try_again(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Retry | ErrorKind::Conflict)
}

/// Waits between tries: doubling from 50 ms to 30 s.
#[derive(Debug, Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    pub(crate) fn next(&mut self) -> Duration {
        let wait = Duration::from_millis(50 << self.0.min(10)).min(Duration::from_secs(30));
        self.0 += 1;
        wait
    }
}

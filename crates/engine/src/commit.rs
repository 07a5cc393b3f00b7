//! The commit protocol. Its five steps are the methods of [`Committer::checkpoint`], in order:
//!
//! 1. the rows are staged as files: durable, and visible to nobody;
//! 2. the intent is made durable in local state;
//! 3. each table gets one catalog commit, with the stamp in it;
//! 4. the position advances in local state and the intent is dropped, in one step;
//! 5. the source may forget its log, up to the completeness that is in the lake.
//!
//! Any answer to a catalog commit but success takes one branch, in [`settle`]: the table is read again; if it records our id
//! the commit is done, if it records our base the commit is tried again on the table as it is now, and if anything else the
//! table is foreign: the uncommitted work is dropped, and the pipeline starts over from what the tables say.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use calve_core::{
    CheckpointId, CheckpointIntent, CommitReceipt, CompleteTo, DeltaWriter, DurablePosition, EncodeJob, Error,
    ErrorKind, Lake, LakeTable, LakeVersion, MemberDigest, Position, PositionStore, RowBuffer, SourceIdentity,
    StagedDelta, Stamp, StopMark, StopReason, TableCommit, TableIndex, TableIntent, TableName,
};
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::mpsc;

use crate::assemble::{Sealed, TableRows, Work};
use crate::environment::Environment;
use crate::fold::fold;
use crate::ledger::{Entry, Ledger, Standing};
use crate::load::Finished;
use crate::observe::{Event, Observer, TableState};
use crate::recover::Redo;
use crate::settings::{Mutation, Settings};

/// Why a session cannot go on.
#[derive(Debug)]
pub(crate) enum Halt {
    /// An error; its kind says what to do.
    Failed(Error),
    /// A table does not stand where this session left it.
    Foreign(TableName),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

type Step<T> = std::result::Result<T, Halt>;

/// Snapshots of kept changes that go into one catalog commit.
const KEPT_GROUP: usize = 32;

/// What the committer tells the reader.
#[derive(Debug)]
pub(crate) enum Notice {
    /// The source may forget its log up to here.
    Acknowledge(DurablePosition),
    /// The table is stopped; its changes are of no more use.
    Stopped(TableIndex),
    /// The table's load is published.
    Loaded(TableIndex),
}

/// Turns checkpoints into commits. Owns everything that concerns the lake while a session lasts.
pub(crate) struct Committer<'a> {
    pub(crate) lake: &'a dyn Lake,
    pub(crate) writer: &'a dyn DeltaWriter,
    pub(crate) positions: &'a dyn PositionStore,
    pub(crate) environment: &'a dyn Environment,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) settings: &'a Settings,
    pub(crate) identity: SourceIdentity,
    pub(crate) ledger: Ledger,
    pub(crate) notices: mpsc::UnboundedSender<Notice>,
    pub(crate) acknowledged: Option<Position>,
    /// When a completeness was last written.
    pub(crate) raised: Duration,
    /// Counts checkpoints, for the mistake of using a count as an id.
    pub(crate) minted: u64,
}

impl Committer<'_> {
    /// Works until the reader is gone, then leaves the lake as complete as it can be claimed.
    pub(crate) async fn run(
        &mut self,
        mut work: mpsc::Receiver<Work>,
        mut loads: mpsc::Receiver<Finished>,
    ) -> Step<()> {
        let mut loading = true;
        loop {
            // Commits of data record completeness as they go; only when none comes is one made for that alone.
            let quiet = self.settings.idle_interval.max(self.settings.checkpoint_interval * 2);
            let wait = (self.raised + quiet).saturating_sub(self.environment.now());
            tokio::select! {
                biased;
                load = loads.recv(), if loading => match load {
                    Some(Finished::Staged { table, delta, position }) => self.publish(table, delta, position).await?,
                    Some(Finished::Failed { table, reason }) => self.stop(table, reason).await?,
                    None => loading = false,
                },
                item = work.recv() => match item {
                    Some(Work::Chunk(rows)) => self.stage(rows).await?,
                    Some(Work::Abandon) => self.abandon().await,
                    Some(Work::Seal(sealed)) => self.checkpoint(sealed).await?,
                    Some(Work::Stop(table, reason)) => self.stop(table, reason).await?,
                    None => break,
                },
                () = self.environment.sleep(wait), if self.ledger.is_unrecorded() => self.raise().await?,
            }
        }
        if self.ledger.is_unrecorded() {
            self.raise().await?;
        }
        Ok(())
    }

    /// Files that were staged and that no intent names are of no more use.
    pub(crate) async fn discard_uncommitted(&mut self) {
        for entry in &mut self.ledger.entries {
            let mut deltas = std::mem::take(&mut entry.staged);
            deltas.extend(std::mem::take(&mut entry.kept).into_iter().map(|(delta, _)| delta));
            if !deltas.is_empty() {
                self.writer.discard(&deltas).await;
            }
        }
    }

    /// The protocol.
    async fn checkpoint(&mut self, sealed: Sealed) -> Step<()> {
        let began = self.environment.now();
        self.stage(sealed.tables).await?; // 1
        let intent = self.intend(sealed.start, &sealed.end)?; // 2
        let todo = intent.tables.iter().map(|part| part.table.clone()).collect();
        self.commit(&intent, &todo).await?; // 3
        self.advance(&intent, &intent.covers, true)?; // 4
        self.acknowledge(); // 5
        self.observer.event(&Event::Checkpoint {
            end: sealed.end,
            committed_at: sealed.committed_at,
            tables: intent.tables.len(),
            took: self.environment.now().saturating_sub(began),
        });
        Ok(())
    }

    /// Finishes an intent of an earlier session. With `partial` it proves nothing about how far the tables are together.
    pub(crate) async fn redo(&mut self, redo: &Redo, partial: bool) -> Step<()> {
        self.commit(&redo.intent, &redo.todo).await?;
        let covers = if partial { &[][..] } else { &redo.intent.covers };
        self.advance(&redo.intent, covers, !partial)?;
        self.acknowledge();
        Ok(())
    }

    /// Step 1. Encodes tables side by side; the files wait in the ledger.
    async fn stage(&mut self, tables: Vec<TableRows>) -> Step<()> {
        let writer = self.writer;
        let standing = |index: TableIndex| self.ledger.entries[index.0].standing;
        let jobs =
            tables.into_iter().filter(|(index, _)| standing(*index) != Standing::Stopped).map(|(index, rows)| {
                let name = &self.ledger.entries[index.0].name;
                async move { Ok::<_, Error>((index, writer.write(name, encode_job(rows)).await?)) }
            });
        // Collected first: a stream over borrowed closures is not nameable as Send.
        let jobs: Vec<_> = jobs.collect();
        let staged: Vec<(TableIndex, StagedDelta)> =
            stream::iter(jobs).buffer_unordered(self.settings.commit_parallelism).try_collect().await?;
        for (index, delta) in staged {
            let entry = &mut self.ledger.entries[index.0];
            if delta.is_empty() {
                self.writer.discard(&[delta]).await;
                continue;
            }
            if delta.replace {
                // What came before in this checkpoint is truncated away before anybody saw it.
                let superseded = std::mem::take(&mut entry.staged);
                self.writer.discard(&superseded).await;
            }
            entry.staged.push(delta);
        }
        Ok(())
    }

    /// The chunks staged of a transaction that will come again.
    async fn abandon(&mut self) {
        for entry in &mut self.ledger.entries {
            let deltas = std::mem::take(&mut entry.staged);
            if !deltas.is_empty() {
                self.writer.discard(&deltas).await;
            }
        }
    }

    /// Step 2. The staged files of every streaming table become parts of an intent; those of loading tables are kept back.
    fn intend(&mut self, start: Position, end: &Position) -> Step<CheckpointIntent> {
        let id = self.mint();
        let mut tables = Vec::new();
        for entry in &mut self.ledger.entries {
            let deltas = std::mem::take(&mut entry.staged);
            if deltas.is_empty() {
                continue;
            }
            match entry.standing {
                Standing::Streaming => tables.push(part(entry, deltas, end)),
                Standing::Loading if self.ledger.rules.broken(Mutation::KeptLost) => {}
                Standing::Loading => entry.kept.extend(deltas.into_iter().map(|delta| (delta, end.clone()))),
                Standing::Stopped => unreachable!("a stopped table stages nothing"),
            }
        }
        let intent = CheckpointIntent { id, start, end: end.clone(), tables, covers: self.ledger.streaming() };
        if !intent.tables.is_empty() {
            self.positions.put_intent(&intent)?;
        }
        Ok(intent)
    }

    /// Step 3. One catalog commit a table, side by side.
    async fn commit(&mut self, intent: &CheckpointIntent, todo: &BTreeSet<TableName>) -> Step<()> {
        if todo.is_empty() {
            return Ok(());
        }
        let claim = self.claim(&intent.end).await?;
        let leave = self.outdated(&claim);
        let mut parts = Vec::new();
        for part in intent.tables.iter().filter(|part| todo.contains(&part.table)) {
            if let Some(index) = self.ledger.entries.iter().position(|entry| entry.name == part.table) {
                parts.push((part, index, self.sweep(index, &part.deltas).await));
            }
        }
        let mut jobs = Vec::new();
        for (part, index, garbage) in parts {
            let entry = &self.ledger.entries[index];
            let unstamped = self.ledger.rules.broken(Mutation::NoStamp);
            let stamp = Stamp {
                checkpoint: if unstamped { part.base } else { intent.id },
                position: if unstamped { part.low.clone() } else { part.high.clone() },
                schema: Arc::clone(&part.schema),
                source: self.identity.clone(),
            };
            let commit = TableCommit {
                deltas: part.deltas.clone(),
                stamp: Some(stamp),
                complete_to: Some(claim.clone()),
                leave: leave.intersection(&entry.member_of).copied().collect(),
                ..TableCommit::default()
            };
            let target = Target { name: &part.table, base: Some(part.base), id: intent.id, position: &part.high };
            let version = entry.version.clone();
            let this = &*self;
            jobs.push(async move {
                let receipt = this.settle(&target, version, &commit).await?;
                this.clean_up(target.name, &garbage).await;
                Ok::<_, Halt>((index, receipt, commit))
            });
        }
        let committed: Vec<_> =
            stream::iter(jobs).buffer_unordered(self.settings.commit_parallelism).try_collect().await?;
        for (index, receipt, commit) in committed {
            self.ledger.record(&receipt);
            let entry = &mut self.ledger.entries[index];
            entry.version = receipt.version;
            entry.member_of.retain(|members| !commit.leave.contains(members));
            let part = intent.tables.iter().find(|part| part.table == entry.name).expect("only parts were committed");
            entry.base = Some(intent.id);
            entry.position = Some(part.high.clone());
            self.observer.event(&Event::Committed {
                table: entry.name.clone(),
                checkpoint: intent.id,
                position: part.high.clone(),
                rows: part.deltas.iter().map(|delta| delta.rows).sum(),
                deletes: part.deltas.iter().map(|delta| delta.deletes).sum(),
            });
        }
        self.raised = self.environment.now();
        Ok(())
    }

    /// Step 4.
    fn advance(&mut self, intent: &CheckpointIntent, covers: &[TableName], complete: bool) -> Step<()> {
        self.ledger.complete(covers, &intent.end);
        if complete {
            self.ledger.completed = self.ledger.completed.join(&intent.end);
        }
        self.positions.advance(&intent.id, &self.ledger.next_complete(), &self.ledger.streaming())?;
        Ok(())
    }

    /// Step 5. Only a completeness that is in the lake is acknowledged.
    pub(crate) fn acknowledge(&mut self) {
        let durable = match (self.ledger.recorded_position(), &self.ledger.recorded) {
            (Some(position), Some(receipt)) => DurablePosition::recorded(position, receipt),
            _ => None,
        };
        #[cfg(feature = "mutations")]
        let durable = if self.ledger.rules.broken(Mutation::IdleAny) {
            Some(DurablePosition::unproven(self.ledger.next_complete()))
        } else {
            durable
        };
        let Some(durable) = durable else { return };
        if self.acknowledged.as_ref().is_some_and(|at| at.covers(durable.position())) {
            return;
        }
        self.acknowledged = Some(durable.position().clone());
        self.observer.event(&Event::Acknowledged { position: durable.position().clone() });
        // The reader outlives the committer, except when the session is ending anyway.
        let _ = self.notices.send(Notice::Acknowledge(durable));
    }

    /// Records completeness by a commit of properties only: the log moves although nothing of these tables changed.
    async fn raise(&mut self) -> Step<()> {
        let claim = self.claim(&self.ledger.next_complete()).await?;
        let streams = self.ledger.entries.iter().position(|entry| entry.standing == Standing::Streaming);
        let index = streams.unwrap_or_default();
        let commit = TableCommit { complete_to: Some(claim.clone()), ..TableCommit::default() };
        let reached = |table: &LakeTable| {
            table.complete_to.iter().any(|c| c.members == claim.members && c.position.covers(&claim.position))
        };
        self.change_properties(index, commit, reached).await?;
        self.raised = self.environment.now();
        self.acknowledge();
        Ok(())
    }

    /// The completeness to write with the next commit. Every table it speaks for says so in its own properties first.
    async fn claim(&mut self, end: &Position) -> Step<CompleteTo> {
        let members = self.ledger.members();
        for index in 0..self.ledger.entries.len() {
            let entry = &self.ledger.entries[index];
            if entry.standing != Standing::Streaming || entry.member_of.contains(&members) {
                continue;
            }
            let commit = TableCommit { join: BTreeSet::from([members]), ..TableCommit::default() };
            self.change_properties(index, commit, |table| table.member_of.contains(&members)).await?;
            self.ledger.entries[index].member_of.insert(members);
        }
        let own_end = self.ledger.rules.broken(Mutation::CompleteIsOwnEnd);
        let position = if own_end { end.clone() } else { self.ledger.next_complete() };
        Ok(CompleteTo { members, position })
    }

    /// Sets of the past that nobody needs to be remembered by: the present one says at least as much, and says it in the lake.
    fn outdated(&self, claim: &CompleteTo) -> BTreeSet<MemberDigest> {
        let present = self.ledger.recorded.as_ref().and_then(|receipt| receipt.complete_to.as_ref());
        if present.is_none_or(|present| present.members != claim.members) {
            return BTreeSet::new();
        }
        let known = self.ledger.entries.iter().flat_map(|entry| &entry.member_of);
        known.filter(|members| **members != claim.members).copied().collect()
    }

    /// A load is complete: its rows appear at once, then the changes kept meanwhile follow in order.
    async fn publish(&mut self, table: TableIndex, delta: StagedDelta, position: Position) -> Step<()> {
        if self.ledger.entries[table.0].standing == Standing::Stopped {
            self.writer.discard(&[delta]).await;
            return Ok(());
        }
        let id = self.mint();
        let rows = delta.rows;
        let entry = &self.ledger.entries[table.0];
        let name = entry.name.clone();
        let stamp = Stamp {
            checkpoint: id,
            position: position.clone(),
            schema: Arc::clone(&entry.schema),
            source: self.identity.clone(),
        };
        let commit = TableCommit {
            deltas: vec![delta],
            stamp: Some(stamp),
            stop: entry.marked.then_some(None),
            ..TableCommit::default()
        };
        let target = Target { name: &name, base: entry.base, id, position: &position };
        let version = entry.version.clone();
        let garbage = self.sweep(table.0, &commit.deltas).await;
        let receipt = self.settle(&target, version, &commit).await?;
        self.clean_up(&name, &garbage).await;
        // What the lake records so far does not speak for this table.
        self.ledger.recorded = None;
        let completed = self.ledger.completed.clone();
        let pass_kept = self.ledger.rules.broken(Mutation::PassKept);
        let entry = &mut self.ledger.entries[table.0];
        entry.version = receipt.version;
        entry.base = Some(id);
        entry.position = Some(position.clone());
        entry.upto = if pass_kept { completed } else { position.clone() };
        entry.standing = Standing::Streaming;
        entry.marked = false;
        self.observer.event(&Event::Loaded { table: name.clone(), position, rows });
        self.commit_kept(table.0).await?;
        self.acknowledge();
        let _ = self.notices.send(Notice::Loaded(table));
        self.observer.event(&Event::State { table: name, state: TableState::Streaming });
        Ok(())
    }

    /// The changes beyond a load, by checkpoints of the one table.
    async fn commit_kept(&mut self, index: usize) -> Step<()> {
        loop {
            let entry = &mut self.ledger.entries[index];
            let count = entry.kept.len().min(KEPT_GROUP);
            let group: Vec<(StagedDelta, Position)> = entry.kept.drain(..count).collect();
            let Some((_, end)) = group.last().cloned() else { break };
            let start = entry.upto.clone();
            let mut deltas: Vec<StagedDelta> = group.into_iter().map(|(delta, _)| delta).collect();
            if let Some(last) = deltas.iter().rposition(|delta| delta.replace) {
                // What a TRUNCATE takes away again need not be written first.
                let superseded: Vec<StagedDelta> = deltas.drain(..last).collect();
                self.writer.discard(&superseded).await;
            }
            let part = part(entry, deltas, &end);
            let covers = vec![entry.name.clone()];
            let intent = CheckpointIntent { id: self.mint(), start, end, tables: vec![part], covers };
            self.positions.put_intent(&intent)?;
            self.commit(&intent, &intent.covers.iter().cloned().collect()).await?;
            self.ledger.complete(&intent.covers, &intent.end);
            self.positions.advance(&intent.id, &self.ledger.next_complete(), &self.ledger.streaming())?;
        }
        // It has every change up to the last complete checkpoint: what is not kept did not happen.
        let completed = self.ledger.completed.clone();
        let entry = &mut self.ledger.entries[index];
        entry.upto = entry.upto.join(&completed);
        Ok(())
    }

    /// Stops a table, durably, before anything passes it.
    pub(crate) async fn stop(&mut self, table: TableIndex, reason: StopReason) -> Step<()> {
        let entry = &mut self.ledger.entries[table.0];
        let mut deltas = std::mem::take(&mut entry.staged);
        deltas.extend(std::mem::take(&mut entry.kept).into_iter().map(|(delta, _)| delta));
        let at = entry.base.is_some().then(|| entry.upto.clone());
        self.writer.discard(&deltas).await;
        self.mark(table.0, StopMark { at, reason: reason.clone() }).await?;
        let entry = &mut self.ledger.entries[table.0];
        entry.standing = Standing::Stopped;
        let _ = self.notices.send(Notice::Stopped(table));
        self.observer.event(&Event::State { table: entry.name.clone(), state: TableState::Stopped(reason) });
        Ok(())
    }

    /// Puts a stop mark on a table in the lake.
    pub(crate) async fn mark(&mut self, index: usize, mark: StopMark) -> Step<()> {
        let commit = TableCommit { stop: Some(Some(mark.clone())), ..TableCommit::default() };
        self.change_properties(index, commit, |table| table.stopped.as_ref() == Some(&mark)).await?;
        self.ledger.entries[index].marked = true;
        Ok(())
    }

    /// Takes a stop mark away by itself, which only the mistake [`Mutation::UnstopFirst`] does.
    pub(crate) async fn unmark(&mut self, index: usize) -> Step<()> {
        let commit = TableCommit { stop: Some(None), ..TableCommit::default() };
        self.change_properties(index, commit, |table| table.stopped.is_none()).await?;
        self.ledger.entries[index].marked = false;
        Ok(())
    }

    /// A commit of properties only, with the same single branch for a bad answer.
    async fn change_properties(
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
                let complete_to = commit.complete_to.clone();
                break CommitReceipt { version: table.version, complete_to };
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
    async fn settle(&self, target: &Target<'_>, mut version: LakeVersion, commit: &TableCommit) -> Step<CommitReceipt> {
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
            if done {
                let complete_to = commit.complete_to.clone();
                return Ok(CommitReceipt { version: table.version, complete_to });
            }
            if table.checkpoint() != target.base && !rules.broken(Mutation::BaseUnchecked) {
                return Err(self.foreign(target.name));
            }
            let marked = self.ledger.entries.iter().any(|entry| entry.name == *target.name && entry.marked);
            if table.rolled_back || (table.stopped.is_some() && !marked) {
                return Err(disturbed(target.name));
            }
            if !may_try_again(&error) {
                return Err(error.into());
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

    /// Looks, once a session and before a commit that changes the table is sent, for files that earlier runs left behind.
    async fn sweep(&mut self, index: usize, own: &[StagedDelta]) -> Vec<String> {
        if std::mem::replace(&mut self.ledger.entries[index].swept, true) {
            return Vec::new();
        }
        let entry = &self.ledger.entries[index];
        let kept = entry.kept.iter().map(|(delta, _)| delta).chain(&entry.staged).chain(own);
        let mut keep: BTreeSet<String> = kept.flat_map(|delta| delta.files.iter().cloned()).collect();
        // Intents that are still to be redone name files of earlier runs.
        let Ok(saved) = self.positions.load() else { return Vec::new() };
        let intended = saved.intents.into_iter().flat_map(|intent| intent.tables).flat_map(|part| part.deltas);
        keep.extend(intended.flat_map(|delta| delta.files));
        match self.lake.unreferenced_files(&entry.name, &keep).await {
            Ok(files) => files,
            Err(error) => {
                let what = format!("looking for left-over files of {}", entry.name);
                let after = Duration::ZERO;
                self.observer.event(&Event::Retrying { what, error: describe(&error), after });
                self.ledger.entries[index].swept = false;
                Vec::new()
            }
        }
    }

    /// After the commit is confirmed nobody can refer to them any more. What cannot be deleted now is found again later.
    async fn clean_up(&self, name: &TableName, garbage: &[String]) {
        if garbage.is_empty() {
            return;
        }
        match self.lake.delete_unreferenced(name, garbage).await {
            Ok(files) => self.observer.event(&Event::CleanedUp { table: name.clone(), files }),
            Err(error) => {
                let what = format!("deleting left-over files of {name}");
                self.observer.event(&Event::Retrying { what, error: describe(&error), after: Duration::ZERO });
            }
        }
    }

    fn mint(&mut self) -> CheckpointId {
        self.minted += 1;
        if self.ledger.rules.broken(Mutation::CounterId) {
            return CheckpointId(uuid::Uuid::from_u128(u128::from(self.minted)));
        }
        CheckpointId(self.environment.new_id())
    }
}

/// What a data commit is meant to do to a table.
struct Target<'a> {
    name: &'a TableName,
    base: Option<CheckpointId>,
    id: CheckpointId,
    position: &'a Position,
}

/// A table's part of an intent: on top of what the table records now, up to `high`.
fn part(entry: &Entry, deltas: Vec<StagedDelta>, high: &Position) -> TableIntent {
    TableIntent {
        table: entry.name.clone(),
        base: entry.base.expect("a table that streams was loaded"),
        low: entry.position.clone().expect("a table that streams was loaded"),
        high: high.clone(),
        schema: Arc::clone(&entry.schema),
        deltas,
    }
}

/// The table records our base, but its main branch was moved away from it, or somebody stopped it: the next session heeds that.
fn disturbed(name: &TableName) -> Halt {
    Error::new(ErrorKind::Retry, format!("table {name} was moved back or stopped by someone meanwhile")).into()
}

/// Whether sending the same commit again can end otherwise, now that the table is known to stand where it should.
fn may_try_again(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Retry | ErrorKind::Conflict)
}

fn encode_job(rows: RowBuffer) -> EncodeJob {
    Box::new(move || fold(rows))
}

/// An error with its causes, on one line.
pub(crate) fn describe(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        let next_text = next.to_string();
        if !text.contains(&next_text) {
            text.push_str(": ");
            text.push_str(&next_text);
        }
        cause = next.source();
    }
    text
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

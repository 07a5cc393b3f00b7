//! The commit protocol. Its five steps are the methods of [`Committer::checkpoint`], in order:
//!
//! 1. the rows are staged as files: durable, and visible to nobody;
//! 2. the intent is made durable in local state;
//! 3. each table gets one catalog commit, with the stamp in it;
//! 4. the position advances in local state and the intent is dropped, in one step;
//! 5. the source may forget its log, up to the completeness that is in the lake.
//!
//! Any answer to a catalog commit but success takes one branch, in `settle`: the table is read again; if it records our id
//! the commit is done, if it records our base the commit is tried again on the table as it is now, and if anything else the
//! table is foreign: the uncommitted work is dropped, and the pipeline starts over from what the tables say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use calve_core::{
    CheckpointId, CheckpointIntent, CompleteTo, DeltaWriter, DurablePosition, Error, Lake, LakeTable, MemberDigest,
    Position, PositionStore, SourceIdentity, StagedDelta, Stamp, StopMark, StopReason, TableCommit, TableIndex,
    TableIntent, TableName, TableSchema,
};
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::mpsc;

use crate::ahead::{Ahead, Next, Whole};
use crate::assemble::{Sealed, Work};
use crate::environment::Environment;
use crate::ledger::{Entry, Ledger, Standing, Waiting, files_of};
use crate::load::Finished;
use crate::observe::{Event, Observer, TableState};
use crate::policy::{HELD, Reloads};
use crate::recover::Redo;
use crate::settings::{Mutation, Settings};
use crate::settle::Target;
use crate::stage::altered_while_loading;
use crate::weight::Weight;

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

pub(crate) type Step<T> = std::result::Result<T, Halt>;

/// What the committer tells the reader.
#[derive(Debug)]
pub(crate) enum Notice {
    /// The source may forget its log up to here.
    Acknowledge(DurablePosition),
    /// The table is stopped; its changes are of no more use.
    Stopped(TableIndex),
    /// Tables wait to be read again, the first of them until then.
    Reload(Duration),
    /// The table's load is published.
    Loaded(TableIndex),
}

/// A table that was dropped has so long to be made anew before it is read again.
const MADE_ANEW: Duration = Duration::from_secs(5);

/// States of tables that another load mends at once, where one is under way.
const RESTARTS_LOAD: [&str; 6] = [
    StopReason::SCHEMA_CHANGED,
    StopReason::SWAPPED,
    HELD,
    StopReason::RELOADING,
    StopReason::ROWS_GONE,
    StopReason::ROWS_UNKNOWN,
];

/// Files by the table whose intent names them.
pub(crate) type IntendedFiles = BTreeMap<TableName, Vec<String>>;

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
    /// Tables that are to be read again by themselves.
    pub(crate) reloads: Reloads,
}

impl Committer<'_> {
    /// Works until the reader is gone, then leaves the lake as complete as it can be claimed.
    pub(crate) async fn run(
        &mut self,
        works: mpsc::Receiver<(Work, Weight)>,
        loads: mpsc::Receiver<Finished>,
    ) -> Step<()> {
        let mut ahead = Ahead::new(works, self.stager(), self.ledger.rules);
        let result = self.work(&mut ahead, loads).await;
        if result.is_err() {
            ahead.discard().await;
        }
        result
    }

    async fn work(&mut self, ahead: &mut Ahead<'_>, mut loads: mpsc::Receiver<Finished>) -> Step<()> {
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
                item = ahead.next() => match item? {
                    Some(Next::Work(Work::Chunk(rows), weight)) => self.stage(rows, weight, ahead).await?,
                    Some(Next::Work(Work::Seal(mut sealed), weight)) => {
                        self.stage(std::mem::take(&mut sealed.tables), weight, ahead).await?; // 1
                        self.checkpoint(sealed, ahead).await?;
                    }
                    Some(Next::Staged(Whole { sealed, rest, weight }, staged)) => {
                        self.keep(staged).await?;
                        self.stage(rest, weight, ahead).await?; // 1
                        if let Some(sealed) = sealed {
                            self.checkpoint(sealed, ahead).await?;
                        }
                    }
                    Some(Next::Work(Work::Abandon, _)) => self.abandon().await,
                    Some(Next::Work(Work::Stop(table, reason), _)) => self.stop(table, reason).await?,
                    Some(Next::Work(Work::Ignored(table, reason), _)) => self.ignore(table, reason)?,
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
            let mut deltas = entry.take_files();
            deltas.extend(entry.loaded.take());
            if !deltas.is_empty() {
                self.writer.discard(&deltas).await;
            }
        }
    }

    /// The protocol, from where the rows are staged. Meanwhile what comes next is staged.
    async fn checkpoint(&mut self, sealed: Sealed, ahead: &mut Ahead<'_>) -> Step<()> {
        let began = self.environment.now();
        // By the schemas that this checkpoint brings: the intent takes them out of the ledger, and the tables have them once it is
        // committed.
        let manners = self.manners();
        let intent = self.intend(sealed.start, &sealed.end)?; // 2
        let todo = intent.tables.iter().map(|part| part.table.clone()).collect();
        let reshapes = intent.tables.iter().flat_map(|part| &part.deltas).any(|delta| delta.reshapes);
        tokio::select! {
            biased;
            committed = self.commit(&intent, &todo) => committed?, // 3
            () = ahead.work(&manners), if !reshapes => {}
        }
        self.advance(&intent, &intent.covers, true)?; // 4
        self.acknowledge(); // 5
        self.ledger.sealed = Some(sealed.end.clone());
        self.publish_settled().await?;
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

    /// Step 2. The staged files of every streaming table become parts of an intent; those of loading tables are kept back.
    fn intend(&mut self, start: Position, end: &Position) -> Step<CheckpointIntent> {
        let id = self.mint();
        let mut tables = Vec::new();
        for entry in &mut self.ledger.entries {
            let staged = std::mem::take(&mut entry.staged);
            if staged.is_empty() && entry.reshaped.is_none() {
                continue;
            }
            match entry.standing {
                Standing::Streaming => {
                    let reshaped = entry.reshaped.take().filter(|_| !self.ledger.rules.broken(Mutation::OldSchema));
                    let schema = reshaped.unwrap_or_else(|| Arc::clone(&entry.schema));
                    tables.push(part(entry, schema, files_of(staged), end));
                }
                Standing::Loading if self.ledger.rules.broken(Mutation::KeptLost) => {}
                Standing::Loading => {
                    entry.reshapes.extend(entry.reshaped.take().map(|schema| (end.clone(), schema)));
                    entry.kept.extend(staged.into_iter().map(|change| (change, end.clone())));
                }
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
    pub(crate) async fn commit(&mut self, intent: &CheckpointIntent, todo: &BTreeSet<TableName>) -> Step<()> {
        if todo.is_empty() {
            return Ok(());
        }
        let claim = self.claim(&intent.end).await?;
        let leave = self.outdated(&claim);
        let places: BTreeMap<TableName, usize> =
            self.ledger.entries.iter().enumerate().map(|(index, entry)| (entry.name.clone(), index)).collect();
        // Only for tables that are committed now: one that never changes is never swept, and would have it read every time.
        let swept = |part: &TableIntent| places.get(&part.table).is_none_or(|index| self.ledger.entries[*index].swept);
        let all_swept = intent.tables.iter().filter(|part| todo.contains(&part.table)).all(swept);
        let intended = if all_swept { None } else { self.intended() };
        let mut parts = Vec::new();
        for part in intent.tables.iter().filter(|part| todo.contains(&part.table)) {
            if let Some(&index) = places.get(&part.table) {
                parts.push((part, index, self.sweep(index, &part.deltas, intended.as_ref()).await));
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
                load: entry.load.expect("a table that streams was loaded"),
                changes: changes_after(entry, part),
            };
            let commit = TableCommit {
                deltas: part.deltas.clone(),
                stamp: Some(stamp),
                complete_to: Some(claim.clone()),
                leave: leave.intersection(&entry.known_sets).copied().collect(),
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
            entry.known_sets.retain(|members| !commit.leave.contains(members));
            let part = intent.tables.iter().find(|part| part.table == entry.name).expect("only parts were committed");
            entry.base = Some(intent.id);
            entry.position = Some(part.high.clone());
            entry.changes = changes_after(entry, part);
            entry.schema = Arc::clone(&part.schema);
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
        self.positions.advance(&intent.id, &self.ledger.next_complete(), self.ledger.members())?;
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
            let entry = &mut self.ledger.entries[index];
            entry.member_of.insert(members);
            entry.known_sets.insert(members);
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
        let known = self.ledger.entries.iter().flat_map(|entry| &entry.known_sets);
        known.filter(|members| **members != claim.members).copied().collect()
    }

    /// Stops a table, durably, before anything passes it.
    pub(crate) async fn stop(&mut self, table: TableIndex, reason: StopReason) -> Step<()> {
        let entry = &mut self.ledger.entries[table.0];
        if entry.standing == Standing::Loading && RESTARTS_LOAD.contains(&&*reason.state) {
            return Err(altered_while_loading(&entry.name));
        }
        let delay = if reason.state == StopReason::DROPPED { MADE_ANEW } else { Duration::ZERO };
        // Of a table that could not be loaded the reason says more, and what keeps history is read again on request only.
        let streams = entry.standing == Standing::Streaming && !entry.schema.keeps_history();
        let reason = if streams { self.settings.policies(&entry.name).instead_of(reason) } else { reason };
        entry.reshaped = None;
        let mut deltas = entry.take_files();
        deltas.extend(entry.loaded.take());
        let at = entry.base.is_some().then(|| entry.upto.clone());
        self.writer.discard(&deltas).await;
        self.mark(table.0, StopMark { at, reason: reason.clone() }).await?;
        let entry = &mut self.ledger.entries[table.0];
        entry.standing = Standing::Stopped;
        let _ = self.notices.send(Notice::Stopped(table));
        if reason.state == StopReason::RELOADING {
            let due = self.reloads.plan(&entry.name, self.environment.now() + delay, self.settings.reload_pause);
            let _ = self.notices.send(Notice::Reload(due));
        }
        self.observer.event(&Event::State { table: entry.name.clone(), state: TableState::Stopped(reason) });
        Ok(())
    }

    /// Goes on with a table from which rows went. A load that is of no one position may have had some of them, and begins anew.
    fn ignore(&mut self, table: TableIndex, reason: StopReason) -> Step<()> {
        let entry = &self.ledger.entries[table.0];
        if entry.standing == Standing::Loading && entry.settles.is_some() {
            return Err(altered_while_loading(&entry.name));
        }
        self.observer.event(&Event::Ignored { table: entry.name.clone(), reason });
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

    /// What intents name, those among them that are still to be redone; None where it cannot be told now. Read once for all
    /// tables of a checkpoint: local state holds the whole of it.
    pub(crate) fn intended(&self) -> Option<IntendedFiles> {
        let mut files = IntendedFiles::new();
        for part in self.positions.load().ok()?.intents.into_iter().flat_map(|intent| intent.tables) {
            files.entry(part.table).or_default().extend(part.deltas.into_iter().flat_map(|delta| delta.files));
        }
        Some(files)
    }

    /// Looks, once a session and before a commit that changes the table is sent, for files that earlier runs left behind.
    /// Files that intents name stay; without knowing these nothing is looked for.
    pub(crate) async fn sweep(
        &mut self,
        index: usize,
        own: &[StagedDelta],
        intended: Option<&IntendedFiles>,
    ) -> Vec<String> {
        let Some(intended) = intended else { return Vec::new() };
        if std::mem::replace(&mut self.ledger.entries[index].swept, true) {
            return Vec::new();
        }
        let entry = &self.ledger.entries[index];
        let kept =
            entry.kept.iter().map(|(change, _)| change).chain(&entry.staged).filter_map(Waiting::delta).chain(own);
        let kept = kept.flat_map(|delta| &delta.files).chain(intended.get(&entry.name).into_iter().flatten());
        let keep: BTreeSet<String> = kept.cloned().collect();
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
    pub(crate) async fn clean_up(&self, name: &TableName, garbage: &[String]) {
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

    pub(crate) fn mint(&mut self) -> CheckpointId {
        self.minted += 1;
        if self.ledger.rules.broken(Mutation::CounterId) {
            return CheckpointId(uuid::Uuid::from_u128(u128::from(self.minted)));
        }
        CheckpointId(self.environment.new_id())
    }
}

/// A table's part of an intent: on top of what the table records now, up to `high`.
pub(crate) fn part(entry: &Entry, schema: Arc<TableSchema>, deltas: Vec<StagedDelta>, high: &Position) -> TableIntent {
    TableIntent {
        table: entry.name.clone(),
        base: entry.base.expect("a table that streams was loaded"),
        low: entry.position.clone().expect("a table that streams was loaded"),
        high: high.clone(),
        schema,
        deltas,
    }
}

/// How many changes a table has had once a part of an intent is committed.
fn changes_after(entry: &Entry, part: &TableIntent) -> u64 {
    part.deltas.iter().map(|delta| delta.changes).fold(entry.changes, u64::max)
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

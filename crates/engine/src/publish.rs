//! Loads becoming visible.
//!
//! A load's rows appear at once. Where they are of one position exactly, they are committed as soon as they are written, and
//! the changes kept meanwhile follow in order. Where some of them may hold changes from beyond the position
//! ([`settled`](calve_core::LoadReader::settled)), the rows alone were never the table's: they wait until every change up
//! to there is kept, and appear together with those, in one commit.

use std::sync::Arc;

use calve_core::{CheckpointIntent, Position, StagedDelta, Stamp, TableCommit, TableIndex};

use crate::commit::{Committer, Notice, Step, part};
use crate::ledger::{Standing, Waiting, files_of};
use crate::observe::{Event, TableState};
use crate::settings::Mutation;
use crate::settle::Target;

/// Snapshots of kept changes that go into one catalog commit.
const KEPT_GROUP: usize = 32;

impl Committer<'_> {
    /// A load is written: it appears now, or as soon as it is settled.
    pub(crate) async fn publish(&mut self, table: TableIndex, delta: StagedDelta, position: Position) -> Step<()> {
        let entry = &mut self.ledger.entries[table.0];
        if entry.standing == Standing::Stopped {
            self.writer.discard(&[delta]).await;
            return Ok(());
        }
        if entry.settles.is_none() || self.ledger.rules.broken(Mutation::UnsettledLoad) {
            return self.publish_at(table, vec![delta], position).await;
        }
        entry.loaded = Some(delta);
        self.publish_settled().await
    }

    /// Loads that waited for changes to be kept, and have them now.
    pub(crate) async fn publish_settled(&mut self) -> Step<()> {
        for index in 0..self.ledger.entries.len() {
            let (sealed, completed) = (self.ledger.sealed.clone(), self.ledger.completed.clone());
            let entry = &mut self.ledger.entries[index];
            if !entry.settles.as_ref().zip(sealed).is_some_and(|(settles, sealed)| sealed.covers(settles)) {
                continue;
            }
            // Chunks of a transaction that is not over are staged as rows of the load.
            if entry.schema.keeps_history() && !entry.staged.is_empty() {
                continue;
            }
            let Some(loaded) = entry.loaded.take() else { continue };
            let mut deltas = vec![loaded];
            deltas.extend(files_of(std::mem::take(&mut entry.kept).into_iter().map(|(change, _)| change)));
            self.supersede(&mut deltas).await;
            self.publish_at(TableIndex(index), deltas, completed).await?;
        }
        Ok(())
    }

    /// Commits a load, with the changes that make it what the table is at `position`.
    async fn publish_at(&mut self, table: TableIndex, deltas: Vec<StagedDelta>, position: Position) -> Step<()> {
        let id = self.mint();
        let rows = deltas.first().map_or(0, |load| load.rows);
        let entry = &mut self.ledger.entries[table.0];
        entry.reshape_until(&position);
        let name = entry.name.clone();
        let stamp = Stamp {
            checkpoint: id,
            position: position.clone(),
            schema: Arc::clone(&entry.schema),
            source: self.identity.clone(),
            load: id,
            changes: deltas.iter().map(|delta| delta.changes).max().unwrap_or_default(),
        };
        let changes = stamp.changes;
        let commit =
            TableCommit { deltas, stamp: Some(stamp), stop: entry.marked.then_some(None), ..TableCommit::default() };
        let target = Target { name: &name, base: entry.base, id, position: &position };
        let version = entry.version.clone();
        let garbage = self.sweep(table.0, &commit.deltas, self.intended().as_ref()).await;
        let receipt = self.settle(&target, version, &commit).await?;
        self.clean_up(&name, &garbage).await;
        // What the lake records so far does not speak for this table.
        self.ledger.recorded = None;
        let completed = self.ledger.completed.clone();
        let pass_kept = self.ledger.rules.broken(Mutation::PassKept);
        let entry = &mut self.ledger.entries[table.0];
        entry.version = receipt.version;
        entry.base = Some(id);
        entry.load = Some(id);
        entry.changes = changes;
        entry.member_of.clear();
        entry.position = Some(position.clone());
        entry.upto = if pass_kept { completed } else { position.clone() };
        entry.standing = Standing::Streaming;
        entry.marked = false;
        entry.settles = None;
        self.observer.event(&Event::Loaded { table: name.clone(), position, rows });
        self.commit_kept(table.0).await?;
        self.acknowledge();
        if self.ledger.entries[table.0].standing == Standing::Stopped {
            return Ok(());
        }
        let _ = self.notices.send(Notice::Loaded(table));
        self.observer.event(&Event::State { table: name, state: TableState::Streaming });
        Ok(())
    }

    /// The changes beyond a load, by checkpoints of the one table.
    async fn commit_kept(&mut self, index: usize) -> Step<()> {
        loop {
            let entry = &mut self.ledger.entries[index];
            let mut count = entry.kept.len().min(KEPT_GROUP);
            let end_of = |entry: &crate::ledger::Entry, at: usize| entry.kept.get(at).map(|(_, end)| end.clone());
            let Some(end) = count.checked_sub(1).and_then(|last| end_of(entry, last)) else { break };
            // What one checkpoint changed is never committed in part.
            while end_of(entry, count).as_ref() == Some(&end) {
                count += 1;
            }
            let start = entry.upto.clone();
            let kept: Vec<Waiting> = entry.kept.drain(..count).map(|(change, _)| change).collect();
            let Some(mut deltas) = self.staged_by_now(index, kept).await? else { return Ok(()) };
            self.supersede(&mut deltas).await;
            if deltas.is_empty() {
                continue;
            }
            self.commit_alone(index, start, end, deltas).await?;
        }
        // What was done to its schema alone is recorded too, before anything says that it was read.
        let entry = &self.ledger.entries[index];
        if let Some((end, _)) = entry.reshapes.last().cloned() {
            self.commit_alone(index, entry.upto.clone(), end, Vec::new()).await?;
        }
        // It has every change up to the last complete checkpoint: what is not kept did not happen.
        let completed = self.ledger.completed.clone();
        let entry = &mut self.ledger.entries[index];
        entry.upto = entry.upto.join(&completed);
        // Of a transaction that is not over yet.
        let staged = std::mem::take(&mut entry.staged);
        if let Some(staged) = self.staged_by_now(index, staged).await? {
            self.ledger.entries[index].staged = staged.into_iter().map(Waiting::Files).collect();
        }
        Ok(())
    }

    /// A checkpoint of the one table.
    async fn commit_alone(
        &mut self,
        index: usize,
        start: Position,
        end: Position,
        deltas: Vec<StagedDelta>,
    ) -> Step<()> {
        let entry = &mut self.ledger.entries[index];
        entry.reshape_until(&end);
        let part = part(entry, Arc::clone(&entry.schema), deltas, &end);
        let covers = vec![part.table.clone()];
        let intent = CheckpointIntent { id: self.mint(), start, end, tables: vec![part], covers };
        self.positions.put_intent(&intent)?;
        self.commit(&intent, &intent.covers.iter().cloned().collect()).await?;
        self.ledger.complete(&intent.covers, &intent.end);
        self.positions.advance(&intent.id, &self.ledger.next_complete(), self.ledger.members())?;
        Ok(())
    }

    /// What a TRUNCATE takes away again need not be written first.
    async fn supersede(&self, deltas: &mut Vec<StagedDelta>) {
        if let Some(last) = deltas.iter().rposition(|delta| delta.replace) {
            let superseded: Vec<StagedDelta> = deltas.drain(..last).collect();
            if !superseded.is_empty() {
                self.writer.discard(&superseded).await;
            }
        }
    }
}

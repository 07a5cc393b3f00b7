//! Ports with places to die at, before and after every effect.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use calve_core::{
    ChangeSink, ChangeSource, CheckpointId, CheckpointIntent, CommitReceipt, DeltaWriter, DurablePosition, EncodeJob,
    Excerpt, Ground, Lake, LakeTable, LakeVersion, LoadReader, LoadWriter, LogState, MemberDigest, Onto, Position,
    PositionStore, Result, RowBuffer, SavedState, SourceIdentity, SourceTable, StagedDelta, TableCommit, TableName,
    TableSchema, Written,
};
use calve_engine::Ports;

use crate::failpoint;

/// The same ports with places to die at.
pub(crate) fn decorate(ports: Ports) -> Ports {
    let loads = Arc::new(Loads::default());
    Ports {
        source: Box::new(Source(ports.source)),
        lake: Arc::new(LakeAround { inner: ports.lake, loads: Arc::clone(&loads) }),
        writer: Arc::new(Writer { inner: ports.writer, loads }),
        positions: Arc::new(Positions(ports.positions)),
        ..ports
    }
}

/// Files written by loads, by which the commit that publishes one is known.
#[derive(Default)]
struct Loads(Mutex<HashSet<String>>);

impl Loads {
    fn remember(&self, delta: &StagedDelta) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(delta.files.iter().cloned());
    }

    fn wrote(&self, delta: &StagedDelta) -> bool {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        delta.files.iter().any(|file| files.contains(file))
    }
}

struct LakeAround {
    inner: Arc<dyn Lake>,
    loads: Arc<Loads>,
}

#[async_trait]
impl Lake for LakeAround {
    async fn load(&self, table: &TableName) -> Result<Option<LakeTable>> {
        self.inner.load(table).await
    }

    async fn create(&self, schema: &TableSchema) -> Result<LakeTable> {
        failpoint::hit("lake.create.before");
        let result = self.inner.create(schema).await;
        failpoint::hit("lake.create.after");
        result
    }

    async fn commit(&self, table: &TableName, version: &LakeVersion, commit: &TableCommit) -> Result<CommitReceipt> {
        let (load, properties_only) =
            (commit.deltas.iter().any(|delta| self.loads.wrote(delta)), commit.deltas.is_empty());
        match (load, properties_only) {
            (true, _) => failpoint::hit("load.commit.before"),
            (_, true) => failpoint::hit("lake.property_commit.before"),
            _ => failpoint::hit("lake.commit.before"),
        }
        let result = self.inner.commit(table, version, commit).await;
        match (load, properties_only) {
            (true, _) => failpoint::hit("load.commit.after"),
            (_, true) => failpoint::hit("lake.property_commit.after"),
            _ => failpoint::hit("lake.commit.after"),
        }
        result
    }

    async fn unreferenced_files(&self, table: &TableName, keep: &BTreeSet<String>) -> Result<Vec<String>> {
        self.inner.unreferenced_files(table, keep).await
    }

    async fn delete_unreferenced(&self, table: &TableName, files: &[String]) -> Result<usize> {
        failpoint::hit("clean-up.before");
        let result = self.inner.delete_unreferenced(table, files).await;
        failpoint::hit("clean-up.after");
        result
    }
}

struct Writer {
    inner: Arc<dyn DeltaWriter>,
    loads: Arc<Loads>,
}

#[async_trait]
impl DeltaWriter for Writer {
    async fn write(&self, table: &TableName, job: EncodeJob, onto: Onto, ground: &Ground) -> Result<Written> {
        failpoint::hit("writer.write.before");
        let result = self.inner.write(table, job, onto, ground).await;
        failpoint::hit("writer.write.after");
        result
    }

    async fn start_load(&self, schema: Arc<TableSchema>, excerpt: Excerpt) -> Result<Box<dyn LoadWriter>> {
        let inner = self.inner.start_load(schema, excerpt).await?;
        Ok(Box::new(Load { inner, loads: Arc::clone(&self.loads) }))
    }

    async fn discard(&self, deltas: &[StagedDelta]) {
        self.inner.discard(deltas).await;
    }
}

struct Load {
    inner: Box<dyn LoadWriter>,
    loads: Arc<Loads>,
}

#[async_trait]
impl LoadWriter for Load {
    async fn append(&mut self, rows: RowBuffer) -> Result<()> {
        self.inner.append(rows).await
    }

    async fn finish(self: Box<Self>) -> Result<StagedDelta> {
        failpoint::hit("load.finish.before");
        let delta = self.inner.finish().await?;
        failpoint::hit("load.finish.after");
        self.loads.remember(&delta);
        Ok(delta)
    }

    async fn abort(self: Box<Self>) {
        self.inner.abort().await;
    }
}

struct Positions(Arc<dyn PositionStore>);

impl PositionStore for Positions {
    fn load(&self) -> Result<SavedState> {
        self.0.load()
    }

    fn put_intent(&self, intent: &CheckpointIntent) -> Result<()> {
        failpoint::hit("positions.put_intent.before");
        let result = self.0.put_intent(intent);
        failpoint::hit("positions.put_intent.after");
        result
    }

    fn advance(&self, done: &CheckpointId, position: &Position, members: MemberDigest) -> Result<()> {
        failpoint::hit("positions.advance.before");
        let result = self.0.advance(done, position, members);
        failpoint::hit("positions.advance.after");
        result
    }

    fn drop_intents(&self) -> Result<()> {
        self.0.drop_intents()
    }
}

struct Source(Box<dyn ChangeSource>);

#[async_trait]
impl ChangeSource for Source {
    async fn log_state(&mut self) -> Result<LogState> {
        self.0.log_state().await
    }

    fn same_log(&self, now: &LogState, remembered: &SourceIdentity, at: &Position) -> Result<()> {
        self.0.same_log(now, remembered, at)
    }

    async fn follow(&mut self, tables: &[TableName]) -> Result<()> {
        failpoint::hit("source.follow.before");
        let result = self.0.follow(tables).await;
        failpoint::hit("source.follow.after");
        result
    }

    async fn keep_log(&mut self) -> Result<LogState> {
        failpoint::hit("source.keep_log.before");
        let result = self.0.keep_log().await;
        failpoint::hit("source.keep_log.after");
        result
    }

    async fn describe(&mut self, table: &TableName) -> Result<Arc<TableSchema>> {
        self.0.describe(table).await
    }

    async fn start(&mut self, from: &Position, tables: &[SourceTable]) -> Result<()> {
        self.0.start(from, tables).await
    }

    async fn poll(&mut self, sink: &mut dyn ChangeSink) -> Result<()> {
        self.0.poll(sink).await
    }

    fn acknowledge(&mut self, position: &DurablePosition) {
        failpoint::hit("source.acknowledge.before");
        self.0.acknowledge(position);
        failpoint::hit("source.acknowledge.after");
    }

    async fn start_load(&mut self, tables: &[TableName]) -> Result<Box<dyn LoadReader>> {
        failpoint::hit("source.start_load.before");
        let result = self.0.start_load(tables).await;
        failpoint::hit("source.start_load.after");
        result
    }

    async fn stop(&mut self) {
        self.0.stop().await;
    }
}

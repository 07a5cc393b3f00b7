//! The source's ports over [`SourceLog`](super::source_log::SourceLog): a stream that arrives in small pieces and breaks in
//! the middle of transactions, and loads whose rows come a few at a time.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use calve_core::{
    ChangeSink, ChangeSource, DurablePosition, Error, ErrorKind, LoadEvent, LoadReader, LogState, Lsn, Origin,
    Position, Result, RowBuffer, RowOp, SchemaChange, SourceIdentity, SourceTable, StopReason, TableIndex, TableName,
    TableSchema, TransactionPoint,
};

use super::faults::StepKind;
use super::retired::committed_at;
use super::source_log::{Change, Logged, Row, Slot, Transaction, lsn};
use super::world::{Process, World, lost};

const IDENTITY: &str = "simulated log";

/// How long a poll waits when nothing arrives.
const QUIET: Duration = Duration::from_millis(10);

/// The port.
pub(crate) struct SimSource {
    process: Process,
    session: Option<Session>,
}

/// An open stream.
struct Session {
    /// Transactions sent or passed over.
    next: usize,
    /// Changes of the present transaction that were pushed; None between transactions.
    within: Option<usize>,
    /// The place in the engine's list of each table of the log.
    places: Vec<Option<TableIndex>>,
    /// The engine knows of the log up to here.
    told: Lsn,
    /// What the server shall forget, said again with every keep-alive.
    forget: Lsn,
    /// Tables that the publication does not carry all the time, and that were stopped for it.
    stopped: BTreeSet<TableIndex>,
}

impl SimSource {
    pub(crate) fn new(process: Process) -> Self {
        Self { process, session: None }
    }

    fn state(world: &World) -> LogState {
        LogState {
            identity: SourceIdentity(IDENTITY.to_owned()),
            acknowledged: world.log.slot.as_ref().map(|slot| {
                let follows = world.lake.tables.values().any(|table| table.stamp.is_some() && table.stopped.is_none());
                Position::Postgres(if world.log.purges && follows { slot.created } else { slot.confirmed })
            }),
            fresh: Position::Postgres(match &world.log.slot {
                Some(slot) if !world.log.drifts => slot.confirmed,
                _ => world.log.end(),
            }),
            end: Position::Postgres(world.log.end()),
        }
    }

    async fn ask<T: Send>(
        &self,
        kind: StepKind,
        what: impl Fn() -> String + Send,
        effect: impl FnOnce(&mut World) -> Result<T> + Send,
    ) -> Result<T> {
        self.process.step(kind, what, effect).await
    }
}

/// The numbers of tables by their names; a name the database does not have is an error.
fn indexes(world: &World, tables: &[TableName]) -> Result<Vec<usize>> {
    let missing =
        |name| Error::new(ErrorKind::Config, format!("table {name} is not in the simulated database; add it"));
    tables.iter().map(|name| world.log.index_of(name).ok_or_else(|| missing(name))).collect()
}

fn no_slot() -> Error {
    Error::new(ErrorKind::SourceGone, "the simulated slot is gone; run `calve reload --all`")
}

#[async_trait]
impl ChangeSource for SimSource {
    async fn log_state(&mut self) -> Result<LogState> {
        self.ask(StepKind::Read, || "source: log state".to_owned(), |w| Ok(Self::state(w))).await
    }

    fn same_log(&self, now: &LogState, remembered: &SourceIdentity, at: &Position) -> Result<()> {
        if now.identity == *remembered && now.end.covers(at) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::SourceGone, format!("the log of {at} is another one; run `calve reload --all`")))
    }

    async fn follow(&mut self, tables: &[TableName]) -> Result<()> {
        let effect = |w: &mut World| {
            let tables = indexes(w, tables)?;
            w.log.follow(&tables);
            Ok(())
        };
        self.ask(StepKind::Write, || format!("source: follow {} tables", tables.len()), effect).await
    }

    async fn keep_log(&mut self) -> Result<LogState> {
        let effect = |w: &mut World| {
            if w.log.slot.is_some() {
                return Err(Error::new(ErrorKind::Retry, "the simulated slot exists already; its state is read again"));
            }
            let end = w.log.end();
            w.log.slot = Some(Slot { created: end, confirmed: end, owner: None, busy_until: Duration::ZERO });
            Ok(Self::state(w))
        };
        self.ask(StepKind::Write, || "source: create the slot".to_owned(), effect).await
    }

    async fn describe(&mut self, table: &TableName) -> Result<Arc<TableSchema>> {
        let effect = |w: &mut World| {
            let index = indexes(w, std::slice::from_ref(table))?[0];
            Ok(Arc::clone(w.log.schema(index)))
        };
        self.ask(StepKind::Read, || format!("source: describe {table}"), effect).await
    }

    async fn start(&mut self, from: &Position, tables: &[SourceTable]) -> Result<()> {
        self.session = None;
        let process = self.process.number;
        let effect = |w: &mut World| {
            let now = w.clock.now();
            let newer_owner = |slot: &Slot| slot.owner.is_some_and(|o| o > process && w.processes[o].alive);
            let slot = w.log.slot.as_ref().ok_or_else(no_slot)?;
            if newer_owner(slot) || now < slot.busy_until {
                return Err(Error::new(ErrorKind::Retry, "the simulated slot is active for another process; waiting"));
            }
            if w.log.purges && lsn(from) < slot.confirmed {
                let message = format!("the simulated log is gone below {}; run `calve reload --all`", slot.confirmed);
                // Another process may have moved it since the tables were read.
                let kind = if w.foreign_possible { ErrorKind::Retry } else { ErrorKind::SourceGone };
                return Err(Error::new(kind, message));
            }
            // Asked for less, a server with slots begins at what was confirmed, and says nothing; but who has the slot can look. On
            // others nothing is forgotten by that.
            let from = lsn(from);
            if !w.log.drifts && slot.confirmed > from {
                return Err(Error::new(ErrorKind::Retry, "the simulated slot was moved by another process"));
            }
            let mut places = vec![None; w.log.table_count()];
            for (place, table) in tables.iter().enumerate() {
                let index = indexes(w, std::slice::from_ref(&table.name))?[0];
                places[index] = Some(TableIndex(place));
            }
            let next = w.log.transactions_until(from);
            if let Some(slot) = &mut w.log.slot {
                slot.owner = Some(process);
            }
            Ok(Session { next, within: None, places, told: from, forget: Lsn(0), stopped: BTreeSet::new() })
        };
        let session = self.ask(StepKind::Write, || format!("source: start at {from}"), effect).await?;
        self.session = Some(session);
        Ok(())
    }

    async fn poll(&mut self, sink: &mut dyn ChangeSink) -> Result<()> {
        let process = self.process.clone();
        let Some(session) = &mut self.session else { return Err(lost("source: poll")) };
        let (told, within) = (session.told, session.within);
        let arrived = |w: &mut World| (w.log.end() > told || within.is_some(), w.pace.receive(&mut w.random));
        let Some((arrived, pieces)) = process.act(arrived) else { return std::future::pending().await };
        // Everything that waits comes before the step, so that a poll which is given up has pushed nothing.
        process.sleep(if arrived { Duration::from_millis(1) } else { QUIET }).await;
        let owned = |w: &mut World| {
            let slot = w.log.slot.as_ref().ok_or_else(no_slot)?;
            if slot.owner == Some(process.number) { Ok(()) } else { Err(lost("source: another process took the slot")) }
        };
        let step = if arrived {
            process.step_now(StepKind::Receive, || "source: receive".to_owned(), owned, |_| ())
        } else {
            confirm(&process, session.forget);
            process.act(owned).unwrap_or(Ok(()))
        };
        if process.act(|_| ()).is_none() {
            return std::future::pending().await;
        }
        if let Err(error) = step {
            if session.within.is_some() {
                sink.abort();
            }
            self.session = None;
            return Err(error);
        }
        for place in session.new_gaps(&process) {
            let reason = StopReason {
                state: "log lost".to_owned(),
                detail: "it was out of the publication for some time".to_owned(),
                remedy: "run `calve reload`".to_owned(),
            };
            sink.stop(place, reason);
        }
        if !arrived {
            return Ok(());
        }
        for _ in 0..pieces {
            if !session.push_next(&process, sink) || sink.is_full() {
                break;
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, position: &DurablePosition) {
        let Some(session) = &mut self.session else { return };
        let to = lsn(position.position());
        session.forget = session.forget.max(to);
        let what = || format!("source: acknowledge {to}");
        // A lost status update is made good by the next one.
        if self.process.step_now(StepKind::Acknowledge, what, |_| Ok(()), |_| ()).is_ok() {
            confirm(&self.process, to);
        }
    }

    async fn start_load(&mut self, tables: &[TableName]) -> Result<Box<dyn LoadReader>> {
        let told = self.session.as_ref().map(|session| session.told);
        let effect = |w: &mut World| {
            let indexes = indexes(w, tables)?;
            w.log.forgive_gaps(&indexes);
            let end = w.log.end();
            // Everything polled by now ends at or before the load's position.
            let low = match told {
                Some(told) if w.log.drifts => {
                    // A definition is committed before anybody can read by it.
                    let told = indexes.iter().map(|&index| w.log.altered(index)).fold(told, Lsn::max);
                    let ends = w.log.ends_from(told);
                    if w.pace.varies { ends[w.random.index(ends.len())] } else { told }
                }
                _ => end,
            };
            let pieces = w.pace.load_rows;
            let mut queues: Vec<(usize, VecDeque<Vec<Row>>)> = Vec::new();
            for &index in &indexes {
                let rows = w.log.rows_between(index, low, end, &mut w.random);
                queues.push((index, rows.chunks(pieces).map(<[Row]>::to_vec).collect()));
            }
            let mut events = VecDeque::new();
            // The tables are read side by side.
            while !queues.is_empty() {
                let which = w.random.index(queues.len());
                match queues[which].1.pop_front() {
                    Some(rows) => events.push_back((queues[which].0, Some(rows))),
                    None => events.push_back((queues.remove(which).0, None)),
                }
            }
            let schemas = indexes.iter().map(|&index| Arc::clone(w.log.schema(index))).collect();
            Ok((Position::Postgres(low), Position::Postgres(end), schemas, events))
        };
        let what = || format!("source: start a load of {} tables", tables.len());
        let (position, settled, schemas, events) = self.ask(StepKind::Write, what, effect).await?;
        Ok(Box::new(SimLoad { process: self.process.clone(), position, settled, schemas, events }))
    }

    async fn stop(&mut self) {
        self.session = None;
        let number = self.process.number;
        self.process.act(|w| {
            if let Some(slot) = w.log.slot.as_mut().filter(|slot| slot.owner == Some(number)) {
                slot.owner = None;
            }
        });
    }
}

/// The status update arrives, if the stream is still this process's.
fn confirm(process: &Process, to: Lsn) {
    process.act(|w| {
        if let Some(slot) = w.log.slot.as_mut().filter(|slot| slot.owner == Some(process.number))
            && slot.confirmed < to
        {
            slot.confirmed = to;
            w.check_acknowledged();
        }
    });
}

impl Session {
    /// Tables whose changes the publication has stopped to send, or did not send for some time.
    fn new_gaps(&mut self, process: &Process) -> Vec<TableIndex> {
        let places = self.places.iter().enumerate().filter_map(|(table, place)| Some((table, (*place)?)));
        let gaps = process.act(|w| places.filter(|(table, _)| w.log.has_gap(*table)).map(|(_, place)| place).collect());
        let gaps: Vec<TableIndex> = gaps.unwrap_or_default();
        gaps.into_iter().filter(|place| self.stopped.insert(*place)).collect()
    }

    /// Pushes the next message; false where nothing more has arrived.
    fn push_next(&mut self, process: &Process, sink: &mut dyn ChangeSink) -> bool {
        let Some(next) = process.act(|w| w.log.transaction(self.next).cloned()) else { return false };
        let Some(transaction) = next else {
            let end = process.act(|w| w.log.end()).unwrap_or(self.told);
            if end > self.told {
                self.told = end;
                sink.idle(Position::Postgres(end));
            }
            return false;
        };
        let Some(at) = self.within else {
            if !self.carries_anything(process, &transaction) {
                // Passed over without a word; a keep-alive tells how far the log is.
                self.next += 1;
                return true;
            }
            sink.begin(&TransactionPoint::Postgres { commit_lsn: transaction.commit });
            if sink.wants_origins() {
                let position = transaction.commit.to_string();
                sink.origin(Origin { position, transaction: None, committed_at: committed_at(transaction.commit) });
            }
            self.within = Some(0);
            return true;
        };
        if let Some(logged) = transaction.changes.get(at) {
            self.within = Some(at + 1);
            if let Some(place) = self.place(process, logged.table, &transaction) {
                if logged.change == Change::Alter {
                    alter(process, sink, place, logged.table, transaction.end);
                } else {
                    push_change(sink, place, logged);
                }
            }
            return true;
        }
        self.within = None;
        self.next += 1;
        self.told = transaction.end;
        let committed_at = i64::try_from(transaction.end.0).unwrap_or(i64::MAX);
        sink.commit(Position::Postgres(transaction.end), committed_at);
        true
    }

    fn place(&self, process: &Process, table: usize, transaction: &Transaction) -> Option<TableIndex> {
        let place = self.places[table]?;
        process.act(|w| w.log.is_followed(table, transaction))?.then_some(place)
    }

    fn carries_anything(&self, process: &Process, transaction: &Transaction) -> bool {
        transaction.changes.iter().any(|logged| self.place(process, logged.table, transaction).is_some())
    }
}

/// A table's rows have another schema from here on.
fn alter(process: &Process, sink: &mut dyn ChangeSink, place: TableIndex, table: usize, end: Lsn) {
    if !sink.wants(place) {
        return;
    }
    if let Some(schema) = process.act(|w| Arc::clone(w.log.schema_at(table, end))) {
        sink.schema(place, SchemaChange { schema, existing_rows: None });
    }
}

/// A log has all columns of the row before. This source sends the key's alone.
fn old_row(buffer: &mut RowBuffer, key: i64) {
    buffer.old(0).push_i64(key);
    if buffer.schema().keeps_log() {
        buffer.old(1).push_null();
    }
}

fn push_change(sink: &mut dyn ChangeSink, place: TableIndex, logged: &Logged) {
    let Some(buffer) = sink.rows(place) else { return };
    match logged.change {
        Change::Insert(key) => {
            image(buffer, key, logged.value);
            buffer.finish_row(RowOp::Insert);
        }
        // A source sends the old key, equal or not, where its identity makes it: half of the keys here.
        Change::Update(key) if key % 2 == 0 => {
            image(buffer, key, logged.value);
            buffer.finish_row(RowOp::Update);
        }
        Change::Update(key) => {
            old_row(buffer, key);
            image(buffer, key, logged.value);
            buffer.finish_row(RowOp::UpdateFrom);
        }
        Change::Rekey(old, new) => {
            retire_row(buffer, old, logged.before);
            old_row(buffer, old);
            image(buffer, new, logged.value);
            buffer.finish_row(RowOp::UpdateFrom);
        }
        Change::Keep(key) if key % 2 == 0 => {
            image_without_value(buffer, key);
            buffer.finish_row(RowOp::Update);
        }
        Change::Keep(key) => {
            old_row(buffer, key);
            image_without_value(buffer, key);
            buffer.finish_row(RowOp::UpdateFrom);
        }
        Change::Move(old, new) => {
            retire_row(buffer, old, None);
            old_row(buffer, old);
            image_without_value(buffer, new);
            buffer.finish_row(RowOp::UpdateFrom);
        }
        Change::Delete(key) if buffer.schema().retires_rows() => retire_row(buffer, key, logged.before),
        Change::Delete(key) => {
            old_row(buffer, key);
            buffer.finish_row(RowOp::Delete);
        }
        Change::Truncate => buffer.finish_row(RowOp::Truncate),
        Change::Alter => unreachable!("a change of schema is no row"),
        Change::Unrepresentable(key) => {
            // The decoder notices at the second cell.
            buffer.image(0).push_i64(key);
            buffer.discard_row();
            let reason = StopReason {
                state: "unrepresentable value".to_owned(),
                detail: format!("column \"value\" of the row with key {key} is beyond what can be told"),
                remedy: "run `calve reload`".to_owned(),
            };
            sink.stop(place, reason);
        }
    }
}

fn image(buffer: &mut RowBuffer, key: i64, value: i64) {
    buffer.image(0).push_i64(key);
    buffer.image(1).push_i64(value);
}

/// A row goes, of a table that keeps it.
fn retire_row(buffer: &mut RowBuffer, key: i64, value: Option<i64>) {
    if !buffer.schema().retires_rows() {
        return;
    }
    match value {
        Some(value) => image(buffer, key, value),
        None => image_without_value(buffer, key),
    }
    buffer.finish_row(RowOp::Retire);
}

fn image_without_value(buffer: &mut RowBuffer, key: i64) {
    buffer.image(0).push_i64(key);
    buffer.image(1).push_null();
    buffer.note_unchanged(1);
}

/// A read of one position, or of two and some in between.
struct SimLoad {
    process: Process,
    position: Position,
    settled: Position,
    schemas: Vec<Arc<TableSchema>>,
    /// Rows of a table of the log, or its end.
    events: VecDeque<(usize, Option<Vec<Row>>)>,
}

#[async_trait]
impl LoadReader for SimLoad {
    fn position(&self) -> &Position {
        &self.position
    }

    fn settled(&self) -> &Position {
        &self.settled
    }

    fn schema(&self, table: &TableName) -> Option<Arc<TableSchema>> {
        self.schemas.iter().find(|schema| schema.table == *table).cloned()
    }

    fn estimated_rows(&self, table: &TableName) -> Option<u64> {
        self.process.act(|w| w.log.index_of(table).map(|index| w.log.rows(index).len() as u64))?
    }

    async fn next(&mut self) -> Result<Option<LoadEvent>> {
        let Some((table, rows)) = self.events.front() else { return Ok(None) };
        let what = || format!("load: {} rows of table {table}", rows.as_ref().map_or(0, Vec::len));
        let schema = self.process.step(StepKind::Receive, what, |w| Ok(Arc::clone(w.log.schema(*table)))).await?;
        let Some((_, rows)) = self.events.pop_front() else { return Ok(None) };
        let Some(rows) = rows else { return Ok(Some(LoadEvent::Done(schema.table.clone()))) };
        let mut buffer = RowBuffer::new(Arc::clone(&schema));
        for (key, value) in rows {
            image(&mut buffer, key, value);
            buffer.finish_row(RowOp::Insert);
        }
        Ok(Some(LoadEvent::Rows(schema.table.clone(), buffer)))
    }
}

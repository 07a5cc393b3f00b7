//! What the running engine does, kept for `status` and told in the log.

mod live;
mod rate;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use calve_core::{Position, StopReason, TableName};
use calve_engine::{Event, Observer, TableState};
use tokio::sync::watch;

pub(crate) use live::{LiveLoad, LiveStatus, LiveTable, State};
use rate::Rate;

use crate::environment::wall_clock_micros;
use crate::show;

/// How often a load tells how far it is.
const LOAD_LINE_INTERVAL: Duration = Duration::from_secs(5);
/// How often the stream tells how it does.
const STEADY_LINE_INTERVAL: Duration = Duration::from_secs(30);
/// So many of these intervals lie between two reminders of tables that are stopped.
const REMINDED_EVERY: u32 = 20;
/// So many tables a reminder names by a line each.
const REMINDED_OF: usize = 10;

/// Hears of every event; remembers and logs.
pub(crate) struct Progress {
    known: Mutex<Known>,
    /// Counts the changes that somebody may wait for.
    changes: watch::Sender<u64>,
}

struct Known {
    since: i64,
    tables: BTreeMap<TableName, Table>,
    /// The newest transaction read.
    read: Option<Position>,
    /// All running tables are complete up to here.
    complete: Option<Position>,
    /// When the oldest transaction that is not yet in the lake was committed, in microseconds since 1970.
    pending_since: Option<i64>,
    acknowledged: Option<Position>,
    retrying: Option<String>,
    /// Rows and deletes committed since the start.
    changes: u64,
    rate: Rate,
}

#[derive(Default)]
struct Table {
    state: Option<TableState>,
    load: Option<Load>,
    position: Option<Position>,
    rows: u64,
    deletes: u64,
    last_commit: Option<i64>,
    /// Loads that became visible.
    loads: u64,
    /// Times it stopped.
    stops: u64,
}

struct Load {
    begun: Instant,
    told: Instant,
    rows: u64,
    estimated: Option<u64>,
}

/// How a reload that was asked for stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReloadState {
    Waiting,
    Loading { rows: u64, estimated: Option<u64> },
    Published,
    Stopped(StopReason),
}

/// What a table had been through when its reload was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReloadMark {
    loads: u64,
    stops: u64,
}

impl Progress {
    pub(crate) fn new(tables: impl IntoIterator<Item = TableName>) -> Self {
        let known = Known {
            since: wall_clock_micros(),
            tables: tables.into_iter().map(|table| (table, Table::default())).collect(),
            read: None,
            complete: None,
            pending_since: None,
            acknowledged: None,
            retrying: None,
            changes: 0,
            rate: Rate::new(Instant::now()),
        };
        Self { known: Mutex::new(known), changes: watch::Sender::new(0) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notified after every change of a table's state or load.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Where things stand, for `status`.
    pub(crate) fn live(&self) -> LiveStatus {
        self.known().live(Instant::now(), wall_clock_micros())
    }

    /// Whether the engine has said how these tables stand. Before that, an old stop cannot be told from a new one.
    pub(crate) fn knows(&self, tables: &[TableName]) -> bool {
        let known = self.known();
        tables.iter().filter_map(|table| known.tables.get(table)).all(|table| table.state.is_some())
    }

    /// The point to compare with in [`reload_state`](Self::reload_state); None for a table that is not replicated.
    pub(crate) fn reload_mark(&self, table: &TableName) -> Option<ReloadMark> {
        self.known().tables.get(table).map(|table| ReloadMark { loads: table.loads, stops: table.stops })
    }

    /// How a table fared since the mark was taken.
    pub(crate) fn reload_state(&self, table: &TableName, mark: ReloadMark) -> ReloadState {
        let known = self.known();
        let Some(table) = known.tables.get(table) else { return ReloadState::Waiting };
        match (&table.state, &table.load) {
            _ if table.loads > mark.loads => ReloadState::Published,
            (Some(TableState::Stopped(reason)), _) if table.stops > mark.stops => ReloadState::Stopped(reason.clone()),
            (_, Some(load)) => ReloadState::Loading { rows: load.rows, estimated: load.estimated },
            _ => ReloadState::Waiting,
        }
    }

    /// Tables that are stopped, with the reason.
    pub(crate) fn stopped(&self) -> Vec<(TableName, StopReason)> {
        let known = self.known();
        let stopped = |(name, table): (&TableName, &Table)| match &table.state {
            Some(TableState::Stopped(reason)) => Some((name.clone(), reason.clone())),
            _ => None,
        };
        known.tables.iter().filter_map(stopped).collect()
    }

    /// Logs a line every so often, for as long as it is polled. Cancel-safe.
    pub(crate) async fn tell_steadily(&self) {
        let mut last = self.known().changes;
        for round in 1_u32.. {
            tokio::time::sleep(STEADY_LINE_INTERVAL).await;
            if round.is_multiple_of(REMINDED_EVERY) {
                self.remind();
            }
            let live = self.live();
            let rows = live.changes - last;
            last = live.changes;
            let streaming = live.tables.iter().filter(|table| matches!(table.state, State::Streaming)).count();
            if streaming == 0 {
                continue;
            }
            let stopped = live.tables.iter().filter(|table| matches!(table.state, State::Stopped { .. })).count();
            tracing::info!(
                rows_per_second = rows / STEADY_LINE_INTERVAL.as_secs(),
                lag_seconds = live.lag_seconds,
                lag_bytes = live.lag_bytes,
                position = live.complete.as_ref().map(tracing::field::display),
                streaming,
                stopped,
                "streaming"
            );
        }
    }

    /// Logs which tables are still stopped: the log of the source is not kept for them.
    fn remind(&self) {
        let stopped = self.stopped();
        for (table, reason) in stopped.iter().take(REMINDED_OF) {
            let StopReason { state, detail, remedy } = reason;
            tracing::warn!(%table, state, detail, remedy, "still stopped; its changes are not followed, and the source keeps no log for it");
        }
        if let Some(more) = stopped.len().checked_sub(REMINDED_OF).filter(|more| *more > 0) {
            tracing::warn!(more, "more tables are still stopped; `calve status` lists them");
        }
    }
}

impl Observer for Progress {
    fn event(&self, event: &Event) {
        let waited_for = matches!(event, Event::State { .. } | Event::LoadProgress { .. } | Event::Loaded { .. });
        self.known().hear(event, Instant::now(), wall_clock_micros());
        if waited_for {
            self.changes.send_modify(|count| *count += 1);
        }
    }
}

impl Known {
    fn table(&mut self, name: &TableName) -> &mut Table {
        self.tables.entry(name.clone()).or_default()
    }

    fn hear(&mut self, event: &Event, now: Instant, wall: i64) {
        match event {
            Event::Started { resume, tables } => {
                self.complete = Some(resume.clone());
                self.retrying = None;
                tracing::info!(position = %resume, tables, "streaming begins");
            }
            Event::State { table, state } => self.hear_state(table, state, now),
            Event::LoadProgress { table, rows, estimated } => self.hear_load(table, *rows, *estimated, now),
            Event::Loaded { table, position, rows } => {
                let known = self.table(table);
                let took = known.load.take().map_or(Duration::ZERO, |load| now.duration_since(load.begun));
                known.loads += 1;
                known.position = Some(position.clone());
                known.last_commit = Some(wall);
                tracing::info!(%table, rows, took = %show::duration(took), "loaded");
            }
            Event::Read { position, committed_at } => {
                self.read = Some(position.clone());
                self.pending_since.get_or_insert(*committed_at);
                self.retrying = None;
            }
            Event::Committed { table, position, rows, deletes, .. } => {
                let known = self.table(table);
                known.position = Some(position.clone());
                known.rows += rows;
                known.deletes += deletes;
                known.last_commit = Some(wall);
                self.changes += rows.max(deletes);
                self.rate.add(*rows.max(deletes), now);
            }
            Event::Checkpoint { end, committed_at, tables, took } => {
                // What was read beyond this checkpoint is newer than everything in it.
                let beyond = self.read.as_ref().is_some_and(|read| !end.covers(read));
                self.pending_since = if beyond { committed_at.or(self.pending_since) } else { None };
                self.complete = Some(end.clone());
                self.retrying = None;
                tracing::debug!(position = %end, tables, took_ms = took.as_millis(), "checkpoint");
            }
            Event::Acknowledged { position } => {
                self.acknowledged = Some(position.clone());
                tracing::debug!(%position, "acknowledged");
            }
            Event::Retrying { what, error, after } => {
                self.retrying = Some(format!("{what}: {error}"));
                tracing::warn!(what, error, again_in = %show::duration(*after), "trying again");
            }
            Event::Foreign { table } => {
                tracing::warn!(%table, "the table was changed by another writer of this pipeline, or by a late request of an earlier run; reading it again");
            }
            Event::Ignored { table, reason } => {
                tracing::warn!(%table, detail = reason.detail, "ignored, as schema_changes says; `calve reload` takes it into the lake");
            }
            Event::CleanedUp { table, files } => {
                tracing::info!(%table, files, "removed files of earlier runs that nothing references");
            }
        }
    }

    fn hear_state(&mut self, table: &TableName, state: &TableState, now: Instant) {
        let known = self.table(table);
        match state {
            TableState::Loading if known.load.is_none() => {
                known.load = Some(Load { begun: now, told: now, rows: 0, estimated: None });
                tracing::info!(%table, "loading");
            }
            // Said again at every reconnection, but it is news only once.
            TableState::Stopped(_) if known.state.as_ref() == Some(state) => {}
            TableState::Stopped(reason) => {
                known.load = None;
                known.stops += 1;
                if reason.state == StopReason::RELOADING {
                    tracing::warn!(%table, detail = reason.detail, "the table will be read again");
                } else {
                    tracing::error!(%table, state = reason.state, detail = reason.detail, remedy = reason.remedy, "table stopped");
                }
            }
            TableState::Pending => known.load = None,
            TableState::Loading | TableState::Streaming => {}
        }
        known.state = Some(state.clone());
    }

    fn hear_load(&mut self, table: &TableName, rows: u64, estimated: Option<u64>, now: Instant) {
        let known = self.table(table);
        let load = known.load.get_or_insert(Load { begun: now, told: now, rows: 0, estimated: None });
        load.rows = rows;
        load.estimated = estimated;
        if now.duration_since(load.told) >= LOAD_LINE_INTERVAL {
            load.told = now;
            let live = load.live(now);
            tracing::info!(
                %table,
                rows,
                estimated,
                rows_per_second = live.rows_per_second,
                eta = live.eta_seconds.map(|seconds| show::duration(Duration::from_secs(seconds))),
                "loading"
            );
        }
    }

    fn live(&self, now: Instant, wall: i64) -> LiveStatus {
        let lag_seconds = self.pending_since.map_or(0, |since| u64::try_from(wall - since).unwrap_or(0) / 1_000_000);
        let lag_bytes = match (&self.complete, &self.read) {
            (Some(complete), Some(read)) => complete.bytes_until(read),
            _ => None,
        };
        LiveStatus {
            process: std::process::id(),
            since: self.since,
            read: self.read.clone(),
            complete: self.complete.clone(),
            acknowledged: self.acknowledged.clone(),
            lag_seconds,
            lag_bytes,
            changes: self.changes,
            rows_per_second: self.rate.per_second(now),
            retrying: self.retrying.clone(),
            tables: self.tables.iter().map(|(name, table)| table.live(name, now)).collect(),
        }
    }
}

impl Table {
    fn live(&self, name: &TableName, now: Instant) -> LiveTable {
        LiveTable {
            table: name.clone(),
            state: match &self.state {
                None | Some(TableState::Pending) => State::Pending,
                Some(TableState::Loading) => State::Loading,
                Some(TableState::Streaming) => State::Streaming,
                Some(TableState::Stopped(reason)) => State::Stopped { reason: reason.clone() },
            },
            load: self.load.as_ref().map(|load| load.live(now)),
            position: self.position.clone(),
            rows: self.rows,
            deletes: self.deletes,
            last_commit: self.last_commit,
        }
    }
}

impl Load {
    fn live(&self, now: Instant) -> LiveLoad {
        let elapsed = now.duration_since(self.begun).as_millis().max(1);
        let rows_per_second = u64::try_from(u128::from(self.rows) * 1000 / elapsed).unwrap_or(u64::MAX);
        let left = self.estimated.map(|estimated| estimated.saturating_sub(self.rows));
        let eta_seconds = left.and_then(|left| left.checked_div(rows_per_second));
        LiveLoad { rows: self.rows, estimated: self.estimated, rows_per_second, eta_seconds }
    }
}

#[cfg(test)]
mod tests;

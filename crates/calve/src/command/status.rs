//! `status`: where every table stands, from the running process, the lake and the source, whichever can be asked.

mod human;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use calve_core::{Position, Result, StopReason, TableName};
use calve_iceberg::TableSummary;

use crate::bounds::Bounds;
use crate::config::Settings;
use crate::control::Client;
use crate::database::LogReport;
use crate::ending::{Ending, with_causes};
use crate::environment::wall_clock_micros;
use crate::progress::{LiveStatus, LiveTable, State};
use crate::show;
use crate::wiring::{self, Targets};
use report::{Report, SlotReport, SourceReport, TableReport};

/// A source that does not answer within this time is shown as not reachable: the lake's part is worth more than waiting.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) async fn status(settings: Settings, json: bool) -> Result<Ending> {
    let all = wiring::pipeline_tables(&settings).await?;
    let chosen = wiring::chosen_tables(&settings, &all)?;
    let (live, lake, source) = tokio::join!(live(&settings), lake(&settings, &all), source(&settings));
    let report = report(&settings, &chosen, live?.as_ref(), &lake?, source, wall_clock_micros());
    if json {
        show::line(&serde_json::to_string_pretty(&report).unwrap_or_default());
    } else {
        show::text(&human::text(&report));
    }
    Ok(Ending::Done)
}

/// What the running process says; None where none runs.
async fn live(settings: &Settings) -> Result<Option<LiveStatus>> {
    let socket = settings.pipeline_dir().socket();
    match Client::connect(&socket).await? {
        Some(mut client) => client.status().await.map(Some),
        None => Ok(None),
    }
}

/// A table as the lake has it.
struct Recorded {
    summary: TableSummary,
    /// It is complete up to here.
    bound: Option<Position>,
}

/// What the lake says of each table that is there.
async fn lake(settings: &Settings, targets: &Targets) -> Result<BTreeMap<TableName, Recorded>> {
    let mut recorded = BTreeMap::new();
    let Some(lake) = wiring::existing_lake(settings, targets).await? else { return Ok(recorded) };
    let bounds = Bounds::read(&lake, targets).await?;
    for table in targets.keys() {
        if let Some(summary) = lake.summary(table).await? {
            let bound = bounds.bound(table, summary.stamp.as_ref().map(|stamp| &stamp.position));
            recorded.insert(table.clone(), Recorded { summary, bound });
        }
    }
    Ok(recorded)
}

/// What the source says, or why it says nothing.
async fn source(settings: &Settings) -> std::result::Result<LogReport, String> {
    let database = wiring::database(settings).map_err(|_| "its address is not known; add --source".to_owned())?;
    match tokio::time::timeout(SOURCE_TIMEOUT, database.log()).await {
        Ok(Ok(status)) => Ok(status),
        Ok(Err(error)) => Err(with_causes(&error)),
        Err(_) => Err(format!("no answer within {}", show::duration(SOURCE_TIMEOUT))),
    }
}

fn report(
    settings: &Settings,
    targets: &Targets,
    live: Option<&LiveStatus>,
    lake: &BTreeMap<TableName, Recorded>,
    source: std::result::Result<LogReport, String>,
    now: i64,
) -> Report {
    let log = source.as_ref().ok();
    let tables: Vec<TableReport> = targets
        .iter()
        .map(|(table, target)| {
            let entry = live.and_then(|live| Some((live, live.tables.iter().find(|entry| entry.table == *table)?)));
            table_report(table, target, entry, lake.get(table), log, now)
        })
        .collect();
    // What a stopped table lacks is told by its state; the lag of the pipeline is that of those that go on.
    let running = || tables.iter().filter(|table| table.state == "streaming");
    let position = match live {
        Some(live) => live.complete.clone(),
        None => running().filter_map(|table| table.position.clone()).reduce(|a, b| a.meet(&b)),
    };
    let lag_bytes = match (&position, log) {
        (Some(position), Some(log)) => log.bytes_from(position),
        _ => live.and_then(|live| live.lag_bytes),
    };
    let lag_seconds = match live {
        Some(live) => Some(live.lag_seconds),
        None => running().filter_map(|table| table.lag_seconds).max(),
    };
    Report {
        format: report::FORMAT,
        pipeline: settings.pipeline.clone(),
        lake: settings.into.display().to_string(),
        running: live.is_some(),
        process: live.map(|live| live.process),
        since: live.map(|live| show::time(live.since)),
        retrying: live.and_then(|live| live.retrying.clone()),
        rows_per_second: live.map(|live| live.rows_per_second),
        position,
        lag_seconds,
        lag_bytes,
        source: source_report(settings, source),
        tables,
    }
}

/// What the next start will find.
fn rolled_back(table: &TableName) -> StopReason {
    StopReason {
        state: "rolled back".to_owned(),
        detail: "somebody moved the table's main branch away from what calve committed last".to_owned(),
        remedy: format!("run calve reload {table}"),
    }
}

fn source_report(settings: &Settings, source: std::result::Result<LogReport, String>) -> SourceReport {
    let address = settings.known_source().map(ToString::to_string);
    match source {
        Err(error) => SourceReport { address, reachable: false, error: Some(error), position: None, slot: None },
        Ok(found) => SourceReport {
            address,
            reachable: true,
            error: None,
            position: Some(found.end),
            slot: found.slot.map(|slot| SlotReport {
                name: settings.slot.clone(),
                active: slot.exists.then_some(slot.active_pid.is_some()),
                acknowledged: slot.confirmed_flush.map(Position::Postgres),
                retained_bytes: slot.retained_bytes,
                wal_status: slot.wal_status,
            }),
        },
    }
}

/// One table: its state as the running process knows it, else as the lake has it recorded.
///
/// A table without changes is complete to where the process is, which the lake records only now and then.
fn table_report(
    table: &TableName,
    target: &TableName,
    live: Option<(&LiveStatus, &LiveTable)>,
    recorded: Option<&Recorded>,
    log: Option<&LogReport>,
    now: i64,
) -> TableReport {
    let summary = recorded.map(|recorded| &recorded.summary);
    let at_rest = summary.map_or(State::Pending, |summary| match (&summary.stopped, &summary.stamp) {
        (Some(mark), _) => State::Stopped { reason: mark.reason.clone() },
        (None, Some(_)) if summary.rolled_back => State::Stopped { reason: rolled_back(table) },
        (None, Some(_)) => State::Streaming,
        (None, None) => State::Pending,
    });
    let state = live.map_or(at_rest, |(_, live)| live.state.clone());
    let complete = live.filter(|_| state == State::Streaming).and_then(|(status, _)| status.complete.clone());
    let bound = recorded.and_then(|recorded| recorded.bound.clone());
    let position = bound.map(|bound| complete.iter().fold(bound, |a, b| a.join(b)));
    let lag_bytes = position.as_ref().zip(log).and_then(|(position, log)| log.bytes_from(position));
    let last_commit = summary.and_then(|summary| summary.committed_at_ms).map(|ms| ms.saturating_mul(1000));
    TableReport {
        table: table.to_string(),
        target: target.to_string(),
        state: match state {
            State::Pending => "pending",
            State::Loading => "loading",
            State::Streaming => "streaming",
            State::Stopped { .. } => "stopped",
        },
        reason: match state {
            State::Stopped { reason } => Some(reason),
            _ => None,
        },
        load: live.and_then(|(_, live)| live.load),
        lag_seconds: match (lag_bytes, summary) {
            (Some(0), _) => Some(0),
            _ if complete.is_some() => live.map(|(status, _)| status.lag_seconds),
            // It is complete up to a moment before its metadata was written.
            (Some(_), Some(summary)) => u64::try_from(now / 1000 - summary.updated_at_ms).ok().map(|ms| ms / 1000),
            _ => None,
        },
        lag_bytes,
        position,
        rows: summary.and_then(|summary| summary.rows),
        data_files: summary.and_then(|summary| summary.data_files),
        delete_files: summary.and_then(|summary| summary.delete_files),
        bytes: summary.and_then(|summary| summary.bytes),
        snapshots: summary.map(|summary| summary.snapshots as u64),
        nulled_values: summary.map(|summary| summary.nulled),
        clamped_values: summary.map(|summary| summary.clamped),
        last_commit: last_commit.map(show::time),
    }
}

use std::collections::BTreeMap;
use std::sync::Arc;

use calve_core::{CheckpointId, Lsn, SourceIdentity, Stamp, StopMark, TableSchema};
use uuid::Uuid;

use super::*;

const NOW: i64 = 1_000_000_000;

fn at(lsn: u64) -> Position {
    Position::Postgres(Lsn(lsn))
}

fn orders() -> TableName {
    TableName::new("public", "orders")
}

fn reason(state: &str) -> StopReason {
    StopReason { state: state.into(), detail: "d".into(), remedy: "r".into() }
}

/// The table as it is in the lake: complete to 100, its metadata written 7 seconds ago.
fn recorded() -> Recorded {
    let schema = TableSchema::new(orders(), 1, Vec::new(), Vec::new());
    let stamp = Stamp {
        checkpoint: CheckpointId(Uuid::nil()),
        position: at(100),
        schema: Arc::new(schema),
        source: SourceIdentity("log".into()),
        load: CheckpointId(Uuid::nil()),
        changes: 0,
    };
    let summary = TableSummary {
        target: "raw.orders".into(),
        metadata_location: String::new(),
        stamp: Some(stamp),
        rolled_back: false,
        nulled: 2,
        clamped: 1,
        stopped: None,
        snapshot: Some(1),
        committed_at_ms: Some(0),
        updated_at_ms: NOW / 1000 - 7_000,
        rows: Some(5),
        data_files: Some(2),
        delete_files: Some(1),
        equality_deletes: Some(1),
        bytes: Some(10),
        snapshots: 3,
    };
    Recorded { summary, bound: Some(at(100)) }
}

fn live(state: State) -> LiveStatus {
    let table = LiveTable {
        table: orders(),
        state,
        load: None,
        position: Some(at(100)),
        rows: 0,
        deletes: 0,
        last_commit: None,
    };
    LiveStatus {
        process: 7,
        since: 0,
        read: Some(at(160)),
        complete: Some(at(150)),
        acknowledged: None,
        lag_seconds: 2,
        lag_bytes: Some(10),
        changes: 0,
        rows_per_second: 0,
        retrying: None,
        tables: vec![table],
    }
}

fn table(live: Option<&LiveStatus>, recorded: Option<&Recorded>, end: Option<&Position>) -> TableReport {
    let log = end.map(|end| LogReport { end: end.clone(), slot: None, files: Vec::new() });
    let entry = live.map(|live| (live, &live.tables[0]));
    table_report(&orders(), &orders(), entry, recorded, log.as_ref(), NOW)
}

#[test]
fn a_quiet_table_is_complete_to_where_the_running_process_is() {
    let report = table(Some(&live(State::Streaming)), Some(&recorded()), Some(&at(170)));
    assert_eq!(report.position, Some(at(150)));
    assert_eq!((report.lag_bytes, report.lag_seconds), (Some(20), Some(2)));

    // A stopped one is not.
    let stopped = State::Stopped { reason: reason("schema changed") };
    let report = table(Some(&live(stopped)), Some(&recorded()), Some(&at(170)));
    assert_eq!((report.state, report.position), ("stopped", Some(at(100))));
}

#[test]
fn without_a_process_the_lake_tells() {
    let report = table(None, Some(&recorded()), Some(&at(170)));
    assert_eq!((report.state, report.position), ("streaming", Some(at(100))));
    assert_eq!((report.lag_bytes, report.lag_seconds), (Some(70), Some(7)));
    assert_eq!((report.rows, report.data_files, report.delete_files), (Some(5), Some(2), Some(1)));
    assert_eq!(report.last_commit.as_deref(), Some("1970-01-01T00:00:00Z"));

    let report = table(None, Some(&recorded()), Some(&at(100)));
    assert_eq!((report.lag_bytes, report.lag_seconds), (Some(0), Some(0)));
    // Nor the source: nothing is claimed.
    let report = table(None, Some(&recorded()), None);
    assert_eq!((report.lag_bytes, report.lag_seconds), (None, None));
}

#[test]
fn a_table_at_rest_shows_the_state_that_the_next_start_will_find() {
    let mut stopped = recorded();
    stopped.summary.stopped = Some(StopMark { at: Some(at(100)), reason: reason("dropped") });
    let report = table(None, Some(&stopped), None);
    assert_eq!((report.state, report.reason), ("stopped", Some(reason("dropped"))));

    let mut moved = recorded();
    moved.summary.rolled_back = true;
    assert_eq!(table(None, Some(&moved), None).reason.map(|reason| reason.state), Some("rolled back".to_owned()));

    let mut fresh = recorded();
    (fresh.summary.stamp, fresh.bound) = (None, None);
    for report in [table(None, Some(&fresh), None), table(None, None, None)] {
        assert_eq!((report.state, report.position), ("pending", None));
    }
}

#[test]
fn the_pipelines_position_is_the_least_of_the_streaming_tables() {
    let given = crate::config::Given { flags: raw(), file: None };
    let settings = given.settings().unwrap();
    let other = TableName::new("public", "other");
    let mut ahead = recorded();
    ahead.bound = Some(at(130));
    let mut gone = recorded();
    gone.summary.stopped = Some(StopMark { at: None, reason: reason("dropped") });
    gone.bound = Some(at(5));
    let third = TableName::new("public", "third");
    let lake: BTreeMap<_, _> = [(orders(), recorded()), (other.clone(), ahead), (third.clone(), gone)].into();
    let targets: Targets = [orders(), other, third].map(|table| (table.clone(), table)).into();
    let shown = report(&settings, &targets, None, &lake, Err("down".into()), NOW);
    assert_eq!(shown.position, Some(at(100)));
    assert!(!shown.running && !shown.source.reachable);
    let text = human::text(&shown);
    for part in ["not running", "not reachable: down", "public.third is stopped: dropped", "stopped: dropped"] {
        assert!(text.contains(part), "'{part}' is not in\n{text}");
    }
}

fn raw() -> crate::config::Raw {
    let mut raw = crate::config::Raw::default();
    raw.set_flag("into", "--into", Some("lake".into()));
    raw.set_flag("name", "--name", Some("shop".into()));
    raw
}

use calve_core::{CheckpointId, Lsn};

use super::*;

fn at(lsn: u64) -> Position {
    Position::Postgres(Lsn(lsn))
}

fn orders() -> TableName {
    TableName::new("public", "orders")
}

fn reason() -> StopReason {
    StopReason { state: "schema changed".into(), detail: "column a".into(), remedy: "calve reload".into() }
}

#[test]
fn lag_is_the_age_of_the_oldest_transaction_not_yet_in_the_lake() {
    let progress = Progress::new([orders()]);
    let now = Instant::now();
    let lag = |wall: i64| {
        let live = progress.known().live(now, wall);
        (live.lag_seconds, live.lag_bytes)
    };
    let hear = |event: Event| progress.known().hear(&event, now, 0);
    let checkpoint = |end, committed_at| Event::Checkpoint { end, committed_at, tables: 1, took: Duration::ZERO };

    hear(Event::Started { resume: at(100), tables: 1 });
    assert_eq!(lag(90_000_000), (0, None));
    hear(Event::Read { position: at(150), committed_at: 10_000_000 });
    hear(Event::Read { position: at(200), committed_at: 20_000_000 });
    assert_eq!(lag(25_000_000), (15, Some(100)));
    hear(checkpoint(at(150), Some(10_000_000)));
    assert_eq!(lag(25_000_000), (15, Some(50)));
    hear(checkpoint(at(200), Some(20_000_000)));
    assert_eq!(lag(90_000_000), (0, Some(0)));
}

#[test]
fn a_reload_is_published_only_by_a_load_after_it_was_asked_for() {
    let progress = Progress::new([orders()]);
    let loaded = Event::Loaded { table: orders(), position: at(1), rows: 3 };
    let state = |state| Event::State { table: orders(), state };
    progress.event(&loaded);
    progress.event(&state(TableState::Stopped(reason())));

    let mark = progress.reload_mark(&orders()).unwrap();
    assert_eq!(progress.reload_state(&orders(), mark), ReloadState::Waiting);
    progress.event(&state(TableState::Loading));
    progress.event(&Event::LoadProgress { table: orders(), rows: 7, estimated: Some(9) });
    assert_eq!(progress.reload_state(&orders(), mark), ReloadState::Loading { rows: 7, estimated: Some(9) });
    progress.event(&loaded);
    assert_eq!(progress.reload_state(&orders(), mark), ReloadState::Published);

    let mark = progress.reload_mark(&orders()).unwrap();
    progress.event(&state(TableState::Loading));
    progress.event(&state(TableState::Stopped(reason())));
    assert_eq!(progress.reload_state(&orders(), mark), ReloadState::Stopped(reason()));
    assert_eq!(progress.stopped(), [(orders(), reason())]);
    assert!(progress.reload_mark(&TableName::new("public", "other")).is_none());
}

#[test]
fn what_a_table_received_is_counted() {
    let progress = Progress::new([orders()]);
    let id = CheckpointId(uuid::Uuid::nil());
    for (rows, deletes) in [(5, 0), (2, 3)] {
        progress.event(&Event::Committed { table: orders(), checkpoint: id, position: at(9), rows, deletes });
    }
    let live = progress.live();
    assert_eq!((live.tables[0].rows, live.tables[0].deletes, live.changes), (7, 3, 8));
    assert_eq!(live.tables[0].position, Some(at(9)));
}

#[test]
fn a_load_knows_its_rate_and_when_it_ends() {
    let begun = Instant::now();
    let load = Load { begun, told: begun, rows: 1_000, estimated: Some(5_000) };
    let live = load.live(begun + Duration::from_secs(2));
    assert_eq!((live.rows_per_second, live.eta_seconds), (500, Some(8)));
    let live = Load { rows: 0, ..load }.live(begun);
    assert_eq!((live.rows_per_second, live.eta_seconds), (0, None));
}

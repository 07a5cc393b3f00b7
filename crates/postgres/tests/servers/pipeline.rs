//! What is seen and removed from outside a running pipeline, and slots that are lost.

use std::time::Duration;

use calve_core::{ChangeSource, ErrorKind, TableName};
use calve_postgres::{Dropped, PostgresSource, drop_pipeline, list_tables, slot_status};
use calve_testkit::servers::{Options, Postgres, SUPERUSER};

use crate::database::{Database, start};
use crate::recorder::{Recorder, durable};

#[tokio::test]
async fn a_pipeline_is_seen_and_dropped_with_all_it_made() {
    let db = Database::create(17).await;
    db.run("CREATE TABLE t (id int PRIMARY KEY)").await;
    let settings = db.settings();
    assert!(!slot_status(&settings).await.unwrap().exists);
    let (mut source, tables, _) = start(settings.clone(), &["public.t"]).await;
    let mut sink = Recorder::new(&tables);
    db.run("INSERT INTO t VALUES (1)").await;
    sink.transactions(&mut source, 1).await;
    let status = slot_status(&settings).await.unwrap();
    assert!(status.exists && status.active_pid.is_some() && status.invalidated.is_none(), "{status:?}");
    assert!(status.current.0 >= sink.position && status.retained_bytes > Some(0), "{status:?}");
    let error = drop_pipeline(&settings).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    source.acknowledge(&durable(sink.position));
    source.stop().await;
    assert_eq!(slot_status(&settings).await.unwrap().confirmed_flush.map(|lsn| lsn.0), Some(sink.position));

    let (slot, publication) = (settings.slot.clone(), settings.publication.clone());
    let dropped = drop_pipeline(&settings).await.unwrap();
    assert_eq!(dropped, [Dropped::Slot(slot.clone()), Dropped::Publication(publication.clone())]);
    let left = "SELECT ((SELECT count(*) FROM pg_replication_slots WHERE database = current_database()) \
                + (SELECT count(*) FROM pg_publication))::text";
    assert_eq!(db.text(left).await, "0");
    db.run(&format!("CREATE PUBLICATION {publication}")).await;
    let dropped = drop_pipeline(&settings).await.unwrap();
    assert_eq!(dropped, [Dropped::NoSlot(slot), Dropped::KeptPublication(publication)]);
    db.drop().await;
}

#[tokio::test]
async fn tables_are_listed_without_what_cannot_be_followed() {
    let db = Database::create(17).await;
    db.run(
        "CREATE SCHEMA s; CREATE TABLE s.b (id int); CREATE TABLE \"A\" (id int); CREATE UNLOGGED TABLE u (id int); \
         CREATE VIEW v AS SELECT 1; CREATE MATERIALIZED VIEW m AS SELECT 1; CREATE TABLE p (id int) PARTITION BY LIST (id); \
         CREATE TABLE p1 PARTITION OF p DEFAULT; CREATE TEMP TABLE t (id int)",
    )
    .await;
    let expected = [("public", "A"), ("public", "p"), ("s", "b")].map(|(schema, name)| TableName::new(schema, name));
    assert_eq!(list_tables(&db.connect(), &[]).await.unwrap(), expected);
    // What is asked for by name is listed whatever it is, so that it can be said what is wrong with it.
    let named = ["u", "v", "p1", "nothing"].map(|name| TableName::new("public", name));
    let listed = list_tables(&db.connect(), &named).await.unwrap();
    assert_eq!(listed.iter().filter(|table| named.contains(table)).count(), 3, "{listed:?}");
    db.drop().await;
}

#[tokio::test]
async fn a_slot_of_another_kind_or_without_its_log_is_refused() {
    let options =
        Options::default().set("max_slot_wal_keep_size", "1MB").set("min_wal_size", "32MB").set("max_wal_size", "64MB");
    let server = Postgres::start(17, &options).unwrap();
    let db = Database::create_on(&server.url(SUPERUSER, "postgres").unwrap()).await;
    db.run("CREATE TABLE t (id int PRIMARY KEY, v text)").await;
    let settings = db.settings();
    db.run(&format!("SELECT pg_create_logical_replication_slot('{}', 'test_decoding')", settings.slot)).await;
    let error = PostgresSource::new(settings.clone()).log_state().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("plugin test_decoding"), "{error}");
    db.run(&format!(
        "SELECT pg_drop_replication_slot('{0}'); SELECT pg_create_physical_replication_slot('{0}')",
        settings.slot
    ))
    .await;
    let error = PostgresSource::new(settings.clone()).log_state().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("a physical one"), "{error}");
    db.run(&format!("SELECT pg_drop_replication_slot('{}')", settings.slot)).await;

    let (mut source, ..) = start(settings.clone(), &["public.t"]).await;
    source.stop().await;
    for _ in 0..6 {
        db.run("INSERT INTO t SELECT coalesce(max(id), 0) + 1, repeat('x', 100) FROM t").await;
        db.run("SELECT pg_switch_wal()").await;
        db.run("CHECKPOINT").await;
    }
    let error = PostgresSource::new(settings.clone()).log_state().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SourceGone, "{error}");
    assert!(error.to_string().contains("max_slot_wal_keep_size") && error.to_string().contains("reload"), "{error}");
    let status = slot_status(&settings).await.unwrap();
    assert_eq!(status.invalidated.as_deref(), Some("wal_removed"), "{status:?}");
    drop_pipeline(&settings).await.unwrap();
    db.drop().await;
}

/// What a pipeline leaves that is killed while its slot is made: the slot is there, goes on being made, and may yet go away.
#[tokio::test]
async fn a_slot_that_another_connection_is_making_is_not_taken_for_made() {
    let db = Database::create(17).await;
    db.run("CREATE TABLE t (id int PRIMARY KEY)").await;
    // Making a slot waits for the transactions that run.
    let writer = db.connect().connect_sql().await.unwrap();
    writer.batch_execute("BEGIN; INSERT INTO public.t VALUES (1)").await.unwrap();
    let settings = db.settings();
    let mut killed = PostgresSource::new(settings.clone());
    tokio::time::timeout(Duration::from_secs(1), killed.keep_log()).await.expect_err("the slot was made at once");

    let mut next = PostgresSource::new(settings);
    assert_eq!(next.log_state().await.unwrap().acknowledged, None);
    let error = next.keep_log().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    writer.batch_execute("COMMIT").await.unwrap();
    let made = async {
        while next.log_state().await.unwrap().acknowledged.is_none() {
            if let Err(error) = next.keep_log().await {
                assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), made).await.expect("the slot is made once nothing is in the way");
    db.drop().await;
}

#[tokio::test]
async fn a_server_without_logical_decoding_or_free_slots_is_told_so() {
    for (setting, value, expected) in [
        ("wal_level", "replica", "ALTER SYSTEM SET wal_level = logical"),
        ("max_replication_slots", "0", "max_replication_slots"),
    ] {
        let server = Postgres::start(17, &Options::default().set(setting, value)).unwrap();
        let db = Database::create_on(&server.url(SUPERUSER, "postgres").unwrap()).await;
        let mut source = PostgresSource::new(db.settings());
        source.log_state().await.unwrap();
        let error = source.keep_log().await.unwrap_err();
        assert!(error.kind() == ErrorKind::Config && error.to_string().contains(expected), "{error}");
    }
}

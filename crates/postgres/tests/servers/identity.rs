//! Whether a log found later is the one that was read before.

use std::time::{Duration, Instant};

use calve_core::{ChangeSource, ErrorKind, Lsn, Position};
use calve_postgres::PostgresSource;
use calve_testkit::servers::{Options, Postgres, SUPERUSER, Stop};

use crate::database::{Database, begin, start};
use crate::recorder::{Recorder, durable};

#[tokio::test]
async fn a_promoted_server_goes_on_and_one_that_forked_earlier_is_refused() {
    let server = Postgres::start(17, &Options::default()).unwrap();
    let url = server.url(SUPERUSER, "postgres").unwrap();
    let db = Database::create_on(&url).await;
    db.run("CREATE TABLE t (id int PRIMARY KEY)").await;
    let (mut source, tables, _) = start(db.settings(), &["public.t"]).await;
    let mut sink = Recorder::new(&tables);
    db.run("INSERT INTO t VALUES (1)").await;
    sink.transactions(&mut source, 1).await;
    let before = source.log_state().await.unwrap().identity;
    source.acknowledge(&durable(sink.committed));
    source.stop().await;

    server.stop(Stop::Fast).unwrap();
    std::fs::write(server.data_dir().unwrap().join("standby.signal"), "").unwrap();
    server.start_again().unwrap();
    let mut source = PostgresSource::new(db.settings());
    let error = source.log_state().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Retry && error.to_string().contains("is a standby"), "{error}");

    server.psql("postgres", "SELECT pg_promote()").unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let now = loop {
        match source.log_state().await {
            Ok(now) => break now,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    };
    assert_ne!(now.identity, before, "the timeline is another");
    let at = Position::Postgres(Lsn(sink.committed));
    source.same_log(&now, &before, &at).unwrap();
    let error = source.same_log(&now, &before, &now.end).unwrap_err();
    assert!(error.kind() == ErrorKind::SourceGone && error.to_string().contains("timeline 1"), "{error}");

    let mut sink = Recorder::new(&tables);
    begin(&mut source, &["public.t"]).await;
    server.psql(&db.name, "INSERT INTO t VALUES (2)").unwrap();
    assert_eq!(sink.transactions(&mut source, 1).await, [["t Insert id=2"]]);
    source.stop().await;
}

#[tokio::test]
async fn another_cluster_is_refused() {
    let (one, other) = (Database::create(17).await, Database::create(18).await);
    let mut source = PostgresSource::new(one.settings());
    let before = source.log_state().await.unwrap();
    let now = PostgresSource::new(other.settings()).log_state().await.unwrap();
    source.same_log(&before, &before.identity, &before.end).unwrap();
    let error = source.same_log(&now, &before.identity, &before.end).unwrap_err();
    assert!(error.kind() == ErrorKind::SourceGone && error.to_string().contains("another Postgres cluster"), "{error}");
    one.drop().await;
    other.drop().await;
}

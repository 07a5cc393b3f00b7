//! The publication: made, kept, and watched.

use std::time::{Duration, Instant};

use calve_core::{ChangeSource, Error, ErrorKind, LoadEvent, TableName};
use calve_postgres::{ConnectConfig, PostgresSource};
use calve_testkit::servers::{Postgres, REPLICATION_USER};

use crate::database::{Database, VERSIONS, begin, start};
use crate::recorder::Recorder;

fn names(tables: &[&str]) -> Vec<TableName> {
    tables.iter().map(|name| name.parse().unwrap()).collect()
}

const MEMBERS: &str = "SELECT coalesce(string_agg(tablename, ',' ORDER BY tablename), '') FROM pg_publication_tables";

#[tokio::test]
async fn calves_own_publication_carries_exactly_the_tables() {
    for version in VERSIONS {
        let db = Database::create(version).await;
        db.run(r#"CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE "B ""x"" é" (id int PRIMARY KEY); CREATE TABLE c (id int)"#).await;
        let mut source = PostgresSource::new(db.settings());
        source.follow(&names(&["public.a", r#"public."B ""x"" é""#])).await.unwrap();
        assert_eq!(db.text(MEMBERS).await, r#"B "x" é,a"#);
        source.follow(&names(&["public.a"])).await.unwrap();
        assert_eq!(db.text(MEMBERS).await, "a");
        // A table without a key would lose its UPDATEs and DELETEs.
        source.follow(&names(&["public.a", "public.c"])).await.unwrap();
        assert_eq!(db.text(MEMBERS).await, "a");
        db.run("INSERT INTO c VALUES (1); UPDATE c SET id = 2").await;
        db.drop().await;
    }
}

/// Tables that inherit from others are tables of their own: a child without a key can be written to while its parent is followed.
#[tokio::test]
async fn children_are_in_a_publication_for_themselves_alone() {
    for version in VERSIONS {
        let db = Database::create(version).await;
        db.run(
            "CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child () INHERITS (parent); CREATE TABLE keyed (PRIMARY KEY (id)) INHERITS (parent);
             CREATE TABLE whole (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF whole DEFAULT",
        )
        .await;
        let mut source = PostgresSource::new(db.settings());
        for tables in [
            &["public.parent", "public.whole"][..],
            &["public.parent", "public.keyed", "public.whole"],
            &["public.keyed"],
            &["public.keyed", "public.parent"],
            &["public.parent"],
        ] {
            source.follow(&names(tables)).await.unwrap();
            let mut expected: Vec<&str> = tables.iter().map(|table| &table["public.".len()..]).collect();
            expected.sort_unstable();
            assert_eq!(db.text(MEMBERS).await, expected.join(","));
            db.run("INSERT INTO child VALUES (1); UPDATE child SET id = 2; DELETE FROM child; INSERT INTO whole VALUES (1); DELETE FROM whole").await;
        }
        db.drop().await;
    }
}

/// Where the publication lacks the table alone, that table is not read, so that others go on.
async fn refused(source: &mut PostgresSource, table: &str) -> calve_core::Result<()> {
    let table = names(&[table]);
    source.follow(&table).await?;
    source.describe(&table[0]).await?;
    source.start_load(&table).await.map(drop)
}

#[tokio::test]
async fn a_table_that_only_its_owner_may_publish_stops_alone() {
    let db = Database::create(17).await;
    db.run("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)").await;
    db.run(&format!(
        "ALTER TABLE a OWNER TO {REPLICATION_USER}; GRANT SELECT ON b TO {REPLICATION_USER}; \
         GRANT CREATE ON DATABASE {} TO {REPLICATION_USER}",
        db.name
    ))
    .await;
    let mut settings = db.settings();
    let url = Postgres::shared(17).unwrap().url(REPLICATION_USER, &db.name).unwrap();
    settings.connect = ConnectConfig::parse(&url).unwrap();
    let mut source = PostgresSource::new(settings);
    source.follow(&names(&["public.a"])).await.unwrap();
    source.follow(&names(&["public.a", "public.b"])).await.unwrap();
    source.describe(&names(&["public.a"])[0]).await.unwrap();
    for error in [
        source.describe(&names(&["public.b"])[0]).await.map(drop).unwrap_err(),
        source.start_load(&names(&["public.b"])).await.map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("table public.b belongs to postgres"), "{error}");
    }
    source.stop().await;
    db.drop().await;
}

#[tokio::test]
async fn a_users_publication_is_used_as_it_is() {
    let db = Database::create(17).await;
    db.run("CREATE TABLE a (id int PRIMARY KEY, v int); CREATE TABLE b (id int PRIMARY KEY)").await;
    let mut settings = db.settings();
    settings.publication = "mine".into();
    settings.manage_publication = false;
    let mut source = PostgresSource::new(settings);
    for (sql, expected) in [
        ("SELECT 1", "does not exist: run CREATE PUBLICATION \"mine\" FOR TABLE ONLY \"public\".\"a\""),
        ("CREATE PUBLICATION mine FOR TABLE b", "does not carry table public.a"),
        ("ALTER PUBLICATION mine ADD TABLE a WHERE (id > 1)", "only some rows or columns of table public.a"),
        ("ALTER PUBLICATION mine SET TABLE a (id)", "only some rows or columns of table public.a"),
        ("ALTER PUBLICATION mine SET TABLE a; ALTER PUBLICATION mine SET (publish = 'insert')", "every kind of change"),
    ] {
        db.run(sql).await;
        let error = refused(&mut source, "public.a").await.expect_err(sql);
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(expected), "{sql}: {error}");
    }
    db.run("CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF p DEFAULT").await;
    for (sql, table, expected) in [
        ("FOR ALL TABLES", "public.p", "publish_via_partition_root"),
        ("FOR TABLE p WITH (publish_via_partition_root)", "public.p1", "does not carry table public.p1"),
    ] {
        db.run(&format!("DROP PUBLICATION mine; CREATE PUBLICATION mine {sql}")).await;
        let error = refused(&mut source, table).await.expect_err(sql);
        assert!(error.kind() == ErrorKind::Config && error.to_string().contains(expected), "{sql}: {error}");
    }
    for publication in ["FOR TABLE a, b", "FOR ALL TABLES", "FOR TABLES IN SCHEMA public"] {
        db.run(&format!("DROP PUBLICATION mine; CREATE PUBLICATION mine {publication}")).await;
        let before = db.text(MEMBERS).await;
        source.follow(&names(&["public.a"])).await.unwrap();
        assert_eq!(db.text(MEMBERS).await, before, "{publication} was altered");
    }
    db.drop().await;
}

#[tokio::test]
async fn a_table_taken_out_and_put_back_while_we_run_stops() {
    let db = Database::create(17).await;
    db.run("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)").await;
    let settings = db.settings();
    let publication = settings.publication.clone();
    let (mut source, tables, _) = start(settings, &["public.a", "public.b"]).await;
    let mut sink = Recorder::new(&tables);
    db.run(&format!("ALTER PUBLICATION {publication} DROP TABLE a; INSERT INTO a VALUES (1)")).await;
    db.run(&format!("ALTER PUBLICATION {publication} ADD TABLE a; INSERT INTO b VALUES (1)")).await;
    sink.until(&mut source, "the stop", |sink| !sink.stops.is_empty()).await;
    assert_eq!(sink.stops.len(), 1);
    assert_eq!((sink.stops[0].0.as_str(), sink.stops[0].1.state.as_str()), ("public.a", "log lost"));
    source.stop().await;
    db.drop().await;
}

#[tokio::test]
async fn a_table_taken_out_and_put_back_while_we_are_down_stops_until_it_is_read_again() {
    let db = Database::create(17).await;
    db.run("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); INSERT INTO a VALUES (7)").await;
    let settings = db.settings();
    let publication = settings.publication.clone();
    let (mut source, tables, _) = start(settings.clone(), &["public.a", "public.b"]).await;
    source.stop().await;
    db.run(&format!("ALTER PUBLICATION {publication} DROP TABLE a; ALTER PUBLICATION {publication} ADD TABLE a")).await;
    // It is remembered however often a start fails.
    for _ in 0..2 {
        PostgresSource::new(settings.clone()).follow(&names(&["public.a", "public.b"])).await.unwrap();
    }
    let mut source = PostgresSource::new(settings.clone());
    begin(&mut source, &["public.a", "public.b"]).await;
    let mut sink = Recorder::new(&tables);
    sink.until(&mut source, "the stop", |sink| !sink.stops.is_empty()).await;
    assert_eq!((sink.stops[0].0.as_str(), sink.stops[0].1.state.as_str()), ("public.a", "log lost"));
    source.stop().await;

    begin(&mut source, &["public.a", "public.b"]).await;
    let mut load = source.start_load(&names(&["public.a"])).await.unwrap();
    let mut rows = 0;
    while let Some(event) = load.next().await.unwrap() {
        if let LoadEvent::Rows(_, buffer) = event {
            rows += buffer.len();
        }
    }
    assert_eq!(rows, 1);
    let mut sink = Recorder::new(&tables);
    db.run("INSERT INTO a VALUES (8)").await;
    assert_eq!(sink.transactions(&mut source, 1).await, [["a Insert id=8"]]);
    assert!(sink.stops.is_empty(), "{:?}", sink.stops);
    source.stop().await;
    PostgresSource::new(settings).follow(&names(&["public.a", "public.b"])).await.unwrap();
    db.drop().await;
}

#[tokio::test]
async fn a_table_left_out_for_a_run_that_got_nowhere_stops_until_it_is_read_again() {
    let db = Database::create(17).await;
    db.run("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)").await;
    let settings = db.settings();
    let (mut source, tables, from) = start(settings.clone(), &["public.a", "public.b"]).await;
    source.stop().await;
    PostgresSource::new(settings.clone()).follow(&names(&["public.b"])).await.unwrap();
    // The log is kept from before this, but nobody sends it.
    db.run("INSERT INTO a VALUES (7)").await;
    for _ in 0..2 {
        let mut source = PostgresSource::new(settings.clone());
        source.log_state().await.unwrap();
        source.follow(&names(&["public.a", "public.b"])).await.unwrap();
        source.start(&from, &tables).await.unwrap();
        let mut sink = Recorder::new(&tables);
        sink.until(&mut source, "the stop", |sink| !sink.stops.is_empty()).await;
        let (table, reason) = &sink.stops[0];
        assert_eq!((table.as_str(), reason.state.as_str(), sink.stops.len()), ("public.a", "log lost", 1));
        assert!(reason.detail.contains("out of calve's configuration"), "{reason}");
        source.stop().await;
    }
    // Left out for good, read again, and a table that is gone is forgotten.
    db.run("CREATE TABLE c (id int PRIMARY KEY)").await;
    for followed in [&["public.b", "public.c"][..], &["public.b"], &["public.a", "public.b"]] {
        PostgresSource::new(settings.clone()).follow(&names(followed)).await.unwrap();
    }
    db.run("DROP TABLE c").await;
    let mut source = PostgresSource::new(settings.clone());
    begin(&mut source, &["public.a", "public.b"]).await;
    drop(source.start_load(&names(&["public.a"])).await.unwrap());
    source.stop().await;
    PostgresSource::new(settings.clone()).follow(&names(&["public.a", "public.b"])).await.unwrap();
    let comment = db.text("SELECT obj_description(oid, 'pg_publication') FROM pg_publication").await;
    assert!(!comment.contains("gaps"), "{comment}");
    db.drop().await;
}

#[tokio::test]
async fn a_dropped_publication_ends_the_stream_and_is_not_forgotten_when_it_is_made_again() {
    for version in VERSIONS {
        let db = Database::create(version).await;
        db.run("CREATE TABLE a (id int PRIMARY KEY)").await;
        let settings = db.settings();
        let publication = settings.publication.clone();
        let (mut source, tables, _) = start(settings.clone(), &["public.a"]).await;
        let mut sink = Recorder::new(&tables);
        db.run(&format!("DROP PUBLICATION {publication}")).await;
        db.run("INSERT INTO a VALUES (1)").await;
        let error = fails(&mut source, &mut sink).await;
        assert_eq!(error.kind(), ErrorKind::SourceGone, "{error}");
        assert!(error.to_string().contains(&publication), "{error}");
        source.stop().await;

        // The next start makes it again. Some servers refuse the stretch of log without it, others pass it over with a
        // warning; the table is stopped in any case.
        begin(&mut source, &["public.a"]).await;
        let mut sink = Recorder::new(&tables);
        if let Err(error) = source.poll(&mut sink).await {
            assert_eq!(error.kind(), ErrorKind::SourceGone, "{error}");
        }
        assert_eq!((sink.stops[0].0.as_str(), sink.stops[0].1.state.as_str()), ("public.a", "log lost"));
        source.stop().await;
        db.drop().await;
    }
}

async fn fails(source: &mut PostgresSource, sink: &mut Recorder) -> Error {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        assert!(Instant::now() < deadline, "the stream goes on");
        if let Err(error) = source.poll(sink).await {
            return error;
        }
    }
}

#[tokio::test]
async fn a_publication_whose_options_are_altered_ends_the_stream() {
    let db = Database::create(17).await;
    db.run("CREATE TABLE a (id int PRIMARY KEY)").await;
    let settings = db.settings();
    let publication = settings.publication.clone();
    let (mut source, tables, _) = start(settings, &["public.a"]).await;
    let mut sink = Recorder::new(&tables);
    db.run(&format!("ALTER PUBLICATION {publication} SET (publish = 'insert')")).await;
    let error = fails(&mut source, &mut sink).await;
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("every kind of change"), "{error}");
    source.stop().await;
    begin(&mut source, &["public.a"]).await;
    sink.until(&mut source, "the stop", |sink| !sink.stops.is_empty()).await;
    assert_eq!(sink.stops[0].1.state, "log lost");
    source.stop().await;
    db.drop().await;
}

#[tokio::test]
async fn tables_that_are_dropped_stop_and_others_go_on() {
    let db = Database::create(17).await;
    db.run(
        "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); CREATE TABLE c (id int PRIMARY KEY)",
    )
    .await;
    let all = ["public.a", "public.b", "public.c"];
    let (mut source, tables, from) = start(db.settings(), &all).await;
    let mut sink = Recorder::new(&tables);
    db.run("DROP TABLE a; INSERT INTO b VALUES (1)").await;
    sink.until(&mut source, "the stop", |sink| !sink.stops.is_empty()).await;
    assert_eq!((sink.stops[0].0.as_str(), sink.stops[0].1.state.as_str()), ("public.a", "dropped"));
    source.stop().await;

    db.run("DROP TABLE b; CREATE TABLE b (id int PRIMARY KEY)").await;
    source.log_state().await.unwrap();
    source.follow(&names(&all)).await.unwrap();
    source.start(&from, &tables).await.unwrap();
    let mut sink = Recorder::new(&tables);
    db.run("INSERT INTO c VALUES (1)").await;
    sink.until(&mut source, "the row of c", |sink| sink.transactions.iter().flatten().any(|c| c == "c Insert id=1"))
        .await;
    let stops: Vec<_> = sink.stops.iter().map(|(table, reason)| (table.as_str(), reason.state.as_str())).collect();
    assert_eq!(stops, [("public.a", "dropped"), ("public.b", "schema changed")]);
    source.stop().await;
    db.drop().await;
}

#[tokio::test]
async fn partitions_arrive_as_their_root() {
    for version in VERSIONS {
        let db = Database::create(version).await;
        db.run("CREATE TABLE p (id int PRIMARY KEY, v int) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)")
            .await;
        let (mut source, tables, _) = start(db.settings(), &["public.p"]).await;
        let mut sink = Recorder::new(&tables);
        db.run("INSERT INTO p VALUES (1, 1)").await;
        db.run("CREATE TABLE p2 (v int, id int PRIMARY KEY); ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20)").await;
        db.run("INSERT INTO p VALUES (11, 2); UPDATE p SET id = 12 WHERE id = 1").await;
        let transactions: Vec<String> = sink.transactions(&mut source, 2).await.into_iter().flatten().collect();
        assert_eq!(
            transactions,
            ["p Insert id=1 v=1", "p Insert id=11 v=2", "p Delete id=1", "p Insert id=12 v=1"],
            "Postgres {version}"
        );
        source.stop().await;
        db.drop().await;
    }
}

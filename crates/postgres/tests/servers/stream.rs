//! Rows, transactions, positions and the conversation with the server.

use std::time::{Duration, Instant};

use calve_core::{ChangeSource, ErrorKind, Lsn, Position};
use calve_postgres::PostgresSource;

use crate::database::{Database, VERSIONS, begin, start};
use crate::recorder::{Recorder, durable};

#[tokio::test]
async fn every_kind_of_change_arrives_in_order() {
    for version in VERSIONS {
        let db = Database::create(version).await;
        db.run(
            "CREATE TABLE a (id int PRIMARY KEY, v text); CREATE TABLE b (x bigint, y text, v int, PRIMARY KEY (y, x))",
        )
        .await;
        db.run("CREATE TABLE other (id int PRIMARY KEY)").await;
        let (mut source, tables, _) = start(db.settings(), &["public.a", "public.b"]).await;
        let mut sink = Recorder::new(&tables);
        db.run("INSERT INTO a VALUES (1, 'one'), (2, NULL)").await;
        db.run("INSERT INTO other VALUES (1)").await;
        db.run("BEGIN; INSERT INTO b VALUES (1, 'k', 10); UPDATE a SET v = 'two' WHERE id = 2; UPDATE a SET id = 3 WHERE id = 1; \
                UPDATE b SET x = 2, v = 11; DELETE FROM a WHERE id = 2; COMMIT")
        .await;
        db.run("BEGIN; INSERT INTO a VALUES (9, 'gone'); ROLLBACK").await;
        db.run("BEGIN; INSERT INTO a VALUES (4, 'kept'); SAVEPOINT s; INSERT INTO a VALUES (5, 'gone'); ROLLBACK TO s; COMMIT").await;
        db.run("TRUNCATE a, b, other").await;
        let mut transactions = sink.transactions(&mut source, 4).await;
        transactions.retain(|transaction| !transaction.is_empty());
        let expected: [&[&str]; 4] = [
            &["a Insert id=1 v=one", "a Insert id=2 v=NULL"],
            &[
                "b Insert x=1 y=k v=10",
                "a Update id=2 v=two",
                "a UpdateFrom id=1 -> id=3 v=one",
                "b UpdateFrom y=k x=1 -> x=2 y=k v=11",
                "a Delete id=2",
            ],
            &["a Insert id=4 v=kept"],
            &["a Truncate", "b Truncate"],
        ];
        assert_eq!(transactions, expected, "Postgres {version}");
        source.stop().await;
        db.drop().await;
    }
}

#[tokio::test]
async fn large_values_that_an_update_leaves_alone_are_sent_or_stay_as_they_were() {
    for version in VERSIONS {
        let db = Database::create(version).await;
        for (table, identity) in [("d", "DEFAULT"), ("f", "FULL"), ("i", "USING INDEX i_k")] {
            db.run(&format!("CREATE TABLE {table} (id int PRIMARY KEY, k int NOT NULL, v int, big text)")).await;
            db.run(&format!("ALTER TABLE {table} ALTER COLUMN big SET STORAGE EXTERNAL")).await;
            if table == "i" {
                db.run("CREATE UNIQUE INDEX i_k ON i (k)").await;
            }
            db.run(&format!("ALTER TABLE {table} REPLICA IDENTITY {identity}")).await;
        }
        let (mut source, tables, _) = start(db.settings(), &["public.d", "public.f", "public.i"]).await;
        let mut sink = Recorder::new(&tables);
        for table in ["d", "f", "i"] {
            db.run(&format!("INSERT INTO {table} VALUES (1, 7, 1, repeat('x', 10000))")).await;
            db.run(&format!("UPDATE {table} SET v = 2")).await;
        }
        db.run("UPDATE f SET id = 2; DELETE FROM f; UPDATE i SET k = 8; DELETE FROM d").await;
        let transactions = sink.transactions(&mut source, 7).await;
        let expected: [&[&str]; 7] = [
            &["d Insert id=1 k=7 v=1 big=10000 bytes"],
            &["d Update id=1 k=7 v=2 big=as it was"],
            &["f Insert id=1 k=7 v=1 big=10000 bytes"],
            &["f UpdateFrom id=1 -> id=1 k=7 v=2 big=10000 bytes"],
            &["i Insert id=1 k=7 v=1 big=10000 bytes"],
            &["i Update id=1 k=7 v=2 big=as it was"],
            &[
                "f UpdateFrom id=1 -> id=2 k=7 v=2 big=10000 bytes",
                "f Delete id=2",
                "i UpdateFrom k=7 -> id=1 k=8 v=2 big=as it was",
                "d Delete id=1",
            ],
        ];
        assert_eq!(transactions, expected, "Postgres {version}");
        assert!(sink.stops.is_empty(), "{:?}", sink.stops);
        source.stop().await;
        db.drop().await;
    }
}

#[tokio::test]
async fn tables_go_on_under_another_schema_or_stop_with_a_reason() {
    let db = Database::create(17).await;
    db.run("CREATE TABLE dates (id int PRIMARY KEY, v date); CREATE TABLE fine (id int PRIMARY KEY)").await;
    let altered = [
        "added",
        "filled",
        "dropped",
        "renamed",
        "retyped",
        "converted",
        "rekeyed",
        "moved",
        "nulls",
        "unkeyed",
        "twice",
    ];
    for table in altered {
        db.run(&format!("CREATE TABLE {table} (id int PRIMARY KEY, k int NOT NULL UNIQUE, v varchar(5))")).await;
    }
    db.run("ALTER TABLE unkeyed REPLICA IDENTITY FULL").await;
    let names: Vec<String> = ["dates", "fine"].iter().chain(&altered).map(|name| format!("public.{name}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (mut source, tables, _) = start(db.settings(), &names).await;
    let mut sink = Recorder::new(&tables);
    db.run("INSERT INTO dates VALUES (1, 'infinity')").await;
    db.run("ALTER TABLE added ADD COLUMN w int; INSERT INTO added VALUES (1, 1)").await;
    db.run("ALTER TABLE filled ADD COLUMN w int DEFAULT 7; INSERT INTO filled VALUES (1, 1)").await;
    db.run("ALTER TABLE dropped DROP COLUMN v; INSERT INTO dropped VALUES (1, 1)").await;
    db.run("ALTER TABLE renamed RENAME v TO w; INSERT INTO renamed VALUES (1, 1)").await;
    db.run("ALTER TABLE retyped ALTER v TYPE varchar(9); INSERT INTO retyped VALUES (1, 1)").await;
    db.run("ALTER TABLE converted ALTER v TYPE int USING length(v); INSERT INTO converted VALUES (1, 1)").await;
    db.run("ALTER TABLE rekeyed REPLICA IDENTITY USING INDEX rekeyed_k_key; INSERT INTO rekeyed VALUES (1, 1)").await;
    db.run("ALTER TABLE moved RENAME TO elsewhere; INSERT INTO elsewhere VALUES (1, 1)").await;
    db.run("ALTER TABLE nulls ALTER k DROP NOT NULL; INSERT INTO nulls VALUES (1, NULL)").await;
    db.run("ALTER TABLE unkeyed DROP CONSTRAINT unkeyed_pkey; INSERT INTO unkeyed VALUES (1, 1)").await;
    // Within one transaction, between rows of both shapes.
    db.run(
        "BEGIN; INSERT INTO twice VALUES (1, 1, 'old'); ALTER TABLE twice RENAME v TO text; ALTER TABLE twice ADD d date; \
         INSERT INTO twice VALUES (2, 2, 'new', '2026-01-02'); COMMIT",
    )
    .await;
    db.run("INSERT INTO fine VALUES (1)").await;
    sink.until(&mut source, "the rows of the last table", |sink| {
        sink.transactions.iter().flatten().any(|change| change == "fine Insert id=1")
    })
    .await;
    let stops: Vec<(&str, &str)> =
        sink.stops.iter().map(|(table, reason)| (table.as_str(), reason.detail.as_str())).collect();
    let expected = [
        ("public.dates", "column v of the row with id = 1 holds"),
        ("public.rekeyed", "changed from (id) to (k)"),
        ("public.moved", "was renamed to public.elsewhere"),
        ("public.unkeyed", "changed from (id) to ()"),
    ];
    assert_eq!(stops.len(), expected.len(), "{stops:#?}");
    for ((table, detail), (expected_table, expected_detail)) in stops.iter().zip(expected) {
        assert_eq!(*table, expected_table);
        assert!(detail.contains(expected_detail), "{table}: {detail}");
    }
    let schemas: Vec<(&str, &str, &str)> = sink
        .schemas
        .iter()
        .map(|(table, columns, rows)| (table.as_str(), columns.as_str(), rows.as_deref().unwrap_or("")))
        .collect();
    let id_k = "1 id integer not null, 2 k integer not null";
    let expected = [
        ("public.added", format!("{id_k}, 3 v character varying(5), 4 w integer"), ""),
        (
            "public.filled",
            format!("{id_k}, 3 v character varying(5), 4 w integer"),
            "column w was added with a default",
        ),
        ("public.dropped", id_k.to_owned(), ""),
        ("public.renamed", format!("{id_k}, 3 w character varying(5)"), ""),
        ("public.retyped", format!("{id_k}, 3 v character varying(9)"), ""),
        ("public.converted", format!("{id_k}, 3 v integer"), "the type of column v changed"),
        ("public.nulls", "1 id integer not null, 2 k integer, 3 v character varying(5)".to_owned(), ""),
        ("public.twice", format!("{id_k}, 3 text character varying(5), 4 d date"), ""),
    ];
    assert_eq!(schemas.len(), expected.len(), "{schemas:#?}");
    for ((table, columns, rows), (expected_table, expected_columns, expected_rows)) in schemas.iter().zip(&expected) {
        assert_eq!((table, columns), (expected_table, &expected_columns.as_str()));
        assert!(rows.starts_with(expected_rows) && rows.is_empty() == expected_rows.is_empty(), "{table}: {rows}");
    }
    let changes: Vec<&String> = sink.transactions.iter().flatten().collect();
    for change in [
        "added Insert id=1 k=1 v=NULL w=NULL",
        "nulls Insert id=1 k=NULL v=NULL",
        "twice Insert id=1 k=1 v=old",
        "twice Insert id=2 k=2 text=new d=",
    ] {
        assert!(changes.iter().any(|found| found.starts_with(change)), "{change}: {changes:#?}");
    }
    source.stop().await;
    db.drop().await;
}

#[tokio::test]
async fn reading_goes_on_after_the_acknowledged_transaction_and_repeats_the_others() {
    let db = Database::create(17).await;
    db.run("CREATE TABLE t (id int PRIMARY KEY)").await;
    let (mut source, tables, _) = start(db.settings(), &["public.t"]).await;
    let mut sink = Recorder::new(&tables);
    db.run("INSERT INTO t VALUES (1)").await;
    sink.transactions(&mut source, 1).await;
    let first = sink.committed;
    db.run("INSERT INTO t VALUES (2)").await;
    sink.transactions(&mut source, 1).await;
    let second = sink.committed;
    source.acknowledge(&durable(first));
    source.stop().await;

    let (_, from) = begin(&mut source, &["public.t"]).await;
    assert_eq!(from, Position::Postgres(Lsn(first)), "the last acknowledgement is sent before leaving");
    let mut again = Recorder::new(&tables);
    assert_eq!(again.transactions(&mut source, 1).await, [["t Insert id=2"]]);
    assert_eq!(again.committed, second);
    source.stop().await;

    // Further than what was acknowledged, as local state may know.
    let log = source.log_state().await.unwrap();
    assert_eq!(log.acknowledged, Some(from));
    source.start(&Position::Postgres(Lsn(second)), &tables).await.unwrap();
    db.run("INSERT INTO t VALUES (3)").await;
    let mut further = Recorder::new(&tables);
    assert_eq!(further.transactions(&mut source, 1).await, [["t Insert id=3"]]);
    source.stop().await;
    db.drop().await;
}

#[tokio::test]
async fn an_idle_slot_moves_with_foreign_traffic() {
    for version in VERSIONS {
        let db = Database::create(version).await;
        db.run("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (v text)").await;
        let (mut source, tables, _) = start(db.settings(), &["public.t"]).await;
        let mut sink = Recorder::new(&tables);
        db.run("INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 20000)").await;
        let end = db.end().await;
        sink.until(&mut source, "an idle position beyond foreign traffic", |sink| sink.position >= end).await;
        source.acknowledge(&durable(sink.position));
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let sql = format!(
                "SELECT (confirmed_flush_lsn - '0/0'::pg_lsn)::text FROM pg_replication_slots WHERE database = '{}'",
                db.name
            );
            let confirmed: u64 = db.text(&sql).await.parse().unwrap();
            if confirmed >= end {
                break;
            }
            assert!(Instant::now() < deadline, "the slot stays at {confirmed}, behind {end}");
            source.poll(&mut sink).await.unwrap();
        }
        source.stop().await;
        db.drop().await;
    }
}

#[tokio::test]
async fn a_reader_held_back_for_longer_than_the_servers_patience_keeps_its_connection() {
    let db = Database::create(17).await;
    db.run("CREATE TABLE t (id int PRIMARY KEY, v text)").await;
    db.run(&format!("ALTER DATABASE {} SET wal_sender_timeout = '1s'", db.name)).await;
    let (mut source, tables, _) = start(db.settings(), &["public.t"]).await;
    let mut sink = Recorder::new(&tables);
    // More than is read ahead, so that the server itself is held back as well.
    db.run("INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 60000) i").await;
    sink.full = true;
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        source.poll(&mut sink).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(sink.transactions.is_empty());
    sink.full = false;
    let transactions = sink.transactions(&mut source, 1).await;
    assert_eq!(transactions[0].len(), 60_000);
    source.stop().await;
    db.drop().await;
}

#[tokio::test]
async fn a_slot_in_use_is_waited_for() {
    let db = Database::create(17).await;
    db.run("CREATE TABLE t (id int PRIMARY KEY)").await;
    let (mut first, tables, from) = start(db.settings(), &["public.t"]).await;
    let mut second = PostgresSource::new(db.settings());
    second.log_state().await.unwrap();
    let (started, ()) = tokio::join!(second.start(&from, &tables), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        first.stop().await;
    });
    started.unwrap();
    db.run("INSERT INTO t VALUES (1)").await;
    assert_eq!(Recorder::new(&tables).transactions(&mut second, 1).await, [["t Insert id=1"]]);
    second.stop().await;
    db.drop().await;
}

#[tokio::test]
async fn a_lost_connection_is_retried_and_a_lost_slot_is_told() {
    let db = Database::create(17).await;
    db.run("CREATE TABLE t (id int PRIMARY KEY)").await;
    let (mut source, tables, _) = start(db.settings(), &["public.t"]).await;
    let mut sink = Recorder::new(&tables);
    db.run("INSERT INTO t VALUES (1)").await;
    sink.transactions(&mut source, 1).await;
    db.run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL AND database = current_database()")
        .await;
    let error = loop {
        if let Err(error) = source.poll(&mut sink).await {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    source.stop().await;
    db.run("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()")
        .await;
    let log = source.log_state().await.unwrap();
    assert_eq!(log.acknowledged, None);
    // Whoever begins all the same looks again, and is told then: the slot may have gone just now.
    let error = source.start(&Position::Postgres(Lsn(sink.position)), &tables).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    db.drop().await;
}

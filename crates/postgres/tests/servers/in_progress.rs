//! Transactions that are sent while they are in progress: what the sink sees is what it sees of whole ones.

use std::time::Duration;

use calve_core::{ChangeSource, ErrorKind};
use calve_postgres::{PostgresSettings, PostgresSource};
use tokio_postgres::Client;

use crate::database::{Database, VERSIONS, begin, start};
use crate::recorder::{Recorder, durable};

impl Database {
    /// From the next connection on the server keeps no more than this of a transaction before it sends it.
    async fn send_beyond(&self, work_mem: &str) {
        self.run(&format!("ALTER DATABASE {} SET logical_decoding_work_mem = '{work_mem}'", self.name)).await;
    }

    async fn writer(&self) -> Writer {
        let client = self.connect().connect_sql().await.unwrap();
        client.batch_execute("SET search_path = public").await.unwrap();
        Writer(client)
    }

    /// Transactions that were sent in progress through the pipeline's slot.
    async fn sent_in_progress(&self, settings: &PostgresSettings) -> u64 {
        let sql =
            format!("SELECT stream_txns::text FROM pg_stat_replication_slots WHERE slot_name = '{}'", settings.slot);
        self.text(&sql).await.parse().unwrap()
    }
}

/// Another connection.
struct Writer(Client);

impl Writer {
    async fn run(&self, sql: &str) {
        self.0.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
}

/// So many rows from a number on, 100 bytes each.
fn rows(table: &str, from: u32, count: u32, letter: char) -> String {
    format!(
        "INSERT INTO {table} SELECT i, repeat('{letter}', 100) FROM generate_series({from}, {from} + {count} - 1) i;"
    )
}

const TABLES: &str = "
    CREATE TABLE a (id int PRIMARY KEY, v text); CREATE TABLE b (id int PRIMARY KEY, v text);
    CREATE TABLE shape (id int PRIMARY KEY, v text); CREATE TABLE other (id int PRIMARY KEY, v text);
    CREATE TABLE big (id int PRIMARY KEY, n int, doc text); ALTER TABLE big ALTER doc SET STORAGE EXTERNAL;
    ALTER TABLE big REPLICA IDENTITY FULL;
    INSERT INTO big SELECT i, i, repeat('x', 5000) FROM generate_series(1, 300) i;";
const FOLLOWED: [&str; 4] = ["public.a", "public.b", "public.shape", "public.big"];

/// Several transactions that take turns, with savepoints rolled back at several depths, and one of every kind of change.
async fn write(db: &Database) {
    let (one, two, three) = (db.writer().await, db.writer().await, db.writer().await);
    one.run(&format!("BEGIN; {}", rows("a", 0, 2_000, 'o'))).await;
    two.run(&format!("BEGIN; {} {}", rows("other", 0, 2_000, 'x'), rows("b", 0, 2_000, 't'))).await;
    three.run(&format!("BEGIN; {}", rows("b", 10_000, 3_000, 'g'))).await;
    db.run("INSERT INTO a VALUES (-1, 'small')").await;
    one.run("SAVEPOINT s1; UPDATE a SET v = repeat('g', 90) WHERE id BETWEEN 0 AND 999; SAVEPOINT s2; DELETE FROM a WHERE id > 500")
        .await;
    two.run(&format!("SAVEPOINT s1; {} RELEASE s1", rows("b", 2_000, 1_000, 't'))).await;
    one.run(&format!("ROLLBACK TO s2; {} SAVEPOINT s3; UPDATE a SET id = -id - 10", rows("a", 5_000, 2_000, 'g')))
        .await;
    one.run(&format!("RELEASE s3; ROLLBACK TO s1; {}", rows("a", 7_000, 1_500, 'k'))).await;
    three.run("UPDATE b SET v = repeat('h', 80) WHERE id >= 10000; ROLLBACK").await;
    // Rows of a table whose description came in what is rolled back.
    two.run(&format!(
        "SAVEPOINT s4; {} ROLLBACK TO s4; {}",
        rows("shape", 0, 2_000, 'g'),
        rows("shape", 0, 2_000, 's')
    ))
    .await;
    for id in 0..20 {
        two.run(&format!("SAVEPOINT s5; UPDATE b SET v = repeat('g', 70) WHERE id < 1500; ROLLBACK TO s5; DELETE FROM b WHERE id = {id}"))
            .await;
    }
    two.run("COMMIT").await;
    db.run("INSERT INTO a VALUES (-2, 'between')").await;
    one.run("COMMIT").await;

    one.run(&format!(
        "BEGIN; {} ALTER TABLE shape ADD COLUMN w int; UPDATE shape SET w = id WHERE id < 3000; SAVEPOINT s; \
         ALTER TABLE shape ADD COLUMN gone int; UPDATE shape SET gone = id; ROLLBACK TO s; \
         ALTER TABLE shape RENAME v TO words; UPDATE shape SET words = repeat('w', 100); COMMIT",
        rows("shape", 2_000, 2_000, 'n')
    ))
    .await;
    one.run("INSERT INTO shape VALUES (-1, 'after', 1)").await;
    one.run("UPDATE big SET n = n + 1, doc = CASE WHEN id % 10 = 0 THEN repeat('y', 4000) ELSE doc END").await;
    one.run(
        "BEGIN; UPDATE a SET id = -id - 10; UPDATE a SET id = id + 1000000; DELETE FROM a WHERE id % 3 = 0; COMMIT",
    )
    .await;
    one.run(&format!(
        "BEGIN; {} TRUNCATE b, other, a; {} COMMIT",
        rows("b", 20_000, 2_000, 'g'),
        rows("b", 0, 2_000, 'n')
    ))
    .await;
    one.run(&format!("BEGIN; {} COMMIT", rows("other", 0, 5_000, 'x'))).await;
    // The server does not describe the table again.
    db.run("INSERT INTO other VALUES (-1, 'small')").await;
    db.run("INSERT INTO a VALUES (-3, 'last')").await;
}

#[tokio::test]
async fn what_is_sent_in_progress_arrives_as_whole_transactions_do() {
    for version in VERSIONS {
        let db = Database::create(version).await;
        db.run(TABLES).await;
        let (mut whole, mut pieces) =
            (db.settings(), PostgresSettings::new(db.connect(), &format!("{}_pieces", db.name)));
        // Of a table that is not followed the server sends as much.
        for settings in [&mut whole, &mut pieces] {
            settings.manage_publication = false;
            db.run(&format!("CREATE PUBLICATION {} FOR ALL TABLES", settings.publication)).await;
        }
        db.send_beyond("64MB").await;
        let (mut source, tables, _) = start(whole.clone(), &FOLLOWED).await;
        let mut expected = Recorder::new(&tables);
        db.send_beyond("64kB").await;
        let (mut in_pieces, tables, _) = start(pieces.clone(), &FOLLOWED).await;
        let mut found = Recorder::new(&tables);
        write(&db).await;

        let last = ["a Insert id=-3 v=last"];
        let came = |sink: &Recorder| sink.transactions.last().is_some_and(|transaction| *transaction == last);
        expected.until(&mut source, "the last transaction", came).await;
        found.until(&mut in_pieces, "the last transaction", came).await;
        for sink in [&mut expected, &mut found] {
            sink.transactions.retain(|transaction| !transaction.is_empty());
        }
        assert!(expected.transactions.len() == 10 && expected.transactions.iter().flatten().count() > 20_000);
        for (number, (expected, found)) in expected.transactions.iter().zip(&found.transactions).enumerate() {
            assert_eq!(expected.len(), found.len(), "Postgres {version}, transaction {number}");
            let difference = expected.iter().zip(found).find(|(expected, found)| expected != found);
            assert_eq!(difference, None, "Postgres {version}, transaction {number}");
        }
        assert_eq!(expected.transactions.len(), found.transactions.len(), "Postgres {version}");
        assert_eq!((expected.committed, &expected.schemas), (found.committed, &found.schemas), "Postgres {version}");
        assert_eq!((expected.stops.len(), found.stops.len(), expected.schemas.len()), (0, 0, 2));
        assert_eq!(db.sent_in_progress(&whole).await, 0);
        let sent = db.sent_in_progress(&pieces).await;
        assert!(sent >= 7, "Postgres {version} sent {sent} transactions in progress");
        source.stop().await;
        in_pieces.stop().await;
        db.drop().await;
    }
}

/// Polls until so many transactions were sent in progress, which the sink does not hear of.
async fn await_sent(db: &Database, settings: &PostgresSettings, source: &mut PostgresSource, sink: &mut Recorder) {
    let before = (sink.transactions.len(), sink.changes());
    for _ in 0..200 {
        source.poll(sink).await.unwrap();
        if db.sent_in_progress(settings).await > 0 {
            source.poll(sink).await.unwrap();
            assert_eq!((sink.transactions.len(), sink.changes()), before, "nothing counts before its commit");
            return;
        }
    }
    panic!("nothing was sent in progress");
}

#[tokio::test]
async fn a_committed_transaction_is_handed_on_as_the_sink_can_take_it() {
    let db = Database::create(17).await;
    db.run(TABLES).await;
    db.send_beyond("64kB").await;
    let settings = db.settings();
    let (mut source, tables, _) = start(settings.clone(), &["public.a"]).await;
    let mut sink = Recorder::new(&tables);
    let writer = db.writer().await;
    // Beyond what is kept in memory.
    writer.run(&format!("BEGIN; {}", rows("a", 0, 120_000, 'o'))).await;
    await_sent(&db, &settings, &mut source, &mut sink).await;
    writer.run("COMMIT; INSERT INTO a VALUES (-1, 'next')").await;
    sink.until(&mut source, "the first rows", |sink| sink.changes() > 0).await;
    let mut polls = 0;
    while sink.transactions.is_empty() {
        let before = sink.changes();
        sink.full = true;
        source.poll(&mut sink).await.unwrap();
        assert_eq!(sink.changes(), before, "a full sink is given nothing");
        sink.full = false;
        // Given up wherever it waits, nothing is lost and nothing comes twice.
        match tokio::time::timeout(Duration::ZERO, source.poll(&mut sink)).await {
            Ok(polled) => polled.unwrap(),
            Err(_) => assert!(sink.changes() - before < 4_000, "{} changes at a time", sink.changes() - before),
        }
        polls += 1;
        assert!(polls < 10_000, "it does not end");
    }
    assert!(polls > 40, "the transaction came in {polls} pieces");
    assert_eq!(sink.transactions[0].len(), 120_000);
    assert_eq!(sink.transactions(&mut source, 2).await[1], ["a Insert id=-1 v=next"]);
    source.stop().await;
    db.drop().await;
}

#[tokio::test]
async fn a_transaction_in_progress_holds_nothing_up_and_survives_restarts() {
    for version in VERSIONS {
        let db = Database::create(version).await;
        db.run(TABLES).await;
        db.send_beyond("64kB").await;
        let settings = db.settings();
        let (mut source, tables, _) = start(settings.clone(), &["public.a"]).await;
        let mut sink = Recorder::new(&tables);
        let writer = db.writer().await;
        writer.run(&format!("BEGIN; {}", rows("a", 0, 3_000, 'o'))).await;
        await_sent(&db, &settings, &mut source, &mut sink).await;
        // Others commit, and what is idle counts as such.
        db.run("INSERT INTO a VALUES (-1, 'meanwhile')").await;
        assert_eq!(sink.transactions(&mut source, 1).await, [["a Insert id=-1 v=meanwhile"]]);
        db.run(&rows("other", 0, 100, 'x')).await;
        let end = db.end().await;
        sink.until(&mut source, "an idle position", |sink| sink.position >= end).await;
        source.acknowledge(&durable(sink.position));
        source.stop().await;
        let (_, from) = begin(&mut source, &["public.a"]).await;
        assert_eq!(from.to_string(), calve_core::Position::Postgres(calve_core::Lsn(sink.position)).to_string());
        await_sent(&db, &settings, &mut source, &mut sink).await;

        // Cut off in the middle: nothing was begun, so there is nothing to take back.
        db.run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database()")
            .await;
        let error = loop {
            if let Err(error) = source.poll(&mut sink).await {
                break error;
            }
        };
        assert_eq!((error.kind(), sink.aborts), (ErrorKind::Retry, 0), "{error}");
        source.stop().await;
        begin(&mut source, &["public.a"]).await;
        writer.run("UPDATE a SET v = 'updated' WHERE id = 7; COMMIT").await;

        // Cut off while it is handed on: taken back, and it comes again.
        sink.until(&mut source, "rows of the transaction", |sink| sink.changes() > 0).await;
        assert!(sink.transactions.is_empty(), "it is handed on in pieces");
        source.stop().await;
        let mut again = Recorder::new(&tables);
        begin(&mut source, &["public.a"]).await;
        let transactions = again.transactions(&mut source, 1).await;
        assert_eq!(transactions[0].len(), 3_001, "Postgres {version}");
        assert_eq!(transactions[0].last().unwrap(), "a Update id=7 v=updated");
        source.stop().await;
        db.drop().await;
    }
}

#[tokio::test]
async fn a_directory_without_room_is_named_and_nothing_is_lost() {
    let db = Database::create(17).await;
    db.run(TABLES).await;
    db.send_beyond("64kB").await;
    let mut settings = db.settings();
    settings.spill_dir = "/nonexistent/spools".into();
    let (mut source, tables, _) = start(settings.clone(), &["public.a"]).await;
    let mut sink = Recorder::new(&tables);
    db.run(&rows("a", 0, 100_000, 'o')).await;
    let error = loop {
        if let Err(error) = source.poll(&mut sink).await {
            break error;
        }
    };
    assert!(error.kind() == ErrorKind::Retry && error.to_string().contains("/nonexistent/spools"), "{error}");
    assert_eq!(sink.changes(), 0);
    source.stop().await;
    settings.spill_dir = std::env::temp_dir();
    let mut source = PostgresSource::new(settings);
    begin(&mut source, &["public.a"]).await;
    assert_eq!(sink.transactions(&mut source, 1).await[0].len(), 100_000);
    source.stop().await;
    db.drop().await;
}

//! What looks find after statements, on every version.

use std::sync::Arc;

use calve_core::TableSchema;
use calve_testkit::servers::Postgres;

use super::*;
use crate::config::ConnectConfig;

/// Statements, and what a look finds then: `gone`, `unknown` or `emptied`, with a part of the reason; nothing; or `as before` where
/// the partitions are those of the look before.
const LOOKS: &[(&str, &str)] = &[
    ("SELECT 1", "as before"),
    ("INSERT INTO t VALUES (1), (2), (101)", "as before"),
    // Made as partitions, and filled.
    ("CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (200) TO (300); INSERT INTO t VALUES (201)", ""),
    ("BEGIN; CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (300) TO (400); INSERT INTO t VALUES (301); COMMIT", ""),
    (
        "CREATE TABLE t4 PARTITION OF t (v DEFAULT 'x', CHECK (v <> 'y')) FOR VALUES FROM (400) TO (500); INSERT INTO t VALUES (401)",
        "",
    ),
    ("CREATE TABLE t5 PARTITION OF t FOR VALUES FROM (500) TO (600) PARTITION BY RANGE (id)", ""),
    ("CREATE TABLE t51 PARTITION OF t5 FOR VALUES FROM (500) TO (550); INSERT INTO t VALUES (501)", ""),
    (
        "CREATE TABLE t52 PARTITION OF t5 FOR VALUES FROM (550) TO (560) PARTITION BY RANGE (id); \
      CREATE TABLE t521 PARTITION OF t52 DEFAULT; INSERT INTO t VALUES (551)",
        "",
    ),
    // Attached empty, and with rows, in one transaction and in several.
    ("CREATE TABLE t6 (LIKE t INCLUDING ALL); ALTER TABLE t ATTACH PARTITION t6 FOR VALUES FROM (600) TO (700)", ""),
    ("INSERT INTO t VALUES (601)", "as before"),
    (
        "CREATE TABLE t7 (LIKE t); INSERT INTO t7 VALUES (701); ALTER TABLE t ATTACH PARTITION t7 FOR VALUES FROM (700) TO (800)",
        "unknown t7",
    ),
    (
        "BEGIN; CREATE TABLE t8 (LIKE t); INSERT INTO t8 VALUES (801); ALTER TABLE t ATTACH PARTITION t8 FOR VALUES FROM (800) TO (900); COMMIT",
        "unknown t8",
    ),
    (
        "BEGIN; CREATE TABLE t9 AS SELECT 901 AS id, 'v'::text AS v; ALTER TABLE t9 ALTER id SET NOT NULL; \
      ALTER TABLE t ATTACH PARTITION t9 FOR VALUES FROM (900) TO (1000); COMMIT",
        "unknown t9",
    ),
    // What is beneath a table that is attached has come with it.
    (
        "CREATE TABLE u (LIKE t) PARTITION BY RANGE (id); CREATE TABLE u1 PARTITION OF u DEFAULT; INSERT INTO u VALUES (1001); \
      ALTER TABLE t ATTACH PARTITION u FOR VALUES FROM (1000) TO (1100)",
        "unknown u1",
    ),
    // Back after a while in which nobody knows what became of it.
    ("ALTER TABLE t DETACH PARTITION t7", "gone t7"),
    ("ALTER TABLE t ATTACH PARTITION t7 FOR VALUES FROM (700) TO (800)", "unknown t7"),
    (
        "ALTER TABLE t DETACH PARTITION t7; ALTER TABLE t ATTACH PARTITION t7 FOR VALUES FROM (700) TO (800)",
        "unknown t7",
    ),
    ("ALTER TABLE t DETACH PARTITION t8 CONCURRENTLY", "gone t8"),
    ("DROP TABLE t9", "gone oid"),
    ("DROP TABLE u", "gone oid"),
    // Files: rows of before are there, or the rows are gone.
    ("VACUUM FULL t0", ""),
    ("CLUSTER t2 USING t2_pkey", ""),
    ("TRUNCATE t0", "emptied t0"),
    ("INSERT INTO t VALUES (1); TRUNCATE t0; INSERT INTO t VALUES (2)", "emptied t0"),
    ("TRUNCATE t51", "emptied t51"),
    ("TRUNCATE t2, t3", "emptied t2, emptied t3"),
    // Rewritten: an empty one may as well have been emptied.
    ("ALTER TABLE t ADD COLUMN n bigint DEFAULT (random() * 9)::int", "emptied t2, emptied t3, emptied t51"),
    ("ALTER TABLE t ALTER v TYPE varchar(100); ALTER TABLE t ALTER n TYPE text", "emptied t2, emptied t3, emptied t51"),
    ("ALTER TABLE t1 SET (fillfactor = 80); ANALYZE t; GRANT SELECT ON t1 TO public; VACUUM FREEZE t1", "as before"),
    // As a role sees it that may read nothing beneath.
    ("CREATE TABLE ta PARTITION OF t FOR VALUES FROM (2000) TO (2100); REVOKE SELECT ON ta FROM calve", ""),
    (
        "CREATE TABLE tb (LIKE t INCLUDING ALL); REVOKE SELECT ON tb FROM calve; ALTER TABLE t ATTACH PARTITION tb FOR VALUES FROM (2100) TO (2200)",
        "unknown tb",
    ),
];

/// The findings in short.
fn shown(found: &Findings) -> String {
    let kind = |reason: &StopReason| reason.state.trim_start_matches("rows ").to_owned();
    let name = |reason: &StopReason| {
        let named = reason.detail.split("partition ").nth(1).unwrap_or_default();
        named.trim_start_matches("with ").trim_start_matches("public.").split(' ').next().unwrap_or_default().to_owned()
    };
    let stops = found.stops.values().map(|reason| format!("{} {}", kind(reason), name(reason)));
    let doubts = found.doubts.iter().map(|doubt| format!("emptied {}", name(&doubt.reason)));
    stops.chain(doubts).collect::<Vec<_>>().join(", ")
}

#[tokio::test(flavor = "multi_thread")]
async fn looks_find_what_the_log_does_not_tell() {
    for version in [15, 17, 18] {
        let database = Postgres::shared(version).unwrap().create_database("partitions").unwrap();
        let owner = ConnectConfig::parse(&database.url("postgres").unwrap()).unwrap().connect_sql().await.unwrap();
        let client = ConnectConfig::parse(&database.url("calve").unwrap()).unwrap().connect_sql().await.unwrap();
        let mut made = "SET search_path = public; GRANT USAGE ON SCHEMA public TO calve; \
             ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO calve; \
             CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); \
             CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (100); CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (100) TO (200)"
            .to_owned();
        let mut watch: Option<Watch> = None;
        for (statements, expected) in [("", "")].iter().chain(LOOKS) {
            for statement in made.split("; ").chain(statements.split("; ")).filter(|statement| !statement.is_empty()) {
                owner.batch_execute(statement).await.unwrap_or_else(|error| panic!("{version}: {statement}: {error}"));
            }
            made.clear();
            if watch.is_none() {
                let table = TableName::new("public", "t");
                let oid = client.query_one("SELECT 'public.t'::regclass::oid", &[]).await.unwrap().get(0);
                let known = read(&client, oid).await.unwrap();
                assert_eq!(known.len(), 2);
                let partitions = Some(Partitions { known, emptied_by: None });
                let schema = TableSchema::new(table.clone(), oid, Vec::new(), Vec::new());
                let table = SourceTable { name: table, schema: Arc::new(TableSchema { partitions, ..schema }) };
                watch = Some(Watch::new(&[table], &BTreeSet::from([oid])));
            }
            let Some(watch) = &mut watch else { continue };
            let found = watch.look(&client).await.unwrap();
            let said = if found.is_empty() { "as before".to_owned() } else { shown(&found) };
            let expected = if statements.is_empty() { "as before" } else { expected };
            assert_eq!(said, expected, "{version}: {statements}");
        }
    }
}

/// The whole table is truncated: the log says by which transaction, and every partition says the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_truncate_of_the_table_is_told_by_the_log() {
    let database = Postgres::shared(17).unwrap().create_database("partitions").unwrap();
    let client = ConnectConfig::parse(&database.url("postgres").unwrap()).unwrap().connect_sql().await.unwrap();
    client
        .batch_execute(
            "SET search_path = public; CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE t0 PARTITION OF t DEFAULT",
        )
        .await
        .unwrap();
    let oid = client.query_one("SELECT 'public.t'::regclass::oid", &[]).await.unwrap().get(0);
    let table = TableName::new("public", "t");
    let known = read(&client, oid).await.unwrap();
    let row =
        client.query_one("WITH a AS (SELECT 1) SELECT pg_current_xact_id()::text::int8 FROM a", &[]).await.unwrap();
    let next = u32::try_from(row.get::<_, i64>(0)).unwrap() + 1;
    client.batch_execute("TRUNCATE t").await.unwrap();
    for (emptied_by, doubts) in [(None, 1), (Some(next), 0), (Some(next + 1), 1)] {
        let partitions = Some(Partitions { known: known.clone(), emptied_by });
        let schema = TableSchema { partitions, ..TableSchema::new(table.clone(), oid, Vec::new(), Vec::new()) };
        let table = SourceTable { name: table.clone(), schema: Arc::new(schema) };
        let found = Watch::new(&[table], &BTreeSet::from([oid])).look(&client).await.unwrap();
        assert_eq!(found.doubts.len(), doubts, "{emptied_by:?}");
        assert!(found.doubts.iter().all(|doubt| doubt.emptied_by == next));
        assert_eq!((found.stops.len(), found.known.len()), (0, 1));
    }
}

/// Tables without a TOAST table are made by fewer commands; what was emptied is altered before anybody looks; and what is attached in
/// the transaction that empties the table.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_else_hides_what_came_and_went() {
    for version in [15, 17, 18] {
        let database = Postgres::shared(version).unwrap().create_database("partitions").unwrap();
        let client = ConnectConfig::parse(&database.url("postgres").unwrap()).unwrap().connect_sql().await.unwrap();
        let run = async |statements: &str| {
            for statement in statements.split("; ") {
                client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{version}: {statement}: {error}"));
            }
        };
        run("SET search_path = public; CREATE TABLE t (id int PRIMARY KEY, n int) PARTITION BY RANGE (id); \
             CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (100); INSERT INTO t VALUES (1, 1)")
        .await;
        let table = TableName::new("public", "t");
        let oid = client.query_one("SELECT 'public.t'::regclass::oid", &[]).await.unwrap().get(0);
        let partitions = Some(Partitions { known: read(&client, oid).await.unwrap(), emptied_by: None });
        let schema = TableSchema { partitions, ..TableSchema::new(table.clone(), oid, Vec::new(), Vec::new()) };
        let mut watch = Watch::new(&[SourceTable { name: table, schema: Arc::new(schema) }], &BTreeSet::from([oid]));
        for (statements, expected) in [
            ("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (100) TO (200); INSERT INTO t VALUES (101, 1)", ""),
            (
                "BEGIN; CREATE TABLE t2 (LIKE t); INSERT INTO t2 VALUES (201, 1); ALTER TABLE t ATTACH PARTITION t2 FOR VALUES FROM (200) TO (300); COMMIT",
                "unknown t2",
            ),
            (
                "BEGIN; CREATE TABLE t3 (id int not null, n int); INSERT INTO t3 VALUES (301, 1); ALTER TABLE t ATTACH PARTITION t3 FOR VALUES FROM (300) TO (400); COMMIT",
                "unknown t3",
            ),
            ("TRUNCATE t0; ALTER TABLE t ADD COLUMN v text", "emptied t0"),
            ("BEGIN; TRUNCATE t1; ALTER TABLE t DROP COLUMN v; COMMIT", "emptied t1"),
            ("INSERT INTO t VALUES (1, 1), (101, 1); ALTER TABLE t ALTER n TYPE bigint", ""),
            ("CREATE TABLE s (LIKE t); TRUNCATE s; INSERT INTO s VALUES (401, 1)", "as before"),
            (
                "BEGIN; TRUNCATE t; ALTER TABLE t ATTACH PARTITION s FOR VALUES FROM (400) TO (500); COMMIT",
                "unknown s, emptied t0, emptied t1, emptied t2, emptied t3",
            ),
        ] {
            run(statements).await;
            let found = watch.look(&client).await.unwrap();
            let said = if found.is_empty() { "as before".to_owned() } else { shown(&found) };
            assert_eq!(said, expected, "{version}: {statements}");
        }
    }
}

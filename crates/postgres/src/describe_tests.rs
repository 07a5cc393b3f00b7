//! The rules for a table against tables of a real server.

use calve_core::ColumnType;
use calve_core::{TableMode, TableRules};
use calve_testkit::servers::Postgres;

use super::*;
use crate::config::ConnectConfig;

/// DDL for table `t`; what its first error says, in parts; what each warning says.
const TABLES: &[(&str, &[&str], &[&str])] = &[
    ("CREATE TABLE t (id int PRIMARY KEY)", &[], &[]),
    ("CREATE TABLE t (id int)", &["no key", "ADD PRIMARY KEY"], &[]),
    ("CREATE TABLE t (id int); ALTER TABLE t REPLICA IDENTITY FULL", &["no key"], &[]),
    (
        "CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING",
        &["NOTHING", "IDENTITY DEFAULT"],
        &[],
    ),
    ("CREATE TABLE t (id int PRIMARY KEY DEFERRABLE)", &["deferrable", "NOT DEFERRABLE"], &[]),
    ("CREATE TABLE t (id int PRIMARY KEY DEFERRABLE); ALTER TABLE t REPLICA IDENTITY FULL", &["deferrable"], &[]),
    ("CREATE TABLE t (id float8 PRIMARY KEY)", &["floating-point", "\"id\"", "double precision"], &[]),
    ("CREATE UNLOGGED TABLE t (id int PRIMARY KEY)", &["unlogged", "SET LOGGED"], &[]),
    ("CREATE VIEW t AS SELECT 1 AS id", &["a view"], &[]),
    ("CREATE MATERIALIZED VIEW t AS SELECT 1 AS id", &["a materialized view"], &[]),
    ("CREATE SEQUENCE t", &["a sequence"], &[]),
    ("CREATE TABLE t (id int PRIMARY KEY, v text)", &[], &[]),
    ("CREATE TABLE t (id int PRIMARY KEY, v text); ALTER TABLE t REPLICA IDENTITY FULL", &[], &[]),
    ("CREATE TABLE t (id int PRIMARY KEY, v varchar(20))", &[], &[]),
    ("CREATE TABLE t (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) STORED)", &[], &["\"g\""]),
    ("CREATE TABLE t (id int PRIMARY KEY, a int, \"A\" int)", &[], &["\"A\""]),
    (
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id); \
         CREATE UNLOGGED TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (9)",
        &["partition public.t1", "unlogged"],
        &[],
    ),
    (
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id); \
         CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (9); ALTER TABLE t REPLICA IDENTITY FULL",
        &["partition public.t1", "\"t1\" REPLICA IDENTITY FULL"],
        &[],
    ),
    (
        "CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); \
         CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (9)",
        &[],
        &[],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_rule_says_what_is_wrong_and_what_mends_it() {
    let database = Postgres::shared(17).unwrap().create_database("rules").unwrap();
    let client = ConnectConfig::parse(&database.url("postgres").unwrap()).unwrap().connect_sql().await.unwrap();
    let table = TableName::new("public", "t");
    for (ddl, error, warnings) in TABLES {
        client
            .batch_execute(&format!(
                "DROP SCHEMA public CASCADE; CREATE SCHEMA public; SET search_path = public; {ddl}"
            ))
            .await
            .unwrap();
        let relation = Relation::read(&client, &table).await.unwrap().unwrap();
        let found = relation.findings(&TableRules::default());
        let of = |severity| found.iter().filter(move |finding| finding.severity == severity);
        assert_eq!(of(Severity::Error).count() > 0, !error.is_empty(), "{ddl}: {found:?}");
        let warned: Vec<String> = of(Severity::Warning).map(ToString::to_string).collect();
        assert_eq!(warned.len(), warnings.len(), "{ddl}: {warned:?}");
        for (warning, part) in warned.iter().zip(*warnings) {
            assert!(warning.contains(part), "{ddl}: '{part}' is not in: {warning}");
        }
        match describe(&client, &table, &ValueRules::default()).await {
            Ok(schema) => {
                assert!(error.is_empty(), "{ddl} was accepted");
                assert_eq!(
                    schema.key_columns().map(|column| column.name.as_str()).collect::<Vec<_>>(),
                    ["id"],
                    "{ddl}"
                );
                assert!(schema.columns.iter().all(|column| column.name != "g"));
            }
            Err(said) => {
                assert_eq!(said.kind(), ErrorKind::Config);
                for part in *error {
                    assert!(said.to_string().contains(part), "{ddl}: '{part}' is not in: {said}");
                }
            }
        }
    }
    let log = TableRules { mode: TableMode::Append { preimages: false }, ..TableRules::default() };
    for (ddl, expected) in [
        ("CREATE TABLE t (id int, v text); ALTER TABLE t REPLICA IDENTITY FULL", vec![]),
        // The next partition would have none.
        (
            "CREATE TABLE t (id int) PARTITION BY RANGE (id); CREATE TABLE t1 PARTITION OF t DEFAULT; \
             ALTER TABLE t REPLICA IDENTITY FULL; ALTER TABLE t1 REPLICA IDENTITY FULL",
            vec!["a partition that is added later"],
        ),
        (
            "CREATE TABLE t (id int PRIMARY KEY, a int[], b int, c text)",
            vec!["columns that can have such: \"a\", \"c\""],
        ),
    ] {
        let ddl = format!("DROP SCHEMA public CASCADE; CREATE SCHEMA public; SET search_path = public; {ddl}");
        client.batch_execute(&ddl).await.unwrap();
        let found = Relation::read(&client, &table).await.unwrap().unwrap().findings(&log);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{ddl}: {found:?}");
        assert!(found.iter().zip(&expected).all(|(found, part)| found.contains(part)), "{ddl}: {found:?}");
    }
    let error = describe(&client, &TableName::new("public", "T"), &ValueRules::default()).await.unwrap_err();
    assert!(error.to_string().contains("public.T does not exist"), "{error}");
    let error = describe(&client, &TableName::new("pg_catalog", "pg_class"), &ValueRules::default()).await.unwrap_err();
    assert!(error.to_string().contains("belongs to the system"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_is_the_replica_identity_in_its_own_order() {
    let database = Postgres::shared(17).unwrap().create_database("keys").unwrap();
    let client = ConnectConfig::parse(&database.url("postgres").unwrap()).unwrap().connect_sql().await.unwrap();
    client
        .batch_execute(
            "SET search_path = public; CREATE DOMAIN price AS numeric(8,3); \
             CREATE TABLE t (a int, gone int, b text NOT NULL, c price, d timestamptz NOT NULL, e numeric(50,2), \
                             PRIMARY KEY (d, a)); \
             ALTER TABLE t DROP COLUMN gone; CREATE UNIQUE INDEX other ON t (b) INCLUDE (c)",
        )
        .await
        .unwrap();
    let table = TableName::new("public", "t");
    let schema = describe(&client, &table, &ValueRules::default()).await.unwrap();
    let columns: Vec<_> =
        schema.columns.iter().map(|c| (c.name.as_str(), c.ty.clone(), c.nullable, c.native.name.as_str())).collect();
    assert_eq!(
        columns,
        [
            ("a", ColumnType::Int, false, "integer"),
            ("b", ColumnType::String, false, "text"),
            ("c", ColumnType::Decimal { precision: 8, scale: 3 }, true, "public.price"),
            ("d", ColumnType::TimestampTz, false, "timestamp with time zone"),
            ("e", ColumnType::String, true, "numeric(50,2)"),
        ]
        .map(|(name, ty, nullable, native)| {
            // The session finds names in `public`, so it leaves the schema out.
            (name, ty, nullable, native.strip_prefix("public.").unwrap_or(native))
        })
    );
    assert_eq!(schema.key, [3, 0]);
    client.batch_execute("ALTER TABLE t REPLICA IDENTITY FULL").await.unwrap();
    assert_eq!(describe(&client, &table, &ValueRules::default()).await.unwrap().key, [3, 0]);
    client.batch_execute("ALTER TABLE t REPLICA IDENTITY USING INDEX other").await.unwrap();
    assert_eq!(describe(&client, &table, &ValueRules::default()).await.unwrap().key, [1]);
    client.batch_execute("DROP INDEX other").await.unwrap();
    let error = describe(&client, &table, &ValueRules::default()).await.unwrap_err().to_string();
    assert!(error.contains("no key") && error.contains("REPLICA IDENTITY DEFAULT"), "{error}");
    let native_id: u32 = client.query_one("SELECT 't'::regclass::oid", &[]).await.unwrap().get(0);
    assert_eq!(schema.native_id, native_id);
}

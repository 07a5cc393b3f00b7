//! Statements as real servers write them into their logs.

use calve_testkit::servers::{BINLOG_SERVERS, Kind, Options, Server as TestServer};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};

use super::tests::{shown, table};
use super::*;
use crate::config::ConnectConfig;
use crate::connection;
use crate::server::{Server, binlog_end};

/// The QUERY events after a place in the log, each with its default database.
pub(super) async fn statements(conn: &mut Conn, file: &str, offset: u64) -> Vec<(String, String)> {
    let rows: Vec<Row> = conn.query(format!("SHOW BINLOG EVENTS IN '{file}' FROM {offset}")).await.unwrap();
    let queries = rows.iter().filter(|row| row.get::<String, _>("Event_type").as_deref() == Some("Query"));
    queries
        .map(|row| {
            let info: String = row.get("Info").unwrap();
            // As both servers show it: "use `d`; CREATE ..", the name in quotes of the session's.
            let named = |quote: &str| info.strip_prefix(&format!("use {quote}"))?.split_once(&format!("{quote}; "));
            let with_database = named("`").or_else(|| named("\""));
            with_database.map_or((String::new(), info.clone()), |(db, sql)| (db.to_owned(), sql.to_owned()))
        })
        .collect()
}

/// What is run, what the log says of it, on which servers.
const STATEMENTS: &[(&str, &str, &[Kind])] = {
    const BOTH: &[Kind] = &[Kind::MySql, Kind::MariaDb];
    const MYSQL: &[Kind] = &[Kind::MySql];
    const MARIADB: &[Kind] = &[Kind::MariaDb];
    &[
        ("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "created d.t", BOTH),
        ("CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY)", "created? d.t", MYSQL),
        ("INSERT INTO t VALUES (1, 1), (2, 2)", "", BOTH),
        ("CREATE TABLE u AS SELECT * FROM t", "created d.u", BOTH),
        ("ALTER TABLE u ADD PRIMARY KEY (id)", "columns d.u", BOTH),
        ("CREATE INDEX i ON t (v)", "altered d.t", BOTH),
        ("DROP INDEX i ON t", "altered d.t", BOTH),
        ("ALTER TABLE t ADD COLUMN w INT, ALGORITHM=INSTANT", "columns d.t", BOTH),
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS x INT", "columns d.t", MARIADB),
        ("/*!40101 ALTER TABLE t COMMENT 'x' */", "altered d.t", BOTH),
        ("/*!99999 ALTER TABLE t ADD COLUMN never INT */", "", BOTH),
        ("ALTER TABLE t /*M!100300 ADD COLUMN y INT */", "columns d.t", MARIADB),
        ("SET STATEMENT lock_wait_timeout=9 FOR ALTER TABLE t ENGINE=InnoDB", "altered d.t", MARIADB),
        ("CREATE TABLE _t_new LIKE t", "", BOTH),
        ("RENAME TABLE t TO _t_old, _t_new TO t", "renamed d.t d._t_old, renamed d._t_new d.t", BOTH),
        ("DROP TABLE IF EXISTS _t_old, missing", "", BOTH),
        (
            "CREATE TABLE parts (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9))",
            "",
            BOTH,
        ),
        ("CREATE TEMPORARY TABLE tmp (id INT)", "", BOTH),
        ("INSERT INTO tmp VALUES (1)", "", BOTH),
        ("DROP TEMPORARY TABLE tmp", "", BOTH),
        ("EXECUTE IMMEDIATE 'TRUNCATE TABLE u'", "truncated d.u", MARIADB),
        ("CREATE PROCEDURE p() BEGIN TRUNCATE TABLE t; ALTER TABLE u ADD COLUMN z INT; END", "", BOTH),
        ("CALL p()", "truncated d.t, columns d.u", BOTH),
        ("CREATE TRIGGER r AFTER INSERT ON t FOR EACH ROW DELETE FROM u", "trigger d.t", BOTH),
        ("DROP TRIGGER r", "", BOTH),
        ("CREATE VIEW seen AS SELECT * FROM t", "", BOTH),
        ("ANALYZE TABLE t", "", BOTH),
        ("CREATE USER IF NOT EXISTS someone IDENTIFIED BY 'x'", "", BOTH),
        ("GRANT SELECT ON d.t TO someone", "", BOTH),
        ("SET SESSION binlog_format = STATEMENT", "", BOTH),
        ("INSERT INTO t (id) VALUES (7)", "statement d.t", BOTH),
        ("SET SESSION binlog_format = ROW", "", BOTH),
        ("CREATE OR REPLACE TABLE u (id INT PRIMARY KEY)", "created d.u", MARIADB),
        ("CREATE DATABASE e", "", BOTH),
        ("USE e", "", BOTH),
        ("ALTER TABLE d.t DROP COLUMN v", "columns d.t", BOTH),
        ("CREATE TABLE t (id INT PRIMARY KEY)", "", BOTH),
        ("DROP TABLE t, d.t", "dropped d.t", BOTH),
        ("DROP DATABASE d", "dropped d.t, dropped d.u", BOTH),
        ("XA START 'a', 'b', 7", "", MYSQL),
        ("XA END 'a', 'b', 7", "", MYSQL),
        ("XA ROLLBACK 'a', 'b', 7", "", MYSQL),
    ]
};

#[tokio::test]
async fn the_log_says_what_was_done_to_the_tables() {
    for (kind, version) in BINLOG_SERVERS {
        let server = TestServer::start(kind, version, &Options::default()).unwrap();
        let admin = ConnectConfig::parse(&server.url(kind.superuser(), "").unwrap()).unwrap();
        let mut admin = connection::open(&admin).await.unwrap();
        let found = Server::read(&mut admin).await.unwrap();
        let followed = [table("d.t"), table("d.u")];
        admin.query_drop("CREATE DATABASE d").await.unwrap();
        admin.query_drop("USE d").await.unwrap();
        for (sql, expected, _) in STATEMENTS.iter().filter(|(_, _, kinds)| kinds.contains(&kind)) {
            let before = binlog_end(&mut admin, &found).await.unwrap();
            admin.query_drop(*sql).await.unwrap_or_else(|error| panic!("{version}: {sql}: {error}"));
            let logged = statements(&mut admin, &before.file, before.offset).await;
            let mut effects = Vec::new();
            for (default_db, sql) in &logged {
                if statement_kind(sql.as_bytes()) != StatementKind::Other {
                    continue;
                }
                let statement = Statement {
                    flavour: found.flavour,
                    default_db,
                    sql,
                    sql_mode: 0,
                    lower_case_table_names: found.lower_case_table_names,
                };
                effects.extend(effects_of(&statement, &followed).iter().map(shown));
            }
            assert_eq!(effects.join(", "), *expected, "{version}: {sql} was logged as {logged:?}");
        }
    }
}

#[tokio::test]
async fn xa_transactions_are_recognised_by_their_statements() {
    for (kind, version) in BINLOG_SERVERS {
        let server = TestServer::start(kind, version, &Options::default()).unwrap();
        let admin = ConnectConfig::parse(&server.url(kind.superuser(), "").unwrap()).unwrap();
        let mut admin = connection::open(&admin).await.unwrap();
        let found = Server::read(&mut admin).await.unwrap();
        admin.query_drop("CREATE DATABASE d").await.unwrap();
        admin.query_drop("CREATE TABLE d.t (id INT PRIMARY KEY)").await.unwrap();
        let before = binlog_end(&mut admin, &found).await.unwrap();
        for (id, end) in [(1, "COMMIT"), (2, "ROLLBACK")] {
            for sql in [
                format!("XA START 'g\\'{id}', X'00FF', 7"),
                format!("INSERT INTO d.t VALUES ({id})"),
                format!("XA END 'g\\'{id}', X'00FF', 7"),
                format!("XA PREPARE 'g\\'{id}', X'00FF', 7"),
                format!("XA {end} 'g\\'{id}', X'00FF', 7"),
            ] {
                admin.query_drop(&sql).await.unwrap_or_else(|error| panic!("{version}: {sql}: {error}"));
            }
        }
        let logged = statements(&mut admin, &before.file, before.offset).await;
        let kinds: Vec<StatementKind> = logged.iter().map(|(_, sql)| statement_kind(sql.as_bytes())).collect();
        let xid = |id: u8| Xid { format: 7, global: vec![b'g', b'\'', b'0' + id], branch: vec![0, 255] };
        for expected in
            [StatementKind::XaCommit(xid(1)), StatementKind::XaRollback(xid(2)), StatementKind::XaEnd(xid(1))]
        {
            assert!(kinds.contains(&expected), "{version} {expected:?}: {logged:?}");
        }
        assert!(!kinds.contains(&StatementKind::Other), "{version}: {logged:?}");
    }
}

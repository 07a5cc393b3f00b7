//! Schemas of tables as real servers have them.

use calve_core::Severity;
use calve_testkit::servers::{BINLOG_SERVERS, Kind, Options, REPLICATION_USER, Server as TestServer};
use mysql_async::prelude::Queryable;

use super::*;
use crate::config::ConnectConfig;
use crate::connection;

/// `name type[!]` of each column, `!` where NULL may not appear; then the key.
fn shown(schema: &TableSchema) -> String {
    let of = |column: &Column| {
        let required = if column.nullable { "" } else { "!" };
        let set = column.native.character_set.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
        format!("{} {:?}{required} {}/{}{set}", column.name, column.ty, column.native.id, column.native.modifier)
    };
    let columns: Vec<String> = schema.columns.iter().map(of).collect();
    let key: Vec<&str> = schema.key_columns().map(|column| column.name.as_str()).collect();
    format!("{} key {}", columns.join(", "), key.join(", "))
}

#[tokio::test]
async fn tables_are_described_as_the_log_will_have_them() {
    for (kind, version) in BINLOG_SERVERS {
        let server = TestServer::start(kind, version, &Options::default().set("binlog_row_metadata", "FULL")).unwrap();
        let connect = |user| ConnectConfig::parse(&server.url(user, "").unwrap()).unwrap();
        let mut admin = connection::open(&connect(kind.superuser())).await.unwrap();
        let mut conn = connection::open(&connect(REPLICATION_USER)).await.unwrap();
        let found = Server::read(&mut conn).await.unwrap();
        admin.query_drop("CREATE DATABASE `Ü d`").await.unwrap();
        admin.query_drop("USE `Ü d`").await.unwrap();
        let generated = match version {
            "11.8" => "id Int! 3/0 key id",
            _ => "v Long 8/0, id Int! 3/0, s Int! 3/0 key id",
        };
        for (definition, expected) in [
            (
                "b INT, a BIGINT UNSIGNED, c VARCHAR(10) CHARACTER SET latin1, PRIMARY KEY (c, b)",
                "b Int! 3/0, a Decimal { precision: 20, scale: 0 } 8/0, c String! 15/10 latin1 key c, b",
            ),
            (
                "id TIMESTAMP(3), d DATE NOT NULL, t DATETIME NOT NULL, i INT NOT NULL, PRIMARY KEY (id)",
                "id TimestampTz! 17/3, d Date 10/0, t Timestamp 18/0, i Int! 3/0 key id",
            ),
            ("v BIGINT AS (id + 1) VIRTUAL, id INT PRIMARY KEY, s INT NOT NULL AS (id + 2) STORED", generated),
            (
                "id INT PRIMARY KEY, e ENUM('a','b') NOT NULL, s SET('x'), h INT INVISIBLE",
                "id Int! 3/0, e String! 247/1 utf8mb4, s String 248/1 utf8mb4, h Int 3/0 key id",
            ),
            (
                "`my id` CHAR(3) PRIMARY KEY, f FLOAT(7,3), d DOUBLE PRECISION, b BOOL",
                "my id String! 254/12 utf8mb4, f Float 4/4, d Double 5/8, b Int 1/0 key my id",
            ),
        ] {
            // MariaDB knows no NOT NULL on computed columns.
            let definition = if kind == Kind::MariaDb {
                definition.replace("INT NOT NULL AS", "INT AS")
            } else {
                definition.to_owned()
            };
            let expected = if kind == Kind::MariaDb {
                expected.replace("s Int! 3/0 key", "s Int 3/0 key")
            } else {
                expected.to_owned()
            };
            let definition = if kind == Kind::MySql {
                definition.replace("INT NOT NULL AS (id + 2) STORED", "INT AS (id + 2) STORED NOT NULL")
            } else {
                definition
            };
            admin.query_drop("DROP TABLE IF EXISTS `T ``1`").await.unwrap();
            let sql = format!("CREATE TABLE `T ``1` ({definition}) CHARACTER SET utf8mb4");
            admin.query_drop(&sql).await.unwrap_or_else(|error| panic!("{version}: {sql}: {error}"));
            let table = TableName::new("Ü d", "T `1");
            let schema = describe(&mut conn, &found, &table).await.unwrap();
            assert_eq!(shown(&schema), expected, "{version}: {definition}");
            assert_eq!((&schema.table, schema.native_id), (&table, 0));
            let catalog = catalog::read(&mut conn, &table).await.unwrap().unwrap();
            assert!(catalog.findings(&found).iter().all(|finding| finding.severity == Severity::Warning));
        }
        // Names that differ in case are other tables.
        for absent in [TableName::new("Ü d", "t `1"), TableName::new("ü D", "T `1"), TableName::new("nowhere", "t")] {
            let error = describe(&mut conn, &found, &absent).await.unwrap_err();
            assert!(error.kind() == ErrorKind::Config && error.to_string().contains("does not exist"), "{error}");
        }
        let error = describe(&mut conn, &found, &TableName::new("mysql", "user")).await.unwrap_err();
        assert!(error.to_string().contains("belongs to the system"), "{error}");
    }
}

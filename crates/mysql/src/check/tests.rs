//! What `check` finds on real servers.

use calve_core::Severity;
use calve_testkit::servers::{BINLOG_SERVERS, Kind, Options, REPLICATION_USER, Server as TestServer};
use mysql_async::prelude::Queryable;

use super::*;
use crate::config::ConnectConfig;

fn of<'a>(findings: &'a [Finding], what: &str) -> Vec<&'a Finding> {
    findings.iter().filter(|finding| finding.what.contains(what)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_cannot_be_followed_are_named_with_what_mends_them() {
    for (kind, version) in BINLOG_SERVERS {
        let database = TestServer::shared(kind, version).unwrap().create_database("check").unwrap();
        let admin = ConnectConfig::parse(&database.url(kind.superuser()).unwrap()).unwrap();
        let mut admin = connection::open(&admin).await.unwrap();
        let mut statements = vec![
            "CREATE TABLE good (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET gbk)",
            "CREATE TABLE nokey (id INT)",
            "CREATE TABLE floats (f DOUBLE PRIMARY KEY)",
            "CREATE TABLE mine (id INT PRIMARY KEY) ENGINE=MyISAM",
            "CREATE VIEW seen AS SELECT * FROM good",
            "CREATE TABLE parent (id INT PRIMARY KEY)",
            "CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT fk FOREIGN KEY (p) REFERENCES parent (id) ON DELETE SET NULL)",
            "CREATE TABLE labelled (id INT PRIMARY KEY, e ENUM('🧊','b'), f ENUM('?') CHARACTER SET latin1)",
            "CREATE TABLE made (id INT PRIMARY KEY, v INT AS (id + 1) VIRTUAL, s INT AS (id + 1) STORED)",
        ];
        if kind == Kind::MariaDb {
            statements.push("CREATE TABLE versioned (id INT PRIMARY KEY) WITH SYSTEM VERSIONING");
            statements.push("CREATE SEQUENCE counted");
        }
        for statement in statements {
            admin.query_drop(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        let connect = ConnectConfig::parse(&database.url(REPLICATION_USER).unwrap()).unwrap();
        let settings = MySqlSettings::new(connect.clone(), "check");
        let names = [
            "good",
            "nokey",
            "floats",
            "mine",
            "seen",
            "parent",
            "child",
            "made",
            "labelled",
            "versioned",
            "counted",
            "absent",
        ];
        let tables: Vec<TableName> = names.iter().map(|name| TableName::new(database.name(), *name)).collect();
        let findings = check(&settings, &tables).await.unwrap();
        let (mariadb, drops_generated) = (kind == Kind::MariaDb, version == "11.8");
        for (what, remedy, expected) in [
            ("nokey has no primary key", "ADD PRIMARY KEY", true),
            ("floats is double", "ADD PRIMARY KEY", true),
            ("mine is of the engine MyISAM", "ENGINE = InnoDB", true),
            ("seen is a view", "leave it out", true),
            ("absent does not exist", "GRANT SELECT", true),
            ("foreign key `fk`", "RESTRICT", mariadb),
            ("generated columns of table", "binlog_row_metadata", drops_generated),
            ("versioned is system-versioned", "DROP SYSTEM VERSIONING", mariadb),
            ("counted is a sequence", "leave it out", mariadb),
            ("a label of column `e`", "binlog_row_metadata", true),
            ("a label of column `f`", "", false),
            ("@'%' may not", "GRANT", false),
            ("proxy", "", false),
            ("server_id", "", false),
            ("good", "", false),
            ("parent has", "", false),
            ("binlog_row_metadata", "FULL", true),
            ("waits for the end of the load", "BINLOG ADMIN", mariadb),
        ] {
            let found = of(&findings, what);
            assert_eq!(found.len(), usize::from(expected), "{kind} {version} {what}: {findings:#?}");
            assert!(found.iter().all(|finding| finding.remedy.contains(remedy)), "{kind} {version}: {found:#?}");
        }
        let severities: Vec<Severity> = findings.iter().map(|finding| finding.severity).collect();
        assert!(severities.is_sorted_by(|a, b| a >= b), "errors come first");
        let listed = crate::list_tables(&connect, &tables[4..5]).await.unwrap();
        let ours: Vec<&str> =
            listed.iter().filter(|table| table.schema == database.name()).map(|table| table.name.as_str()).collect();
        assert!(ours.contains(&"good") && ours.contains(&"seen") && !ours.contains(&"counted"), "{ours:?}");
        assert!(!listed.iter().any(|table| table.schema == "mysql" || table.schema == "sys"), "{listed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_come_by_roles_too() {
    for (kind, version) in BINLOG_SERVERS {
        let database = TestServer::shared(kind, version).unwrap().create_database("rights").unwrap();
        let name = database.name().to_owned();
        let admin = ConnectConfig::parse(&database.url(kind.superuser()).unwrap()).unwrap();
        let mut admin = connection::open(&admin).await.unwrap();
        let (user, role) = (format!("u{}", std::process::id()), format!("r{}", std::process::id()));
        let monitor = if kind == Kind::MariaDb { "BINLOG MONITOR" } else { "REPLICATION CLIENT" };
        let default_role = match kind {
            Kind::MariaDb => format!("SET DEFAULT ROLE {role} FOR '{user}'@'%'"),
            _ => format!("SET DEFAULT ROLE {role} TO '{user}'@'%'"),
        };
        for statement in [
            "CREATE TABLE t (id INT PRIMARY KEY)".to_owned(),
            format!("DROP USER IF EXISTS '{user}'@'%'"),
            format!("DROP ROLE IF EXISTS {role}"),
            format!("CREATE USER '{user}'@'%' IDENTIFIED BY 'secret'"),
            format!("CREATE ROLE {role}"),
            format!("GRANT SELECT ON `{name}`.t TO {role}"),
            format!("GRANT {role} TO '{user}'@'%'"),
            default_role,
        ] {
            admin.query_drop(&statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        let address = database.server();
        let url = format!("mysql://{user}:secret@{}:{}/", address.host().unwrap(), address.port().unwrap());
        let settings = MySqlSettings::new(ConnectConfig::parse(&url).unwrap(), "rights");
        let tables = [TableName::new(&name, "t")];
        let lacking = check(&settings, &tables).await.unwrap();
        let found = of(&lacking, "may not");
        assert_eq!(found.len(), 1, "{kind} {version}: {lacking:#?}");
        assert_eq!(found[0].remedy, format!("GRANT REPLICATION SLAVE, {monitor} ON *.* TO '{user}'@'%';"));
        admin.query_drop(&found[0].remedy).await.unwrap();
        assert_eq!(of(&check(&settings, &tables).await.unwrap(), "may not").len(), 0);
        admin.query_drop(format!("DROP USER '{user}'@'%'")).await.unwrap();
        admin.query_drop(format!("DROP ROLE {role}")).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_logs_statements_or_nothing_is_refused() {
    let options = Options::default()
        .set("binlog_format", "STATEMENT")
        .set("binlog_row_image", "MINIMAL")
        .set("binlog_ignore_db", "hidden");
    for (kind, version) in BINLOG_SERVERS {
        let server = TestServer::start(kind, version, &options).unwrap();
        let url = server.url(REPLICATION_USER, "mysql").unwrap();
        let settings = MySqlSettings::new(ConnectConfig::parse(&url).unwrap(), "settings");
        let findings = check(&settings, &[TableName::new("hidden", "t")]).await.unwrap();
        for what in ["binlog_format is STATEMENT", "binlog_row_image is MINIMAL", "leaves database hidden out"] {
            assert_eq!(of(&findings, what).len(), 1, "{kind} {version} {what}: {findings:#?}");
        }
        let silent = TestServer::start(kind, version, &Options::default().set("log_bin", "OFF")).unwrap();
        let url = silent.url(REPLICATION_USER, "mysql").unwrap();
        let settings = MySqlSettings::new(ConnectConfig::parse(&url).unwrap(), "settings");
        let findings = check(&settings, &[]).await.unwrap();
        assert_eq!(of(&findings, "log_bin is OFF").len(), 1, "{kind} {version}: {findings:#?}");
    }
}

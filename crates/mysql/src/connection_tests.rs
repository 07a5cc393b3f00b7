//! Logging in to real servers, what a session is like then, and what is said where it fails.

use calve_testkit::servers::{BINLOG_SERVERS, Kind, Options, REPLICATION_USER, Server as TestServer};
use mysql_async::Row;

use super::*;
use crate::server::{self, Flavour, Server};

async fn refused_by(url: &str) -> (ErrorKind, String) {
    let error =
        ConnectConfig::parse(url).unwrap().connect_sql().await.err().unwrap_or_else(|| panic!("{url} was accepted"));
    let message = error.to_string();
    assert!(!message.contains('\n') && !message.contains("hunter2"), "{message}");
    (error.kind(), message)
}

/// The cipher of the connection; empty for none.
async fn cipher(url: &str) -> Result<String> {
    let mut conn = ConnectConfig::parse(url).unwrap().connect_sql().await?;
    let row: Option<(String, String)> = conn.query_first("SHOW SESSION STATUS LIKE 'Ssl_cipher'").await.unwrap();
    Ok(row.unwrap().1)
}

#[tokio::test]
async fn failures_are_told_apart_and_say_what_to_do() {
    for (kind, version) in BINLOG_SERVERS {
        let server = TestServer::shared(kind, version).unwrap();
        let (host, port) = (server.host().unwrap(), server.port().unwrap());
        for (url, kind, expected) in [
            (format!("mysql://u:hunter2@{host}:1/"), ErrorKind::Retry, "check host and port"),
            ("mysql://u:hunter2@host.invalid/".to_owned(), ErrorKind::Retry, "host.invalid:3306"),
            (format!("mysql://calve:hunter2@{host}:{port}/"), ErrorKind::Config, "check user and password"),
            (format!("mysql://nobody:hunter2@{host}:{port}/"), ErrorKind::Config, "check "),
            (format!("mysql://calve@{host}:{port}/"), ErrorKind::Config, "no password was given"),
            (format!("mysql://calve:calve@{host}:{port}/nowhere"), ErrorKind::Config, "check the database name"),
            (
                format!("mysql://calve:calve@{host}:{port}/?ssl-ca=/nonexistent"),
                ErrorKind::Config,
                "ssl-ca /nonexistent",
            ),
            ("mysql://u:hunter2@localhost/?socket=/nonexistent.sock".to_owned(), ErrorKind::Retry, "/nonexistent.sock"),
        ] {
            let (found, message) = refused_by(&url).await;
            assert!(found == kind && message.contains(expected), "{version} {url}: {found:?} {message}");
        }
    }
}

#[tokio::test]
async fn every_ssl_mode_logs_in_where_it_should() {
    for (kind, version) in BINLOG_SERVERS {
        let server = TestServer::shared(kind, version).unwrap();
        let url = server.url(REPLICATION_USER, "").unwrap();
        let port = server.port().unwrap();
        let ca = server.ca_file().unwrap().display().to_string();
        let localhost = format!("mysql://calve:calve@localhost:{port}/");
        for (url, encrypted) in [
            (format!("{url}?ssl-mode=DISABLED"), false),
            (url.clone(), true),
            (format!("{url}?ssl-mode=REQUIRED"), true),
            // The certificate is for `localhost`; the address is another name.
            (format!("{url}?ssl-ca={ca}"), true),
            (format!("{localhost}?ssl-ca={ca}&ssl-mode=VERIFY_IDENTITY"), true),
        ] {
            let found = cipher(&url).await.unwrap_or_else(|error| panic!("{version} {url}: {error}"));
            assert_eq!(!found.is_empty(), encrypted, "{version} {url}: {found}");
        }
        let (kind, message) = refused_by(&format!("{url}?ssl-ca={ca}&ssl-mode=VERIFY_IDENTITY")).await;
        assert!(
            kind == ErrorKind::Config && message.contains("names in the server's certificate"),
            "{kind:?} {message}"
        );
    }
}

/// What MySQL makes by itself at its first start names no host at all.
#[tokio::test]
async fn a_certificate_without_names_is_enough_for_verify_ca() {
    let own =
        Options::default().set("ssl_ca", "ca.pem").set("ssl_cert", "server-cert.pem").set("ssl_key", "server-key.pem");
    let server = TestServer::start(Kind::MySql, "9", &own).unwrap();
    let url = server.url(REPLICATION_USER, "").unwrap();
    let ca = server.data_dir().unwrap().join("ca.pem").display().to_string();
    let other = TestServer::shared(Kind::MySql, "9").unwrap().ca_file().unwrap().display().to_string();
    assert!(!cipher(&format!("{url}?ssl-ca={ca}&ssl-mode=VERIFY_CA")).await.unwrap().is_empty());
    let (kind, message) = refused_by(&format!("{url}?ssl-ca={other}&ssl-mode=VERIFY_CA")).await;
    assert!(kind == ErrorKind::Config && message.contains("TLS"), "{kind:?} {message}");
    let (_, message) = refused_by(&format!("{url}?ssl-ca={ca}&ssl-mode=VERIFY_IDENTITY")).await;
    assert!(message.contains("names in the server's certificate"), "{message}");
}

#[tokio::test]
async fn a_server_without_tls_is_reached_without_it_where_that_may_be() {
    // MySQL has always TLS from 8.4 on, but for what it is asked to offer.
    let none = [(Kind::MySql, "9", "tls_version", ""), (Kind::MariaDb, "10.11", "ssl", "OFF")];
    for (kind, version, option, value) in none {
        let server = TestServer::start(kind, version, &Options::default().set(option, value)).unwrap();
        let url = server.url(REPLICATION_USER, "").unwrap();
        assert_eq!(cipher(&url).await.unwrap(), "", "{version}");
        let (kind, message) = refused_by(&format!("{url}?ssl-mode=REQUIRED")).await;
        assert!(kind == ErrorKind::Config && message.contains("has no TLS"), "{version}: {kind:?} {message}");
    }
}

#[tokio::test]
async fn sessions_are_pinned_whatever_the_servers_defaults_are() {
    let odd = Options::default()
        .set("sql_mode", "ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH,NO_BACKSLASH_ESCAPES")
        .set("default_time_zone", "+08:00")
        .set("character_set_server", "latin1")
        .set("autocommit", "0")
        .set("net_write_timeout", "5");
    for (kind, version) in BINLOG_SERVERS {
        // Some are no options of a start.
        let globals = match kind {
            Kind::MySql => {
                "SET GLOBAL sql_select_limit = 1, GLOBAL show_gipk_in_create_table_and_information_schema = OFF"
            }
            _ => "SET GLOBAL sql_select_limit = 1, GLOBAL idle_transaction_timeout = 9",
        };
        let statement_time = if kind == Kind::MySql { "max_execution_time" } else { "max_statement_time" };
        let server = TestServer::start(kind, version, &odd.clone().set(statement_time, "1")).unwrap();
        server.sql("mysql", globals).unwrap();
        let config = ConnectConfig::parse(&server.url(REPLICATION_USER, "").unwrap()).unwrap();
        let mut conn = open(&config).await.unwrap();
        let sql = format!(
            "SELECT CONCAT_WS('|', @@sql_mode, @@time_zone, @@net_write_timeout, @@character_set_client, \
                    @@character_set_results, @@{statement_time} + 0)"
        );
        let session: Option<String> = conn.query_first(&sql).await.unwrap();
        let session = session.unwrap();
        assert!(session.starts_with("|+00:00|604800|utf8mb4|utf8mb4|0"), "{version}: {session}");
        let rows: Vec<u8> = conn.query("SELECT 1 UNION SELECT 2").await.unwrap();
        assert_eq!(rows, [1, 2], "{version}");
        let autocommit: Option<u8> = conn.query_first("SELECT @@autocommit").await.unwrap();
        assert_eq!(autocommit, Some(1), "{version}");
        let mut raw = open_raw(&config).await.unwrap();
        let results: Option<Option<String>> = raw.query_first("SELECT @@character_set_results").await.unwrap();
        assert_eq!(results, Some(None), "{version}");
        if kind == Kind::MySql {
            let shown = "SELECT @@show_gipk_in_create_table_and_information_schema";
            assert_eq!(conn.query_first(shown).await.unwrap(), Some(1_u8));
            let name = "SELECT ATTR_VALUE FROM performance_schema.session_account_connect_attrs \
                         WHERE PROCESSLIST_ID = CONNECTION_ID() AND ATTR_NAME = 'program_name'";
            let plain = format!("{}?ssl-mode=DISABLED", server.url(REPLICATION_USER, "").unwrap());
            let mut plain = open(&ConnectConfig::parse(&plain).unwrap()).await.unwrap();
            let name: Option<String> = plain.query_first(name).await.unwrap();
            assert_eq!(name.as_deref(), Some("calve"));
        }
    }
}

#[tokio::test]
async fn the_server_says_who_it_is_and_where_its_log_stands() {
    for (kind, version) in BINLOG_SERVERS {
        let test_server = TestServer::start(kind, version, &Options::default()).unwrap();
        let config = ConnectConfig::parse(&test_server.url(REPLICATION_USER, "").unwrap()).unwrap();
        let admin = ConnectConfig::parse(&test_server.url(kind.superuser(), "").unwrap()).unwrap();
        let (mut conn, mut admin) = (open(&config).await.unwrap(), open(&admin).await.unwrap());
        let found = Server::read(&mut conn).await.unwrap();
        let mysql = kind == Kind::MySql;
        assert_eq!(found.flavour, if mysql { Flavour::MySql } else { Flavour::MariaDb });
        assert_eq!((found.uuid.is_some(), found.uid.is_some()), (mysql, !mysql), "{found:?}");
        assert!(found.log_bin && found.server_id > 0 && found.has_gtids() && found.binlog_format == "ROW", "{found:?}");
        admin.query_drop("CREATE DATABASE d").await.unwrap();
        admin.query_drop("CREATE TABLE d.t (id INT PRIMARY KEY)").await.unwrap();
        let before = server::binlog_end(&mut conn, &found).await.unwrap();
        let files = server::binary_logs(&mut conn).await.unwrap();
        let last = files.last().unwrap();
        assert_eq!((last.name.as_str(), last.bytes), (before.file.as_ref(), before.offset), "{version}");
        if mysql {
            let executed = server::gtid_executed(&mut conn).await.unwrap();
            admin.query_drop("INSERT INTO d.t VALUES (1)").await.unwrap();
            let later = server::gtid_executed(&mut conn).await.unwrap();
            assert!(later.is_superset(&executed) && later != executed);
            assert!(later.is_superset(&server::gtid_purged(&mut conn).await.unwrap()));
        } else {
            conn.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY").await.unwrap();
            admin.query_drop("INSERT INTO d.t VALUES (1)").await.unwrap();
            let snapshot = server::binlog_snapshot(&mut conn).await.unwrap().unwrap();
            assert_eq!(snapshot, before, "{version}");
            let position = server::gtid_of(&mut conn, &snapshot).await.unwrap();
            let now: Option<String> = admin.query_first("SELECT @@gtid_binlog_pos").await.unwrap();
            let now: calve_core::MariaDbPosition = now.unwrap().parse().unwrap();
            let [(domain, then)] = position.domains.iter().collect::<Vec<_>>()[..] else { panic!("{position}") };
            assert_eq!(then.applied.sequence + 1, now.domains[domain].applied.sequence, "{position} {now}");
            assert_eq!(position.at, Some(snapshot));
        }
        let rows: Vec<Row> = conn.query("SELECT * FROM d.t").await.unwrap();
        assert_eq!(rows.len(), usize::from(mysql), "{version}");
    }
}

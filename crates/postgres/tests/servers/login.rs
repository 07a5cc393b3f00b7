//! Logging in, and what is said where that fails.

use calve_core::{ChangeSource, ErrorKind};
use calve_postgres::{ConnectConfig, PostgresSettings, PostgresSource};

use crate::database::{Database, server};

async fn refused(url: &str) -> (ErrorKind, String) {
    let config = ConnectConfig::parse(url).unwrap();
    let sql = config.connect_sql().await.err().unwrap_or_else(|| panic!("{url} was accepted"));
    let mut source = PostgresSource::new(PostgresSettings::new(config, "x"));
    let replication = source.log_state().await.expect_err(url);
    assert_eq!(sql.to_string(), replication.to_string(), "SQL and replication say the same");
    assert!(!sql.to_string().contains('\n') && !sql.to_string().contains("hunter2"), "{sql}");
    (sql.kind(), sql.to_string())
}

#[tokio::test]
async fn failures_are_told_apart_and_say_what_to_do() {
    let url = server(17);
    let (_, rest) = url.split_once('@').unwrap();
    let (address, _) = rest.split_once('/').unwrap();
    let (host, _) = address.rsplit_once(':').unwrap();
    for (url, kind, expected) in [
        (format!("postgres://u:hunter2@{host}:1/d"), ErrorKind::Retry, "cannot reach Postgres"),
        ("postgres://u:hunter2@host.invalid/d".into(), ErrorKind::Retry, "cannot reach Postgres"),
        (format!("postgres://postgres:hunter2@{address}/postgres"), ErrorKind::Config, "check the password"),
        (format!("postgres://nobody:hunter2@{address}/postgres"), ErrorKind::Config, "check the password"),
        (url.rsplit_once('/').unwrap().0.to_owned() + "/nowhere", ErrorKind::Config, "check the database name"),
        (format!("{url}?sslmode=verify-full"), ErrorKind::Config, "sslrootcert"),
        (format!("{url}?sslmode=verify-ca&sslrootcert=/nonexistent"), ErrorKind::Config, "sslrootcert /nonexistent"),
    ] {
        let (found, message) = refused(&url).await;
        assert!(found == kind && message.contains(expected), "{url}: {found:?} {message}");
    }
    let no_password = format!("postgres://postgres@{address}/postgres?passfile=/nonexistent");
    let (_, message) = refused(&no_password).await;
    assert!(message.contains("none was given"), "{message}");
}

#[tokio::test]
async fn every_sslmode_logs_in_where_it_should() {
    for version in crate::database::VERSIONS {
        let url = server(version);
        for mode in ["disable", "allow", "prefer", "require"] {
            let config = ConnectConfig::parse(&format!("{url}?sslmode={mode}")).unwrap();
            let client = config.connect_sql().await.unwrap();
            let query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
            let encrypted: bool = client.query_one(query, &[]).await.unwrap().get(0);
            assert_eq!(encrypted, matches!(mode, "prefer" | "require"), "sslmode={mode}");
            let mut source = PostgresSource::new(PostgresSettings::new(config, "never_made"));
            source.log_state().await.unwrap();
        }
        let bound = ConnectConfig::parse(&format!("{url}?sslmode=require&channel_binding=require")).unwrap();
        bound.connect_sql().await.unwrap();
        PostgresSource::new(PostgresSettings::new(bound, "never_made")).log_state().await.unwrap();
        let unbound = ConnectConfig::parse(&format!("{url}?sslmode=disable&channel_binding=require")).unwrap();
        assert_eq!(unbound.connect_sql().await.unwrap_err().kind(), ErrorKind::Config);
        let error = PostgresSource::new(PostgresSettings::new(unbound, "never_made")).log_state().await.unwrap_err();
        assert!(error.to_string().contains("channel_binding"), "{error}");
    }
}

#[tokio::test]
async fn a_role_that_may_not_replicate_is_told_so() {
    let db = Database::create(17).await;
    let role = format!("plain_{}", std::process::id());
    db.run(&format!("CREATE ROLE {role} LOGIN PASSWORD 'p'")).await;
    let url = server(17);
    let (_, address) = url.split_once('@').unwrap();
    let config = ConnectConfig::parse(&format!("postgres://{role}:p@{address}")).unwrap();
    config.connect_sql().await.unwrap();
    let error = PostgresSource::new(PostgresSettings::new(config, "x")).log_state().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("REPLICATION"), "{error}");
    db.run(&format!("DROP ROLE {role}")).await;
    db.drop().await;
}

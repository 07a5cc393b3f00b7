use std::process::Command;

use super::*;

const VERSIONS: [u32; 3] = [15, 17, 18];

#[test]
fn every_version_answers_and_decodes_logically() -> Result<(), ServerError> {
    for version in VERSIONS {
        let database = Postgres::shared(version)?.create_database("answers")?;
        let told =
            database.psql("select current_setting('server_version_num')::int / 10000, current_setting('wal_level')")?;
        assert_eq!(told.trim(), format!("{version}|logical"));
    }
    Ok(())
}

#[test]
fn a_kill_keeps_committed_rows_and_the_port() -> Result<(), ServerError> {
    let server = Postgres::start(17, &Options::default().set("max_wal_senders", "7"))?;
    let port = server.port()?;
    server.psql("postgres", "create table kept (id int); insert into kept select generate_series(1, 1000)")?;
    server.kill()?;
    assert!(server.psql("postgres", "select 1").is_err(), "a killed server answers");
    server.start_again()?;
    server.restart(Stop::Kill, &Options::default().set("max_replication_slots", "5"))?;
    let told = server.psql(
        "postgres",
        "select count(*), current_setting('max_wal_senders') from kept; show max_replication_slots",
    )?;
    assert_eq!(told.trim(), "1000|7\n5");
    assert_eq!(server.port()?, port);
    Ok(())
}

#[test]
fn a_dropped_cluster_is_gone() -> Result<(), ServerError> {
    let server = Postgres::start(15, &Options::default())?;
    let (address, data) = (format!("{}:{}", server.host()?, server.port()?), server.data_dir()?.to_owned());
    assert!(std::net::TcpStream::connect(&address).is_ok() && data.exists());
    drop(server);
    assert!(std::net::TcpStream::connect(&address).is_err(), "{address} still listens");
    assert!(!data.exists(), "{} is still there", data.display());
    Ok(())
}

#[test]
fn a_dropped_database_takes_its_slots_along() -> Result<(), ServerError> {
    let server = Postgres::shared(17)?;
    let database = server.create_database("slots")?;
    let name = database.name().to_owned();
    let slot = format!("slot_of_{name}");
    database.psql(&format!("select pg_create_logical_replication_slot('{slot}', 'pgoutput')"))?;
    drop(database);
    let left = format!(
        "select (select count(*) from pg_database where datname = '{name}')
              + (select count(*) from pg_replication_slots where slot_name = '{slot}')"
    );
    assert_eq!(server.psql("postgres", &left)?.trim(), "0");
    Ok(())
}

#[test]
fn a_shared_cluster_is_not_restarted_and_sql_errors_are_told() -> Result<(), ServerError> {
    let server = Postgres::shared(17)?;
    let refused = server.kill().map_err(|error| error.to_string());
    assert!(refused.is_err_and(|said| said.contains("shared with other tests")));
    let failed = server.psql("postgres", "select 1/0").map_err(|error| error.to_string());
    assert!(failed.is_err_and(|said| said.contains("division by zero")));
    Ok(())
}

#[test]
fn a_version_that_is_not_there_is_an_error() {
    let said = Postgres::shared(9).map(drop).map_err(|error| error.to_string());
    assert!(said.is_err_and(|said| said.contains("no Postgres 9")));
}

/// A test that is killed runs no destructor: what it started must still go.
#[test]
fn a_cluster_whose_owner_was_killed_is_taken_down() -> Result<(), Box<dyn std::error::Error>> {
    let mut owner = Command::new("sleep").arg("60").spawn()?;
    let pid = owner.id().to_string();
    let printed = servers(&["up", "postgres", "15", "--dedicated", "--owner", &pid], None)?;
    let cluster = Running::from_json(&printed, Kind::Postgres, "15", false);
    let cluster = cluster.and_then(|it| it.place.clone()).ok_or("no server")?;
    owner.kill()?;
    owner.wait()?;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while cluster.data.exists() {
        assert!(std::time::Instant::now() < deadline, "nothing took the server down");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    Ok(())
}

/// The version's leading number.
fn major(version: &str) -> u32 {
    version.split('.').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// The columns of a query's rows.
fn columns(printed: &str) -> Vec<Vec<&str>> {
    printed.lines().map(|line| line.split('\t').collect()).collect()
}

#[test]
fn every_binlog_server_logs_whole_rows_and_syncs_its_log() -> Result<(), ServerError> {
    for (kind, version) in BINLOG_SERVERS {
        let database = Server::shared(kind, version)?.create_database("answers")?;
        let told = database.sql(
            "select @@log_bin, @@binlog_format, @@binlog_row_image, @@sync_binlog, @@innodb_flush_log_at_trx_commit,
                    database() = schema(), version()",
        )?;
        let told = columns(&told);
        let (settings, running) = told[0].split_at(6);
        println!("{kind} {version}: {}", running[0]);
        assert_eq!(settings, ["1", "ROW", "FULL", "1", "1", "1"], "{kind} {version}");
        assert!(major(running[0]) >= major(version), "{kind} {version} is {}", running[0]);
        assert_eq!(running[0].contains("MariaDB"), kind == Kind::MariaDb);
    }
    Ok(())
}

#[test]
fn the_replication_user_of_a_binlog_server_has_just_what_the_manual_asks_for() -> Result<(), ServerError> {
    for (kind, version) in BINLOG_SERVERS {
        let server = Server::shared(kind, version)?;
        let told = server.sql("mysql", "show grants for 'calve'@'%'")?;
        let monitor = if kind == Kind::MySql { "REPLICATION CLIENT" } else { "BINLOG MONITOR" };
        let (grants, rest) = told.split_once(" ON ").unwrap_or_default();
        let mut grants: Vec<&str> = grants.trim_start_matches("GRANT ").split(", ").collect();
        grants.sort_unstable();
        let mut expected = vec!["REPLICATION SLAVE", monitor, "SELECT"];
        expected.sort_unstable();
        assert_eq!(grants, expected, "{kind} {version}");
        assert_eq!(rest.lines().count(), 1, "{kind} {version} grants more: {told}");
    }
    Ok(())
}

#[test]
fn a_kill_of_a_binlog_server_keeps_committed_rows_its_identity_and_the_port() -> Result<(), ServerError> {
    for (kind, version) in BINLOG_SERVERS {
        let server = Server::start(kind, version, &Options::default().set("binlog-row-metadata", "FULL"))?;
        let port = server.port()?;
        server.sql("mysql", "create database kept; create table kept.rows_ (id int primary key)")?;
        server.sql("kept", "insert into rows_ values (1), (2), (3)")?;
        let who = if kind == Kind::MySql { "@@server_uuid" } else { "@@server_id" };
        let asked =
            format!("select count(*), @@binlog_row_metadata, {who} from kept.rows_; show variables like 'gtid_mode'");
        let before = server.sql("mysql", &asked)?;
        assert!(before.starts_with("3\tFULL\t"), "{kind} {version}: {before}");
        server.kill()?;
        assert!(server.sql("mysql", "select 1").is_err(), "a killed server answers");
        server.start_again()?;
        assert_eq!(server.sql("mysql", &asked)?, before, "{kind} {version}");
        server.restart(Stop::Immediate, &Options::default().set("binlog_row_metadata", "MINIMAL"))?;
        assert_eq!(server.sql("mysql", &asked)?, before.replace("FULL", "MINIMAL"), "{kind} {version}");
        // Every start began a log of its own, and none was lost.
        let logs = server.sql("mysql", "show binary logs")?;
        assert_eq!(logs.lines().count(), 3, "{kind} {version}: {logs}");
        assert_eq!(server.port()?, port);
    }
    Ok(())
}

#[test]
fn servers_copied_from_one_template_are_not_the_same_server() -> Result<(), ServerError> {
    let options = Options::default().set("gtid_mode", "OFF");
    let (one, other) = (Server::start(Kind::MySql, "9", &options)?, Server::start(Kind::MySql, "9", &options)?);
    let asked = "select @@server_uuid, @@server_id, @@gtid_mode";
    let (one, other) = (one.sql("mysql", asked)?, other.sql("mysql", asked)?);
    let (one, other) = (columns(&one), columns(&other));
    assert!(one[0][0] != other[0][0] && one[0][1] != other[0][1], "{one:?} and {other:?}");
    assert_eq!((one[0][2], other[0][2]), ("OFF", "OFF"));
    Ok(())
}

#[test]
fn a_dropped_database_of_a_binlog_server_is_gone_though_someone_uses_it() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::shared(Kind::MariaDb, "11.8")?;
    let database = server.create_database("used")?;
    let name = database.name().to_owned();
    database.sql("create table t (id int primary key)")?;
    // A reader that has the table open, and would not let go of it for a minute.
    let reader = {
        let (server, name) = (server.clone(), name.clone());
        std::thread::spawn(move || server.sql(&name, "start transaction; select * from t; select sleep(60)"))
    };
    let reading =
        format!("select count(*) from information_schema.processlist where db = '{name}' and info like '%sleep%'");
    while server.sql("mysql", &reading)?.trim() != "1" {
        assert!(!reader.is_finished(), "the reader ended");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    drop(database);
    assert!(reader.join().is_ok_and(|outcome| outcome.is_err()), "the reader was not cut off");
    let left = format!("select count(*) from information_schema.schemata where schema_name = '{name}'");
    assert_eq!(server.sql("mysql", &left)?.trim(), "0");
    Ok(())
}

#[test]
fn a_binlog_server_that_is_not_there_is_an_error() {
    for (kind, said) in [(Kind::MySql, "no MySQL 5.7"), (Kind::MariaDb, "no MariaDB 5.7")] {
        let error = Server::shared(kind, "5.7").map(drop).map_err(|error| error.to_string());
        assert!(error.as_ref().is_err_and(|error| error.contains(said)), "{error:?}");
    }
}

//! Is it still the log that the tables were made from? Reset, purged, restored and failed-over servers: what holds the same
//! transactions is read on, everything else is refused, and reading the tables again is the way back.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use calve_integration::pipeline::until;
use calve_integration::sql::Sql;
use calve_testkit::servers::{Kind, Options, REPLICATION_USER, Server, Stop};

use super::{BinlogCase, numbers, on_every_version};
use crate::case::complains;

fn rows() -> String {
    format!(
        "create table t (id int primary key, v text); insert into t select i, concat('v', i) from {};",
        numbers(1, 30)
    )
}

fn reset(kind: Kind) -> &'static str {
    if kind == Kind::MySql { "reset binary logs and gtids" } else { "reset master" }
}

fn refused(case: &BinlogCase, says: &[&str]) -> anyhow::Result<()> {
    complains(&case.pipeline.finish(&["run", "--once"])?, 3, says)
}

fn reload_all_mends_it(case: &mut BinlogCase) -> anyhow::Result<()> {
    case.pipeline.finish(&["reload", "--all"])?.expect_success()?;
    case.sql.run("insert into t values (7000, 'after the reload')")?;
    case.once_and_same(&["t"])?;
    case.sql.run("delete from t where id = 7000; update t set v = 'followed again'")?;
    case.once_and_same(&["t"])
}

/// RESET, with calve away; then the same file name, the same numbers and a longer log than before.
fn a_log_that_was_reset_is_refused(kind: Kind, version: &str) -> anyhow::Result<()> {
    let server = Server::start(kind, version, &Options::default())?;
    let mut case = BinlogCase::on(&server, "reset", &rows(), &["t"])?;
    case.once_and_same(&["t"])?;
    case.sql.run("insert into t values (100, 'x'); delete from t where id = 3")?;
    case.once_and_same(&["t"])?;

    case.sql.run(&format!("{}; insert into t values (101, 'first after it')", reset(kind)))?;
    refused(&case, &["reload"])?;
    reload_all_mends_it(&mut case)?;

    // Until its numbers and places are beyond those that are known.
    case.sql.run(reset(kind))?;
    for n in 0..60 {
        case.sql.run(&format!("insert into t values ({}, repeat('longer ', 300))", 200 + n))?;
    }
    refused(&case, &["reload"])?;
    reload_all_mends_it(&mut case)?;
    case.pass()
}

/// RESET under a running calve: it must not go on as if nothing was missing.
fn a_reset_while_calve_runs_is_noticed(kind: Kind, version: &str) -> anyhow::Result<()> {
    let server = Server::start(kind, version, &Options::default())?;
    let mut case = BinlogCase::on(&server, "reset_live", &rows(), &["t"])?;
    let mut calve = case.pipeline.start()?;
    case.await_same(&["t"])?;
    case.sql.run("insert into t values (100, 'x')")?;
    case.await_same(&["t"])?;
    case.sql.run(&format!(
        "{}; insert into t values (101, 'after'), (102, 'after'); delete from t where id = 1",
        reset(kind)
    ))?;
    // It either has all of it, or ends and says why.
    let begun = Instant::now();
    while calve.ended()?.is_none() && case.same(&["t"]).is_err() {
        ensure!(begun.elapsed() < Duration::from_mins(1), "it neither follows nor refuses");
        std::thread::sleep(Duration::from_millis(200));
    }
    if let Some(finished) = calve.ended()? {
        complains(&finished, 3, &["reload"])?;
        reload_all_mends_it(&mut case)?;
        return case.pass();
    }
    case.sql.run("update t set v = 'goes on' where id = 102")?;
    case.await_same(&["t"])?;
    calve.terminate()?;
    case.pass()
}

/// The log was removed beyond the place where reading stands.
fn a_purged_position_is_lost(kind: Kind, version: &str) -> anyhow::Result<()> {
    let server = Server::start(kind, version, &Options::default())?;
    let mut case = BinlogCase::on(&server, "purged", &rows(), &["t"])?;
    case.once_and_same(&["t"])?;
    let purge = |case: &mut BinlogCase| -> anyhow::Result<()> {
        case.sql.run("flush binary logs; flush binary logs")?;
        let logs = case.sql.rows("show binary logs")?;
        let last = logs.last().and_then(|row| row[0].clone()).context("there is no log")?;
        // The server keeps what somebody reads; the one who read it has just left.
        until("the log to be purged", || {
            case.sql.run(&format!("purge binary logs to '{last}'"))?;
            Ok(case.sql.rows("show binary logs")?.len() == 1)
        })
    };
    // Only what was read already: nothing is lost.
    purge(&mut case)?;
    case.sql.run("insert into t values (100, 'x')")?;
    case.once_and_same(&["t"])?;
    case.sql.run("insert into t values (101, 'lost to calve'); delete from t where id = 2")?;
    purge(&mut case)?;
    case.sql.run("insert into t values (102, 'there')")?;
    let before = case.lake().metadata(case.database.name(), "t")?.snapshots().len();
    refused(&case, &["changes in between are lost", "reload"])?;
    // A running one says so too, and ends rather than trying for ever.
    let finished = case.pipeline.start()?.wait(Duration::from_mins(1))?;
    complains(&finished, 3, &["lost", "reload"])?;
    ensure!(case.lake().metadata(case.database.name(), "t")?.snapshots().len() == before, "it committed something");
    reload_all_mends_it(&mut case)?;
    case.pass()
}

/// A server that was put back to yesterday's files and has gone another way since.
fn a_restored_server_is_refused(kind: Kind, version: &str) -> anyhow::Result<()> {
    let server = Server::start(kind, version, &Options::default())?;
    let mut case = BinlogCase::on(&server, "restored", &rows(), &["t"])?;
    let url = case.database.url(kind.superuser())?;
    case.once_and_same(&["t"])?;
    end_dumps(&mut case)?;
    server.stop(Stop::Fast)?;
    let backup = case.directory.path().join("backup");
    copy(server.data_dir()?, &backup)?;
    server.start_again()?;
    case.sql = Sql::connect_patiently(&url, Duration::from_secs(30))?;
    for n in 0..5 {
        case.sql.run(&format!("insert into t values ({}, 'forgotten')", 100 + n))?;
    }
    case.once_and_same(&["t"])?;

    let restore = |case: &mut BinlogCase| -> anyhow::Result<()> {
        end_dumps(case)?;
        server.stop(Stop::Fast)?;
        remove_contents(server.data_dir()?)?;
        copy(&backup, server.data_dir()?)?;
        server.start_again()?;
        case.sql = Sql::connect_patiently(&url, Duration::from_secs(30))?;
        Ok(())
    };
    restore(&mut case)?;
    // Behind what the tables have; then beyond it, by the same numbers.
    refused(&case, &["reload"])?;
    for n in 0..40 {
        case.sql.run(&format!("insert into t values ({}, 'another way')", 500 + n))?;
    }
    refused(&case, &["reload"])?;
    reload_all_mends_it(&mut case)?;
    case.pass()
}

/// A dump whose reader has left goes with its next heartbeat; MySQL, told to stop meanwhile, waits eight seconds for it.
fn end_dumps(case: &mut BinlogCase) -> anyhow::Result<()> {
    for row in case.sql.rows("select id from information_schema.processlist where command like 'Binlog Dump%'")? {
        let id = row[0].clone().unwrap_or_default();
        // It may have gone by itself.
        let _ = case.sql.run(&format!("kill {id}"));
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to)?;
    let done = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().context("running cp")?;
    ensure!(done.success(), "cp failed");
    Ok(())
}

fn remove_contents(directory: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() { std::fs::remove_dir_all(path)? } else { std::fs::remove_file(path)? }
    }
    Ok(())
}

/// Makes a server the replica of another one, by GTIDs, from the very beginning of its log.
fn replicate(from: &Server, to: &Server) -> anyhow::Result<()> {
    let (host, port) = (from.host()?, from.port()?);
    let statements = match to.kind() {
        Kind::MySql => format!(
            "change replication source to source_host = '{host}', source_port = {port}, source_user = 'root', source_password = 'root',
             source_auto_position = 1, get_source_public_key = 1, source_connect_retry = 1; start replica"
        ),
        _ => format!(
            "change master to master_host = '{host}', master_port = {port}, master_user = 'root', master_password = 'root',
             master_use_gtid = slave_pos, master_connect_retry = 1; start slave"
        ),
    };
    to.sql("mysql", &statements)?;
    Ok(())
}

fn promote(server: &Server) -> anyhow::Result<()> {
    let statements = match server.kind() {
        Kind::MySql => "stop replica; reset replica all",
        _ => "stop slave; reset slave all",
    };
    server.sql("mysql", statements)?;
    Ok(())
}

fn replica_options() -> Options {
    Options::default().set("log_slave_updates", "ON")
}

/// Waits until a server has as many rows in the table as the other one.
fn caught_up(case: &mut BinlogCase, replica: &Server) -> anyhow::Result<()> {
    let asked = format!("select count(*), coalesce(sum(crc32(concat(id, v))), 0) from {}", case.name("t"));
    let there = case.sql.rows(&asked)?;
    let expected = there[0].iter().map(|value| value.clone().unwrap_or_default()).collect::<Vec<_>>().join("\t");
    until("the replica to catch up", || Ok(replica.sql("mysql", &asked).is_ok_and(|found| found.trim() == expected)))
}

/// The replica takes over, and its log, which has the same GTIDs at other places, is read on.
fn a_failover_with_gtids_is_followed(kind: Kind, version: &str) -> anyhow::Result<()> {
    let old = Server::start(kind, version, &replica_options())?;
    let new = Server::start(kind, version, &replica_options())?;
    let mut case = BinlogCase::on(&old, "failover", &rows(), &["t"])?;
    // Its log has other file names and places.
    new.sql("mysql", "flush binary logs; flush binary logs")?;
    replicate(&old, &new)?;
    case.once_and_same(&["t"])?;
    case.sql.run("insert into t values (100, 'seen'); update t set v = 'seen' where id = 1")?;
    case.once_and_same(&["t"])?;
    case.sql.run(
        "insert into t values (101, 'not seen'); delete from t where id = 2; update t set v = 'not seen' where id = 1",
    )?;
    caught_up(&mut case, &new)?;
    old.kill()?;
    promote(&new)?;
    let name = case.database.name().to_owned();
    case.sql = Sql::connect(&new.url(kind.superuser(), &name)?)?;
    case.sql.run("insert into t values (102, 'by the new one'); update t set v = 'new' where id = 3")?;
    let there = new.url(REPLICATION_USER, &name)?;
    case.pipeline = case.pipeline.clone().source(&there);
    case.once_and_same(&["t"])?;
    let calve = case.pipeline.start()?;
    case.sql.run("insert into t values (103, 'live'); flush binary logs; delete from t where id = 4")?;
    case.await_same(&["t"])?;
    calve.terminate()?;
    case.pass()
}

/// A replica that was behind takes over: it never had what the tables have.
fn a_failover_that_lost_transactions_is_refused(kind: Kind, version: &str) -> anyhow::Result<()> {
    let old = Server::start(kind, version, &replica_options())?;
    let new = Server::start(kind, version, &replica_options())?;
    let mut case = BinlogCase::on(&old, "lagging", &rows(), &["t"])?;
    replicate(&old, &new)?;
    caught_up(&mut case, &new)?;
    promote(&new)?;
    case.sql.run("insert into t values (100, 'the old one only')")?;
    case.once_and_same(&["t"])?;
    let name = case.database.name().to_owned();
    let there = new.url(REPLICATION_USER, &name)?;
    case.pipeline = case.pipeline.clone().source(&there);
    refused(&case, &["reload"])?;
    // However much it does on its own.
    case.sql = Sql::connect(&new.url(kind.superuser(), &name)?)?;
    for n in 0..10 {
        case.sql.run(&format!("insert into t values ({}, 'the new one only')", 200 + n))?;
    }
    refused(&case, &["reload"])?;
    reload_all_mends_it(&mut case)?;
    case.pass()
}

on_every_version!(
    a_log_that_was_reset_is_refused,
    a_reset_while_calve_runs_is_noticed,
    a_purged_position_is_lost,
    a_restored_server_is_refused,
    a_failover_with_gtids_is_followed,
    a_failover_that_lost_transactions_is_refused,
);

/// Without GTIDs places are of one server's files: it is followed through a restart, another server is not.
#[test]
fn without_gtids_another_server_is_refused() -> anyhow::Result<()> {
    let options = Options::default().set("gtid_mode", "OFF").set("enforce_gtid_consistency", "OFF");
    let (one, other) = (Server::start(Kind::MySql, "9", &options)?, Server::start(Kind::MySql, "9", &options)?);
    let mut case = BinlogCase::on(&one, "files", &rows(), &["t"])?;
    case.once_and_same(&["t"])?;
    let calve = case.pipeline.start()?;
    case.sql.run("insert into t values (100, 'x'); flush binary logs; update t set v = 'y' where id = 100")?;
    case.await_same(&["t"])?;
    calve.terminate()?;
    let url = case.database.url("root")?;
    one.restart(Stop::Kill, &Options::default())?;
    case.sql = Sql::connect_patiently(&url, Duration::from_secs(30))?;
    case.sql.run("insert into t values (101, 'after the restart')")?;
    case.once_and_same(&["t"])?;

    // The same tables, with the same rows, on another server.
    let name = case.database.name().to_owned();
    other.sql("mysql", &format!("create database {name}"))?;
    other.sql(&name, &format!("{} insert into t values (101, 'x')", rows()))?;
    let (here, there) = (case.database.url(REPLICATION_USER)?, other.url(REPLICATION_USER, &name)?);
    case.pipeline = case.pipeline.clone().source(&there);
    refused(&case, &["another server", "reload"])?;
    case.pipeline = case.pipeline.clone().source(&here);
    case.once_and_same(&["t"])?;

    // A log that begins anew, under the same file names.
    case.sql.run("reset binary logs and gtids; insert into t values (102, repeat('x', 5000)); insert into t values (103, repeat('x', 5000))")?;
    refused(&case, &["reload"])?;
    reload_all_mends_it(&mut case)?;
    // GTIDs are switched on, in the server's four steps.
    for mode in ["OFF_PERMISSIVE", "ON_PERMISSIVE"] {
        case.sql.run(&format!(
            "set global enforce_gtid_consistency = ON; set global gtid_mode = {mode}; insert into t values ({}, 'x')",
            mode.len() + 300
        ))?;
        case.once_and_same(&["t"])?;
    }
    case.sql.run("set global gtid_mode = ON; insert into t values (400, 'x')")?;
    refused(&case, &["gtid_mode was switched on", "reload"])?;
    reload_all_mends_it(&mut case)?;
    // And off again.
    case.sql.run(
        "set global gtid_mode = ON_PERMISSIVE; set global gtid_mode = OFF_PERMISSIVE; set global gtid_mode = OFF",
    )?;
    case.sql.run("insert into t values (401, 'x')")?;
    refused(&case, &["gtid_mode was switched off", "reload"])?;
    reload_all_mends_it(&mut case)?;
    case.pass()
}

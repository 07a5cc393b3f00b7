//! Transactions in two phases: their rows stand in the log at PREPARE and count from COMMIT on, whoever was away in between.

use std::time::Duration;

use anyhow::ensure;
use calve_integration::pipeline::until;
use calve_integration::sql::Sql;
use calve_testkit::servers::{Kind, Options, Server, Stop};

use super::{BinlogCase, on_every_server, on_every_version};

const ROWS: &str = "
    create table t (id int primary key, v text); create table u (id int primary key, v text);
    insert into t values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e'); insert into u values (1, 'a'), (2, 'b'), (3, 'c');";
const TABLES: [&str; 2] = ["t", "u"];

/// An identifier: the server has one list of them for everybody.
fn xid(case: &BinlogCase, name: &str) -> String {
    format!("'{}','{name}'", case.database.name())
}

/// Prepares a transaction and leaves it to whoever comes.
fn prepare(case: &BinlogCase, name: &str, statements: &str) -> anyhow::Result<()> {
    let mut sql = case.connect()?;
    let xid = xid(case, name);
    let end = format!("xa end {xid}; xa prepare {xid}");
    sql.run(&format!("xa start {xid}; {statements}; {end}"))?;
    drop(sql);
    Ok(())
}

/// Commits or rolls back what somebody else prepared. The server may still be noticing that they left.
fn decide(case: &mut BinlogCase, name: &str, verb: &str) -> anyhow::Result<()> {
    let statement = format!("xa {verb} {}", xid(case, name));
    let mut tries = 0;
    loop {
        match case.sql.run(&statement) {
            Err(_) if tries < 100 => std::thread::sleep(Duration::from_millis(20)),
            done => return done,
        }
        tries += 1;
    }
}

fn prepared_over_a_restart_of_calve(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "xa", ROWS, &TABLES)?;
    case.once_and_same(&TABLES)?;
    prepare(
        &case,
        "kept",
        "insert into t values (10, 'kept'); update t set v = 'kept' where id = 1; delete from u where id = 1",
    )?;
    prepare(&case, "undone", "insert into t values (20, 'undone'); update u set v = 'undone' where id = 2")?;
    prepare(&case, "later", "insert into u values (30, 'later'); update t set id = 31 where id = 3")?;
    case.sql.run("insert into t values (100, 'beside'); update t set v = 'beside' where id = 4")?;
    // What is prepared is nobody's yet.
    case.once_and_same(&TABLES)?;
    case.once_and_same(&TABLES)?;
    decide(&mut case, "kept", "commit")?;
    case.once_and_same(&TABLES)?;
    decide(&mut case, "undone", "rollback")?;
    case.sql.run("insert into t values (101, 'beside')")?;
    case.once_and_same(&TABLES)?;
    let calve = case.pipeline.start()?;
    case.await_same(&TABLES)?;
    decide(&mut case, "later", "commit")?;
    case.await_same(&TABLES)?;
    // In one phase, and in two at once, while it looks.
    let (one, two) = (xid(&case, "one"), xid(&case, "two"));
    case.sql.run(&format!(
        "xa start {one}; insert into t values (40, 'one phase'); xa end {one}; xa commit {one} one phase;
         xa start {two}; insert into t values (41, 'two phases'); delete from u where id = 30; xa end {two}; xa prepare {two}; xa commit {two}"
    ))?;
    case.await_same(&TABLES)?;
    calve.terminate()?;
    ensure!(
        case.sql.value("select count(*) from t where id in (10, 31, 40, 41)")? == "4",
        "the source lost some itself"
    );
    case.pass()
}

/// Prepared before calve came, decided afterwards: the load did not see them, and the log has their rows before its beginning.
fn prepared_before_the_first_start(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "xa_first", ROWS, &TABLES)?;
    prepare(
        &case,
        "kept",
        "insert into t values (10, 'kept'); update t set v = 'kept' where id = 1; delete from u where id = 1",
    )?;
    prepare(&case, "undone", "insert into t values (20, 'undone'); delete from u where id = 2")?;
    prepare(&case, "away", "insert into t values (30, 'away')")?;
    case.once_and_same(&TABLES)?;
    let calve = case.pipeline.start()?;
    decide(&mut case, "kept", "commit")?;
    decide(&mut case, "undone", "rollback")?;
    case.sql.run("insert into t values (11, 'after')")?;
    case.await_same(&TABLES)?;
    calve.terminate()?;
    decide(&mut case, "away", "commit")?;
    case.sql.run("update t set v = 'after' where id = 10")?;
    case.once_and_same(&TABLES)?;
    case.pass()
}

/// A table is read again while a transaction on it is prepared, and killed calves come in between.
fn prepared_while_tables_are_read_again(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "xa_reload", ROWS, &TABLES)?;
    case.once_and_same(&TABLES)?;
    prepare(
        &case,
        "kept",
        "insert into t values (10, 'kept'); update t set v = 'kept' where id = 1; insert into u values (10, 'kept')",
    )?;
    case.once_and_same(&TABLES)?;
    case.reload(&["t"])?;
    case.once_and_same(&TABLES)?;
    let calve = case.pipeline.start()?;
    case.sql.run("insert into t values (11, 'beside')")?;
    case.await_same(&TABLES)?;
    calve.kill()?;
    decide(&mut case, "kept", "commit")?;
    case.once_and_same(&TABLES)?;
    case.pass()
}

on_every_server!(
    prepared_over_a_restart_of_calve,
    prepared_before_the_first_start,
    prepared_while_tables_are_read_again
);

/// What is prepared outlives the server, and the file of the log that it stands in.
fn prepared_over_a_restart_of_the_server(kind: Kind, version: &str) -> anyhow::Result<()> {
    let server = Server::start(kind, version, &Options::default())?;
    let mut case = BinlogCase::on(&server, "xa_server", ROWS, &TABLES)?;
    case.once_and_same(&TABLES)?;
    prepare(&case, "kept", "insert into t values (10, 'kept'); delete from u where id = 1")?;
    prepare(&case, "undone", "insert into t values (20, 'undone')")?;
    let calve = case.pipeline.start()?;
    case.sql.run("insert into t values (100, 'beside'); flush binary logs; insert into t values (101, 'beside')")?;
    case.await_same(&TABLES)?;
    let url = case.database.url(kind.superuser())?;
    for how in [Stop::Fast, Stop::Kill] {
        server.restart(how, &Options::default())?;
        case.sql = Sql::connect_patiently(&url, Duration::from_secs(30))?;
        let id = if how == Stop::Kill { 201 } else { 200 };
        case.sql.run(&format!("insert into u values ({id}, 'after')"))?;
        case.await_same(&TABLES)?;
    }
    decide(&mut case, "kept", "commit")?;
    decide(&mut case, "undone", "rollback")?;
    case.await_same(&TABLES)?;
    calve.terminate()?;
    ensure!(case.sql.value("select count(*) from t where id in (10, 20)")? == "1", "the source itself is wrong");
    case.pass()
}

on_every_version!(prepared_over_a_restart_of_the_server);

/// MariaDB that is killed can have a PREPARE in its log that its engine lost, and never says so. It is nothing then, and does
/// not hold up what is read and kept of the log; whatever else is prepared is not touched by that.
fn a_prepared_transaction_that_the_server_lost_is_given_up(version: &str) -> anyhow::Result<()> {
    let server = Server::start(Kind::MariaDb, version, &Options::default())?;
    let mut case = BinlogCase::on(&server, "xa_lost", ROWS, &TABLES)?;
    case.once_and_same(&TABLES)?;
    let url = case.database.url(server.kind().superuser())?;
    prepare(&case, "kept", "insert into t values (10, 'kept'); delete from u where id = 1")?;
    let calve = case.pipeline.start()?;
    let open = |case: &BinlogCase| Ok(case.pipeline.status()?["position"].to_string().contains("resume="));
    until("what is prepared to be read", || open(&case))?;

    // The engine's own log stays in memory, and so is gone with the process. It is written now and then all the same.
    let mut happened = false;
    for attempt in 0..100 {
        case.sql.run("set global innodb_flush_log_at_timeout = 2700; set global innodb_flush_log_at_trx_commit = 0")?;
        prepare(
            &case,
            "lost",
            &format!("insert into t values ({}, 'lost'); update u set v = 'lost' where id = 2", 1000 + attempt),
        )?;
        prepare(&case, "again", &format!("insert into t values ({}, 'lost')", 2000 + attempt))?;
        server.restart(Stop::Kill, &Options::default())?;
        case.sql = Sql::connect_patiently(&url, Duration::from_secs(30))?;
        let listed = case.sql.rows("xa recover")?;
        let names: Vec<String> = listed.iter().filter_map(|row| row[3].clone()).collect();
        ensure!(names.iter().any(|name| name.ends_with("kept")), "{names:?}");
        if names.len() == 1 {
            happened = true;
            break;
        }
        for name in ["lost", "again"].into_iter().filter(|name| names.iter().any(|listed| listed.ends_with(name))) {
            decide(&mut case, name, "rollback")?;
        }
    }
    ensure!(happened, "the server never lost what it had prepared");
    case.sql.run("insert into u values (200, 'after')")?;
    case.await_same(&TABLES)?;
    until("calve to give them up", || Ok(calve.log().matches("lost a prepared XA transaction").count() == 2))?;
    // The one that is there still counts.
    ensure!(open(&case)?, "what is prepared was forgotten");
    prepare(&case, "again", "insert into t values (60, 'again')")?;
    decide(&mut case, "again", "commit")?;
    case.await_same(&TABLES)?;
    calve.terminate()?;
    decide(&mut case, "kept", "commit")?;
    let calve = case.pipeline.start()?;
    case.await_same(&TABLES)?;
    case.sql.run("insert into u values (201, 'after')")?;
    case.await_same(&TABLES)?;
    until("nothing to be read again", || Ok(!open(&case)?))?;
    calve.terminate()?;

    // Nor does anything need the files that they stand in.
    case.sql.run("flush binary logs; insert into u values (202, 'after')")?;
    case.once_and_same(&TABLES)?;
    let last = case.sql.rows("show binary logs")?.pop().and_then(|row| row[0].clone()).unwrap_or_default();
    until("the log to be purged", || {
        case.sql.run(&format!("purge binary logs to '{last}'"))?;
        Ok(case.sql.rows("show binary logs")?.len() == 1)
    })?;
    case.sql.run("insert into u values (203, 'after')")?;
    case.once_and_same(&TABLES)?;
    ensure!(case.sql.value("select count(*) from t where v = 'lost'")? == "0", "the source has what it lost");
    case.pass()
}

#[test]
fn what_mariadb_10_11_lost_is_given_up() -> anyhow::Result<()> {
    a_prepared_transaction_that_the_server_lost_is_given_up("10.11")
}

#[test]
fn what_mariadb_11_8_lost_is_given_up() -> anyhow::Result<()> {
    a_prepared_transaction_that_the_server_lost_is_given_up("11.8")
}

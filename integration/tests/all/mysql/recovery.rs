//! Killed in between, local state lost or stale, the catalog away, somebody else at the tables: they say where to go on.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use calve_integration::foreign::{self, CatalogLock, CatalogRefusal};
use calve_integration::lake::Lake;
use calve_integration::pipeline::until;
use calve_integration::{binary, compare, readers};
use calve_testkit::readers::Reader;
use calve_testkit::servers::{Kind, Options, Server};

use super::{BinlogCase, numbers, on_every_server, on_every_version};
use crate::case::complains;

const TABLES: [&str; 2] = ["a", "b"];

fn two() -> String {
    format!(
        "create table a (id int primary key, v varchar(20), n int default 0); create table b (id int primary key, v varchar(20));
         insert into a select i, 'a', 0 from {fifty}; insert into b select i, 'b' from {fifty};",
        fifty = numbers(1, 50)
    )
}

/// Every kind of change, so that a replay of it that is not skipped shows.
const CHANGES: &str = "
    begin; insert into a (id, v) select max(id) + 1, 'new' from a; insert into b select max(id) + 1, 'new' from b; commit;
    update a set n = n + 1 where id between 10 and 20; delete from a order by id limit 1;
    set @next = (select max(id) + 1 from b); update b set id = @next order by id limit 1;";

fn remove(directory: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Dies at a place, restarts without and with local state: the replay changes nothing.
fn killed_at(case: &mut BinlogCase, place: &str, forget: bool) -> anyhow::Result<()> {
    case.sql.run(CHANGES)?;
    case.pipeline.dies_at(place, &["run"])?;
    if forget {
        remove(&case.lake().positions(case.pipeline.name()))?;
    }
    case.once_and_same(&TABLES).map_err(|error| error.context(format!("killed at {place}, state forgotten: {forget}")))
}

fn killed_between_any_two_steps_it_heals_by_itself(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "between", &two(), &TABLES)?;
    case.once_and_same(&TABLES)?;
    for (place, forget) in [
        ("writer.write.after", false),
        ("positions.intent-written", false),
        ("positions.intent-written", true),
        ("lake.commit.before", false),
        ("commit.metadata-written", false),
        ("commit.swapped", false),
        ("commit.swapped", true),
        ("lake.commit.after", false),
        ("lake.commit.after:2", true),
        ("positions.advance.before", false),
        ("positions.advanced", false),
        ("source.acknowledge.before", false),
    ] {
        killed_at(&mut case, place, forget)?;
    }
    case.pass()
}

fn local_state_of_yesterday_lost_or_damaged_changes_nothing(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "state", &two(), &TABLES)?;
    case.once_and_same(&TABLES)?;
    case.sql.run(CHANGES)?;
    // A copy with an intent in it that is done by the time it comes back.
    let mut command = case.pipeline.command(&["run"])?;
    command.env("CALVE_FAILPOINT", "positions.intent-written");
    binary::finish(command, &case.pipeline.log("killed"))?;
    let positions = case.lake().positions(case.pipeline.name());
    let copy = case.directory.path().join("yesterday");
    copy_directory(&positions, &copy)?;
    for _ in 0..2 {
        case.once_and_same(&TABLES)?;
        case.sql.run(CHANGES)?;
    }
    remove(&positions)?;
    copy_directory(&copy, &positions)?;
    case.once_and_same(&TABLES)?;

    case.sql.run(CHANGES)?;
    remove(&positions)?;
    case.once_and_same(&TABLES)?;
    case.sql.run(CHANGES)?;
    for file in files_below(&positions)? {
        std::fs::OpenOptions::new().write(true).open(&file)?.set_len(10)?;
    }
    case.once_and_same(&TABLES)?;

    // Another pipeline's: refused, and nothing is changed by it.
    let mut other = BinlogCase::on(server, "state_other", &two(), &TABLES)?;
    other.once_and_same(&TABLES)?;
    case.sql.run(CHANGES)?;
    remove(&positions)?;
    copy_directory(&other.lake().positions(other.pipeline.name()), &positions)?;
    complains(&case.pipeline.finish(&["run", "--once"])?, 2, &[other.pipeline.name(), case.pipeline.name()])?;
    remove(&positions)?;
    case.once_and_same(&TABLES)?;
    other.pass()?;
    case.pass()
}

/// The local state of a while ago on a second machine, which runs beside the first on the same catalog and warehouse: two
/// processes, no lock in common.
fn local_state_copied_to_a_second_machine_changes_nothing(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "copied", &two(), &TABLES)?;
    let shared = case.directory.path().join("shared");
    std::fs::create_dir_all(&shared)?;
    let common = format!("catalog: sqlite://{0}/catalog.db\nwarehouse: {0}/warehouse", shared.display());
    let here = case.pipeline.clone().with(&common);
    let there = here.clone().lake_at(&case.directory.path().join("there"));
    let lake = Lake::new(&shared);
    let names = case.names(&TABLES);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();

    here.once()?;
    case.sql.run(CHANGES)?;
    // With an intent in it, which the first machine finishes.
    let mut command = here.command(&["run"])?;
    command.env("CALVE_FAILPOINT", "positions.intent-written");
    binary::finish(command, &here.log("killed"))?;
    copy_directory(&here.lake().positions(here.name()), &there.lake().positions(there.name()))?;
    here.once()?;
    case.sql.run(CHANGES)?;
    here.once()?;

    let (mut first, mut second) = (here.start()?, there.start()?);
    for round in 0..4 {
        for _ in 0..5 {
            case.sql.run(CHANGES)?;
        }
        // Either may have left, saying that somebody else is there.
        if round % 2 == 0 {
            first.kill()?;
            first = here.start()?;
        } else {
            second.kill()?;
            second = there.start()?;
        }
    }
    compare::await_same(&mut case.sql, &lake, &names)?;
    for process in [first, second] {
        process.kill()?;
    }
    for machine in [&there, &here] {
        case.sql.run(CHANGES)?;
        machine.once()?;
        compare::assert_same(&mut case.sql, &lake, &names)?;
    }
    case.pass()
}

/// The same keys change in two checkpoints, of which the first cannot be committed for a while: two snapshots in this order,
/// never one of both, in which the deletes of the second would not reach the rows of the first.
fn the_same_key_in_two_checkpoints_of_which_the_first_fails(server: &Server) -> anyhow::Result<()> {
    let schema = "create table t (id int primary key, n int); insert into t values (1, 0), (2, 0), (3, 0);";
    let mut case = BinlogCase::on(server, "twice", schema, &["t"])?;
    // Nothing else is committed meanwhile: others write to the same log.
    case.pipeline = case.pipeline.clone().checkpoint("idle_interval", "10m");
    case.once_and_same(&["t"])?;
    let namespace = case.database.name().to_owned();
    let before = case.lake().metadata(&namespace, "t")?.snapshots().len();
    let calve = case.pipeline.start()?;
    until("calve to read the log", || Ok(calve.log().contains("streaming begins")))?;
    let refusal = CatalogRefusal::begin(case.lake())?;
    case.sql.run(
        "begin; update t set n = 1 where id = 1; delete from t where id = 2; insert into t values (4, 1); commit",
    )?;
    until("the catalog to refuse the commit", || Ok(calve.log().contains(CatalogRefusal::SAYS)))?;
    case.sql.run(
        "begin; update t set n = 2 where id = 1; insert into t values (2, 2); delete from t where id = 4;
         update t set id = 5 where id = 3; commit",
    )?;
    // The first is still tried, and the second is cut behind it.
    let refused = calve.log().matches(CatalogRefusal::SAYS).count();
    until("the commit to be tried again", || Ok(calve.log().matches(CatalogRefusal::SAYS).count() > refused))?;
    drop(refusal);
    case.await_same(&["t"])?;
    calve.terminate()?;
    case.once_and_same(&["t"])?;

    let metadata = case.lake().metadata(&namespace, "t")?;
    let states = metadata.snapshots().into_iter().skip(before).map(|snapshot| {
        let rows = readers::duckdb(|duckdb| {
            Ok(duckdb.query_table(&metadata.at(&snapshot), "select id, n from t order by id, n")?)
        })?;
        let row = |row: &Vec<Option<String>>| row.iter().flatten().cloned().collect::<Vec<_>>().join("=");
        Ok(rows.rows.iter().map(row).collect::<Vec<_>>().join(" "))
    });
    let states = states.collect::<anyhow::Result<Vec<String>>>()?;
    ensure!(states == ["1=1 3=0 4=1", "1=2 2=2 5=0"], "the snapshots are {states:?}");
    case.pass()
}

fn copy_directory(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn files_below(directory: &Path) -> anyhow::Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() { files.extend(files_below(&path)?) } else { files.push(path) }
    }
    Ok(files)
}

/// No commit goes through for a while, and the same keys change meanwhile.
fn a_catalog_that_is_down_is_waited_for(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "catalog", &two(), &TABLES)?;
    case.once_and_same(&TABLES)?;
    let calve = case.pipeline.start()?;
    let lock = CatalogLock::hold(case.lake())?;
    for n in 0..5 {
        case.sql.run(&format!(
            "update a set v = 'locked {n}'; delete from b where id = 1; insert into b values (1, '{n}')"
        ))?;
        std::thread::sleep(Duration::from_millis(300));
    }
    drop(lock);
    case.await_same(&TABLES)?;
    calve.terminate()?;
    case.once_and_same(&TABLES)?;
    case.pass()
}

fn appended_rows_survive_beside_ours(server: &Server) -> anyhow::Result<()> {
    let schema =
        "create table t (id int primary key, v varchar(20)); insert into t values (1, 'v'), (2, 'v'), (3, 'v');";
    let mut case = BinlogCase::on(server, "append", schema, &["t"])?;
    let namespace = case.database.name().to_owned();
    case.once_and_same(&["t"])?;
    let calve = case.pipeline.start()?;
    for round in 0..2 {
        // Both at the same time: whoever comes second finds another snapshot than it knew.
        case.sql.run(&format!(
            "update t set v = 'r{round}' where id <= 2; insert into t values ({}, 'ours')",
            100 + round
        ))?;
        let row = format!("[{{\"id\": {}, \"v\": \"theirs\"}}]", 9000 + round);
        // pyiceberg itself gives up when ours was quicker.
        until("their row to be appended", || {
            Ok(foreign::change(case.lake(), &namespace, "t", &["append", &row]).is_ok())
        })?;
    }
    // Now the source has them too.
    case.sql.run("insert into t values (5000, 'last')")?;
    let expected = case.sql.rows(
        "select cast(id as char), v from t union select '9000', 'theirs' union select '9001', 'theirs' order by 1",
    )?;
    until("ours and theirs", || {
        let table = case.lake().table(&namespace, "t")?;
        let found = readers::duckdb(|duckdb| {
            Ok(duckdb.query_table(&table, "select cast(id as varchar) i, v from t order by i")?)
        });
        Ok(found.is_ok_and(|found| found.rows == expected))
    })?;
    calve.terminate()?;
    case.pass()
}

/// Rolled back by somebody, the table stops; the others go on, calve restarts, and what it missed is not forgotten.
fn a_table_that_was_rolled_back_stops_and_catches_up_by_a_reload(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "rollback", &two(), &TABLES)?;
    case.once_and_same(&TABLES)?;
    let namespace = case.database.name().to_owned();
    let loaded = case.lake().metadata(&namespace, "a")?.snapshots().last().map(|s| s.id).unwrap_or_default();
    case.sql.run(CHANGES)?;
    case.once_and_same(&TABLES)?;
    foreign::change(case.lake(), &namespace, "a", &["rollback", &loaded.to_string()])?;
    for _ in 0..2 {
        case.sql.run(CHANGES)?;
        let name = case.name("a");
        complains(&case.pipeline.finish(&["run", "--once"])?, 3, &[&name, "rolled back", "calve reload"])?;
        case.same(&["b"])?;
        case.stopped("a", &["rolled back"])?;
    }
    let calve = case.pipeline.start()?;
    case.sql.run(CHANGES)?;
    case.await_same(&["b"])?;
    case.sql.run("flush binary logs")?;
    case.reload(&["a"])?;
    case.sql.run(CHANGES)?;
    case.await_same(&TABLES)?;
    calve.terminate()?;
    case.once_and_same(&TABLES)?;
    case.pass()
}

on_every_server!(
    killed_between_any_two_steps_it_heals_by_itself,
    local_state_of_yesterday_lost_or_damaged_changes_nothing,
    local_state_copied_to_a_second_machine_changes_nothing,
    the_same_key_in_two_checkpoints_of_which_the_first_fails,
    a_catalog_that_is_down_is_waited_for,
    appended_rows_survive_beside_ours,
    a_table_that_was_rolled_back_stops_and_catches_up_by_a_reload,
);

/// Commits hang until the reader is full, for longer than the server waits for others (`net_write_timeout`): it keeps its
/// connection; and where it loses it all the same, it comes back to where it was.
fn a_reader_that_is_held_back_keeps_its_place(kind: Kind, version: &str) -> anyhow::Result<()> {
    let options = Options::default().set("net_write_timeout", "1").set("net_retry_count", "1");
    let server = Server::start(kind, version, &options)?;
    let schema = "create table t (id int primary key, v longtext, n int); insert into t values (0, 'x', 0);";
    let mut case = BinlogCase::on(&server, "held", schema, &["t"])?;
    // Little is taken in before it must be committed.
    case.pipeline = case.pipeline.clone().checkpoint("bytes", "4MiB");
    case.pipeline.once()?;
    let calve = case.pipeline.start()?;
    let dumps = "select id from information_schema.processlist where command like 'Binlog Dump%'";
    // The server may still be sending to the one before.
    until(
        "calve to read the log",
        || Ok(calve.log().contains("streaming begins") && case.sql.rows(dumps)?.len() == 1),
    )?;
    let dump = case.sql.value(dumps)?;
    let lock = CatalogLock::hold(case.lake())?;
    for n in 0..40 {
        let row = format!("insert into t values ({}, repeat('{n:03}', 700000), {n})", 100 + n);
        case.sql.run(&format!("{row}; update t set n = n + 1 where id < 3"))?;
    }
    std::thread::sleep(Duration::from_secs(4));
    ensure!(case.sql.value(dumps)? == dump, "the server gave up on its reader");
    case.sql.run(&format!("insert into t values (1000, 'last', 0); delete from t where id = 101; kill {dump}"))?;
    drop(lock);
    let asked = "select id, n, length(v) from t order by id";
    let expected = case.sql.rows(asked)?;
    until("the table to be as its source", || {
        let table = case.lake().table(case.database.name(), "t")?;
        let found = readers::duckdb(|duckdb| Ok(duckdb.query_table(&table, asked)?));
        Ok(found.is_ok_and(|found| found.rows == expected))
    })?;
    calve.terminate()?;
    case.pass()
}

on_every_version!(a_reader_that_is_held_back_keeps_its_place);

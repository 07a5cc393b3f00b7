//! Transactions that Postgres sends while they are in progress, which is what it does with large ones: here with all of more
//! than 64 kB.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, ensure};
use calve_integration::binary::{self, Running};
use calve_integration::pipeline::until;
use calve_integration::sql::Sql;
use calve_testkit::servers::{Postgres, REPLICATION_USER};

use crate::case::Case;

const SCHEMA: &str = "
    create table a (id int primary key, v text);
    create table b (id int primary key, v text);
    create table shape (id int primary key, v text);
    create table docs (id int primary key, n int, doc text);
    create table unfollowed (id int, v text);
    alter table docs alter doc set storage external;
    insert into a select i, 'a' from generate_series(1, 500) i;
    insert into docs select i, i, repeat('x', 4000) from generate_series(1, 200) i;";
const TABLES: [&str; 4] = ["public.a", "public.b", "public.shape", "public.docs"];

/// A case whose transactions are sent in progress from 64 kB on.
fn case(version: u32, label: &str) -> anyhow::Result<Case> {
    let mut case = Case::on(&*Postgres::shared(version)?, label, SCHEMA, &["public.*"])?;
    case.sql.run(&format!("alter database {} set logical_decoding_work_mem = '64kB'", case.database.name()))?;
    case.pipeline = case.pipeline.with("exclude: [public.unfollowed]").checkpoint("rows", "1000");
    Ok(case)
}

fn newest(label: &str) -> anyhow::Result<Case> {
    case(17, label)
}

fn writer(case: &Case) -> anyhow::Result<Sql> {
    Sql::connect(&case.database.url(REPLICATION_USER)?)
}

/// So many rows from a number on, of 100 bytes each.
fn rows(table: &str, from: u32, count: u32) -> String {
    format!(
        "insert into {table} select i, repeat('{}', 100) from generate_series({from}, {from} + {count} - 1) i;",
        &table[..1]
    )
}

/// How often the server sent a part of a transaction in progress.
fn sent(case: &mut Case) -> anyhow::Result<u64> {
    let slot = case.pipeline.slot();
    let count =
        format!("select coalesce(sum(stream_count), 0) from pg_stat_replication_slots where slot_name = '{slot}'");
    Ok(case.sql.value(&count)?.parse()?)
}

fn await_sent(case: &mut Case, before: u64) -> anyhow::Result<()> {
    until("a transaction in progress to be sent", || Ok(sent(case)? > before))
}

#[test]
fn transactions_in_turns_with_savepoints_rolled_back_at_every_depth() -> anyhow::Result<()> {
    for version in [15, 17, 18] {
        let mut case = case(version, &format!("in_turns_{version}"))?;
        let calve = case.pipeline.start()?;
        case.await_same(&TABLES)?;
        let (mut one, mut two, mut three) = (writer(&case)?, writer(&case)?, writer(&case)?);
        one.run(&format!("begin; {}", rows("a", 1_000, 2_000)))?;
        two.run(&format!("begin; {} {}", rows("unfollowed", 0, 3_000), rows("b", 1_000, 2_000)))?;
        three.run(&format!("begin; {}", rows("b", 10_000, 3_000)))?;
        for depth in 0..5 {
            one.run(&format!("savepoint s{depth}; update a set v = '{depth}' || repeat('x', 90) where id > 1000"))?;
            two.run(&format!(
                "savepoint s{depth}; delete from b where id % 7 = {depth}; {}",
                rows("b", 20_000 + depth * 1_000, 900)
            ))?;
        }
        case.sql.run("insert into a values (-1, 'beside')")?;
        one.run(&format!(
            "rollback to s3; {} rollback to s1; update a set v = 'kept' where id % 3 = 0",
            rows("a", 5_000, 2_000)
        ))?;
        two.run("release s3; rollback to s2; update b set id = id + 100000 where id % 5 = 0")?;
        three.run("update b set v = 'gone' where id >= 10000; rollback")?;
        two.run("commit")?;
        one.run(&format!(
            "savepoint t; truncate shape; {} rollback to t; {} commit",
            rows("shape", 0, 2_000),
            rows("shape", 0, 1_500)
        ))?;
        case.await_same(&TABLES)?;
        ensure!(sent(&mut case)? > 10, "Postgres {version} sent whole transactions");
        calve.terminate()?;
        case.same_by_spark(&["public.a", "public.b"])?;
        case.pass()?;
    }
    Ok(())
}

#[test]
fn every_kind_of_change_within_one() -> anyhow::Result<()> {
    let mut case = newest("every_kind")?;
    let calve = case.pipeline.start()?;
    case.await_same(&TABLES)?;
    for write in [
        // Rows before and after; what is rolled back changes the table too.
        &format!(
            "{} alter table shape add column w int; update shape set w = id where id < 1500; savepoint s; \
             alter table shape add column gone int; update shape set gone = 1; rollback to s; \
             alter table shape rename v to words; update shape set words = repeat('w', 100) where id % 2 = 0; {}",
            rows("shape", 0, 2_000),
            rows("shape (id, words)", 3_000, 1_000)
        ),
        &format!(
            "{} truncate b, a, unfollowed; {} delete from b where id < 10",
            rows("b", 0, 2_000),
            rows("b", 5, 2_000)
        ),
        "update b set id = -id; update b set id = id - 10000; update b set id = 30000 - id where id % 2 = 0",
        "update docs set n = n + 1; update docs set n = n + 1, doc = repeat('y', 3000) where id % 10 = 0; update docs set id = id + 1000",
    ] {
        let before = sent(&mut case)?;
        case.sql.run(&format!("begin; {write}; commit"))?;
        case.await_same(&TABLES).with_context(|| write.to_owned())?;
        ensure!(sent(&mut case)? > before, "sent whole: {write}");
    }
    assert_eq!(case.pipeline.state("public.shape")?.state, "streaming");
    calve.terminate()?;
    case.pass()
}

/// Files that a process has open which nobody else can see.
fn spools(calve: &Running) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{}/fd", calve.id()))? {
        if let Ok(target) = std::fs::read_link(entry?.path()) {
            found.extend(target.to_string_lossy().contains("calve-spool").then_some(target));
        }
    }
    Ok(found)
}

fn entries(directory: &Path) -> anyhow::Result<usize> {
    Ok(std::fs::read_dir(directory)?.count())
}

#[test]
fn killed_while_it_is_sent_and_while_it_is_handed_on() -> anyhow::Result<()> {
    let mut case = newest("killed_within")?;
    let spill = case.directory.path().join("spill");
    std::fs::create_dir(&spill)?;
    case.pipeline = case.pipeline.with(&format!("spill_dir: {}", spill.display()));
    case.once_and_same(&TABLES)?;
    // Left by a process that died in the moment of making it.
    std::fs::write(spill.join("calve-spool-left"), "")?;

    let calve = case.pipeline.start()?;
    let mut one = writer(&case)?;
    // More than stays in memory.
    one.run(&format!("begin; {} savepoint s; {} rollback to s", rows("a", 1_000, 150_000), rows("a", 500_000, 2_000)))?;
    until("changes to be put aside on disk", || Ok(!spools(&calve)?.is_empty()))?;
    assert_eq!((spools(&calve)?.len(), entries(&spill)?), (1, 0));
    calve.kill()?;
    assert_eq!(entries(&spill)?, 0, "a killed process leaves nothing on disk");

    let before = sent(&mut case)?;
    let calve = case.pipeline.start()?;
    await_sent(&mut case, before)?;
    calve.terminate()?;
    for (number, place) in ["writer.write.after", "writer.staged:3", "lake.commit.before"].into_iter().enumerate() {
        let mut command = case.pipeline.command(&["run"])?;
        command.env("CALVE_FAILPOINT", place);
        let before = sent(&mut case)?;
        let calve = Running::start(command, &case.pipeline.log(&format!("killed-{number}")))?;
        if number == 0 {
            await_sent(&mut case, before)?;
            one.run("update a set v = 'before the end' where id = 1000; commit")?;
        }
        let killed = calve.wait(binary::PATIENCE)?;
        ensure!(killed.signal == Some(6), "{place} was not reached: {killed:?}");
    }
    case.once_and_same(&TABLES)?;
    assert_eq!(entries(&spill)?, 0);
    case.pass()
}

#[test]
fn in_progress_over_restarts_it_holds_nothing_up() -> anyhow::Result<()> {
    let mut case = newest("over_restarts")?;
    case.once_and_same(&TABLES)?;
    let mut one = writer(&case)?;
    one.run(&format!("begin; {}", rows("a", 1_000, 3_000)))?;
    for round in 0..3 {
        let before = sent(&mut case)?;
        let calve = case.pipeline.start()?;
        await_sent(&mut case, before)?;
        // The others go on, and the server may forget its log, though not what it needs of this transaction itself.
        case.sql.run(&format!("insert into b values ({round}, 'beside')"))?;
        case.await_same(&["public.b"])?;
        case.sql.run(&rows("unfollowed", 0, 300))?;
        let end = case.log_end()?;
        until("the slot to move on", || case.acknowledged_to(&end))?;
        one.run(&format!("update a set v = repeat('{round}', 50) where id > 1000"))?;
        if round == 1 { drop(calve.kill()?) } else { drop(calve.terminate()?) }
    }
    one.run("commit")?;
    case.once_and_same(&TABLES)?;
    case.pass()
}

#[test]
fn in_progress_when_a_load_begins_and_committed_while_it_runs() -> anyhow::Result<()> {
    let mut case = newest("over_loads")?;
    case.sql.run(&rows("b", 0, 20_000))?;
    let mut one = writer(&case)?;
    one.run(&format!("begin; {} delete from b where id < 100", rows("a", 1_000, 2_000)))?;
    // The slot is made, and the first load begins, when what was in progress has ended.
    let calve = case.pipeline.start()?;
    until("the slot to be asked for", || {
        Ok(case.sql.value("select count(*) from pg_replication_slots where database = current_database()")? != "0")
    })?;
    one.run(&format!("{} commit", rows("a", 5_000, 2_000)))?;
    case.await_same(&TABLES)?;

    // Tables are read again while one transaction after the other is sent in progress, each committed or not.
    let before = sent(&mut case)?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| {
            for number in 0.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let end = if number % 4 == 3 { "rollback" } else { "commit" };
                one.run(&format!(
                    "begin; update b set v = '{number}' || repeat('u', 60) where id % 5 = {0}; savepoint s; delete from b where id % 3 = 0; \
                     rollback to s; update a set id = id + 20000 where id % 50 = {0} and id < 100000; {end}",
                    number % 5
                ))?;
            }
            anyhow::Ok(())
        });
        let reloads = (0..3).try_for_each(|_| {
            case.pipeline.finish(&["reload", "public.b"])?.expect_success()?;
            case.pipeline.finish(&["reload", "public.a"])?.expect_success().map(drop)
        });
        done.store(true, Ordering::Relaxed);
        writes.join().expect("the writer does not panic").and(reloads)
    })?;
    case.await_same(&TABLES)?;
    ensure!(sent(&mut case)? > before, "the server sent whole transactions");
    calve.terminate()?;
    case.once_and_same(&TABLES)?;
    case.pass()
}

#[test]
fn a_directory_without_room_is_named_and_nothing_is_lost() -> anyhow::Result<()> {
    let mut case = newest("no_room")?;
    let spill = case.directory.path().join("missing");
    case.pipeline = case.pipeline.with(&format!("spill_dir: {}", spill.display()));
    let calve = case.pipeline.start()?;
    case.await_same(&TABLES)?;
    case.sql.run(&rows("a", 1_000, 150_000))?;
    let directory = spill.display().to_string();
    until("the directory to be named", || {
        Ok(calve.log().lines().any(|line| line.contains("cannot be put aside in") && line.contains(&directory)))
    })?;
    std::fs::create_dir(&spill)?;
    case.await_same(&TABLES)?;
    calve.terminate()?;
    case.pass()
}

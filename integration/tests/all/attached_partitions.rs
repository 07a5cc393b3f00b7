//! Partitioned tables of Postgres whose partitions come with rows, and go with theirs: the catalog tells, for the log does not.

use anyhow::ensure;
use calve_integration::compare::{self, Pair};
use calve_integration::pipeline::until;
use calve_integration::readers;

use crate::case::{Case, complains};

const TABLES: &str = "create table t (id int primary key, v text) partition by range (id);
     create table t0 partition of t for values from (0) to (100); create table t1 partition of t for values from (100) to (200);
     create table t2 partition of t for values from (200) to (300);
     insert into t select i, 'v' || i from generate_series(0, 299) i;
     create table steady (id int primary key, v text); insert into steady values (1, 'a');";
const BOTH: [&str; 2] = ["public.t", "public.steady"];
/// One that is made, filled and attached.
const ATTACHED: &str =
    "create table t3 (id int primary key, v text); insert into t3 values (300, 'with it'), (301, 'with it');
     alter table t attach partition t3 for values from (300) to (400);";

/// The table stopped with this state and these words, and is read again.
fn stopped(case: &mut Case, state: &str, words: &str) -> anyhow::Result<()> {
    let found = case.pipeline.await_state("public.t", "stopped")?;
    ensure!(found.reason.contains(state) && found.reason.contains(words), "not {state}, {words}: {found:?}");
    case.pipeline.finish(&["reload", "public.t"])?.expect_success()?;
    Ok(())
}

/// Keys of rows that went with their partitions come again before anybody notices.
#[test]
fn keys_of_partitions_that_went_come_again_once() -> anyhow::Result<()> {
    let expected = "create schema lake; create table lake.expected (id int primary key, v text);
                    insert into lake.expected select * from t;";
    let mut case = Case::new("moving_partitions", &format!("{TABLES}{expected}"), &BOTH)?;
    case.pipeline = case.pipeline.clone().with("schema_changes: {drop_partition: ignore}\n");
    case.once_and_same(&BOTH)?;
    let newer = |case: &mut Case, id: u32, v: &str| {
        case.sql.run(&format!("insert into t values ({id}, '{v}'); update lake.expected set v = '{v}' where id = {id}"))
    };
    case.sql.run("truncate t1")?;
    newer(&mut case, 150, "away")?;
    case.pipeline.once()?;
    same_as_expected(&mut case)?;
    let calve = case.pipeline.start()?;
    until("it to stream", || Ok(calve.log().contains("streaming begins")))?;
    case.sql.run("begin; alter table t detach partition t2; create table t22 partition of t for values from (200) to (300); commit")?;
    newer(&mut case, 250, "at once")?;
    until("both to be told of", || Ok(calve.log().contains("public.t2 was detached")))?;
    newer(&mut case, 251, "later")?;
    calve.terminate()?;
    case.pipeline.once()?;
    same_as_expected(&mut case)?;
    case.pass()
}

fn same_as_expected(case: &mut Case) -> anyhow::Result<()> {
    let (lake, pair) = (case.lake().clone(), Pair::new(("lake", "expected"), ("public", "t")));
    let differences = readers::duckdb(|duckdb| compare::compare(&mut case.sql, &lake, &pair, duckdb))?;
    ensure!(differences.is_empty(), "rows are not as expected:\n{differences}");
    Ok(())
}

/// While calve runs, and while it is away.
#[test]
fn rows_that_come_and_go_with_partitions_stop_their_table() -> anyhow::Result<()> {
    let changes = [
        (ATTACHED, "rows unknown", "public.t3 was attached with rows"),
        ("alter table t detach partition t3; drop table t3", "rows gone", "was detached or dropped"),
        ("truncate t1", "rows gone", "public.t1 was truncated"),
        (
            "insert into t1 values (100, 'new'); truncate t2; insert into t2 values (200, 'new')",
            "rows gone",
            "public.t2 was truncated",
        ),
    ];
    let mut case = Case::new("moving_partitions", TABLES, &BOTH)?;
    case.once_and_same(&BOTH)?;
    let calve = case.pipeline.start()?;
    until("it to stream", || Ok(calve.log().contains("streaming begins")))?;
    for (change, state, words) in &changes {
        case.sql.run(change)?;
        stopped(&mut case, state, words)?;
        case.sql.run("update t set v = v || 'x' where id % 7 = 0; update steady set v = v || 'y'")?;
        case.await_same(&BOTH)?;
    }
    calve.terminate()?;
    for (change, state, words) in &changes {
        case.sql.run(change)?;
        case.sql.run("update steady set v = v || 'z'")?;
        complains(&case.pipeline.finish(&["run", "--once"])?, 3, &["public.t"])?;
        case.same(&["public.steady"])?;
        stopped(&mut case, state, words)?;
        case.once_and_same(&BOTH)?;
    }
    case.same_by_spark(&BOTH)?;
    case.pass()
}

/// Partitions that come empty, and rows in them, are the everyday: by day, hour or customer. So is what maintenance does to files,
/// and a TRUNCATE of the whole table.
#[test]
fn partitions_that_come_empty_are_followed() -> anyhow::Result<()> {
    let mut case = Case::new("moving_partitions", TABLES, &BOTH)?;
    case.once_and_same(&BOTH)?;
    let empty = |n: u32| {
        format!(
            "create table t{n} partition of t for values from ({n}00) to ({}00); insert into t values ({n}00, 'first');
             create table t{n}x (like t including all); alter table t attach partition t{n}x for values from ({}00) to ({}00)",
            n + 1,
            n + 1,
            n + 2
        )
    };
    // Away: filled before anybody looked.
    case.sql.run(&empty(4))?;
    case.once_and_same(&BOTH)?;
    case.sql.run("truncate t; insert into t values (1, 'a'), (101, 'b'), (401, 'c')")?;
    case.once_and_same(&BOTH)?;
    // What was in the log once is not in it again: it is remembered.
    case.once_and_same(&BOTH)?;
    case.sql.run("truncate t, steady")?;
    for place in ["positions.intent-written", "lake.commit.after", "positions.advanced"] {
        case.pipeline.dies_at(place, &["run", "--once"])?;
        case.sql.run("truncate t; insert into t select i, 'again' from generate_series(0, 299) i")?;
    }
    case.once_and_same(&BOTH)?;
    case.once_and_same(&BOTH)?;

    let mut calve = case.pipeline.start()?;
    until("it to stream", || Ok(calve.log().contains("streaming begins")))?;
    case.sql.run(&empty(6))?;
    case.sql.run("vacuum full t0")?;
    case.sql.run("truncate t")?;
    case.sql.run("insert into t values (5, 'five'), (601, 'six')")?;
    case.await_same(&BOTH)?;
    calve.kill()?;
    calve = case.pipeline.start()?;
    case.sql.run("insert into t values (6, 'six'), (602, 'six')")?;
    case.await_same(&BOTH)?;
    // Longer than it takes to look.
    std::thread::sleep(std::time::Duration::from_secs(6));
    case.sql.run("insert into t values (7, 'seven')")?;
    case.await_same(&BOTH)?;
    calve.terminate()?;
    case.once_and_same(&BOTH)?;
    case.pass()
}

/// Who drops old partitions by retention may keep their rows in the lake.
#[test]
fn rows_of_partitions_that_are_dropped_may_stay() -> anyhow::Result<()> {
    let mut case = Case::new("moving_partitions", TABLES, &BOTH)?;
    let plain = case.pipeline.clone();
    case.pipeline = plain.clone().with("schema_changes: {drop_partition: ignore, otherwise: stop}\n");
    case.once_and_same(&BOTH)?;
    case.sql.run("drop table t0; update t set v = 'new' where id = 150; delete from t where id > 250")?;
    let first = case.pipeline.once()?;
    ensure!(first.stderr.matches("ignored, as schema_changes says").count() > 0, "nothing was said: {}", first.stderr);
    // Kept, but known: not said again.
    let second = case.pipeline.once()?;
    ensure!(!second.stderr.contains("ignored, as"), "said again: {}", second.stderr);
    let finished = case.pipeline.finish(&["verify", "public.t"])?;
    ensure!(finished.code != Some(0), "rows that the source has no longer are equal to it");
    case.sql.run("truncate t1; insert into t values (150, 'newer')")?;
    let third = case.pipeline.once()?;
    ensure!(third.stderr.contains("public.t1 was truncated"), "nothing was said: {}", third.stderr);
    // Rows that came are another matter.
    case.sql.run(ATTACHED)?;
    case.sql.run("update steady set v = 'on'")?;
    complains(&case.pipeline.finish(&["run", "--once"])?, 3, &["public.t"])?;
    stopped(&mut case, "rows unknown", "attached with rows")?;
    case.once_and_same(&BOTH)?;

    // Read again by itself, where that is wanted.
    case.pipeline = plain.with("schema_changes: {drop_partition: reload}\n");
    case.sql.run("alter table t detach partition t3")?;
    case.once_and_same(&BOTH)?;
    case.pass()
}

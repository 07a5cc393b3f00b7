//! Somebody else writes to the tables: it survives, and so do ours; or the table stops and says so.

use anyhow::ensure;
use calve_integration::foreign::{self, CatalogLock};
use calve_integration::readers;
use calve_testkit::readers::Reader;

use crate::case::{Case, complains};

const ONE: &str = "
    create table t (id int primary key, v text); create table other (id int primary key);
    insert into t select i, 'v' from generate_series(1, 20) i;";

fn rows(case: &Case, sql: &str) -> anyhow::Result<Vec<String>> {
    let table = case.lake().table("public", "t")?;
    let rows = readers::duckdb(|duckdb| Ok(duckdb.query_table(&table, sql)?))?;
    Ok(rows.rows.into_iter().map(|row| row[0].clone().unwrap_or_default()).collect())
}

#[test]
fn appended_rows_survive_beside_ours() -> anyhow::Result<()> {
    let mut case = Case::new("append", ONE, &["public.*"])?;
    case.once_and_same(&["public.t"])?;
    let calve = case.pipeline.start()?;
    for round in 0..4 {
        // Both at the same time: whoever comes second finds another snapshot than it knew.
        case.sql.run(&format!(
            "update t set v = 'r{round}' where id <= 5; insert into t values ({}, 'ours')",
            100 + round
        ))?;
        let row = format!("[{{\"id\": {}, \"v\": \"theirs\"}}]", 9000 + round);
        // pyiceberg itself gives up when ours was quicker.
        while foreign::change(case.lake(), "public", "t", &["append", &row]).is_err() {}
    }
    case.sql.run("insert into t values (5000, 'last')")?;
    calve_integration::pipeline::until("our last row", || {
        Ok(rows(&case, "select id from t where id = 5000")?.len() == 1)
    })?;
    calve.terminate()?;
    ensure!(rows(&case, "select id from t where v = 'theirs' order by id")? == ["9000", "9001", "9002", "9003"]);
    // Without theirs it is the source's, to the last value.
    let ours = case.sql.rows("select id || ' ' || v from t order by id")?;
    let ours: Vec<String> = ours.into_iter().map(|row| row[0].clone().unwrap_or_default()).collect();
    ensure!(rows(&case, "select id || ' ' || v from t where v <> 'theirs' order by id")? == ours);
    case.pass()
}

#[test]
fn a_table_that_was_rolled_back_stops() -> anyhow::Result<()> {
    let mut case = Case::new("rollback", ONE, &["public.*"])?;
    case.once_and_same(&["public.t"])?;
    let loaded = case.lake().metadata("public", "t")?.snapshots().last().map(|s| s.id).unwrap_or_default();
    for n in 0..3 {
        case.sql.run(&format!("insert into t values ({}, 'x')", 100 + n))?;
        case.pipeline.once()?;
    }
    foreign::change(case.lake(), "public", "t", &["rollback", &loaded.to_string()])?;
    case.sql.run("insert into t values (200, 'y'); insert into other values (1)")?;
    complains(&case.pipeline.finish(&["run", "--once"])?, 3, &["public.t", "rolled back", "calve reload public.t"])?;
    case.same(&["public.other"])?;
    let state = case.pipeline.state("public.t")?;
    ensure!(state.state == "stopped" && state.reason.contains("rolled back"), "{state:?}");
    case.pipeline.finish(&["reload", "public.t"])?.expect_success()?;
    case.once_and_same(&["public.t", "public.other"])?;
    case.pass()
}

#[test]
fn a_table_rolled_back_while_calve_runs_stops_too() -> anyhow::Result<()> {
    let mut case = Case::new("rollback_live", ONE, &["public.*"])?;
    let calve = case.pipeline.start()?;
    case.await_same(&["public.t"])?;
    let loaded = case.lake().metadata("public", "t")?.snapshots().last().map(|s| s.id).unwrap_or_default();
    case.sql.run("insert into t values (100, 'x')")?;
    case.await_same(&["public.t"])?;
    while foreign::change(case.lake(), "public", "t", &["rollback", &loaded.to_string()]).is_err() {}
    case.sql.run("insert into t values (101, 'y')")?;
    case.pipeline.await_state("public.t", "stopped")?;
    case.pipeline.finish(&["reload", "public.t"])?.expect_success()?;
    case.await_same(&["public.t"])?;
    calve.terminate()?;
    case.pass()
}

/// Spark rewrites the table's files through a catalog of its own, and the result is put into ours.
#[test]
fn a_compaction_between_ours_changes_nothing() -> anyhow::Result<()> {
    let mut case = Case::new("compaction", ONE, &["public.*"])?;
    case.once_and_same(&["public.t"])?;
    for n in 0..4 {
        case.sql.run(&format!(
            "update t set v = 'n{n}' where id % 3 = 0; delete from t where id = {}; insert into t values ({}, 'z')",
            n + 1,
            50 + n
        ))?;
        case.pipeline.once()?;
    }
    foreign::compact(case.lake(), "public", "t")?;
    case.same(&["public.t"])?;
    let compacted = readers::metadata(|reader| Ok(reader.describe(&case.lake().table("public", "t")?)?))?;
    let data = compacted["files"].as_array().map_or(0, |files| files.iter().filter(|f| f["content"] == "data").count());
    ensure!(data == 1, "nothing was compacted: {compacted}");
    case.sql.run("update t set v = 'after' where id < 10; delete from t where id = 51")?;
    case.once_and_same(&["public.t"])?;
    case.same_by_spark(&["public.t"])?;
    case.pass()
}

#[test]
fn a_schema_changed_by_somebody_else() -> anyhow::Result<()> {
    let mut case = Case::new("their_schema", ONE, &["public.*"])?;
    case.once_and_same(&["public.t"])?;
    foreign::change(case.lake(), "public", "t", &["add-column", "theirs"])?;
    case.sql
        .run("update t set v = 'after' where id = 1; delete from t where id = 2; insert into t values (100, 'new')")?;
    let finished = case.pipeline.finish(&["run", "--once"])?;
    if finished.code == Some(0) {
        // Adapted: our columns equal the source's, theirs is empty.
        case.sql.run("alter table t add column theirs text")?;
        case.same(&["public.t"])?;
    } else {
        complains(&finished, 3, &["public.t", "calve reload"])?;
    }
    case.pass()
}

#[test]
fn a_partition_spec_changed_by_somebody_else() -> anyhow::Result<()> {
    let mut case = Case::new("their_spec", ONE, &["public.*"])?;
    case.once_and_same(&["public.t"])?;
    foreign::change(case.lake(), "public", "t", &["add-partition", "id"])?;
    case.sql
        .run("update t set v = 'after' where id = 1; delete from t where id = 2; insert into t values (100, 'new')")?;
    let finished = case.pipeline.finish(&["run", "--once"])?;
    if finished.code == Some(0) {
        case.same(&["public.t"])?;
    } else {
        let says = finished.complaint().unwrap_or_default().to_owned();
        ensure!(says.contains("public.t") && says.contains("partition"), "{finished:?}");
    }
    case.pass()
}

#[test]
fn a_locked_catalog_is_waited_for_and_then_said() -> anyhow::Result<()> {
    let mut case = Case::new("locked", ONE, &["public.*"])?;
    case.once_and_same(&["public.t"])?;
    let calve = case.pipeline.start()?;
    let lock = CatalogLock::hold(case.lake())?;
    for n in 0..5 {
        // The same keys, checkpoint after checkpoint, none of which can be committed.
        case.sql.run(&format!(
            "update t set v = 'locked {n}'; delete from t where id = 1; insert into t values (1, '{n}')"
        ))?;
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    drop(lock);
    case.await_same(&["public.t"])?;
    calve.terminate()?;
    case.once_and_same(&["public.t"])?;
    case.pass()
}

//! Loads: of a table that is new to the pipeline, of one that is read again, of one that is killed on the way.

use std::path::Path;

use calve_integration::pipeline::until;
use calve_integration::readers;

use crate::case::Case;

const TWO: &str = "
    create table a (id int primary key, v text);
    create table b (id int primary key, v text);
    insert into a select i, 'a' from generate_series(1, 200) i;
    insert into b select i, 'b' from generate_series(1, 20000) i;";

#[test]
fn a_table_that_matches_later_is_loaded_while_the_others_stream() -> anyhow::Result<()> {
    let mut case = Case::new("added", TWO, &["public.*"])?;
    case.once_and_same(&["public.a", "public.b"])?;
    case.sql.run(
        "create table c (id int primary key, v text); insert into c select i, 'c' from generate_series(1, 30000) i",
    )?;
    let calve = case.pipeline.start()?;
    case.sql.run("update a set v = 'streamed'; insert into c values (0, 'beside'); delete from c where id = 3")?;
    case.await_same(&["public.a", "public.b", "public.c"])?;
    case.sql.run("update c set v = 'later' where id < 10")?;
    case.await_same(&["public.c"])?;
    calve.terminate()?;
    case.once_and_same(&["public.a", "public.b", "public.c"])?;
    case.pass()
}

#[test]
fn a_table_is_read_again_beside_the_running_process() -> anyhow::Result<()> {
    let mut case = Case::new("reload", TWO, &["public.*"])?;
    let calve = case.pipeline.start()?;
    case.await_same(&["public.a", "public.b"])?;
    let before = case.lake().metadata("public", "b")?;
    let reload = case.pipeline.finish(&["reload", "public.b"])?.expect_success()?;
    assert!(reload.stdout.contains("public.b: replaced"), "{}", reload.stdout);
    case.sql.run("update b set v = 'after' where id = 7; update a set v = 'after' where id = 7")?;
    case.await_same(&["public.a", "public.b"])?;
    // Replaced in one commit: no snapshot in between is empty.
    let after = case.lake().metadata("public", "b")?;
    assert_eq!(before.json()["table-uuid"], after.json()["table-uuid"]);
    for snapshot in after.snapshots() {
        let records = snapshot.summary["total-records"].as_str().unwrap_or("0");
        assert_ne!(records, "0", "a snapshot of b is empty: {snapshot:?}");
    }
    calve.terminate()?;
    case.pass()
}

#[test]
fn a_table_is_read_again_without_a_running_process() -> anyhow::Result<()> {
    let mut case = Case::new("reload_alone", TWO, &["public.*"])?;
    case.once_and_same(&["public.a", "public.b"])?;
    case.sql.run("update a set v = 'while away' where id > 100")?;
    case.pipeline.finish(&["reload", "public.a"])?.expect_success()?;
    case.once_and_same(&["public.a", "public.b"])?;
    let refused = case.pipeline.finish(&["reload", "public.nothing"])?.expect_code(2)?;
    assert!(refused.complaint().is_some_and(|line| line.contains("public.nothing")), "{:?}", refused.complaint());
    case.pass()
}

/// A load that is killed leaves nothing behind: no slot, and no file once the next one is through.
#[test]
fn a_killed_load_starts_again_and_leaves_no_trace() -> anyhow::Result<()> {
    let mut case = Case::new("killed_load", TWO, &["public.*"])?;
    for place in
        ["source.start_load.after", "load.file-written", "load.finish.after", "load.commit.before", "load.commit.after"]
    {
        case.pipeline.dies_at(place, &["run", "--once"])?;
    }
    case.once_and_same(&["public.a", "public.b"])?;
    case.sql.run("update a set v = 'x'; update b set v = 'x' where id = 1")?;
    case.once_and_same(&["public.a", "public.b"])?;
    let name = case.database.name().to_owned();
    let slots = format!("select count(*) from pg_replication_slots where database = '{name}'");
    until("the killed processes' slots to go", || Ok(case.sql.value(&slots)? == "1"))?;
    for table in ["a", "b"] {
        let known = files_of_all_snapshots(&case, table)?;
        let there = files_in(&case.lake().path().join("warehouse/public").join(table).join("data"))?;
        let stray: Vec<_> =
            there.iter().filter(|file| !known.iter().any(|path| path.ends_with(file.as_str()))).collect();
        assert!(stray.is_empty(), "{table} has files that nothing refers to: {stray:?}");
    }
    case.pass()
}

fn files_of_all_snapshots(case: &Case, table: &str) -> anyhow::Result<Vec<String>> {
    let metadata = case.lake().metadata("public", table)?;
    let mut files = Vec::new();
    for snapshot in metadata.snapshots() {
        let described = readers::metadata(|reader| Ok(reader.describe(&metadata.at(&snapshot))?))?;
        let listed = described["files"].as_array().into_iter().flatten();
        files.extend(listed.filter_map(|file| file["path"].as_str().map(str::to_owned)));
    }
    Ok(files)
}

fn files_in(directory: &Path) -> anyhow::Result<Vec<String>> {
    let entries = std::fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    entries.collect()
}

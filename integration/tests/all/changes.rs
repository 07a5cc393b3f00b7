//! Changes of rows in all their orders, within a checkpoint and across several.

use calve_integration::readers;
use calve_testkit::readers::Reader;

use crate::case::Case;

const ROWS: &str = "
    create table t (id int primary key, v text);
    insert into t select i, 'old ' || i from generate_series(1, 40) i;";

/// Everything up to a restart is one checkpoint: the interval is longer than the test.
fn in_one_checkpoint(label: &str, schema: &str, tables: &[&str], changes: &str) -> anyhow::Result<Case> {
    let mut case = Case::new(label, schema, tables)?;
    case.pipeline = case.pipeline.clone().checkpoint("interval", "1h");
    case.once_and_same(tables)?;
    let before: Vec<usize> = snapshots(&case, tables)?;
    case.sql.run(changes)?;
    case.once_and_same(tables)?;
    for (table, (before, after)) in tables.iter().zip(before.into_iter().zip(snapshots(&case, tables)?)) {
        assert!(after <= before + 1, "{table}: one checkpoint made {} snapshots", after - before);
    }
    Ok(case)
}

fn snapshots(case: &Case, tables: &[&str]) -> anyhow::Result<Vec<usize>> {
    let name = |table: &str| table.trim_start_matches("public.").to_owned();
    tables.iter().map(|table| Ok(case.lake().metadata("public", &name(table))?.snapshots().len())).collect()
}

#[test]
fn only_the_last_state_of_a_key_counts() -> anyhow::Result<()> {
    let changes = "
        insert into t values (100, 'gone'); delete from t where id = 100;
        insert into t values (101, 'first'); update t set v = 'last' where id = 101;
        delete from t where id = 1; insert into t values (1, 'reborn');
        update t set v = 'x' where id = 2; delete from t where id = 2;
        update t set v = 'x' where id = 3; update t set v = 'y' where id = 3; update t set v = null where id = 3;
        delete from t where id = 4; insert into t values (4, 'x'); delete from t where id = 4;
        insert into t values (102, 'a'); delete from t where id = 102; insert into t values (102, 'b');
        begin; delete from t where id = 5; insert into t values (5, 'same transaction'); commit;
        update t set v = v where id = 6;
        begin; update t set v = 'kept'; rollback;
        begin; insert into t values (103, 'x'); savepoint s; update t set v = 'no' where id = 103; rollback to s; commit;";
    let mut case = in_one_checkpoint("fold", ROWS, &["public.t"], changes)?;
    case.same_by_spark(&["public.t"])?;
    case.pass()
}

#[test]
fn keys_change_and_trade_places() -> anyhow::Result<()> {
    let schema = "
        create table t (id int primary key, v text);
        create table pairs (a int, b text, v text, primary key (b, a));
        insert into t select i, 'row ' || i from generate_series(1, 40) i;
        insert into pairs select i, b, 'row ' || i || b from generate_series(1, 20) i, unnest(array['x', 'y']) b;";
    let changes = "
        update t set id = 100 where id = 1;
        update t set id = 101 where id = 2; update t set id = 102 where id = 101;
        update t set id = 103 where id = 3; update t set id = 3 where id = 103;
        begin; update t set id = -1 where id = 4; update t set id = 4 where id = 5; update t set id = 5 where id = -1; commit;
        begin; update t set id = -1 where id = 6; update t set id = 6 where id = 7; update t set id = 7 where id = 8;
               update t set id = 8 where id = -1; commit;
        update t set id = 104, v = 'moved' where id = 9; insert into t values (9, 'new');
        delete from t where id = 10; update t set id = 10 where id = 11;
        update t set id = 105 where id = 12; delete from t where id = 105;
        update t set id = id + 1000 where id between 20 and 30;
        update pairs set a = a + 100 where b = 'x'; update pairs set b = 'z' where a = 3;
        begin; update pairs set a = 0 where (a, b) = (5, 'y'); update pairs set a = 5 where (a, b) = (6, 'y');
               update pairs set a = 6 where (a, b) = (0, 'y'); commit;
        update pairs set a = 7777, b = 'w' where (a, b) = (8, 'y'); delete from pairs where a = 9;";
    let tables = ["public.t", "public.pairs"];
    let mut case = in_one_checkpoint("keys", schema, &tables, changes)?;
    case.same_by_spark(&tables)?;
    // The same again, each statement seen by a running calve with checkpoints in between.
    case.pipeline = case.pipeline.clone().checkpoint("interval", "1ms");
    let calve = case.pipeline.start()?;
    for _ in 0..3 {
        case.sql.run(
            "begin; update t set id = -1 where id = 4; update t set id = 4 where id = 5; update t set id = 5 where id = -1; commit;
             update t set id = id + 1 where id = (select max(id) from t); update pairs set a = a + 1 where b = 'w'",
        )?;
        case.await_same(&tables)?;
    }
    calve.terminate()?;
    case.pass()
}

#[test]
fn a_truncate_empties_every_table_it_names() -> anyhow::Result<()> {
    let schema = "
        create table parents (id int primary key, v text);
        create table children (id int primary key, parent int references parents);
        create table others (id int primary key);
        create table emptied (id int primary key, v text);
        insert into parents select i, 'p' from generate_series(1, 50) i;
        insert into children select i, i from generate_series(1, 50) i;
        insert into others select generate_series(1, 50);
        insert into emptied select generate_series(1, 50), 'e';";
    let changes = "
        begin; insert into others values (51); truncate parents cascade; insert into parents values (1, 'after'), (99, 'after');
               insert into children values (7, 99); update parents set v = 'again' where id = 1; commit;
        begin; delete from others where id = 51; truncate others; insert into others values (3); commit;
        insert into others values (4);
        truncate emptied; insert into emptied values (1, 'short'); truncate emptied;";
    let tables = ["public.parents", "public.children", "public.others", "public.emptied"];
    let mut case = in_one_checkpoint("truncate", schema, &tables, changes)?;
    case.same_by_spark(&tables)?;

    let calve = case.pipeline.clone().checkpoint("interval", "50ms").start()?;
    case.sql.run("truncate parents, children, others; insert into others values (1000)")?;
    case.await_same(&tables)?;
    calve.terminate()?;
    case.pass()
}

#[test]
fn a_transaction_beyond_a_checkpoint_is_seen_at_once() -> anyhow::Result<()> {
    let mut case = Case::new("large", ROWS, &["public.t"])?;
    case.pipeline = case.pipeline.clone().checkpoint("rows", "100");
    case.once_and_same(&["public.t"])?;
    case.sql.run(
        "begin; insert into t select i, 'a' from generate_series(41, 700) i; update t set v = 'b' where id % 2 = 0;
         update t set v = v || 'c'; delete from t where id % 5 = 0; insert into t select i, 'd' from generate_series(0, 700, 5) i;
         update t set id = id + 10000 where id % 7 = 0; update t set v = 'e' where id > 600; commit",
    )?;
    case.once_and_same(&["public.t"])?;
    case.same_by_spark(&["public.t"])?;
    // Whoever looks sees all of it or nothing: the parts are snapshots that no position names.
    let complete = case.lake().metadata("public", "t")?.snapshots().iter().filter(|s| s.checkpoint().is_some()).count();
    assert_eq!(complete, 2, "the load and the transaction, each at a position");
    case.pass()
}

#[test]
fn old_values_are_not_found_and_deletes_hold_keys_only() -> anyhow::Result<()> {
    let mut case = Case::new("prune", ROWS, &["public.t"])?;
    case.once_and_same(&["public.t"])?;
    case.sql.run("update t set v = 'new ' || id where id between 10 and 20; delete from t where id = 30")?;
    case.once_and_same(&["public.t"])?;
    let table = case.lake().table("public", "t")?;
    let count = |reader: &mut dyn Reader, condition: &str| -> anyhow::Result<String> {
        let rows = reader.query_table(&table, &format!("select count(*) from t where {condition}"))?;
        Ok(rows.single().unwrap_or_default().to_owned())
    };
    for (condition, expected) in
        [("v = 'old 15'", "0"), ("id = 30", "0"), ("v = 'new 15'", "1"), ("v like 'old%'", "28"), ("id = 15", "1")]
    {
        assert_eq!(readers::duckdb(|duckdb| count(duckdb, condition))?, expected, "DuckDB: {condition}");
        assert_eq!(readers::spark(|spark| count(spark, condition))?, expected, "Spark: {condition}");
    }
    let described = readers::metadata(|reader| Ok(reader.describe(&table)?))?;
    let key = &described["identifier_field_ids"];
    let files = described["files"].as_array().expect("files are listed");
    let deletes: Vec<_> = files.iter().filter(|file| file["content"] == "equality deletes").collect();
    assert!(!deletes.is_empty(), "{described}");
    for file in deletes {
        assert_eq!(&file["equality_ids"], key);
        let bounded: Vec<&String> = file["lower"].as_object().expect("bounds are listed").keys().collect();
        assert!(bounded.iter().all(|column| *column == "id"), "a delete file knows of {bounded:?}");
    }
    case.pass()
}

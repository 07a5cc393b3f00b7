//! The source's table changes its shape. Where rows in the lake can follow, they do; where not, that table stops, says so, and
//! comes back. No other notices.

use calve_integration::compare::{self, Pair};
use calve_integration::pipeline::until;
use calve_integration::readers;
use calve_testkit::readers::Reader;

use crate::case::Case;

const TWO: &str = "
    create table steady (id int primary key, v text);
    create table altered (id int primary key, v text, gone int);
    insert into steady select i, 's' from generate_series(1, 20) i;
    insert into altered select i, 'a', i from generate_series(1, 20) i;";

/// Stops by the change, tells so, catches up with nothing lost once it is read again.
fn stops_and_comes_back(label: &str, change: &str, write: &str, says: &[&str]) -> anyhow::Result<Case> {
    let mut case = Case::new(label, TWO, &["public.*"])?;
    case.once_and_same(&["public.steady", "public.altered"])?;
    let calve = case.pipeline.start()?;
    case.sql.run("update altered set v = 'before' where id = 1")?;
    case.await_same(&["public.altered"])?;
    case.sql.run(change)?;
    case.sql.run(write)?;
    case.sql.run("insert into steady values (1000, 'goes on')")?;
    let state = case.pipeline.await_state("public.altered", "stopped")?;
    for part in says.iter().chain(&["reload"]) {
        assert!(state.reason.contains(part), "the reason does not say {part}: {state:?}");
    }
    case.await_same(&["public.steady"])?;
    // It stays so through a restart, and the others go on.
    calve.terminate()?;
    case.sql.run("update steady set v = 'still'; insert into altered (id) values (500)")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.same(&["public.steady"])?;
    assert_eq!(case.pipeline.state("public.altered")?.state, "stopped");

    let calve = case.pipeline.start()?;
    until("the others to stream", || Ok(calve.log().contains("streaming begins")))?;
    case.sql.run("insert into altered (id) values (501)")?;
    case.pipeline.finish(&["reload", "public.altered"])?.expect_success()?;
    case.sql.run("update altered set v = 'after' where id = 2; delete from altered where id = 3")?;
    case.await_same(&["public.altered", "public.steady"])?;
    calve.terminate()?;
    case.once_and_same(&["public.altered", "public.steady"])?;
    Ok(case)
}

fn field_ids(case: &Case) -> anyhow::Result<Vec<(String, i64)>> {
    let table = case.lake().table("public", "altered")?;
    let described = readers::metadata(|reader| Ok(reader.describe(&table)?))?;
    let columns = described["columns"].as_array().expect("columns are listed");
    Ok(columns.iter().map(|c| (c["name"].as_str().unwrap_or("").to_owned(), c["id"].as_i64().unwrap_or(0))).collect())
}

#[test]
fn an_added_column() -> anyhow::Result<()> {
    let change = "alter table altered add column more numeric(8, 2) default 1.5";
    let mut case =
        stops_and_comes_back("added_column", change, "insert into altered values (100, 'x', 1, 2.5)", &["more"])?;
    assert_eq!(field_ids(&case)?, [("id".into(), 1), ("v".into(), 2), ("gone".into(), 3), ("more".into(), 4)]);
    case.same_by_spark(&["public.altered"])?;
    case.pass()
}

#[test]
fn a_changed_type() -> anyhow::Result<()> {
    let change = "alter table altered alter gone type text using 'was ' || gone";
    stops_and_comes_back("changed_type", change, "update altered set v = 'x' where id = 5", &["gone"])?.pass()
}

const BOTH: [&str; 2] = ["public.altered", "public.steady"];
const KEEPING: [&str; 2] = ["public.altered keeping gone", "public.steady"];

fn ids(fields: &[(&str, i64)]) -> Vec<(String, i64)> {
    fields.iter().map(|(name, id)| ((*name).to_owned(), *id)).collect()
}

/// Changes that rows in the lake can follow, one after the other under writes: nothing stops, and field ids stay.
#[test]
fn columns_come_go_and_grow_while_calve_runs() -> anyhow::Result<()> {
    let mut case = Case::new("live", TWO, &["public.*"])?;
    case.once_and_same(&BOTH)?;
    let calve = case.pipeline.start()?;
    for (change, write, fields) in [
        (
            "alter table altered add column more numeric(8, 2)",
            "insert into altered values (100, 'x', 1, 2.5); update altered set more = 1 where id = 1",
            &[("id", 1), ("v", 2), ("gone", 3), ("more", 4)][..],
        ),
        (
            "alter table altered rename column v to words",
            "update altered set words = 'renamed' where id = 2",
            &[("id", 1), ("words", 2), ("gone", 3), ("more", 4)],
        ),
        (
            "alter table altered alter gone type bigint, alter more type numeric(12, 2)",
            "update altered set gone = 5000000000, more = 1234567890.12 where id = 3",
            &[("id", 1), ("words", 2), ("gone", 3), ("more", 4)],
        ),
        (
            "alter table altered drop column gone",
            "delete from altered where id = 4; insert into altered values (101, 'y', 3)",
            &[("id", 1), ("words", 2), ("more", 4), ("gone", 3)],
        ),
        (
            // Another column under the old name: the old one's values are not its.
            "alter table altered add column gone text",
            "update altered set gone = 'text now' where id = 5",
            &[("id", 1), ("words", 2), ("more", 4), ("gone", 5)],
        ),
        (
            "alter table altered rename column id to key",
            "update altered set key = key + 1000 where key = 6; delete from altered where key = 7",
            &[("key", 1), ("words", 2), ("more", 4), ("gone", 5)],
        ),
        (
            // Its binary form is not understood, so the stream begins again in text form.
            "create type mood as enum ('sad', 'ok'); alter table altered add column mood mood, add column net inet",
            "update altered set mood = 'ok', net = '10.0.0.1/8' where key = 8",
            &[("key", 1), ("words", 2), ("more", 4), ("gone", 5), ("mood", 6), ("net", 7)],
        ),
    ] {
        case.sql.run(change)?;
        case.sql.run(write)?;
        case.sql.run("insert into steady select max(id) + 1, 'goes on' from steady")?;
        case.await_same(if change.contains("drop column gone") { &KEEPING } else { &BOTH })?;
        assert_eq!(field_ids(&case)?, ids(fields), "{change}");
    }
    calve.terminate()?;
    case.same_by_spark(&BOTH)?;
    case.sql.run("update altered set words = 'after a restart' where key = 9")?;
    case.once_and_same(&BOTH)?;
    case.pass()
}

/// NULL in a column that allowed none when it was loaded: the log shows it only by the value.
#[test]
fn a_column_that_allows_null_at_last() -> anyhow::Result<()> {
    let tables = "create table altered (id int primary key, a int not null, b text not null); create table steady (id int primary key);
        insert into altered select i, i, 'b' from generate_series(1, 9) i; insert into steady values (1)";
    let mut case = Case::new("loosened", tables, &["public.*"])?;
    case.once_and_same(&BOTH)?;
    case.sql.run("alter table altered alter a drop not null, alter b drop not null")?;
    case.sql.run("begin; update altered set a = null where id = 1; update altered set b = null where id = 2; insert into steady values (2); commit")?;
    case.once_and_same(&BOTH)?;
    case.pass()
}

/// The catalog is ahead of all rows that come.
#[test]
fn columns_that_changed_before_their_rows_are_read() -> anyhow::Result<()> {
    let mut case = Case::new("backlog", TWO, &["public.*"])?;
    case.once_and_same(&BOTH)?;
    for statement in [
        "update altered set v = 'first' where id = 1",
        "alter table altered add column more date; update altered set more = '2026-01-02' where id = 2",
        "begin; update altered set v = 'same transaction' where id = 3; alter table altered rename column v to words; \
         update altered set words = 'renamed' where id = 4; commit",
        "alter table altered alter gone type bigint; update altered set gone = 5000000000 where id = 5",
        "insert into steady values (100, 'between'); truncate altered; insert into altered values (50, 'y', 1)",
        "alter table altered alter gone drop not null; insert into altered values (51, 'z', null, '2026-01-03')",
    ] {
        case.sql.run(statement)?;
    }
    case.once_and_same(&BOTH)?;
    assert_eq!(field_ids(&case)?, ids(&[("id", 1), ("words", 2), ("gone", 3), ("more", 4)]));
    case.same_by_spark(&BOTH)?;
    case.sql.run("update altered set words = 'x' where id = 50; alter table altered drop column gone; update altered set words = 'y' where id = 51")?;
    case.once_and_same(&KEEPING)?;

    // Added and gone again before its rows are read: nothing tells what it was.
    case.sql.run("alter table altered add column brief int; insert into altered values (60, 'a', null, 1); alter table altered drop column brief")?;
    case.sql.run("insert into steady values (101, 'goes on')")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.same(&["public.steady"])?;
    let state = case.pipeline.state("public.altered")?;
    assert!(state.reason.contains("brief") && state.reason.contains("reload"), "{state:?}");
    case.pipeline.finish(&["reload", "public.altered"])?.expect_success()?;
    case.once_and_same(&BOTH)?;
    // Loaded anew, it keeps nothing of what was dropped.
    assert_eq!(field_ids(&case)?, ids(&[("id", 1), ("words", 2), ("more", 4)]));
    case.pass()
}

#[test]
fn columns_that_change_while_calve_is_away() -> anyhow::Result<()> {
    let mut case = Case::new("away", TWO, &["public.*"])?;
    case.once_and_same(&["public.steady", "public.altered"])?;
    case.sql.run("alter table altered add column more int default 7; insert into steady values (99, 'x')")?;
    case.sql.run("update altered set v = 'new shape' where id < 5")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.same(&["public.steady"])?;
    case.pipeline.finish(&["reload", "public.altered"])?.expect_success()?;
    case.once_and_same(&["public.steady", "public.altered"])?;
    case.pass()
}

/// What a stopped table missed is not forgotten, however long it was, whatever happened to the others and to local state.
#[test]
fn a_table_stopped_for_long_loses_nothing() -> anyhow::Result<()> {
    let mut case = Case::new("stopped_long", TWO, &["public.*"])?;
    case.once_and_same(&["public.steady", "public.altered"])?;
    case.sql.run("alter table altered add column more int default 0; insert into altered values (100, 'x', 1, 1)")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    for round in 0..4 {
        case.sql.run(&format!(
            "insert into steady values ({0}, 'r'); update altered set more = {0} where id <= 10; delete from altered where id = 11 + {round}",
            2000 + round
        ))?;
        if round == 2 {
            std::fs::remove_dir_all(case.lake().positions(case.pipeline.name()))?;
        }
        case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
        case.same(&["public.steady"])?;
    }
    // The log is not kept for it meanwhile.
    let end = case.log_end()?;
    case.sql.run("insert into steady values (3000, 'last')")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    assert!(case.acknowledged_to(&end)?, "the slot stands at {} while the log was at {end}", case.acknowledged()?);
    case.pipeline.finish(&["reload", "public.altered"])?.expect_success()?;
    case.once_and_same(&["public.steady", "public.altered"])?;
    case.pass()
}

/// A table made anew that a user's publication does not carry any more is nobody else's trouble.
#[test]
fn a_table_made_anew_without_being_published_stops_alone() -> anyhow::Result<()> {
    let schema = format!("{TWO} create publication mine for table altered, steady;");
    let mut case = Case::new("unpublished", &schema, &["public.*"])?;
    case.pipeline = case
        .pipeline
        .clone()
        .with("publication: mine\nmanage_publication: false\nschema_changes: {otherwise: reload}\n");
    case.once_and_same(&["public.altered", "public.steady"])?;
    let calve = case.pipeline.start()?;
    until("it to stream", || Ok(calve.log().contains("streaming begins")))?;
    case.sql.run("drop table altered; create table altered (id int primary key, v text)")?;
    until("it to be given up", || Ok(case.pipeline.state("public.altered")?.reason.contains("does not carry")))?;
    case.sql.run("insert into steady values (1000, 'goes on')")?;
    case.await_same(&["public.steady"])?;
    calve.terminate()?;
    case.sql.run("insert into steady values (1001, 'still')")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.same(&["public.steady"])?;

    case.sql.run("alter publication mine add table altered; insert into altered values (1, 'anew')")?;
    case.pipeline.finish(&["reload", "public.altered"])?.expect_success()?;
    case.sql.run("insert into altered values (2, 'on')")?;
    case.once_and_same(&["public.altered", "public.steady"])?;
    case.pass()
}

/// Tables that cannot follow are read again by themselves, where that is what is asked for; nothing else notices.
#[test]
fn by_policy_a_table_is_read_again_or_held() -> anyhow::Result<()> {
    let more = "create table held (id int primary key, v text); insert into held values (1, 'a'), (2, 'b');
                create table swapped (id int primary key, v text); insert into swapped values (1, 'old');";
    let tables = ["public.altered", "public.steady", "public.swapped"];
    let mut case = Case::new("policies", &format!("{TWO}{more}"), &["public.*"])?;
    case.pipeline =
        case.pipeline.clone().with("schema_changes: {otherwise: reload, drop_column: reload, rename_column: stop}\n");
    case.once_and_same(&["public.altered", "public.steady", "public.held", "public.swapped"])?;
    let calve = case.pipeline.start()?;
    until("it to stream", || Ok(calve.log().contains("streaming begins")))?;

    case.sql.run("alter table altered add column more int default 7")?;
    case.sql.run("update altered set v = 'changed' where id = 1; insert into steady values (1000, 'goes on')")?;
    case.sql.run("alter table held rename v to w; update held set w = 'held' where id = 1")?;
    case.sql.run(
        "begin; alter table swapped rename to swapped_old; create table swapped (id int primary key, n int);
         insert into swapped select i, i from generate_series(1, 5) i; drop table swapped_old; commit",
    )?;
    case.await_same(&tables)?;
    let state = case.pipeline.await_state("public.held", "stopped")?;
    for part in ["schema change held", "rename_column is stop", "calve reload public.held"] {
        assert!(state.reason.contains(part), "the reason does not say {part}: {state:?}");
    }
    let log = calve.log();
    assert!(log.contains("the table will be read again") && !log.contains("drop_column"), "{log}");
    calve.terminate()?;

    // While it was away: read again before it leaves, in a new shape, and the dropped column is gone.
    case.sql.run("alter table altered drop column gone; delete from altered where id = 2")?;
    case.sql.run("alter table steady alter v type int using length(v); update steady set v = 5 where id = 3")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.same(&tables)?;
    let names: Vec<String> = field_ids(&case)?.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["id", "v", "more"]);
    case.pipeline.finish(&["reload", "public.held"])?.expect_success()?;
    case.once_and_same(&["public.altered", "public.steady", "public.held", "public.swapped"])?;
    case.pass()
}

/// What the lake could follow: by policy it is held, or read again, while calve runs and while it is away.
#[test]
fn by_policy_types_and_nulls_are_held_or_read_again() -> anyhow::Result<()> {
    let names = ["wide_stop", "wide_reload", "null_stop", "null_reload"];
    let made = |name| {
        format!(
            "create table {name} (id int primary key, v int not null); insert into {name} values (1, 1), (2, 2), (3, 3);"
        )
    };
    let schema: String = names.map(made).concat() + "create table steady (id int primary key, v text)";
    let entry = |name: &str| {
        let (change, policy) = name.split_once('_').expect("both are named");
        let option = if change == "wide" { "widen_type" } else { "drop_not_null" };
        format!("{{name: public.{name}, schema_changes: {{{option}: {policy}}}}}")
    };
    let entries = names.map(entry);
    let entries = entries.each_ref().map(String::as_str);
    for away in [false, true] {
        let label = if away { "held_away" } else { "held" };
        let mut case = Case::new(label, &schema, &[&entries[..], &["public.steady"]].concat())?;
        let tables = names.map(|name| format!("public.{name}"));
        let tables = tables.each_ref().map(String::as_str);
        case.once_and_same(&tables)?;
        let calve = if away { None } else { Some(case.pipeline.start()?) };
        for name in names {
            let (alter, value) =
                if name.starts_with("wide") { ("type bigint", "5000000000") } else { ("drop not null", "null") };
            case.sql.run(&format!(
                "update {name} set v = 10 where id = 1; alter table {name} alter v {alter}; update {name} set v = {value} where id = 2"
            ))?;
        }
        case.sql.run("insert into steady values (1, 'goes on')")?;
        let log = if let Some(calve) = calve {
            for name in ["public.wide_stop", "public.null_stop"] {
                case.pipeline.await_state(name, "stopped")?;
            }
            case.await_same(&["public.wide_reload", "public.null_reload", "public.steady"])?;
            let log = calve.log();
            calve.terminate()?;
            log
        } else {
            case.pipeline.finish(&["run", "--once"])?.expect_code(3)?.stderr
        };
        case.same(&["public.wide_reload", "public.null_reload", "public.steady"])?;
        for (table, option) in [("public.wide_stop", "widen_type"), ("public.null_stop", "drop_not_null")] {
            let state = case.pipeline.state(table)?;
            for part in ["schema change held", &format!("{option} is stop"), &format!("calve reload {table}")] {
                assert!(state.reason.contains(part), "the reason does not say {part}: {state:?}");
            }
        }
        let again: Vec<&str> = log.lines().filter(|line| line.contains("the table will be read again")).collect();
        let of = |table: &str| again.iter().filter(|line| line.contains(table)).count();
        assert_eq!(tables.map(of), [0, 1, 0, 1], "{again:?}");
        case.pipeline.finish(&["reload", "public.wide_stop", "public.null_stop"])?.expect_success()?;
        case.sql.run(&names.map(|name| format!("update {name} set v = 30 where id = 3;")).concat())?;
        case.once_and_same(&tables)?;
        case.same_by_spark(&tables)?;
        case.pass()?;
    }
    Ok(())
}

/// Each snapshot names the schema that it was written under, with a snapshot of its own for the change.
#[test]
fn snapshots_have_the_schema_of_their_time() -> anyhow::Result<()> {
    let mut case = Case::new("schema_ids", TWO, &["public.altered"])?;
    case.once_and_same(&["public.altered"])?;
    for sql in [
        "insert into altered values (100, 'old', 1)",
        "alter table altered add column more int; insert into altered values (101, 'new', 1, 5)",
        "insert into altered values (102, 'new', 1, 6)",
        "alter table altered rename more to most; alter table altered alter most type bigint; insert into altered values (103, 'newer', 1, 5000000000)",
    ] {
        case.sql.run(sql)?;
        case.once_and_same(&["public.altered"])?;
    }
    let metadata = case.lake().metadata("public", "altered")?;
    let schemas = metadata.json()["schemas"].as_array().expect("schemas are listed");
    let listed = metadata.json()["snapshots"].as_array().expect("snapshots are listed");
    // What a snapshot's own schema is, and the largest id that it shows.
    let mut found: Vec<(String, Option<String>)> = Vec::new();
    for snapshot in metadata.snapshots() {
        let of_id = listed.iter().find(|listed| listed["snapshot-id"] == snapshot.id).expect("it is listed");
        let schema = schemas.iter().find(|schema| schema["schema-id"] == of_id["schema-id"]);
        let fields = schema.and_then(|schema| schema["fields"].as_array()).expect("its schema is listed");
        let field = |field: &serde_json::Value| format!("{} {}", field["name"], field["type"]).replace('"', "");
        let largest =
            readers::duckdb(|duckdb| Ok(duckdb.query_table(&metadata.at(&snapshot), "select max(id) from t")?))?;
        found.push((fields.iter().skip(3).map(field).collect(), largest.single().map(ToOwned::to_owned)));
    }
    found.dedup();
    let expected = [("", "20"), ("", "100"), ("more int", "101"), ("more int", "102"), ("most long", "103")];
    let expected = expected.map(|(schema, id)| (schema.to_owned(), Some(id.to_owned())));
    assert_eq!(found, expected);
    case.pass()
}

/// Columns that are added stay out of the lake, and those that are dropped go from it, as long as the table is not read again.
#[test]
fn by_policy_columns_are_left_out_and_go() -> anyhow::Result<()> {
    let expected = "create table expected (id int primary key, v text); insert into expected select id, v from altered;
                    create schema lake; alter table expected set schema lake;";
    let mut case = Case::new("left_out", &format!("{TWO}{expected}"), &["public.*"])?;
    let steady = "{name: public.steady, schema_changes: {add_column: apply}}";
    let policies = "schema_changes: {add_column: ignore, drop_column: apply}\n";
    case.pipeline = case.pipeline.clone().tables(&[steady, "public.*"]).with(policies);
    case.once_and_same(&BOTH)?;
    let calve = case.pipeline.start()?;
    case.sql.run(
        "alter table steady add more int; insert into steady values (1000, 'goes on', 5);
         alter table altered drop gone, add more int not null default 7, add place inet;
         update altered set v = 'b', more = 8 where id = 1; insert into altered (id, v) values (100, 'new');
         update lake.expected set v = 'b' where id = 1; insert into lake.expected values (100, 'new')",
    )?;
    until("it to tell of the columns", || Ok(calve.log().contains("was added, and is left out")))?;
    case.await_same(&["public.steady"])?;
    calve.terminate()?;
    // One of them becomes another, with calve away. The dropped one's name is a new column's.
    case.sql.run(
        "alter table altered rename more to others; alter table altered alter others type text, drop place, add gone text;
         update altered set v = 'c', others = 'x' where id = 3; update lake.expected set v = 'c' where id = 3",
    )?;
    let finished = case.pipeline.finish(&["run", "--once"])?.expect_success()?;
    case.same(&["public.steady"])?;
    let (lake, pair) = (case.lake().clone(), Pair::new(("lake", "expected"), ("public", "altered")));
    let differences = readers::duckdb(|duckdb| compare::compare(&mut case.sql, &lake, &pair, duckdb))?;
    assert!(differences.is_empty(), "{differences}");
    assert_eq!(field_ids(&case)?, ids(&[("id", 1), ("v", 2)]));
    let log = finished.stderr;
    assert!(log.contains("gone") && !log.contains("no longer"), "{log}");
    case.pipeline.finish(&["reload", "public.altered"])?.expect_success()?;
    case.once_and_same(&BOTH)?;
    // Whatever was dropped before leaves nothing behind, and ids are not given twice.
    assert_eq!(field_ids(&case)?, ids(&[("id", 1), ("v", 2), ("others", 4), ("gone", 5)]));
    case.same_by_spark(&BOTH)?;
    case.pass()
}

//! What types become in the lake, and what stops a table. Their values are `matrix`'s.

use calve_integration::compare::{self, Pair};
use calve_integration::readers;
use calve_testkit::readers::Reader;

use crate::case::Case;

/// A value the lake cannot hold stops its table, named, and no other; mended, the table comes back.
#[test]
fn an_unrepresentable_value_stops_its_table_only() -> anyhow::Result<()> {
    let bad = [
        ("date", "'infinity'"),
        ("timestamp", "'-infinity'"),
        ("timestamptz", "'infinity'"),
        ("timestamp", "'294276-12-31 23:59:59'"),
        ("numeric(10,2)", "'NaN'"),
        ("time", "'24:00:00'"),
    ];
    let names: Vec<String> = (0..bad.len()).flat_map(|at| [format!("loaded{at}"), format!("streamed{at}")]).collect();
    let mut schema = "create table good (id int primary key);".to_owned();
    for (at, (kind, value)) in bad.iter().enumerate() {
        schema += &format!(
            "create table loaded{at} (id int primary key, v {kind}); create table streamed{at} (like loaded{at} including all);
             insert into loaded{at} values (1, null), (2, cast({value} as {kind})); insert into streamed{at} values (1, null);"
        );
    }
    let mut case = Case::new("unfit", &schema, &["public.*"])?;
    let finished = case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    assert!(finished.complaint().is_some_and(|line| line.contains("stopped")), "{:?}", finished.complaint());
    for (at, (kind, value)) in bad.iter().enumerate() {
        case.sql.run(&format!("insert into streamed{at} values (2, cast({value} as {kind})), (3, null)"))?;
    }
    case.sql.run("insert into good values (1)")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.same(&["public.good"])?;
    for name in &names {
        let state = case.pipeline.state(&format!("public.{name}"))?;
        assert_eq!(state.state, "stopped", "{name}: {state:?}");
        for part in ["unrepresentable", "v", "reload"] {
            assert!(state.reason.contains(part), "{name} does not say {part}: {state:?}");
        }
        // Readable as it was, at a position of the past.
        let at = case.lake().table("public", name);
        if let Ok(table) = at {
            let rows = readers::duckdb(|duckdb| Ok(duckdb.query_table(&table, "select count(*) from t")?))?;
            assert!(matches!(rows.single(), Some("0" | "1")), "{name}: {rows:?}");
        }
    }
    for name in &names {
        case.sql.run(&format!("update {name} set v = null"))?;
    }
    let qualified: Vec<String> = names.iter().map(|name| format!("public.{name}")).collect();
    let mut words = vec!["reload"];
    words.extend(qualified.iter().map(String::as_str));
    case.pipeline.finish(&words)?.expect_success()?;
    case.pipeline.once()?;
    let all: Vec<&str> = qualified.iter().map(String::as_str).chain(["public.good"]).collect();
    case.same(&all)?;
    case.pass()
}

#[test]
fn names_of_types_say_what_readers_see() -> anyhow::Result<()> {
    let schema = "create table t (id int primary key, b boolean, s smallint, l bigint, r real, d double precision, n numeric(9,4),
        u numeric, x text, y bytea, dt date, ti time, ts timestamp, tz timestamptz, id2 uuid, j jsonb)";
    let case = Case::new("schema", schema, &["public.t"])?;
    case.pipeline.once()?;
    let described = readers::metadata(|reader| Ok(reader.describe(&case.lake().table("public", "t")?)?))?;
    let found: Vec<String> = described["columns"]
        .as_array()
        .expect("columns are listed")
        .iter()
        .map(|column| {
            format!(
                "{} {}{}",
                column["name"].as_str().unwrap_or(""),
                column["type"].as_str().unwrap_or(""),
                if column["required"] == true { " required" } else { "" }
            )
        })
        .collect();
    let expected = [
        "id int required",
        "b boolean",
        "s int",
        "l long",
        "r float",
        "d double",
        "n decimal(9, 4)",
        "u string",
        "x string",
        "y binary",
        "dt date",
        "ti time",
        "ts timestamp",
        "tz timestamptz",
        "id2 uuid",
        "j string",
    ];
    assert_eq!(found, expected);
    let differences = readers::duckdb(|duckdb| {
        let mut sql = calve_integration::sql::Sql::connect(&case.database.url("calve")?)?;
        compare::compare(&mut sql, case.lake(), &Pair::named("public.t"), duckdb)
    })?;
    assert!(differences.is_empty());
    case.pass()
}

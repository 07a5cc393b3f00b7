//! Every type, at its edges, by load and by stream: what DuckDB and Spark read is what the server prints.

use calve_integration::compare::{self, Pair};
use calve_integration::readers;
use calve_testkit::readers::Reader;

use crate::case::Case;

/// Types and their odd values, as SQL. The least, the greatest, zero, and what tends to go wrong.
const TYPES: &[(&str, &[&str])] = &[
    ("boolean", &["true", "false"]),
    ("smallint", &["-32768", "32767", "0"]),
    ("integer", &["-2147483648", "2147483647", "0"]),
    ("bigint", &["-9223372036854775808", "9223372036854775807", "0"]),
    ("oid", &["0", "4294967295"]),
    ("real", &["'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "3.4028235e38", "1.4e-45", "0.1", "16777216"]),
    (
        "double precision",
        &[
            "'NaN'",
            "'Infinity'",
            "'-Infinity'",
            "'-0'",
            "1.7976931348623157e308",
            "5e-324",
            "0.1",
            "1e15",
            "123456.789",
        ],
    ),
    ("numeric(12,3)", &["-999999999.999", "999999999.999", "0", "0.001", "-0.5"]),
    ("numeric(38,0)", &["-99999999999999999999999999999999999999", "99999999999999999999999999999999999999", "0"]),
    ("numeric(38,38)", &["-0.99999999999999999999999999999999999999", "0.00000000000000000000000000000000000001", "0"]),
    ("numeric(4)", &["-9999", "9999"]),
    ("numeric", &["'NaN'", "1e40", "-1e-40", "0", "0.00", "12345678901234567890123456789012345678901234567890.5"]),
    ("numeric(50,20)", &["'NaN'", "123456789012345678901234567890.12345678901234567890", "-0.00000000000000000001"]),
    ("numeric(5,-2)", &["1234500", "-100"]),
    (
        "text",
        &[
            "''",
            "'NULL'",
            "' spaces '",
            "E'tab\\tnewline\\nquote''backslash\\\\'",
            "'äöü ✓ 𝄞 日本語'",
            "repeat('long ', 1000)",
        ],
    ),
    ("varchar(20)", &["''", "'exactly twenty chars'", "'trailing  '"]),
    ("character(6)", &["'ab'", "''", "'sixsix'"]),
    ("name", &["'a_name'", "''"]),
    ("\"char\"", &["'x'", "''"]),
    ("bytea", &["''", "'\\x00'", "'\\xdeadbeef00ff'", "decode(repeat('00ff', 5000), 'hex')"]),
    (
        "date",
        &[
            "'0001-01-01'",
            "'4713-01-01 BC'",
            "'1969-12-31'",
            "'1970-01-01'",
            "'2000-02-29'",
            "'9999-12-31'",
            "'12345-06-07'",
        ],
    ),
    (
        "timestamp",
        &[
            "'0001-01-01 00:00:00'",
            "'1969-12-31 23:59:59.999999'",
            "'1970-01-01'",
            "'9999-12-31 23:59:59.999999'",
            "'2024-02-29 12:30:15.1'",
            "'0044-03-15 12:00 BC'",
        ],
    ),
    (
        "timestamptz",
        &[
            "'0001-01-01 00:00:00+00'",
            "'1969-12-31 23:59:59.999999+00'",
            "'2024-03-31 02:30:00+02'",
            "'9999-12-31 23:59:59.999999+00'",
            "'2024-06-01 12:00:00.000001-11:30'",
        ],
    ),
    (
        "uuid",
        &[
            "'00000000-0000-0000-0000-000000000000'",
            "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
            "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'",
        ],
    ),
    (
        "json",
        &[
            "'null'",
            "'{\"b\": 1, \"a\" : 2, \"a\": 3}'",
            "'123456789012345678901234567890.5e10'",
            "'[\"\\u00e9\", \"/\"]'",
        ],
    ),
    (
        "jsonb",
        &["'null'", "'{\"b\": 1, \"a\" : 2, \"a\": 3}'", "'123456789012345678901234567890.5'", "'[1.10, \"x\", {}]'"],
    ),
    ("mood", &["'sad'", "'it''s \"ok\"'", "'ä'"]),
    ("inet", &["'192.168.0.1/24'", "'::1'"]),
    ("cidr", &["'10.0.0.0/8'"]),
    ("macaddr", &["'08:00:2b:01:02:03'"]),
    ("interval", &["'1 year 2 months -3 days 04:05:06.789'", "'0'", "'-1 microsecond'"]),
    ("timetz", &["'23:59:59.999999+14'", "'00:00:00-12'"]),
    ("money", &["12.34", "-1000000"]),
    ("point", &["'(1.5,-2)'"]),
    ("int4range", &["'[1,5)'", "'empty'", "'(,)'"]),
    ("tsvector", &["'a:1 fat:2'"]),
    ("bit(5)", &["B'10101'"]),
    ("bit varying", &["B''", "B'1'"]),
    ("pg_lsn", &["'16/B374D848'"]),
    ("short", &["'abc'", "''"]),
    ("pair", &["'(1,\"a b\")'"]),
];

const OWN_TYPES: &str = "
    create type mood as enum ('sad', 'it''s \"ok\"', 'ä', 'unused');
    create domain short as varchar(5) check (value <> 'xxxxx');
    create type pair as (n int, t text);";

/// `create table`, with one column for each type.
fn table(name: &str) -> String {
    let columns = TYPES.iter().enumerate().map(|(at, (kind, _))| format!("c{at} {kind}"));
    format!("create table {name} (id int primary key, {});", columns.collect::<Vec<_>>().join(", "))
}

/// One `insert` a row: row `n` has the n-th value of each type, NULL where a type has no more.
fn rows(table: &str) -> String {
    let most = TYPES.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    let row = |n: usize| {
        let values = TYPES.iter().map(|(kind, values)| match values.get(n) {
            Some(value) => format!("cast({value} as {kind})"),
            None => "null".to_owned(),
        });
        format!("insert into {table} values ({n}, {});", values.collect::<Vec<_>>().join(", "))
    };
    (0..=most).map(row).collect()
}

#[test]
fn values_are_what_the_server_prints() -> anyhow::Result<()> {
    let schema = format!("{OWN_TYPES}{}{}{}", table("loaded"), table("streamed"), rows("loaded"));
    let tables = ["public.loaded", "public.streamed"];
    let mut case = Case::new("types", &schema, &tables)?;
    case.once_and_same(&["public.loaded"])?;
    case.sql.run(&rows("streamed"))?;
    // Every row once more, through the stream, as an update.
    case.sql.run("alter table loaded replica identity full; update loaded set id = id + 100 where id % 2 = 0")?;
    case.once_and_same(&tables)?;
    case.same_by_spark(&tables)?;
    case.pass()
}

/// Spark knows no time of day, so this type stands in a table of its own.
#[test]
fn times_of_day_are_exact() -> anyhow::Result<()> {
    let schema = "
        create table loaded (id int primary key, t time, t0 time(0));
        create table streamed (like loaded including all);
        insert into loaded values (1, '00:00:00', '00:00:00'), (2, '23:59:59.999999', '23:59:59'), (3, null, null), (4, '12:30:00.5', '12:30:01');";
    let tables = ["public.loaded", "public.streamed"];
    let mut case = Case::new("times", schema, &tables)?;
    case.once_and_same(&tables)?;
    case.sql.run("insert into streamed select * from loaded; update loaded set t = t0 where id = 2")?;
    case.once_and_same(&tables)?;
    case.pass()
}

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

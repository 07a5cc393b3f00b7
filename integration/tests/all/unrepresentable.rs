//! What the lake cannot hold becomes what `on_unrepresentable` says, by load and by stream, on every Postgres.

use anyhow::ensure;
use calve_integration::binary::Finished;
use calve_integration::readers;
use calve_testkit::readers::Reader;
use calve_testkit::servers::Postgres;

use crate::case::{Case, complains};

/// Makes a test of each function for each server.
macro_rules! on_every_server {
    ($($body:ident),+ $(,)?) => {$(
        mod $body {
            #[test]
            fn postgres_15() -> anyhow::Result<()> {
                super::$body(15)
            }

            #[test]
            fn postgres_17() -> anyhow::Result<()> {
                super::$body(17)
            }

            #[test]
            fn postgres_18() -> anyhow::Result<()> {
                super::$body(18)
            }
        }
    )+};
}

/// Columns that the log says of that values of them were replaced.
pub(crate) fn told(finished: &Finished) -> Vec<String> {
    let lines = finished.stderr.lines().filter(|line| line.contains("a value that the lake cannot hold was replaced"));
    let column = |line: &str| {
        let json: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(json["fields"]["column"].as_str().or(json["column"].as_str())?.to_owned())
    };
    let mut columns: Vec<String> = lines.map(|line| column(line).unwrap_or_else(|| line.to_owned())).collect();
    columns.sort();
    columns
}

/// Rows of a table as text, as a reader shows them.
fn read(reader: &mut impl Reader, case: &Case, table: &str, columns: &[&str]) -> anyhow::Result<Vec<String>> {
    let texts: Vec<String> = columns.iter().map(|name| format!("coalesce(cast({name} as varchar(80)), '-')")).collect();
    let query = format!("select id, {} from t order by id", texts.join(", "));
    let found = reader.query_table(&case.lake().table("public", table)?, &query)?;
    let text = |row: &Vec<Option<String>>| row.iter().map(|cell| cell.clone().unwrap_or_default()).collect::<Vec<_>>();
    Ok(found.rows.iter().map(|row| text(row).join("|")).collect())
}

fn expect(case: &Case, table: &str, columns: &[&str], expected: &[&str]) -> anyhow::Result<()> {
    let found = readers::duckdb(|duckdb| read(duckdb, case, table, columns))?;
    ensure!(found == expected, "DuckDB reads {table} as\n{}\nand not\n{}", found.join("\n"), expected.join("\n"));
    Ok(())
}

fn expect_by_spark(case: &Case, table: &str, columns: &[&str], expected: &[&str]) -> anyhow::Result<()> {
    let found = readers::spark(|spark| read(spark, case, table, columns))?;
    ensure!(found == expected, "Spark reads {table} as\n{}\nand not\n{}", found.join("\n"), expected.join("\n"));
    Ok(())
}

const COLUMNS: &str = "id int primary key, d date not null, ts timestamp not null, tz timestamptz not null, n numeric(6,2), t text not null";
const ALL: [&str; 5] = ["d", "ts", "tz", "n", "t"];
const ROWS: &str = "(1, 'infinity', '-infinity', 'infinity', 'NaN', 'x'), (2, '-infinity', '294276-12-31 23:59:59.999999', '-infinity', 1.5, 'y'),
     (3, '5874897-12-31', '294247-01-10 04:00:54.775807', '294247-01-10 04:00:54.775808+00', null, 'z')";
const OTHERS: &str = "(11, 'infinity', 'infinity', '4714-11-24 00:00:00+00 BC', -9999.99, 'x')";

fn values_become_null_or_the_nearest(version: u32) -> anyhow::Result<()> {
    let table = |name: &str| format!("create table {name} ({COLUMNS}); insert into {name} values {ROWS};");
    let schema = format!(
        "{}{}{} create table times (id int primary key, a time not null, b time not null);
         insert into times values (1, '24:00:00', '24:00'), (2, '23:59:59.999999', '00:00');",
        table("nulled"),
        table("clamped"),
        table("mixed"),
    );
    let entries = [
        "{name: public.nulled, on_unrepresentable: null}",
        "{name: public.clamped, columns: {n: {on_unrepresentable: null}}}",
        "{name: public.mixed, on_unrepresentable: error, columns: {d: {on_unrepresentable: null}, n: {on_unrepresentable: null},
          ts: {on_unrepresentable: clamp}, tz: {on_unrepresentable: 'clamp'}}}",
        "{name: public.times, columns: {b: {on_unrepresentable: null}}}",
    ];
    let mut case = Case::on(&*Postgres::shared(version)?, "unfit_rules", &schema, &entries)?;
    case.pipeline = case.pipeline.with("on_unrepresentable: clamp");
    let loaded = case.pipeline.once()?;
    let columns = told(&loaded);
    let once_each = ["a", "b", "d", "d", "d", "n", "n", "n", "ts", "ts", "ts", "tz", "tz", "tz"];
    ensure!(columns == once_each, "the load tells of {columns:?}");

    // By the stream as new rows, as rows that change, and in a transaction large enough to be sent while it is in progress.
    for name in ["nulled", "clamped", "mixed"] {
        let wide = "(select i, 'infinity', '-infinity', 'infinity', 'NaN', 'w' from generate_series(1001, 1500) i)";
        case.sql.run(&format!(
            "insert into {name} values {OTHERS}; insert into {name} {wide};
             update {name} set d = '2024-02-29' where id = 1; update {name} set id = 4 where id = 2; delete from {name} where id > 1001"
        ))?;
    }
    case.sql.run("update times set b = '24:00' where id = 2; insert into times values (3, '00:00:00', '24:00:00')")?;
    let streamed = case.pipeline.once()?;
    ensure!(told(&streamed) == once_each[1..], "the stream tells of {:?}", told(&streamed));
    // Each run is a process of its own; nothing is counted twice.
    let counted: Vec<(u64, u64)> = ["nulled", "clamped", "mixed", "times"]
        .iter()
        .map(|name| case.pipeline.substituted(&format!("public.{name}")))
        .collect::<anyhow::Result<_>>()?;
    // 8 values by the load, then 2, 2000, 3 and 3; among them 502 times NaN and 504 dates.
    ensure!(counted == [(2016, 0), (502, 1514), (1006, 1010), (3, 1)], "{counted:?}");
    case.pipeline.once()?;
    ensure!(case.pipeline.substituted("public.nulled")? == (2016, 0));

    expect(
        &case,
        "nulled",
        &ALL,
        &[
            "1|2024-02-29|-|-|-|x",
            "3|5874897-12-31|infinity|-|-|z",
            "4|-|-|-|1.50|y",
            "11|-|-|4714-11-24 (BC) 00:00:00+00|-9999.99|x",
            "1001|-|-|-|-|w",
        ],
    )?;
    expect(
        &case,
        "clamped",
        &ALL,
        &[
            "1|2024-02-29|-infinity|infinity|-|x",
            "3|5874897-12-31|infinity|infinity|-|z",
            "4|-infinity|infinity|-infinity|1.50|y",
            "11|infinity|infinity|4714-11-24 (BC) 00:00:00+00|-9999.99|x",
            "1001|infinity|-infinity|infinity|-|w",
        ],
    )?;
    expect(&case, "times", &["a", "b"], &["1|23:59:59.999999|-", "2|23:59:59.999999|-", "3|00:00:00|-"])?;
    expect_by_spark(
        &case,
        "clamped",
        &ALL,
        &[
            "1|2024-02-29|-290308-12-21 19:59:05.224193|+294247-01-10 04:00:54.775807|-|x",
            "3|+5874897-12-31|+294247-01-10 04:00:54.775807|+294247-01-10 04:00:54.775807|-|z",
            "4|-5877641-06-24|+294247-01-10 04:00:54.775807|-290308-12-21 19:59:05.224193|1.50|y",
            "11|+5881580-07-11|+294247-01-10 04:00:54.775807|-4713-11-24 00:00:00|-9999.99|x",
            "1001|+5881580-07-11|-290308-12-21 19:59:05.224193|+294247-01-10 04:00:54.775807|-|w",
        ],
    )?;
    expect_by_spark(
        &case,
        "mixed",
        &ALL,
        &[
            "1|2024-02-29|-290308-12-21 19:59:05.224193|+294247-01-10 04:00:54.775807|-|x",
            "3|+5874897-12-31|+294247-01-10 04:00:54.775807|+294247-01-10 04:00:54.775807|-|z",
            "4|-|+294247-01-10 04:00:54.775807|-290308-12-21 19:59:05.224193|1.50|y",
            "11|-|+294247-01-10 04:00:54.775807|-4713-11-24 00:00:00|-9999.99|x",
            "1001|-|-290308-12-21 19:59:05.224193|+294247-01-10 04:00:54.775807|-|w",
        ],
    )?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    // Tables that are named by flags have the rules that the file has for them.
    case.pipeline.finish(&["verify", "--table", "public.nulled", "--table", "public.times"])?.expect_success()?;
    let text = case.pipeline.finish(&["status"])?.expect_success()?.stdout;
    for says in ["public.mixed: 1,006 values became NULL", "public.times: 1 value became the nearest"] {
        ensure!(text.contains(says), "'{says}' is not in\n{text}");
    }
    case.pass()
}

/// A rule that comes later loosens the column with the first value that needs it; one that goes leaves what was.
fn a_rule_may_change(version: u32) -> anyhow::Result<()> {
    let schema = "create table t (id int primary key, d date not null, n numeric(4,1) not null); insert into t values (1, '2024-01-01', 1);
        create table stuck (id int primary key, n numeric(4,1)); insert into stuck values (1, 1);";
    let mut case = Case::on(&*Postgres::shared(version)?, "unfit_later", schema, &["public.*"])?;
    case.once_and_same(&["public.t"])?;
    let plain = case.pipeline.clone();
    case.pipeline = plain.clone().with("on_unrepresentable: null");
    // A row of each schema in one transaction.
    case.sql.run("begin; insert into t values (2, '2024-01-02', 2); insert into t values (3, 'infinity', 'NaN'); commit; insert into t values (4, '2024-01-04', 4)")?;
    case.pipeline.once()?;
    expect(&case, "t", &["d", "n"], &["1|2024-01-01|1.0", "2|2024-01-02|2.0", "3|-|-", "4|2024-01-04|4.0"])?;
    expect_by_spark(&case, "t", &["d", "n"], &["1|2024-01-01|1.0", "2|2024-01-02|2.0", "3|-|-", "4|2024-01-04|4.0"])?;
    case.pipeline.finish(&["verify"])?.expect_success()?;

    // What no value is near to stops its table.
    case.pipeline = plain.clone().with("on_unrepresentable: clamp");
    case.sql.run("insert into stuck values (2, 'NaN'); insert into t values (5, '-infinity', 5)")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    let state = case.pipeline.state("public.stuck")?;
    ensure!(state.state == "stopped" && state.reason.contains("NaN"), "{state:?}");
    expect(&case, "t", &["d"], &["1|2024-01-01", "2|2024-01-02", "3|-", "4|2024-01-04", "5|-infinity"])?;
    ensure!(case.pipeline.substituted("public.t")? == (2, 1), "{:?}", case.pipeline.substituted("public.t")?);
    // The row that became NULL under the other rule is what a comparison finds, and reading again mends.
    case.sql.run("delete from stuck where id = 2; update t set n = 3 where id = 3")?;
    case.pipeline.finish(&["reload", "public.t", "public.stuck"])?.expect_success()?;
    expect(&case, "t", &["d"], &["1|2024-01-01", "2|2024-01-02", "3|infinity", "4|2024-01-04", "5|-infinity"])?;
    ensure!(case.pipeline.substituted("public.t")? == (0, 2));
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.pipeline = plain;
    case.sql.run("insert into t values (6, 'infinity', 6)")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    let state = case.pipeline.state("public.t")?;
    ensure!(state.reason.contains("infinity"), "{state:?}");
    case.pass()
}

const GREAT: &[&str] =
    &["1e40", "-1e40", "1e36", "-999999999999999999999999999999999999.99", "999999999999999999999999999999999999.995"];

/// Numbers beyond the digits that were chosen for them: of some the nearest is what rounds to too much by a half only.
fn numbers_too_great_for_a_chosen_type(version: u32) -> anyhow::Result<()> {
    let rows = |from: usize| {
        let rows = GREAT.iter().enumerate().map(|(at, number)| format!("({}, {number})", from + at));
        rows.collect::<Vec<_>>().join(", ")
    };
    let schema: String = ["nulled", "clamped"]
        .map(|name| {
            format!("create table {name} (id int primary key, n numeric); insert into {name} values {};", rows(1))
        })
        .concat()
        + "create table refused (id int primary key, n numeric); insert into refused values (1, 1.5);
           create table unread (id int primary key, n numeric); insert into unread values (1, 1e40)";
    let entry = |name: &str, rule: &str| {
        format!("{{name: public.{name}, columns: {{n: {{type: 'decimal(38,2)', on_unrepresentable: {rule}}}}}}}")
    };
    let entries = [("nulled", "null"), ("clamped", "clamp"), ("refused", "error"), ("unread", "error")]
        .map(|(name, rule)| entry(name, rule));
    let entries = entries.each_ref().map(String::as_str);
    let mut case = Case::on(&*Postgres::shared(version)?, "unfit_great", &schema, &entries)?;
    let stopped = |case: &Case, name: &str| {
        case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
        let state = case.pipeline.state(&format!("public.{name}"))?;
        ensure!(state.state == "stopped" && state.reason.contains("a number with more digits"), "{name}: {state:?}");
        Ok(())
    };
    stopped(&case, "unread")?;
    case.sql.run("update unread set n = 2")?;
    case.pipeline.finish(&["reload", "public.unread"])?.expect_success()?;
    case.sql.run(&format!(
        "insert into nulled values {0}; insert into clamped values {0}; insert into refused values (2, -1e40)",
        rows(11)
    ))?;
    stopped(&case, "refused")?;

    let (most, least) = ("999999999999999999999999999999999999.99", "-999999999999999999999999999999999999.99");
    let nulled = ["-", "-", "-", least, "-"];
    let clamped = [most, least, most, least, most];
    for (name, expected) in [("nulled", nulled), ("clamped", clamped)] {
        let lines: Vec<String> = [1, 11]
            .iter()
            .flat_map(|from| (*from..).zip(expected).map(|(id, number)| format!("{id}|{number}")))
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        expect(&case, name, &["n"], &lines)?;
        expect_by_spark(&case, name, &["n"], &lines)?;
    }
    let counted = ["nulled", "clamped"].map(|name| case.pipeline.substituted(&format!("public.{name}")));
    let [nulled, clamped] = counted;
    ensure!((nulled?, clamped?) == ((8, 0), (0, 8)));
    case.sql.run("delete from refused where id = 2")?;
    case.pipeline.finish(&["reload", "public.refused"])?.expect_success()?;
    expect(&case, "refused", &["n"], &["1|1.50"])?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.pass()
}

#[test]
fn rules_that_cannot_be_are_refused() -> anyhow::Result<()> {
    let schema = "create table t (day date primary key, d date); insert into t values ('2024-01-01', null);
        create table all_keys (day date primary key)";
    let case = Case::new("unfit_refused", schema, &["public.t"])?;
    let with = |entry: &str| case.pipeline.clone().tables(&[entry]);
    let key = "{name: public.t, columns: {day: {on_unrepresentable: clamp}}}";
    let key = case.pipeline.clone().tables(&[key, "public.all_keys"]);
    let says = ["on_unrepresentable is clamp for key column day of table public.t"];
    complains(&key.finish(&["run", "--once"])?, 2, &says)?;
    let checked = key.finish(&["check"])?.expect_code(2)?;
    ensure!(checked.stdout.contains(says[0]), "{}", checked.stdout);
    complains(
        &with("{name: public.t, columns: {dd: {on_unrepresentable: null}}}").finish(&["run", "--once"])?,
        2,
        &["dd", "no such column", "day, d"],
    )?;
    for (entry, says) in [
        ("{name: public.t, on_unrepresentable: nul}", ["on_unrepresentable: 'nul'", "did you mean 'null'?"]),
        ("{name: public.t, on_unrepresentable: drop}", ["on_unrepresentable: 'drop'", "use error, null, clamp"]),
        ("{name: public.t, columns: {d: clamp}}", ["column 'd' takes fields", "on_unrepresentable"]),
        (
            "{name: public.t, columns: {d: {on_unrepresentble: null}}}",
            ["not an option of a column", "did you mean 'on_unrepresentable'?"],
        ),
        ("{name: public.t, columns: [d]}", ["'columns'", "names of columns"]),
    ] {
        complains(&with(entry).finish(&["run", "--once"])?, 2, &says)?;
    }
    // The key of every table stays as it is under a rule for all, and a table that is there is asked again.
    let all = case.pipeline.clone().tables(&["public.*"]).with("on_unrepresentable: null");
    all.once()?;
    complains(&key.finish(&["run", "--once"])?, 2, &says)?;
    case.database.sql("insert into public.all_keys values ('infinity')")?;
    all.finish(&["run", "--once"])?.expect_code(3)?;
    let state = all.state("public.all_keys")?;
    ensure!(state.reason.contains("column day") && state.reason.contains("infinity"), "{state:?}");
    case.pass()
}

on_every_server!(values_become_null_or_the_nearest, a_rule_may_change, numbers_too_great_for_a_chosen_type);

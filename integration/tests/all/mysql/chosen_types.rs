//! Columns whose type in the lake was chosen: by load and by stream, on every server.

use anyhow::ensure;
use calve_integration::readers;
use calve_testkit::readers::Reader;
use calve_testkit::servers::{Kind, Server};

use super::{BinlogCase, on_every_server};
use crate::case::complains;

/// Kept as text, each with some values.
const TEXTS: &[(&str, &[&str])] = &[
    ("tinyint", &["-128", "127", "0"]),
    ("tinyint(3) unsigned zerofill", &["7", "255"]),
    ("smallint unsigned", &["65535"]),
    ("mediumint", &["-8388608", "8388607"]),
    ("int(5) unsigned zerofill", &["42", "4294967295", "0"]),
    ("bigint", &["-9223372036854775808", "9223372036854775807"]),
    ("bigint unsigned", &["18446744073709551615", "0"]),
    ("decimal(10,2)", &["-99999999.99", "0.05", "0"]),
    ("decimal(8,2) zerofill", &["3.5", "123456.78"]),
    ("year", &["0", "1901", "2155"]),
    ("date", &["'0000-00-00'", "'2023-02-31'", "'9999-12-31'"]),
    ("datetime(3)", &["'0000-00-00'", "'2024-02-29 23:59:59.9994'", "'1000-01-01'"]),
    ("datetime", &["'2024-00-01'", "'2024-01-02 03:04:05'"]),
    (
        "timestamp(6) null",
        &["'0000-00-00'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07.999999'", "'2024-02-29 12:00:00.5'"],
    ),
    ("time", &["'-838:59:59'", "'838:59:59'", "'24:00:00'", "'-00:00:01'"]),
    ("time(3)", &["'-00:00:00.001'", "'12:34:56.789'"]),
    ("varchar(20)", &["'text'", "''"]),
    ("enum('a','b')", &["'b'"]),
];

fn values_of(n: usize) -> String {
    let values = TEXTS.iter().map(|(_, values)| values.get(n).copied().unwrap_or("null"));
    values.collect::<Vec<_>>().join(", ")
}

/// The columns that are text in the lake, as the server casts them and as DuckDB has them.
fn same_texts(case: &mut BinlogCase, table: &str) -> anyhow::Result<()> {
    let casts = (0..TEXTS.len()).map(|at| format!("cast(c{at} as char)")).collect::<Vec<_>>().join(", ");
    let source = case.sql.rows(&format!("select cast(id as char), {casts} from {table} t order by t.id"))?;
    let names = (0..TEXTS.len()).map(|at| format!("c{at}")).collect::<Vec<_>>().join(", ");
    let query = format!("select cast(id as varchar), {names} from t order by t.id");
    let at = case.lake().table(case.database.name(), table)?;
    let found = readers::duckdb(|duckdb| Ok(duckdb.query_table(&at, &query)?))?;
    ensure!(found.rows == source, "{table}: {:?}\nis not\n{source:?}", found.rows);
    Ok(())
}

fn numbers(case: &BinlogCase, table: &str, spark: bool) -> anyhow::Result<Vec<String>> {
    let query = "select id, u, i, t, f, d from t order by id";
    let at = case.lake().table(case.database.name(), table)?;
    let found = if spark {
        readers::spark(|spark| Ok(spark.query_table(&at, query)?))?
    } else {
        readers::duckdb(|duckdb| Ok(duckdb.query_table(&at, query)?))?
    };
    let text =
        |row: &Vec<Option<String>>| row.iter().map(|cell| cell.clone().unwrap_or("-".into())).collect::<Vec<_>>();
    Ok(found.rows.iter().map(|row| text(row).join("|")).collect())
}

fn a_type_is_chosen(server: &Server) -> anyhow::Result<()> {
    let columns = TEXTS.iter().enumerate().map(|(at, (ty, _))| format!("c{at} {ty}")).collect::<Vec<_>>().join(", ");
    let more = if server.kind() == Kind::MariaDb { ", uu uuid" } else { "" };
    let numbers_of = "id int primary key, u bigint unsigned, i int, t tinyint, f float, d decimal(50,20)";
    let rows = "(1, 9223372036854775807, -5, 1, 0.1, 1.5), (2, 18446744073709551615, 2147483647, -3, 16777216, 12345678901234567890.00005),
                (3, null, null, 2, null, -0.00004999), (4, 0, 0, 0, 0, null)";
    let schema = format!(
        "set sql_mode = 'ALLOW_INVALID_DATES'; create table loaded (id int primary key, {columns}{more}); create table streamed like loaded;
         create table nums ({numbers_of}); create table streamed_nums like nums; insert into nums values {rows};
         create table keyed (t time, n int(4) unsigned zerofill, v int, primary key (t, n)); insert into keyed values ('-01:00:00', 5, 1), ('99:00:00', 5, 2);"
    );
    let mut case = BinlogCase::on(server, "chosen", &schema, &[])?;
    let texts: Vec<String> = (0..TEXTS.len()).map(|at| format!("c{at}: {{type: string}}")).collect();
    let uuid = if more.is_empty() { "" } else { ", uu: {type: string}" };
    let entry = |table: &str, columns: &str| format!("{{name: {}, columns: {{{columns}}}}}", case.name(table));
    let nums = "u: {type: long, on_unrepresentable: clamp}, i: {type: long}, t: {type: boolean, on_unrepresentable: null}, f: {type: double},
                d: {type: 'decimal(20,4)', on_unrepresentable: clamp}";
    let texts = format!("{}{uuid}", texts.join(", "));
    let entries = [
        entry("loaded", &texts),
        entry("streamed", &texts),
        entry("nums", nums),
        entry("streamed_nums", nums),
        entry("keyed", "t: {type: string}, n: {type: string}"),
    ];
    case.pipeline = case.pipeline.clone().tables(&entries.each_ref().map(String::as_str));
    let names = (0..TEXTS.len()).map(|at| format!("c{at}")).collect::<Vec<_>>().join(", ");
    let insert = |table: &str| {
        let rows = (0..5).map(|n| format!("({n}, {})", values_of(n))).collect::<Vec<_>>();
        format!("insert into {table} (id, {names}) values {}", rows.join(", "))
    };
    case.sql.run(&insert("loaded"))?;
    if !more.is_empty() {
        case.sql.run("update loaded set uu = '6ba7b810-9dad-11d1-80b4-00c04fd430c8' where id = 1")?;
    }
    case.pipeline.once()?;
    case.sql.run(&insert("streamed"))?;
    if !more.is_empty() {
        case.sql.run("update streamed set uu = '6BA7B810-9DAD-11D1-80B4-00C04FD43000' where id = 2")?;
    }
    case.sql.run(&format!(
        "insert into streamed_nums values {rows}; update loaded set c0 = 5, c14 = '-00:00:02' where id > 1; update nums set i = i + 0 where id > 1;
         update keyed set t = '-838:59:59' where v = 2; update keyed set n = 77 where v = 1"
    ))?;
    case.pipeline.once()?;
    for table in ["loaded", "streamed"] {
        same_texts(&mut case, table)?;
    }
    let expected = [
        "1|9223372036854775807|-5|true|0.10000000149011612|1.5000",
        "2|9223372036854775807|2147483647|-|16777216|9999999999999999.9999",
        "3|-|-|-|-|0.0000",
        "4|0|0|false|0|-",
    ];
    for (table, spark) in [("nums", false), ("nums", true), ("streamed_nums", false), ("streamed_nums", true)] {
        let found: Vec<String> =
            numbers(&case, table, spark)?.iter().map(|line| line.replace("1.6777216e+07", "16777216")).collect();
        ensure!(found == expected, "{table} by Spark {spark}: {found:#?}");
    }
    // Two clamped decimals, a long, and two truth values that are none.
    ensure!(case.pipeline.substituted(&case.name("streamed_nums"))? == (2, 3));
    let at = case.lake().table(case.database.name(), "keyed")?;
    let keyed = readers::duckdb(|duckdb| Ok(duckdb.query_table(&at, "select t, n, v from t order by v")?))?;
    let keyed: Vec<Vec<String>> = keyed.rows.iter().map(|row| row.iter().flatten().cloned().collect()).collect();
    ensure!(keyed == [["-01:00:00", "0077", "1"], ["-838:59:59", "0005", "2"]], "{keyed:?}");
    case.pipeline.finish(&["verify"])?.expect_success()?;

    // Columns grow at the source, and keep the type that was chosen; where their text would be another, the table stops.
    case.sql.run("alter table nums modify i bigint, modify d decimal(52,20); insert into nums (id, i, d) values (5, 5000000000, 2.5); alter table loaded modify c3 bigint")?;
    case.pipeline.once()?;
    let found = numbers(&case, "nums", false)?;
    ensure!(found[4] == "5|-|5000000000|-|-|2.5000", "{found:#?}");
    case.sql.run("alter table loaded modify c14 time(2); insert into loaded (id, c14) values (9, '10:00:00.25')")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.stopped("loaded", &["schema changed", "c14"])?;
    case.reload(&["loaded"])?;
    same_texts(&mut case, "loaded")?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.pass()
}

fn types_that_a_column_cannot_have_are_refused(server: &Server) -> anyhow::Result<()> {
    let schema =
        "create table t (id int primary key, f float, d double, b bit(8), y blob, n decimal(5,2), dt datetime)";
    let case = BinlogCase::on(server, "chosen_refused", schema, &["t"])?;
    for (column, ty, says) in [
        ("f", "string", "cannot be string in the lake: set its type in the configuration to one of float, double"),
        ("d", "string", "to one of double"),
        ("b", "string", "to one of long"),
        ("y", "string", "to one of binary"),
        ("n", "double", "to one of decimal(5,2), string, decimal(p,s)"),
        ("dt", "date", "to one of timestamp, string"),
        ("id", "uuid", "to one of int, long, string"),
    ] {
        let entry = format!("{{name: {}, columns: {{{column}: {{type: {ty}}}}}}}", case.name("t"));
        complains(&case.pipeline.clone().tables(&[&entry]).finish(&["run", "--once"])?, 2, &[says])?;
    }
    case.pass()
}

on_every_server!(a_type_is_chosen, types_that_a_column_cannot_have_are_refused);

//! Columns whose type in the lake was chosen: by load and by stream, on every Postgres.

use anyhow::ensure;
use calve_integration::readers;
use calve_testkit::readers::Reader;
use calve_testkit::servers::Postgres;

use crate::case::{Case, complains};

const COLUMNS: &str = "id int primary key, i int not null, b boolean, ts timestamptz, d date, ti time, bin bytea, u uuid, r real, g double precision, n2 numeric(12,3), x text,
    j jsonb, o oid, s smallint, n numeric, m numeric(30,10), f real";
const TYPES: &str = "columns: {i: {type: string}, b: {type: string}, ts: {type: string}, d: {type: string}, ti: {type: string}, bin: {type: string}, u: {type: string}, r: {type: string},
    g: {type: string}, n2: {type: string}, x: {type: string}, j: {type: string}, o: {type: string}, s: {type: long},
    n: {type: 'decimal(20,4)', on_unrepresentable: clamp}, m: {type: long, on_unrepresentable: null}, f: {type: double}}";
const TEXTS: [&str; 13] = ["i", "b", "ts", "d", "ti", "bin", "u", "r", "g", "n2", "x", "j", "o"];
const ROWS: &str = "(1, -2147483648, true, 'infinity', '-infinity', '24:00:00', '\\x00ff', '6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'NaN', '-0', 'NaN', '', '{\"a\": 1.10}', 4294967295, -32768, 1.5, 5, 0.1),
    (2, 2147483647, false, '2024-03-31 02:30:00+02', '0044-03-15 BC', '23:59:59.999999', '', null, 0.1, 1e15, 0.001, ' x ', '[]', 0, 32767, 12345678901234567890, 9223372036854775807, 'NaN'),
    (3, 0, null, '4714-11-24 00:00:00+00 BC', '5874897-12-31', '00:00', null, null, '-Infinity', 5e-324, -5, 'ä', null, null, null, 0.00005, 9223372036854775808, '-Infinity'),
    (4, 7, null, null, null, null, null, null, 16777216, 123456.789, null, null, null, null, 7, '-Infinity', 1.5, 16777216),
    (5, 7, null, null, null, null, null, null, 1.4e-45, 1.7976931348623157e308, null, null, null, null, 7, -0.00004999, -9223372036854775808.0, 3.4028235e38)";

/// The columns that are text in the lake, as the server prints them and as DuckDB has them.
fn same_texts(case: &mut Case, table: &str) -> anyhow::Result<()> {
    let printed = TEXTS.map(|name| format!("case when {name} is not null then format('%s', {name}) end")).join(", ");
    let source = case.sql.rows(&format!("select id::text, {printed} from {table} t order by t.id"))?;
    let query = format!("select cast(id as varchar), {} from t order by t.id", TEXTS.join(", "));
    let found = readers::duckdb(|duckdb| Ok(duckdb.query_table(&case.lake().table("public", table)?, &query)?))?;
    ensure!(found.rows == source, "{table}: {:?}\nis not\n{source:?}", found.rows);
    Ok(())
}

/// The other columns by a reader.
fn numbers(case: &Case, table: &str, spark: bool) -> anyhow::Result<Vec<String>> {
    let query = "select id, s, n, m, f from t order by id";
    let at = case.lake().table("public", table)?;
    let found = if spark {
        readers::spark(|spark| Ok(spark.query_table(&at, query)?))?
    } else {
        readers::duckdb(|duckdb| Ok(duckdb.query_table(&at, query)?))?
    };
    let text =
        |row: &Vec<Option<String>>| row.iter().map(|cell| cell.clone().unwrap_or("-".into())).collect::<Vec<_>>();
    Ok(found.rows.iter().map(|row| text(row).join("|")).collect())
}

fn a_type_may_be_chosen(version: u32) -> anyhow::Result<()> {
    let schema = format!(
        "create table loaded ({COLUMNS}); create table streamed ({COLUMNS}); insert into loaded values {ROWS};
         create table keyed (moment timestamptz, n numeric(9,2), v int, primary key (moment, n));
         insert into keyed values ('2024-01-01 00:00:00+01', 1.50, 1), ('infinity', 2, 2);"
    );
    let entries = [
        format!("{{name: public.loaded, {TYPES}}}"),
        format!("{{name: public.streamed, {TYPES}}}"),
        "{name: public.keyed, columns: {moment: {type: string}, n: {type: 'decimal(18,4)'}}}".to_owned(),
    ];
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    let mut case = Case::on(&*Postgres::shared(version)?, "chosen", &schema, &entries)?;
    case.pipeline.once()?;
    case.sql.run(&format!(
        "insert into streamed values {ROWS}; update loaded set i = i + 1 where id > 2;
         update keyed set moment = '-infinity' where v = 2; update keyed set v = 3 where v = 1; insert into keyed values ('2024-01-01', 0.01, 4); delete from keyed where v = 4"
    ))?;
    case.pipeline.once()?;
    let expected = [
        "1|-32768|1.5000|5|0.10000000149011612",
        "2|32767|9999999999999999.9999|9223372036854775807|NaN",
        "3|-|0.0001|-|-Infinity",
        "4|7|-9999999999999999.9999|-|1.6777216e+07",
        "5|7|0.0000|-9223372036854775808|3.4028234663852886e+38",
    ];
    for table in ["loaded", "streamed"] {
        same_texts(&mut case, table)?;
        for spark in [false, true] {
            let found = numbers(&case, table, spark)?;
            let plain = |line: &str| line.replace("1.6777216e+07", "16777216");
            ensure!(
                found.iter().map(|line| plain(line)).eq(expected.map(plain)),
                "{table} by Spark {spark}: {found:#?}"
            );
        }
    }
    ensure!(
        case.pipeline.substituted("public.streamed")? == (2, 4),
        "{:?}",
        case.pipeline.substituted("public.streamed")?
    );
    let keyed = readers::duckdb(|duckdb| {
        Ok(duckdb.query_table(&case.lake().table("public", "keyed")?, "select moment, n, v from t order by v")?)
    })?;
    let texts: Vec<Vec<String>> = keyed.rows.iter().map(|row| row.iter().flatten().cloned().collect()).collect();
    ensure!(texts == [["-infinity", "2.0000", "2"], ["2023-12-31 23:00:00+00", "1.5000", "3"]], "{texts:?}");
    case.pipeline.finish(&["verify"])?.expect_success()?;
    // Columns grow at the source, and keep the type that was chosen.
    case.sql.run("alter table loaded alter column i type bigint, alter column s type integer, alter column n2 type numeric(14,3); insert into loaded (id, i, s, n2) values (6, 9223372036854775807, 65536, 12345678901.5)")?;
    case.pipeline.once()?;
    same_texts(&mut case, "loaded")?;
    ensure!(numbers(&case, "loaded", false)?[5] == "6|65536|-|-|-");
    case.sql.run("alter table streamed alter column r type double precision")?;
    case.sql.run("insert into streamed (id, i, r) values (6, 1, 0.1)")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    let state = case.pipeline.state("public.streamed")?;
    ensure!(state.reason.contains("schema changed") && state.reason.contains("column r"), "{state:?}");
    case.pipeline.finish(&["reload", "public.streamed"])?.expect_success()?;
    same_texts(&mut case, "streamed")?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.pass()
}

/// A table that is there keeps its types until it is read again.
#[test]
fn a_type_chosen_later_counts_when_the_table_is_read_again() -> anyhow::Result<()> {
    let schema = "create table t (id int primary key, v int, w int); insert into t values (1, 1, 1)";
    let mut case = Case::new("chosen_later", schema, &["public.t"])?;
    case.once_and_same(&["public.t"])?;
    let plain = case.pipeline.clone();
    case.pipeline = plain.clone().tables(&["{name: public.t, columns: {v: {type: string}, w: {type: long}}}"]);
    case.sql
        .run("insert into t values (2, 2, 2); alter table t add column z int; insert into t values (3, 3, 3, 3)")?;
    let finished = case.pipeline.once()?;
    ensure!(
        finished.stderr.contains("its type string of the configuration counts when the table is read again"),
        "{}",
        finished.stderr
    );
    case.same(&["public.t"])?;
    case.pipeline.finish(&["reload", "public.t"])?.expect_success()?;
    case.sql.run("update t set v = 30 where id = 3")?;
    let finished = case.pipeline.once()?;
    ensure!(!finished.stderr.contains("of the configuration counts"), "{}", finished.stderr);
    let types = readers::duckdb(|duckdb| {
        let table = case.lake().table("public", "t")?;
        Ok(duckdb.query_table(&table, "select v, typeof(v), typeof(w), typeof(z) from t order by id")?)
    })?;
    let texts: Vec<String> =
        types.rows.iter().map(|row| row.iter().flatten().cloned().collect::<Vec<_>>().join(" ")).collect();
    ensure!(
        texts == ["1 VARCHAR BIGINT INTEGER", "2 VARCHAR BIGINT INTEGER", "30 VARCHAR BIGINT INTEGER"],
        "{texts:?}"
    );
    case.pipeline.finish(&["verify"])?.expect_success()?;
    // Taken back, it is as it was.
    case.pipeline = plain;
    case.pipeline.finish(&["reload", "public.t"])?.expect_success()?;
    case.once_and_same(&["public.t"])?;
    case.pass()
}

#[test]
fn types_that_a_column_cannot_have_are_refused() -> anyhow::Result<()> {
    let schema = "create domain cents as numeric(9,2); create table t (id int primary key, i int, n numeric, r real, d date, c cents); create table f (r real primary key)";
    let case = Case::new("chosen_refused", schema, &["public.t"])?;
    for (column, ty, says) in [
        (
            "i",
            "date",
            "\"i\" of table public.t is integer, which cannot be date in the lake: set its type in the configuration to one of int, long, string",
        ),
        ("n", "double", "to one of string, long, decimal(p,s)"),
        ("r", "int", "to one of float, double, string"),
        ("d", "timestamp", "to one of date, string"),
        ("c", "'decimal(12,4)'", "to one of decimal(9,2), string"),
        ("i", "integer", "'integer' is no type of the lake"),
        ("i", "lon", "did you mean 'long'?"),
        ("n", "'decimal(39,2)'", "1 to 38 digits"),
    ] {
        let entry = format!("{{name: public.t, columns: {{{column}: {{type: {ty}}}}}}}");
        complains(&case.pipeline.clone().tables(&[&entry]).finish(&["run", "--once"])?, 2, &[says])?;
    }
    let key = case.pipeline.clone().tables(&["{name: public.f, columns: {r: {type: string}}}"]);
    complains(&key.finish(&["run", "--once"])?, 2, &["floating-point numbers cannot tell rows apart"])?;
    case.pass()
}

mod a_type_is_chosen {
    #[test]
    fn postgres_15() -> anyhow::Result<()> {
        super::a_type_may_be_chosen(15)
    }

    #[test]
    fn postgres_17() -> anyhow::Result<()> {
        super::a_type_may_be_chosen(17)
    }

    #[test]
    fn postgres_18() -> anyhow::Result<()> {
        super::a_type_may_be_chosen(18)
    }
}

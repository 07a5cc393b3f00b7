//! Values that the pipeline has a choice of: zero dates, and truth values that are numbers to the server.

use anyhow::{Context, ensure};
use calve_integration::binary::Finished;
use calve_integration::readers;
use calve_testkit::readers::Reader;
use calve_testkit::servers::Server;

use super::{BinlogCase, on_every_server};

/// What `status` counts for a table, and says of it.
fn nulled(case: &BinlogCase, table: &str) -> anyhow::Result<(u64, String)> {
    let (status, name) = (case.pipeline.status()?, case.name(table));
    let tables = status["tables"].as_array().context("status has no tables")?;
    let entry = tables.iter().find(|entry| entry["table"] == name.as_str()).context("status lacks the table")?;
    let count = entry["nulled_values"].as_u64().with_context(|| format!("no count in {entry}"))?;
    let text = case.pipeline.finish(&["status"])?.expect_success()?.stdout;
    let line = text.lines().find(|line| line.starts_with(&format!("{name}: "))).unwrap_or_default();
    Ok((count, line.to_owned()))
}

/// The columns that the log says of that their zero dates became NULL.
fn told(finished: &Finished) -> Vec<String> {
    let lines = finished.stderr.lines().filter(|line| line.contains("zero dates become NULL"));
    let column = |line: &str| {
        let json: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(json["fields"]["column"].as_str().or(json["column"].as_str())?.to_owned())
    };
    let mut columns: Vec<String> = lines.map(|line| column(line).unwrap_or_else(|| line.to_owned())).collect();
    columns.sort();
    columns
}

fn zero_dates_become_null_and_are_counted(server: &Server) -> anyhow::Result<()> {
    let schema = "
        set sql_mode = '';
        create table t (id int primary key, d date not null, at datetime(3) null, ts timestamp null);
        create table fine (id int primary key, d date); insert into fine values (1, '2024-01-01'), (2, null);
        insert into t values (1, '0000-00-00', '2024-01-00 10:00:00', null), (2, '2024-01-01', '2024-01-01', '2024-01-01'),
                             (3, '2024-02-00', null, null);";
    let mut case = BinlogCase::on(server, "zeros", schema, &["t", "fine"])?;
    let tables = ["t", "fine"];
    let loaded = case.pipeline.once()?;
    case.same(&tables)?;
    let columns = told(&loaded);
    ensure!(columns == ["at", "d"], "the load tells of {columns:?}\n{}", loaded.stderr);
    let (count, line) = nulled(&case, "t")?;
    ensure!(count == 3 && line.contains("3 values became NULL"), "{count}: {line}");

    // Three of a new row, one of a row that had none, two of a row that has them still; and again in another file.
    case.sql.run(
        "insert into t values (4, '0000-00-00', '0000-00-00 00:00:00', '0000-00-00 00:00:00');
         update t set d = '0000-00-00' where id = 2; flush binary logs; update t set ts = '2024-01-01' where id = 1",
    )?;
    let streamed = case.pipeline.once()?;
    case.same(&tables)?;
    let columns = told(&streamed);
    ensure!(columns == ["at", "d", "ts"], "the stream tells of {columns:?}\n{}", streamed.stderr);
    let (count, line) = nulled(&case, "t")?;
    ensure!(count == 9 && line.contains("9 values became NULL"), "{count}: {line}");
    // What comes again is not counted again, and what has none is not spoken of.
    case.once_and_same(&tables)?;
    ensure!(nulled(&case, "t")?.0 == 9 && nulled(&case, "fine")? == (0, String::new()), "{:?}", nulled(&case, "fine")?);
    case.pipeline.finish(&["verify"])?.expect_success()?;
    // A table that is read again has what its rows have now.
    case.reload(&["t"])?;
    ensure!(nulled(&case, "t")?.0 == 7, "{:?}", nulled(&case, "t")?);
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.pass()
}

fn zero_dates_stop_their_table_where_that_is_asked_for(server: &Server) -> anyhow::Result<()> {
    let table = |name: &str| {
        format!(
            "create table {name} (id int primary key, d date not null, at datetime null); insert into {name} values (1, '2024-01-01', null);"
        )
    };
    let schema = ["loaded", "streamed", "partial", "good"].map(table).concat();
    let mut case = BinlogCase::on(server, "zero_stop", &schema, &["loaded", "streamed", "partial", "good"])?;
    let as_null = case.pipeline.clone();
    case.pipeline = as_null.clone().with("on_zero_date: error");
    case.sql.run("set sql_mode = ''; insert into loaded values (2, '0000-00-00', null)")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.sql.run(
        "insert into streamed values (2, '2024-01-02', '0000-00-00 00:00:00'); update partial set d = '2024-00-01';
         insert into good values (2, '2024-01-01', '2024-01-01')",
    )?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    for (stopped, column) in [("loaded", "d"), ("streamed", "at"), ("partial", "d")] {
        let says = ["unrepresentable value", "column ", column, "zero date", "on_zero_date"];
        case.stopped(stopped, &says)?;
    }
    case.same(&["good"])?;
    // Either way out: the value, or the rule. The table that went on needs nothing for it.
    case.sql.run("update loaded set d = '2024-01-01' where id = 2")?;
    case.reload(&["loaded"])?;
    case.pipeline = as_null;
    case.reload(&["streamed", "partial"])?;
    case.sql.run("update good set d = '0000-00-00' where id = 1; insert into loaded values (3, '0000-00-00', null)")?;
    case.once_and_same(&["loaded", "streamed", "partial", "good"])?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.pass()
}

/// The table as DuckDB has it, and the type it has for `f`.
fn flags(case: &BinlogCase, table: &str) -> anyhow::Result<Vec<String>> {
    let in_lake = case.lake().table(case.database.name(), table)?;
    let query = "select id, coalesce(cast(f as varchar), '-'), u, n, typeof(f) from t order by id, 2";
    let found = readers::duckdb(|duckdb| Ok(duckdb.query_table(&in_lake, query)?))?;
    let text = |row: &Vec<Option<String>>| row.iter().map(|cell| cell.clone().unwrap_or_default()).collect::<Vec<_>>();
    Ok(found.rows.iter().map(|row| text(row).join(" ")).collect())
}

fn a_tinyint_of_width_1_is_a_boolean_where_that_is_asked_for(server: &Server) -> anyhow::Result<()> {
    let schema = "
        create table loaded (id int primary key, f tinyint(1), u tinyint(1) unsigned not null, n tinyint not null);
        create table streamed like loaded;
        create table keyed (f tinyint(1) not null, id int, u int not null, n int not null, primary key (f, id));
        insert into loaded values (1, 0, 0, 0), (2, 1, 2, -1), (3, null, 255, 127);
        insert into keyed values (0, 1, 0, 0), (1, 1, 0, 0), (1, 2, 0, 0);";
    let mut case = BinlogCase::on(server, "flags", schema, &["loaded", "streamed", "keyed"])?;
    let as_number = case.pipeline.clone();
    case.pipeline = as_number.clone().with("tinyint1_as_boolean: true");
    case.pipeline.once()?;
    case.sql.run(
        "insert into streamed select * from loaded; update loaded set f = not f where id < 3; delete from keyed where f and id = 2;
         update keyed set f = 1, id = 3 where not f; update keyed set n = 5 where id = 1",
    )?;
    case.pipeline.once()?;
    let expect = |case: &BinlogCase, table: &str, expected: &[&str]| -> anyhow::Result<()> {
        let found = flags(case, table)?;
        ensure!(found == expected, "{table}: {found:?} is not {expected:?}");
        Ok(())
    };
    let streamed = ["1 false 0 0 BOOLEAN", "2 true 2 -1 BOOLEAN", "3 - 255 127 BOOLEAN"];
    expect(&case, "streamed", &streamed)?;
    expect(&case, "loaded", &["1 true 0 0 BOOLEAN", "2 false 2 -1 BOOLEAN", "3 - 255 127 BOOLEAN"])?;
    expect(&case, "keyed", &["1 true 0 5 BOOLEAN", "3 true 0 0 BOOLEAN"])?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.reload(&["streamed"])?;
    expect(&case, "streamed", &streamed)?;

    // A number that is no truth value is not made one.
    case.sql.run("insert into streamed values (9, 2, 0, 0)")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.stopped("streamed", &["unrepresentable value", "0 and 1", "reload"])?;
    case.reload_stops("streamed")?;
    case.sql.run("update streamed set f = 1 where id = 9")?;
    case.reload(&["streamed"])?;
    case.pipeline.once()?;
    case.pipeline.finish(&["verify"])?.expect_success()?;

    // Without the option tables go on as they are, and become numbers when they are read again.
    case.pipeline = as_number;
    case.sql.run("insert into loaded values (4, 1, 0, 0)")?;
    case.pipeline.once()?;
    expect(
        &case,
        "loaded",
        &["1 true 0 0 BOOLEAN", "2 false 2 -1 BOOLEAN", "3 - 255 127 BOOLEAN", "4 true 0 0 BOOLEAN"],
    )?;
    case.reload(&["loaded", "streamed", "keyed"])?;
    case.sql.run("update loaded set f = -7 where id = 1; insert into keyed values (2, 1, 0, 0)")?;
    case.once_and_same(&["loaded", "streamed", "keyed"])?;
    case.pass()
}

on_every_server!(
    zero_dates_become_null_and_are_counted,
    zero_dates_stop_their_table_where_that_is_asked_for,
    a_tinyint_of_width_1_is_a_boolean_where_that_is_asked_for,
);

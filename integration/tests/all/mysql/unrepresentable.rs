//! What the lake cannot hold becomes what `on_unrepresentable` says, by load and by stream, on every server.

use anyhow::ensure;
use calve_integration::readers;
use calve_testkit::readers::Reader;
use calve_testkit::servers::Server;

use super::{BinlogCase, on_every_server};
use crate::case::complains;
use crate::unrepresentable::told;

/// Rows of a table as text, as a reader shows them.
fn read(reader: &mut impl Reader, case: &BinlogCase, table: &str, columns: &[&str]) -> anyhow::Result<Vec<String>> {
    let texts: Vec<String> = columns.iter().map(|name| format!("coalesce(cast({name} as varchar(80)), '-')")).collect();
    let query = format!("select id, {} from t order by id", texts.join(", "));
    let found = reader.query_table(&case.lake().table(case.database.name(), table)?, &query)?;
    let text = |row: &Vec<Option<String>>| row.iter().map(|cell| cell.clone().unwrap_or_default()).collect::<Vec<_>>();
    Ok(found.rows.iter().map(|row| text(row).join("|")).collect())
}

fn expect(case: &BinlogCase, table: &str, columns: &[&str], expected: &[&str]) -> anyhow::Result<()> {
    let found = readers::duckdb(|duckdb| read(duckdb, case, table, columns))?;
    ensure!(found == expected, "DuckDB reads {table} as\n{}\nand not\n{}", found.join("\n"), expected.join("\n"));
    Ok(())
}

fn expect_by_spark(case: &BinlogCase, table: &str, columns: &[&str], expected: &[&str]) -> anyhow::Result<()> {
    let found = readers::spark(|spark| read(spark, case, table, columns))?;
    ensure!(found == expected, "Spark reads {table} as\n{}\nand not\n{}", found.join("\n"), expected.join("\n"));
    Ok(())
}

const DAYS: &str = "(1, '2023-02-31', '2023-02-30 10:00:00.25', 2), (2, '2024-02-30', '2024-04-31 23:59:59.99', -3), (3, '2024-02-29', '0000-00-00', 1)";
const TIMES: &str = "(1, '-838:59:59'), (2, '838:59:59'), (3, '24:00:00'), (4, '23:59:59.999'), (5, '-00:00:00.001')";

/// Follows tables of the database, each with the fields of its entry.
fn follow(case: &mut BinlogCase, entries: &[(&str, &str)]) {
    let entries: Vec<String> =
        entries.iter().map(|(table, fields)| format!("{{name: {}, {fields}}}", case.name(table))).collect();
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    case.pipeline = case.pipeline.clone().tables(&entries);
}

fn values_become_null_or_the_nearest(server: &Server) -> anyhow::Result<()> {
    let tables = |name: &str| {
        format!(
            "create table {name}_days (id int primary key, d date not null, moment datetime(2) not null, f tinyint(1) not null);
             create table {name}_times (id int primary key, t time(3) not null);
             insert into {name}_days values {DAYS}; insert into {name}_times values {TIMES};"
        )
    };
    let schema = format!("set sql_mode = 'ALLOW_INVALID_DATES'; {}{}", tables("nulled"), tables("clamped"));
    let mut case = BinlogCase::on(server, "unfit_rules", &schema, &[])?;
    let (null, clamp) = ("on_unrepresentable: null", "on_unrepresentable: clamp");
    let but_f = "on_unrepresentable: clamp, columns: {f: {on_unrepresentable: null}}";
    let others = [("nulled_days", null), ("nulled_times", null), ("clamped_times", clamp)];
    let follow_with = |case: &mut BinlogCase, days| follow(case, &[&others[..], &[("clamped_days", days)]].concat());
    follow_with(&mut case, but_f);
    case.pipeline = case.pipeline.clone().with("tinyint1_as_boolean: true");
    let once_each = ["d", "d", "f", "f", "moment", "moment", "t", "t"];
    let loaded = case.pipeline.once()?;
    ensure!(told(&loaded) == once_each, "the load tells of {:?}", told(&loaded));

    for name in ["nulled", "clamped"] {
        case.sql.run(&format!(
            "insert into {name}_days select id + 10, d, moment, f from {name}_days; insert into {name}_times select id + 10, t from {name}_times;
             update {name}_days set d = '2024-01-01' where id = 1; update {name}_days set id = 4 where id = 2; flush binary logs;
             delete from {name}_days where id in (12, 13); update {name}_times set t = t + interval 1 second where id = 4; delete from {name}_times where id > 11"
        ))?;
    }
    let streamed = case.pipeline.once()?;
    ensure!(told(&streamed) == once_each, "the stream tells of {:?}", told(&streamed));
    let counted = |case: &BinlogCase| -> anyhow::Result<Vec<(u64, u64)>> {
        let tables = ["nulled_days", "nulled_times", "clamped_days", "clamped_times"];
        tables.iter().map(|name| case.pipeline.substituted(&case.name(name))).collect()
    };
    // Of days 6 values and a zero date by the load, 7 by the rows copied, 2 and 3 by those changed; of times 4, 4 and 1.
    let expected = [(19, 0), (9, 0), (2 + 6, 11), (0, 9)];
    ensure!(counted(&case)? == expected, "{:?}", counted(&case)?);
    case.pipeline.once()?;
    ensure!(counted(&case)? == expected, "{:?}", counted(&case)?);

    let columns = ["d", "moment", "f"];
    let nulled = ["1|2024-01-01|-|-", "3|2024-02-29|-|true", "4|-|-|-", "11|-|-|-"];
    expect(&case, "nulled_days", &columns, &nulled)?;
    expect_by_spark(&case, "nulled_days", &columns, &nulled)?;
    let clamped = [
        "1|2024-01-01|2023-02-28 10:00:00.25|-",
        "3|2024-02-29|-|true",
        "4|2024-02-29|2024-04-30 23:59:59.99|-",
        "11|2023-02-28|2023-02-28 10:00:00.25|-",
    ];
    expect(&case, "clamped_days", &columns, &clamped)?;
    expect_by_spark(&case, "clamped_days", &columns, &clamped)?;
    expect(&case, "nulled_times", &["t"], &["1|-", "2|-", "3|-", "4|-", "5|-", "11|-"])?;
    let (first, last) = ("00:00:00", "23:59:59.999999");
    let times =
        [(1, first), (2, last), (3, last), (4, last), (5, first), (11, first)].map(|(id, t)| format!("{id}|{t}"));
    expect(&case, "clamped_times", &["t"], &times.each_ref().map(String::as_str))?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    // A truth value that is out of range is nearest to the one on its side.
    follow_with(&mut case, clamp);
    case.reload(&["clamped_days"])?;
    expect(&case, "clamped_days", &["f"], &["1|true", "3|true", "4|false", "11|true"])?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.pass()
}

/// Numbers beyond the digits that were chosen for them.
fn numbers_too_great_for_a_chosen_type(server: &Server) -> anyhow::Result<()> {
    let (most, least) = ("999999999999999999999999999999999999.99", "-999999999999999999999999999999999999.99");
    let rows = format!("(1, 1e40), (2, -1e40), (3, {least}), (4, {most} + 0.01)");
    let schema = format!(
        "create table nulled (id int primary key, n decimal(65,2)); create table clamped like nulled; create table refused like nulled;
         create table unread like nulled; insert into nulled values {rows}; insert into clamped values {rows};
         insert into refused values (1, 1.5); insert into unread values (1, 1e40)"
    );
    let mut case = BinlogCase::on(server, "unfit_great", &schema, &[])?;
    let chosen = |rule: &str| format!("columns: {{n: {{type: 'decimal(38,2)', on_unrepresentable: {rule}}}}}");
    let [null, clamp, error] = ["null", "clamp", "error"].map(chosen);
    follow(&mut case, &[("nulled", &null), ("clamped", &clamp), ("refused", &error), ("unread", &error)]);
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.stopped("unread", &["unrepresentable value", "digits"])?;
    case.sql.run("update unread set n = 2")?;
    case.reload(&["unread"])?;
    case.sql.run(
        "insert into nulled select id + 10, n from nulled; insert into clamped select id + 10, n from clamped; insert into refused values (2, -1e40)",
    )?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.stopped("refused", &["unrepresentable value", "digits"])?;
    for (name, numbers) in [("nulled", ["-", "-", least, "-"]), ("clamped", [most, least, least, most])] {
        let lines: Vec<String> = [1, 11]
            .iter()
            .flat_map(|from| (*from..).zip(numbers).map(|(id, number)| format!("{id}|{number}")))
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        expect(&case, name, &["n"], &lines)?;
        expect_by_spark(&case, name, &["n"], &lines)?;
    }
    let counted = [case.pipeline.substituted(&case.name("nulled"))?, case.pipeline.substituted(&case.name("clamped"))?];
    ensure!(counted == [(6, 0), (0, 6)], "{counted:?}");
    case.sql.run("delete from refused where id = 2")?;
    case.reload(&["refused"])?;
    expect(&case, "refused", &["n"], &["1|1.50"])?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.pass()
}

/// A rule that comes later loosens the table's columns, in the middle of a transaction too.
fn a_rule_may_come_later(server: &Server) -> anyhow::Result<()> {
    let schema = "create table a (id int primary key, t time not null); create table b (id int primary key, t time not null, n int not null);
        create table k (t time primary key, n int not null); insert into k values ('10:00:00', 1);
        insert into a values (1, '10:00:00'); insert into b values (1, '10:00:00', 1);";
    let mut case = BinlogCase::on(server, "unfit_later", schema, &["a", "b", "k"])?;
    case.once_and_same(&["a", "b", "k"])?;
    case.pipeline = case.pipeline.clone().with("on_unrepresentable: null");
    case.sql.run(
        "start transaction; insert into a values (2, '11:00:00'); insert into b values (2, '24:00:00', 2); insert into a values (3, '-01:00:00');
         update b set n = 3 where id = 1; commit; alter table b add column x int null; insert into b values (3, '25:00:00', 3, 3); truncate table a;
         insert into a values (4, '26:00:00')",
    )?;
    case.pipeline.once()?;
    expect(&case, "a", &["t"], &["4|-"])?;
    expect(&case, "b", &["t", "n", "x"], &["1|10:00:00|3|-", "2|-|2|-", "3|-|3|3"])?;
    ensure!(case.pipeline.substituted(&case.name("b"))? == (2, 0));
    case.pipeline.finish(&["verify"])?.expect_success()?;
    // A key stays as it is.
    case.sql.run("insert into k values ('30:00:00', 2); insert into a values (5, '27:00:00')")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.stopped("k", &["unrepresentable value", "column t"])?;
    expect(&case, "a", &["t"], &["4|-", "5|-"])?;
    let name = case.name("k");
    let key =
        case.pipeline.clone().tables(&[&format!("{{name: {name}, columns: {{t: {{on_unrepresentable: clamp}}}}}}")]);
    complains(&key.finish(&["run", "--once"])?, 2, &["on_unrepresentable is clamp for key column t"])?;
    let unknown = case.pipeline.clone().tables(&[&format!("{{name: {}, columns: {{u: {{}}}}}}", case.name("a"))]);
    let checked = unknown.finish(&["check"])?.expect_code(2)?;
    ensure!(checked.stdout.contains("no such column") && checked.stdout.contains("id, t"), "{}", checked.stdout);
    case.pass()
}

on_every_server!(values_become_null_or_the_nearest, a_rule_may_come_later, numbers_too_great_for_a_chosen_type);

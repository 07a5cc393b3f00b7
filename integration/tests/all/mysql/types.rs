//! What types become in the lake, and what stops a table. Their values are `matrix`'s.

use anyhow::ensure;
use calve_integration::readers;
use calve_testkit::servers::Server;

use super::{BinlogCase, on_every_server};

/// A value the lake cannot hold stops its table, named, and no other; mended, the table comes back.
fn an_unrepresentable_value_stops_its_table_only(server: &Server) -> anyhow::Result<()> {
    let bad =
        [("time", "'-838:59:59'"), ("time", "'838:59:59'"), ("time(6)", "'24:00:00'"), ("time(3)", "'-00:00:00.001'")];
    let names: Vec<String> = (0..bad.len()).flat_map(|at| [format!("loaded{at}"), format!("streamed{at}")]).collect();
    let mut schema = "set sql_mode = ''; create table good (id int primary key);
        create table zero_key_loaded (k date primary key, v int); insert into zero_key_loaded values ('0000-00-00', 1);
        create table zero_key_streamed (k date primary key, v int);"
        .to_owned();
    for (at, (kind, value)) in bad.iter().enumerate() {
        schema += &format!(
            "create table loaded{at} (id int primary key, v {kind}); create table streamed{at} like loaded{at};
             insert into loaded{at} values (1, null), (2, {value}); insert into streamed{at} values (1, null);"
        );
    }
    let mut case = BinlogCase::on(server, "unfit", &schema, &["*"])?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    for (at, (_, value)) in bad.iter().enumerate() {
        case.sql.run(&format!("insert into streamed{at} values (2, {value}), (3, null)"))?;
    }
    case.sql.run("insert into good values (1); insert into zero_key_streamed values ('0000-00-00', 1)")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.same(&["good"])?;
    for name in &names {
        case.stopped(name, &["unrepresentable", "v", "reload"])?;
    }
    for name in ["zero_key_loaded", "zero_key_streamed"] {
        case.stopped(name, &["k", "reload"])?;
    }
    for name in &names {
        case.sql.run(&format!("update {name} set v = null"))?;
    }
    case.sql.run("update zero_key_loaded set k = '2024-01-01'; update zero_key_streamed set k = '2024-01-01'")?;
    let mut all: Vec<&str> = names.iter().map(String::as_str).collect();
    all.extend(["zero_key_loaded", "zero_key_streamed"]);
    case.reload(&all)?;
    all.push("good");
    case.once_and_same(&all)?;
    case.pass()
}

fn names_of_types_say_what_readers_see(server: &Server) -> anyhow::Result<()> {
    let columns = [
        ("id int", "id int required"),
        ("t tinyint(1)", "t int"),
        ("mu mediumint unsigned not null", "mu int required"),
        ("iu int unsigned", "iu long"),
        ("b bigint", "b long"),
        ("bu bigint unsigned", "bu decimal(20, 0)"),
        ("f float", "f float"),
        ("d double", "d double"),
        ("n decimal(9,4)", "n decimal(9, 4)"),
        ("u decimal(65,30)", "u string"),
        ("b1 bit(1)", "b1 boolean"),
        ("b8 bit(8)", "b8 long"),
        ("b64 bit(64)", "b64 decimal(20, 0)"),
        ("y year", "y int"),
        ("dt date not null", "dt date"),
        ("ti time", "ti time"),
        ("ts datetime(3) not null", "ts timestamp"),
        ("tz timestamp null", "tz timestamptz"),
        ("c char(3) not null", "c string required"),
        ("e enum('a')", "e string"),
        ("s set('a')", "s string"),
        ("bi binary(3)", "bi binary"),
        ("j json", "j string"),
        ("g geometry", "g binary"),
    ];
    let list = columns.map(|(column, _)| column).join(", ");
    let case = BinlogCase::on(server, "schema", &format!("create table t ({list}, primary key (id))"), &["t"])?;
    case.pipeline.once()?;
    let described = readers::metadata(|reader| Ok(reader.describe(&case.lake().table(case.database.name(), "t")?)?))?;
    let listed = described["columns"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found: Vec<String> = listed
        .iter()
        .map(|column| {
            let required = if column["required"] == true { " required" } else { "" };
            format!("{} {}{required}", column["name"].as_str().unwrap_or(""), column["type"].as_str().unwrap_or(""))
        })
        .collect();
    let expected: Vec<&str> = columns.iter().map(|(_, expected)| *expected).collect();
    ensure!(found == expected, "{found:?} are not {expected:?}");
    case.pass()
}

on_every_server!(an_unrepresentable_value_stops_its_table_only, names_of_types_say_what_readers_see);

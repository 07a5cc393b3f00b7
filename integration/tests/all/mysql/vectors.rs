//! VECTOR of MySQL and of MariaDB: a list of floats, whatever else the log says of the table.

use anyhow::ensure;
use calve_integration::readers;
use calve_testkit::readers::Reader;
use calve_testkit::servers::{Kind, Options, Server};

use super::BinlogCase;

/// Between columns of text in several character sets, which the log numbers together with those of vectors.
const COLUMNS: &str = "id int primary key, a varchar(9) character set latin1, v vector(3), b varchar(9), w vector(2) not null, \
    c text character set gbk, long_one vector(300), d varbinary(9)";

fn vector(kind: Kind, numbers: &str) -> String {
    let of_text = if kind == Kind::MySql { "string_to_vector" } else { "vec_fromtext" };
    format!("{of_text}('[{numbers}]')")
}

fn rows(kind: Kind, table: &str) -> String {
    let long: Vec<String> = (0..300).map(|n| format!("{}.5", n - 150)).collect();
    // What MySQL has of another length than its column's; MariaDB has none.
    let short = if kind == Kind::MySql { "1.25" } else { "1.25,0" };
    let row = |id: u32, v: Option<&str>, w: &str, long: Option<&str>| {
        let vector = |numbers: Option<&str>| numbers.map_or("null".to_owned(), |numbers| vector(kind, numbers));
        let (v, long) = (vector(v), vector(long));
        format!(
            "insert into {table} values ({id}, 'caf\u{e9}', {v}, '\u{1f600}', {}, '\u{4e2d}', {long}, x'00ff');",
            vector(Some(w))
        )
    };
    [
        row(1, Some("1,-2.5,0.1"), "0,-0.000001", Some(&long.join(","))),
        row(2, None, short, None),
        row(3, Some("16777216,0.3,34000000"), "-0.0,1", None),
    ]
    .concat()
}

fn vectors_are_lists(server: &Server) -> anyhow::Result<()> {
    let kind = server.kind();
    let schema = format!(
        "create table loaded ({COLUMNS}) charset utf8mb4; create table streamed ({COLUMNS}) charset utf8mb4;
         create table grows (id int primary key) charset utf8mb4; {}",
        rows(kind, "loaded")
    );
    let tables = ["loaded", "streamed", "grows"];
    let mut case = BinlogCase::on(server, "vectors", &schema, &tables)?;
    case.once_and_same(&tables)?;
    case.sql.run(&rows(kind, "streamed"))?;
    case.sql.run(&format!(
        "update loaded set id = id + 100 where id < 3; update loaded set v = null, w = {} where id = 3; delete from loaded where id = 102;
         alter table grows add v vector(2); insert into grows values (1, {}), (2, null)",
        vector(kind, "7,8"),
        vector(kind, "0.5,-1")
    ))?;
    case.once_and_same(&tables)?;
    case.same_by_spark(&tables)?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.reload(&["streamed"])?;
    case.same(&tables)?;
    let table = case.lake().table(case.database.name(), "streamed")?;
    let found = readers::metadata(|reader| Ok(reader.describe(&table)?))?;
    let types: Vec<&str> =
        found["columns"].as_array().into_iter().flatten().filter_map(|c| c["type"].as_str()).collect();
    ensure!(
        types == ["int", "string", "list<float>", "string", "list<float>", "string", "list<float>", "binary"],
        "{types:?}"
    );
    let shown = readers::duckdb(|duckdb| Ok(duckdb.query_table(&table, "select v, w from t where id = 1")?))?;
    ensure!(shown.rows[0][0].as_deref() == Some(r#"["1","-2.5","0.1"]"#), "{shown:?}");
    case.pass()
}

fn with_full_metadata(kind: Kind, version: &str) -> anyhow::Result<()> {
    vectors_are_lists(&Server::start(kind, version, &Options::default().set("binlog_row_metadata", "FULL"))?)
}

#[test]
fn of_mysql_9() -> anyhow::Result<()> {
    vectors_are_lists(&Server::shared(Kind::MySql, "9")?)
}

#[test]
fn of_mariadb_11_8() -> anyhow::Result<()> {
    vectors_are_lists(&Server::shared(Kind::MariaDb, "11.8")?)
}

#[test]
fn of_mysql_9_with_full_metadata() -> anyhow::Result<()> {
    with_full_metadata(Kind::MySql, "9")
}

#[test]
fn of_mariadb_11_8_with_full_metadata() -> anyhow::Result<()> {
    with_full_metadata(Kind::MariaDb, "11.8")
}

//! The table of types in the README is what calve does: each of its rows has columns here, and these become what the row says.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, ensure};
use calve_integration::readers;
use calve_integration::sql::Sql;
use calve_testkit::servers::{Kind, Postgres, SUPERUSER, Server};

use crate::case::Case;

/// What a row of the table says: its first cell, and columns it speaks of with what they become.
type Documented = (&'static str, &'static [(&'static str, &'static str)]);

const POSTGRES: &[Documented] = &[
    ("boolean", &[("boolean", "boolean")]),
    (
        "smallint, integer / bigint, oid",
        &[("smallint", "int"), ("integer", "int"), ("bigint", "long"), ("oid", "long")],
    ),
    ("real / double precision", &[("real", "float"), ("double precision", "double")]),
    (
        "numeric(p,s) with p <= 38 and 0 <= s <= p",
        &[("numeric(38,10)", "decimal(38,10)"), ("numeric(3)", "decimal(3,0)")],
    ),
    ("any other numeric", &[("numeric", "string"), ("numeric(39,1)", "string"), ("numeric(3,-1)", "string")]),
    ("date, timestamp, timestamptz", &[("date", "date"), ("timestamp", "timestamp"), ("timestamptz", "timestamptz")]),
    ("time", &[("time", "time")]),
    ("timetz, interval", &[("timetz", "string"), ("interval", "string")]),
    (
        "text, varchar, char(n), citext, name, xml, enums",
        &[
            ("text", "string"),
            ("varchar(3)", "string"),
            ("char(3)", "string"),
            ("citext", "string"),
            ("name", "string"),
            ("xml", "string"),
            ("mood", "string"),
        ],
    ),
    ("json, jsonb", &[("json", "string"), ("jsonb", "string")]),
    ("uuid", &[("uuid", "uuid")]),
    ("bytea", &[("bytea", "binary")]),
    (
        "arrays of the above",
        &[
            ("int[]", "list<int>"),
            ("timestamptz[]", "list<timestamptz>"),
            ("numeric(9,2)[]", "list<decimal(9,2)>"),
            ("mood[]", "list<string>"),
            ("uuid[][]", "list<uuid>"),
        ],
    ),
    ("hstore", &[("hstore", "map<string,string>")]),
    ("vector (pgvector)", &[("vector(3)", "list<float>"), ("halfvec(3)", "string"), ("sparsevec(3)", "string")]),
    (
        "geometry, geography (PostGIS)",
        &[
            ("geometry", "binary"),
            ("geometry(PointZ,3857)", "binary"),
            ("geography", "binary"),
            ("geography(Point,4326)", "binary"),
        ],
    ),
    ("domains", &[("whole", "int"), ("tags", "list<string>")]),
    (
        "everything else, arrays of it",
        &[
            ("inet", "string"),
            ("int4range", "string"),
            ("inet[]", "list<string>"),
            ("pair", "string"),
            ("pair[]", "list<string>"),
        ],
    ),
];

const BINLOG: &[Documented] = &[
    (
        "TINYINT, SMALLINT, MEDIUMINT, INT; unsigned up to MEDIUMINT",
        &[
            ("tinyint(1)", "int"),
            ("smallint", "int"),
            ("mediumint", "int"),
            ("int", "int"),
            ("mediumint unsigned", "int"),
        ],
    ),
    ("INT UNSIGNED, BIGINT", &[("int unsigned", "long"), ("bigint", "long")]),
    ("BIGINT UNSIGNED", &[("bigint unsigned", "decimal(20,0)")]),
    ("FLOAT / DOUBLE", &[("float", "float"), ("double", "double")]),
    ("DECIMAL(p,s) with p <= 38", &[("decimal(38,10)", "decimal(38,10)"), ("decimal(39,0)", "string")]),
    ("DATE, DATETIME", &[("date", "date"), ("datetime(3)", "timestamp")]),
    ("TIMESTAMP", &[("timestamp null", "timestamptz")]),
    ("TIME", &[("time(6)", "time")]),
    ("YEAR", &[("year", "int")]),
    ("CHAR, VARCHAR, TEXT", &[("char(3)", "string"), ("varchar(3)", "string"), ("text", "string")]),
    ("ENUM, SET", &[("enum('a')", "string"), ("set('a')", "string")]),
    ("BINARY(n), VARBINARY, BLOB", &[("binary(3)", "binary"), ("varbinary(3)", "binary"), ("blob", "binary")]),
    ("BIT(1) / BIT(2..63) / BIT(64)", &[("bit(1)", "boolean"), ("bit(63)", "long"), ("bit(64)", "decimal(20,0)")]),
    ("JSON", &[("json", "string")]),
    ("GEOMETRY and its kin", &[("geometry", "binary"), ("point", "binary")]),
    ("UUID / INET4, INET6", &[("uuid", "uuid"), ("inet4", "string"), ("inet6", "string")]),
    ("VECTOR", &[("vector(3)", "list<float>")]),
];

/// First and second cells of the table whose first heading is this.
fn rows_of(heading: &str) -> anyhow::Result<Vec<(String, String)>> {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md"))?;
    let head = format!("| {heading} | Iceberg | note |");
    let table = readme.lines().skip_while(|line| *line != head).skip(2).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| {
        let mut cells = line.split('|').skip(1).map(|cell| cell.trim().to_owned());
        Some((cells.next()?, cells.next()?))
    };
    table.map(|line| cells(line).with_context(|| format!("no cells: {line}"))).collect()
}

/// That the README has these rows and no others, and that each names what its columns become.
fn documented_as(heading: &str, documented: &[Documented]) -> anyhow::Result<()> {
    let rows = rows_of(heading)?;
    let names = |rows: &mut dyn Iterator<Item = String>| rows.collect::<BTreeSet<String>>();
    let found = names(&mut rows.iter().map(|(name, _)| name.clone()));
    let expected = names(&mut documented.iter().map(|(name, _)| (*name).to_owned()));
    ensure!(found == expected, "the README has the rows {found:?}\nand not {expected:?}");
    for (name, said) in &rows {
        let columns = documented.iter().filter(|(row, _)| row == name).flat_map(|(_, columns)| *columns);
        for (column, becomes) in columns {
            let word = becomes.split(['(', '<']).next().unwrap_or_default();
            // Of another type than the row's own the remark speaks.
            let remark = ["any other numeric", "vector (pgvector)", "DECIMAL(p,s) with p <= 38", "domains"];
            ensure!(
                said.contains(word) || remark.contains(&name.as_str()),
                "{column} becomes {becomes}, and the row of {name} says {said}"
            );
        }
    }
    Ok(())
}

/// That the columns become it.
fn becomes(case: &mut Case, schema: &str, documented: &[Documented], has: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    let columns: Vec<(&str, &str)> =
        documented.iter().flat_map(|(_, columns)| *columns).copied().filter(|(column, _)| has(column)).collect();
    let list =
        columns.iter().enumerate().map(|(at, (column, _))| format!("c{at} {column}")).collect::<Vec<_>>().join(", ");
    case.sql.run(&format!("create table t (id int primary key, {list})"))?;
    case.pipeline.once()?;
    let table = case.lake().table(schema, "t")?;
    let described = readers::metadata(|reader| Ok(reader.describe(&table)?))?;
    let found = described["columns"].as_array().map(Vec::as_slice).unwrap_or_default().iter().skip(1);
    let found: Vec<String> = found.map(|column| column["type"].as_str().unwrap_or("").replace(' ', "")).collect();
    for ((column, expected), found) in columns.iter().zip(&found) {
        ensure!(found == expected, "{column} is said to become {expected} and becomes {found}");
    }
    ensure!(found.len() == columns.len());
    Ok(())
}

#[test]
fn of_postgres() -> anyhow::Result<()> {
    documented_as("Postgres", POSTGRES)?;
    let mut case = Case::on(&*Postgres::shared(17)?, "documented", "", &["public.t"])?;
    let mut superuser = Sql::connect(&case.database.url(SUPERUSER)?)?;
    superuser.run("create extension hstore schema public; create extension vector schema public; create extension citext schema public")?;
    case.sql.run("create type mood as enum ('ok'); create domain whole as int; create domain tags as text[]; create type pair as (a int, b text)")?;
    becomes(&mut case, "public", POSTGRES, |column| !column.starts_with("geo"))?;
    case.pass()
}

#[test]
#[ignore = "needs PostGIS: integration/test.sh postgis"]
fn of_postgis() -> anyhow::Result<()> {
    let mut case = Case::on(&Server::shared(Kind::Postgres, "17-postgis")?, "documented", "", &["public.t"])?;
    let mut superuser = Sql::connect(&case.database.url(SUPERUSER)?)?;
    superuser.run("create extension postgis schema public")?;
    becomes(&mut case, "public", POSTGRES, |column| column.starts_with("geo"))?;
    case.pass()
}

fn of_binlog(kind: Kind, version: &str) -> anyhow::Result<()> {
    documented_as("MySQL, MariaDB", BINLOG)?;
    let mut case = Case::on(&Server::shared(kind, version)?, "documented", "do 0", &[])?;
    let database = case.database.name().to_owned();
    case.pipeline = case.pipeline.clone().tables(&[&format!("{database}.t")]);
    let has = |column: &str| match column {
        "uuid" | "inet4" | "inet6" => kind == Kind::MariaDb,
        "vector(3)" => version != "10.11",
        _ => true,
    };
    becomes(&mut case, &database, BINLOG, has)?;
    case.pass()
}

#[test]
fn of_mysql_9() -> anyhow::Result<()> {
    of_binlog(Kind::MySql, "9")
}

#[test]
fn of_mariadb_10_11() -> anyhow::Result<()> {
    of_binlog(Kind::MariaDb, "10.11")
}

#[test]
fn of_mariadb_11_8() -> anyhow::Result<()> {
    of_binlog(Kind::MariaDb, "11.8")
}

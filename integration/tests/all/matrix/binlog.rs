//! Of MySQL and MariaDB, on every version: with as little in the log as the server writes by default, and with all that it can write, in
//! another time zone.

use std::collections::BTreeSet;

use anyhow::ensure;
use calve_integration::readers;
use calve_testkit::readers::Reader;
use calve_testkit::servers::{Kind, Options, Server};

use super::binlog_types::{NO_TYPES, SETS, TYPES};
use super::chosen::texts_are_what_a_client_sees;
use super::keys::Keys;
use super::plain::Plain;
use super::run::{BySpark, Matrix, Source};
use super::types::{Key, Listed, Type, in_tables, ty};
use crate::case::Case;

/// Columns of a table, whose row must fit in a page whatever its texts are, and parts of a key, of which a server allows 16.
const COLUMNS: usize = 80;
const KEY_COLUMNS: usize = 13;

const IN_LATIN1: [&str; 2] = ["set names latin1", "set names utf8mb4"];

fn listed(server: &Server) -> impl Iterator<Item = &'static Listed> {
    let (kind, version) = (server.kind(), server.version().to_owned());
    TYPES.iter().filter(move |listed| (listed.of)(kind, &version))
}

/// Labels of two bytes, and all the members that a set can have.
fn of_many_labels() -> [Type; 2] {
    let labels = |count: usize| (0..count).map(|at| format!("'label {at}'")).collect::<Vec<_>>().join(",");
    let of = |sql: String, values: &[&str]| Type {
        sql,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        key: Key::Legal,
        equal: None,
        by_spark: true,
    };
    [
        of(format!("enum({})", labels(300)), &["'label 0'", "'label 299'", "'label 255'", "'label 256'"]),
        of(
            format!("set({})", labels(64)),
            &["''", "18446744073709551615", "'label 63'", "'label 0,label 31,label 32'", "9223372036854775807"],
        ),
    ]
}

/// Text, and labels, of each character set.
fn texts() -> impl Iterator<Item = Type> {
    SETS.iter().flat_map(|(set, texts)| {
        let plain: Vec<String> = texts.iter().chain(&["x"]).map(|text| format!("'{text}'")).collect();
        // Which labels the catalog cannot show is another test's.
        let labels: Vec<String> = plain.iter().filter(|text| !text.contains('\u{1f600}')).cloned().collect();
        let listed = labels.join(", ");
        let values =
            |first: &str, texts: &[String]| std::iter::once(first.to_owned()).chain(texts.iter().cloned()).collect();
        let of = |sql: String, values: Vec<String>, key: Key| Type { sql, values, key, equal: None, by_spark: true };
        let long = plain.iter().map(|text| format!("repeat({text}, 100)")).collect();
        [
            of(format!("varchar(30) character set {set}"), values("''", &plain), Key::Legal),
            of(format!("char(12) character set {set}"), values("''", &plain), Key::SameAs("varchar")),
            of(format!("text character set {set}"), long, Key::RefusedByServer),
            of(format!("enum({listed}) character set {set}"), values("'none of them'", &labels), Key::SameAs("enum")),
            of(format!("set({listed}) character set {set}"), values("''", &labels), Key::SameAs("set")),
        ]
    })
}

fn matrix(server: &Server) -> anyhow::Result<Matrix> {
    let mut case = Case::on(server, "matrix", "set sql_mode = ''", &[])?;
    let schema = case.database.name().to_owned();
    case.pipeline = case.pipeline.clone().tables(&[&format!("{schema}.*")]);
    let sets = case.sql.rows("select character_set_name from information_schema.character_sets")?;
    let has: BTreeSet<String> = sets.into_iter().flatten().flatten().collect();
    let all: Vec<Type> = listed(server).map(|listed| listed.typed(false)).chain(of_many_labels()).collect();
    let texts = texts().filter(|ty| has.iter().any(|set| ty.sql.ends_with(&format!(" {set}"))));
    let all: Vec<Type> = all.into_iter().chain(texts).collect();
    let keys: Vec<Type> = all.iter().filter(|ty| ty.key == Key::Legal).cloned().collect();
    let plain = in_tables(all, COLUMNS).into_iter().enumerate();
    let keys = in_tables(keys, KEY_COLUMNS).into_iter().enumerate();
    Ok(Matrix {
        source: Source { case, schema, while_printing: ["do 0"; 2], in_another_encoding: IN_LATIN1 },
        plain: plain.map(|(at, types)| Plain::new(format!("plain{at}"), types)).collect(),
        keys: keys.map(|(at, types)| Keys::new(format!("keys{at}"), types)).collect(),
    })
}

fn values_are_what_the_server_prints(server: &Server) -> anyhow::Result<()> {
    let metadata = server.sql("mysql", "select @@binlog_row_metadata")?;
    ensure!(["MINIMAL", "NO_LOG"].contains(&metadata.trim()), "the log is not small: {metadata}");
    let mut matrix = matrix(server)?;
    let by_spark = if server.version() == "10.11" { BySpark::Rows } else { BySpark::RowsOfEachPhase };
    matrix.run(by_spark, |_| Ok(()))?;
    matrix.source.case.pass()
}

fn values_are_the_same_with_full_metadata_elsewhere(kind: Kind, version: &str) -> anyhow::Result<()> {
    let options = Options::default().set("binlog_row_metadata", "FULL").set("default_time_zone", "+08:00");
    let server = Server::start(kind, version, &options)?;
    let mut matrix = matrix(&server)?;
    matrix.run(BySpark::Nothing, |_| Ok(()))?;
    matrix.source.case.pass()?;
    instants_are_what_was_meant(&server)
}

/// An instant is the same wherever it was written; a datetime is what was written.
fn instants_are_what_was_meant(server: &Server) -> anyhow::Result<()> {
    let rows = |ids: [u32; 2]| {
        let row = |zone: &str, id: u32| {
            format!(
                "set time_zone = '{zone}'; insert into zones values ({id}, '2024-01-01 08:00:00.5', '2024-01-01 08:00:00.5');"
            )
        };
        row("+08:00", ids[0]) + &row("-03:30", ids[1])
    };
    let schema = "create table zones (id int primary key, instant timestamp(3) null, wall datetime(3));".to_owned()
        + &rows([1, 2]);
    let mut case = Case::on(server, "zones", &schema, &[])?;
    let zones = format!("{}.zones", case.database.name());
    case.pipeline = case.pipeline.clone().tables(&[&zones]);
    case.pipeline.once()?;
    case.sql.run(&(rows([11, 12]) + "set time_zone = '+00:00'"))?;
    case.once_and_same(&[&zones])?;
    let table = case.lake().table(case.database.name(), "zones")?;
    let found = readers::duckdb(|duckdb| Ok(duckdb.query_table(&table, "select * from t order by id")?))?;
    let (east, west) = ("2024-01-01 00:00:00.5+00", "2024-01-01 11:30:00.5+00");
    let expected = [("1", east), ("2", west), ("11", east), ("12", west)]
        .map(|(id, instant)| [id, instant, "2024-01-01 08:00:00.5"].map(|text| Some(text.to_owned())).to_vec());
    ensure!(found.rows == expected, "{:?} is not {expected:?}", found.rows);
    case.pass()
}

/// Types that may be text instead of their own: those of which the server prints all.
const AS_TEXTS: &[&str] = &[
    "tinyint",
    "smallint",
    "mediumint",
    "int",
    "integer",
    "bigint",
    "boolean",
    "decimal",
    "dec",
    "year",
    "date",
    "datetime",
    "timestamp",
    "time",
    "uuid",
];

/// `TIME` beyond a day and dates that are none, which only text can hold.
const ONLY_TEXT: &[(&str, &[&str])] = &[
    ("time", &["'-838:59:59'", "'838:59:59'", "'24:00:00'", "'-00:00:01'", "'100:00:00'"]),
    ("time(6)", &["'-838:59:59'", "'838:59:59'", "'-00:00:00.000001'", "'837:59:59.999999'", "'-12:00:00.5'"]),
    ("time(2)", &["'-00:00:00.01'", "'-01:00:00.99'", "'99:59:59.9'"]),
    ("time(3)", &["'-00:00:00.001'", "'-837:00:00.999'", "'-00:00:01'"]),
    ("date", &["'0000-00-00'", "'2024-00-00'", "'2024-02-00'", "'0000-01-01'"]),
    ("datetime(4)", &["'0000-00-00 00:00:00'", "'2024-00-10 01:02:03.5'", "'0000-01-00 00:00:00.0001'"]),
    ("timestamp(5)", &["'0000-00-00 00:00:00'", "'1970-01-01 00:00:01.00001'"]),
];

fn as_texts(server: &Server) -> anyhow::Result<()> {
    let case = Case::on(server, "matrix_chosen", "set sql_mode = ''", &[])?;
    let schema = case.database.name().to_owned();
    let word = |listed: &&Listed| AS_TEXTS.contains(&listed.sql.split([' ', '(']).next().unwrap_or_default());
    let more = ONLY_TEXT.iter().map(|(sql, values)| ty(sql, values).typed(false));
    let types: Vec<Type> = listed(server).filter(word).map(|listed| listed.typed(false)).chain(more).collect();
    let mut source = Source { case, schema, while_printing: ["do 0"; 2], in_another_encoding: IN_LATIN1 };
    texts_are_what_a_client_sees(&mut source, &[Plain::new("plain".to_owned(), types)], |column| {
        format!("cast({column} as char)")
    })?;
    source.case.pass()
}

/// Every type that the server speaks of, in its help and of its plugins, is one of the list, and so is every character set.
fn no_type_is_left_out(server: &Server) -> anyhow::Result<()> {
    let mut case = Case::on(server, "matrix_types", "do 0", &[])?;
    let word = |name: &str| name.split([' ', '(']).next().unwrap_or_default().to_uppercase();
    let known: BTreeSet<String> = listed(server).map(|listed| word(listed.sql)).collect();
    let spoken_of = case.sql.rows(
        "select upper(t.name) from mysql.help_topic t join mysql.help_category c using (help_category_id) where c.name = 'Data Types'
         union select upper(t.name) from mysql.help_topic t join mysql.help_category c using (help_category_id)
               where c.name = 'Geometry Constructors' and t.name not like '%buffer' and t.name not like 'st!_%' escape '!'
                 and t.name not in ('CONVEXHULL', 'PointOnSurface')
         union select upper(plugin_name) from information_schema.plugins where plugin_type = 'DATA TYPE'
         union select distinct upper(data_type) from information_schema.columns",
    )?;
    ensure!(spoken_of.len() > 40, "the server speaks of {} types only", spoken_of.len());
    let spoken_of: Vec<String> = spoken_of.into_iter().flatten().flatten().collect();
    let missing: Vec<&String> =
        spoken_of.iter().filter(|name| !NO_TYPES.contains(&name.as_str()) && !known.contains(&word(name))).collect();
    ensure!(missing.is_empty(), "types that no line of the list is of: {missing:?}");

    let sets = case.sql.rows(
        "select character_set_name from information_schema.character_sets where character_set_name <> 'binary'",
    )?;
    let sets: Vec<String> = sets.into_iter().flatten().flatten().collect();
    let missing: Vec<&String> = sets.iter().filter(|set| !SETS.iter().any(|(known, _)| known == set)).collect();
    ensure!(missing.is_empty() && sets.len() > 35, "character sets that no line of the list is of: {missing:?}");
    case.pass()
}

/// What the list says is no key the server does not take for one, or calve does not.
fn what_is_no_key_is_refused(server: &Server) -> anyhow::Result<()> {
    let mut case = Case::on(server, "matrix_no_keys", "set sql_mode = ''", &[])?;
    let mut refused = Vec::new();
    for (at, listed) in listed(server).enumerate() {
        let made = case.sql.run(&format!("create table refused{at} (k {} not null, primary key (k))", listed.sql));
        match listed.key {
            Key::RefusedByServer => ensure!(made.is_err(), "{} can be a key of this server", listed.sql),
            Key::RefusedByCalve => {
                made?;
                refused.push((format!("{}.refused{at}", case.database.name()), listed.sql));
            }
            Key::Legal | Key::SameAs(_) => {
                made?;
                case.sql.run(&format!("drop table refused{at}"))?;
            }
        }
    }
    case.pipeline = case.pipeline.clone().tables(&[&format!("{}.*", case.database.name())]);
    let checked = case.pipeline.finish(&["check"])?.expect_code(2)?;
    for (table, sql) in refused {
        let told = checked
            .stdout
            .lines()
            .find(|line| line.contains(&format!("{table}:")) || line.contains(&format!("{table} ")));
        let told = told.unwrap_or_default();
        let refused = ["floating-point", "cannot tell rows apart", "prefix"].iter().any(|reason| told.contains(reason));
        ensure!(refused, "{sql} is no key, and check says: {told:?}");
    }
    case.pass()
}

macro_rules! on_every_version {
    ($($name:ident: $kind:ident $version:literal),+) => {$(
        mod $name {
            use calve_testkit::servers::{Kind, Server};

            #[test]
            fn values_are_what_the_server_prints() -> anyhow::Result<()> {
                super::values_are_what_the_server_prints(&Server::shared(Kind::$kind, $version)?)
            }

            #[test]
            fn with_full_metadata_elsewhere() -> anyhow::Result<()> {
                super::values_are_the_same_with_full_metadata_elsewhere(Kind::$kind, $version)
            }

            #[test]
            fn as_texts() -> anyhow::Result<()> {
                super::as_texts(&Server::shared(Kind::$kind, $version)?)
            }

            #[test]
            fn no_type_is_left_out() -> anyhow::Result<()> {
                super::no_type_is_left_out(&Server::shared(Kind::$kind, $version)?)
            }

            #[test]
            fn what_is_no_key_is_refused() -> anyhow::Result<()> {
                super::what_is_no_key_is_refused(&Server::shared(Kind::$kind, $version)?)
            }
        }
    )+};
}

on_every_version!(mysql_9: MySql "9", mariadb_10_11: MariaDb "10.11", mariadb_11_8: MariaDb "11.8");

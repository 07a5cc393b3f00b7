//! Of Postgres, on every version: in text form, with all types, and in binary form, with those whose binary form is read.

use std::collections::BTreeSet;

use anyhow::ensure;
use calve_integration::sql::Sql;
use calve_testkit::servers::{Kind, SUPERUSER, Server};

use super::chosen::texts_are_what_a_client_sees;
use super::keys::Keys;
use super::plain::Plain;
use super::postgres_types::{OF_MANY, OWN_TYPES, TYPES, WITHOUT_VALUES, has_vectors};
use super::run::{BySpark, Matrix, Source};
use super::types::{Key, Listed, Type, in_tables};
use crate::case::Case;

/// What calve's own sessions have, of the settings that decide how values are printed and that a test does not have anyway.
const WHILE_PRINTING: [&str; 2] = ["set search_path = pg_catalog; set lc_monetary = 'C'", "set search_path = public"];

const IN_LATIN1: [&str; 2] = ["set client_encoding = 'LATIN1'", "set client_encoding = 'UTF8'"];

/// Columns of a table. An index of Postgres has 32 at most.
const COLUMNS: usize = 120;
const KEY_COLUMNS: usize = 24;

/// What is tried on a server.
#[derive(Clone, Copy)]
pub(super) struct Tried {
    pub(super) version: &'static str,
    pub(super) extensions: &'static [&'static str],
    /// Made before the tables.
    pub(super) own_types: &'static str,
    /// Types of which arrays are made too.
    pub(super) types: &'static [Listed],
    pub(super) of_many: &'static [Listed],
    /// Whether the binary form of an array is read where that of its elements is.
    pub(super) binary_arrays: bool,
}

const fn all_types(version: &'static str) -> Tried {
    Tried {
        version,
        extensions: &["hstore", "citext", "ltree", "cube", "vector"],
        own_types: OWN_TYPES,
        types: TYPES,
        of_many: OF_MANY,
        binary_arrays: true,
    }
}

impl Tried {
    /// What of a list the server has, without what comes as text where that is not wanted.
    fn listed_in(self, list: &'static [Listed], text: bool) -> impl Iterator<Item = &'static Listed> {
        list.iter().filter(move |listed| (text || listed.binary) && (listed.of)(Kind::Postgres, self.version))
    }

    fn listed(self) -> impl Iterator<Item = &'static Listed> {
        self.listed_in(self.types, true).chain(self.listed_in(self.of_many, true))
    }

    pub(super) fn case(self, label: &str) -> anyhow::Result<Case> {
        let mut case = Case::on(&Server::shared(Kind::Postgres, self.version)?, label, "", &["public.*"])?;
        let mut superuser = Sql::connect(&case.database.url(SUPERUSER)?)?;
        let has = |name: &str| name != "vector" || has_vectors(Kind::Postgres, self.version);
        for name in self.extensions.iter().filter(|name| has(name)) {
            superuser.run(&format!("create extension {name} schema public"))?;
        }
        case.sql.run(self.own_types)?;
        Ok(case)
    }
}

/// An array with all values of a type and NULL, one of the last, and none.
fn array_of(ty: &Type) -> Type {
    let sql = format!("{}[]", ty.sql);
    let all = ty.values.iter().map(String::as_str).chain(["null"]).collect::<Vec<_>>().join(", ");
    let last = ty.values.last().map_or("", String::as_str);
    let values = vec![
        format!("cast(array[{all}] as {sql})"),
        format!("cast(array[{last}] as {sql})"),
        format!("cast('{{}}' as {sql})"),
    ];
    Type { sql, values, key: Key::RefusedByCalve, equal: None, by_spark: ty.by_spark }
}

fn matrix(tried: Tried, text: bool) -> anyhow::Result<Matrix> {
    let case = tried.case(if text { "matrix_text" } else { "matrix_binary" })?;
    let types: Vec<Type> = tried.listed_in(tried.types, text).map(|listed| listed.typed(true)).collect();
    let of_many = tried.listed_in(tried.of_many, text).map(|listed| listed.typed(true));
    let arrays = types.iter().filter(|_| text || tried.binary_arrays).map(array_of);
    let all: Vec<Type> = types.iter().cloned().chain(arrays).chain(of_many).collect();
    let keys: Vec<Type> = types.into_iter().filter(|ty| ty.key == Key::Legal).collect();
    let plain = in_tables(all, COLUMNS).into_iter().enumerate();
    let keys = in_tables(keys, KEY_COLUMNS).into_iter().enumerate();
    let mut matrix = Matrix {
        source: Source {
            case,
            schema: "public".to_owned(),
            while_printing: WHILE_PRINTING,
            in_another_encoding: IN_LATIN1,
        },
        plain: plain.map(|(at, types)| Plain::new(format!("plain{at}"), types)).collect(),
        keys: keys.map(|(at, types)| Keys::new(format!("keys{at}"), types)).collect(),
    };
    let tables = matrix.tables();
    let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
    matrix.source.case.pipeline = matrix.source.case.pipeline.clone().tables(&tables);
    Ok(matrix)
}

pub(super) fn values_are_what_the_server_prints(tried: Tried, text: bool) -> anyhow::Result<()> {
    let mut matrix = matrix(tried, text)?;
    // What reads the files was shown that they are the same by one version.
    let by_spark = match (tried.version, text) {
        ("17", true) => BySpark::RowsOfEachPhase,
        (version, text) if text || version.starts_with("17") => BySpark::Rows,
        _ => BySpark::Nothing,
    };
    matrix.run(by_spark, |case| {
        let asked = case.sql.value(&format!(
            "select query from pg_stat_activity where backend_type = 'walsender' and query like '%{}%'",
            case.pipeline.slot()
        ))?;
        ensure!(
            asked.contains(&format!("\"binary\" '{}'", !text)),
            "the stream is not in the form that is tested: {asked}"
        );
        Ok(())
    })?;
    matrix.source.case.pass()
}

/// Every type may be text instead of its own.
pub(super) fn as_texts(tried: Tried) -> anyhow::Result<()> {
    let case = tried.case("matrix_chosen")?;
    let types: Vec<Type> = tried.listed().map(|listed| listed.typed(true)).collect();
    let tables = types.chunks(COLUMNS).enumerate();
    let tables: Vec<Plain> = tables.map(|(at, types)| Plain::new(format!("plain{at}"), types.to_vec())).collect();
    let mut source =
        Source { case, schema: "public".to_owned(), while_printing: WHILE_PRINTING, in_another_encoding: IN_LATIN1 };
    let printed = |column: &str| format!("case when {column}::text is not null then format('%s', {column}) end");
    texts_are_what_a_client_sees(&mut source, &tables, printed)?;
    source.case.pass()
}

macro_rules! on_every_version {
    ($($name:ident: $version:literal),+) => {$(
        mod $name {
            #[test]
            fn in_text_form() -> anyhow::Result<()> {
                super::values_are_what_the_server_prints(super::all_types($version), true)
            }

            #[test]
            fn in_binary_form() -> anyhow::Result<()> {
                super::values_are_what_the_server_prints(super::all_types($version), false)
            }

            #[test]
            fn as_texts() -> anyhow::Result<()> {
                super::as_texts(super::all_types($version))
            }

            #[test]
            fn no_type_is_left_out() -> anyhow::Result<()> {
                super::no_type_is_left_out(super::all_types($version))
            }

            #[test]
            fn what_is_no_key_is_refused() -> anyhow::Result<()> {
                super::what_is_no_key_is_refused(super::all_types($version))
            }
        }
    )+};
}

on_every_version!(postgres_15: "15", postgres_17: "17", postgres_18: "18");

/// Every type that a column of this server can have is one of the list, or an array of one.
fn no_type_is_left_out(tried: Tried) -> anyhow::Result<()> {
    let mut case = tried.case("matrix_types")?;
    // By the numbers that the server knows the names of the list by.
    let named = tried.listed().map(|listed| listed.sql).chain(WITHOUT_VALUES.iter().copied());
    let mut known = BTreeSet::new();
    for name in named {
        let name = case.sql.literal(name);
        let found = case.sql.rows(&format!(
            "select oid from pg_type where oid = to_regtype({name}) or typarray = to_regtype({name})"
        ))?;
        known.extend(found.into_iter().flatten().flatten());
    }
    let types = case.sql.rows(
        "select t.oid, t.typname, e.oid from pg_type t left join pg_type e on e.typarray = t.oid
         where t.typtype <> 'p' and e.typtype is distinct from 'p' and t.typisdefined and t.typname <> 'a_table' and t.typname <> '_a_table'
           and not exists (select from pg_class c where c.reltype in (t.oid, e.oid) and c.relnamespace in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace, 'pg_toast'::regnamespace))",
    )?;
    ensure!(types.len() > 150, "the server names only {} types", types.len());
    let missing = types.iter().filter(|row| {
        let is_known = |at: usize| row[at].as_ref().is_some_and(|oid| known.contains(oid));
        !is_known(0) && !is_known(2)
    });
    let missing: Vec<&str> = missing.filter_map(|row| row[1].as_deref()).collect();
    ensure!(missing.is_empty(), "types that no line of the list is of: {missing:?}");
    case.pass()
}

/// What the list says is no key the server does not take for one, or calve does not.
pub(super) fn what_is_no_key_is_refused(tried: Tried) -> anyhow::Result<()> {
    let mut case = tried.case("matrix_no_keys")?;
    let mut refused = Vec::new();
    for (at, listed) in tried.listed().enumerate() {
        let made = case.sql.run(&format!("create table refused{at} (k {} primary key)", listed.sql));
        match listed.key {
            Key::RefusedByServer => ensure!(made.is_err(), "{} can be a key of this server", listed.sql),
            Key::RefusedByCalve => {
                made?;
                refused.push((format!("public.refused{at}"), listed.sql));
            }
            Key::Legal | Key::SameAs(_) => {
                made?;
                case.sql.run(&format!("drop table refused{at}"))?;
            }
        }
    }
    case.pipeline = case.pipeline.clone().tables(&["public.refused*"]);
    let checked = case.pipeline.finish(&["check"])?.expect_code(2)?;
    for (table, sql) in refused {
        let told = checked
            .stdout
            .lines()
            .find(|line| line.contains(&format!("{table}:")) || line.contains(&format!("{table} ")));
        let told = told.unwrap_or_default();
        ensure!(
            told.contains("cannot tell rows apart") || told.contains("floating-point"),
            "{sql} is no key, and check says: {told}"
        );
    }
    case.pass()
}

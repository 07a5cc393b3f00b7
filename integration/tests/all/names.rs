//! Names that need quoting, many tables, wide tables.

use calve_integration::compare::{Pair, compare};
use calve_integration::readers;
use calve_integration::sql::identifier;
use calve_testkit::servers::Kind;

use crate::case::Case;

const ODD: &[(&str, &str)] = &[
    ("public", "Orders"),
    ("public", "with space"),
    ("public", "quote\"d"),
    ("public", "it's"),
    ("public", "ünïcödé 表"),
    ("public", "dotted.name"),
    ("public", "select"),
    ("public", "percent%20x"),
    ("Odd Schema", "Table"),
    ("public", "a_name_of_exactly_sixty_three_bytes_which_is_all_that_is_allowe"),
];

#[test]
fn odd_names_of_tables_and_columns() -> anyhow::Result<()> {
    let mut schema = "create schema \"Odd Schema\";".to_owned();
    for (namespace, name) in ODD {
        let table = format!("{}.{}", identifier(Kind::Postgres, namespace), identifier(Kind::Postgres, name));
        schema += &format!(
            "create table {table} (\"Id\" int primary key, \"with space\" text, \"quote\"\"d\" int, \"ü.表\" text, \"from\" text);
             insert into {table} select i, 'x', i, 'ü', 'f' from generate_series(1, 5) i;"
        );
    }
    let mut case = Case::new("oddnames", &schema, &["public.*", "\"Odd Schema\".*"])?;
    case.pipeline.once()?;
    let compare_all = |case: &mut Case| -> anyhow::Result<()> {
        for (namespace, name) in ODD {
            let pair = Pair::new((namespace, name), (namespace, name));
            let found = readers::duckdb(|duckdb| compare(&mut case.sql, case.pipeline.lake(), &pair, duckdb))?;
            anyhow::ensure!(found.is_empty(), "{pair}: {found}");
        }
        Ok(())
    };
    compare_all(&mut case)?;
    for (namespace, name) in ODD {
        let table = format!("{}.{}", identifier(Kind::Postgres, namespace), identifier(Kind::Postgres, name));
        case.sql.run(&format!("update {table} set \"ü.表\" = 'ä' where \"Id\" = 1; delete from {table} where \"Id\" = 2; insert into {table} values (9)"))?;
    }
    case.pipeline.once()?;
    compare_all(&mut case)?;
    case.pass()
}

#[test]
fn two_hundred_tables_and_one_of_five_hundred_columns() -> anyhow::Result<()> {
    let mut schema = String::new();
    for n in 0..200 {
        schema += &format!(
            "create table t{n} (id int primary key, v text); insert into t{n} select i, 'v' from generate_series(1, 3) i;"
        );
    }
    let columns: Vec<String> =
        (0..499).map(|n| format!("c{n} {}", ["int", "text", "numeric(9,2)", "date"][n % 4])).collect();
    schema += &format!(
        "create table wide (id int primary key, {}); insert into wide (id, c0, c1, c498) values (1, 1, 'x', 2.5), (2, null, null, null);",
        columns.join(", ")
    );
    let mut case = Case::new("many", &schema, &["public.*"])?;
    case.pipeline.once()?;
    for n in (0..200).step_by(3) {
        case.sql.run(&format!("update t{n} set v = 'w' where id = 1; delete from t{n} where id = 2"))?;
    }
    case.sql.run("update wide set c497 = 'y', c3 = '2024-01-01'; insert into wide (id) values (3)")?;
    case.pipeline.once()?;
    case.same(&["public.wide", "public.t0", "public.t1", "public.t99", "public.t198", "public.t199"])?;
    let verified = case.pipeline.finish(&["verify"])?.expect_success()?;
    anyhow::ensure!(verified.stdout.lines().count() == 201, "{}", verified.stdout);
    case.pass()
}

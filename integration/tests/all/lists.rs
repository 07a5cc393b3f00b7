//! Arrays, hstore and vectors of Postgres: what they are in the lake, and what no list holds. Their values are `matrix`'s.

use anyhow::ensure;
use calve_integration::readers;
use calve_integration::sql::Sql;
use calve_testkit::readers::Reader;
use calve_testkit::servers::{Postgres, SUPERUSER};

use crate::case::{Case, complains};

#[test]
fn types_and_field_ids_are_those_of_lists_and_maps() -> anyhow::Result<()> {
    let mut case = Case::on(&*Postgres::shared(17)?, "lists_schema", "", &["public.t"])?;
    let mut superuser = Sql::connect(&case.database.url(SUPERUSER)?)?;
    superuser.run("create extension hstore schema public; create extension vector schema public")?;
    case.sql.run(
        "create type mood as enum ('sad', 'ok');
         create table t (id int primary key, a int[], b numeric(9,2)[] not null, c text[][], d hstore, e vector, f numeric[], g mood[]);
         insert into t values (1, '{1}', '{1}', '{x}', 'a=>1', '[1,2]', '{1}', '{sad}')",
    )?;
    case.once_and_same(&["public.t"])?;
    let described = readers::metadata(|reader| Ok(reader.describe(&case.lake().table("public", "t")?)?))?;
    let columns = described["columns"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found: Vec<String> = columns
        .iter()
        .map(|column| format!("{} {}", column["id"], column["type"].as_str().unwrap_or("").replace(' ', "")))
        .collect();
    let expected = [
        "1 int",
        "2 list<int>",
        "3 list<decimal(9,2)>",
        "4 list<string>",
        "5 map<string,string>",
        "6 list<float>",
        "7 list<string>",
        "8 list<string>",
    ];
    ensure!(found == expected, "{found:?}");
    case.pass()
}

/// What a list cannot hold stops its table, becomes NULL, or is kept as text.
#[test]
fn what_no_list_holds_follows_the_column_s_rule() -> anyhow::Result<()> {
    let columns = "id int primary key, a int[], d date[], n numeric(9,2)[]";
    let schema = format!(
        "create table strict ({columns}); create table loose ({columns}); create table clamped ({columns}); create table texts ({columns});
         insert into loose values (1, '{{{{1,2}},{{3,4}}}}', '{{2024-01-01,infinity}}', '{{1,NaN}}'), (2, '{{1}}', '{{2024-01-01}}', '{{1}}');
         insert into texts select * from loose;"
    );
    let entries = [
        "public.strict",
        "{name: public.loose, on_unrepresentable: null}",
        "{name: public.clamped, on_unrepresentable: clamp}",
        "{name: public.texts, columns: {a: {type: string}, d: {type: string}, n: {type: string}}}",
    ];
    let mut case = Case::on(&*Postgres::shared(17)?, "lists_unfit", &schema, &entries)?;
    case.pipeline.once()?;
    case.sql.run(
        "insert into loose select id + 2, a, d, n from loose; insert into texts select id + 2, a, d, n from texts",
    )?;
    case.pipeline.once()?;
    let rows = |case: &Case, table: &str| {
        readers::duckdb(|duckdb| {
            let found = duckdb.query_table(&case.lake().table("public", table)?, "select * from t order by id")?;
            let text = |row: &Vec<Option<String>>| {
                row.iter().map(|cell| cell.clone().unwrap_or("-".into())).collect::<Vec<_>>().join("|")
            };
            Ok(found.rows.iter().map(text).collect::<Vec<_>>())
        })
    };
    let whole = r#"|["1"]|["2024-01-01"]|["1.00"]"#;
    let loose = rows(&case, "loose")?;
    ensure!(
        loose == ["1|-|-|-".to_owned(), format!("2{whole}"), "3|-|-|-".to_owned(), format!("4{whole}")],
        "{loose:?}"
    );
    ensure!(case.pipeline.substituted("public.loose")? == (6, 0), "{:?}", case.pipeline.substituted("public.loose")?);
    let texts = rows(&case, "texts")?;
    let (odd, plain) = ("|{{1,2},{3,4}}|{2024-01-01,infinity}|{1.00,NaN}", "|{1}|{2024-01-01}|{1.00}");
    ensure!(texts == [format!("1{odd}"), format!("2{plain}"), format!("3{odd}"), format!("4{plain}")], "{texts:?}");
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.sql.run("insert into strict values (1, '{{1},{2}}'); insert into clamped values (1, null, '{infinity}')")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    for (table, column, what) in [("strict", "a", "more than one dimension"), ("clamped", "d", "infinity")] {
        let state = case.pipeline.state(&format!("public.{table}"))?;
        for part in ["unrepresentable", column, what, "reload"] {
            ensure!(state.reason.contains(part), "{table} does not say {part}: {state:?}");
        }
    }
    case.pass()
}

#[test]
fn no_key_is_a_list() -> anyhow::Result<()> {
    let schema =
        "create table t (tags text[] primary key, v int); insert into t values ('{a}', 1), ('{\"a,b\",NULL}', 2)";
    let mut case = Case::new("lists_key", schema, &["public.t"])?;
    complains(
        &case.pipeline.finish(&["run", "--once"])?,
        2,
        &["key column", "tags", "text[]", "lists cannot tell rows apart"],
    )?;
    let checked = case.pipeline.finish(&["check"])?.expect_code(2)?;
    ensure!(checked.stdout.contains("lists cannot tell rows apart"), "{}", checked.stdout);
    // As text it can.
    case.pipeline = case.pipeline.clone().tables(&["{name: public.t, columns: {tags: {type: string}}}"]);
    case.pipeline.once()?;
    case.sql.run("update t set v = 3 where tags = '{a}'; update t set tags = '[2:2]={a}' where v = 2; insert into t values ('{}', 4)")?;
    case.pipeline.once()?;
    let found = readers::duckdb(|duckdb| {
        Ok(duckdb.query_table(&case.lake().table("public", "t")?, "select tags, v from t order by v")?)
    })?;
    let rows: Vec<String> =
        found.rows.iter().map(|row| row.iter().flatten().cloned().collect::<Vec<_>>().join(" ")).collect();
    ensure!(rows == ["[2:2]={a} 2", "{a} 3", "{} 4"], "{rows:?}");
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.pass()
}

/// Versions that knew no lists had arrays as text. Such a table goes on as it is until it is read again.
#[test]
fn an_array_that_was_loaded_as_text_stays_text_until_it_is_read_again() -> anyhow::Result<()> {
    let schema = "create table t (id int primary key, a int[], b text[]); insert into t values (1, '{1,2}', '{x}')";
    let mut case = Case::new("lists_later", schema, &["public.t"])?;
    let plain = case.pipeline.clone();
    case.pipeline = plain.clone().tables(&["{name: public.t, columns: {a: {type: string}, b: {type: string}}}"]);
    case.pipeline.once()?;
    case.pipeline = plain;
    case.sql.run("insert into t values (2, '{3,NULL}', '{}')")?;
    let finished = case.pipeline.once()?;
    for part in ["it is text in the lake", "list<int>", "list<string>", "calve reload public.t"] {
        ensure!(finished.stderr.contains(part), "nothing says {part}: {}", finished.stderr);
    }
    // Neither another column nor a type that grows makes it another one.
    case.sql.run("alter table t add column c int[]; alter table t alter column a type bigint[]; insert into t values (3, '{5000000000}', null, '{7}')")?;
    case.pipeline.once()?;
    let rows = |case: &Case| {
        readers::duckdb(|duckdb| {
            let found = duckdb.query_table(&case.lake().table("public", "t")?, "select * from t order by id")?;
            let text = |row: &Vec<Option<String>>| {
                row.iter().map(|cell| cell.clone().unwrap_or("-".into())).collect::<Vec<_>>().join("|")
            };
            Ok(found.rows.iter().map(text).collect::<Vec<_>>())
        })
    };
    let found = rows(&case)?;
    ensure!(found == ["1|{1,2}|{x}|-", "2|{3,NULL}|{}|-", r#"3|{5000000000}|-|["7"]"#], "{found:?}");
    ensure!(case.pipeline.state("public.t")?.reason.is_empty());
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.pipeline.finish(&["reload", "public.t"])?.expect_success()?;
    case.same(&["public.t"])?;
    let finished = case.pipeline.once()?;
    ensure!(!finished.stderr.contains("it is text in the lake"), "{}", finished.stderr);
    case.pass()
}

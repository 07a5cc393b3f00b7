//! Arrays, hstore and vectors of Postgres by load and by stream, in binary and in text form, on every version: what DuckDB and
//! Spark read is what the server has.

use anyhow::ensure;
use calve_integration::readers;
use calve_integration::sql::Sql;
use calve_testkit::readers::Reader;
use calve_testkit::servers::{Postgres, SUPERUSER};

use crate::case::{Case, complains};

/// Types whose binary form is read, and values of each as SQL: empty, with NULL inside, the least and the greatest, what has to be
/// quoted, and lower bounds other than 1.
const BINARY: &[(&str, &[&str])] = &[
    ("boolean[]", &["{}", "{t,f,NULL}"]),
    ("smallint[]", &["{-32768,32767,0}", "{NULL}"]),
    ("integer[]", &["{-2147483648,NULL,2147483647}", "[-1:1]={1,2,3}", "{}"]),
    ("bigint[]", &["{-9223372036854775808,9223372036854775807}", "{NULL,NULL}"]),
    ("oid[]", &["{0,4294967295}"]),
    ("real[]", &["{NaN,Infinity,-Infinity,-0,3.4028235e38,1.4e-45,0.1}"]),
    ("double precision[]", &["{NaN,-0,1.7976931348623157e308,5e-324,0.1,NULL}"]),
    ("numeric(12,3)[]", &["{-999999999.999,0.001,NULL,-0.5}", "{}"]),
    ("numeric(1)[]", &["{1,NULL,-9}"]),
    ("numeric(38,10)[]", &["{9999999999999999999999999999.9999999999,0}"]),
    ("numeric[]", &["{NaN,1e40,-1e-40,0.00,NULL}"]),
    (
        "text[]",
        &[
            "{}",
            r#"{a,NULL,"NULL","","b c","it''s","{x,y}","back\\slash","quo\"te"}"#,
            r#"{"äöü ✓ 𝄞 日本語","tab\t"," "}"#,
            "[5:6]={x,y}",
        ],
    ),
    ("varchar(5)[]", &["{abc,NULL,\"\"}"]),
    ("character(4)[]", &["{ab,\"\",four}"]),
    ("name[]", &["{a_name}"]),
    ("bytea[]", &[r#"{"\\x00","\\x","\\xdeadbeef",NULL}"#]),
    ("date[]", &["{0001-01-01,9999-12-31,1970-01-01,NULL}"]),
    ("timestamp[]", &[r#"{"1969-12-31 23:59:59.999999",NULL,"9999-12-31 23:59:59.999999"}"#]),
    ("timestamptz[]", &[r#"{"2024-03-31 02:30:00+02",NULL}"#]),
    ("uuid[]", &["{00000000-0000-0000-0000-000000000000,ffffffff-ffff-ffff-ffff-ffffffffffff,NULL}"]),
    ("json[]", &[r#"{"{\"a\": 1.10}","null",NULL}"#]),
    ("jsonb[]", &[r#"{"{\"b\": [1, \"x\"]}","null",NULL}"#]),
    ("tags", &[r#"{one,NULL,"two, three"}"#, "{}"]),
    ("short[]", &["{abc,NULL}"]),
    ("cents[]", &["{1.50,NULL,-0.01}"]),
    ("int2vector", &["1 2 -3", ""]),
    ("oidvector", &["1 4294967295"]),
    ("hstore", &["", r#"a=>1, "b c"=>NULL, "quo\"te"=>"back\\slash", ü=>"", "NULL"=>"NULL""#]),
    ("vector(3)", &["[1,-2.5,1e-07]", "[0,0,3.4e+38]"]),
    ("attributes", &["x=>y"]),
];

/// Types of which only the text form is read.
const TEXT: &[(&str, &[&str])] = &[
    ("mood[]", &[r#"{sad,"it''s \"ok\"",NULL,ä}"#]),
    ("inet[]", &["{192.168.0.1/24,::1,10.0.0.1,NULL}"]),
    ("cidr[]", &["{10.0.0.0/8}"]),
    ("int4range[]", &[r#"{"[1,5)",empty,NULL}"#]),
    ("box[]", &["{(1,1),(0,0);(3,3),(2,2)}"]),
    ("pair[]", &[r#"{"(1,\"a b\")",NULL}"#]),
    ("interval[]", &[r#"{"1 year -3 days",NULL}"#]),
    ("bit(3)[]", &["{101,NULL}"]),
    ("hstore[]", &[r#"{"\"a\"=>\"1\"",NULL}"#]),
    ("halfvec(2)", &["[1,2.5]"]),
];

const OWN_TYPES: &str = "
    create type mood as enum ('sad', 'it''s \"ok\"', 'ä', 'unused');
    create domain short as varchar(5) check (value <> 'xxxxx');
    create domain cents as numeric(9,2);
    create domain tags as text[];
    create domain attributes as hstore;
    create type pair as (n int, t text);";

type Types = Vec<(&'static str, &'static [&'static str])>;

fn types(text: bool, version: u32) -> Types {
    let all = BINARY.iter().chain(TEXT.iter().filter(|_| text));
    all.filter(|(name, _)| has_vectors(version) || !name.contains("vec(") && !name.contains("vector("))
        .copied()
        .collect()
}

/// Debian 12, from which the servers of version 15 are, has no pgvector.
fn has_vectors(version: u32) -> bool {
    version > 15
}

fn table(types: &Types, name: &str) -> String {
    let columns = types.iter().enumerate().map(|(at, (kind, _))| format!("c{at} {kind}"));
    format!("create table {name} (id int primary key, {});", columns.collect::<Vec<_>>().join(", "))
}

/// One `insert` a row: row `n` has the n-th value of each type, NULL where a type has no more.
fn rows(types: &Types, table: &str) -> String {
    let most = types.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    let row = |n: usize| {
        let values = types.iter().map(|(kind, values)| match values.get(n) {
            Some(value) => format!("cast('{value}' as {kind})"),
            None => "null".to_owned(),
        });
        format!("insert into {table} values ({n}, {});", values.collect::<Vec<_>>().join(", "))
    };
    (0..=most).map(row).collect()
}

fn case(version: u32, label: &str, tables: &[&str]) -> anyhow::Result<Case> {
    let mut case = Case::on(&*Postgres::shared(version)?, label, "", tables)?;
    let mut superuser = Sql::connect(&case.database.url(SUPERUSER)?)?;
    superuser.run("create extension hstore schema public")?;
    if has_vectors(version) {
        superuser.run("create extension vector schema public")?;
    }
    case.sql.run(OWN_TYPES)?;
    Ok(case)
}

fn values_are_what_the_server_has(version: u32, text: bool) -> anyhow::Result<()> {
    let tables = ["public.loaded", "public.streamed"];
    let types = types(text, version);
    let mut case = case(version, if text { "lists_text" } else { "lists" }, &tables)?;
    case.sql.run(&[table(&types, "loaded"), table(&types, "streamed"), rows(&types, "loaded")].concat())?;
    case.once_and_same(&["public.loaded"])?;
    case.sql.run(&rows(&types, "streamed"))?;
    case.sql.run("alter table loaded replica identity full; update loaded set id = id + 100 where id % 2 = 0")?;
    case.once_and_same(&tables)?;
    case.sql.run("update streamed set id = id + 100; update streamed set c0 = null where id = 101")?;
    case.once_and_same(&tables)?;
    case.same_by_spark(&tables)?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.pipeline.finish(&["reload", "public.streamed"])?.expect_success()?;
    case.same(&tables)?;
    case.pass()
}

#[test]
fn arrays_in_binary_form_are_lists() -> anyhow::Result<()> {
    values_are_what_the_server_has(17, false)
}

#[test]
fn arrays_in_text_form_are_lists() -> anyhow::Result<()> {
    values_are_what_the_server_has(17, true)
}

#[test]
fn arrays_of_postgres_15_are_lists() -> anyhow::Result<()> {
    values_are_what_the_server_has(15, false)?;
    values_are_what_the_server_has(15, true)
}

#[test]
fn arrays_of_postgres_18_are_lists() -> anyhow::Result<()> {
    values_are_what_the_server_has(18, false)?;
    values_are_what_the_server_has(18, true)
}

/// Spark knows no time of day.
#[test]
fn lists_of_times_are_exact() -> anyhow::Result<()> {
    let schema =
        "create table t (id int primary key, times time[]); insert into t values (1, '{00:00,NULL,23:59:59.999999}')";
    let mut case = Case::new("lists_of_times", schema, &["public.t"])?;
    case.once_and_same(&["public.t"])?;
    case.sql.run("insert into t values (2, '{12:30:00.5}'), (3, null), (4, '{}')")?;
    case.once_and_same(&["public.t"])?;
    case.pass()
}

#[test]
fn types_and_field_ids_are_those_of_lists_and_maps() -> anyhow::Result<()> {
    let mut case = case(17, "lists_schema", &["public.t"])?;
    case.sql.run(
        "create table t (id int primary key, a int[], b numeric(9,2)[] not null, c text[][], d hstore, e vector, f numeric[], g mood[]);
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

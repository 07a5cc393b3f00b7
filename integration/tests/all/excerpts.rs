//! Columns that are left out or masked, and rows that are chosen: by load and by stream, through ALTERs and reloads, on every Postgres.

use std::path::Path;

use anyhow::{Context, ensure};
use calve_integration::masks::digest;
use calve_integration::readers;
use calve_integration::sql::TextRows;
use calve_testkit::readers::Reader;
use calve_testkit::servers::Postgres;

use crate::case::{Case, complains};

pub(crate) const SALT: &str = "0123456789abcdef-salt";
/// No file of the lake, of the local state or of the logs may hold these.
const HIDDEN: [&str; 2] = ["kept-from-the-lake", "somebody@example.org"];
const WHERE: &str =
    "region in ('eu', 'us') and (price > 10.50 or price is null) and not ok = false and d >= '2024-01-01'";
const COLUMNS: &str = "id int primary key, secret text, email text, n int, region text, price numeric(9,2), ok boolean, d date, secret_blob bytea, note text";

fn entry(table: &str, mode: &str) -> String {
    format!(
        "{{name: public.{table}, {mode} exclude_columns: \"secret*\", columns: {{email: {{mask: sha256}}, n: {{mask: sha256}}}}, where: \"{WHERE}\"}}"
    )
}

/// Fails if a file under the directory has any of these texts in it.
pub(crate) fn nowhere(directory: &Path, texts: &[&str]) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            nowhere(&path, texts)?;
            continue;
        }
        let Ok(bytes) = std::fs::read(&path) else { continue };
        for text in texts {
            let found = bytes.windows(text.len()).any(|window| window == text.as_bytes());
            ensure!(!found, "{} holds '{text}'", path.display());
        }
    }
    Ok(())
}

fn lake_rows(case: &Case, table: &str, query: &str) -> anyhow::Result<TextRows> {
    let at = case.lake().table("public", table)?;
    Ok(readers::duckdb(|duckdb| Ok(duckdb.query_table(&at, query)?))?.rows)
}

/// Fails unless the table has the excerpt of the source's rows, as the source itself computes it, and no other column.
fn same_excerpt(case: &mut Case, table: &str, columns: &str) -> anyhow::Result<()> {
    let (email, n) = (digest("email", SALT, true), digest("n::text", SALT, true));
    let source = case.sql.rows(&format!(
        "select id::text, {email}, {n}, region, price::text, case ok when true then 'true' when false then 'false' end, d::text, note
           from {table} where {WHERE} order by {table}.id"
    ))?;
    let query = "select cast(id as varchar), email, n, region, cast(price as varchar), cast(ok as varchar), cast(d as varchar), note from t order by t.id";
    let found = lake_rows(case, table, query)?;
    ensure!(found == source, "{table}: {found:?}\nis not\n{source:?}");
    let names = lake_rows(case, table, "select string_agg(column_name, ' ') from (describe select * from t)")?;
    ensure!(names == [[Some(columns.to_owned())]], "{names:?}");
    Ok(())
}

const ROWS: &str = "(1, 'kept-from-the-lake', 'somebody@example.org', 5, 'eu', 10.51, true, '2024-01-01', '\\x6b65', 'a'),
    (2, 'kept-from-the-lake', 'x@example.org', null, 'us', null, true, '2024-06-01', null, 'b'),
    (3, null, null, 7, 'eu', 10.50, true, '2024-06-01', null, 'c'), (4, null, 'y', 7, 'eu', 11, null, '2024-06-01', null, 'd'),
    (5, null, 'y', 7, 'ap', 11, true, '2024-06-01', null, 'e'), (6, null, 'y', 7, null, 11, true, '2024-06-01', null, 'f'),
    (7, null, 'y', 7, 'eu', 11, false, '2024-06-01', null, 'g'), (8, null, 'y', 7, 'eu', 11, true, '2023-12-31', null, 'h'),
    (9, null, '', -1, 'eu', 1000000, true, '2025-01-01', null, null)";

fn an_excerpt(version: u32) -> anyhow::Result<()> {
    let schema = format!(
        "create table t ({COLUMNS}); create table l ({COLUMNS}); alter table l replica identity full; insert into t values {ROWS}; insert into l values {ROWS}"
    );
    let (upsert, log) = (entry("t", ""), entry("l", "mode: append, preimages: true,"));
    let mut case = Case::on(&*Postgres::shared(version)?, "excerpt", &schema, &[&upsert, &log])?;
    case.pipeline = case.pipeline.clone().with(&format!("mask_salt: {SALT}")).with("files:\n  compression: none");
    case.pipeline.finish(&["check"])?.expect_success()?;
    case.pipeline.once()?;
    same_excerpt(&mut case, "t", "id email n region price ok d note")?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    let changes = |table: &str| {
        format!(
            "update {table} set region = 'ap' where id = 1; update {table} set region = 'us', email = 'somebody@example.org' where id = 5;
             update {table} set id = 30 where id = 3; update {table} set id = 20, note = 'moved' where id = 2; update {table} set price = 99 where id = 30;
             delete from {table} where id in (4, 9); insert into {table} values (40, 'kept-from-the-lake', 'z', 1, 'eu', 12, true, '2024-02-02', '\\x00', 'new');
             begin; insert into {table} (id, region, ok, d) values (41, 'eu', true, '2024-02-02'); update {table} set ok = false where id = 41; commit;
             begin; update {table} set d = '2024-01-01' where id = 8; update {table} set d = '2023-01-01' where id = 8; commit"
        )
    };
    case.sql.run(&format!("{}; {}", changes("t"), changes("l")))?;
    case.pipeline.once()?;
    same_excerpt(&mut case, "t", "id email n region price ok d note")?;
    // The log has what leads into the rows had and out of them, and nothing of others.
    let logged = lake_rows(
        &case,
        "l",
        "select string_agg(concat_ws(' ', id, _calve_op), ', ' order by _calve_ordinal, _calve_op like '%update', _calve_op) from t where _calve_op <> 'read'",
    )?;
    let logged = logged[0][0].clone().unwrap_or_default();
    ensure!(
        logged
            == "1 update_preimage, 1 update, 5 update_preimage, 5 update, 2 delete, 20 insert, 30 update_preimage, 30 update, \
                   9 delete, 40 insert, 41 insert, 41 update_preimage, 41 update, 8 update_preimage, 8 update, 8 update_preimage, 8 update",
        "{logged}"
    );
    let read = lake_rows(&case, "l", "select count(*) from t where _calve_op = 'read'")?;
    ensure!(read == [[Some("3".to_owned())]], "{read:?}");
    case.pipeline.finish(&["verify"])?.expect_success()?;

    // What is left out may change in every way; a column whose values have a mask grows.
    case.sql.run(
        "alter table t add column secret_c text not null default 'kept-from-the-lake'; alter table t drop column secret;
         alter table t rename column secret_blob to secret_d; alter table t alter column secret_d type text using 'x', alter column n type bigint;
         insert into t (id, email, n, region, ok, d, secret_d) values (50, 'somebody@example.org', 9000000000, 'eu', true, '2024-03-03', 'kept-from-the-lake'); update t set n = n + 1",
    )?;
    case.pipeline.once()?;
    same_excerpt(&mut case, "t", "id email n region price ok d note")?;
    case.sql.run("alter table t drop column secret_c; alter table t add column secret_c int; update t set secret_c = 1 where id = 50; update t set note = note || '!'")?;
    case.pipeline.once()?;
    same_excerpt(&mut case, "t", "id email n region price ok d note")?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    nowhere(case.directory.path(), &HIDDEN)?;

    // It comes in under another name, and was never read.
    case.sql.run("alter table t rename column secret_d to open; update t set note = 'x' where id = 50")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    let state = case.pipeline.state("public.t")?;
    ensure!(state.reason.contains("was left out as") && state.reason.contains("open"), "{state:?}");
    case.pipeline.finish(&["reload", "public.t"])?.expect_success()?;
    same_excerpt(&mut case, "t", "id email n region price ok d open note")?;
    // One that goes under a name that is left out is dropped.
    case.sql.run("alter table t rename column open to secret_e; insert into t (id, region, ok, d) values (51, 'eu', true, '2024-03-03')")?;
    case.pipeline.once()?;
    let opened = lake_rows(&case, "t", "select count(open) from t where id = 51")?;
    ensure!(opened == [[Some("0".to_owned())]], "{opened:?}");
    case.pipeline.finish(&["verify"])?.expect_success()?;
    // The column that rows are chosen by.
    case.sql.run("alter table t rename column region to area; insert into t (id, area, ok, d) values (52, 'eu', true, '2024-03-03')")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    let state = case.pipeline.state("public.t")?;
    ensure!(state.reason.contains("correct 'where' first"), "{state:?}");
    case.pipeline.finish(&["reload", "public.t"])?.expect_code(3)?;
    let state = case.pipeline.state("public.t")?;
    ensure!(state.reason.contains("there is no column region"), "{state:?}");
    case.pass()
}

/// What the configuration says of a table that stands counts when it is read again; a salt is kept.
#[test]
fn an_excerpt_stays_what_it_is_until_the_table_is_read_again() -> anyhow::Result<()> {
    let schema = format!("create table t ({COLUMNS}); insert into t values {ROWS}");
    let mut case = Case::new("excerpt_later", &schema, &["public.t"])?;
    case.once_and_same(&["public.t"])?;
    let plain = case.pipeline.clone();
    let entry = entry("t", "");
    case.pipeline = plain.clone().tables(&[&entry]).variable("CALVE_MASK_SALT", SALT);
    case.sql.run("insert into t values (60, 'a', 'b', 1, 'ap', 1, true, '2024-01-01', null, 'x')")?;
    let says = ["column secret is to be left out", "column email is to have a mask", "'where' is to be region in"];
    let finished = case.pipeline.once()?;
    ensure!(says.iter().all(|part| finished.stderr.contains(part)), "{}", finished.stderr);
    case.same(&["public.t"])?;
    let checked = case.pipeline.finish(&["check"])?.expect_success()?;
    ensure!(says.iter().all(|part| checked.stdout.contains(part)), "{}", checked.stdout);
    let verified = case.pipeline.finish(&["verify"])?;
    ensure!(verified.stdout.contains("run calve reload public.t, then verify"), "{}", verified.stdout);
    case.pipeline.finish(&["reload", "public.t"])?.expect_success()?;
    same_excerpt(&mut case, "t", "id email n region price ok d note")?;
    case.pipeline.finish(&["verify"])?.expect_success()?;

    let other = plain.clone().tables(&[&entry]).with("mask_salt: another-salt-of-enough-bytes");
    complains(
        &other.finish(&["run", "--once"])?,
        2,
        &["column email of table public.t has digests under another salt", "calve reload public.t"],
    )?;
    let none = plain.clone().tables(&[&entry]);
    complains(
        &none.finish(&["run", "--once"])?,
        2,
        &["column email of table public.t has a mask, and there is no salt"],
    )?;
    other.finish(&["reload", "public.t"])?.expect_success()?;
    other.finish(&["verify"])?.expect_success()?;
    complains(&case.pipeline.finish(&["run", "--once"])?, 2, &["under another salt"])?;
    // Taken back, it is as it was.
    case.pipeline = plain;
    case.pipeline.finish(&["reload", "public.t"])?.expect_success()?;
    case.once_and_same(&["public.t"])?;
    case.pass()
}

/// Values that an update leaves alone are in the lake only if the row is.
#[test]
fn a_row_that_comes_without_its_values_stops_its_table() -> anyhow::Result<()> {
    let of = |table: &str| {
        format!(
            "create table {table} (id int primary key, n int, body text); alter table {table} alter body set storage external;
             insert into {table} select i, i, repeat(md5(i::text), 200) from generate_series(1, 20) i;"
        )
    };
    let schema = format!("{} {} alter table whole replica identity full", of("plain"), of("whole"));
    let entries = ["plain", "whole"].map(|table| format!("{{name: public.{table}, where: n > 10}}"));
    let mut case = Case::new("excerpt_left_alone", &schema, &entries.each_ref().map(String::as_str))?;
    let checked = case.pipeline.finish(&["check"])?.expect_success()?;
    let warned = |table: &str| checked.stdout.contains(&format!("a large value of table public.{table} alone"));
    ensure!(warned("plain") && !warned("whole"), "{}", checked.stdout);
    case.pipeline.once()?;
    let same = |case: &mut Case, table: &str| -> anyhow::Result<()> {
        let source =
            case.sql.rows(&format!("select id::text, n::text, body from {table} where n > 10 order by {table}.id"))?;
        let found =
            lake_rows(case, table, "select cast(id as varchar), cast(n as varchar), body from t order by t.id")?;
        ensure!(found == source, "{table} has {} rows and the source {}", found.len(), source.len());
        Ok(())
    };
    // Within, outside, and out.
    for table in ["plain", "whole"] {
        case.sql.run(&format!(
            "update {table} set n = n + 1 where n > 10; update {table} set n = n - 1 where n < 10; update {table} set n = 0 where id = 15; update {table} set id = id + 100 where id < 3 or id > 18"
        ))?;
    }
    case.pipeline.once()?;
    same(&mut case, "plain")?;
    same(&mut case, "whole")?;
    // In, with its large value and without.
    case.sql.run("update plain set n = 50, body = 'short' where id = 5; update whole set n = 50 where id = 5")?;
    case.pipeline.once()?;
    same(&mut case, "plain")?;
    case.sql.run("update plain set n = 50 where id = 6")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    let state = case.pipeline.state("public.plain")?;
    ensure!(state.reason.contains("id = 6") && state.reason.contains("REPLICA IDENTITY FULL"), "{state:?}");
    case.sql.run("alter table plain replica identity full")?;
    case.pipeline.finish(&["reload", "public.plain"])?.expect_success()?;
    case.sql.run("update plain set n = 51 where id = 7")?;
    case.pipeline.once()?;
    same(&mut case, "plain")?;
    same(&mut case, "whole")?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.pass()
}

#[test]
fn excerpts_that_a_table_cannot_have_are_refused() -> anyhow::Result<()> {
    let schema = "create table t (id int primary key, a text, n int, g int generated always as (n + 1) stored)";
    let case = Case::new("excerpt_refused", schema, &["public.t"])?;
    for (fields, says) in [
        ("exclude_columns: id", "key column id of table public.t is left out by exclude_columns"),
        ("include_columns: [a, n]", "key column id of table public.t is left out by include_columns"),
        ("exclude_columns: [b]", "exclude_columns of table public.t has b, and the table has no such column"),
        ("exclude_columns: [a], include_columns: [id]", "not both"),
        ("columns: {id: {mask: sha256}}", "key column id of table public.t has a mask"),
        ("columns: {a: {mask: sha256}}", "there is no salt"),
        ("columns: {a: {mask: md5}}", "'md5' is no mask; there is sha256"),
        ("where: a = 1", "column a is string, which is not compared with 1"),
        ("where: n ~ 1", "'~' has no meaning in a condition"),
        ("where: a = 'x', exclude_columns: a", "'where' of table public.t looks at column a, which is left out"),
    ] {
        let entry = format!("{{name: public.t, {fields}}}");
        complains(&case.pipeline.clone().tables(&[&entry]).finish(&["run", "--once"])?, 2, &[says])?;
    }
    let short = case.pipeline.clone().with("mask_salt: short");
    complains(&short.finish(&["run", "--once"])?, 2, &["a salt has 16 bytes at least"])?;
    case.pipeline.clone().tables(&["{name: public.t, exclude_columns: g}"]).once()?;
    case.pass()
}

mod an_excerpt {
    #[test]
    fn postgres_15() -> anyhow::Result<()> {
        super::an_excerpt(15)
    }

    #[test]
    fn postgres_17() -> anyhow::Result<()> {
        super::an_excerpt(17)
    }

    #[test]
    fn postgres_18() -> anyhow::Result<()> {
        super::an_excerpt(18)
    }
}

//! Columns that are left out or masked, and rows that are chosen: by load and by stream, through ALTERs and reloads, on every server.

use anyhow::ensure;
use calve_integration::masks::digest;
use calve_integration::readers;
use calve_integration::sql::TextRows;
use calve_testkit::readers::Reader;
use calve_testkit::servers::Server;

use super::{BinlogCase, on_every_server};
use crate::case::complains;
use crate::excerpts::{SALT, nowhere};

const HIDDEN: [&str; 2] = ["kept-from-the-lake", "somebody@example.org"];
const WHERE: &str = "region in ('eu', 'us') and (price > 10.50 or price is null) and not ok = 0 and d >= '2024-01-01'";
const COLUMNS: &str = "id int primary key, secret text, email varchar(100), n int, region varchar(9), price decimal(9,2), ok tinyint, d date, secret_blob blob, secret_shape geometry, secret_json json, note text";
const ROWS: &str = "(1, 'kept-from-the-lake', 'somebody@example.org', 5, 'eu', 10.51, 1, '2024-01-01', 'k', point(1, 2), '{\"a\": \"kept-from-the-lake\"}', 'a'),
    (2, 'kept-from-the-lake', 'x@example.org', null, 'us', null, 1, '2024-06-01', null, null, null, 'b'),
    (3, null, null, 7, 'eu', 10.50, 1, '2024-06-01', null, null, null, 'c'), (4, null, 'y', 7, 'eu', 11, null, '2024-06-01', null, null, null, 'd'),
    (5, null, 'y', 7, 'ap', 11, 1, '2024-06-01', null, null, null, 'e'), (6, null, 'y', 7, null, 11, 1, '2024-06-01', null, null, null, 'f'),
    (7, null, 'y', 7, 'eu', 11, 0, '2024-06-01', null, null, null, 'g'), (8, null, 'y', 7, 'eu', 11, 1, '2023-12-31', null, null, null, 'h'),
    (9, null, '', -1, 'eu', 1000000, 1, '2025-01-01', null, null, null, null)";

fn entry(case: &BinlogCase, table: &str, mode: &str) -> String {
    format!(
        "{{name: {}, {mode} exclude_columns: \"secret*\", columns: {{email: {{mask: sha256}}, n: {{mask: sha256}}}}, where: \"{WHERE}\"}}",
        case.name(table)
    )
}

fn lake_rows(case: &BinlogCase, table: &str, query: &str) -> anyhow::Result<TextRows> {
    let at = case.lake().table(case.database.name(), table)?;
    Ok(readers::duckdb(|duckdb| Ok(duckdb.query_table(&at, query)?))?.rows)
}

fn same_excerpt(case: &mut BinlogCase, table: &str) -> anyhow::Result<()> {
    let (email, n) = (digest("email", SALT, false), digest("cast(n as char)", SALT, false));
    let source = case.sql.rows(&format!(
        "select cast(id as char), {email}, {n}, region, cast(price as char), cast(ok as char), cast(d as char), note from {table} where {WHERE} order by {table}.id"
    ))?;
    let query = "select cast(id as varchar), email, n, region, cast(price as varchar), cast(ok as varchar), cast(d as varchar), note from t order by t.id";
    let found = lake_rows(case, table, query)?;
    ensure!(found == source, "{table}: {found:?}\nis not\n{source:?}");
    let names = lake_rows(case, table, "select string_agg(column_name, ' ') from (describe select * from t)")?;
    ensure!(names == [[Some("id email n region price ok d note".to_owned())]], "{names:?}");
    Ok(())
}

fn an_excerpt(server: &Server) -> anyhow::Result<()> {
    let schema = format!(
        "create table t ({COLUMNS}); create table l like t; insert into t values {ROWS}; insert into l values {ROWS}"
    );
    let mut case = BinlogCase::on(server, "excerpt", &schema, &[])?;
    let entries = [entry(&case, "t", ""), entry(&case, "l", "mode: append, preimages: true,")];
    let pipeline = case.pipeline.clone().tables(&entries.each_ref().map(String::as_str));
    case.pipeline = pipeline.with(&format!("mask_salt: {SALT}")).with("files:\n  compression: none");
    case.pipeline.finish(&["check"])?.expect_success()?;
    case.pipeline.once()?;
    same_excerpt(&mut case, "t")?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    let changes = |table: &str| {
        format!(
            "update {table} set region = 'ap' where id = 1; update {table} set region = 'us', email = 'somebody@example.org' where id = 5;
             update {table} set id = 30 where id = 3; update {table} set id = 20, note = 'moved' where id = 2; update {table} set price = 99 where id = 30;
             delete from {table} where id = 4; delete from {table} where id = 9; insert into {table} (id, secret, email, n, region, price, ok, d, note) values (40, 'kept-from-the-lake', 'z', 1, 'eu', 12, 1, '2024-02-02', 'new');
             begin; insert into {table} (id, region, ok, d) values (41, 'eu', 1, '2024-02-02'); update {table} set ok = 0 where id = 41; commit;
             begin; update {table} set d = '2024-01-01' where id = 8; update {table} set d = '2023-01-01' where id = 8; commit"
        )
    };
    case.sql.run(&format!("{}; {}", changes("t"), changes("l")))?;
    case.pipeline.once()?;
    same_excerpt(&mut case, "t")?;
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
    case.pipeline.finish(&["verify"])?.expect_success()?;

    // What is left out may change in every way; a column whose values have a mask grows.
    case.sql.run(
        "alter table t add column secret_c text not null first; alter table t drop column secret, modify n bigint;
         alter table t change secret_blob secret_d varchar(50) default 'kept-from-the-lake', modify secret_json json after id;
         insert into t (id, email, n, region, ok, d, secret_c, secret_d) values (50, 'somebody@example.org', 9000000000, 'eu', 1, '2024-03-03', 'x', 'kept-from-the-lake'); update t set n = n + 1",
    )?;
    case.pipeline.once()?;
    same_excerpt(&mut case, "t")?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    nowhere(case.directory.path(), &HIDDEN)?;

    // It comes in under another name, and was never read.
    case.sql.run("alter table t rename column secret_d to open; update t set note = 'x' where id = 50")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.stopped("t", &["was left out as", "open"])?;
    case.reload(&["t"])?;
    let opened = lake_rows(&case, "t", "select open from t where id = 50")?;
    ensure!(opened == [[Some("kept-from-the-lake".to_owned())]], "{opened:?}");
    // One that goes under a name that is left out is dropped.
    case.sql.run("alter table t rename column open to secret_e; insert into t (id, region, ok, d, secret_c, secret_e) values (51, 'eu', 1, '2024-03-03', 'x', 'y')")?;
    case.pipeline.once()?;
    let opened = lake_rows(&case, "t", "select count(open), count(*) from t where id = 51")?;
    ensure!(opened == [[Some("0".to_owned()), Some("1".to_owned())]], "{opened:?}");
    case.pipeline.finish(&["verify"])?.expect_success()?;
    // The column that rows are chosen by.
    case.sql.run("alter table t rename column region to area; insert into t (id, area, ok, d, secret_c, secret_e) values (52, 'eu', 1, '2024-03-03', 'x', 'y')")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.stopped("t", &["correct 'where' first"])?;
    case.reload_stops("t")?;
    case.stopped("t", &["there is no column region"])?;
    case.pass()
}

/// A log has to know of a row that goes whether it was chosen, and a key has to be in the lake.
fn what_would_be_guessed_stops(server: &Server) -> anyhow::Result<()> {
    let columns = "(id int primary key, secret int not null default 0, region varchar(9))";
    let schema = format!(
        "create table t {columns}; create table l {columns}; insert into t values (1, 1, 'eu'); insert into l values (1, 1, 'eu'), (2, 2, 'eu')"
    );
    let mut case = BinlogCase::on(server, "excerpt_guess", &schema, &[])?;
    let entries = [
        format!("{{name: {}, exclude_columns: [secret]}}", case.name("t")),
        format!("{{name: {}, mode: append, where: \"region = 'eu'\"}}", case.name("l")),
    ];
    case.case.pipeline = case.pipeline.clone().tables(&entries.each_ref().map(String::as_str));
    case.pipeline.once()?;
    case.connect()?.run("set session binlog_row_image = 'MINIMAL'; delete from l where id = 1")?;
    case.sql.run("alter table t drop primary key, add primary key (id, secret); insert into t values (1, 2, 'eu')")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.stopped("l", &["row image not full", "binlog_row_image"])?;
    case.stopped("t", &["secret", "left out of the lake"])?;
    case.pass()
}

fn an_excerpt_stays_until_the_table_is_read_again(server: &Server) -> anyhow::Result<()> {
    let schema = format!("create table t ({COLUMNS}); insert into t values {ROWS}");
    let mut case = BinlogCase::on(server, "excerpt_later", &schema, &["t"])?;
    case.once_and_same(&["t"])?;
    let (plain, entry) = (case.pipeline.clone(), entry(&case, "t", ""));
    let salt = case.directory.path().join("salt");
    std::fs::write(&salt, format!("{SALT}\n"))?;
    case.pipeline = plain.clone().tables(&[&entry]).with(&format!("mask_salt_file: {}", salt.display()));
    case.sql.run("insert into t (id, region) values (60, 'ap')")?;
    let finished = case.pipeline.once()?;
    for part in ["column secret is to be left out", "column email is to have a mask", "'where' is to be region in"] {
        ensure!(finished.stderr.contains(part), "{part} is not in {}", finished.stderr);
    }
    case.same(&["t"])?;
    case.reload(&["t"])?;
    same_excerpt(&mut case, "t")?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    let other = plain.tables(&[&entry]).with("mask_salt: another-salt-of-enough-bytes");
    complains(&other.finish(&["run", "--once"])?, 2, &["has digests under another salt"])?;
    case.pass()
}

on_every_server!(an_excerpt, an_excerpt_stays_until_the_table_is_read_again, what_would_be_guessed_stops);

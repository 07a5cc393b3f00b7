//! What calve uses of memory at most, whatever the source sends and however slowly the lake takes it.

use std::time::Duration;

use anyhow::ensure;
use calve_integration::binary::Running;
use calve_integration::foreign::CatalogLock;
use calve_integration::pipeline::until;
use calve_integration::readers;
use calve_testkit::readers::Reader;
use calve_testkit::servers::{Kind, Options, Server};

use crate::case::Case;

/// The default of `memory`.
const CEILING: u64 = 512_000_000;

fn under(calve: &Running, ceiling: u64) -> anyhow::Result<()> {
    let peak = calve.peak_bytes()?;
    println!("at most {} MB of {} MB", peak / 1_000_000, ceiling / 1_000_000);
    ensure!(peak <= ceiling, "calve used {peak} bytes");
    Ok(())
}

/// The tables as the server names them to calve.
fn named(case: &Case, table: &str) -> String {
    let schema = if case.sql.kind() == Kind::Postgres { "public" } else { case.database.name() };
    format!("{schema}.{table}")
}

/// Rows as large as they may be, by load and by stream, several in one checkpoint.
fn rows_of_64_megabytes(server: &Server) -> anyhow::Result<()> {
    let (ty, hash) = match server.kind() {
        Kind::Postgres => ("text", "encode(sha256(convert_to(v, 'UTF8')), 'hex')"),
        _ => ("longtext", "sha2(v, 256)"),
    };
    let long = |salt: char| format!("repeat('0123456789abcde{salt}', 4000000)");
    let schema =
        format!("create table big (id int primary key, v {ty}); insert into big values (1, {0}), (2, {0})", long('l'));
    let mut case = Case::on(server, "wide", &schema, &[])?;
    let table = named(&case, "big");
    case.pipeline = case.pipeline.clone().tables(&[&table]);
    let calve = case.pipeline.start()?;
    case.pipeline.await_state(&table, "streaming")?;
    for round in 0..3 {
        case.sql.run(&format!("insert into big select id + 10 + 2 * {round}, {} from big where id < 3", long('s')))?;
    }
    case.sql.run(&format!("update big set v = {} where id < 12", long('c')))?;
    let expected = case.sql.rows(&format!("select id, length(v), {hash} from big order by id"))?;
    ensure!(expected.len() == 8 && expected[0][1].as_deref() == Some("64000000"), "{expected:?}");
    let (lake, name) =
        (case.lake().clone(), table.split_once('.').map(|(schema, _)| schema.to_owned()).unwrap_or_default());
    until("all rows to be there", || {
        let table = lake.table(&name, "big")?;
        let query = "select id, length(v), sha256(v) from t order by id";
        let found = readers::duckdb(|duckdb| Ok(duckdb.query_table(&table, query)?));
        Ok(found.is_ok_and(|found| found.rows == expected))
    })?;
    under(&calve, CEILING)?;
    calve.terminate()?;
    case.pass()
}

#[test]
fn rows_of_64_megabytes_from_postgres() -> anyhow::Result<()> {
    rows_of_64_megabytes(&Server::shared(Kind::Postgres, "17")?)
}

/// Rows as large as they may be, again and again without their values: these are looked up in the lake.
#[test]
fn rows_of_64_megabytes_whose_values_are_left_alone() -> anyhow::Result<()> {
    let schema = "
        create table big (id int primary key, n int default 0, v text);
        alter table big alter v set storage external;
        insert into big select i, 0, repeat('0123456789abcde' || i, 4000000) from generate_series(1, 4) i;";
    let mut case = Case::new("wide_left_alone", schema, &["public.big"])?;
    let calve = case.pipeline.start()?;
    case.pipeline.await_state("public.big", "streaming")?;
    for _ in 0..4 {
        case.sql.run("update big set n = n + 1; update big set id = id + 10 where id < 30")?;
    }
    let query = "select id, n, length(v), encode(sha256(convert_to(v, 'UTF8')), 'hex') from big order by id";
    let expected = case.sql.rows(query)?;
    ensure!(expected.len() == 4 && expected[0][2].as_deref() == Some("64000000"), "{expected:?}");
    let lake = case.lake().clone();
    until("all rows to be there", || {
        let table = lake.table("public", "big")?;
        let query = "select id, n, length(v), sha256(v) from t order by id";
        let found = readers::duckdb(|duckdb| Ok(duckdb.query_table(&table, query)?));
        Ok(found.is_ok_and(|found| found.rows == expected))
    })?;
    under(&calve, CEILING)?;
    calve.terminate()?;
    case.pass()
}

#[test]
fn rows_of_64_megabytes_from_mysql() -> anyhow::Result<()> {
    let options = Options::default().set("max_allowed_packet", "128M").set("innodb_buffer_pool_size", "128M");
    rows_of_64_megabytes(&Server::start(Kind::MySql, "9", &options)?)
}

#[test]
fn rows_of_64_megabytes_from_mariadb() -> anyhow::Result<()> {
    let options = Options::default().set("max_allowed_packet", "128M").set("innodb_buffer_pool_size", "128M");
    rows_of_64_megabytes(&Server::start(Kind::MariaDb, "11.8", &options)?)
}

/// Changes come and cannot be committed: they wait at the source.
fn a_catalog_that_hangs(server: &Server, memory: u64) -> anyhow::Result<()> {
    let rows = match server.kind() {
        Kind::Postgres => "select i, repeat('x', 200) from generate_series(1, 100000) i",
        _ => {
            "with recursive s(i) as (select 1 union all select i + 1 from s where i < 1000)
             select a.i + 1000 * (b.i - 1), repeat('x', 200) from s a, s b where b.i <= 100"
        }
    };
    let mut case = Case::on(server, "hangs", "create table t (id int primary key, v varchar(200))", &[])?;
    let table = named(&case, "t");
    // Checkpoints are cut by their size.
    let pipeline = case.pipeline.clone().tables(&[&table]).checkpoint("interval", "5s");
    case.pipeline = pipeline.with(&format!("memory: {memory}"));
    let calve = case.pipeline.start()?;
    case.pipeline.await_state(&table, "streaming")?;
    let lock = CatalogLock::hold(case.lake())?;
    case.sql.run(&format!("insert into t {rows}"))?;
    for doubling in 0..4 {
        case.sql.run(&format!("insert into t select id + 100000 * (1 << {doubling}), v from t"))?;
    }
    std::thread::sleep(Duration::from_secs(5));
    under(&calve, memory)?;
    drop(lock);
    let name = table.split_once('.').map(|(schema, _)| schema.to_owned()).unwrap_or_default();
    let lake = case.lake().clone();
    until("all rows to be there", || {
        let table = lake.table(&name, "t")?;
        let query = "select count(*), sum(id), sum(length(v)) from t";
        let found = readers::duckdb(|duckdb| Ok(duckdb.query_table(&table, query)?))?;
        Ok(found.rows[0][0].as_deref() == Some("1600000"))
    })?;
    under(&calve, memory)?;
    calve.terminate()?;
    case.pass()
}

#[test]
fn a_catalog_that_hangs_under_postgres() -> anyhow::Result<()> {
    a_catalog_that_hangs(&Server::shared(Kind::Postgres, "17")?, CEILING)
}

#[test]
fn a_catalog_that_hangs_under_mysql() -> anyhow::Result<()> {
    a_catalog_that_hangs(&Server::shared(Kind::MySql, "9")?, CEILING)
}

/// A ceiling that was set is kept to as well.
#[test]
fn a_catalog_that_hangs_with_less_memory() -> anyhow::Result<()> {
    a_catalog_that_hangs(&Server::shared(Kind::Postgres, "17")?, 160_000_000)
}

/// Each of many wide tables has a load and changes of its own.
#[test]
fn many_tables() -> anyhow::Result<()> {
    const TABLES: usize = 300;
    let columns: Vec<String> = (0..30).map(|n| format!("c{n} text default 'value {n}'")).collect();
    let schema = format!(
        "do $$ begin for n in 1..{TABLES} loop
             execute format('create table t%s (id int primary key, {})', n);
             execute format('insert into t%s select i from generate_series(1, 20) i', n);
         end loop; end $$",
        columns.join(", ").replace('\'', "''")
    );
    let mut case = Case::new("tables", &schema, &["public.*"])?;
    case.pipeline = case.pipeline.clone().checkpoint("interval", "2s");
    let calve = case.pipeline.start()?;
    for round in 0..5 {
        case.sql.run(&format!(
            "do $$ begin for n in 1..{TABLES} loop
                 execute format('update t%s set c0 = ''round {round}'' where id = {round} + 1', n);
             end loop; end $$"
        ))?;
    }
    case.await_same(&["public.t1", "public.t300"])?;
    under(&calve, CEILING)?;
    calve.terminate()?;
    case.pass()
}

/// Rows that go are looked up, then all that are there are written again as deleted ones, and large values beside them.
#[test]
fn deleted_rows_of_a_large_table() -> anyhow::Result<()> {
    const CEILING: u64 = 200_000_000;
    let schema = "
        create table kept (id int primary key, v text);
        insert into kept select i, repeat(md5(i::text), 30) from generate_series(1, 200000) i;
        alter table kept alter v set storage external;
        insert into kept select i, repeat('0123456789abcdef', 250000) from generate_series(200001, 200006) i;";
    let mut case = Case::new("deleted_large", schema, &[])?;
    let pipeline = case.pipeline.clone().tables(&["{name: public.kept, mode: soft_delete}"]);
    case.pipeline = pipeline.with(&format!("memory: {CEILING}"));
    let calve = case.pipeline.start()?;
    case.pipeline.await_state("public.kept", "streaming")?;
    for change in [
        "delete from kept where id % 2 = 0",
        "insert into kept values (2, 'again')",
        "truncate kept; insert into kept values (4, 'again')",
    ] {
        case.sql.run(change)?;
    }
    let lake = case.lake().clone();
    let expected: Vec<_> = ["200006", "200005", "2", "215998090"].map(|cell| Some(cell.to_owned())).into();
    until("all rows to be deleted", || {
        let table = lake.table("public", "kept")?;
        let query =
            "select count(*), count(_calve_deleted_at), count(distinct _calve_deleted_at), sum(length(v)) from t";
        let found = readers::duckdb(|duckdb| Ok(duckdb.query_table(&table, query)?));
        Ok(found.is_ok_and(|found| found.rows == [expected.clone()]))
    })?;
    under(&calve, CEILING)?;
    calve.terminate()?;
    case.pass()
}

//! Tables in mode `soft_delete`: rows of the source as they are, and those that were deleted, each as it was last, unless its key
//! came again. What was deleted is noted by triggers at the source, in a table beside each.

use anyhow::{Context, ensure};
use calve_integration::compare::{Pair, SourceRows};
use calve_integration::lake::Lake;
use calve_integration::pipeline::until;
use calve_integration::readers;
use calve_integration::sql::{Sql, TextRows};
use calve_testkit::readers::Reader;
use calve_testkit::servers::{Postgres, REPLICATION_USER};

use crate::case::{Case, complains};

fn ask(lake: &Lake, name: &str, query: &str) -> anyhow::Result<TextRows> {
    let table = Pair::named(name).table(lake)?;
    let answer = readers::duckdb(|duckdb| Ok(duckdb.query_table(&table, query)?));
    Ok(answer.with_context(|| format!("asking {query}"))?.rows)
}

/// How the table differs from its source, or its deleted rows from those noted in `gone_<name>`; None where they do not.
fn difference(sql: &mut Sql, lake: &Lake, name: &str) -> anyhow::Result<Option<String>> {
    let (schema, table) = name.split_once('.').context("the table is named with its schema")?;
    for (source, those) in [(name.to_owned(), "is null"), (format!("{schema}.gone_{table}"), "is not null")] {
        let source = SourceRows::read(sql, &Pair::named(&source))?;
        let columns = source.columns.join(", ");
        let mut got = ask(lake, name, &format!("select {columns} from t where _calve_deleted_at {those}"))?;
        let mut wanted = source.rows;
        got.sort();
        wanted.sort();
        if got != wanted {
            let only = |a: &TextRows, b: &TextRows| {
                let cut = |cell: &Option<String>| cell.as_ref().map(|text| text.chars().take(40).collect::<String>());
                let rows = a.iter().filter(|row| !b.contains(row)).take(3);
                rows.map(|row| row.iter().map(cut).collect::<Vec<_>>()).collect::<Vec<_>>()
            };
            return Ok(Some(format!(
                "of {name} {} rows have a time of deletion that {those}, not {}; lost {:?}, surplus {:?}",
                got.len(),
                wanted.len(),
                only(&wanted, &got),
                only(&got, &wanted)
            )));
        }
    }
    Ok(None)
}

/// Fails unless the tables hold the rows of the source, and those noted as deleted.
pub(crate) fn hold(case: &mut Case, tables: &[&str]) -> anyhow::Result<()> {
    for table in tables {
        if let Some(difference) = difference(&mut case.sql, case.pipeline.lake(), table)? {
            anyhow::bail!(difference);
        }
    }
    Ok(())
}

/// Waits until they do.
pub(crate) fn await_hold(case: &mut Case, tables: &[&str]) -> anyhow::Result<()> {
    for table in tables {
        let mut last = None;
        let reached = until(&format!("the rows of {table}"), || {
            last = difference(&mut case.sql, case.pipeline.lake(), table)?;
            Ok(last.is_none())
        });
        reached.with_context(|| last.unwrap_or_default())?;
    }
    Ok(())
}

/// DuckDB and Spark see the same, and `verify` compares the rows that are there.
pub(crate) fn readers_agree(case: &Case, tables: &[&str]) -> anyhow::Result<()> {
    let verified = case.pipeline.finish(&["verify"])?.expect_success()?;
    for table in tables {
        ensure!(verified.stdout.contains(&format!("{table}: equal")), "{}", verified.stdout);
        let query = "select count(*), count(_calve_deleted_at), sum(id), sum(case when _calve_deleted_at is null then 0 else id end) from t";
        let duckdb = ask(case.lake(), table, query)?;
        let at = Pair::named(table).table(case.lake())?;
        let spark = readers::spark(|spark| Ok(spark.query_table(&at, query)?))?;
        ensure!(duckdb == spark.rows, "{table}: DuckDB reads {duckdb:?}, Spark {:?}", spark.rows);
    }
    Ok(())
}

const TABLES: [&str; 3] = ["public.plain", "public.whole", "public.large"];

/// `plain` and `large` have the default identity, so that their deleted rows are looked up; large values of `large` are left out
/// of the log besides. `whole` sends whole rows. Rows of `large` move between partitions.
const SCHEMA: &str = "
    create table plain (id int primary key, v text, n numeric(10, 2) not null default 0);
    create table whole (region int, id int, v text, changed timestamptz default now(), primary key (region, id));
    create table large (id int primary key, body text, tags int[], n int);
    create table current (id int primary key, v text);
    alter table whole replica identity full; alter table large alter body set storage external; alter table whole alter v set storage external;
    create table gone_plain (like plain including all); create table gone_whole (like whole including all); create table gone_large (like large including all);
    insert into plain select i, 'row ' || i, i from generate_series(1, 100) i;
    insert into whole select i % 3, i, repeat(md5(i::text), 200) from generate_series(1, 100) i;
    insert into large select i, repeat(md5(i::text), 200), array[i, i + 1], i from generate_series(1, 60) i;
    insert into current values (1, 'c'), (2, 'c');
    create function note() returns trigger language plpgsql as $$ begin
      if tg_op = 'TRUNCATE' then execute format('insert into gone_%s select * from %1$I', tg_table_name); return null; end if;
      if tg_op <> 'INSERT' then execute format('insert into gone_%s select $1.*', tg_table_name) using old; end if;
      if tg_op <> 'DELETE' then
        if tg_table_name = 'whole' then delete from gone_whole where (region, id) = (new.region, new.id);
        else execute format('delete from gone_%s where id = $1', tg_table_name) using new.id; end if;
      end if;
      return null; end $$;
    create trigger noted after insert or delete on plain for each row execute function note();
    create trigger noted after insert or delete on whole for each row execute function note();
    create trigger noted after insert or delete on large for each row execute function note();
    create trigger moved after update on plain for each row when (old.id <> new.id) execute function note();
    create trigger moved after update on whole for each row when ((old.region, old.id) <> (new.region, new.id)) execute function note();
    create trigger moved after update on large for each row when (old.id <> new.id) execute function note();
    create trigger all_gone before truncate on plain for each statement execute function note();
    create trigger all_gone before truncate on whole for each statement execute function note();
    create trigger all_gone before truncate on large for each statement execute function note();";

const ENTRIES: [&str; 4] = [
    "{name: public.plain, mode: soft_delete}",
    "{name: public.whole, mode: soft_delete, partition: ['bucket(3, id)'], sort: [changed]}",
    "{name: public.large, mode: soft_delete, partition: [n]}",
    "public.current",
];

fn case(label: &str) -> anyhow::Result<Case> {
    let mut case = Case::new(label, SCHEMA, &[])?;
    case.pipeline = case.pipeline.clone().tables(&ENTRIES);
    Ok(case)
}

fn on_postgres(version: u32) -> anyhow::Result<()> {
    let mut case = Case::on(&*Postgres::shared(version)?, &format!("deleted_{version}"), SCHEMA, &[])?;
    case.pipeline = case.pipeline.clone().tables(&ENTRIES);
    case.once_and_same(&["public.current"])?;
    hold(&mut case, &TABLES)?;

    // Rows go, come again, change their keys and go within one transaction and over several.
    case.sql.run(
        "begin; delete from plain where id <= 5; insert into plain values (3, 'again', 3); update plain set id = 1000 where id = 6; commit;
         delete from whole where id in (1, 2); update whole set region = region + 3 where id = 7; update whole set v = 'short' where id = 8;
         delete from whole where id = 8; begin; insert into whole values (9, 900, 'new'); delete from whole where id = 900; commit;
         update large set n = n + 1 where id <= 4; delete from large where id in (1, 2); update large set id = 500 where id = 3; delete from large where id = 500;
         update large set id = 501, n = 7 where id = 4; update current set v = 'd' where id = 1; delete from current where id = 2",
    )?;
    case.once_and_same(&["public.current"])?;
    hold(&mut case, &TABLES)?;
    let times = "select count(*), count(distinct _calve_deleted_at) from t where _calve_deleted_at between now() - interval 1 hour and now() + interval 1 hour";
    let times = ask(case.lake(), "public.plain", times)?;
    ensure!(
        times == [[Some("5".to_owned()), Some("1".to_owned())]],
        "5 rows went in one transaction just now: {times:?}"
    );

    // Those that went come again, and others take their keys.
    case.sql.run(
        "insert into plain select i, 'back', 0 from generate_series(1, 6) i on conflict (id) do nothing; delete from plain where id = 2;
         insert into large values (500, 'small', null, 1); update large set id = 1 where id = 501; delete from large where id = 1;
         begin; update whole set id = -1 where (region, id) = (0, 9); update whole set id = 9 where (region, id) = (0, 12);
                update whole set id = 12 where (region, id) = (0, -1); commit",
    )?;
    case.once_and_same(&["public.current"])?;
    hold(&mut case, &TABLES)?;
    readers_agree(&case, &TABLES)?;

    // All go at once, before and after others.
    case.sql.run(
        "begin; delete from plain where id = 50; insert into plain values (2000, 'late', 1); truncate plain; insert into plain values (50, 'first', 1), (2001, 'x', 2);
         delete from plain where id = 2001; commit; truncate whole; truncate large; insert into large values (7, 'seven', '{7}', 7); update large set n = 8;
         truncate large; insert into current values (3, 'e')",
    )?;
    case.once_and_same(&["public.current"])?;
    hold(&mut case, &TABLES)?;
    case.sql.run("insert into plain select i, 'later', 0 from generate_series(60, 70) i; truncate plain, whole")?;
    case.once_and_same(&["public.current"])?;
    hold(&mut case, &TABLES)?;
    readers_agree(&case, &TABLES)?;

    // The schema goes on as that of any table.
    case.sql.run(
        "insert into plain select i, 'n', i from generate_series(300, 310) i; alter table gone_plain add extra int; alter table plain add extra int;
         update plain set extra = id where id < 305; delete from plain where id = 304; alter table gone_plain rename v to words; alter table plain rename v to words;
         delete from plain where id = 305; alter table gone_plain alter n type numeric(20, 2); alter table plain alter n type numeric(20, 2);
         delete from plain where id = 306; insert into plain values (307000, 'z', 12345678901.5, 7); truncate plain; insert into plain values (1, 'end', 1, 1)",
    )?;
    case.once_and_same(&["public.current"])?;
    hold(&mut case, &TABLES)?;

    // Read again, the table forgets.
    case.sql.run("delete from gone_plain")?;
    case.pipeline.finish(&["reload", "public.plain"])?.expect_success()?;
    case.sql.run("insert into plain values (2, 'two', 2, 2); delete from plain where id = 1")?;
    case.once_and_same(&["public.current"])?;
    hold(&mut case, &TABLES)?;
    readers_agree(&case, &TABLES)?;
    case.pass()
}

#[test]
fn deleted_rows_stay_on_postgres_15() -> anyhow::Result<()> {
    on_postgres(15)
}

#[test]
fn deleted_rows_stay_on_postgres_17() -> anyhow::Result<()> {
    on_postgres(17)
}

#[test]
fn deleted_rows_stay_on_postgres_18() -> anyhow::Result<()> {
    on_postgres(18)
}

/// Killed anywhere, with transactions larger than a checkpoint, in the middle of which all rows go.
#[test]
fn killed_anywhere_deleted_rows_stay_once() -> anyhow::Result<()> {
    let mut case = case("deleted_killed")?;
    case.once_and_same(&["public.current"])?;
    for (round, place) in (0..).zip([
        "writer.write.before",
        "writer.data-written",
        "writer.write.after:2",
        "positions.intent-written",
        "lake.commit.before:3",
        "commit.swapped",
        "lake.commit.after:2",
        "positions.advanced",
    ]) {
        let all_go = if round % 2 == 0 { "truncate plain; truncate large;" } else { "" };
        let changes = format!(
            "insert into plain select i, 'r{round}', i from generate_series(1000 * ({round} + 1), 1000 * ({round} + 1) + 60) i;
             update plain set n = n + 1 where id % 2 = 0; delete from plain where id % 5 = {round}; {all_go}
             insert into plain select i, 'b{round}', i from generate_series(1, 20) i on conflict (id) do nothing;
             update large set n = n + 1 where id % 3 = 0; delete from large where id % 7 = {round};
             insert into large select i, repeat('{round}', 9000), array[i], i from generate_series(1, 30) i on conflict (id) do nothing;
             update whole set id = id + 1000 where id % 9 = {round}; delete from whole where id % 11 = {round}; update current set v = '{round}';"
        );
        case.pipeline = case.pipeline.clone().checkpoint("rows", if round % 4 < 2 { "40" } else { "100000" });
        case.sql.run(&format!("{} {changes}", if round % 3 == 0 { "" } else { "begin;" }))?;
        case.sql.run(if round % 3 == 0 { "select 1" } else { "commit" })?;
        case.pipeline.dies_at(place, &["run"])?;
        case.once_and_same(&["public.current"])?;
        hold(&mut case, &TABLES).with_context(|| format!("after {place}"))?;
    }
    readers_agree(&case, &TABLES)?;
    case.pass()
}

/// Others write while calve commits and is killed.
#[test]
fn rows_go_while_calve_runs_and_dies() -> anyhow::Result<()> {
    let mut case = case("deleted_dying")?;
    case.sql.run(
        "insert into plain select i, 'many', 0 from generate_series(1001, 20000) i;
         insert into large select i, repeat('l', 3000), null, i from generate_series(1001, 3000) i",
    )?;
    let mut writer = Sql::connect(&case.database.url(REPLICATION_USER)?)?;
    let mut write = |round: u32| {
        writer.run(&format!(
            "delete from plain where id % 1000 = {round}; update large set n = n + 1 where id % 10 = {round} % 10; delete from large where id % 100 = {round};
             update whole set region = region + 10 where id = {round}; insert into plain values (-{round}, 'minus', 1); update large set id = -id where id = 2050 + {round}"
        ))
    };
    let mut calve = case.pipeline.start()?;
    // What went before the load is in no table.
    for table in TABLES {
        case.pipeline.await_state(table, "streaming")?;
    }
    for round in 1..20 {
        write(round)?;
        if round % 7 == 0 {
            calve.kill()?;
            calve = case.pipeline.start()?;
        }
    }
    until("what went after the load stays", || {
        Ok(ask(case.lake(), "public.plain", "select count(*) from t where _calve_deleted_at is not null")?
            == [[Some("380".to_owned())]])
    })?;
    await_hold(&mut case, &TABLES)?;
    calve.terminate()?;
    readers_agree(&case, &TABLES)?;
    case.pass()
}

#[test]
fn deleted_rows_are_not_forgotten_silently() -> anyhow::Result<()> {
    let schema = format!("{SCHEMA} create table taken (id int primary key, _calve_deleted_at text);");
    let mut case = Case::new("deleted_refused", &schema, &[])?;
    case.pipeline = case.pipeline.clone().tables(&["{name: public.taken, mode: soft_delete}"]);
    complains(&case.pipeline.finish(&["run", "--once"])?, 2, &["_calve_deleted_at", "rename the column"])?;
    case.pipeline = case.pipeline.clone().tables(&["{name: public.taken, mode: softdelete}"]);
    complains(&case.pipeline.finish(&["run", "--once"])?, 2, &["mode", "did you mean 'soft_delete'?"])?;
    case.pipeline = case.pipeline.clone().tables(&["{name: public.plain, mode: soft_delete, preimages: true}"]);
    complains(&case.pipeline.finish(&["run", "--once"])?, 2, &["preimages", "append"])?;

    // The mode counts when the table is read again.
    case.pipeline = case.pipeline.clone().tables(&["public.plain"]);
    case.once_and_same(&["public.plain"])?;
    case.pipeline = case.pipeline.clone().tables(&["{name: public.plain, mode: soft_delete}"]);
    let told = case.pipeline.once()?;
    ensure!(told.stderr.contains("its mode soft_delete of the configuration counts when"), "{}", told.stderr);
    case.pipeline.finish(&["reload", "public.plain"])?.expect_success()?;
    case.sql.run("delete from plain where id = 1")?;
    case.pipeline.once()?;
    hold(&mut case, &["public.plain"])?;

    // Where rows could not follow it would be read again, and what was deleted be forgotten.
    case.pipeline = case.pipeline.clone().with("schema_changes: {otherwise: reload}\n");
    case.sql.run("alter table plain add late int not null default 7")?;
    case.sql.run("update plain set late = 8 where id = 2")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    let state = case.pipeline.state("public.plain")?;
    ensure!(state.state == "stopped" && state.reason.contains("calve reload"), "{state:?}");
    case.pass()
}

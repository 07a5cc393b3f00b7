//! Tables in mode append: every change of the source is a row, once and in order. Put on the rows that the load brought, they give
//! the source's rows, be the log read whenever it is.

use anyhow::{Context, ensure};
use calve_integration::compare::{Pair, SourceRows};
use calve_integration::lake::Lake;
use calve_integration::pipeline::until;
use calve_integration::readers;
use calve_integration::sql::{Sql, TextRows};
use calve_testkit::readers::Reader;
use calve_testkit::servers::{Postgres, REPLICATION_USER};

use crate::case::{Case, complains};

/// The rows that a log tells of, as README.md has it: the last row of each key, unless it went or all rows went since.
fn rows_by_key(columns: &str, key: &str) -> String {
    format!(
        "select {columns}, 1 from (
           select *, row_number() over (partition by {key} order by _calve_ordinal desc) as newest from t
            where _calve_op not in ('update_preimage', 'truncate')
              and _calve_ordinal >= coalesce((select max(_calve_ordinal) from t where _calve_op = 'truncate'), 0)) as changes
          where newest = 1 and _calve_op <> 'delete'"
    )
}

/// The rows of a table without a key, each with how often it is there: those that came, less those that went.
fn rows_by_count(columns: &str) -> String {
    format!(
        "select {columns}, sum(case when _calve_op in ('read', 'insert', 'update') then 1 else -1 end) as times from t
          where _calve_op <> 'truncate'
            and _calve_ordinal >= coalesce((select max(_calve_ordinal) from t where _calve_op = 'truncate'), 0)
          group by {columns} having times <> 0"
    )
}

fn ask(lake: &Lake, name: &str, query: &str) -> anyhow::Result<TextRows> {
    let pair = Pair::named(name);
    let table = pair.table(lake)?;
    let answer = readers::duckdb(|duckdb| Ok(duckdb.query_table(&table, query)?));
    Ok(answer.with_context(|| format!("asking {query}"))?.rows)
}

/// How the rows that the log tells of differ from the source's; None where they do not.
fn difference(sql: &mut Sql, lake: &Lake, name: &str) -> anyhow::Result<Option<String>> {
    let source = SourceRows::read(sql, &Pair::named(name))?;
    let columns = source.columns.join(", ");
    let key: Vec<&str> = source.key.iter().map(|&at| source.columns[at].as_str()).collect();
    let query = if key.is_empty() { rows_by_count(&columns) } else { rows_by_key(&columns, &key.join(", ")) };
    let mut got = TextRows::new();
    for mut row in ask(lake, name, &query)? {
        let times = row.pop().flatten().unwrap_or_default();
        let Ok(times) = times.parse::<usize>() else { return Ok(Some(format!("{row:?} is there {times} times"))) };
        got.extend(std::iter::repeat_n(row, times));
    }
    let mut wanted = source.rows;
    got.sort();
    wanted.sort();
    if got == wanted {
        return Ok(None);
    }
    let only =
        |a: &TextRows, b: &TextRows| a.iter().filter(|row| !b.contains(row)).take(3).cloned().collect::<Vec<_>>();
    Ok(Some(format!(
        "the log of {name} tells of {} rows and the source has {}; lost {:?}, surplus {:?}",
        got.len(),
        wanted.len(),
        only(&wanted, &got),
        only(&got, &wanted)
    )))
}

/// Fails unless the logs tell of the rows that the source has.
pub(crate) fn tell(case: &mut Case, tables: &[&str]) -> anyhow::Result<()> {
    for table in tables {
        if let Some(difference) = difference(&mut case.sql, case.pipeline.lake(), table)? {
            anyhow::bail!(difference);
        }
    }
    Ok(())
}

/// Waits until they do.
pub(crate) fn await_tell(case: &mut Case, tables: &[&str]) -> anyhow::Result<()> {
    for table in tables {
        let mut last = None;
        let reached = until(&format!("the log of {table}"), || {
            last = difference(&mut case.sql, case.pipeline.lake(), table)?;
            Ok(last.is_none())
        });
        reached.with_context(|| last.unwrap_or_default())?;
    }
    Ok(())
}

/// What the log says beside the rows that the load brought, a line each: `op column|column`.
pub(crate) fn said(lake: &Lake, name: &str, columns: &str) -> anyhow::Result<Vec<String>> {
    let query = format!(
        "select _calve_op, {columns} from t where _calve_op <> 'read'
          order by _calve_ordinal, case _calve_op when 'delete' then 0 when 'update_preimage' then 1 else 2 end"
    );
    let line = |row: Vec<Option<String>>| {
        let mut cells = row.into_iter().map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
        let op = cells.next().unwrap_or_default();
        format!("{op} {}", cells.collect::<Vec<_>>().join("|"))
    };
    Ok(ask(lake, name, &query)?.into_iter().map(line).collect())
}

/// Fails unless every change has a number of its own, those of a transaction say the same of it, and what a load brought says
/// nothing.
pub(crate) fn well_formed(lake: &Lake, name: &str) -> anyhow::Result<()> {
    let wrong = ask(
        lake,
        name,
        "select 'number', cast(_calve_ordinal as varchar) from t where _calve_op <> 'read' group by _calve_ordinal
          having count(*) > 2 or count(distinct _calve_position) <> 1 or min(_calve_ordinal) < 1
              or (count(*) = 2 and min(_calve_op) not in ('delete', 'update'))
         union all
         select 'transaction', _calve_position from t where _calve_op <> 'read' group by _calve_position
          having count(distinct _calve_committed_at) <> 1 or count(distinct coalesce(_calve_transaction, '')) <> 1
         union all
         select 'load', cast(_calve_ordinal as varchar) from t where _calve_op = 'read'
            and (_calve_ordinal <> 0 or _calve_position is not null or _calve_transaction is not null)",
    )?;
    ensure!(wrong.is_empty(), "the log of {name} is malformed: {wrong:?}");
    Ok(())
}

const TABLES: [&str; 3] = ["public.plain", "public.whole", "public.bare"];

const SCHEMA: &str = "
    create table plain (id int primary key, v text, n numeric(10, 2) not null default 0);
    create table whole (region int, id int, v text, changed timestamptz default now(), primary key (region, id));
    create table bare (a int, v text);
    create table current (id int primary key, v text);
    alter table whole replica identity full; alter table bare replica identity full;
    alter table whole alter v set storage external;
    insert into plain select i, 'row ' || i, i from generate_series(1, 100) i;
    insert into whole select i % 3, i, repeat(md5(i::text), 200) from generate_series(1, 100) i;
    insert into bare select i % 7, case when i % 2 = 0 then 'even' end from generate_series(1, 100) i;
    insert into current select i, 'c' from generate_series(1, 10) i;";

const ENTRIES: [&str; 4] = [
    "{name: public.plain, mode: append}",
    "{name: public.whole, mode: append, preimages: true}",
    "{name: public.bare, mode: append}",
    "public.current",
];

const CHANGES: &str = "
    begin; insert into plain values (101, 'new', 1); update plain set v = 'changed' where id = 101; update plain set id = 102 where id = 101;
           delete from plain where id = 102; commit;
    insert into plain (id, v) values (102, null); update plain set v = 'a' where id = 1; update plain set v = 'b' where id = 1;
    update whole set changed = '2024-02-29 12:00:00+00' where id <= 5; update whole set region = region + 3 where id = 7;
    delete from whole where id in (8, 9); insert into whole values (0, 8, 'again', '2024-01-01 00:00:00+00');
    insert into bare values (1, 'even'), (1, 'even'), (null, null); update bare set a = 100 where a = 3 and v is null;
    delete from bare where a = 1; update current set v = 'd' where id = 3; delete from current where id = 4;";

fn on_postgres(version: u32) -> anyhow::Result<()> {
    let mut case = Case::on(&*Postgres::shared(version)?, &format!("append_{version}"), SCHEMA, &[])?;
    case.pipeline = case.pipeline.clone().tables(&ENTRIES);
    let checked = case.pipeline.finish(&["check"])?.expect_success()?;
    ensure!(checked.stdout.contains("public.plain alone stops it in mode append"), "{}", checked.stdout);
    ensure!(!checked.stdout.contains("public.whole alone"), "{}", checked.stdout);
    case.once_and_same(&["public.current"])?;
    tell(&mut case, &TABLES)?;
    ensure!(said(case.lake(), "public.plain", "id")?.is_empty());

    case.sql.run("begin; insert into plain values (200, 'x', 2); update plain set v = 'y' where id = 200")?;
    let xid = case.sql.value("select pg_current_xact_id()::text")?;
    case.sql.run("delete from plain where id = 200; commit")?;
    case.sql.run("update whole set v = 'w' where id = 1; update whole set id = 1000 where id = 2; truncate bare; insert into bare values (5, 'five');
                  update bare set a = 6")?;
    case.once_and_same(&["public.current"])?;
    tell(&mut case, &TABLES)?;
    let by = |columns: &str, table: &str| said(case.lake(), table, columns);
    ensure!(by("id, v, n", "public.plain")? == ["insert 200|x|2.00", "update 200|y|2.00", "delete 200|-|-"]);
    let named = by("_calve_transaction", "public.plain")?;
    ensure!(named[2] == format!("delete {xid}"), "{named:?} is not of transaction {xid}");
    let whole = by("region, id, length(v)", "public.whole")?;
    ensure!(
        whole == ["update_preimage 1|1|6400", "update 1|1|1", "delete 2|2|6400", "insert 2|1000|6400"],
        "{whole:?}"
    );
    let bare = by("a, v", "public.bare")?;
    ensure!(bare == ["truncate -|-", "insert 5|five", "update_preimage 5|five", "update 6|five"], "{bare:?}");
    let times = ask(
        case.lake(),
        "public.plain",
        "select count(*) from t where _calve_committed_at between now() - interval 1 hour and now() + interval 1 hour",
    )?;
    ensure!(times == [[Some("3".to_owned())]], "the changes were not committed just now: {times:?}");

    for _ in 0..2 {
        case.sql.run(CHANGES)?;
        case.sql.run(
            "update current set v = 'e'; delete from plain where id = 102; insert into current values (4, 'back')",
        )?;
        case.once_and_same(&["public.current"])?;
        tell(&mut case, &TABLES)?;
    }
    for table in TABLES {
        well_formed(case.lake(), table)?;
    }

    // The schema goes on as that of any table.
    case.sql.run("alter table plain add extra int; update plain set extra = id where id < 10; alter table plain rename v to words;
                  update plain set words = 'renamed' where id = 3; alter table plain alter n type numeric(20, 2); insert into plain values (300, 'z', 12345678901.5, 7)")?;
    case.once_and_same(&["public.current"])?;
    tell(&mut case, &TABLES)?;
    well_formed(case.lake(), "public.plain")?;

    // Read again, the log begins anew.
    case.pipeline.finish(&["reload", "public.plain"])?.expect_success()?;
    case.once_and_same(&["public.current"])?;
    ensure!(said(case.lake(), "public.plain", "id")?.is_empty());
    case.sql.run("update plain set extra = 1 where id = 3")?;
    case.once_and_same(&["public.current"])?;
    tell(&mut case, &TABLES)?;
    ensure!(said(case.lake(), "public.plain", "id, words, _calve_ordinal")? == ["update 3|renamed|1"]);

    let verified = case.pipeline.finish(&["verify"])?.expect_success()?;
    ensure!(
        verified.stdout.contains("public.plain: not compared") && verified.stdout.contains("public.current: equal"),
        "{}",
        verified.stdout
    );
    let query = "select _calve_op, count(*), sum(_calve_ordinal), count(_calve_committed_at) from t group by _calve_op";
    for table in TABLES {
        let mut duckdb = ask(case.lake(), table, query)?;
        let at = Pair::named(table).table(case.lake())?;
        let spark = readers::spark(|spark| Ok(spark.query_table(&at, query)?))?.sorted();
        duckdb.sort();
        ensure!(duckdb == spark.rows, "{table}: DuckDB reads {duckdb:?}, Spark {:?}", spark.rows);
    }
    case.pass()
}

#[test]
fn every_change_is_a_row_on_postgres_15() -> anyhow::Result<()> {
    on_postgres(15)
}

#[test]
fn every_change_is_a_row_on_postgres_17() -> anyhow::Result<()> {
    on_postgres(17)
}

#[test]
fn every_change_is_a_row_on_postgres_18() -> anyhow::Result<()> {
    on_postgres(18)
}

/// Killed anywhere, while others write, with transactions larger than a checkpoint: what triggers note of every change at the
/// source stands in the log just so often.
#[test]
fn killed_anywhere_no_change_is_lost_or_doubled() -> anyhow::Result<()> {
    let schema = format!(
        "{SCHEMA}
         create table audit (seq serial, op text, a text, v text);
         create function note() returns trigger language plpgsql as $$ begin
           if tg_op = 'DELETE' then insert into audit (op, a) values ('delete', old.id);
           else insert into audit (op, a, v) values (lower(tg_op), new.id, new.v); end if; return null; end $$;
         create trigger noted after insert or update or delete on plain for each row execute function note();"
    );
    let mut case = Case::new("append_killed", &schema, &[])?;
    case.pipeline = case.pipeline.clone().tables(&ENTRIES);
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
        let changes = format!(
            "insert into plain select i, 'r{round}', i from generate_series(1000 * ({round} + 1), 1000 * ({round} + 1) + 60) i;
             update plain set n = n + 1 where id % 2 = 0; delete from plain where id % 5 = {round};
             update whole set changed = now() where id % 3 = 0; update bare set a = a + 1; update current set v = '{round}';"
        );
        case.pipeline = case.pipeline.clone().checkpoint("rows", if round % 2 == 0 { "40" } else { "100000" });
        case.sql.run(&format!("{} {changes}", if round % 3 == 0 { "" } else { "begin;" }))?;
        case.sql.run(if round % 3 == 0 { "select 1" } else { "commit" })?;
        case.pipeline.dies_at(place, &["run"])?;
        case.once_and_same(&["public.current"])?;
        tell(&mut case, &TABLES)?;
    }
    let mut logged = ask(case.lake(), "public.plain", "select _calve_op, id, v from t where _calve_op <> 'read'")?;
    let mut noted = case.sql.rows("select op, a, v from audit")?;
    logged.sort();
    noted.sort();
    ensure!(logged == noted, "{} changes are in the log, {} were made", logged.len(), noted.len());
    for table in TABLES {
        well_formed(case.lake(), table)?;
    }
    case.pass()
}

/// Tables are loaded, and read again, while others write and calve is killed.
#[test]
fn loads_and_changes_meet_exactly() -> anyhow::Result<()> {
    let mut case = Case::new("append_loading", SCHEMA, &[])?;
    case.pipeline = case.pipeline.clone().tables(&ENTRIES);
    case.sql.run("insert into plain select i, 'many', 0 from generate_series(1001, 20000) i; insert into bare select i % 50, 'many' from generate_series(1, 20000) i")?;
    let mut writer = Sql::connect(&case.database.url(REPLICATION_USER)?)?;
    let mut write = |round: u32| {
        writer.run(&format!(
            "update plain set n = n + 1 where id % 1000 = {round}; insert into bare values ({round}, 'w'); update bare set v = 'u{round}' where a = {round};
             delete from bare where a = {round} + 20; update whole set region = region + 10 where id = {round}; delete from plain where id = 2000 + {round};
             insert into plain values (-{round}, 'minus', 1)"
        ))
    };
    let mut calve = case.pipeline.start()?;
    for round in 1..20 {
        write(round)?;
        if round % 5 == 0 {
            case.pipeline.finish(&["reload", "public.plain", "public.bare"])?.expect_success()?;
        }
        if round % 7 == 0 {
            calve.kill()?;
            calve = case.pipeline.start()?;
        }
    }
    await_tell(&mut case, &TABLES)?;
    calve.terminate()?;
    case.pass()
}

#[test]
fn what_cannot_be_a_log_is_refused_or_stops() -> anyhow::Result<()> {
    let schema = "
        create table bare (a int, v text);
        create table taken (id int primary key, _calve_op text);
        create table large (id int primary key, body text, n int);
        alter table large alter body set storage external;
        insert into large values (1, repeat('x', 10000), 1); insert into bare values (1, 'x');";
    let mut case = Case::new("append_refused", schema, &["public.bare"])?;
    // As a table of rows it cannot be had, and is told what it can be; as a log only if UPDATEs at the source go on.
    let says = ["has no key", "mode: append", "REPLICA IDENTITY FULL"];
    complains(&case.pipeline.finish(&["run", "--once"])?, 2, &says)?;
    case.pipeline = case.pipeline.clone().tables(&["{name: public.bare, mode: append}"]);
    complains(&case.pipeline.finish(&["run", "--once"])?, 2, &says)?;
    case.sql.run("update bare set v = 'y'")?;
    case.sql.run("alter table bare replica identity full")?;
    case.pipeline.once()?;
    case.sql.run("update bare set v = 'z'")?;
    case.pipeline.once()?;
    tell(&mut case, &["public.bare"])?;

    case.pipeline = case.pipeline.clone().tables(&["{name: public.taken, mode: append}"]);
    complains(&case.pipeline.finish(&["run", "--once"])?, 2, &["_calve_op", "rename the column"])?;
    case.pipeline = case.pipeline.clone().tables(&["{name: public.taken, preimages: true}"]);
    complains(&case.pipeline.finish(&["run", "--once"])?, 2, &["preimages", "append"])?;
    case.pipeline = case.pipeline.clone().tables(&["{name: public.taken, mode: appand}"]);
    complains(&case.pipeline.finish(&["run", "--once"])?, 2, &["mode", "did you mean 'append'?"])?;

    // The mode counts when the table is read again; then a value that an update leaves alone stops it.
    case.pipeline = case.pipeline.clone().tables(&["public.large"]);
    case.once_and_same(&["public.large"])?;
    case.pipeline = case.pipeline.clone().tables(&["{name: public.large, mode: append}"]);
    case.sql.run("update large set n = 2")?;
    let told = case.pipeline.once()?;
    ensure!(told.stderr.contains("its mode append of the configuration counts when"), "{}", told.stderr);
    case.same(&["public.large"])?;
    case.pipeline.finish(&["reload", "public.large"])?.expect_success()?;
    case.pipeline.once()?;
    tell(&mut case, &["public.large"])?;
    case.sql.run("update large set n = 3")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    let state = case.pipeline.state("public.large")?;
    ensure!(state.state == "stopped", "{state:?}");
    for part in ["unchanged TOAST", "body", "REPLICA IDENTITY FULL"] {
        ensure!(state.reason.contains(part), "the reason does not say {part}: {state:?}");
    }
    case.sql.run("alter table large replica identity full")?;
    case.pipeline.finish(&["reload", "public.large"])?.expect_success()?;
    case.sql.run("update large set n = 4")?;
    case.pipeline.once()?;
    tell(&mut case, &["public.large"])?;
    // And back to what it was.
    case.pipeline = case.pipeline.clone().tables(&["public.large"]);
    case.pipeline.finish(&["reload", "public.large"])?.expect_success()?;
    case.sql.run("update large set n = 5")?;
    case.once_and_same(&["public.large"])?;
    case.pass()
}

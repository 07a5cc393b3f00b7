//! Large values that an update leaves alone are not in the log of Postgres, unless its table has REPLICA IDENTITY FULL: they are
//! kept all the same, from wherever they are.

use anyhow::ensure;
use calve_integration::foreign;
use calve_testkit::servers::{Postgres, REPLICATION_USER};

use crate::case::Case;

const TABLES: [&str; 4] = ["public.plain", "public.whole", "public.indexed", "public.parted"];

/// Tables under every identity, with large values of many types in every place, stored beside the row or compressed. Binary
/// cells, unless a table has a column of an enum.
fn schema(text: bool) -> String {
    let mood = if text { "mood mood default 'ok'," } else { "" };
    let columns = format!(
        "body text, title text, n int default 0, more bytea, {mood} doc jsonb, words varchar, amount numeric, fixed char(3000),
         labels text[], numbers bigint[], grid int[]"
    );
    let external = |table: &str| {
        format!(
            "alter table {table} alter body set storage external, alter more set storage external,
                 alter words set storage external, alter doc set storage external, alter labels set storage external,
                 alter numbers set storage external;"
        )
    };
    let fill = |table: &str, key: &str, value: &str| {
        format!(
            "insert into {table} ({key}, body, title, more, doc, words, amount, fixed, labels, numbers, grid)
             select {value}, repeat(md5(i::text), 320), 'title', decode(repeat(md5(i::text), 320), 'hex'),
                    jsonb_build_object('doc', (select string_agg(md5(i || '-' || j), '') from generate_series(1, 100) j)),
                    (select string_agg(md5(j || '-' || i), '') from generate_series(1, 200) j),
                    (repeat('123456789', 700) || i)::numeric, md5(i::text),
                    (select array_agg(case when j % 7 > 0 then md5(i || ' ' || j) end) from generate_series(1, 300) j),
                    (select array_agg(i * 1000000007::bigint * j) from generate_series(1, 900) j), array[i, null]
               from generate_series(1, 40) i;"
        )
    };
    [
        "create type mood as enum ('sad', 'ok');".to_owned(),
        format!("create table plain ({columns}, id int primary key);"),
        format!("create table whole (id int primary key, {columns});"),
        format!("create table indexed (id serial primary key, {columns}, code text not null, region int not null);"),
        format!("create table parted (id int, {columns}, primary key (id)) partition by range (id);"),
        "create table parted_low partition of parted for values from (0) to (100);".to_owned(),
        "create table parted_high partition of parted for values from (100) to (100000);".to_owned(),
        "create unique index by_code on indexed (region, code);".to_owned(),
        "alter table whole replica identity full; alter table indexed replica identity using index by_code;".to_owned(),
        external("plain"),
        external("whole"),
        external("indexed"),
        external("parted_low"),
        external("parted_high"),
        fill("plain", "id", "i"),
        fill("whole", "id", "i"),
        fill("indexed", "code, region", "'code ' || i, i % 3"),
        fill("parted", "id", "i"),
    ]
    .join("\n")
}

/// Everything that can happen to a row whose values are left alone, upon a table whose key is a number `id`.
fn changes(table: &str, round: u32) -> String {
    let high = 1_000 * (round + 1);
    format!(
        "update {table} set n = n + 1;
         update {table} set title = 'new {round}' where id % 2 = 0; update {table} set title = title || '!' where id % 4 = 0;
         update {table} set id = id + {high} where id between 3 and 5 or id between 103 and 105;
         update {table} set n = 7 where id between {high} + 3 and {high} + 4;
         update {table} set body = 'short' where id = 6; update {table} set title = 'again' where id = 6;
         update {table} set more = null where id = 7; update {table} set labels = array_append(labels, '{round}') where id = 13; update {table} set title = 'third' where id = 7;
         update {table} set words = words || 'x' where id = 8; update {table} set n = 0 where id = 8;
         begin; update {table} set id = -1 where id = 9; update {table} set id = 9 where id = 10; update {table} set id = 10 where id = -1; commit;
         begin; delete from {table} where id = 11; insert into {table} (id, title, body) values (11, 'x', repeat('long', 5000));
                update {table} set title = 'y' where id = 11; commit;
         begin; update {table} set n = -1 where id = 12; savepoint s; update {table} set body = 'gone' where id = 12; rollback to s;
                update {table} set title = 's' where id = 12; commit;
         delete from {table} where id = 20 + {round}; update {table} set id = 20 + {round} where id = 30 + {round};"
    )
}

fn all_changes(round: u32) -> String {
    let of_indexed = format!(
        "update indexed set n = n + 1; update indexed set code = code || '.{round}' where id % 3 = 0;
         update indexed set title = 'new' where id % 6 = 0; update indexed set id = id + 1000 where id = {round} + 1;
         begin; update indexed set code = 'aside' where code = 'code 1' and region = 1; update indexed set code = 'code 1' where code = 'code 4' and region = 1;
                update indexed set code = 'code 4' where code = 'aside'; commit;"
    );
    // Of a row in no partition there is none, so the trade of keys goes by way of one that is.
    let parted = changes("parted", round).replace("= -1;", "= 99999;").replace("set id = -1", "set id = 99999");
    [changes("plain", round), changes("whole", round), parted, of_indexed].join("\n")
}

fn under_every_identity(version: u32, text: bool) -> anyhow::Result<()> {
    let label = format!("left_alone_{version}{}", if text { "_text" } else { "" });
    let mut case = Case::on(&*Postgres::shared(version)?, &label, &schema(text), &TABLES)?;
    let checked = case.pipeline.finish(&["check"])?.expect_success()?;
    ensure!(!checked.stdout.contains("FULL"), "check has something to say against it: {}", checked.stdout);
    case.once_and_same(&TABLES)?;
    for round in 0..3 {
        // One checkpoint, then a second whose values are in the first.
        case.sql.run(&all_changes(round))?;
        case.once_and_same(&TABLES)?;
    }
    // Two rounds in one, and the same with pieces of a transaction that is larger than a checkpoint.
    case.sql.run(&format!("{} {}", all_changes(3), all_changes(4)))?;
    case.once_and_same(&TABLES)?;
    case.pipeline = case.pipeline.clone().checkpoint("rows", "30");
    case.sql.run("begin; update plain set n = n + 1; update plain set title = 'large' where id % 2 = 1; update plain set id = id + 50000;
                  insert into plain (id, body) select i, repeat('new', 4000) from generate_series(60001, 60050) i; update plain set n = n + 1; commit")?;
    case.once_and_same(&TABLES)?;
    case.same_by_spark(&TABLES)?;
    for table in TABLES {
        let state = case.pipeline.state(table)?;
        ensure!(state.reason.is_empty(), "{table}: {state:?}");
    }
    case.pass()
}

#[test]
fn values_left_alone_are_kept_under_every_identity() -> anyhow::Result<()> {
    under_every_identity(17, false)
}

#[test]
fn values_left_alone_are_kept_in_text_form() -> anyhow::Result<()> {
    under_every_identity(17, true)
}

#[test]
fn values_left_alone_are_kept_on_postgres_15() -> anyhow::Result<()> {
    under_every_identity(15, false)
}

#[test]
fn values_left_alone_are_kept_on_postgres_18() -> anyhow::Result<()> {
    under_every_identity(18, false)
}

/// Killed in between, at any step and while checkpoints follow upon each other.
#[test]
fn killed_in_between_nothing_that_was_left_alone_is_lost() -> anyhow::Result<()> {
    let mut case = Case::new("left_alone_killed", &schema(false), &TABLES)?;
    case.once_and_same(&TABLES)?;
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
        case.sql.run(&all_changes(round))?;
        case.pipeline.dies_at(place, &["run"])?;
        case.sql.run("update plain set n = n + 1; update parted set n = n + 1")?;
        case.once_and_same(&TABLES)?;
    }
    let mut calve = case.pipeline.start()?;
    for round in 20..32 {
        for _ in 0..4 {
            case.sql.run("update plain set n = n + 1; update parted set n = n + 1; update indexed set title = 'live' where id % 2 = 0")?;
            std::thread::sleep(std::time::Duration::from_millis(60));
        }
        case.sql.run(&all_changes(round))?;
        if round % 4 == 3 {
            calve.kill()?;
            calve = case.pipeline.start()?;
        }
    }
    case.await_same(&TABLES)?;
    calve.terminate()?;
    case.pass()
}

/// A table is read again while it is written: what was left alone meanwhile is what the load brings.
#[test]
fn a_load_brings_what_was_left_alone_meanwhile() -> anyhow::Result<()> {
    let mut case = Case::new("left_alone_loading", &schema(false), &TABLES)?;
    case.sql.run("insert into plain (id, body, title) select i, repeat(md5(i::text), 320), 't' from generate_series(1001, 9000) i")?;
    let calve = case.pipeline.start()?;
    let mut writer = calve_integration::sql::Sql::connect(&case.database.url(REPLICATION_USER)?)?;
    for round in 0..3 {
        for _ in 0..20 {
            writer.run("update plain set n = n + 1 where id % 500 = 0; update whole set n = n + 1; update plain set title = 'w' where id = 7")?;
        }
        writer.run(
            "begin; update plain set id = -id where id % 1000 = 0; update plain set n = n + 1 where id < 0; commit",
        )?;
        if round < 2 {
            case.pipeline.finish(&["reload", "public.plain"])?.expect_success()?;
        }
    }
    case.await_same(&TABLES)?;
    calve.terminate()?;
    case.pass()
}

/// Rows of many keys over many files, some compacted by somebody else, after columns were renamed and added.
#[test]
fn many_keys_over_many_files() -> anyhow::Result<()> {
    let schema = "
        create table docs (id int primary key, body text, n int);
        alter table docs alter body set storage external;
        insert into docs select i, repeat(md5(i::text), 100), 0 from generate_series(1, 2000) i;";
    let mut case = Case::new("left_alone_files", schema, &["public.docs"])?;
    case.once_and_same(&["public.docs"])?;
    for round in 0..12 {
        case.sql.run(&format!(
            "insert into docs select i, repeat(md5(i::text), 100), 0 from generate_series({0} + 1, {0} + 100) i;
             update docs set body = repeat(md5(n || body), 90) where id % 12 = {round};
             update docs set id = -id where id % 97 = {round}; delete from docs where id % 101 = {round}",
            10_000 * (round + 1)
        ))?;
        case.pipeline.once()?;
    }
    case.sql.run("update docs set n = n + 1")?;
    case.once_and_same(&["public.docs"])?;
    case.sql.run("update docs set n = n + 1 where id % 7 = 0")?;
    case.once_and_same(&["public.docs"])?;
    foreign::compact(case.lake(), "public", "docs")?;
    case.sql.run("alter table docs rename body to content; alter table docs add extra text; update docs set n = n + 1 where id % 3 = 0")?;
    case.once_and_same(&["public.docs"])?;
    case.sql.run("update docs set extra = repeat(md5(id::text), 80) where id % 2 = 0; update docs set n = n + 1")?;
    case.once_and_same(&["public.docs"])?;
    case.sql.run("update docs set n = -n")?;
    case.once_and_same(&["public.docs"])?;
    case.same_by_spark(&["public.docs"])?;
    case.pass()
}

/// Somebody took the row away in the lake: nothing tells what was left alone.
#[test]
fn a_row_that_is_missing_in_the_lake_stops_its_table() -> anyhow::Result<()> {
    let schema = "
        create table steady (id int primary key, v text);
        create table docs (id int primary key, n int default 0, body text);
        alter table docs alter body set storage external;
        insert into docs select i, 0, repeat('long', 5000) from generate_series(1, 5) i;
        insert into steady values (1, 's');";
    let mut case = Case::new("left_alone_missing", schema, &["public.*"])?;
    case.once_and_same(&["public.steady", "public.docs"])?;
    foreign::change(case.lake(), "public", "docs", &["delete", "id = 2"])?;
    case.sql.run("update docs set n = 1; update steady set v = 'x'")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.same(&["public.steady"])?;
    let state = case.pipeline.state("public.docs")?;
    ensure!(state.state == "stopped", "{state:?}");
    for part in ["row missing", "id = 2", "calve reload public.docs"] {
        ensure!(state.reason.contains(part), "the reason does not say {part}: {state:?}");
    }
    let calve = case.pipeline.start()?;
    case.sql.run("update docs set n = 2; update steady set v = 'y'")?;
    case.await_same(&["public.steady"])?;
    case.pipeline.finish(&["reload", "public.docs"])?.expect_success()?;
    case.await_same(&["public.steady", "public.docs"])?;
    case.sql.run("update docs set n = 3")?;
    case.await_same(&["public.docs"])?;
    calve.terminate()?;
    case.pass()
}

/// Source and table are compared while values are left alone.
#[test]
fn verify_takes_nothing_left_alone_for_a_difference() -> anyhow::Result<()> {
    let mut case = Case::new("left_alone_verify", &schema(false), &TABLES)?;
    let calve = case.pipeline.start()?;
    case.await_same(&TABLES)?;
    for round in 0..4 {
        case.sql.run(&all_changes(round))?;
        case.pipeline.finish(&["verify"])?.expect_success()?;
    }
    calve.terminate()?;
    case.pass()
}

//! Tables in mode `soft_delete` on servers with a binlog: the log has rows whole, and loads are of no one position.

use anyhow::Context;
use calve_testkit::servers::Server;

use super::{BinlogCase, on_every_server};
use crate::deleted_rows::{await_hold, hold, readers_agree};

const TABLES: [&str; 2] = ["plain", "whole"];

/// What goes is noted in tables beside these; TRUNCATE has no triggers.
const SCHEMA: &str = "
    create table plain (id int primary key, v varchar(100), n decimal(10, 2) not null default 0, doc json);
    create table whole (region int, id int, v text, changed timestamp(6) null, primary key (region, id));
    create table gone_plain like plain; create table gone_whole like whole;
    create table other (id int primary key, v text);
    insert into other values (1, 'c'), (2, 'c'), (3, 'c');
    create trigger plain_in after insert on plain for each row delete from gone_plain where id = new.id;
    create trigger plain_out after delete on plain for each row replace into gone_plain values (old.id, old.v, old.n, old.doc);
    create trigger plain_moved after update on plain for each row
      begin if old.id <> new.id then replace into gone_plain values (old.id, old.v, old.n, old.doc); delete from gone_plain where id = new.id; end if; end;
    create trigger whole_in after insert on whole for each row delete from gone_whole where (region, id) = (new.region, new.id);
    create trigger whole_out after delete on whole for each row replace into gone_whole values (old.region, old.id, old.v, old.changed);
    create trigger whole_moved after update on whole for each row
      begin if (old.region, old.id) <> (new.region, new.id) then replace into gone_whole values (old.region, old.id, old.v, old.changed);
              delete from gone_whole where (region, id) = (new.region, new.id); end if; end;";

fn case(server: &Server, label: &str) -> anyhow::Result<BinlogCase> {
    let schema = format!(
        "{SCHEMA} insert into plain select i, concat('row ', i), i, json_object('i', i) from {numbers};
         insert into whole select i mod 3, i, repeat('w', 5000), '2024-01-01 00:00:00' from {numbers};",
        numbers = super::numbers(1, 100)
    );
    let mut case = BinlogCase::on(server, label, &schema, &[])?;
    let entries =
        TABLES.map(|table| format!("{{name: {}, mode: soft_delete, partition: ['truncate(2, v)']}}", case.name(table)));
    let other = case.name("other");
    case.case.pipeline = case.case.pipeline.clone().tables(&[&entries[0], &entries[1], &other]);
    Ok(case)
}

fn all_hold(case: &mut BinlogCase) -> anyhow::Result<()> {
    let names = case.names(&TABLES);
    hold(&mut case.case, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

fn agree(case: &BinlogCase) -> anyhow::Result<()> {
    let names = case.names(&TABLES);
    readers_agree(&case.case, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

fn deleted_rows_stay(server: &Server) -> anyhow::Result<()> {
    let mut case = case(server, "deleted")?;
    case.once_and_same(&["other"])?;
    all_hold(&mut case)?;
    case.sql.run(
        "begin; delete from plain where id <= 5; insert into plain values (3, 'again', 3, null); update plain set id = 1000 where id = 6; commit;
         delete from whole where id in (1, 2); update whole set region = region + 3 where id = 7; update whole set v = 'short' where id = 8;
         delete from whole where id = 8; begin; insert into whole values (9, 900, 'new', null); delete from whole where id = 900; commit;
         update plain set doc = json_set(doc, '$.i', 'changed') where id < 20; update plain set id = id + 2000 where id < 10; delete from plain where id = 2007;
         replace into plain values (11, 'replaced', 0, null); insert into plain values (12, 'x', 0, null) on duplicate key update v = 'upserted'; update other set v = 'd' where id = 1",
    )?;
    case.once_and_same(&["other"])?;
    all_hold(&mut case)?;

    case.sql.run(
        "insert into plain select i, 'back', 0, null from (select 1 as i union select 2 union select 4) as keys_; delete from plain where id = 2;
         begin; update whole set id = -1 where (region, id) = (0, 9); update whole set id = 9 where (region, id) = (0, 12);
                update whole set id = 12 where (region, id) = (0, -1); commit;
         update plain set id = id + 1 where id > 20 order by id desc",
    )?;
    case.once_and_same(&["other"])?;
    all_hold(&mut case)?;
    agree(&case)?;

    // All go at once.
    case.sql.run(
        "delete from plain where id = 50; replace into gone_plain select * from plain; truncate plain; insert into plain values (50, 'first', 1, null), (3001, 'x', 2, null);
         delete from plain where id = 3001; replace into gone_whole select * from whole; truncate whole; update other set v = 'e' where id = 2",
    )?;
    case.once_and_same(&["other"])?;
    all_hold(&mut case)?;
    case.sql.run(
        "insert into plain values (60, 'later', 0, '[1]'), (61, 'later', 0, '[2]'); replace into gone_plain select * from plain; truncate plain;
         insert into plain values (60, 'last', 0, '[3]')",
    )?;
    case.once_and_same(&["other"])?;
    all_hold(&mut case)?;
    agree(&case)?;

    case.sql.run(
        "drop trigger plain_out; alter table gone_plain add extra int; alter table plain add extra int; update plain set extra = id;
         create trigger plain_out after delete on plain for each row replace into gone_plain values (old.id, old.v, old.n, old.doc, old.extra);
         delete from plain where id = 60; insert into plain values (70, 'seventy', 1, null, 7)",
    )?;
    case.once_and_same(&["other"])?;
    all_hold(&mut case)?;

    case.sql.run("delete from gone_plain")?;
    case.reload(&["plain"])?;
    case.sql.run("insert into plain values (71, 'one', 1, null, 7); delete from plain where id = 70")?;
    case.once_and_same(&["other"])?;
    all_hold(&mut case)?;
    agree(&case)?;
    case.pass()
}

/// Killed anywhere, with transactions larger than a checkpoint.
fn killed_anywhere_deleted_rows_stay_once(server: &Server) -> anyhow::Result<()> {
    let mut case = case(server, "deleted_killed")?;
    case.once_and_same(&["other"])?;
    for (round, place) in (0..).zip([
        "writer.write.before",
        "writer.write.after:2",
        "positions.intent-written",
        "commit.swapped",
        "lake.commit.after:2",
        "positions.advanced",
    ]) {
        let rows = if round % 2 == 0 { "40" } else { "100000" };
        case.case.pipeline = case.case.pipeline.clone().checkpoint("rows", rows);
        let all_go = if round % 3 == 0 { "replace into gone_plain select * from plain; truncate plain;" } else { "" };
        case.sql.run(&format!(
            "begin; insert into plain (id, v) select i + 1000 * ({round} + 1), 'r' from {numbers}; update plain set n = n + 1 where id = 1; commit; {all_go}
             delete from plain where id mod 5 = {round}; insert ignore into plain (id, v) select i, 'b{round}' from {numbers};
             begin; update whole set id = id + 1000 where id mod 9 = {round}; delete from whole where id mod 11 = {round}; commit; update other set v = '{round}'",
            numbers = super::numbers(1, 60)
        ))?;
        case.pipeline.dies_at(place, &["run"])?;
        case.once_and_same(&["other"])?;
        all_hold(&mut case).with_context(|| format!("after {place}"))?;
    }
    agree(&case)?;
    case.pass()
}

/// Others write while calve commits and is killed.
fn rows_go_while_calve_runs_and_dies(server: &Server) -> anyhow::Result<()> {
    let mut case = case(server, "deleted_dying")?;
    case.sql.run(&format!("insert into plain (id, v) select i + 1000, 'many' from {}", super::numbers(1, 9000)))?;
    let mut calve = case.pipeline.start()?;
    // What went before a load is published is in the table or not.
    for table in case.names(&TABLES) {
        case.pipeline.await_state(&table, "streaming")?;
    }
    for round in 1..30 {
        case.sql.run(&format!(
            "delete from plain where id mod 500 = {round}; update plain set n = n + 1 where id mod 7 = 0; update whole set region = region + 10 where id = {round};
             insert into plain (id, v) values (-{round}, 'minus'); update plain set id = -id where id = 1400 + {round}"
        ))?;
        if round % 9 == 0 {
            calve.kill()?;
            calve = case.pipeline.start()?;
        }
    }
    let names = case.names(&TABLES);
    await_hold(&mut case.case, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    case.await_same(&["other"])?;
    calve.terminate()?;
    agree(&case)?;
    case.pass()
}

/// Without whole rows in the log a row that goes is not known.
fn rows_that_are_not_whole_stop(server: &Server) -> anyhow::Result<()> {
    let mut case = case(server, "deleted_image")?;
    case.once_and_same(&["other"])?;
    let mut writer = case.connect()?;
    writer.run("set session binlog_row_image = 'MINIMAL'; delete from plain where id = 1")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.stopped("plain", &["row image not full", "binlog_row_image", "calve reload"])?;
    case.pass()
}

on_every_server!(
    deleted_rows_stay,
    killed_anywhere_deleted_rows_stay_once,
    rows_go_while_calve_runs_and_dies,
    rows_that_are_not_whole_stop,
);

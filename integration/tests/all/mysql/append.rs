//! Tables in mode append on servers with a binlog: loads are of no one position there, and tables without a key are locked for a
//! moment.

use anyhow::ensure;
use calve_testkit::servers::Server;

use super::{BinlogCase, on_every_server};
use crate::append::{await_tell, said, tell, well_formed};

const TABLES: [&str; 3] = ["plain", "whole", "bare"];

const SCHEMA: &str = "
    create table plain (id int primary key, v varchar(100), n decimal(10, 2) not null default 0);
    create table whole (region int, id int, v text, changed timestamp(6) null, primary key (region, id));
    create table bare (a int, v varchar(20));
    create table other (id int primary key, v text);
    insert into other values (1, 'c'), (2, 'c'), (3, 'c');";

fn case(server: &Server, label: &str) -> anyhow::Result<BinlogCase> {
    let schema = format!(
        "{SCHEMA} insert into plain select i, concat('row ', i), i from {numbers};
         insert into whole select i mod 3, i, repeat('w', 5000), '2024-01-01 00:00:00' from {numbers};
         insert into bare select i mod 7, if(i mod 2 = 0, 'even', null) from {numbers};",
        numbers = super::numbers(1, 100)
    );
    let mut case = BinlogCase::on(server, label, &schema, &[])?;
    follow(&mut case);
    let (database, user) = (case.database.name().to_owned(), calve_testkit::servers::REPLICATION_USER);
    case.sql.run(&format!("grant lock tables on `{database}`.* to '{user}'@'%'"))?;
    Ok(case)
}

/// The user is the server's, and other tests look at what it may do.
fn pass(mut case: BinlogCase) -> anyhow::Result<()> {
    let (database, user) = (case.database.name().to_owned(), calve_testkit::servers::REPLICATION_USER);
    case.sql.run(&format!("revoke lock tables on `{database}`.* from '{user}'@'%'"))?;
    case.pass()
}

fn follow(case: &mut BinlogCase) {
    let name = |table: &str| case.name(table);
    let entries = [
        format!("{{name: {}, mode: append}}", name("plain")),
        format!("{{name: {}, mode: append, preimages: true}}", name("whole")),
        format!("{{name: {}, mode: append}}", name("bare")),
        name("other"),
    ];
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    case.case.pipeline = case.case.pipeline.clone().tables(&entries);
}

fn all_tell(case: &mut BinlogCase) -> anyhow::Result<()> {
    let names = case.names(&TABLES);
    tell(&mut case.case, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

fn every_change_is_a_row(server: &Server) -> anyhow::Result<()> {
    let mut case = case(server, "append")?;
    case.pipeline.finish(&["check"])?.expect_success()?;
    case.once_and_same(&["other"])?;
    all_tell(&mut case)?;
    let of = |case: &BinlogCase, table: &str, columns: &str| said(case.lake(), &case.name(table), columns);
    ensure!(of(&case, "plain", "id")?.is_empty());

    case.sql.run("begin; insert into plain values (200, 'x', 2); update plain set v = 'y' where id = 200; update plain set id = 201 where id = 200;
                  delete from plain where id = 201; commit;
                  update whole set v = 'w' where id = 1; update whole set id = 1000 where id = 2; truncate bare; insert into bare values (5, 'five'), (5, 'five');
                  update bare set a = 6 limit 1; delete from bare where a = 5; update other set v = 'd'")?;
    case.once_and_same(&["other"])?;
    all_tell(&mut case)?;
    let plain = of(&case, "plain", "id, v, n")?;
    ensure!(
        plain
            == [
                "insert 200|x|2.00",
                "update 200|y|2.00",
                "delete 200|y|2.00",
                "insert 201|y|2.00",
                "delete 201|y|2.00"
            ],
        "{plain:?}"
    );
    let whole = of(&case, "whole", "region, id, length(v)")?;
    ensure!(
        whole == ["update_preimage 1|1|5000", "update 1|1|1", "delete 2|2|5000", "insert 2|1000|5000"],
        "{whole:?}"
    );
    let bare = of(&case, "bare", "a, v")?;
    let expected =
        ["truncate -|-", "insert 5|five", "insert 5|five", "update_preimage 5|five", "update 6|five", "delete 5|five"];
    ensure!(bare == expected, "{bare:?}");

    case.sql.run("alter table plain add extra int; update plain set extra = id where id < 10; alter table plain rename column v to words;
                  update plain set words = 'renamed' where id = 3; alter table bare add b int; insert into bare values (1, 'b', 2)")?;
    case.once_and_same(&["other"])?;
    all_tell(&mut case)?;
    for table in TABLES {
        well_formed(case.lake(), &case.name(table))?;
    }
    case.reload(&["plain", "bare"])?;
    case.sql.run("update plain set extra = 1 where id = 3; insert into bare values (9, 'nine', 9)")?;
    case.once_and_same(&["other"])?;
    all_tell(&mut case)?;
    pass(case)
}

/// Killed anywhere, with transactions larger than a checkpoint.
fn killed_anywhere_no_change_is_lost_or_doubled(server: &Server) -> anyhow::Result<()> {
    let mut case = case(server, "append_killed")?;
    case.once_and_same(&["other"])?;
    let mut made = 0;
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
        case.sql.run(&format!(
            "begin; insert into plain (id, v) select i + 1000 * ({round} + 1), 'r' from {}; update plain set n = n + 1 where id = 1; commit;
             insert into bare values ({round}, 'x'), ({round}, 'x'); update bare set a = a + 1 where v = 'x'; update whole set v = '{round}' where id < 9;
             delete from bare where a = 3 limit 1; update other set v = '{round}'",
            super::numbers(1, 60)
        ))?;
        made += 61;
        case.pipeline.dies_at(place, &["run"])?;
        case.once_and_same(&["other"])?;
        all_tell(&mut case)?;
        let logged = said(case.lake(), &case.name("plain"), "id")?.len();
        ensure!(logged == made, "after {place} the log says of {logged} changes, {made} were made");
    }
    for table in TABLES {
        well_formed(case.lake(), &case.name(table))?;
    }
    pass(case)
}

/// Tables are loaded, and read again, while others write and calve is killed.
fn loads_and_changes_meet_exactly(server: &Server) -> anyhow::Result<()> {
    let mut case = case(server, "append_loading")?;
    case.sql.run(&format!(
        "insert into plain (id, v) select i + 1000, 'many' from {0}; insert into bare select i mod 50, 'many' from {0}",
        super::numbers(1, 9000)
    ))?;
    let mut writer = case.connect()?;
    let (sender, stop) = std::sync::mpsc::channel::<()>();
    let writing = std::thread::spawn(move || -> anyhow::Result<()> {
        for round in 1..=1500_u32 {
            writer.run(&format!(
                "update plain set n = n + 1 where id = 1000 + {0}; insert into bare values ({0}, 'w'); update bare set v = 'u' where a = {0} limit 3;
                 delete from bare where a = {0} mod 50 limit 2; update whole set region = region + 1 where id = {1}; delete from plain where id = 3000 + {0};
                 insert into plain (id, v) values (-{0}, 'minus')",
                round,
                round % 90
            ))?;
            if stop.try_recv() != Err(std::sync::mpsc::TryRecvError::Empty) {
                break;
            }
        }
        Ok(())
    });
    let mut calve = case.pipeline.start()?;
    for round in 1..6 {
        std::thread::sleep(std::time::Duration::from_millis(700));
        if round % 2 == 0 {
            case.reload(&["plain", "bare"])?;
        }
        if round % 3 == 0 {
            calve.kill()?;
            calve = case.pipeline.start()?;
        }
    }
    drop(sender);
    writing.join().expect("the writer does not panic")?;
    let names = case.names(&TABLES);
    await_tell(&mut case.case, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    case.await_same(&["other"])?;
    calve.terminate()?;
    pass(case)
}

/// A table without a key is locked for a moment, which takes a right, and no open transaction that wrote to it.
fn a_table_without_a_key_is_locked_or_stops(server: &Server) -> anyhow::Result<()> {
    let mut case = case(server, "append_locked")?;
    let (database, user) = (case.database.name().to_owned(), calve_testkit::servers::REPLICATION_USER);
    case.sql.run(&format!("revoke lock tables on `{database}`.* from '{user}'@'%'"))?;
    let checked = case.pipeline.finish(&["check"])?;
    ensure!(checked.stdout.contains(&format!("GRANT LOCK TABLES ON `{database}`.*")), "{}", checked.stdout);
    case.sql.run(&format!("grant lock tables on `{database}`.* to '{user}'@'%'"))?;
    let mut writer = case.connect()?;
    writer.run("begin; insert into bare values (1, 'open')")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.stopped("bare", &["locked", "open", "calve reload"])?;
    case.same(&["other"])?;
    writer.run("commit")?;
    case.reload(&["bare"])?;
    case.sql.run("insert into bare values (2, 'later')")?;
    case.once_and_same(&["other"])?;
    all_tell(&mut case)?;

    // As a table of rows it cannot be had.
    let name = case.name("bare");
    case.case.pipeline = case.case.pipeline.clone().tables(&[&name]);
    let checked = case.pipeline.finish(&["check"])?;
    let told = ["no primary key", "mode: append"].iter().all(|part| checked.stdout.contains(part));
    ensure!(checked.code != Some(0) && told, "{}", checked.stdout);
    pass(case)
}

on_every_server!(
    every_change_is_a_row,
    killed_anywhere_no_change_is_lost_or_doubled,
    loads_and_changes_meet_exactly,
    a_table_without_a_key_is_locked_or_stops,
);

//! Changes of rows in all their orders, and the statements that make them.

use anyhow::ensure;
use calve_integration::readers;
use calve_testkit::readers::Reader;
use calve_testkit::servers::{Kind, Server};

use super::{BinlogCase, numbers, on_every_server};

fn rows() -> String {
    format!(
        "create table t (id int primary key, v text); insert into t select i, concat('old ', i) from {};",
        numbers(1, 40)
    )
}

/// Everything up to a restart is one checkpoint: the interval is longer than the test.
fn in_one_checkpoint(server: &Server, schema: &str, tables: &[&str], changes: &str) -> anyhow::Result<BinlogCase> {
    let mut case = BinlogCase::on(server, "changes", schema, tables)?;
    case.pipeline = case.pipeline.clone().checkpoint("interval", "1h");
    case.once_and_same(tables)?;
    let before: Vec<usize> = snapshots(&case, tables)?;
    case.sql.run(changes)?;
    case.once_and_same(tables)?;
    for (table, (before, after)) in tables.iter().zip(before.into_iter().zip(snapshots(&case, tables)?)) {
        ensure!(after <= before + 1, "{table}: one checkpoint made {} snapshots", after - before);
    }
    Ok(case)
}

fn snapshots(case: &BinlogCase, tables: &[&str]) -> anyhow::Result<Vec<usize>> {
    let count = |table: &&str| Ok(case.lake().metadata(case.database.name(), table)?.snapshots().len());
    tables.iter().map(count).collect()
}

fn only_the_last_state_of_a_key_counts(server: &Server) -> anyhow::Result<()> {
    let changes = "
        insert into t values (100, 'gone'); delete from t where id = 100;
        insert into t values (101, 'first'); update t set v = 'last' where id = 101;
        delete from t where id = 1; insert into t values (1, 'reborn');
        update t set v = 'x' where id = 2; delete from t where id = 2;
        update t set v = 'x' where id = 3; update t set v = 'y' where id = 3; update t set v = null where id = 3;
        delete from t where id = 4; insert into t values (4, 'x'); delete from t where id = 4;
        insert into t values (102, 'a'); delete from t where id = 102; insert into t values (102, 'b');
        begin; delete from t where id = 5; insert into t values (5, 'same transaction'); commit;
        update t set v = v where id = 6;
        begin; update t set v = 'kept'; rollback;
        begin; insert into t values (103, 'x'); savepoint s; update t set v = 'no' where id = 103; insert into t values (104, 'no');
               rollback to s; insert into t values (105, 'after'); commit;";
    in_one_checkpoint(server, &rows(), &["t"], changes)?.pass()
}

fn keys_change_and_trade_places(server: &Server) -> anyhow::Result<()> {
    let schema = format!(
        "{} create table pairs (a int, b varchar(5), v text, primary key (b, a));
         insert into pairs select i, 'x', concat('row ', i) from {twenty}; insert into pairs select i, 'y', concat('row ', i) from {twenty};",
        rows(),
        twenty = numbers(1, 20)
    );
    let changes = "
        update t set id = 100 where id = 1;
        update t set id = 101 where id = 2; update t set id = 102 where id = 101;
        update t set id = 103 where id = 3; update t set id = 3 where id = 103;
        begin; update t set id = -1 where id = 4; update t set id = 4 where id = 5; update t set id = 5 where id = -1; commit;
        begin; update t set id = -1 where id = 6; update t set id = 6 where id = 7; update t set id = 7 where id = 8;
               update t set id = 8 where id = -1; commit;
        update t set id = 104, v = 'moved' where id = 9; insert into t values (9, 'new');
        delete from t where id = 10; update t set id = 10 where id = 11;
        update t set id = 105 where id = 12; delete from t where id = 105;
        update t set id = id + 1000 where id between 20 and 30;
        update t set id = id + 1 where id > 1000 order by id desc;
        update pairs set a = a + 100 where b = 'x'; update pairs set b = 'z' where a = 3;
        begin; update pairs set a = 0 where (a, b) = (5, 'y'); update pairs set a = 5 where (a, b) = (6, 'y');
               update pairs set a = 6 where (a, b) = (0, 'y'); commit;
        update pairs set a = 7777, b = 'w' where (a, b) = (8, 'y'); delete from pairs where a = 9;";
    let tables = ["t", "pairs"];
    let mut case = in_one_checkpoint(server, &schema, &tables, changes)?;
    case.same_by_spark(&tables)?;
    // The same again, each statement seen by a running calve with checkpoints in between.
    case.pipeline = case.pipeline.clone().checkpoint("interval", "1ms");
    let calve = case.pipeline.start()?;
    for _ in 0..2 {
        case.sql.run(
            "begin; update t set id = -1 where id = 4; update t set id = 4 where id = 5; update t set id = 5 where id = -1; commit;
             update t set id = id + 1 order by id desc limit 1; update pairs set a = a + 1 where b = 'w'",
        )?;
        case.await_same(&tables)?;
    }
    calve.terminate()?;
    case.pass()
}

fn a_truncate_empties_its_table(server: &Server) -> anyhow::Result<()> {
    let fifty = numbers(1, 50);
    let schema = format!(
        "create table a (id int primary key, v text); create table b (id bigint auto_increment primary key, v text);
         create table c (id int primary key, v text);
         insert into a select i, 'a' from {fifty}; insert into b select i, 'b' from {fifty}; insert into c select i, 'c' from {fifty};"
    );
    let changes = "
        insert into a values (51, 'before'); truncate table a; insert into a values (1, 'after'), (99, 'after');
        update a set v = 'again' where id = 1;
        truncate b; insert into b (v) values ('first again'); insert into b (v) values ('second');
        delete from c where id < 10; /* a comment */ TRUNCATE `c`; insert into c values (1, 'short'); truncate c;";
    let tables = ["a", "b", "c"];
    let mut case = in_one_checkpoint(server, &schema, &tables, changes)?;
    case.same_by_spark(&tables)?;
    let calve = case.pipeline.clone().checkpoint("interval", "50ms").start()?;
    case.sql.run("truncate a; truncate b; insert into b values (1000, 'x')")?;
    case.await_same(&tables)?;
    calve.terminate()?;
    case.pass()
}

fn a_transaction_beyond_a_checkpoint_is_seen_at_once(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "large", &rows(), &["t"])?;
    case.pipeline = case.pipeline.clone().checkpoint("rows", "100");
    case.once_and_same(&["t"])?;
    case.sql.run(&format!(
        "begin; insert into t select i, 'a' from {}; update t set v = 'b' where id % 2 = 0;
         update t set v = concat(v, 'c'); delete from t where id % 5 = 0; insert into t select i * 5, 'd' from {};
         update t set id = id + 10000 where id % 7 = 0; update t set v = 'e' where id > 600; commit",
        numbers(41, 700),
        numbers(0, 140)
    ))?;
    case.once_and_same(&["t"])?;
    // Whoever looks sees all of it or nothing: the parts are snapshots that no position names.
    let snapshots = case.lake().metadata(case.database.name(), "t")?.snapshots();
    let complete = snapshots.iter().filter(|snapshot| snapshot.checkpoint().is_some()).count();
    ensure!(complete == 2, "{complete} positions: the load and the transaction make one each");
    ensure!(snapshots.len() > 2, "the transaction was not cut: {}", snapshots.len());
    case.pass()
}

fn old_values_are_not_found_and_deletes_hold_keys_only(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "prune", &rows(), &["t"])?;
    case.once_and_same(&["t"])?;
    case.sql.run("update t set v = concat('new ', id) where id between 10 and 20; delete from t where id = 30")?;
    case.once_and_same(&["t"])?;
    let table = case.lake().table(case.database.name(), "t")?;
    for (condition, expected) in
        [("v = 'old 15'", "0"), ("id = 30", "0"), ("v = 'new 15'", "1"), ("v like 'old%'", "28"), ("id = 15", "1")]
    {
        let query = format!("select count(*) from t where {condition}");
        let found = readers::duckdb(|duckdb| Ok(duckdb.query_table(&table, &query)?))?;
        ensure!(found.single() == Some(expected), "{condition}: {found:?}");
    }
    let described = readers::metadata(|reader| Ok(reader.describe(&table)?))?;
    let files = described["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    let deletes: Vec<_> = files.iter().filter(|file| file["content"] == "equality deletes").collect();
    ensure!(!deletes.is_empty(), "{described}");
    for file in deletes {
        ensure!(file["equality_ids"] == described["identifier_field_ids"], "{file}");
        let others = file["lower"].as_object().into_iter().flatten().any(|(column, _)| column != "id");
        ensure!(!others, "a delete file knows of more than the key: {file}");
    }
    case.pass()
}

/// Statements that change rows by ways of their own; and those whose rows the log has in two forms.
fn every_statement_that_changes_rows_is_followed(server: &Server) -> anyhow::Result<()> {
    let schema = "
        create table t (id int primary key, k int unique, v varchar(60));
        create table made (id int primary key, v varchar(60));
        create table auto (id bigint unsigned auto_increment primary key, v varchar(20), at timestamp(3) default current_timestamp(3) on update current_timestamp(3));
        create table audit (id int auto_increment primary key, what varchar(40));
        insert into t values (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c'), (4, 40, 'd');
        create trigger t_audit after update on t for each row insert into audit (what) values (concat(old.v, ' to ', new.v));
        create procedure busy() begin update t set v = concat(v, '!') where id = 2; insert into auto (v) values ('by procedure'); end";
    let tables = ["t", "made", "auto", "audit"];
    let mut case = BinlogCase::on(server, "statements", schema, &tables)?;
    case.once_and_same(&tables)?;
    case.sql.run(
        "replace into t values (1, 11, 'replaced'); replace into t values (9, 20, 'took the unique key of 2');
         insert into t values (3, 33, 'x') on duplicate key update v = 'updated';
         insert into t values (3, 33, 'x') on duplicate key update id = 300, v = 'moved';
         insert into t values (77, 40, 'x') on duplicate key update v = concat(v, ' by another key');
         insert ignore into t values (4, 4, 'ignored'), (5, 50, 'e');
         insert into auto (v) values ('one'), ('two'); update auto set v = 'changed'; insert into auto values (18446744073709551000, 'far', default);
         update t join auto on auto.id = t.id set t.v = 'joined', auto.v = 'joined too';
         delete t, auto from t join auto on auto.id = t.id where t.id = 1;
         update t set v = 'ordered' order by id desc limit 1; call busy();
         insert into made select id, v from t; delete from made order by id limit 1;
         create temporary table scratch (id int primary key, v varchar(60)); insert into scratch select * from made where id > 3;
         insert into made select id + 1000, v from scratch; drop temporary table scratch;
         set @before = (select count(*) from t); prepare s from 'update t set v = ? where id = ?'; set @v = 'prepared', @id = 5;
         execute s using @v, @id;
         begin; insert into t values (50, 500, 'x'); lock tables t write; insert into t values (51, 510, 'x'); unlock tables; commit",
    )?;
    load_data(&mut case)?;
    case.once_and_same(&tables)?;
    ensure!(case.sql.value("select count(*) from audit")? != "0", "the trigger did nothing");
    case.pass()
}

/// LOAD DATA of a file on the server.
fn load_data(case: &mut BinlogCase) -> anyhow::Result<()> {
    // Written by the server itself, which sees other directories than this process.
    let statements = format!(
        "create table staging (id int primary key, v varchar(20)); insert into staging select i, concat('loaded ', i) from {};
         select * from staging into outfile '/tmp/{db}.txt'; load data infile '/tmp/{db}.txt' into table made;
         load data infile '/tmp/{db}.txt' replace into table made (id, @v) set v = concat('re', @v)",
        numbers(5000, 5299),
        db = case.database.name()
    );
    case.sql.run(&statements)
}

/// A table made and filled by one statement.
fn tables_made_by_a_query_are_loaded_or_stopped(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "ctas", &rows(), &["*"])?;
    case.once_and_same(&["t"])?;
    let calve = case.pipeline.start()?;
    case.await_same(&["t"])?;
    case.sql.run(
        "create table made (primary key (id)) as select id, v from t where id < 10; update made set v = 'after'; delete from t where id = 9",
    )?;
    case.await_same(&["t"])?;
    calve.terminate()?;
    // Found at the next start at the latest.
    case.once_and_same(&["t", "made"])?;
    case.sql.run("update made set v = 'followed' where id = 3; insert into made values (900, 'x')")?;
    case.once_and_same(&["t", "made"])?;
    case.pass()
}

/// Rows that foreign keys change: in the log of MySQL 9.6 and later, and in nobody else's.
fn cascades_are_followed_where_the_log_has_them(server: &Server) -> anyhow::Result<()> {
    let schema = "
        create table parents (id int primary key, v int);
        create table children (id int primary key, parent int, foreign key (parent) references parents (id) on delete cascade on update cascade);
        create table orphans (id int primary key, parent int, foreign key (parent) references parents (id) on delete set null);
        insert into parents values (1, 1), (2, 2), (3, 3);
        insert into children values (10, 1), (11, 1), (20, 2), (30, 3); insert into orphans values (1, 1), (2, 2);";
    let tables = ["parents", "children", "orphans"];
    let mut case = BinlogCase::on(server, "cascades", schema, &tables)?;
    case.once_and_same(&tables)?;
    case.sql.run("delete from parents where id = 1; update children set parent = 3 where id = 20")?;
    if server.kind() == Kind::MySql {
        case.sql.run("update parents set id = 300 where id = 3")?;
        case.once_and_same(&tables)?;
        return case.pass();
    }
    // The log lacks them: they are found by comparing, and a reload mends them.
    case.pipeline.once()?;
    case.same(&["parents"])?;
    let verified = case.pipeline.finish(&["verify", "--wait", "1"])?.expect_code(7)?;
    let differs = format!("{}: 2 keys differ", case.name("children"));
    ensure!(verified.stdout.contains(&differs), "{}", verified.stdout);
    case.reload(&["children", "orphans"])?;
    case.once_and_same(&tables)?;
    case.pass()
}

on_every_server!(
    only_the_last_state_of_a_key_counts,
    keys_change_and_trade_places,
    a_truncate_empties_its_table,
    a_transaction_beyond_a_checkpoint_is_seen_at_once,
    old_values_are_not_found_and_deletes_hold_keys_only,
    every_statement_that_changes_rows_is_followed,
    tables_made_by_a_query_are_loaded_or_stopped,
    cascades_are_followed_where_the_log_has_them,
);

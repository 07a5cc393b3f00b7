//! What tables do by their policy: partitions that are dropped, columns that are left out or leave the lake.

use calve_integration::compare::{self, Pair};
use calve_integration::pipeline::until;
use calve_integration::readers;
use calve_testkit::servers::Server;

use super::{BinlogCase, numbers, on_every_server};

impl BinlogCase {
    /// Fails unless the table in the lake has the rows of another table of the source, which is not followed.
    fn same_as(&mut self, table: &str, expected: &str) -> anyhow::Result<()> {
        let database = self.database.name().to_owned();
        let pair = Pair::new((&database, expected), (&database, table));
        let lake = self.pipeline.lake().clone();
        let differences = readers::duckdb(|duckdb| compare::compare(&mut self.sql, &lake, &pair, duckdb))?;
        anyhow::ensure!(differences.is_empty(), "{table} is not as {expected}:\n{differences}");
        Ok(())
    }
}

fn partitioned(table: &str) -> String {
    format!(
        "create table {table} (id int primary key, v int) partition by range (id)
             (partition p0 values less than (10), partition p1 values less than (20), partition p2 values less than (3000));
         insert into {table} select i, i from {};",
        numbers(1, 40)
    )
}

/// What drops old partitions by retention keeps them in the lake; what brings rows with a partition is stopped all the same.
fn rows_of_dropped_partitions_are_kept_where_that_is_asked_for(server: &Server) -> anyhow::Result<()> {
    let mut schema = "create table plain (id int primary key, v int); insert into plain values (12, 12);
                      create table expected (id int primary key, v int);"
        .to_owned();
    schema += &["kept", "exchanged"].map(partitioned).concat();
    schema += "insert into expected select * from kept;";
    let mut case = BinlogCase::on(server, "kept_rows", &schema, &["kept", "exchanged"])?;
    case.pipeline = case.pipeline.clone().with("schema_changes: {drop_partition: ignore, otherwise: reload}");
    case.once_and_same(&["kept", "exchanged"])?;
    let calve = case.pipeline.start()?;
    case.sql.run(
        "alter table kept drop partition p0; alter table kept truncate partition p1;
         insert into kept values (15, 150), (50, 50); update kept set v = 0 where id = 30; delete from kept where id = 31;
         insert into expected values (50, 50); update expected set v = 150 where id = 15; update expected set v = 0 where id = 30;
         delete from expected where id = 31;
         alter table exchanged exchange partition p1 with table plain",
    )?;
    let name = case.name("exchanged");
    case.pipeline.await_state(&name, "stopped")?;
    case.stopped("exchanged", &["rows unknown", "reload"])?;
    calve.terminate()?;
    // And with calve away.
    case.sql.run(
        "alter table kept drop partition p1; insert into kept values (60, 60); insert into expected values (60, 60)",
    )?;
    let finished = case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.same_as("kept", "expected")?;
    let log = finished.stderr;
    anyhow::ensure!(log.contains("ignored, as schema_changes says"), "the log does not tell of it:\n{log}");
    // A reload takes it.
    case.reload(&["kept", "exchanged"])?;
    case.once_and_same(&["kept", "exchanged"])?;
    case.pass()
}

fn tables_whose_partitions_are_dropped_are_read_again_where_that_is_asked_for(server: &Server) -> anyhow::Result<()> {
    let all = ["dropped", "exchanged", "plain"];
    let mut schema = "create table plain (id int primary key, v int); insert into plain values (12, 12);".to_owned();
    schema += &["dropped", "exchanged"].map(partitioned).concat();
    let mut case = BinlogCase::on(server, "read_again", &schema, &all)?;
    case.pipeline = case.pipeline.clone().with("schema_changes: {drop_partition: reload}");
    case.once_and_same(&all)?;
    let calve = case.pipeline.start()?;
    case.sql.run(
        "alter table dropped drop partition p0; update dropped set v = 0 where id = 30;
         alter table exchanged exchange partition p1 with table plain; insert into plain values (900, 900)",
    )?;
    case.await_same(&all)?;
    calve.terminate()?;
    case.sql.run("alter table dropped truncate partition p1")?;
    case.once_and_same(&all)?;
    case.pass()
}

/// Columns that are added stay out of the lake, and those that are dropped go from it, as long as the table is not read again.
fn columns_are_left_out_and_go_where_that_is_asked_for(server: &Server) -> anyhow::Result<()> {
    let schema = format!(
        "create table t (id int primary key, v varchar(20), gone int); insert into t select i, 'a', i from {};
         create table expected (id int primary key, v varchar(20)); insert into expected select id, v from t;",
        numbers(1, 20)
    );
    let mut case = BinlogCase::on(server, "left_out", &schema, &["t"])?;
    case.pipeline = case.pipeline.clone().with("schema_changes: {add_column: ignore, drop_column: apply}");
    case.once_and_same(&["t"])?;
    let calve = case.pipeline.start()?;
    case.sql.run(
        "alter table t drop column gone, add column more int not null default 7, add column place point after id;
         update t set v = 'b', more = 8 where id = 1; insert into t (id, v) values (100, 'new'); delete from t where id = 2;
         update expected set v = 'b' where id = 1; insert into expected values (100, 'new'); delete from expected where id = 2",
    )?;
    until("it to tell of the columns", || Ok(calve.log().contains("was added, and is left out")))?;
    calve.terminate()?;
    // One of them becomes another, with calve away. The dropped one's name is a new column's.
    case.sql.run(
        "alter table t change more others varchar(9), drop column place, add column gone text;
         update t set v = 'c', others = 'x' where id = 3; update expected set v = 'c' where id = 3",
    )?;
    let finished = case.pipeline.finish(&["run", "--once"])?.expect_success()?;
    case.same_as("t", "expected")?;
    let log = finished.stderr;
    anyhow::ensure!(log.contains("gone") && !log.contains("no longer"), "unexpected:\n{log}");
    let name = case.name("t");
    case.pipeline.finish(&["reload", &name])?.expect_success()?;
    case.once_and_same(&["t"])?;
    case.pass()
}

on_every_server!(
    columns_are_left_out_and_go_where_that_is_asked_for,
    rows_of_dropped_partitions_are_kept_where_that_is_asked_for,
    tables_whose_partitions_are_dropped_are_read_again_where_that_is_asked_for,
);

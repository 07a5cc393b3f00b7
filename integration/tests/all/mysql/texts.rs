//! Names and labels beyond ASCII, and bytes that are no text. Text in every character set is `matrix`'s.

use anyhow::ensure;
use calve_testkit::servers::{Kind, Server};

use super::{BinlogCase, on_every_server};

/// Names of tables, columns and labels beyond ASCII, and with what other people's programs would trip over.
fn names_are_kept_as_they_are(server: &Server) -> anyhow::Result<()> {
    let schema = "
        create table `Mixed Case` (`Id` int primary key, `select` int, `with \"quote` varchar(9), `\u{e4}\u{f6}` text, `back``tick` int);
        create table `t\u{e4}ble` (`id` int primary key, `v` enum('o', '\u{e4}'));
        create table `dollar$table` (id int primary key);
        insert into `Mixed Case` values (1, 2, 'x', '\u{e9}', 3); insert into `t\u{e4}ble` values (1, '\u{e4}');";
    let tables = ["Mixed Case", "t\u{e4}ble", "dollar$table"];
    let mut case = BinlogCase::on(server, "names", schema, &tables)?;
    case.once_and_same(&tables)?;
    case.sql.run(
        "insert into `Mixed Case` values (2, 3, 'y', '\u{1f600}', null); update `t\u{e4}ble` set v = 'o';
         insert into `t\u{e4}ble` values (2, '\u{e4}'); insert into `dollar$table` values (1)",
    )?;
    case.once_and_same(&tables)?;
    case.pass()
}

/// Bytes that the server itself took for text and that are none: the table stops and names the column, by load and by stream.
fn bytes_that_are_no_text_are_refused(server: &Server) -> anyhow::Result<()> {
    let schema = "
        set sql_mode = '';
        create table good (id int primary key, v varchar(9) character set gbk);
        create table loaded (id int primary key, v varchar(9) character set gbk);
        create table streamed (id int primary key, v varchar(9) character set gbk);
        insert into loaded values (1, 'x'), (2, 0xFEFE); insert into streamed values (1, 'x');";
    let mut case = BinlogCase::on(server, "invalid", schema, &["*"])?;
    let stored = case.sql.value("select hex(v) from loaded where id = 2")?;
    ensure!(stored == "FEFE", "the server made {stored} of it");
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.sql.run("insert into streamed values (2, 0xFEFE); insert into good values (1, '\u{4e2d}')")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.same(&["good"])?;
    for table in ["loaded", "streamed"] {
        case.stopped(table, &["v", "character set", "reload"])?;
    }
    case.sql.run("update loaded set v = '\u{6587}' where id = 2; update streamed set v = '\u{6587}' where id = 2")?;
    case.reload(&["loaded", "streamed"])?;
    case.once_and_same(&["good", "loaded", "streamed"])?;
    case.pass()
}

/// Labels that the catalog cannot show: with what the log says they are right, else the table is refused, not guessed at.
fn labels_beyond_the_catalog(server: &Server) -> anyhow::Result<()> {
    let schema = "
        create table good (id int primary key); insert into good values (1);
        create table smileys (id int primary key, v enum('\u{1f600}', 'plain'));
        insert into smileys values (1, '\u{1f600}'), (2, 'plain');";
    let mut case = BinlogCase::on(server, "labels", schema, &["good", "smileys"])?;
    let shown = case.sql.value(
        "select column_type from information_schema.columns where table_schema = database() and table_name = 'smileys'
         and column_name = 'v'",
    )?;
    if shown.contains('\u{1f600}') {
        ensure!(server.kind() == Kind::MariaDb || server.kind() == Kind::MySql);
        case.once_and_same(&["good", "smileys"])?;
        return case.pass();
    }
    let finished = case.pipeline.finish(&["run", "--once"])?;
    ensure!(finished.code != Some(0), "labels were guessed: {finished:?}");
    ensure!(finished.stderr.contains("binlog_row_metadata = FULL"), "{finished:?}");
    case.pass()
}

on_every_server!(names_are_kept_as_they_are, bytes_that_are_no_text_are_refused, labels_beyond_the_catalog);

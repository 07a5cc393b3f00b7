//! Text in every character set that people have, and bytes that are no text.

use anyhow::ensure;
use calve_testkit::servers::{Kind, Server};

use super::{BinlogCase, on_every_server};

/// A character set and texts that it can hold.
const SETS: &[(&str, &[&str])] = &[
    ("latin1", &["caf\u{e9} \u{20ac}\u{152}", "\u{fc}"]),
    ("latin2", &["za\u{17c}\u{f3}\u{142}\u{107}"]),
    ("ascii", &["plain"]),
    ("utf8mb3", &["\u{e4}\u{65e5}\u{672c}"]),
    ("utf8mb4", &["\u{1f600}\u{1f468}\u{200d}\u{1f469}", "\u{65e5}"]),
    ("ucs2", &["\u{e4}\u{65e5}"]),
    ("utf16", &["\u{1f600}\u{65e5} x", "a"]),
    ("utf16le", &["\u{1f600}\u{65e5}"]),
    ("utf32", &["\u{1f600}\u{65e5}"]),
    ("gbk", &["\u{4e2d}\u{6587}\u{7e41}", "\u{4e02}"]),
    ("gb2312", &["\u{4e2d}\u{6587}"]),
    ("big5", &["\u{4e2d}\u{6587}\u{8a31}\u{529f}"]),
    ("sjis", &["\u{65e5}\u{672c}\u{8868}\u{30bd}"]),
    ("cp932", &["\u{2460}\u{65e5}\u{ff76}"]),
    ("ujis", &["\u{65e5}\u{672c}\u{ff76}"]),
    ("eucjpms", &["\u{65e5}\u{672c}\u{2460}"]),
    ("euckr", &["\u{d55c}\u{ae00}"]),
    ("koi8r", &["\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}"]),
    ("cp1251", &["\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442} \u{20ac}"]),
    ("greek", &["\u{3b1}\u{3b2}\u{3b3}"]),
    ("hebrew", &["\u{5e9}\u{5dc}\u{5d5}\u{5dd}"]),
    ("tis620", &["\u{e2a}\u{e27}\u{e31}\u{e2a}"]),
];

fn texts_are_the_same_in_every_character_set(server: &Server) -> anyhow::Result<()> {
    let columns = |name: &str| {
        let list = SETS.iter().enumerate().map(|(at, (set, texts))| {
            let labels = texts.iter().filter(|text| !text.contains('\u{1f600}')).map(|text| format!("'{text}'"));
            let labels: Vec<String> = labels.chain(["'x'".to_owned()]).collect();
            let labels = labels.join(", ");
            format!(
                "v{at} varchar(30) character set {set}, c{at} char(12) character set {set}, t{at} text character set {set}, \
                 e{at} enum({labels}) character set {set}, s{at} set({labels}) character set {set}"
            )
        });
        format!("create table {name} (id int primary key, {});", list.collect::<Vec<_>>().join(", "))
    };
    let rows = |name: &str| {
        let row = |n: usize| {
            let values = SETS.iter().map(|(_, texts)| {
                let text = texts.get(n).copied().unwrap_or("x");
                let label = if text.contains('\u{1f600}') { "x" } else { text };
                format!("'{text}', '{text}', repeat('{text}', 100), '{label}', '{label}'")
            });
            format!("insert into {name} values ({n}, {});", values.collect::<Vec<_>>().join(", "))
        };
        (0..3).map(row).collect::<String>()
    };
    let schema = format!("{}{}{}", columns("loaded"), columns("streamed"), rows("loaded"));
    let mut case = BinlogCase::on(server, "charsets", &schema, &["loaded", "streamed"])?;
    case.once_and_same(&["loaded", "streamed"])?;
    case.sql.run(&rows("streamed"))?;
    // Statements of a session in another character set leave their own in the log.
    case.sql.run("set names latin1; update loaded set id = id + 10; set names utf8mb4")?;
    case.once_and_same(&["loaded", "streamed"])?;
    case.pass()
}

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

on_every_server!(
    texts_are_the_same_in_every_character_set,
    names_are_kept_as_they_are,
    bytes_that_are_no_text_are_refused,
    labels_beyond_the_catalog
);

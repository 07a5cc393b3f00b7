//! Loads while the tables change: whatever the key is, no row is lost or doubled at the seam of load and log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use calve_integration::random::Random;
use calve_integration::readers;
use calve_integration::sql::Sql;
use calve_testkit::servers::Server;

use super::{BinlogCase, numbers, on_every_server};

/// Tables by the kind of their key: how it is made of a number. Many numbers give the same key.
struct Keyed {
    table: &'static str,
    columns: &'static str,
    key: &'static str,
    /// One for each column; `?` is the number.
    values: &'static [&'static str],
}

const KEYED: &[Keyed] = &[
    Keyed { table: "ints", columns: "a int", key: "a", values: &["(? % 3000)"] },
    Keyed {
        table: "composite",
        columns: "b varchar(8), a smallint, c date",
        key: "c, b, a",
        values: &["concat('b', ? % 7)", "? % 300", "date_add('2000-01-01', interval ? % 40 day)"],
    },
    Keyed {
        table: "folded",
        columns: "k varchar(30) character set utf8mb4 collate utf8mb4_general_ci",
        key: "k",
        values: &["concat(elt(1 + ? % 4, 'key', 'KEY', 'Key', 'k\u{c9}y'), ? % 2500, elt(1 + ? % 3, '', ' ', '  '))"],
    },
    Keyed {
        table: "padded",
        columns: "k char(20) character set latin1",
        key: "k",
        values: &["concat(elt(1 + ? % 2, 'x', 'X'), ? % 2500)"],
    },
    Keyed {
        table: "big",
        columns: "k bigint unsigned",
        key: "k",
        values: &["18446744073709551615 - (? % 3000) * 6148914691"],
    },
    Keyed { table: "money", columns: "k decimal(12,4)", key: "k", values: &["((? % 3000) - 1500) / 10000"] },
    Keyed { table: "bytes_", columns: "k varbinary(16)", key: "k", values: &["unhex(left(sha2(? % 3000, 256), 32))"] },
];

impl Keyed {
    fn values(&self, number: &str) -> String {
        self.values.join(", ").replace('?', number)
    }

    fn create(&self) -> String {
        let Self { table, columns, key, .. } = self;
        format!(
            "create table {table} ({columns}, v varchar(60), n int, primary key ({key}));
             replace into {table} select {}, repeat('load', 10), 0 from {};",
            self.values("i"),
            numbers(1, 9000)
        )
    }

    /// The key of a number, as an UPDATE sets it.
    fn assignments(&self, number: &str) -> String {
        let names = self.columns.split(", ").filter_map(|column| column.split(' ').next());
        let set: Vec<String> =
            names.zip(self.values).map(|(name, value)| format!("{name} = {}", value.replace('?', number))).collect();
        set.join(", ")
    }

    /// Rows come, change, change their keys and go, anywhere in the table.
    fn change(&self, random: &mut Random) -> String {
        let table = self.table;
        let number = random.below(100_000).to_string();
        let first = self.key.split(',').next().unwrap_or_default();
        match random.below(6) {
            0 => format!("replace into {table} values ({}, 'replaced', {number})", self.values(&number)),
            1 => format!(
                "insert into {table} values ({}, 'inserted', 1) on duplicate key update v = 'twice', n = n + 1",
                self.values(&number)
            ),
            2 => format!("delete from {table} where n % 97 = {} limit 3", random.below(97)),
            3 => format!(
                "update {table} set v = concat('u', n), n = n + 1 order by {first} desc limit {}",
                random.between(1, 9)
            ),
            4 => format!(
                "begin; delete from {table} order by {first} limit 2; replace into {table} values ({}, 'in one', 3), ({}, 'in one', 4); commit",
                self.values(&number),
                self.values(&random.below(100_000).to_string())
            ),
            // To the key of another number, where nobody has it.
            _ => format!(
                "update ignore {table} set {}, v = 'moved', n = {number} where n % 50 = {} limit 2",
                self.assignments(&number),
                random.below(50)
            ),
        }
    }
}

fn tables_change_while_they_are_loaded(server: &Server) -> anyhow::Result<()> {
    let schema: String = KEYED.iter().map(Keyed::create).collect();
    let tables: Vec<&str> = KEYED.iter().map(|keyed| keyed.table).collect();
    let mut case = BinlogCase::on(server, "seam", &schema, &tables)?;
    case.pipeline = case.pipeline.clone().checkpoint("interval", "50ms");
    let url = case.database.url(server.kind().superuser())?;
    let stop = AtomicBool::new(false);
    let write = |seed: u64| -> anyhow::Result<u32> {
        let (mut sql, mut random, mut done) = (Sql::connect(&url)?, Random::new(seed), 0);
        sql.run("set sql_mode = ''")?;
        while !stop.load(Ordering::Relaxed) {
            let statement = random.pick(KEYED).change(&mut random.fork());
            // Two writers may wait for each other: one of them is refused.
            if let Err(error) = sql.run(&statement) {
                let said = format!("{error:#}");
                ensure!(said.contains("1213") || said.contains("1205") || said.contains("1020"), "{said}");
                sql.run("rollback")?;
            }
            done += 1;
            if done % 5 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(done)
    };
    std::thread::scope(|scope| {
        let writers = [1, 2].map(|seed| scope.spawn(move || write(seed)));
        let run = || -> anyhow::Result<()> {
            case.pipeline.once()?;
            let calve = case.pipeline.start()?;
            for _ in 0..2 {
                case.pipeline.finish(&["reload", "--all"])?.expect_success()?;
            }
            calve.kill()?;
            case.reload(&["folded", "composite"])?;
            Ok(())
        };
        let outcome = run();
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            let done = writer.join().expect("a writer does not panic")?;
            ensure!(done > 20, "a writer did next to nothing: {done} statements");
        }
        outcome
    })?;
    case.once_and_same(&tables)?;
    case.pass()
}

fn two() -> String {
    format!(
        "create table a (id int primary key, v text); create table b (id int primary key, v text);
         insert into a select i, 'a' from {}; insert into b select i, 'b' from {};",
        numbers(1, 200),
        numbers(1, 9000)
    )
}

fn a_table_that_matches_later_is_loaded_while_the_others_stream(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "added", &two(), &["*"])?;
    case.once_and_same(&["a", "b"])?;
    case.sql.run(&format!(
        "create table c (id int primary key, v text); insert into c select i, 'c' from {}",
        numbers(1, 9000)
    ))?;
    let calve = case.pipeline.start()?;
    case.sql.run("update a set v = 'streamed'; insert into c values (0, 'beside'); delete from c where id = 3")?;
    case.await_same(&["a", "b", "c"])?;
    case.sql.run("update c set v = 'later' where id < 10")?;
    case.await_same(&["c"])?;
    calve.terminate()?;
    case.once_and_same(&["a", "b", "c"])?;
    case.pass()
}

fn a_table_is_read_again_in_one_commit(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "reload", &two(), &["*"])?;
    let calve = case.pipeline.start()?;
    case.await_same(&["a", "b"])?;
    let before = case.lake().metadata(case.database.name(), "b")?;
    let name = case.name("b");
    let reload = case.pipeline.finish(&["reload", &name])?.expect_success()?;
    ensure!(reload.stdout.contains(&format!("{name}: replaced")), "{}", reload.stdout);
    case.sql.run("update b set v = 'after' where id = 7; update a set v = 'after' where id = 7")?;
    case.await_same(&["a", "b"])?;
    // No snapshot in between is empty.
    let after = case.lake().metadata(case.database.name(), "b")?;
    ensure!(before.json()["table-uuid"] == after.json()["table-uuid"], "it is another table now");
    for snapshot in after.snapshots() {
        ensure!(
            snapshot.summary["total-records"].as_str().unwrap_or("0") != "0",
            "a snapshot of b is empty: {snapshot:?}"
        );
    }
    calve.terminate()?;
    case.sql.run("update a set v = 'while away' where id > 100")?;
    case.reload(&["a"])?;
    case.once_and_same(&["a", "b"])?;
    let refused = case.pipeline.finish(&["reload", &case.name("nothing")])?.expect_code(2)?;
    ensure!(refused.complaint().is_some_and(|line| line.contains("nothing")), "{:?}", refused.complaint());
    case.pass()
}

/// A load that is killed leaves no file once the next one is through.
fn a_killed_load_starts_again_and_leaves_no_trace(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "killed_load", &two(), &["*"])?;
    for place in
        ["source.start_load.after", "load.file-written", "load.finish.after", "load.commit.before", "load.commit.after"]
    {
        case.pipeline.dies_at(place, &["run", "--once"])?;
    }
    case.once_and_same(&["a", "b"])?;
    case.sql.run("update a set v = 'x'; update b set v = 'x' where id = 1")?;
    case.once_and_same(&["a", "b"])?;
    for table in ["a", "b"] {
        let metadata = case.lake().metadata(case.database.name(), table)?;
        let mut known = Vec::new();
        for snapshot in metadata.snapshots() {
            let described = readers::metadata(|reader| Ok(reader.describe(&metadata.at(&snapshot))?))?;
            let listed = described["files"].as_array().into_iter().flatten();
            known.extend(listed.filter_map(|file| file["path"].as_str().map(str::to_owned)));
        }
        let directory = case.lake().path().join("warehouse").join(case.database.name()).join(table).join("data");
        for entry in std::fs::read_dir(directory)? {
            let file = entry?.file_name().to_string_lossy().into_owned();
            ensure!(known.iter().any(|path| path.ends_with(&file)), "nothing refers to {file} of {table}");
        }
    }
    case.pass()
}

on_every_server!(
    tables_change_while_they_are_loaded,
    a_table_that_matches_later_is_loaded_while_the_others_stream,
    a_table_is_read_again_in_one_commit,
    a_killed_load_starts_again_and_leaves_no_trace,
);

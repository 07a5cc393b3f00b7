//! Random migrations: tables whose definitions change all the time while rows do, with calve killed, away and back; after
//! each round the tables must equal the source.
//!
//! What rows in the lake cannot follow is read again, by calve itself or by `calve reload`, as the seed has it. Changes that
//! no log and no catalog shows (README, "Schema changes") are not among those that are made.

mod options;
mod table;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use calve_testkit::servers::{Kind, Options as ServerOptions, REPLICATION_USER, Server};

pub use options::Options;
use table::Table;

use crate::binary::Running;
use crate::compare::{Pair, compare_by_name};
use crate::crash::{DATABASE, make_database};
use crate::directory::Directory;
use crate::pipeline::Pipeline;
use crate::random::Random;
use crate::readers;
use crate::sql::Sql;

/// Connections that write, each to tables of its own: two changes of one definition would wait for each other.
const WRITERS: usize = 2;
const TABLES_A_WRITER: usize = 3;
/// How long rows and definitions change between two comparisons.
const ROUND: Duration = Duration::from_secs(12);
/// Times that calve is run to its end until all tables stream.
const MOST_RUNS: u32 = 12;
/// Longest wait for a lock: a load under way holds up a change of its table.
const POSTGRES_SESSION: &str = "set lock_timeout = '20s'";

/// States of a table whose definition changed in a way that its rows cannot follow.
const EXPECTED_STOPS: [&str; 3] = ["schema changed", "dropped", "reloading"];

/// How a campaign went.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Changes of definitions that the source took.
    pub ddl: u64,
    /// Rows compared.
    pub rows: usize,
    /// Rows of one side that the other did not have just so.
    pub mismatches: usize,
    /// Times that calve was killed.
    pub kills: u32,
    /// Tables read again by hand.
    pub reloads: u32,
    /// What went wrong, where it is not a row.
    pub failures: Vec<String>,
}

impl Report {
    /// Whether nothing went wrong.
    pub fn is_clean(&self) -> bool {
        self.mismatches == 0 && self.failures.is_empty()
    }
}

/// Runs a campaign; what it does is printed as it goes. An error is one of the test's own means; what calve does wrong is
/// in the report.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    println!("seed {} (repeat with --seed {})", options.seed, options.seed);
    let mut directory = Directory::new("migrate")?;
    let mut campaign = Campaign::begin(options, &directory)?;
    let outcome = campaign.rounds(Duration::from_secs(options.minutes * 60));
    let report = campaign.report;
    // With a rule broken the failure is what was wanted.
    if options.mutation.is_none() && (outcome.is_err() || !report.is_clean()) {
        directory.keep();
        println!("evidence: the lake and all logs are in {}", directory.path().display());
    }
    outcome.map(|()| report)
}

struct Campaign {
    random: Random,
    sql: Sql,
    namespace: &'static str,
    url: String,
    pipeline: Pipeline,
    /// Tables are read again by calve itself.
    by_itself: bool,
    tables: Vec<Vec<Table>>,
    changes: Changes,
    report: Report,
    _server: Server,
}

impl Campaign {
    fn begin(options: &Options, directory: &Directory) -> anyhow::Result<Self> {
        let kind = options.source;
        let server = Server::start(kind, &options.version, &ServerOptions::default())?;
        let writer = make_database(&server)?;
        let url = server.url(writer, DATABASE)?;
        let mut sql = Sql::connect(&url)?;
        println!("source: {kind} {} ({})", options.version, sql.value("select version()")?);
        let namespace = if kind == Kind::Postgres { "public" } else { DATABASE };
        let mut random = Random::new(options.seed);
        let by_itself = random.chance(50);
        println!("tables are read again {}", if by_itself { "by calve itself" } else { "by hand" });
        let policy = if by_itself { "reload" } else { "stop" };
        let source = server.url(REPLICATION_USER, DATABASE)?;
        let mut pipeline = Pipeline::new(directory.path(), "migrate", &source, &[&format!("{namespace}.m*")])
            .checkpoint("interval", "300ms")
            .checkpoint("idle_interval", "500ms")
            .with(&format!("exclude: ['{namespace}.*_away']"))
            .with(&format!("schema_changes:\n  otherwise: {policy}"));
        if let Some(mutation) = &options.mutation {
            pipeline = pipeline.variable("CALVE_MUTATION", mutation);
        }
        let mut tables = Vec::new();
        for writer in 0..WRITERS {
            let names = (0..TABLES_A_WRITER).map(|number| format!("m{}", writer * TABLES_A_WRITER + number));
            let own: Vec<Table> = names.map(|name| Table::new(kind, &name, &mut random)).collect();
            own.iter().try_for_each(|table| sql.run(&table.create()))?;
            tables.push(own);
        }
        let report = Report::default();
        let changes = BTreeMap::new();
        Ok(Self { random, sql, namespace, url, pipeline, by_itself, tables, changes, report, _server: server })
    }

    fn rounds(&mut self, length: Duration) -> anyhow::Result<()> {
        self.pipeline.once().context("the first load")?;
        let began = Instant::now();
        let mut number = 0;
        while began.elapsed() < length && self.report.is_clean() {
            number += 1;
            self.round(number)?;
        }
        let changes: Vec<String> = self.changes.iter().map(|(what, count)| format!("{count} {what}")).collect();
        println!("changes: {}", changes.join(", "));
        Ok(())
    }

    fn round(&mut self, number: u32) -> anyhow::Result<()> {
        let running = self.start_writers();
        let lives = self.lives();
        self.take_back(running)?;
        for table in self.tables.iter().flatten() {
            self.sql.run(&table.last_row(number, &mut self.random))?;
        }
        let settled = lives.and_then(|()| self.settle());
        if let Err(failure) = settled {
            println!("round {number}: FAILED: {failure:#}");
            self.report.failures.push(format!("{failure:#}"));
            return Ok(());
        }
        let mut rows = 0;
        for table in self.tables.iter().flatten() {
            let pair = Pair::named(&format!("{}.{}", self.namespace, table.name()));
            let compared =
                readers::duckdb(|duckdb| compare_by_name(&mut self.sql, self.pipeline.lake(), &pair, duckdb));
            match compared {
                Ok((count, found)) => {
                    rows += count;
                    if !found.is_empty() {
                        self.report.mismatches += found.lost.len() + found.surplus.len();
                        println!("round {number}: FAILED: {pair} differs:\n{found}");
                    }
                }
                Err(failure) => {
                    println!("round {number}: FAILED: {pair} cannot be compared: {failure:#}");
                    self.report.failures.push(format!("{pair}: {failure:#}"));
                }
            }
        }
        self.report.rows += rows;
        if self.report.is_clean() {
            println!("round {number}: {rows} rows equal, {} changes so far", self.report.ddl);
        }
        Ok(())
    }

    fn start_writers(&mut self) -> Vec<Writing> {
        let mut writing = Vec::new();
        for tables in std::mem::take(&mut self.tables) {
            let stop = Arc::new(AtomicBool::new(false));
            let writer = Writer {
                url: self.url.clone(),
                random: self.random.fork(),
                tables,
                changes: BTreeMap::new(),
                stop: Arc::clone(&stop),
            };
            writing.push(Writing { stop, thread: std::thread::spawn(move || writer.run()) });
        }
        writing
    }

    /// Lets writers finish what they do.
    fn take_back(&mut self, writing: Vec<Writing>) -> anyhow::Result<()> {
        for writer in &writing {
            writer.stop.store(true, Ordering::Relaxed);
        }
        for writer in writing {
            let (tables, changes) = writer.thread.join().map_err(|_| anyhow!("a writer panicked"))??;
            self.tables.push(tables);
            for (what, count) in changes {
                *self.changes.entry(what).or_default() += count;
                self.report.ddl += count;
            }
        }
        Ok(())
    }

    /// calve comes and goes while tables change.
    fn lives(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + ROUND;
        while Instant::now() < until {
            let mut calve = self.pipeline.start()?;
            std::thread::sleep(Duration::from_millis(self.random.between(500, 6000)));
            if let Some(finished) = calve.ended()? {
                // Where every table is stopped there is nothing left to follow.
                ensure!(
                    finished.code == Some(3),
                    "calve left by itself: {}",
                    finished.complaint().unwrap_or("nothing")
                );
            } else {
                self.end(calve)?;
            }
            if self.random.chance(40) {
                std::thread::sleep(Duration::from_millis(self.random.between(100, 2500)));
            }
        }
        Ok(())
    }

    fn end(&mut self, calve: Running) -> anyhow::Result<()> {
        if self.random.chance(60) {
            self.report.kills += 1;
            calve.kill()?;
            return Ok(());
        }
        calve.signal("TERM")?;
        let finished = calve.wait(crate::binary::PATIENCE)?;
        ensure!(
            matches!(finished.code, Some(0 | 3)),
            "calve was asked to leave and ended with {:?}: {}",
            finished.code,
            finished.complaint().unwrap_or("nothing")
        );
        Ok(())
    }

    /// Runs calve to the end of the log, and has stopped tables read again, until all of them stream.
    fn settle(&mut self) -> anyhow::Result<()> {
        for run in 0..MOST_RUNS {
            let finished = self.pipeline.finish(&["run", "--once"])?;
            ensure!(
                matches!(finished.code, Some(0 | 3)),
                "catching up ended with {:?}: {}",
                finished.code,
                finished.complaint().unwrap_or("nothing")
            );
            let states = self.pipeline.states()?;
            let stopped: Vec<_> = states.into_iter().filter(|(_, state)| state.state != "streaming").collect();
            if stopped.is_empty() {
                return Ok(());
            }
            for (name, state) in stopped {
                let expected = |stop: &str| state.reason.contains(&format!("\"state\":\"{stop}\""));
                ensure!(
                    state.state == "stopped" && EXPECTED_STOPS.into_iter().any(expected),
                    "{name} is {}: {}",
                    state.state,
                    state.reason
                );
                // By itself calve takes a run for it, and another where it changed again meanwhile.
                if !self.by_itself || run > 3 {
                    self.report.reloads += 1;
                    self.pipeline.finish(&["reload", &name])?.expect_success()?;
                }
            }
        }
        bail!("after {MOST_RUNS} runs there are still tables that do not stream: {:?}", self.pipeline.states()?)
    }
}

/// Changes that the source took, by what they were.
type Changes = BTreeMap<&'static str, u64>;

struct Writing {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<(Vec<Table>, Changes)>>,
}

struct Writer {
    url: String,
    random: Random,
    tables: Vec<Table>,
    changes: Changes,
    stop: Arc<AtomicBool>,
}

impl Writer {
    fn run(mut self) -> anyhow::Result<(Vec<Table>, Changes)> {
        let mut sql = Sql::connect_patiently(&self.url, Duration::from_mins(1)).context("a writer")?;
        if sql.kind() == Kind::Postgres {
            sql.run(POSTGRES_SESSION)?;
        }
        while !self.stop.load(Ordering::Relaxed) {
            let at = usize::try_from(self.random.below(self.tables.len() as u64))?;
            if self.random.chance(12) {
                self.change(&mut sql, at)?;
            } else if sql.run(&self.tables[at].rows(&mut self.random)).is_err() {
                // A key that is taken, for one.
                roll_back(&mut sql)?;
            }
            std::thread::sleep(Duration::from_millis(self.random.below(60)));
        }
        Ok((self.tables, self.changes))
    }

    /// A change by itself, or in a transaction with rows before and after it, which may be rolled back.
    fn change(&mut self, sql: &mut Sql, at: usize) -> anyhow::Result<()> {
        let table = &self.tables[at];
        let change = table.change(&mut self.random);
        let in_transaction = sql.kind() == Kind::Postgres && self.random.chance(40);
        let (before, after) = (table.rows(&mut self.random), change.after.rows(&mut self.random));
        let takes = !in_transaction || self.random.chance(80);
        let statements = if in_transaction {
            let end = if takes { "commit" } else { "rollback" };
            format!("begin; {before}; {}; {after}; {end}", change.sql)
        } else {
            change.sql.clone()
        };
        if sql.run(&statements).is_err() {
            return roll_back(sql);
        }
        if takes {
            self.tables[at] = change.after;
            *self.changes.entry(change.what).or_default() += 1;
        }
        Ok(())
    }
}

fn roll_back(sql: &mut Sql) -> anyhow::Result<()> {
    sql.run("rollback").context("a writer lost its connection")
}

//! The crash suite: a mixed load on a real source while calve is killed, the database restarted and local state damaged;
//! after each round the tables must equal the source.
//!
//! A seed fixes every choice made here. What the processes do meanwhile depends on the machine, so that the same seed
//! visits the same faults, not the same instructions.

mod check;
mod failpoints;
mod local_state;
mod options;
mod round;
mod transactions;
mod workload;

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use calve_testkit::servers::{Kind as Source, Options as ServerOptions, REPLICATION_USER, Server};

pub use failpoints::ALL as FAILPOINTS;
pub(crate) use options::source_of;
pub use options::{Mutation, Options};
pub(crate) use transactions::DATABASE;

use check::{Checker, Verdict};
use failpoints::Coverage;
use local_state::LocalState;
use round::Round;
use transactions::{PARTITIONS, Script};
use workload::Load;

use crate::directory::Directory;
use crate::pipeline::Pipeline;
use crate::random::Random;
use crate::sql::Sql;

/// How a campaign went.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Rounds finished.
    pub rounds: u32,
    /// Times that calve was ended without a chance to clean up.
    pub kills: u32,
    /// Rows of the source that a table did not have just so, and invariants that did not hold.
    pub lost: usize,
    /// Rows of tables that the source did not have, and keys found twice.
    pub duplicated: usize,
    /// What went wrong, where it is not a row.
    pub failures: Vec<String>,
}

impl Report {
    /// Whether nothing went wrong.
    pub fn is_clean(&self) -> bool {
        self.lost == 0 && self.duplicated == 0 && self.failures.is_empty()
    }
}

/// Runs a campaign; what it does is printed as it goes. An error is one of the test's own means; what calve does wrong is
/// in the report.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    println!("seed {} (repeat with --seed {})", options.seed, options.seed);
    let mut directory = Directory::new("crash")?;
    let mut campaign = Campaign::begin(options, &directory)?;
    let outcome = campaign.rounds();
    let report = campaign.report;
    // With a rule broken the failure is what was wanted.
    if options.mutation.is_none() && (outcome.is_err() || !report.is_clean()) {
        directory.keep();
        println!("evidence: the lake and all logs are in {}", directory.path().display());
    }
    outcome.map(|()| report)
}

struct Campaign<'a> {
    options: &'a Options,
    random: Random,
    server: Server,
    script: Script,
    sql: Sql,
    pipeline: Pipeline,
    state: LocalState,
    checker: Checker,
    coverage: Coverage,
    load: Load,
    report: Report,
}

impl<'a> Campaign<'a> {
    fn begin(options: &'a Options, directory: &Directory) -> anyhow::Result<Self> {
        let script = Script::of(options.source);
        let mut settings = ServerOptions::default();
        for (name, value) in script.settings {
            settings = settings.set(name, value);
        }
        for (name, value) in &options.settings {
            settings = settings.set(name, value);
        }
        let server = Server::start(options.source, &options.version, &settings)?;
        let writer = make_database(&server)?;
        let mut sql = Sql::connect(&server.url(options.source.superuser(), DATABASE)?)?;
        println!("source: {} {} ({})", options.source, options.version, sql.value("select version()")?);
        sql.run(script.schema)?;
        let source = server.url(REPLICATION_USER, DATABASE)?;
        let namespace = script.namespace;
        let laid_out = PARTITIONS.iter().map(|(table, how)| format!("{{name: {namespace}.{table}, {how}}}"));
        let tables: Vec<String> = laid_out.chain([format!("{namespace}.*")]).collect();
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        let mut pipeline = Pipeline::new(directory.path(), "crash", &source, &tables)
            .checkpoint("interval", "200ms")
            .checkpoint("idle_interval", "500ms")
            // A transaction beyond this is staged in pieces.
            .checkpoint("rows", "1000")
            .with(&format!("exclude: [{namespace}.unfollowed]"))
            // Snapshots expire while the suite runs.
            .with("expiry:\n  age: 10s\n  min_snapshots: 20\n  max_snapshots: 200");
        if let Some(mutation) = options.mutation {
            pipeline = pipeline.variable("CALVE_MUTATION", mutation.name());
        }
        let mut random = Random::new(options.seed);
        let load = Load::new(script, server.url(writer, DATABASE)?, &mut random);
        let state = LocalState::new(pipeline.lake().positions(pipeline.name()), directory.path().join("older"));
        let coverage = Coverage::new(options.source, options.mutation);
        Ok(Self {
            options,
            random,
            server,
            script,
            sql,
            pipeline,
            state,
            checker: Checker::default(),
            coverage,
            load,
            report: Report::default(),
        })
    }

    fn rounds(&mut self) -> anyhow::Result<()> {
        self.pipeline.once().context("the first load")?;
        let began = Instant::now();
        for number in 1..=self.options.rounds {
            self.round(number)?;
            if !self.report.is_clean() {
                break;
            }
        }
        println!("load: {}", self.load.summary());
        println!("{}", self.coverage);
        println!("{:.0} s for {} rounds", began.elapsed().as_secs_f64(), self.report.rounds);
        if self.report.is_clean() && self.options.mutation.is_none() {
            self.require_breadth()?;
        }
        Ok(())
    }

    /// A full campaign that left something out proves less than it says.
    fn require_breadth(&mut self) -> anyhow::Result<()> {
        ensure!(
            self.report.rounds == 0 || self.load.idle_kinds().is_empty(),
            "no transaction succeeded of these kinds: {:?}",
            self.load.idle_kinds()
        );
        let missed = self.coverage.missed();
        if self.report.rounds >= failpoints::ROUNDS_FOR_ALL && !missed.is_empty() {
            self.report.failures.push(format!("failpoints never hit: {}", missed.join(", ")));
        }
        Ok(())
    }

    fn round(&mut self, number: u32) -> anyhow::Result<()> {
        let began = Instant::now();
        let mut round = Round {
            random: self.random.fork(),
            server: &self.server,
            namespace: self.script.namespace,
            pipeline: &self.pipeline,
            state: &mut self.state,
            coverage: &mut self.coverage,
            mutation: self.options.mutation,
            deeds: Vec::new(),
            kills: 0,
        };
        let running = self.load.start();
        let outcome = round.run(Duration::from_secs(self.options.seconds));
        running.stop()?;
        let (deeds, kills) = (std::mem::take(&mut round.deeds), round.kills);
        self.report.kills += kills;
        println!("round {number}: {}", deeds.join(", "));
        if let Err(failure) = outcome {
            self.report.failures.push(format!("{failure:#}"));
            println!("round {number}: FAILED: {failure:#}");
            return Ok(());
        }
        // The server may be on its way up, and its restart has cut this connection.
        self.sql = Sql::connect_patiently(
            &self.server.url(self.options.source.superuser(), DATABASE)?,
            Duration::from_mins(1),
        )?;
        if let Err(failure) = self.pipeline.once() {
            self.report.failures.push(format!("catching up: {failure:#}"));
            println!("round {number}: FAILED to catch up: {failure:#}");
            return Ok(());
        }
        let caught_up = began.elapsed();
        let verdict = self.checker.check(&mut self.sql, self.pipeline.lake(), &self.script, &mut self.random)?;
        self.report.rounds += 1;
        self.judge(number, &verdict, caught_up, began.elapsed());
        if self.report.is_clean() {
            self.trim(&verdict.crowded)?;
        }
        Ok(())
    }

    /// Reads tables again that have so many delete files that reading them is what takes the time.
    fn trim(&self, crowded: &[&'static str]) -> anyhow::Result<()> {
        for table in crowded {
            self.pipeline.finish(&["reload", &format!("{}.{table}", self.script.namespace)])?.expect_success()?;
        }
        Ok(())
    }

    fn judge(&mut self, number: u32, verdict: &Verdict, caught_up: Duration, took: Duration) {
        self.report.lost += verdict.lost;
        self.report.duplicated += verdict.duplicated;
        if verdict.complaints.is_empty() {
            println!(
                "round {number}: {} rows equal, {} snapshots sampled; {:.1} s, {:.1} s until caught up",
                verdict.rows,
                verdict.sampled,
                took.as_secs_f64(),
                caught_up.as_secs_f64()
            );
        }
        for complaint in &verdict.complaints {
            println!("round {number}: FAILED: {complaint}");
        }
    }
}

/// Makes the database of the load, and returns the user that the load writes as: calve's own where that owns tables, else
/// the superuser.
pub(crate) fn make_database(server: &Server) -> anyhow::Result<&'static str> {
    let kind = server.kind();
    let (within, statement, writer) = match kind {
        Source::Postgres => {
            ("postgres", format!("create database {DATABASE} owner {REPLICATION_USER}"), REPLICATION_USER)
        }
        Source::MySql | Source::MariaDb => ("mysql", format!("create database {DATABASE}"), kind.superuser()),
    };
    server.sql(within, &statement)?;
    Ok(writer)
}

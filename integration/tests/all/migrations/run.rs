//! All fixtures of one server under one calve: each has a schema (in MySQL and MariaDB a database) of its own, and they go forward
//! together, step by step. Every one that fails is told of, not the first alone.
//!
//! When a step is done everywhere, two rows are written one after the other to a table beside: a checkpoint is not begun to be
//! committed before the one before it is complete on all tables, so once the second row is in the lake the step is as well.

use anyhow::{Context, bail, ensure};
use calve_integration::binary::Running;
use calve_integration::pipeline::{TableState, until};
use calve_integration::readers;
use calve_integration::sql::Sql;
use calve_testkit::readers::Reader;
use calve_testkit::servers::{Kind, REPLICATION_USER, Server};

use super::expected::{self, Block, Outcome};
use super::fixture::{self, Fixture};
use super::look::Look;
use super::script::{Statement, word};
use super::table::Name;
use crate::case::Case;

/// Where calve is while the changes are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It runs, and is seen to have followed each step before the next one is made.
    Running,
    /// It is away: it finds all of them in one stretch of the log.
    Away,
}

impl Way {
    fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Away => "away",
        }
    }
}

/// Runs every fixture that is for this server.
pub(super) fn all(server: &Server, way: Way) -> anyhow::Result<()> {
    let fixtures = fixture::of(server.kind())?;
    let ours = fixtures.iter().filter(|fixture| fixture.script.is_for(server.kind(), server.version()));
    let (text, binary): (Vec<_>, Vec<_>) = ours.partition(|fixture| fixture.script.streams_text);
    let mut failures = Vec::new();
    for group in [binary, text] {
        if !group.is_empty() {
            failures.extend(Run::new(server, way, &group)?.go()?);
        }
    }
    ensure!(failures.is_empty(), "{} {}, {}:\n{}", server.kind(), server.version(), way.word(), failures.join("\n"));
    Ok(())
}

/// The table beside that shows how far calve is.
const MARKER: &str = "marker";

/// Fixtures that go forward together.
struct Run<'a> {
    way: Way,
    case: Case,
    /// For looking at the source, apart from what scripts have open in their sessions.
    reader: Sql,
    migrations: Vec<Migration<'a>>,
    /// Rows in the table beside.
    markers: u32,
    /// What failed for all of them.
    failures: Vec<String>,
}

/// A fixture on its way.
struct Migration<'a> {
    fixture: &'a Fixture,
    blocks: Vec<&'a Block>,
    schema: String,
    sql: Sql,
    failures: Vec<String>,
    /// Steps done.
    step: usize,
}

impl Migration<'_> {
    fn name_of(&self, block: &Block) -> Name {
        Name { schema: self.schema.clone(), table: block.table.clone() }
    }

    /// Runs statements up to the first that does not go as it should.
    fn run(&mut self, statements: &[Statement]) {
        for statement in statements {
            let what = match self.sql.run(&statement.sql) {
                Ok(()) if statement.fails => "the server took what it must refuse".to_owned(),
                Err(error) if !statement.fails => format!("the server refused it: {error:#}"),
                _ => continue,
            };
            self.failures.push(format!("step {}: {}\n    {what}", self.step, statement.sql));
            return;
        }
    }

    fn fail(&mut self, table: &Name, what: &str) {
        self.failures.push(format!("step {}: table {}: {what}", self.step, table.table));
    }
}

impl<'a> Run<'a> {
    fn new(server: &Server, way: Way, fixtures: &[&'a Fixture]) -> anyhow::Result<Self> {
        let beside = format!("create table {MARKER} (n int primary key)");
        let case = Case::on(server, "migrations", &beside, &[])?;
        let kind = server.kind();
        let owner = if kind == Kind::Postgres { REPLICATION_USER } else { kind.superuser() };
        let url = case.database.url(owner)?;
        let mut reader = Sql::connect(&url)?;
        let words = [way.word(), word(kind), server.version(), row_metadata(&mut reader)?];
        let mut migrations = Vec::new();
        for &fixture in fixtures {
            let name = &fixture.name;
            let mut sql = Sql::connect(&url)?;
            let schema = if kind == Kind::Postgres { name.clone() } else { format!("{}_{name}", case.database.name()) };
            sql.run(&if kind == Kind::Postgres {
                format!("create schema {schema}; set search_path to {schema}")
            } else {
                format!("create database {schema}; use {schema}")
            })?;
            let blocks = expected::of_run(&fixture.blocks, &words).with_context(|| name.clone())?;
            let mut migration = Migration { fixture, blocks, schema, sql, failures: Vec::new(), step: 0 };
            migration.run(&fixture.script.before);
            migrations.push(migration);
        }
        Ok(Self { way, case, reader, migrations, markers: 0, failures: Vec::new() })
    }

    /// All the way; what failed is returned.
    fn go(mut self) -> anyhow::Result<Vec<String>> {
        let marker = Name { schema: self.marker_schema(), table: MARKER.to_owned() };
        let mut tables = vec![marker.quoted()];
        for migration in self.migrations.iter().filter(|migration| migration.failures.is_empty()) {
            tables.extend(migration.blocks.iter().map(|block| migration.name_of(block).quoted()));
        }
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        self.case.pipeline = self.case.pipeline.clone().tables(&tables);
        match self.way {
            Way::Running => self.running()?,
            Way::Away => self.away()?,
        }
        self.check_final();
        self.report()
    }

    fn running(&mut self) -> anyhow::Result<()> {
        let mut calve = self.case.pipeline.start()?;
        until("all tables to be loaded", || {
            let loaded = |state: &TableState| !matches!(state.state.as_str(), "pending" | "loading");
            Ok(calve.ended()?.is_some() || self.case.pipeline.states()?.values().all(loaded))
        })?;
        self.await_marker(&mut calve)?;
        self.check(|_| true)?;
        let steps = self.migrations.iter().map(|migration| migration.fixture.script.changes.len()).max().unwrap_or(0);
        for step in 1..=steps {
            for migration in &mut self.migrations {
                if let Some(change) = migration.fixture.script.changes.get(step - 1) {
                    migration.step = step;
                    if migration.failures.is_empty() {
                        migration.run(change);
                    }
                }
            }
            self.await_marker(&mut calve)?;
            self.check(|migration| migration.step == step)?;
        }
        self.reload()?;
        self.last_words();
        self.await_marker(&mut calve)?;
        self.check(|_| true)?;
        let finished = calve.terminate()?;
        // What it says when it changes over; fixtures that are the reason belong to those that stream text.
        let turned = finished.stderr.lines().find(|line| line.contains("the stream begins again in text form"));
        let text = self.migrations.iter().any(|migration| migration.fixture.script.streams_text);
        ensure!(
            text || turned.is_none(),
            "a script lacks the line \"-- stream: text\": {}",
            turned.unwrap_or_default()
        );
        // Nothing is done to a table twice, and nothing is left to do.
        self.once()
    }

    fn away(&mut self) -> anyhow::Result<()> {
        self.case.pipeline.once()?;
        self.check(|_| true)?;
        for migration in &mut self.migrations {
            for change in &migration.fixture.script.changes {
                migration.step += 1;
                if migration.failures.is_empty() {
                    migration.run(change);
                }
            }
        }
        self.once()?;
        self.check(|_| true)?;
        self.reload()?;
        self.last_words();
        self.once()?;
        self.check(|_| true)
    }

    /// Catches up and leaves; that tables are stopped is for [`check`](Self::check).
    fn once(&self) -> anyhow::Result<()> {
        let finished = self.case.pipeline.finish(&["run", "--once"])?;
        if finished.code == Some(3) { Ok(()) } else { finished.expect_success().map(drop) }
    }

    fn marker_schema(&self) -> String {
        match self.case.sql.kind() {
            Kind::Postgres => "public".to_owned(),
            Kind::MySql | Kind::MariaDb => self.case.database.name().to_owned(),
        }
    }

    /// Returns when everything that was written before is in the lake, wherever it goes there.
    fn await_marker(&mut self, calve: &mut Running) -> anyhow::Result<()> {
        let schema = self.marker_schema();
        for _ in 0..2 {
            self.markers += 1;
            self.case.sql.run(&format!("insert into {MARKER} values ({})", self.markers))?;
            let query = format!("select count(*) from t where n = {}", self.markers);
            until("the table beside", || {
                if let Some(ended) = calve.ended()? {
                    bail!("calve ended: {:?}\n{}", ended.complaint(), ended.stderr);
                }
                // It may not be there yet, or move on while it is read.
                let Ok(table) = self.case.lake().table(&schema, MARKER) else { return Ok(false) };
                let found = readers::duckdb(|duckdb| Ok(duckdb.query_table(&table, &query)?));
                Ok(found.is_ok_and(|found| found.single() == Some("1")))
            })?;
        }
        Ok(())
    }

    /// Holds tables of these fixtures to what is expected of them after the step that they are at.
    fn check(&mut self, chosen: impl Fn(&Migration<'_>) -> bool) -> anyhow::Result<()> {
        let mut look = Look::new(self.way, &self.case, &mut self.reader)?;
        let chosen = |migration: &&mut Migration<'_>| chosen(migration) && migration.failures.is_empty();
        for migration in self.migrations.iter_mut().filter(chosen) {
            let read_again = migration.step > migration.fixture.script.changes.len();
            for block in migration.blocks.clone() {
                let name = migration.name_of(block);
                if let Some(what) = look.wrong(&name, block, migration.step, read_again)? {
                    migration.fail(&name, &what);
                }
            }
        }
        Ok(())
    }

    /// Reads again what stopped, and what differs without a word.
    fn reload(&mut self) -> anyhow::Result<()> {
        let mut again = Vec::new();
        for migration in &mut self.migrations {
            migration.step = migration.fixture.script.changes.len() + 1;
            if !migration.failures.is_empty() {
                continue;
            }
            for block in migration.blocks.clone() {
                let name = migration.name_of(block);
                match block.outcome {
                    Outcome::GoesOn => {}
                    Outcome::Stops { .. } | Outcome::Unnoticed { .. } => again.push(name.quoted()),
                    Outcome::Gone { .. } => {
                        let finished = self.case.pipeline.finish(&["reload", &name.quoted()])?;
                        if finished.code == Some(0) {
                            migration.fail(&name, "it was read again, where it was held to be gone");
                        }
                    }
                }
            }
        }
        if !again.is_empty() {
            let words: Vec<&str> = std::iter::once("reload").chain(again.iter().map(String::as_str)).collect();
            let finished = self.case.pipeline.finish(&words)?;
            if finished.code != Some(0) {
                self.failures.push(format!("calve reload: {}", finished.complaint().unwrap_or(&finished.stderr)));
            }
        }
        Ok(())
    }

    /// What scripts write at last.
    fn last_words(&mut self) {
        for migration in self.migrations.iter_mut().filter(|migration| migration.failures.is_empty()) {
            migration.run(&migration.fixture.script.after);
        }
    }

    /// Holds all tables to what they must have become.
    fn check_final(&mut self) {
        for migration in self.migrations.iter_mut().filter(|migration| migration.failures.is_empty()) {
            for block in migration.blocks.clone() {
                let name = migration.name_of(block);
                let found = match name.state(self.case.lake()) {
                    Ok(found) => found,
                    Err(error) => {
                        migration.fail(&name, &format!("it cannot be read: {error:#}"));
                        continue;
                    }
                };
                if let Some(difference) = expected::difference(&block.state, &found) {
                    let whole = Block { state: found, ..block.clone() };
                    migration
                        .fail(&name, &format!("it is not what is expected:\n{difference}  found, whole:\n{whole}"));
                }
            }
        }
    }

    fn report(mut self) -> anyhow::Result<Vec<String>> {
        let mut failures = std::mem::take(&mut self.failures);
        for migration in &self.migrations {
            failures.extend(migration.failures.iter().map(|failure| format!("{}: {failure}", migration.fixture.name)));
        }
        if self.case.sql.kind() != Kind::Postgres {
            for migration in &self.migrations {
                self.case.sql.run(&format!("drop database {}", migration.schema))?;
            }
        }
        if failures.is_empty() {
            self.case.pass()?;
        }
        Ok(failures)
    }
}

/// Whether the log names the columns of its rows.
fn row_metadata(sql: &mut Sql) -> anyhow::Result<&'static str> {
    let names_columns = match sql.kind() {
        Kind::Postgres => true,
        Kind::MySql | Kind::MariaDb => sql.value("select @@global.binlog_row_metadata")? == "FULL",
    };
    Ok(if names_columns { "full" } else { "minimal" })
}

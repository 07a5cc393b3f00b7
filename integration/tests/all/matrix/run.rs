//! The phases: loaded, streamed by a running calve, written while it was away.

use anyhow::{Context, ensure};
use calve_integration::compare::{self, Differences, Pair, SourceRows};
use calve_integration::readers;
use calve_integration::sql::TextRows;
use calve_testkit::readers::Reader;

use super::keys::Keys;
use super::plain::Plain;
use crate::case::Case;

/// When the rows come that are written before the load, while calve runs, and while it is away.
const LOADED: usize = 0;
const STREAMED: usize = 1;
const AWAY: usize = 2;
/// Where rows go whose key becomes another one.
const MOVED: usize = 3;
/// Rows that stay as they were loaded, as they were streamed, and as loaded ones became by the stream.
const KEPT_LOADED: usize = 4;
const KEPT_STREAMED: usize = 5;
const KEPT_CHANGED: usize = 6;

/// What Spark is asked for, once and in the end, since it takes its time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BySpark {
    Nothing,
    /// What became of the rows.
    Rows,
    /// These, and rows that each of the phases left.
    RowsOfEachPhase,
}

/// All tables of a server.
pub(super) struct Matrix {
    pub(super) source: Source,
    pub(super) plain: Vec<Plain>,
    pub(super) keys: Vec<Keys>,
}

/// The server's side.
pub(super) struct Source {
    pub(super) case: Case,
    /// The namespace of the tables.
    pub(super) schema: String,
    /// Set while the server is asked for what it prints, and taken back.
    pub(super) while_printing: [&'static str; 2],
    /// Put the session into another character set, of which its statements may leave traces in the log, and back.
    pub(super) in_another_encoding: [&'static str; 2],
}

impl Matrix {
    /// The tables' names, as calve has them.
    pub(super) fn tables(&self) -> Vec<String> {
        let names = self.plain.iter().map(|table| &table.name).chain(self.keys.iter().map(|table| &table.name));
        names.map(|name| format!("{}.{name}", self.source.schema)).collect()
    }

    /// Every step with every type, and after each DuckDB shows what the server prints; in the end so does Spark, where it is asked.
    /// `streaming` may look at the calve that runs.
    pub(super) fn run(
        &mut self,
        by_spark: BySpark,
        streaming: impl FnOnce(&mut Case) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.write(|table| table.create() + &table.insert(LOADED, 0), |table| table.create() + &table.insert(LOADED))?;
        if by_spark == BySpark::RowsOfEachPhase {
            self.write(
                |table| table.insert(KEPT_LOADED, 0) + &table.insert(KEPT_CHANGED, 0),
                |table| table.insert(KEPT_LOADED) + &table.insert(KEPT_CHANGED),
            )?;
        }
        self.source.case.pipeline.once().context("loading")?;
        self.same().context("what was loaded")?;

        let calve = self.source.case.pipeline.start()?;
        self.write(|table| table.insert(STREAMED, 0), |table| table.insert(STREAMED))?;
        if by_spark == BySpark::RowsOfEachPhase {
            self.write(
                |table| table.insert(KEPT_STREAMED, 0) + &table.update(KEPT_CHANGED, 1),
                |table| table.insert(KEPT_STREAMED) + &table.change(KEPT_CHANGED),
            )?;
        }
        self.await_same().context("what was streamed")?;
        streaming(&mut self.source.case)?;
        self.write(
            |table| table.update(LOADED, 1) + &table.update(STREAMED, 1),
            |table| table.change(LOADED) + &table.change(STREAMED),
        )?;
        self.await_same().context("what was changed")?;
        calve.terminate()?;

        self.write(
            |table| table.insert(AWAY, 0) + &table.update(LOADED, 2) + &table.replace(STREAMED, 2),
            |table| table.insert(AWAY) + &table.finish(LOADED) + &table.finish(STREAMED),
        )?;
        let [before, after] = self.source.in_another_encoding;
        self.source.case.sql.run(before)?;
        self.write(|table| table.move_rows(LOADED, MOVED), |_| "select 1".to_owned())?;
        self.source.case.sql.run(after)?;
        self.write(|table| table.update(AWAY, 1) + &table.insert(LOADED, 3), |table| table.change(AWAY))?;
        self.source.case.pipeline.once().context("after the restart")?;
        let shown = self.same().context("what was written while calve was away")?;
        let shown_by_spark = if by_spark == BySpark::Nothing { Vec::new() } else { self.same_by_spark()? };
        self.source.case.pipeline.finish(&["verify"])?.expect_success()?;
        self.another_value_is_noticed(&shown, &shown_by_spark)
    }

    fn write(&mut self, plain: impl Fn(&Plain) -> String, keys: impl Fn(&Keys) -> String) -> anyhow::Result<()> {
        let statements = self.plain.iter().map(plain).chain(self.keys.iter().map(keys));
        for sql in statements.collect::<Vec<_>>() {
            self.source.case.sql.run(&sql)?;
        }
        Ok(())
    }

    /// Waits until DuckDB shows what the server prints, or says of each cell how it differs.
    fn await_same(&mut self) -> anyhow::Result<()> {
        let tables = self.tables();
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        let [before, after] = self.source.while_printing;
        self.source.case.sql.run(before)?;
        let awaited = self.source.case.await_same(&tables);
        self.source.case.sql.run(after)?;
        if awaited.is_err() {
            self.same()?;
        }
        awaited
    }

    fn same(&mut self) -> anyhow::Result<Vec<TextRows>> {
        readers::duckdb(|duckdb| self.same_by("DuckDB", |_| true, duckdb))
    }

    fn same_by_spark(&mut self) -> anyhow::Result<Vec<TextRows>> {
        readers::spark(|spark| self.same_by("Spark", |by_spark| by_spark, spark))
    }

    /// Fails unless a reader shows what the server prints. Returns the rows of the plain tables that it can show.
    fn same_by(
        &mut self,
        name: &str,
        shown_by: fn(bool) -> bool,
        reader: &mut impl Reader,
    ) -> anyhow::Result<Vec<TextRows>> {
        let mut rows = Vec::new();
        for table in self.plain.iter().filter(|table| shown_by(table.by_spark())) {
            let shown = self.source.shown(&table.name, reader)?;
            table.same(&self.source.printed(&table.name)?, &shown, name)?;
            rows.push(shown);
        }
        for table in self.keys.iter().filter(|table| shown_by(table.by_spark())) {
            let shown = self.source.shown(&table.name, reader)?;
            let found = Differences::between(&self.source.printed(&table.name)?, &shown);
            ensure!(found.is_empty(), "{name} shows otherwise:\n{found}\n{}", table.create());
        }
        Ok(rows)
    }

    /// Had a value become the one beside it, the comparison would have told so, of each type and by each reader.
    fn another_value_is_noticed(&mut self, by_duckdb: &[TextRows], by_spark: &[TextRows]) -> anyhow::Result<()> {
        self.write(
            |table| {
                let changed = [(LOADED, 4), (MOVED, 3), (STREAMED, 3), (AWAY, 2)];
                let kept = [(KEPT_LOADED, 1), (KEPT_STREAMED, 1), (KEPT_CHANGED, 2)];
                changed.iter().chain(&kept).map(|&(phase, by)| table.update(phase, by)).collect()
            },
            |_| "select 1".to_owned(),
        )?;
        for (table, shown) in self.plain.iter().zip(by_duckdb) {
            table.tells_all_apart(&self.source.printed(&table.name)?, shown, "DuckDB")?;
        }
        for (table, shown) in self.plain.iter().filter(|table| table.by_spark()).zip(by_spark) {
            table.tells_all_apart(&self.source.printed(&table.name)?, shown, "Spark")?;
        }
        Ok(())
    }
}

impl Source {
    fn shown(&self, name: &str, reader: &mut impl Reader) -> anyhow::Result<TextRows> {
        let table = self.case.lake().table(&self.schema, name)?;
        Ok(reader.query_table(&table, "select * from t").with_context(|| format!("reading {name}"))?.rows)
    }

    fn printed(&mut self, name: &str) -> anyhow::Result<SourceRows> {
        let [before, after] = self.while_printing;
        self.case.sql.run(before)?;
        let rows = compare::SourceRows::read(&mut self.case.sql, &Pair::named(&format!("{}.{name}", self.schema)))?;
        self.case.sql.run(after)?;
        Ok(rows)
    }
}

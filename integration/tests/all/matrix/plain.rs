//! Types as columns beside the key.
//!
//! Row `n` of a column has its value number `n`, counted on over its values and NULL. A row that is changed gets the values next to its own.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use calve_integration::compare::SourceRows;
use calve_integration::sql::TextRows;

use super::types::Type;

/// A table of `id` and one column for each of the types.
pub(super) struct Plain {
    pub(super) name: String,
    types: Vec<Type>,
}

/// Rows of a phase begin at a multiple of this.
const PHASE: usize = 1000;

impl Plain {
    pub(super) fn new(name: String, types: Vec<Type>) -> Self {
        Self { name, types }
    }

    pub(super) fn by_spark(&self) -> bool {
        self.types.iter().all(|ty| ty.by_spark)
    }

    pub(super) fn create(&self) -> String {
        let columns = self.types.iter().enumerate().map(|(at, ty)| format!("c{at} {} null", ty.sql));
        format!("create table {} (id int primary key, {});\n", self.name, columns.collect::<Vec<_>>().join(", "))
    }

    /// Names of the types' columns.
    pub(super) fn columns(&self) -> impl Iterator<Item = String> {
        (0..self.types.len()).map(|at| format!("c{at}"))
    }

    /// As an entry of a pipeline's tables, each column to be text.
    pub(super) fn as_texts(&self, schema: &str) -> String {
        let columns: Vec<String> = self.columns().map(|column| format!("{column}: {{type: string}}")).collect();
        format!("{{name: {schema}.{}, columns: {{{}}}}}", self.name, columns.join(", "))
    }

    /// As many as the column with most values needs.
    fn rows(&self) -> usize {
        self.types.iter().map(|ty| ty.values.len() + 1).max().unwrap_or(0)
    }

    /// `c0 = value, c1 = value, ..` of row `n`.
    fn cells(&self, n: usize) -> impl Iterator<Item = &str> {
        self.types.iter().map(move |ty| ty.values.get(n % (ty.values.len() + 1)).map_or("null", String::as_str))
    }

    /// The rows of a phase, each with the values `by` further on.
    pub(super) fn insert(&self, phase: usize, by: usize) -> String {
        let row = |n: usize| {
            let cells: Vec<&str> = self.cells(n + by).collect();
            format!("insert into {} values ({}, {});\n", self.name, phase * PHASE + n, cells.join(", "))
        };
        (0..self.rows()).map(row).collect()
    }

    /// Each row of a phase gets the values `by` further on than its first.
    pub(super) fn update(&self, phase: usize, by: usize) -> String {
        let row = |n: usize| {
            let cells: Vec<String> =
                self.cells(n + by).enumerate().map(|(at, cell)| format!("c{at} = {cell}")).collect();
            format!("update {} set {} where id = {};\n", self.name, cells.join(", "), phase * PHASE + n)
        };
        (0..self.rows()).map(row).collect()
    }

    /// The rows of a phase go, and come again otherwise.
    pub(super) fn replace(&self, phase: usize, by: usize) -> String {
        let within = format!("id between {} and {}", phase * PHASE, phase * PHASE + PHASE - 1);
        format!("delete from {} where {within};\n{}", self.name, self.insert(phase, by))
    }

    /// The rows of a phase get other keys, and keep all else.
    pub(super) fn move_rows(&self, phase: usize, to: usize) -> String {
        let within = format!("id between {} and {}", phase * PHASE, phase * PHASE + PHASE - 1);
        format!("update {} set id = id - {} + {} where {within};\n", self.name, phase * PHASE, to * PHASE)
    }

    /// Fails unless a reader has shown what the server prints, with the cells that it has not.
    pub(super) fn same(&self, source: &SourceRows, found: &TextRows, reader: &str) -> anyhow::Result<()> {
        self.same_rows(&source.rows, found, reader)
    }

    pub(super) fn same_rows(&self, source: &TextRows, found: &TextRows, reader: &str) -> anyhow::Result<()> {
        let differing = self.differing(source, found)?;
        let told = differing.iter().take(20).map(|(at, id, [printed, shown])| {
            format!("{} ({}, id {id}): {printed:.200?} is shown as {shown:.200?}", self.types[*at].sql, self.name)
        });
        ensure!(
            differing.is_empty(),
            "{reader} shows {} cells otherwise:\n{}",
            differing.len(),
            told.collect::<Vec<_>>().join("\n")
        );
        Ok(())
    }

    /// Fails unless every cell is told from the one beside it: the source was changed, and the reader's rows are those of before.
    pub(super) fn tells_all_apart(&self, source: &SourceRows, found: &TextRows, reader: &str) -> anyhow::Result<()> {
        let differing = self.differing(&source.rows, found)?;
        let mut count = vec![0; self.types.len()];
        for (at, ..) in &differing {
            count[*at] += 1;
        }
        for ((ty, count), at) in self.types.iter().zip(count).zip(1..) {
            let same = |row: &&Vec<Option<String>>| {
                !differing.iter().any(|(c, id, _)| c + 1 == at && Some(id) == row[0].as_ref())
            };
            let values: Vec<_> = source.rows.iter().filter(same).map(|row| row[at].as_deref()).take(3).collect();
            ensure!(
                count == source.rows.len(),
                "{reader}: a value of {} that became another one is still the same to the comparison: {values:.200?}",
                ty.sql
            );
        }
        Ok(())
    }

    /// Column, id, and what the server and the reader have there.
    #[expect(clippy::type_complexity, reason = "of one use")]
    fn differing<'a>(
        &self,
        source: &'a TextRows,
        found: &'a TextRows,
    ) -> anyhow::Result<Vec<(usize, String, [Option<&'a str>; 2])>> {
        let id = |row: &Vec<Option<String>>| row.first().cloned().flatten().unwrap_or_default();
        let rows: BTreeMap<String, &Vec<Option<String>>> = found.iter().map(|row| (id(row), row)).collect();
        ensure!(rows.len() == found.len(), "{}: {} rows of {} keys", self.name, found.len(), rows.len());
        ensure!(rows.len() == source.len(), "{}: {} rows and not {}", self.name, found.len(), source.len());
        let mut differing = Vec::new();
        for printed in source {
            let shown =
                rows.get(&id(printed)).with_context(|| format!("{}: row {} is missing", self.name, id(printed)))?;
            ensure!(shown.len() == printed.len() && shown.len() == self.types.len() + 1);
            for (at, (printed_cell, shown_cell)) in printed.iter().zip(shown.iter()).enumerate().skip(1) {
                if printed_cell != shown_cell {
                    differing.push((at - 1, id(printed), [printed_cell.as_deref(), shown_cell.as_deref()]));
                }
            }
        }
        Ok(differing)
    }
}

//! One table of a fixture: as the lake has it, and beside its source.

use anyhow::Context;
use calve_integration::compare::{Differences, Pair, SourceRows};
use calve_integration::lake::{Lake, TableMetadata};
use calve_integration::readers;
use calve_integration::sql::Sql;
use calve_testkit::readers::{Reader, Rows};
use serde_json::Value;

use super::expected::{Column, State};

/// What the source's documentation of a dropped column begins with.
const DROPPED: &str = "dropped at the source";

/// A table by the names that it has on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// The schema or database of its script.
    pub(super) schema: String,
    pub(super) table: String,
}

impl Name {
    /// As configuration and commands take it.
    pub(super) fn quoted(&self) -> String {
        format!("{}.\"{}\"", self.schema, self.table.replace('"', "\"\""))
    }

    /// As `status` shows it.
    pub(super) fn shown(&self) -> String {
        format!("{}.{}", self.schema, self.table)
    }

    fn pair(&self) -> Pair {
        let name = (self.schema.as_str(), self.table.as_str());
        Pair::new(name, name)
    }

    /// How it differs from its source in the columns that both have: the source may have some that the log does not carry,
    /// the lake those that were dropped. What the columns must be, the expectation says.
    pub(super) fn differences(&self, sql: &mut Sql, lake: &Lake) -> anyhow::Result<Option<String>> {
        let source = SourceRows::read(sql, &self.pair())?;
        let read = self.read(&lake.metadata(&self.schema, &self.table)?)?;
        let shared: Vec<(usize, usize)> = (0..source.columns.len())
            .filter_map(|at| Some((at, read.columns.iter().position(|column| *column == source.columns[at])?)))
            .collect();
        let chosen = |rows: &[Vec<Option<String>>], at: fn(&(usize, usize)) -> usize| {
            rows.iter().map(|row| shared.iter().map(|pair| row[at(pair)].clone()).collect()).collect()
        };
        let place = |key: &usize| shared.iter().position(|(at, _)| at == key);
        let key: Option<Vec<usize>> = source.key.iter().map(place).collect();
        let Some(key) = key else { return Ok(Some("a column of the source's key is not in the lake".to_owned())) };
        let columns = shared.iter().map(|(at, _)| source.columns[*at].clone()).collect();
        let source = SourceRows { columns, key, rows: chosen(&source.rows, |pair| pair.0) };
        let found = Differences::between(&source, &chosen(&read.rows, |pair| pair.1));
        Ok((!found.is_empty()).then(|| found.to_string()))
    }

    fn read(&self, metadata: &TableMetadata) -> anyhow::Result<Rows> {
        readers::duckdb(|duckdb| Ok(duckdb.query_table(&metadata.current(), "select * from t")?))
            .with_context(|| format!("reading {}", self.shown()))
    }

    /// As the lake has it.
    pub(super) fn state(&self, lake: &Lake) -> anyhow::Result<State> {
        let metadata = lake.metadata(&self.schema, &self.table)?;
        let columns = columns(metadata.json()).context("the metadata has no present schema")?;
        let read = self.read(&metadata)?;
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        anyhow::ensure!(read.columns == names, "DuckDB reads {:?} where the schema is {names:?}", read.columns);
        Ok(State { columns, rows: read.sorted().rows })
    }
}

/// The fields of the present schema.
fn columns(metadata: &Value) -> Option<Vec<Column>> {
    let id = metadata.get("current-schema-id")?;
    let schema = metadata.get("schemas")?.as_array()?.iter().find(|schema| schema.get("schema-id") == Some(id))?;
    let no_key = Vec::new();
    let key = schema.get("identifier-field-ids").and_then(Value::as_array).unwrap_or(&no_key);
    let column = |field: &Value| {
        let text = |name: &str| Some(field.get(name)?.as_str()?.to_owned());
        Some(Column {
            id: field.get("id")?.as_i64()?,
            name: text("name")?,
            ty: type_of(field.get("type")?)?,
            required: field.get("required")?.as_bool()?,
            key: key.contains(field.get("id")?),
            dropped: text("doc").is_some_and(|doc| doc.starts_with(DROPPED)),
        })
    };
    schema.get("fields")?.as_array()?.iter().map(column).collect()
}

/// A type in one word: `decimal(8,2)`, `list<int>`.
fn type_of(ty: &Value) -> Option<String> {
    let inside = |name: &str| ty.get(name).and_then(type_of);
    match ty.get("type").and_then(Value::as_str) {
        None => Some(ty.as_str()?.replace(' ', "")),
        Some("list") => Some(format!("list<{}>", inside("element")?)),
        Some("map") => Some(format!("map<{},{}>", inside("key")?, inside("value")?)),
        Some(_) => None,
    }
}

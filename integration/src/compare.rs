//! Source against table, row by row and value by value, through a reader that shares no code with calve.

mod mysql;
mod number;
mod postgres;

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, ensure};
use calve_testkit::readers::{Reader, Table};
use calve_testkit::servers::Kind;

use crate::lake::Lake;
use crate::pipeline::until;
use crate::readers;
use crate::sql::{Sql, TextRows};

/// A table of the source and the one it becomes in the lake.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    source: (String, String),
    target: (String, String),
    /// Columns that the source dropped and the table in the lake still has.
    dropped: Vec<String>,
}

impl Pair {
    /// `public.orders` or `shop.orders`, of the same name on both sides; `public.orders keeping a b` where the source dropped
    /// columns `a` and `b`. For names without dots and spaces in them.
    pub fn named(name: &str) -> Self {
        let (name, dropped) = name.split_once(" keeping ").unwrap_or((name, ""));
        let (schema, table) = name.split_once('.').unwrap_or(("public", name));
        let dropped = dropped.split_whitespace().map(ToOwned::to_owned).collect();
        Self { dropped, ..Self::new((schema, table), (schema, table)) }
    }

    /// (schema, table) in the source and (namespace, table) in the lake.
    pub fn new(source: (&str, &str), target: (&str, &str)) -> Self {
        let owned = |(a, b): (&str, &str)| (a.to_owned(), b.to_owned());
        Self { source: owned(source), target: owned(target), dropped: Vec::new() }
    }

    /// The table in the lake, at its current snapshot.
    pub fn table(&self, lake: &Lake) -> anyhow::Result<Table> {
        lake.table(&self.target.0, &self.target.1)
    }

    /// Namespace and name in the lake.
    pub fn target(&self) -> (&str, &str) {
        (&self.target.0, &self.target.1)
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.source.0, self.source.1)
    }
}

/// A table's rows as the source has them now.
#[derive(Clone, Debug)]
pub struct SourceRows {
    /// Column names, in order.
    pub columns: Vec<String>,
    /// Which of them make the key.
    pub key: Vec<usize>,
    /// Texts of the values as the readers would show them, in no particular order.
    pub rows: TextRows,
}

impl SourceRows {
    /// Reads them in one statement.
    pub fn read(sql: &mut Sql, pair: &Pair) -> anyhow::Result<Self> {
        match sql.kind() {
            Kind::Postgres => postgres::read(sql, pair),
            Kind::MySql | Kind::MariaDb => mysql::read(sql, pair),
        }
    }

    /// A row's key, for messages.
    fn key_of(&self, row: &[Option<String>]) -> String {
        let parts = self.key.iter().map(|&at| {
            let text = row[at].as_deref().unwrap_or("NULL");
            text.chars().take(60).collect::<String>()
        });
        format!("({})", parts.collect::<Vec<_>>().join(", "))
    }
}

/// How a table differs from its source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Keys of rows of the source that the table does not have just so.
    pub lost: Vec<String>,
    /// Keys of rows of the table that the source does not have just so, or not as often.
    pub surplus: Vec<String>,
    /// The first differing rows, whole.
    examples: Vec<String>,
}

impl Differences {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lost.is_empty() && self.surplus.is_empty()
    }

    /// Between the source's rows and those of a table.
    pub fn between(source: &SourceRows, table: &TextRows) -> Self {
        let mut counts: BTreeMap<&[Option<String>], i64> = BTreeMap::new();
        for row in &source.rows {
            *counts.entry(row).or_default() += 1;
        }
        for row in table {
            *counts.entry(row).or_default() -= 1;
        }
        let mut found = Self::default();
        for (row, count) in counts.into_iter().filter(|(_, count)| *count != 0) {
            let side = if count > 0 { &mut found.lost } else { &mut found.surplus };
            side.push(source.key_of(row));
            if found.examples.len() < 6 {
                let shown: Vec<String> = row.iter().map(|value| shown(value.as_deref())).collect();
                found.examples.push(format!("{count:+} [{}]", shown.join(", ")));
            }
        }
        found
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |keys: &[String]| {
            let more = if keys.len() > 20 { format!(" and {} more", keys.len() - 20) } else { String::new() };
            format!("{}{more}", keys[..keys.len().min(20)].join(" "))
        };
        writeln!(f, "only in the source ({}): {}", self.lost.len(), list(&self.lost))?;
        writeln!(f, "only in the table ({}): {}", self.surplus.len(), list(&self.surplus))?;
        write!(f, "{}", self.examples.join("\n"))
    }
}

fn shown(value: Option<&str>) -> String {
    match value {
        None => "NULL".to_owned(),
        Some(text) if text.chars().count() > 80 => {
            format!("{:?}.. ({} bytes)", text.chars().take(60).collect::<String>(), text.len())
        }
        Some(text) => format!("{text:?}"),
    }
}

/// Compares by a reader. Column names and their order must agree too.
pub fn compare(sql: &mut Sql, lake: &Lake, pair: &Pair, reader: &mut impl Reader) -> anyhow::Result<Differences> {
    let table = pair.table(lake)?;
    let source = SourceRows::read(sql, pair)?;
    let mut read = reader.query_table(&table, "select * from t").with_context(|| format!("reading {pair}"))?;
    for dropped in &pair.dropped {
        let at = read.columns.iter().position(|column| column == dropped);
        let at = at.with_context(|| format!("{pair} does not keep the dropped column {dropped}"))?;
        read.columns.remove(at);
        for row in &mut read.rows {
            row.remove(at);
        }
    }
    ensure!(
        read.columns == source.columns,
        "{pair} has the columns {:?}, the source {:?}",
        read.columns,
        source.columns
    );
    Ok(Differences::between(&source, &read.rows))
}

/// Compares by a reader the columns that the source has, whatever else the table keeps and in whatever order. Also gives how
/// many rows there were.
pub fn compare_by_name(
    sql: &mut Sql,
    lake: &Lake,
    pair: &Pair,
    reader: &mut impl Reader,
) -> anyhow::Result<(usize, Differences)> {
    let table = pair.table(lake)?;
    let source = SourceRows::read(sql, pair)?;
    let columns: Vec<String> = source.columns.iter().map(|column| format!("\"{column}\"")).collect();
    let query = format!("select {} from t", columns.join(", "));
    let read = reader.query_table(&table, &query).with_context(|| format!("reading {pair}"))?;
    Ok((source.rows.len(), Differences::between(&source, &read.rows)))
}

/// Fails unless source and table are the same to DuckDB.
pub fn assert_same(sql: &mut Sql, lake: &Lake, tables: &[&str]) -> anyhow::Result<()> {
    for table in tables {
        let pair = Pair::named(table);
        let found = readers::duckdb(|duckdb| compare(sql, lake, &pair, duckdb))?;
        ensure!(found.is_empty(), "{pair} differs by DuckDB:\n{found}");
    }
    Ok(())
}

/// Fails unless source and table are the same to Spark.
pub fn assert_same_by_spark(sql: &mut Sql, lake: &Lake, tables: &[&str]) -> anyhow::Result<()> {
    readers::spark(|spark| {
        for table in tables {
            let pair = Pair::named(table);
            let found = compare(sql, lake, &pair, spark)?;
            ensure!(found.is_empty(), "{pair} differs by Spark:\n{found}");
        }
        Ok(())
    })
}

/// Waits until source and table are the same to DuckDB, while calve runs.
pub fn await_same(sql: &mut Sql, lake: &Lake, tables: &[&str]) -> anyhow::Result<()> {
    let mut last = String::new();
    for table in tables {
        let pair = Pair::named(table);
        let waited = until(&format!("{pair} to equal its source"), || {
            // A table that is not there yet, or moved on while it was read, is looked at again.
            let (same, said) = match readers::duckdb(|duckdb| compare(sql, lake, &pair, duckdb)) {
                Ok(found) => (found.is_empty(), found.to_string()),
                Err(error) => (false, format!("{error:#}")),
            };
            last = said;
            Ok(same)
        });
        waited.with_context(|| last.clone())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: &[(&str, Option<&str>)]) -> TextRows {
        values.iter().map(|(key, value)| vec![Some((*key).to_owned()), value.map(str::to_owned)]).collect()
    }

    fn source(values: &[(&str, Option<&str>)]) -> SourceRows {
        SourceRows { columns: vec!["id".into(), "v".into()], key: vec![0], rows: rows(values) }
    }

    #[test]
    fn equal_rows_differ_in_nothing_whatever_their_order() {
        let found =
            Differences::between(&source(&[("1", Some("a")), ("2", None)]), &rows(&[("2", None), ("1", Some("a"))]));
        assert!(found.is_empty(), "{found}");
    }

    #[test]
    fn lost_doubled_and_changed_rows_are_told_by_key() {
        let source = source(&[("1", Some("a")), ("2", Some("b")), ("3", None)]);
        let found = Differences::between(&source, &rows(&[("1", Some("a")), ("1", Some("a")), ("3", Some(""))]));
        assert_eq!((found.lost, found.surplus), (vec!["(2)".into(), "(3)".into()], vec!["(1)".into(), "(3)".into()]));
    }
}

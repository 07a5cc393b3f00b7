//! From the catalog to the schema of a table: which columns there are, what identifies a row, and what a table must have
//! so that its changes can be followed at all.
//!
//! The rules stand here once: describing a table fails with the first that is broken, `check` lists them all.

pub(crate) mod catalog;

use std::collections::BTreeSet;
use std::sync::Arc;

use calve_core::{Column, Error, ErrorKind, Finding, Result, Severity, TableName, TableSchema};
use mysql_async::Conn;

use crate::charset;
use crate::merge::{self, Merge};
use crate::server::Server;
use crate::sql::{identifier, literal, qualified};
use crate::types::{Unsupported, attribute, column};
use catalog::{CatalogColumn, CatalogTable};

/// Databases of the server itself.
pub(crate) const SYSTEM_SCHEMAS: [&str; 4] = ["mysql", "sys", "information_schema", "performance_schema"];
/// Engines that read at a snapshot and log whole rows.
const ENGINES: [&str; 2] = ["InnoDB", "ROCKSDB"];

/// The schema of a table as it is now. Its `native_id` is 0: neither server gives a table a number that lasts, so a table
/// made anew under the same name is known by the statements in the log.
pub(crate) async fn describe(conn: &mut Conn, server: &Server, table: &TableName) -> Result<Arc<TableSchema>> {
    let found = catalog::read(conn, table).await?.ok_or_else(|| config_error(&missing(table)))?;
    found.schema(server).map_err(|broken| config_error(&broken))
}

/// The same of a table that others are merged into.
pub(crate) async fn describe_merged(conn: &mut Conn, server: &Server, merge: &Merge) -> Result<Arc<TableSchema>> {
    let (schema, _) = merge::describe(conn, server, merge).await?;
    schema.map_err(|broken| config_error(&broken))
}

pub(crate) fn missing(table: &TableName) -> Finding {
    Finding::error(
        format!("table {table} does not exist, or the user may not see it"),
        format!(
            "check its name (upper and lower case count, as the server stores them), or GRANT SELECT ON {} to the user",
            qualified(table)
        ),
    )
}

fn config_error(finding: &Finding) -> Error {
    Error::new(ErrorKind::Config, finding.to_string())
}

/// `user@host` as the server says it, for a GRANT.
pub(crate) fn account(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((user, host)) => format!("{}@{}", literal(user), literal(host)),
        None => literal(text),
    }
}

fn quoted(column: &CatalogColumn) -> String {
    identifier(&column.name)
}

impl CatalogTable {
    /// The schema, if every rule holds.
    pub(crate) fn schema(&self, server: &Server) -> std::result::Result<Arc<TableSchema>, Finding> {
        let schema = self.schema_of_any_layout(server)?;
        server.conversions.rules.layout_errors(&schema).into_iter().next().map_or(Ok(schema), Err)
    }

    /// What is wrong with the layout that the table is to have, where nothing else is wrong with it.
    pub(crate) fn layout_findings(&self, server: &Server) -> Vec<Finding> {
        let schema = self.schema_of_any_layout(server);
        schema.map_or_else(|_| Vec::new(), |schema| server.conversions.rules.layout_findings(&schema))
    }

    fn schema_of_any_layout(&self, server: &Server) -> std::result::Result<Arc<TableSchema>, Finding> {
        if let Some(broken) = self.findings(server).into_iter().find(|finding| finding.severity == Severity::Error) {
            return Err(broken);
        }
        let numbered = |(id, (_, column)): (u32, (_, std::result::Result<Column, _>))| {
            column.map(|column| Column { id, ..column }).map_err(|_| ())
        };
        let columns = (1..).zip(self.columns(server)).map(numbered).collect();
        // The rules hold, so neither is missing.
        let (columns, key): (std::result::Result<Vec<Column>, ()>, _) = (columns, self.key_positions(server));
        match (columns, key) {
            (Ok(columns), Some(key)) => {
                let character_set = charset::of_collation(&self.collation);
                let (table, mode) = (self.table.clone(), server.conversions.rules.table(&self.table).mode);
                let rules = server.conversions.rules.table(&self.table);
                Ok(Arc::new(rules.applied(TableSchema {
                    character_set,
                    mode,
                    ..TableSchema::new(table, 0, columns, key)
                })))
            }
            _ => Err(missing(&self.table)),
        }
    }

    /// Whether nothing tells its rows apart.
    pub(crate) fn has_no_key(&self) -> bool {
        self.key.is_empty()
    }

    /// The columns that are replicated: those that the log carries.
    fn logged<'a>(&'a self, server: &'a Server) -> impl Iterator<Item = &'a CatalogColumn> {
        self.columns.iter().filter(|column| server.logs(column))
    }

    /// Columns by name, each with its types or why it has none.
    fn columns<'a>(&'a self, server: &'a Server) -> Vec<(&'a str, std::result::Result<Column, Unsupported>)> {
        let rules = server.conversions.rules.table(&self.table);
        let of = |of: &CatalogColumn| {
            let in_key = self.key.iter().any(|part| part.column == of.name);
            let attributes = [
                (attribute::NOT_NULL, !of.nullable),
                (attribute::AUTO_INCREMENT, of.extra.contains("AUTO_INCREMENT")),
                (attribute::GENERATED, of.is_generated()),
                (attribute::UNIQUE, self.may_be_unique(of)),
            ];
            let attributes: Vec<&str> = attributes.iter().filter(|(_, is_so)| *is_so).map(|(name, _)| *name).collect();
            column(server.flavour, &server.conversions, &rules, &of.name, &of.ty, &attributes, in_key)
        };
        self.logged(server).map(|column| (column.name.as_str(), of(column))).collect()
    }

    /// Whether a unique index other than the key may compare texts of this column.
    fn may_be_unique(&self, column: &CatalogColumn) -> bool {
        let named = |name: &str| self.columns.iter().find(|column| column.name == name);
        // What is computed may be computed from any of them.
        let holds = |part: &Option<String>| match part.as_deref().and_then(named) {
            Some(own) => own.name == column.name || own.is_generated(),
            None => true,
        };
        column.ty.character_set.is_some() && self.unique.iter().any(holds)
    }

    /// Positions of the key's columns. None where there is no key, the user does not see all of its columns, or the log does
    /// not carry them.
    fn key_positions(&self, server: &Server) -> Option<Vec<usize>> {
        let position = |part: &catalog::KeyPart| self.logged(server).position(|column| column.name == part.column);
        let may_have_none = server.conversions.rules.table(&self.table).mode.is_append();
        self.key.iter().map(position).collect::<Option<Vec<_>>>().filter(|key| may_have_none || !key.is_empty())
    }

    /// Every rule that this table breaks.
    pub(crate) fn findings(&self, server: &Server) -> Vec<Finding> {
        let table = &self.table;
        if SYSTEM_SCHEMAS.contains(&table.schema.to_lowercase().as_str()) {
            return vec![Finding::error(format!("{table} belongs to the system"), "leave it out")];
        }
        match self.kind.as_str() {
            "BASE TABLE" => {}
            "SYSTEM VERSIONED" => {
                return vec![Finding::error(
                    format!("table {table} is system-versioned: the log mixes its history with its rows"),
                    format!("leave it out, or ALTER TABLE {} DROP SYSTEM VERSIONING", qualified(table)),
                )];
            }
            other => {
                let kind = other.to_lowercase();
                let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
                return vec![Finding::error(
                    format!("{table} is {article} {kind}: it has no changes of its own in the log"),
                    "leave it out, or replicate the tables beneath it",
                )];
            }
        }
        let mut findings = Vec::new();
        if !ENGINES.iter().any(|engine| engine.eq_ignore_ascii_case(&self.engine)) {
            findings.push(Finding::error(
                format!("table {table} is of the engine {}: it cannot be read at one point of the log", self.engine),
                format!("ALTER TABLE {} ENGINE = InnoDB, or leave it out", qualified(table)),
            ));
        }
        self.key_findings(server, &mut findings);
        self.column_findings(server, &mut findings);
        let in_key = |column: &str| self.key.iter().any(|part| part.column == column);
        let columns = self.logged(server).map(|column| (column.name.as_str(), in_key(&column.name)));
        findings.extend(server.conversions.rules.table(table).findings(table, &columns.collect::<Vec<_>>()));
        findings.extend(self.excerpt_findings(server));
        findings
    }

    /// What of the rules for columns and rows the table cannot have, as far as its columns have types.
    fn excerpt_findings(&self, server: &Server) -> Vec<Finding> {
        let columns: Vec<Column> = self.columns(server).into_iter().filter_map(|(_, column)| column.ok()).collect();
        let place = |part: &catalog::KeyPart| columns.iter().position(|column| column.name == part.column);
        let key = self.key.iter().filter_map(place).collect();
        let others: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let rules = server.conversions.rules.table(&self.table);
        let (table, mode) = (self.table.clone(), rules.mode);
        let schema = TableSchema { mode, ..TableSchema::new(table, 0, columns, key) };
        rules.excerpt_findings(&rules.applied(schema), &others)
    }

    fn key_findings(&self, server: &Server, findings: &mut Vec<Finding>) {
        let (table, name) = (&self.table, qualified(&self.table));
        if self.key.is_empty() {
            if server.conversions.rules.table(table).mode.is_append() {
                return;
            }
            findings.push(Finding::error(
                format!("table {table} has no primary key, so nothing tells its rows apart"),
                format!(
                    "ALTER TABLE {name} ADD PRIMARY KEY (..), or replicate the table as a log of its changes (mode: append)"
                ),
            ));
            return;
        }
        let columns = self.columns(server);
        for part in &self.key {
            match columns.iter().find(|(column, _)| *column == part.column) {
                None if self.columns.iter().any(|column| column.name == part.column) => findings.push(Finding::error(
                    format!(
                        "key column {} of table {table} is generated, which the log does not carry",
                        identifier(&part.column)
                    ),
                    format!("ALTER TABLE {name} DROP PRIMARY KEY, ADD PRIMARY KEY (..) over other columns"),
                )),
                None => findings.push(Finding::error(
                    format!("the user may not read key column {} of table {table}", identifier(&part.column)),
                    format!("GRANT SELECT ON {name} TO {}", account(&self.account)),
                )),
                Some((_, Ok(column))) => {
                    if let Some(why) = column.ty.no_key_because() {
                        findings.push(Finding::error(
                            format!(
                                "key column {} of table {table} is {}: {why}",
                                identifier(&column.name),
                                column.native.name
                            ),
                            format!("ALTER TABLE {name} DROP PRIMARY KEY, ADD PRIMARY KEY (..) over other columns"),
                        ));
                    }
                }
                Some(_) => {}
            }
        }
    }

    fn column_findings(&self, server: &Server, findings: &mut Vec<Finding>) {
        let table = &self.table;
        let full_metadata = server.binlog_row_metadata.eq_ignore_ascii_case("FULL");
        let generated: Vec<String> = self.columns.iter().filter(|column| !server.logs(column)).map(quoted).collect();
        if !generated.is_empty() {
            let what = format!(
                "generated columns of table {table} are left out of the lake, because MariaDB {}.{} leaves them out of the \
                 log when rows change: {}",
                server.version.0,
                server.version.1,
                generated.join(", ")
            );
            findings.push(if full_metadata {
                Finding::warning(what, "compute them where the table is read")
            } else {
                Finding::error(what, "set binlog_row_metadata = FULL, so that the log says which columns it has")
            });
        }
        if !full_metadata {
            let unclear = self.columns.iter().filter(|column| column.has_unclear_labels());
            findings.extend(unclear.map(|column| {
                Finding::error(
                    format!(
                        "a label of column {} of table {table} has a question mark, or a character beyond U+FFFF, for which the \
                         catalog shows a question mark",
                        quoted(column)
                    ),
                    "set binlog_row_metadata = FULL, so that the log says which",
                )
            }));
        }
        let mut seen = BTreeSet::new();
        for (name, column) in self.columns(server) {
            if let Err(unsupported) = column {
                let remedy = match &unsupported {
                    Unsupported::Type(_) => {
                        format!(
                            "leave the table out, or change the column's type with ALTER TABLE {}",
                            qualified(table)
                        )
                    }
                    Unsupported::Chosen { choice, .. } => {
                        format!("set its type in the configuration to one of {choice}, or leave it out")
                    }
                };
                findings.push(Finding::error(
                    format!("column {} of table {table} {unsupported}", identifier(name)),
                    remedy,
                ));
            }
            // The server itself ignores the case of column names of ASCII, but not of all letters.
            if !seen.insert(name.to_lowercase()) {
                findings.push(Finding::warning(
                    format!(
                        "column {} of table {table} differs from another only in case: engines that ignore case \
                         (Spark by default) cannot read the table",
                        identifier(name)
                    ),
                    "rename one of them, or set spark.sql.caseSensitive=true where it is read",
                ));
            }
        }
    }
}

#[cfg(all(test, feature = "servers"))]
mod tests;

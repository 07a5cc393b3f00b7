//! From the catalog to the schema of a table: which columns there are, what identifies a row, and what a table must have
//! so that its changes can be followed at all.
//!
//! The rules stand here once: describing a table fails with the first that is broken, `check` lists them all.

use std::collections::BTreeSet;
use std::sync::Arc;

use calve_core::{
    Column, ColumnType, Error, ErrorKind, Partitions, Result, TableName, TableRules, TableSchema, ValueRules,
};
use tokio_postgres::Client;

use crate::relation::{Identity, KeyIndex, Kind, Relation};
use crate::sql::identifier;
use crate::types::{choice, chosen};
use calve_core::{Finding, Severity};

/// Numbers below this belong to objects that came with the server (`FirstNormalObjectId`).
const FIRST_USER_OID: u32 = 16_384;

/// The schema of a table as it is now, or as the transaction's snapshot shows it.
pub(crate) async fn describe(client: &Client, table: &TableName, rules: &ValueRules) -> Result<Arc<TableSchema>> {
    let relation = Relation::read(client, table).await?.ok_or_else(|| config_error(&missing(table)))?;
    relation.schema(rules).map_err(|broken| config_error(&broken))
}

/// Whether values of the column are lists or maps.
fn has_parts(column: &Column) -> bool {
    matches!(column.ty, ColumnType::List(_) | ColumnType::Map)
}

/// `"schema"."table"`.
pub(crate) fn qualified(table: &TableName) -> String {
    format!("{}.{}", identifier(&table.schema), identifier(&table.name))
}

pub(crate) fn missing(table: &TableName) -> Finding {
    Finding::error(
        format!("table {table} does not exist in this database"),
        "check its name: upper and lower case count, as the database stores them",
    )
}

fn config_error(finding: &Finding) -> Error {
    Error::new(ErrorKind::Config, finding.to_string())
}

impl Relation {
    /// The schema, if every rule holds, as the pipeline's rules have it.
    pub(crate) fn schema(&self, rules: &ValueRules) -> std::result::Result<Arc<TableSchema>, Finding> {
        let schema = self.schema_of_any_layout(rules)?;
        rules.layout_errors(&schema).into_iter().next().map_or(Ok(schema), Err)
    }

    /// What is wrong with the layout that the table is to have, where nothing else is wrong with it.
    pub(crate) fn layout_findings(&self, rules: &ValueRules) -> Vec<Finding> {
        self.schema_of_any_layout(rules).map_or_else(|_| Vec::new(), |schema| rules.layout_findings(&schema))
    }

    fn schema_of_any_layout(&self, rules: &ValueRules) -> std::result::Result<Arc<TableSchema>, Finding> {
        let mode = rules.table(&self.table).mode;
        let findings = self.findings(&rules.table(&self.table)).into_iter().chain(self.rule_findings(rules));
        if let Some(broken) = findings.into_iter().find(|finding| finding.severity == Severity::Error) {
            return Err(broken);
        }
        let key = self.key_positions().unwrap_or_default();
        let of_table = rules.table(&self.table);
        let schema = TableSchema {
            left_out: self.left_out.clone(),
            members: Vec::new(),
            mode,
            labels: self.labels.clone(),
            partitions: self.partitions.clone().map(|known| Partitions { known, emptied_by: None }),
            ..TableSchema::new(
                self.table.clone(),
                self.oid,
                self.columns.iter().map(|column| chosen(column, &of_table)).collect(),
                key,
            )
        };
        let schema = of_table.applied(schema);
        Ok(Arc::new(rules.loosened(&schema).unwrap_or(schema)))
    }

    /// What is wrong with the pipeline's rules for the table.
    pub(crate) fn rule_findings(&self, rules: &ValueRules) -> Vec<Finding> {
        let key = self.key_positions().unwrap_or_default();
        let columns = self.columns.iter().enumerate().map(|(at, column)| (column.name.as_str(), key.contains(&at)));
        let rules = rules.table(&self.table);
        let mut findings = rules.findings(&self.table, &columns.collect::<Vec<_>>());
        findings.extend(self.excerpt_findings(&rules, key.clone()));
        for column in &self.columns {
            let choice = choice(column);
            let in_key = key.iter().any(|&at| self.columns.get(at).is_some_and(|part| part.id == column.id));
            if let Some(why) = column.ty.no_key_because().filter(|_| in_key && has_parts(&chosen(column, &rules))) {
                findings.push(Finding::error(
                    format!(
                        "key column {} of table {} is {}: {why}",
                        identifier(&column.name),
                        self.table,
                        column.native.name
                    ),
                    format!(
                        "choose text for it in the configuration (columns: {{{}: {{type: string}}}}), or ALTER TABLE {} REPLICA \
                         IDENTITY USING INDEX .. with an index over other columns",
                        column.name,
                        qualified(&self.table)
                    ),
                ));
            }
            if let Some(wanted) = rules.column_type(&column.name).filter(|wanted| !choice.allows(wanted)) {
                findings.push(Finding::error(
                    format!(
                        "column {} of table {} is {}, which cannot be {wanted} in the lake",
                        identifier(&column.name),
                        self.table,
                        column.native.name
                    ),
                    format!("set its type in the configuration to one of {choice}, or leave it out"),
                ));
            }
        }
        findings
    }

    fn excerpt_findings(&self, rules: &TableRules, key: Vec<usize>) -> Vec<Finding> {
        let schema = TableSchema {
            mode: rules.mode,
            ..TableSchema::new(
                self.table.clone(),
                self.oid,
                self.columns.iter().map(|column| chosen(column, rules)).collect(),
                key,
            )
        };
        let generated: Vec<&str> = self.generated.iter().map(String::as_str).collect();
        rules.excerpt_findings(&rules.applied(schema), &generated)
    }

    /// The index that identifies rows, by the table's replica identity. Under FULL that is the primary key.
    fn key_index(&self) -> Option<&KeyIndex> {
        match self.identity {
            Identity::Default | Identity::Full => self.primary_key.as_ref(),
            Identity::Index => self.identity_index.as_ref(),
            Identity::Nothing => None,
        }
    }

    /// Positions of the key's columns. None where one is not among the columns that the log carries.
    fn key_positions(&self) -> Option<Vec<usize>> {
        let key = self.key_index()?;
        key.columns.iter().map(|name| self.columns.iter().position(|column| column.name == *name)).collect()
    }

    /// Every rule that this table breaks, if it is to be had by these rules.
    pub(crate) fn findings(&self, rules: &TableRules) -> Vec<Finding> {
        if let Kind::Other(kind) = self.kind {
            return vec![Finding::error(
                format!("{} is {kind}: Postgres logs no changes of it", self.table),
                "leave it out, or replicate the tables beneath it",
            )];
        }
        if self.oid < FIRST_USER_OID {
            return vec![Finding::error(format!("{} belongs to the system", self.table), "leave it out")];
        }
        let mut findings = Vec::new();
        self.storage_findings(&mut findings);
        self.key_findings(rules, &mut findings);
        self.column_findings(&mut findings);
        self.leaf_findings(&mut findings);
        findings
    }

    /// What keeps the present user from reading the table.
    pub(crate) fn unreadable(&self) -> Option<Finding> {
        let what = match (self.schema_usable, self.readable) {
            (true, true) => return None,
            (false, _) => format!("user {} may not use schema {}", self.user, self.table.schema),
            (true, false) => format!("user {} may not read table {}", self.user, self.table),
        };
        Some(Finding::error(what, self.grants().join("; ")))
    }

    /// The statements that let the present user read the table; those of them that are missing.
    pub(crate) fn grants(&self) -> Vec<String> {
        let user = identifier(&self.user);
        let usage = format!("GRANT USAGE ON SCHEMA {} TO {user}", identifier(&self.table.schema));
        let select = format!("GRANT SELECT ON {} TO {user}", qualified(&self.table));
        let wanted = [(!self.schema_usable, usage), (!self.readable, select)];
        wanted.into_iter().filter_map(|(missing, grant)| missing.then_some(grant)).collect()
    }

    fn storage_findings(&self, findings: &mut Vec<Finding>) {
        if !self.logged {
            let name = qualified(&self.table);
            findings.push(Finding::error(
                format!("table {} is unlogged or temporary: its changes are not in the WAL", self.table),
                format!("ALTER TABLE {name} SET LOGGED, or leave it out"),
            ));
        }
        if self.rows_hidden {
            findings.push(Finding::error(
                format!("row-level security hides rows of table {} from user {}", self.table, self.user),
                format!("ALTER ROLE {} BYPASSRLS, as a superuser", identifier(&self.user)),
            ));
        }
    }

    fn key_findings(&self, rules: &TableRules, findings: &mut Vec<Finding>) {
        let (table, mode) = (&self.table, rules.mode);
        let name = qualified(table);
        if self.identity == Identity::Nothing {
            findings.push(Finding::error(
                format!("table {table} has REPLICA IDENTITY NOTHING: its updates and deletes name no row"),
                format!("ALTER TABLE {name} REPLICA IDENTITY DEFAULT"),
            ));
            return;
        }
        if self.identity != Identity::Full {
            self.large_value_findings(rules, findings);
        }
        let Some(key) = self.key_index() else {
            // Under FULL the server lets rows without a key change, and logs the whole of them.
            if mode.is_append() && self.identity == Identity::Full {
                // A key is inherited, this is not: the next partition would make UPDATEs fail at the source.
                if self.kind == Kind::Partitioned {
                    findings.push(Finding::error(
                        format!(
                            "partitioned table {table} has no key: a partition that is added later has no replica identity, \
                             and publishing it would make its UPDATEs and DELETEs fail"
                        ),
                        format!("ALTER TABLE {name} ADD PRIMARY KEY (..), or replicate its partitions by their names"),
                    ));
                }
                return;
            }
            let remedy = match &self.primary_key {
                Some(_) => format!("ALTER TABLE {name} REPLICA IDENTITY DEFAULT"),
                None => format!(
                    "ALTER TABLE {name} ADD PRIMARY KEY (..); or, with a unique index over NOT NULL columns, ALTER TABLE \
                     {name} REPLICA IDENTITY USING INDEX ..; or ALTER TABLE {name} REPLICA IDENTITY FULL, and replicate the \
                     table as a log of its changes (mode: append)"
                ),
            };
            findings.push(Finding::error(format!("table {table} has no key that tells its rows apart"), remedy));
            return;
        };
        if !key.immediate {
            findings.push(Finding::error(
                format!(
                    "the key {} of table {table} is deferrable: two rows may share a key within a transaction",
                    identifier(&key.name)
                ),
                "make it NOT DEFERRABLE (drop and add the constraint), or choose another unique index with REPLICA \
                 IDENTITY USING INDEX",
            ));
        }
        if !key.valid {
            findings.push(Finding::error(
                format!("the index {} of table {table} is invalid: building it failed", identifier(&key.name)),
                format!("REINDEX INDEX {}.{}", identifier(&table.schema), identifier(&key.name)),
            ));
        }
        let Some(positions) = self.key_positions() else {
            findings.push(Finding::error(
                format!("the key of table {table} holds a generated column, which the log does not carry"),
                format!("ALTER TABLE {name} REPLICA IDENTITY USING INDEX .. with an index over other columns"),
            ));
            return;
        };
        for column in positions.iter().filter_map(|&position| self.columns.get(position)) {
            // What has parts may be a key as text, if that is chosen.
            if let Some(why) = column.ty.no_key_because().filter(|_| !has_parts(column)) {
                findings.push(Finding::error(
                    format!(
                        "key column {} of table {table} is {}: {why}",
                        identifier(&column.name),
                        column.native.name
                    ),
                    format!("ALTER TABLE {name} REPLICA IDENTITY USING INDEX .. with an index over other columns"),
                ));
            }
            if column.nullable {
                findings.push(Finding::error(
                    format!("key column {} of table {table} may be NULL", identifier(&column.name)),
                    format!("ALTER TABLE {name} ALTER COLUMN {} SET NOT NULL", identifier(&column.name)),
                ));
            }
        }
    }

    /// What a log cannot look up, nor a table that has some of the rows only.
    fn large_value_findings(&self, rules: &TableRules, findings: &mut Vec<Finding>) {
        let when = match (rules.mode.is_append(), &rules.filter) {
            (true, _) => "in mode append",
            (false, Some(_)) => "where it brings a row into what 'where' selects",
            (false, None) => return,
        };
        let large = |column: &&Column| {
            let has_parts = matches!(column.ty, ColumnType::List(_) | ColumnType::Map);
            (has_parts || matches!(column.ty, ColumnType::String | ColumnType::Binary))
                && !rules.usage(&column.name).is_left_out()
        };
        let names: Vec<String> = self.columns.iter().filter(large).map(|column| identifier(&column.name)).collect();
        if !names.is_empty() {
            findings.push(Finding::warning(
                format!(
                    "an update that leaves a large value of table {} alone stops it {when}, for the log of Postgres does not carry \
                     that value; columns that can have such: {}",
                    self.table,
                    names.join(", ")
                ),
                format!("ALTER TABLE {} REPLICA IDENTITY FULL", qualified(&self.table)),
            ));
        }
    }

    fn column_findings(&self, findings: &mut Vec<Finding>) {
        let table = &self.table;
        if self.columns.is_empty() {
            findings.push(Finding::error(format!("table {table} has no columns to replicate"), "leave it out"));
        }
        if !self.generated.is_empty() {
            let names: Vec<String> = self.generated.iter().map(|name| identifier(name)).collect();
            findings.push(Finding::warning(
                format!(
                    "generated columns of table {table} are left out of the lake, because the log does not carry \
                     them: {}",
                    names.join(", ")
                ),
                "compute them where the table is read",
            ));
        }
        let mut seen = BTreeSet::new();
        for column in &self.columns {
            if !seen.insert(column.name.to_lowercase()) {
                findings.push(Finding::warning(
                    format!(
                        "column {} of table {table} differs from another only in case: engines that ignore case \
                         (Spark by default) cannot read the table",
                        identifier(&column.name)
                    ),
                    "rename one of them, or set spark.sql.caseSensitive=true where it is read",
                ));
            }
        }
    }

    /// What a partition logs is decided by its own replica identity, not by the parent's.
    fn leaf_findings(&self, findings: &mut Vec<Finding>) {
        let table = &self.table;
        let key: BTreeSet<&String> = self.key_index().into_iter().flat_map(|key| &key.columns).collect();
        for leaf in &self.leaves {
            let name = qualified(&leaf.table);
            if let Kind::Other(kind) = leaf.kind {
                findings.push(Finding::error(
                    format!("partition {} of table {table} is {kind}: Postgres logs no changes of it", leaf.table),
                    format!("ALTER TABLE {} DETACH PARTITION {name}", qualified(table)),
                ));
                continue;
            }
            if !leaf.logged {
                findings.push(Finding::error(
                    format!("partition {} of table {table} is unlogged: its changes are not in the WAL", leaf.table),
                    format!("ALTER TABLE {name} SET LOGGED"),
                ));
            }
            let same_columns = leaf.identity == Identity::Full || leaf.key.iter().collect::<BTreeSet<_>>() == key;
            if leaf.identity != self.identity || !same_columns {
                let identity = match self.identity {
                    Identity::Default | Identity::Nothing => "DEFAULT",
                    Identity::Full => "FULL",
                    Identity::Index => "USING INDEX .. with the partition's index of the same columns",
                };
                findings.push(Finding::error(
                    format!("partition {} of table {table} has another replica identity than the table", leaf.table),
                    format!("ALTER TABLE {name} REPLICA IDENTITY {identity}"),
                ));
            }
        }
    }
}

#[cfg(all(test, feature = "servers"))]
#[path = "describe_tests.rs"]
mod tests;

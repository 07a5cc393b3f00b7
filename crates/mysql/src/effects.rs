//! What a statement of the log means for the pipeline: a table is emptied, or it cannot go on.

use std::borrow::Cow;

use calve_core::{StopReason, TableIndex, TableName};

use crate::binlog::Flavour;
use crate::binlog::query::Query;
use crate::charset::Charset;
use crate::ddl::{DdlEffect, Statement, effects_of};
use crate::transactions::{by_statement, schema_changed};

/// What becomes of a followed table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// All rows are gone.
    Truncate,
    /// The table cannot go on.
    Stop(StopReason),
}

/// Reads statements for the tables that are followed.
#[derive(Clone, Debug)]
pub(crate) struct Statements {
    flavour: Flavour,
    lower_case_table_names: u8,
    followed: Vec<TableName>,
}

impl Statements {
    pub(crate) fn new(flavour: Flavour, lower_case_table_names: u8, followed: Vec<TableName>) -> Self {
        Self { flavour, lower_case_table_names, followed }
    }

    /// The followed table of this name in the log. Servers that compare names without case write them in either.
    pub(crate) fn find(&self, database: &str, table: &str) -> Option<&TableName> {
        self.followed.iter().find(|name| self.same(&name.schema, database) && self.same(&name.name, table))
    }

    fn same(&self, a: &str, b: &str) -> bool {
        a == b || (self.lower_case_table_names != 0 && a.to_lowercase() == b.to_lowercase())
    }

    /// What the statement does to followed tables, in order.
    pub(crate) fn effects(&self, query: &Query<'_>) -> Vec<(TableIndex, Effect)> {
        let sql = text(query);
        let statement = Statement {
            flavour: self.flavour,
            default_db: query.database,
            sql: &sql,
            sql_mode: query.sql_mode.unwrap_or(0),
            lower_case_table_names: self.lower_case_table_names,
        };
        let mut effects = Vec::new();
        for effect in effects_of(&statement, &self.followed) {
            self.means(effect, &mut effects);
        }
        effects
    }

    fn means(&self, effect: DdlEffect, out: &mut Vec<(TableIndex, Effect)>) {
        let mut stop = |table: &TableName, reason: StopReason| {
            if let Some(index) = self.followed.iter().position(|name| name == table) {
                out.push((TableIndex(index), Effect::Stop(reason)));
            }
        };
        match effect {
            DdlEffect::Truncated(table) => {
                if let Some(index) = self.followed.iter().position(|name| *name == table) {
                    out.push((TableIndex(index), Effect::Truncate));
                }
            }
            DdlEffect::Dropped(table) => stop(&table, dropped(&table, "the table was dropped")),
            DdlEffect::Renamed { from, to } if from == to => {}
            DdlEffect::Renamed { from, to } => {
                stop(&from, dropped(&from, &format!("the table was renamed to {to}")));
                stop(&to, schema_changed(&to, format!("table {from} took its name")));
            }
            // The server did nothing: the table is there, or it was said to be dropped before.
            DdlEffect::Created { if_not_exists: true, .. } | DdlEffect::Altered { columns: false, .. } => {}
            DdlEffect::Created { table, .. } => {
                stop(&table, schema_changed(&table, "the table was dropped and created again".into()));
            }
            DdlEffect::Altered { table, .. } => {
                stop(&table, schema_changed(&table, "its columns or its key were altered".into()));
            }
            DdlEffect::PartitionsDiscarded(table) => stop(
                &table,
                StopReason {
                    state: "rows unknown".into(),
                    detail: "a partition or tablespace was emptied or exchanged, which the log says without rows"
                        .into(),
                    remedy: format!("run `calve reload {table}`"),
                },
            ),
            DdlEffect::ChangedByStatement(table) => {
                stop(&table, by_statement(&table, "a session changed rows in statement format"));
            }
            DdlEffect::NotUnderstood(table) => stop(
                &table,
                StopReason {
                    state: StopReason::SCHEMA_CHANGED.into(),
                    detail: "a statement names the table that is not understood".into(),
                    remedy: format!("run `calve reload {table}` to read it again as it is now"),
                },
            ),
        }
    }
}

fn dropped(table: &TableName, detail: &str) -> StopReason {
    StopReason {
        state: "dropped".into(),
        detail: detail.into(),
        remedy: format!("take {table} out of the configuration, or run `calve reload {table}` once it exists again"),
    }
}

/// The statement in UTF-8. What is no text in its session's character set cannot be a name, and is kept from being one.
fn text<'a>(query: &'a Query<'_>) -> Cow<'a, str> {
    let utf8 = || String::from_utf8_lossy(&query.sql);
    let Some(charset) = query.charset_client.and_then(|id| Charset::by_collation_id(id.into())) else { return utf8() };
    if charset.is_utf8() {
        return utf8();
    }
    let mut decoded = Vec::new();
    match charset.decode(&query.sql, &mut decoded) {
        Ok(()) => String::from_utf8(decoded).map_or_else(|_| utf8(), Cow::Owned),
        Err(_) => utf8(),
    }
}

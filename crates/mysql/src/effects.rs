//! What a statement of the log means for the pipeline: a table is emptied, gets another schema, or cannot go on.

use std::borrow::Cow;

use calve_core::{SchemaChange, StopReason, TableIndex, TableName, TableSchema};

use crate::binlog::Flavour;
use crate::binlog::query::Query;
use crate::charset::Charset;
use crate::conversions::Conversions;
use crate::ddl::{Alteration, DdlEffect, Session, Statement, effects_of};
use crate::transactions::{by_statement, schema_changed};

/// What becomes of a followed table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// All rows are gone.
    Truncate,
    /// Its columns, its key or its character set are others.
    Alter(Altered),
    /// The table cannot go on.
    Stop(StopReason),
}

#[cfg(any(test, feature = "fuzzing"))]
impl Effect {
    /// Whether both are the same, but for what they show of their statements.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Alter(a), Self::Alter(b)) => (&a.alteration, a.strict) == (&b.alteration, b.strict),
            (Self::Stop(a), Self::Stop(b)) => (&a.state, &a.remedy) == (&b.state, &b.remedy),
            _ => self == other,
        }
    }
}

/// An ALTER TABLE that is to be applied to the schema that the table has when it comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Altered {
    alteration: Alteration,
    strict: bool,
    /// The statement's beginning, for a message.
    statement: String,
}

/// `STRICT_TRANS_TABLES` and `STRICT_ALL_TABLES` of `sql_mode`.
const STRICT: u64 = 1 << 21 | 1 << 22;
/// Characters of a statement that a message shows.
const SHOWN: usize = 200;

impl Altered {
    /// The schema from here on; None where nothing changes.
    pub(crate) fn apply(
        &self,
        flavour: Flavour,
        conversions: &Conversions,
        schema: &TableSchema,
    ) -> Result<Option<SchemaChange>, StopReason> {
        let (tinyint1_as_boolean, rules) = (conversions.tinyint1_as_boolean, conversions.rules.table(&schema.table));
        let session = Session { flavour, tinyint1_as_boolean, rules: Some(&rules), strict: self.strict };
        self.alteration.apply(schema, session).map_err(|what| {
            let detail = format!("it was altered in a way that cannot be followed ({what}): {}", self.statement);
            schema_changed(&schema.table, detail)
        })
    }

    /// The stop of a table that was altered before all of it was read.
    pub(crate) fn while_read(&self, table: &TableName) -> StopReason {
        schema_changed(table, format!("it was altered while its load began: {}", self.statement))
    }
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
        let found = effects_of(&statement, &self.followed);
        let successor = |table: &TableName| {
            found.iter().find_map(|effect| match effect {
                DdlEffect::Renamed { from, to } if to == table => Some(from.clone()),
                _ => None,
            })
        };
        for effect in &found {
            match effect {
                // As gh-ost and pt-online-schema-change do.
                DdlEffect::Renamed { from, to } if from != to && successor(from).is_some() => {
                    let new = successor(from).map(|new| new.to_string()).unwrap_or_default();
                    let swapped = format!("table {new} took its name, and it is called {to} now");
                    if let Some(index) = self.index(from) {
                        effects.push((index, Effect::Stop(schema_changed(from, swapped))));
                    }
                }
                effect => self.means(effect.clone(), &statement, &mut effects),
            }
        }
        effects
    }

    fn index(&self, table: &TableName) -> Option<TableIndex> {
        self.followed.iter().position(|name| name == table).map(TableIndex)
    }

    fn means(&self, effect: DdlEffect, statement: &Statement<'_>, out: &mut Vec<(TableIndex, Effect)>) {
        let mut stop = |table: &TableName, reason: StopReason| {
            if let Some(index) = self.index(table) {
                out.push((index, Effect::Stop(reason)));
            }
        };
        match effect {
            DdlEffect::Truncated(table) => {
                out.extend(self.index(&table).map(|index| (index, Effect::Truncate)));
            }
            DdlEffect::Dropped(table) => stop(&table, dropped(&table, "the table was dropped")),
            DdlEffect::Renamed { from, to } if from == to => {}
            DdlEffect::Renamed { from, to } => {
                stop(&from, dropped(&from, &format!("the table was renamed to {to}")));
                stop(&to, schema_changed(&to, format!("table {from} took its name")));
            }
            // The server did nothing: the table is there, or it was said to be dropped before.
            DdlEffect::Created { if_not_exists: true, .. } => {}
            DdlEffect::Created { table, .. } => {
                stop(&table, schema_changed(&table, "the table was dropped and created again".into()));
            }
            DdlEffect::Altered { alteration, .. } if alteration.changes.is_empty() => {}
            DdlEffect::Altered { table, alteration } => {
                if let Some(index) = self.index(&table) {
                    let strict = statement.sql_mode & STRICT != 0;
                    let statement = statement.sql.chars().take(SHOWN).collect();
                    out.push((index, Effect::Alter(Altered { alteration, strict, statement })));
                }
            }
            DdlEffect::RowsGone(table) => stop(
                &table,
                StopReason::rows_gone(&table, "a partition was dropped or emptied, which the log says without rows"),
            ),
            DdlEffect::RowsUnknown(table) => {
                let detail = "a partition was exchanged or a tablespace imported, which the log says without rows";
                stop(&table, StopReason::rows_unknown(&table, detail));
            }
            DdlEffect::ChangedByStatement(table) => {
                stop(&table, by_statement(&table, "a session changed rows in statement format"));
            }
            DdlEffect::NotUnderstood(table) => stop(
                &table,
                StopReason {
                    state: StopReason::SCHEMA_CHANGED.into(),
                    detail: format!(
                        "a statement names the table that is not understood: {}",
                        statement.sql.chars().take(SHOWN).collect::<String>()
                    ),
                    remedy: format!("run `calve reload {table}` to read it again as it is now"),
                },
            ),
        }
    }
}

fn dropped(table: &TableName, detail: &str) -> StopReason {
    StopReason {
        state: StopReason::DROPPED.into(),
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

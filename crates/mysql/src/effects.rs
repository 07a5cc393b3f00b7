//! What a statement of the log means for the pipeline: a table is emptied, gets another schema, or cannot go on.

use std::borrow::Cow;

use calve_core::{SchemaChange, Shadow, StopReason, TableIndex, TableName, TableSchema, Trace};

use crate::binlog::Flavour;
use crate::binlog::query::Query;
use crate::charset::Charset;
use crate::conversions::Conversions;
use crate::ddl::shadow::{self, WrittenTable};
use crate::ddl::{Alteration, DdlEffect, NewTable, Session, Statement, Trigger, effects_of, tables_named};
use crate::transactions::{by_statement, schema_changed};

/// What becomes of a followed table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// All rows are gone.
    Truncate,
    /// Its columns, its key or its character set are others.
    Alter(Altered),
    /// It may have another unique index, and else is as it was.
    Unique,
    /// Something happened to the copy that is built of it.
    Copy(CopyEffect),
    /// The copy that is known has its name now.
    Swap,
    /// The table cannot go on.
    Stop(StopReason),
}

/// What becomes of the copy of a followed table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyEffect {
    /// One was made, of this name: like the table, or as it is written.
    Made(TableName, Option<WrittenTable>),
    Altered(Altered),
    /// Its rows are not the table's any more, in words.
    Differs(&'static str),
    /// The tool is at work on it.
    Traced(Trace),
    /// There is none any more under a name that is known.
    Gone,
    /// The table left its name to it, and is called so now.
    Awaited(TableName),
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
    fn by(alteration: Alteration, statement: &Statement<'_>) -> Self {
        let strict = statement.sql_mode & STRICT != 0;
        Self { alteration, strict, statement: statement.sql.chars().take(SHOWN).collect() }
    }

    /// The schema from here on; None where nothing changes.
    pub(crate) fn apply(
        &self,
        flavour: Flavour,
        conversions: &Conversions,
        schema: &TableSchema,
    ) -> Result<Option<SchemaChange>, StopReason> {
        let (tinyint1_as_boolean, rules) = (conversions.tinyint1_as_boolean, conversions.rules.table(&schema.table));
        let session = Session { flavour, tinyint1_as_boolean, rules: Some(&rules), strict: self.strict, copy_of: None };
        self.alteration.apply(schema, session).map_err(|what| {
            let detail = format!("it was altered in a way that cannot be followed ({what}): {}", self.statement);
            schema_changed(&schema.table, detail)
        })
    }

    /// The copy from here on.
    pub(crate) fn apply_to_copy(
        &self,
        flavour: Flavour,
        conversions: &Conversions,
        schema: &TableSchema,
        copy: &Shadow,
    ) -> Shadow {
        let rules = conversions.rules.table(&schema.table);
        let tinyint1_as_boolean = conversions.tinyint1_as_boolean;
        let session =
            Session { flavour, tinyint1_as_boolean, rules: Some(&rules), strict: self.strict, copy_of: Some(schema) };
        self.alteration.apply_to_shadow(schema, copy, session)
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
    /// In the order of their indexes.
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

    /// Whether the names of tables or databases are the same to the server.
    pub(crate) fn same(&self, a: &str, b: &str) -> bool {
        a == b || (self.lower_case_table_names != 0 && a.to_lowercase() == b.to_lowercase())
    }

    /// From here on this table too.
    pub(crate) fn follow(&mut self, table: TableName) {
        self.followed.push(table);
    }

    fn statement<'a>(&self, query: &Query<'a>, sql: &'a str) -> Statement<'a> {
        Statement {
            flavour: self.flavour,
            default_db: query.database,
            sql,
            sql_mode: query.sql_mode.unwrap_or(0),
            lower_case_table_names: self.lower_case_table_names,
        }
    }

    /// What the statement does to tables that are not followed and that may have to be, in order, and what it makes of one.
    pub(crate) fn of_others(
        &self,
        query: &Query<'_>,
        may_be: impl Fn(&TableName) -> bool,
    ) -> (Vec<DdlEffect>, Option<NewTable>) {
        let sql = text(query);
        let statement = self.statement(query, &sql);
        let as_stored = |table: TableName| match self.lower_case_table_names {
            0 => table,
            _ => TableName::new(table.schema.to_lowercase(), table.name.to_lowercase()),
        };
        let mut others: Vec<TableName> = tables_named(&statement).into_iter().map(as_stored).collect();
        others.retain(|table| self.find(&table.schema, &table.name).is_none() && may_be(table));
        if others.is_empty() {
            return (Vec::new(), None);
        }
        others.sort();
        others.dedup();
        let effects = effects_of(&statement, &others);
        let creates = effects.iter().any(|effect| matches!(effect, DdlEffect::Created { .. }));
        let new = if creates { NewTable::read(&statement) } else { None };
        (effects, new)
    }

    /// What the statement does to followed tables, and to the copies that are known of them, in order.
    pub(crate) fn effects(&self, query: &Query<'_>, copies: &[(TableIndex, &Shadow)]) -> Vec<(TableIndex, Effect)> {
        let sql = text(query);
        let statement = self.statement(query, &sql);
        let mut effects = Vec::new();
        // A copy that is followed itself is a table as any other.
        let is_itself = |copy: &Shadow| self.find(&copy.table.schema, &copy.table.name).is_some();
        let copies: Vec<(TableIndex, &Shadow)> = copies.iter().filter(|(_, copy)| !is_itself(copy)).copied().collect();
        let mut names = Cow::Borrowed(&self.followed[..]);
        if !copies.is_empty() {
            names.to_mut().extend(copies.iter().map(|(_, copy)| copy.table.clone()));
        }
        let found = effects_of(&statement, &names);
        let copy_of = |name: &TableName| copies.iter().find(|(_, copy)| copy.table == *name).map(|(index, _)| *index);
        let successor = |table: &TableName| {
            found.iter().find_map(|effect| match effect {
                DdlEffect::Renamed { from, to } if to == table => Some(from.clone()),
                _ => None,
            })
        };
        for effect in &found {
            match effect {
                // As gh-ost and pt-online-schema-change do, be it with a copy that is known.
                DdlEffect::Renamed { from, to } if from != to && successor(from).is_some() => {
                    let new = successor(from).unwrap_or_else(|| to.clone());
                    let swapped = format!(
                        "table {new} took its name, and it is called {to} now: not a copy whose making by gh-ost or \
                         pt-online-schema-change was followed"
                    );
                    if let Some(index) = self.index(from) {
                        let known = copy_of(&new) == Some(index);
                        let stop = || Effect::Stop(StopReason::swapped(from, swapped));
                        effects.push((index, if known { Effect::Swap } else { stop() }));
                    } else if let Some(index) = copy_of(from) {
                        effects.push((index, Effect::Copy(CopyEffect::Gone)));
                    }
                }
                DdlEffect::Renamed { from, to } if copy_of(from).is_some() => {
                    let left = |other: &DdlEffect| matches!(other, DdlEffect::Renamed { from, .. } if from == to);
                    let awaited = copies.iter().any(|(_, copy)| copy.table == *from && copy.awaited);
                    let index = copy_of(from).filter(|index| self.index(to) == Some(*index));
                    match index {
                        // Said where the table left its name.
                        Some(_) if found.iter().any(left) => {}
                        Some(index) if awaited => effects.push((index, Effect::Swap)),
                        _ => {
                            effects.extend(copy_of(from).map(|index| (index, Effect::Copy(CopyEffect::Gone))));
                            self.means(effect.clone(), &statement, &mut effects);
                        }
                    }
                }
                DdlEffect::Renamed { from, to }
                    if shadow::is_ghosts_past(&to.name)
                        && copies.iter().any(|(index, copy)| {
                            self.index(from) == Some(*index) && shadow::is_ghost(&copy.table.name)
                        }) =>
                {
                    let awaits = Effect::Copy(CopyEffect::Awaited(to.clone()));
                    effects.extend(self.index(from).map(|index| (index, awaits)));
                }
                DdlEffect::Triggered { table, trigger } => effects.extend(self.triggered(table, trigger, &copies)),
                DdlEffect::TriggerDropped(name) => {
                    let of_tool = copies.iter().filter(|(_, copy)| self.has_trigger(copy, name));
                    let differs =
                        CopyEffect::Differs("the tool's triggers were dropped before it took the table's name");
                    effects.extend(of_tool.map(|(index, _)| (*index, Effect::Copy(differs.clone()))));
                }
                effect => match self.of_copy(effect, &copy_of, &statement) {
                    Some(found) => effects.push(found),
                    None => self.means(effect.clone(), &statement, &mut effects),
                },
            }
        }
        effects
    }

    /// What a trigger means for the copies that are known.
    fn triggered(
        &self,
        table: &TableName,
        trigger: &Trigger,
        copies: &[(TableIndex, &Shadow)],
    ) -> Vec<(TableIndex, Effect)> {
        let of_copy = |copy: &Shadow, index: TableIndex| {
            if copy.table == *table {
                return Some(CopyEffect::Differs("a trigger was made on it, which may change its rows"));
            }
            let writes = self.index(table) == Some(index) && trigger.names.contains(&copy.table);
            match &trigger.trace {
                Some(trace) if writes => Some(CopyEffect::Traced(trace.clone())),
                _ if self.has_trigger(copy, &trigger.name) => {
                    Some(CopyEffect::Differs("a trigger took the place of one of the tool's"))
                }
                _ => None,
            }
        };
        copies
            .iter()
            .filter_map(|(index, copy)| of_copy(copy, *index).map(|effect| (*index, Effect::Copy(effect))))
            .collect()
    }

    /// Whether a trigger of this name brings changes of the table into the copy. Names of triggers are compared without case here, as by
    /// some versions.
    fn has_trigger(&self, copy: &Shadow, name: &TableName) -> bool {
        copy.traces.iter().any(|trace| match trace {
            Trace::Changelog => false,
            Trace::Inserts(own) | Trace::Updates(own) | Trace::Deletes(own) => {
                self.same(&own.schema, &name.schema) && own.name.to_lowercase() == name.name.to_lowercase()
            }
        })
    }

    /// What becomes of a copy. None where the effect is on none.
    fn of_copy(
        &self,
        effect: &DdlEffect,
        copy_of: &impl Fn(&TableName) -> Option<TableIndex>,
        statement: &Statement<'_>,
    ) -> Option<(TableIndex, Effect)> {
        let (table, effect) = match effect {
            DdlEffect::Copied { table, .. } if self.find(&table.schema, &table.name).is_some() => return None,
            DdlEffect::Copied { table, of, written } => {
                return Some((self.index(of)?, Effect::Copy(CopyEffect::Made(table.clone(), written.clone()))));
            }
            // What is made under its name is another table.
            DdlEffect::Dropped(table) | DdlEffect::Created { table, if_not_exists: false } => (table, CopyEffect::Gone),
            DdlEffect::Truncated(table) => (table, CopyEffect::Differs("it was emptied while it was built")),
            DdlEffect::RowsGone(table) | DdlEffect::RowsUnknown(table) => {
                (table, CopyEffect::Differs("rows came into it or went with its partitions"))
            }
            DdlEffect::ChangedByStatement(table) => {
                (table, CopyEffect::Differs("a session changed its rows in statement format"))
            }
            DdlEffect::NotUnderstood(table) => {
                (table, CopyEffect::Differs("a statement names it that is not understood"))
            }
            DdlEffect::Altered { table, alteration } => {
                let altered = || CopyEffect::Altered(Altered::by(alteration.clone(), statement));
                return copy_of(table).map(|index| (index, Effect::Copy(altered())));
            }
            DdlEffect::Created { .. }
            | DdlEffect::Renamed { .. }
            | DdlEffect::Triggered { .. }
            | DdlEffect::TriggerDropped(_) => return None,
        };
        copy_of(table).map(|index| (index, Effect::Copy(effect)))
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
                // Neither tool hears of it.
                let differs = CopyEffect::Differs("the table was emptied while it was built");
                out.extend(self.index(&table).map(|index| (index, Effect::Copy(differs))));
            }
            DdlEffect::Dropped(table) => stop(&table, dropped(&table, "the table was dropped")),
            DdlEffect::Renamed { from, to } if from == to => {}
            DdlEffect::Renamed { from, to } => {
                stop(&from, dropped(&from, &format!("the table was renamed to {to}")));
                stop(&to, StopReason::swapped(&to, format!("table {from} took its name")));
            }
            // The server did nothing: the table is there, or it was said to be dropped before. And what is only of copies that are
            // known, or of none.
            DdlEffect::Created { if_not_exists: true, .. }
            | DdlEffect::Copied { .. }
            | DdlEffect::Triggered { .. }
            | DdlEffect::TriggerDropped(_) => {}
            DdlEffect::Created { table, .. } => {
                stop(&table, schema_changed(&table, "the table was dropped and created again".into()));
            }
            DdlEffect::Altered { table, alteration } if alteration.changes.is_empty() => {
                let index = self.index(&table).filter(|_| alteration.unique);
                out.extend(index.map(|index| (index, Effect::Unique)));
            }
            DdlEffect::Altered { table, alteration } => {
                if let Some(index) = self.index(&table) {
                    out.push((index, Effect::Alter(Altered::by(alteration, statement))));
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

pub(crate) fn dropped(table: &TableName, detail: &str) -> StopReason {
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

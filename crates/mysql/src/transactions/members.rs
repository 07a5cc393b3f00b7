//! Members of merged tables in the log: their rows, what is done to them, and tables that become members.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use calve_core::{BinlogOffset, ChangeSink, Result, SourceTable, StopReason, TableIndex, TableName};

use super::{Mapped, Transactions, schema_changed};
use crate::binlog::query::Query;
use crate::binlog::table_map::TableMap;
use crate::ddl::{DdlEffect, NewTable};
use crate::effects::Effect;
use crate::merge::{self, Merges};

/// Which tables of the log are members of which merged table.
#[derive(Clone, Debug, Default)]
pub(super) struct Merged {
    /// How many tables the sink knows. Statements tell members by the numbers after these.
    tables: usize,
    members: Vec<(TableIndex, TableName)>,
    indexes: HashMap<TableName, TableIndex>,
    /// Merged tables by their names.
    by_name: HashMap<TableName, TableIndex>,
    /// Tables that match, and of which it is not known by the place where reading began whether they have rows.
    awaited: BTreeMap<TableName, TableIndex>,
    /// They were there when the log ended here.
    awaited_until: Option<BinlogOffset>,
    /// Merged tables that are not what the configuration says, still to be told.
    unlike: Vec<(TableIndex, StopReason)>,
}

impl Merged {
    pub(super) fn of(tables: &[SourceTable]) -> Self {
        let mut merged = Self { tables: tables.len(), ..Self::default() };
        for (at, table) in tables.iter().enumerate() {
            for member in table.schema.member_tables() {
                merged.add(TableIndex(at), member.clone());
            }
            if table.schema.is_merged() {
                merged.by_name.insert(table.name.clone(), TableIndex(at));
            }
        }
        merged
    }

    fn add(&mut self, table: TableIndex, member: TableName) {
        self.indexes.insert(member.clone(), table);
        self.members.push((table, member));
    }

    /// What statements are read for: the tables, then the members. The name of a merged table is none of the log.
    pub(super) fn followed(&self, tables: &[SourceTable]) -> Vec<TableName> {
        let of_table = |table: &SourceTable| {
            if table.schema.is_merged() { TableName::new("", "") } else { table.name.clone() }
        };
        tables.iter().map(of_table).chain(self.members.iter().map(|(_, member)| member.clone())).collect()
    }

    /// Holds the tables against what the configuration merges.
    pub(super) fn by(mut self, merges: &Merges, tables: &[SourceTable]) -> Self {
        for (at, table) in tables.iter().enumerate() {
            let gone =
                |member: &&TableName| merges.of(&table.name).is_none_or(|merge| merge.origin_of(member).is_none());
            let what = match (merges.of(&table.name), table.schema.is_merged()) {
                (Some(_), false) => "it is to be merged of several tables".to_owned(),
                (None, true) => "it is to be merged of other tables no longer".to_owned(),
                (Some(merge), true)
                    if table.schema.columns.first().is_some_and(|c| c.native.name != merge.native_origin()) =>
                {
                    format!("its members are those of the pattern {} now", merge.pattern)
                }
                _ => match table.schema.member_tables().find(gone) {
                    Some(member) => format!("its member {member} is to be none any more"),
                    None => continue,
                },
            };
            let what = format!("{what}, as the configuration says");
            self.unlike.push((TableIndex(at), schema_changed(&table.name, what)));
        }
        self
    }

    /// The member that statements tell by this number.
    pub(super) fn member(&self, index: TableIndex) -> Option<(TableIndex, TableName)> {
        self.members.get(index.0.checked_sub(self.tables)?).cloned()
    }
}

impl Transactions {
    /// These tables were there, and match, when the log ended at `end`; no schema names them. Each has to be made by the log up to there.
    pub(crate) fn await_members(&mut self, tables: &[(TableIndex, TableName)], end: BinlogOffset) {
        self.merged.awaited = tables.iter().map(|(index, table)| (table.clone(), *index)).collect();
        self.merged.awaited_until = Some(end);
    }

    /// What a table map stands for whose table is, or would be, a member. None for all others.
    pub(super) fn member_map(&self, map: &TableMap<'_>) -> Option<Mapped> {
        if let Some(found) = self.statements.find(map.database, map.table)
            && let Some(index) = self.merged.indexes.get(found)
        {
            let schema = &self.tables.get(index.0)?.schema;
            let Some(origin) = self.conversions.merges.of(&schema.table).and_then(|merge| merge.origin_of(found))
            else {
                return Some(Mapped::Changed(
                    *index,
                    format!("rows came of {found}, which is to be no member any more"),
                ));
            };
            let plan = merge::plan(self.flavour, map, schema, found, &origin);
            return Some(match plan {
                Ok(plan) => Mapped::Followed(*index, Arc::new(plan.with_conversions(&self.conversions))),
                Err(mismatch) => Mapped::Changed(*index, format!("of its member {found}: {}", mismatch.what)),
            });
        }
        let table = TableName::new(map.database, map.table);
        let index = self.would_be_member(&table)?;
        Some(Mapped::Changed(
            index,
            format!("rows came of {table}, which belongs to it, and the log has not said how it was made"),
        ))
    }

    /// The merged table that a table would be a member of by its name.
    fn would_be_member(&self, table: &TableName) -> Option<TableIndex> {
        let merge = self.conversions.merges.containing(table)?;
        self.merged.by_name.get(&merge.table).copied()
    }

    /// A statement did something to a member.
    pub(super) fn member_changed(
        &mut self,
        table: TableIndex,
        member: &TableName,
        effect: Effect,
        sink: &mut dyn ChangeSink,
    ) -> Result<()> {
        let Some(schema) = self.tables.get(table.0).map(|source| Arc::clone(&source.schema)) else { return Ok(()) };
        match effect {
            Effect::Alter(altered) => {
                let changed = merge::altered(&schema, member, &altered, (self.flavour, &self.conversions));
                self.change(table, changed, || altered.while_read(&schema.table), sink).map(|_| ())
            }
            Effect::Truncate => {
                self.stop_wanted(table, sink, |table| schema_changed(table, format!("its member {member} was emptied")))
            }
            // Only copies of tables that are not merged are followed: what takes a member's name comes as a stop.
            Effect::Copy(_) | Effect::Unique => Ok(()),
            Effect::Swap => self.stop_wanted(table, sink, |table| {
                schema_changed(table, format!("another table took the name of its member {member}"))
            }),
            Effect::Stop(reason) => self.stop_wanted(table, sink, |table| StopReason {
                detail: format!("of its member {member}: {}", reason.detail),
                remedy: format!("run `calve reload {table}` to read it again from the tables that are there"),
                state: reason.state,
            }),
        }
    }

    /// A statement may make tables members of merged ones.
    pub(super) fn others_changed(&mut self, query: &Query<'_>, sink: &mut dyn ChangeSink) -> Result<()> {
        if self.merged.by_name.is_empty() {
            return Ok(());
        }
        let (effects, new) = self.statements.of_others(query, |table| self.would_be_member(table).is_some());
        for effect in effects {
            let (table, what) = match effect {
                DdlEffect::Created { table, if_not_exists } => {
                    self.created(table, if_not_exists, new.as_ref(), sink)?;
                    continue;
                }
                DdlEffect::Renamed { from, to } => {
                    self.merged.awaited.remove(&from);
                    let what =
                        format!("{from} was renamed to {to}, which belongs to it, and its rows are not in the log");
                    (to, what)
                }
                DdlEffect::Dropped(table) => {
                    self.merged.awaited.remove(&table);
                    continue;
                }
                DdlEffect::NotUnderstood(table) | DdlEffect::ChangedByStatement(table) => {
                    let what =
                        format!("a statement names {table}, which belongs to it, and it is not known what it does");
                    (table, what)
                }
                DdlEffect::Truncated(_)
                | DdlEffect::Altered { .. }
                | DdlEffect::Copied { .. }
                | DdlEffect::Triggered { .. }
                | DdlEffect::TriggerDropped(_)
                | DdlEffect::RowsGone(_) => continue,
                DdlEffect::RowsUnknown(table) => {
                    let what = format!("{table}, which belongs to it, took rows over that are not in the log");
                    (table, what)
                }
            };
            if let Some(index) = self.would_be_member(&table) {
                self.stop_wanted(index, sink, |table| schema_changed(table, what))?;
            }
        }
        Ok(())
    }

    /// A table was made that is a member from here on. It has no rows.
    fn created(
        &mut self,
        member: TableName,
        if_not_exists: bool,
        new: Option<&NewTable>,
        sink: &mut dyn ChangeSink,
    ) -> Result<()> {
        let Some(index) = self.would_be_member(&member) else { return Ok(()) };
        let Some(schema) = self.tables.get(index.0).map(|source| Arc::clone(&source.schema)) else { return Ok(()) };
        if if_not_exists && self.merged.awaited.contains_key(&member) {
            let what = format!("a statement made {member}, which belongs to it, unless it was there before");
            return self.stop_wanted(index, sink, |table| schema_changed(table, what));
        }
        let changed = merge::joined(&schema, &member, new, (self.flavour, &self.conversions));
        let while_read = || {
            schema_changed(&schema.table, format!("table {member}, which belongs to it, was made while its load began"))
        };
        if self.change(index, changed, while_read, sink)? {
            self.merged.awaited.remove(&member);
            self.statements.follow(member.clone());
            self.merged.add(index, member);
        }
        Ok(())
    }

    /// Stops merged tables of which it has come out that they are not what they should be. Between transactions.
    pub(super) fn stop_unlike(&mut self, sink: &mut dyn ChangeSink) {
        if self.current.is_some() {
            return;
        }
        for (table, reason) in std::mem::take(&mut self.merged.unlike) {
            sink.stop(table, reason);
        }
        let reached = |until: &BinlogOffset| self.place.at().is_some_and(|at| at >= until);
        if self.merged.awaited.is_empty() || !self.merged.awaited_until.as_ref().is_some_and(reached) {
            return;
        }
        for (member, index) in std::mem::take(&mut self.merged.awaited) {
            let Some(table) = self.tables.get(index.0).map(|source| &source.name) else { continue };
            let what = format!("{member} belongs to it, and the log has not said how it was made");
            sink.stop(index, schema_changed(table, what));
        }
    }
}

//! Copies of followed tables, from their making by a tool until they have the tables' names.

use std::collections::BTreeSet;
use std::sync::Arc;

use calve_core::{
    ChangeSink, Result, SchemaChange, Shadow, SourceTable, StopReason, TableIndex, TableName, TableSchema, Trace,
};

use super::Transactions;
use crate::ddl::{Session, shadow};
use crate::effects::{CopyEffect, dropped};
use crate::types;

/// How long after a table left its name its copy has it, by the server's clock.
const LONGEST_CUT_OVER_US: i64 = 60_000_000;

/// Those that are known at this place of the log, each with its table.
pub(super) fn known<'t>(tables: &'t [SourceTable]) -> Vec<(TableIndex, &'t Shadow)> {
    let with_copy =
        |(index, table): (usize, &'t SourceTable)| Some((TableIndex(index), table.schema.shadow.as_deref()?));
    tables.iter().enumerate().filter_map(with_copy).collect()
}

/// The copy that the table left its name to, and that does not have it.
fn awaited(schema: &TableSchema) -> Option<&Shadow> {
    schema.shadow.as_deref().filter(|copy| copy.awaited)
}

/// Tables that left their names to copies that do not have them.
pub(super) fn nameless(tables: &[SourceTable]) -> BTreeSet<TableIndex> {
    let is_nameless = |(_, table): &(usize, &SourceTable)| awaited(&table.schema).is_some();
    tables.iter().enumerate().filter(is_nameless).map(|(index, _)| TableIndex(index)).collect()
}

impl Transactions {
    /// Moves on what is known of the copy, where the sink wants what the present transaction does to the table.
    pub(super) fn copy(&mut self, table: TableIndex, effect: CopyEffect, sink: &mut dyn ChangeSink) -> Result<()> {
        let Some(schema) = self.tables.get(table.0).map(|source| Arc::clone(&source.schema)) else { return Ok(()) };
        let awaited = schema.shadow.as_ref().is_some_and(|copy| copy.awaited);
        let stop = match (&effect, &schema.shadow) {
            (CopyEffect::Gone, Some(_)) if awaited => Some("its copy is gone that should have had its name".to_owned()),
            (CopyEffect::Awaited(name), None) => Some(format!("the table was renamed to {name}")),
            _ => None,
        };
        if let Some(detail) = stop {
            return self.stop_wanted(table, sink, |table| dropped(table, &detail));
        }
        let next = self.next_copy(&schema, effect);
        self.note(table, &schema, next, sink)
    }

    /// Moves on what is known of the table beside its columns.
    fn note(
        &mut self,
        table: TableIndex,
        schema: &TableSchema,
        next: TableSchema,
        sink: &mut dyn ChangeSink,
    ) -> Result<()> {
        if next == *schema {
            return Ok(());
        }
        self.begin_in_sink(sink)?;
        if sink.wants(table) {
            self.move_on(table, SchemaChange { schema: Arc::new(next), existing_rows: None }, sink);
        }
        Ok(())
    }

    /// The table may have another unique index.
    pub(super) fn unique(&mut self, table: TableIndex, sink: &mut dyn ChangeSink) -> Result<()> {
        let Some(schema) = self.tables.get(table.0).map(|source| Arc::clone(&source.schema)) else { return Ok(()) };
        let mut next = (*schema).clone();
        types::say_unique(&mut next.columns);
        self.note(table, &schema, next, sink)
    }

    /// Rows came of the changelog that gh-ost has beside a copy of this name: it is at work on it.
    pub(super) fn ghost_at_work(&mut self, ghost: &TableName, sink: &mut dyn ChangeSink) -> Result<()> {
        let same = |a: &str, b: &str| self.statements.same(a, b);
        let is_ghost = |copy: &Shadow| same(&copy.table.schema, &ghost.schema) && same(&copy.table.name, &ghost.name);
        let found = known(&self.tables).into_iter().find(|(_, copy)| is_ghost(copy)).map(|(index, _)| index);
        found.map_or(Ok(()), |table| self.copy(table, CopyEffect::Traced(Trace::Changelog), sink))
    }

    /// Stops tables that left their names to copies which did not take them. gh-ost does both at once, and between them holds the table
    /// locked.
    pub(super) fn stop_deserted(&mut self, sink: &mut dyn ChangeSink) -> Result<()> {
        let Some((now, false)) = self.current.as_ref().map(|current| (current.committed_at, current.covered)) else {
            return Ok(());
        };
        for table in self.nameless.clone() {
            let copy = self.tables.get(table.0).and_then(|source| awaited(&source.schema));
            let Some(copy) = copy.filter(|copy| now.saturating_sub(copy.awaited_since) > LONGEST_CUT_OVER_US) else {
                continue;
            };
            let detail = format!("the table was renamed, and its copy {} did not take its name", copy.table);
            self.begin_in_sink(sink)?;
            // One that is ahead had its name then, or is stopped later.
            if sink.wants(table) {
                self.nameless.remove(&table);
                self.stop_wanted(table, sink, |table| dropped(table, &detail))?;
            }
        }
        Ok(())
    }

    /// The table's schema with its copy as that is after the effect.
    fn next_copy(&self, schema: &TableSchema, effect: CopyEffect) -> TableSchema {
        let with = |copy: Option<Shadow>| TableSchema { shadow: copy.map(Box::new), ..schema.clone() };
        let copy = schema.shadow.as_deref();
        let refused =
            |what: String| copy.map(|copy| Shadow { refused: copy.refused.clone().or(Some(what)), ..copy.clone() });
        match effect {
            CopyEffect::Made(name, written) => {
                let rules = self.conversions.rules.table(&schema.table);
                let session = Session {
                    flavour: self.flavour,
                    tinyint1_as_boolean: self.conversions.tinyint1_as_boolean,
                    rules: Some(&rules),
                    strict: true,
                    copy_of: None,
                };
                let mut made = schema.with_shadow(name);
                if let Some(copy) = &mut made.shadow {
                    copy.refused = written.and_then(|written| written.differs_from(schema, session));
                }
                made
            }
            CopyEffect::Altered(altered) => {
                with(copy.map(|copy| altered.apply_to_copy(self.flavour, &self.conversions, schema, copy)))
            }
            CopyEffect::Differs(what) => with(refused(what.to_owned())),
            CopyEffect::Traced(trace) => with(copy.map(|copy| {
                let mut copy = copy.clone();
                copy.traces.insert(trace);
                copy
            })),
            CopyEffect::Gone => with(None),
            CopyEffect::Awaited(_) => {
                let awaited_since = self.current.as_ref().map_or(0, |current| current.committed_at);
                with(copy.map(|copy| Shadow { awaited: true, awaited_since, ..copy.clone() }))
            }
        }
    }

    /// The copy has the table's name, and what was done to it was done to the table.
    pub(super) fn swap(&mut self, table: TableIndex, sink: &mut dyn ChangeSink) -> Result<()> {
        let Some(schema) = self.tables.get(table.0).map(|source| Arc::clone(&source.schema)) else { return Ok(()) };
        let (Some(copy), Some(next)) = (schema.shadow.as_deref(), schema.of_shadow()) else { return Ok(()) };
        let took = format!("table {} took its name", copy.table);
        if let Some(why) = copy.refused.as_deref().or_else(|| shadow::untraced(copy)) {
            let detail = format!("{took}, and its rows need not be those of the table: {why}");
            return self.stop_wanted(table, sink, |table| StopReason::swapped(table, detail));
        }
        self.begin_in_sink(sink)?;
        if !sink.wants(table) {
            return Ok(());
        }
        if self.is_settling(table) {
            sink.stop(table, StopReason::swapped(&schema.table, format!("{took} while its load began")));
            return Ok(());
        }
        self.move_on(table, SchemaChange { schema: Arc::new(next), existing_rows: None }, sink);
        Ok(())
    }
}

#[cfg(test)]
#[path = "copies_tests.rs"]
mod tests;

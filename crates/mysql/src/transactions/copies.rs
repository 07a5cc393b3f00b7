//! Copies of followed tables, from their making by a tool until they have the tables' names.

use std::sync::Arc;

use calve_core::{ChangeSink, Result, SchemaChange, Shadow, SourceTable, TableIndex, TableSchema};

use super::{Transactions, schema_changed};
use crate::ddl::Session;
use crate::effects::{CopyEffect, dropped};

/// Those that are known at this place of the log, each with its table.
pub(super) fn known<'t>(tables: &'t [SourceTable]) -> Vec<(TableIndex, &'t Shadow)> {
    let with_copy =
        |(index, table): (usize, &'t SourceTable)| Some((TableIndex(index), table.schema.shadow.as_deref()?));
    tables.iter().enumerate().filter_map(with_copy).collect()
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
        if next == *schema {
            return Ok(());
        }
        self.begin_in_sink(sink)?;
        if sink.wants(table) {
            self.move_on(table, SchemaChange { schema: Arc::new(next), existing_rows: None }, sink);
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
            CopyEffect::Gone => with(None),
            CopyEffect::Awaited(_) => with(copy.map(|copy| Shadow { awaited: true, ..copy.clone() })),
        }
    }

    /// The copy has the table's name, and what was done to it was done to the table.
    pub(super) fn swap(&mut self, table: TableIndex, sink: &mut dyn ChangeSink) -> Result<()> {
        let Some(schema) = self.tables.get(table.0).map(|source| Arc::clone(&source.schema)) else { return Ok(()) };
        let (Some(copy), Some(next)) = (schema.shadow.as_deref(), schema.of_shadow()) else { return Ok(()) };
        let took = format!("table {} took its name", copy.table);
        if let Some(why) = &copy.refused {
            let detail = format!("{took}, and its rows need not be those of the table: {why}");
            return self.stop_wanted(table, sink, |table| schema_changed(table, detail));
        }
        self.begin_in_sink(sink)?;
        if !sink.wants(table) {
            return Ok(());
        }
        if self.is_settling(table) {
            sink.stop(table, schema_changed(&schema.table, format!("{took} while its load began")));
            return Ok(());
        }
        self.move_on(table, SchemaChange { schema: Arc::new(next), existing_rows: None }, sink);
        Ok(())
    }
}

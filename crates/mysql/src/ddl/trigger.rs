//! Triggers: what they do to rows is in the log as rows. But one of a copy makes it another table, and those of
//! pt-online-schema-change are how what is written to a table comes into its copy (`create_triggers` there).

use calve_core::{TableName, Trace};

use super::token::Token;
use super::{DdlEffect, Reading};

/// A trigger that a statement makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trigger {
    pub(crate) name: TableName,
    /// What it says of a copy that it writes to. None: it is none of the tool's.
    pub(crate) trace: Option<Trace>,
    /// The followed tables that it names, but for its own.
    pub(crate) names: Vec<TableName>,
}

/// Whether pt-online-schema-change may call a trigger so.
fn is_tools(name: &TableName) -> bool {
    name.name.to_ascii_lowercase().starts_with("pt_osc_")
}

/// What a trigger of the tool after this event brings into a copy.
fn trace(event: &Token, name: TableName) -> Option<Trace> {
    let Token::Word(event) = event else { return None };
    match event.to_ascii_uppercase().as_str() {
        "INSERT" => Some(Trace::Inserts(name)),
        "UPDATE" => Some(Trace::Updates(name)),
        "DELETE" => Some(Trace::Deletes(name)),
        _ => None,
    }
}

impl Reading<'_> {
    /// `[DEFINER = ..] TRIGGER ..` after CREATE. What is not understood may be any trigger of any table that is named.
    pub(super) fn create_trigger(&mut self) {
        if self.skip("DEFINER") {
            let kinds = ["TRIGGER", "SQL", "VIEW", "AGGREGATE", "FUNCTION", "PROCEDURE", "EVENT", "PACKAGE"];
            let end = self.tokens.iter().position(|token| kinds.iter().any(|kind| token.is(kind)));
            self.tokens = end.and_then(|end| self.tokens.get(end..)).unwrap_or_default();
        }
        if !self.skip("TRIGGER") {
            return;
        }
        let words = self.tokens;
        if self.trigger().is_none() {
            for table in self.mentioned(words) {
                let trigger = Trigger { name: TableName::new("", ""), trace: None, names: Vec::new() };
                self.effects.push(DdlEffect::Triggered { table, trigger });
            }
        }
    }

    /// `[IF NOT EXISTS] name {BEFORE | AFTER} event ON table FOR EACH ROW ..`.
    fn trigger(&mut self) -> Option<()> {
        self.skip_if_exists();
        let name = self.table()?;
        let on = self.tokens.iter().position(|token| token.is("ON"))?;
        let (when, rest) = self.tokens.split_at(on);
        self.tokens = rest.get(1..)?;
        let table = self.table()?;
        let trace = match when {
            [after, event] if after.is("AFTER") && is_tools(&name) => trace(event, name.clone()),
            _ => None,
        };
        let names = self.mentioned(self.tokens);
        self.effect(table, |table| DdlEffect::Triggered { table, trigger: Trigger { name, trace, names } });
        Some(())
    }

    /// `[IF EXISTS] name` after DROP TRIGGER.
    pub(super) fn drop_trigger(&mut self) -> Option<()> {
        self.skip_if_exists();
        let name = self.table()?;
        if is_tools(&name) {
            self.effects.push(DdlEffect::TriggerDropped(name));
        }
        Some(())
    }
}

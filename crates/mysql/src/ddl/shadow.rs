//! Copies of tables that gh-ost and pt-online-schema-change build, alter while they are empty, fill, and give the table's name.
//!
//! Both tools fill a copy by `INSERT IGNORE .. SELECT` of the columns that it has in common with the table, by their names, and write to
//! it what is written to the table meanwhile. So the copy's rows are the table's as the same ALTER of the table would have left them,
//! but for what is found out here: what an INSERT IGNORE drops or mends where an ALTER would fail, and columns that the tools do
//! not pair as an ALTER does.

use calve_core::{Column, Shadow, TableName, TableSchema, Trace};

use super::apply::{Session, has, same};
use super::change::{Alteration, TableChange};
use super::cursor::{Cursor, split_at_commas};
use super::definition::Definition;
use super::token::Token;
use crate::types::attribute;

/// A table as a CREATE TABLE writes it, as far as rows and their decoding go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenTable {
    pub(super) definitions: Vec<Definition>,
    /// Names, in the key's order.
    pub(super) key: Vec<String>,
    /// Of text columns that name none.
    pub(super) character_set: Option<String>,
    /// Rows must have one of another table.
    pub(super) refers: bool,
}

/// The longest name of a table, in characters.
const LONGEST_NAME: usize = 64;

/// Whether gh-ost may call a copy so: `_t_gho`, where the table's name may be cut or replaced (`--force-table-names`).
pub(crate) fn is_ghost(name: &str) -> bool {
    surrounded(name, "_gho")
}

/// Whether gh-ost may call a table so that a copy takes the place of: `_t_del`, `_t_20250131235959_del`.
pub(crate) fn is_ghosts_past(name: &str) -> bool {
    surrounded(name, "_del")
}

fn surrounded(name: &str, suffix: &str) -> bool {
    name.strip_prefix('_').and_then(|rest| rest.strip_suffix(suffix)).is_some_and(|inside| !inside.is_empty())
}

/// The copy that gh-ost builds while it writes of its work to this table: `_t_gho` for `_t_ghc`.
pub(crate) fn ghost_of_changelog(name: &TableName) -> Option<TableName> {
    let inside = name.name.strip_suffix("_ghc").filter(|_| surrounded(&name.name, "_ghc"))?;
    Some(TableName::new(name.schema.as_str(), format!("{inside}_gho")))
}

/// What the log should have had of the tool that built the copy and has not, in words: then anybody may have built it.
pub(crate) fn untraced(copy: &Shadow) -> Option<&'static str> {
    if is_ghost(&copy.table.name) {
        let seen = copy.traces.contains(&Trace::Changelog);
        return (!seen)
            .then_some("gh-ost, whose name it had, wrote nothing to a changelog of its own while it was there");
    }
    let seen = |is: fn(&Trace) -> bool| copy.traces.iter().any(is);
    let all = seen(|trace| matches!(trace, Trace::Inserts(_)))
        && seen(|trace| matches!(trace, Trace::Updates(_)))
        && seen(|trace| matches!(trace, Trace::Deletes(_)));
    (!all).then_some(
        "the triggers of pt-online-schema-change, whose name it had, were not made on the table while it was there",
    )
}

/// Whether a CREATE TABLE fills the table that it makes, by what stands after the parentheses.
pub(super) fn is_filled(options: &[Token]) -> bool {
    let words = ["SELECT", "AS", "WITH", "TABLE", "START", "IGNORE", "REPLACE"];
    let is_word = |token: &Token| words.iter().any(|word| token.is(word));
    // `VALUES LESS THAN (..)` and `VALUES IN (..)` are of partitions.
    let of_partition = |after: Option<&Token>| after.is_some_and(|token| token.is("LESS") || token.is("IN"));
    options
        .iter()
        .enumerate()
        .any(|(at, token)| is_word(token) || (token.is("VALUES") && !of_partition(options.get(at.saturating_add(1)))))
}

/// Whether pt-online-schema-change may call a copy of this table so: `_t_new`, with up to ten `_` before it, cut where that is too long.
pub(crate) fn is_new(name: &TableName, of: &TableName) -> bool {
    let whole = format!("{}_new", of.name);
    let is_cut = name.name.chars().count() == LONGEST_NAME;
    let follows = |rest: &str| rest == whole || (is_cut && !rest.is_empty() && whole.starts_with(rest));
    let mut rest = name.name.as_str();
    name.schema == of.schema
        && (0..10).any(|_| match rest.strip_prefix('_') {
            Some(after) => {
                rest = after;
                follows(rest)
            }
            None => false,
        })
}

impl WrittenTable {
    /// What stands in the parentheses of a CREATE TABLE; the character set is still to come. None where it is not understood.
    pub(super) fn read(mut cursor: Cursor<'_>, real_as_float: bool) -> Option<(Self, Cursor<'_>)> {
        let (mut definitions, mut key) = (Vec::new(), Vec::new());
        let inside = cursor.parenthesised()?;
        let refers = inside.iter().any(|token| token.is("REFERENCES"));
        for part in split_at_commas(inside) {
            let mut part = Cursor(part);
            if part.skip_all(&["PRIMARY", "KEY"]) {
                let TableChange::AddKey(names) = TableChange::add_key(part)? else { return None };
                key = names;
            } else if !is_index(part) {
                let (definition, None) = Definition::read(part, real_as_float)? else { return None };
                definitions.push(definition);
            }
        }
        Some((Self { definitions, key, character_set: None, refers }, cursor))
    }

    /// Whether the table is this one: redefined so, nothing of it would change. In words, what differs.
    pub(crate) fn differs_from(&self, schema: &TableSchema, session: Session<'_>) -> Option<String> {
        if self.refers {
            // The table may have rows that were written while `foreign_key_checks` was off.
            return Some("it has a foreign key, and rows that it refuses are left out of a copy".to_owned());
        }
        let found = |name: &str| schema.columns.iter().find(|column| column.name == name);
        // Those that are computed the log may lack, and the schema then.
        let here = self.definitions.iter().filter(|written| !written.generated || found(&written.name).is_some());
        let names: Vec<&str> = here.map(|written| written.name.as_str()).collect();
        if !names.iter().copied().eq(schema.columns.iter().map(|column| column.name.as_str())) {
            return Some("it was made with other columns".to_owned());
        }
        if !self.key.iter().eq(schema.key_columns().map(|column| &column.name)) {
            return Some("it was made with another primary key".to_owned());
        }
        let stored = self.definitions.iter().filter(|written| !written.generated);
        let define = |written: &Definition| TableChange::Define {
            column: written.name.clone(),
            definition: written.clone(),
            place: None,
            if_exists: false,
        };
        let set = self.character_set.iter().map(|name| TableChange::DefaultCharacterSet(name.clone()));
        let changes = set.chain(stored.map(define)).collect();
        let alteration = Alteration { changes, ..Alteration::default() };
        let next = match alteration.apply(schema, session) {
            Ok(None) => return None,
            Ok(Some(change)) => change,
            Err(what) => return Some(format!("it was made in a way that is not understood ({what})")),
        };
        let same_column = |a: &Column, b: &Column| a.id == b.id && a.name == b.name && a.native == b.native;
        let columns = next.schema.columns.iter().zip(&schema.columns);
        let alike = next.existing_rows.is_none() && columns.into_iter().all(|(a, b)| same_column(a, b));
        (!alike).then(|| "it was made with columns of other types".to_owned())
    }
}

fn is_index(part: Cursor<'_>) -> bool {
    let kinds = ["INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK", "CONSTRAINT", "VECTOR"];
    // A column of the last of these names is followed by its type.
    match part.0 {
        [first, second, ..] if first.is("VECTOR") => second.is("INDEX") || second.is("KEY"),
        [first, ..] => kinds.iter().any(|kind| first.is(kind)),
        [] => false,
    }
}

impl Alteration {
    /// The copy of a table of this schema after an ALTER TABLE of the copy. What that does, or may do, to rows that are copied is in
    /// its `refused`.
    pub(crate) fn apply_to_shadow(&self, schema: &TableSchema, shadow: &Shadow, session: Session<'_>) -> Shadow {
        if shadow.refused.is_some() {
            return shadow.clone();
        }
        let refused = |what: String| Shadow { refused: Some(what), ..shadow.clone() };
        let Shadow { character_set, columns, key, .. } = shadow.clone();
        let copy = TableSchema { character_set, columns, key, shadow: None, ..schema.clone() };
        if let Some(what) = self.loses_rows(schema, &copy) {
            return refused(what);
        }
        // Values that do not fit are made to, whatever the session says: they are copied by INSERT IGNORE.
        let session = Session { strict: false, copy_of: Some(schema), ..session };
        let change = match self.apply(&copy, session) {
            Ok(None) => return shadow.clone(),
            Ok(Some(change)) => change,
            Err(what) => return refused(format!("it was altered in a way that cannot be followed ({what})")),
        };
        if let Some(what) = change.existing_rows.or_else(|| mispaired(schema, &change.schema)) {
            return refused(what);
        }
        let TableSchema { character_set, columns, key, .. } = (*change.schema).clone();
        Shadow { character_set, columns, key, ..shadow.clone() }
    }

    /// What of the statement an ALTER of the table itself would refuse or do otherwise, in words.
    fn loses_rows(&self, schema: &TableSchema, copy: &TableSchema) -> Option<String> {
        if self.constrains {
            return Some(
                "a unique index, a constraint or partitions were added to it, and rows that do not fit are left out of a copy"
                    .to_owned(),
            );
        }
        let is_new = |name: &str| !schema.columns.iter().any(|column| same(&column.name, name));
        if let Some(name) = self.defaults.iter().find(|name| is_new(name)) {
            return Some(format!("column \"{name}\" was added and got a default, which rows that are copied have"));
        }
        let set_by_updates = |name: &str| {
            Some(format!(
                "column \"{name}\" was added with ON UPDATE, which gives it a value where the tools update rows that are copied"
            ))
        };
        self.changes.iter().find_map(|change| match change {
            TableChange::Add { definition, .. } if definition.on_update => set_by_updates(&definition.name),
            TableChange::Rename { from, to, .. } => Some(format!(
                "column \"{from}\" was renamed to \"{to}\" by RENAME COLUMN, and not every version of the tools copies its values (CHANGE is followed)"
            )),
            TableChange::ConvertTo(name) => Some(format!("its texts were converted to {name}, and keys may be equal by another collation")),
            TableChange::Define { column, definition, place, .. } => {
                let before = copy.columns.iter().find(|known| same(&known.name, column))?;
                if definition.on_update && schema.columns.iter().all(|own| own.id != before.id) {
                    return set_by_updates(&definition.name);
                }
                let renames = !same(&before.name, &definition.name);
                if renames && (before.name != *column || place.is_some() || is_new(&before.name)) {
                    return Some(format!(
                        "column \"{column}\" was renamed to \"{}\" in a way in which not every version of the tools copies its values",
                        definition.name
                    ));
                }
                let in_key = copy.key_columns().any(|key| key.id == before.id);
                let is_text = before.native.character_set.is_some();
                let is_unique = has(&before.native, attribute::UNIQUE);
                // One that is named nowhere is the table's, whatever the column had.
                (is_text && (in_key || is_unique || definition.ty.names_collation())).then(|| {
                    format!("column \"{column}\" may have another collation, by which keys may be equal that were not")
                })
            }
            _ => None,
        })
    }
}

/// A column of the copy that the tools fill from another one than an ALTER would: they go by names.
fn mispaired(schema: &TableSchema, copy: &TableSchema) -> Option<String> {
    copy.columns.iter().find_map(|column| {
        let namesake = schema.columns.iter().find(|own| same(&own.name, &column.name));
        if let Some(other) = namesake.filter(|own| own.id != column.id) {
            return Some(format!(
                "another column has the name \"{}\", whose values the tools copy into it",
                other.name
            ));
        }
        let before = schema.columns.iter().find(|own| own.id == column.id)?;
        (before.native.character_set != column.native.character_set)
            .then(|| format!("the texts of column \"{}\" were converted to another character set", before.name))
    })
}

#[cfg(test)]
#[path = "shadow_tests.rs"]
mod tests;

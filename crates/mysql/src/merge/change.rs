//! A merged table after a statement of the log that alters a member, or makes one.

use std::sync::Arc;

use calve_core::{Condition, MemberShape, SchemaChange, StopReason, TableName, TableSchema};

use super::{named, own_schema, same, with_member};
use crate::binlog::Flavour;
use crate::conversions::Conversions;
use crate::ddl::{Alteration, NewTable, Session, TableChange};
use crate::effects::Altered;
use crate::transactions::schema_changed;

/// What an ALTER TABLE of a member does to the merged table; None where nothing changes.
pub(crate) fn altered(
    merged: &TableSchema,
    member: &TableName,
    altered: &Altered,
    (flavour, conversions): (Flavour, &Conversions),
) -> Result<Option<SchemaChange>, StopReason> {
    let Some(before) = merged.member(member) else { return Ok(None) };
    let stopped = |what: &str| schema_changed(&merged.table, format!("of its member {member}: {what}"));
    let own = own_schema(merged, member, before);
    let change = altered.apply(flavour, conversions, &own).map_err(|reason| stopped(&reason.detail))?;
    let Some(SchemaChange { schema, existing_rows }) = change else { return Ok(None) };
    let TableSchema { character_set, columns, key, .. } = Arc::unwrap_or_clone(schema);
    let MemberShape { lost, guessed_character_set, .. } = before.clone();
    let after = MemberShape { character_set, columns, key, lost, guessed_character_set };
    let existing_rows = existing_rows.or_else(|| rows_differ(merged, member, before, &after));
    let existing_rows = existing_rows.map(|what| format!("of its member {member}: {what}"));
    let next = with_member(merged, member, after).map_err(|what| stopped(&what))?;
    if existing_rows.is_none() && next == *merged {
        return Ok(None);
    }
    Ok(Some(SchemaChange { schema: Arc::new(next), existing_rows }))
}

/// What rows of the member that are in the lake have otherwise than at the source, where columns are told apart by name.
fn rows_differ(merged: &TableSchema, member: &TableName, before: &MemberShape, after: &MemberShape) -> Option<String> {
    let others = |name: &str| {
        let mut others = merged.members.iter().filter(|alike| alike.tables.iter().any(|table| table != member));
        others.any(|alike| named(&alike.shape.columns, name).is_some())
    };
    let was = |id: u32| before.columns.iter().find(|column| column.id == id);
    for column in &after.columns {
        let name = &column.name;
        match was(column.id) {
            Some(was) if !same(&was.name, name) => {
                return Some(format!(
                    "column \"{}\" was renamed to \"{name}\", which other members do by themselves",
                    was.name
                ));
            }
            Some(_) => {}
            None => {
                let had = before.lost.iter().any(|lost| same(lost, name)) || named(&before.columns, name).is_some();
                if had && others(name) {
                    return Some(format!(
                        "column \"{name}\" was dropped and came again, and its rows may have values of before in it"
                    ));
                }
            }
        }
    }
    let condition: Condition = merged.filter.as_ref()?.parse().ok()?;
    condition.columns().into_iter().find_map(|name| {
        let dropped = named(&before.columns, name).is_some() && named(&after.columns, name).is_none();
        dropped.then(|| format!("column \"{name}\", by which 'where' chooses rows, was dropped"))
    })
}

/// What it does to the merged table that a table without rows becomes its member. `new` is what the statement says of it; None where
/// that is not understood.
pub(crate) fn joined(
    merged: &TableSchema,
    member: &TableName,
    new: Option<&NewTable>,
    (flavour, conversions): (Flavour, &Conversions),
) -> Result<Option<SchemaChange>, StopReason> {
    let stopped = |what: String| {
        schema_changed(&merged.table, format!("table {member} was created, which belongs to it, and {what}"))
    };
    let shape = match new {
        None => return Err(stopped("the statement is not understood".to_owned())),
        Some(NewTable::Like(like)) => {
            let shape = merged.member(like).cloned();
            let shape = shape.ok_or_else(|| stopped(format!("what it is like, {like}, is none of its members")))?;
            MemberShape { lost: Vec::new(), ..shape }
        }
        Some(NewTable::Defined(alteration)) => {
            defined(merged, member, alteration, (flavour, conversions)).map_err(stopped)?
        }
    };
    let next = with_member(merged, member, shape).map_err(stopped)?;
    Ok(Some(SchemaChange { schema: Arc::new(next), existing_rows: None }))
}

fn defined(
    merged: &TableSchema,
    member: &TableName,
    alteration: &Alteration,
    (flavour, conversions): (Flavour, &Conversions),
) -> Result<MemberShape, String> {
    // The database's own is not in the log. Where it is another than that of the others, the rows have to say so.
    let character_set = merged.members.first().and_then(|alike| alike.shape.character_set.clone());
    let guessed_character_set =
        !alteration.changes.iter().any(|change| matches!(change, TableChange::DefaultCharacterSet(_)));
    let nothing =
        MemberShape { character_set, columns: Vec::new(), key: Vec::new(), lost: Vec::new(), guessed_character_set };
    let rules = conversions.rules.table(member);
    let tinyint1_as_boolean = conversions.tinyint1_as_boolean;
    let session = Session { flavour, tinyint1_as_boolean, rules: Some(&rules), strict: true, copy_of: None };
    let made = alteration.apply(&own_schema(merged, member, &nothing), session)?;
    let made = made.ok_or("it has no columns")?;
    let TableSchema { character_set, columns, key, .. } = Arc::unwrap_or_clone(made.schema);
    Ok(MemberShape { character_set, columns, key, ..nothing })
}

//! What the configuration says of the values of tables.

use calve_core::{ColumnRules, ColumnType, OnUnrepresentable, TableRules};

use super::option::nearest;
use super::raw::{Given, TableEntry};
use super::reader::Reader;

/// The rules of an entry of `tables`, where it has some of its own; `all` are those of the pipeline. `exact` is whether the entry
/// names one table.
pub(super) fn of_entry(reader: &mut Reader<'_>, entry: &TableEntry, all: OnUnrepresentable, exact: bool) -> TableRules {
    let of_table = entry.on_unrepresentable.as_ref().and_then(|given| policy_of(reader, given));
    let mut columns = std::collections::BTreeMap::new();
    for (name, fields) in &entry.columns {
        let on_unrepresentable = fields.get("on_unrepresentable").and_then(|given| policy_of(reader, given));
        let ty = fields.get("type").and_then(|given| type_of(reader, given));
        columns.insert(name.clone(), ColumnRules { on_unrepresentable, ty });
    }
    TableRules { on_unrepresentable: of_table.unwrap_or(all), columns, of_this_table: exact }
}

fn type_of(reader: &mut Reader<'_>, given: &Given) -> Option<ColumnType> {
    let refuse = |what: String| {
        let meant = nearest(&given.text, ColumnType::names());
        let what = meant
            .map_or_else(|| what, |meant| format!("'{}' is no type of the lake; did you mean '{meant}'?", given.text));
        reader.refuse("type", given, &what);
    };
    given.text.parse().map_err(refuse).ok()
}

fn policy_of(reader: &mut Reader<'_>, given: &Given) -> Option<OnUnrepresentable> {
    policy(&given.text).map_err(|what| reader.refuse("on_unrepresentable", given, &what)).ok()
}

/// One of the words.
pub(super) fn policy(text: &str) -> std::result::Result<OnUnrepresentable, String> {
    text.parse().map_err(|()| {
        let hint = match nearest(text, OnUnrepresentable::WORDS.into_iter()) {
            Some(meant) => format!("did you mean '{meant}'?"),
            None => format!("use {}", OnUnrepresentable::WORDS.join(", ")),
        };
        format!("'{text}' is not what such values can become; {hint}")
    })
}

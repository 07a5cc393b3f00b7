//! What the configuration says of tables: what they hold in the lake, and what becomes of their values.

use calve_core::{ColumnRules, ColumnType, OnUnrepresentable, TableMode, TableRules};

use super::option::nearest;
use super::raw::{Given, TableEntry};
use super::reader::Reader;
use super::settings::boolean;

/// What is said for all tables.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Common {
    on_unrepresentable: OnUnrepresentable,
    mode: Mode,
    preimages: bool,
}

impl Common {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            on_unrepresentable: reader.value_or("on_unrepresentable", OnUnrepresentable::Error, policy),
            mode: reader.value_or("mode", Mode::Upsert, mode),
            preimages: reader.value_or("preimages", false, boolean),
        }
    }

    /// The rules of tables that have none of their own.
    pub(super) fn rules(self) -> TableRules {
        let (on_unrepresentable, mode) = (self.on_unrepresentable, self.mode.with(self.preimages));
        TableRules { on_unrepresentable, mode, ..TableRules::default() }
    }
}

/// A mode, as one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Upsert,
    SoftDelete,
    Append,
}

impl Mode {
    fn with(self, preimages: bool) -> TableMode {
        match self {
            Self::Upsert => TableMode::Upsert,
            Self::SoftDelete => TableMode::SoftDelete,
            Self::Append => TableMode::Append { preimages },
        }
    }
}

fn mode(text: &str) -> std::result::Result<Mode, String> {
    match text {
        "upsert" => Ok(Mode::Upsert),
        "soft_delete" => Ok(Mode::SoftDelete),
        "append" => Ok(Mode::Append),
        _ => Err(match nearest(text, TableMode::WORDS.into_iter()) {
            Some(meant) => format!("'{text}' is not what a table can be in the lake; did you mean '{meant}'?"),
            None => format!("'{text}' is not what a table can be in the lake; use {}", TableMode::WORDS.join(", ")),
        }),
    }
}

/// The mode of an entry's tables.
fn mode_of(reader: &mut Reader<'_>, entry: &TableEntry, all: Common) -> TableMode {
    let of_table = entry
        .mode
        .as_ref()
        .and_then(|given| mode(&given.text).map_err(|what| reader.refuse("mode", given, &what)).ok());
    let mode = of_table.unwrap_or(all.mode);
    let preimages = entry.preimages.as_ref().and_then(|given| {
        let wanted = boolean(&given.text).map_err(|what| reader.refuse("preimages", given, &what)).ok()?;
        if wanted && mode != Mode::Append {
            reader.refuse("preimages", given, "only a table of mode append has this option; leave it out");
        }
        Some(wanted)
    });
    mode.with(preimages.unwrap_or(all.preimages))
}

/// The rules of an entry of `tables`, where it has some of its own; `all` are those of the pipeline. `exact` is whether the entry
/// names one table.
pub(super) fn of_entry(reader: &mut Reader<'_>, entry: &TableEntry, all: Common, exact: bool) -> TableRules {
    let of_table = entry.on_unrepresentable.as_ref().and_then(|given| policy_of(reader, given));
    let mut columns = std::collections::BTreeMap::new();
    for (name, fields) in &entry.columns {
        let on_unrepresentable = fields.get("on_unrepresentable").and_then(|given| policy_of(reader, given));
        let ty = fields.get("type").and_then(|given| type_of(reader, given));
        columns.insert(name.clone(), ColumnRules { on_unrepresentable, ty });
    }
    let on_unrepresentable = of_table.unwrap_or(all.on_unrepresentable);
    let mode = mode_of(reader, entry, all);
    TableRules { on_unrepresentable, columns, mode, of_this_table: exact, ..TableRules::default() }
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

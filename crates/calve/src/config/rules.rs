//! What the configuration says of tables: what they hold in the lake, and what becomes of their values.

use std::path::Path;

use calve_core::{
    ColumnPattern, ColumnRules, ColumnSelection, ColumnType, Condition, MaskKey, OnUnrepresentable, Secret, TableMode,
    TableRules,
};
use calve_engine::{Policy, SchemaPolicies};

use super::option::nearest;
use super::raw::{Given, TableEntry};
use super::reader::Reader;
use super::settings::{boolean, path};

/// What is said for all tables.
#[derive(Clone, Debug, Default)]
pub(super) struct Common {
    on_unrepresentable: OnUnrepresentable,
    mode: Mode,
    preimages: bool,
    mask: Option<MaskKey>,
    leaves_out_added: bool,
}

impl Common {
    pub(super) fn read(reader: &mut Reader<'_>, file: Option<&Path>, policies: SchemaPolicies) -> Self {
        Self {
            on_unrepresentable: reader.value_or("on_unrepresentable", OnUnrepresentable::Error, policy),
            mode: reader.value_or("mode", Mode::Upsert, mode),
            preimages: reader.value_or("preimages", false, boolean),
            mask: salt(reader, file),
            leaves_out_added: leaves_out_added(policies),
        }
    }

    /// The rules of tables that have none of their own.
    pub(super) fn rules(&self) -> TableRules {
        let (on_unrepresentable, mode) = (self.on_unrepresentable, self.mode.with(self.preimages));
        let (mask, leaves_out_added) = (self.mask.clone(), self.leaves_out_added);
        TableRules { on_unrepresentable, mode, mask, leaves_out_added, ..TableRules::default() }
    }
}

/// Whether columns that are added are to be left out.
pub(super) fn leaves_out_added(policies: SchemaPolicies) -> bool {
    policies.add_column == Policy::Ignore
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
fn mode_of(reader: &mut Reader<'_>, entry: &TableEntry, all: &Common) -> TableMode {
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
pub(super) fn of_entry(reader: &mut Reader<'_>, entry: &TableEntry, all: &Common, exact: bool) -> TableRules {
    let of_table = entry.on_unrepresentable.as_ref().and_then(|given| policy_of(reader, given));
    let mut columns = std::collections::BTreeMap::new();
    for (name, fields) in &entry.columns {
        let on_unrepresentable = fields.get("on_unrepresentable").and_then(|given| policy_of(reader, given));
        let ty = fields.get("type").and_then(|given| type_of(reader, given));
        let mask = fields.get("mask").is_some_and(|given| is_mask(reader, given));
        if let Some(given) =
            fields.get("type").filter(|_| mask && ty.as_ref().is_some_and(|ty| *ty != ColumnType::String))
        {
            reader.refuse("type", given, "a column that has a mask is text in the lake; leave its type out");
        }
        columns.insert(name.clone(), ColumnRules { on_unrepresentable, ty, mask });
    }
    let on_unrepresentable = of_table.unwrap_or(all.on_unrepresentable);
    TableRules {
        on_unrepresentable,
        columns,
        mode: mode_of(reader, entry, all),
        selection: selection_of(reader, entry),
        filter: entry.filter.as_ref().and_then(|given| filter_of(reader, given)),
        mask: all.mask.clone(),
        of_this_table: exact,
        ..TableRules::default()
    }
}

/// The salt of digests: the option, or the file that another names, or the variable.
fn salt(reader: &mut Reader<'_>, file: Option<&Path>) -> Option<MaskKey> {
    let of = |text: &str| {
        let short =
            || format!("a salt has {} bytes at least: make one with `openssl rand -hex 32`", MaskKey::LEAST_BYTES);
        MaskKey::new(&Secret::new(text)).ok_or_else(short)
    };
    let named = path(reader, "mask_salt_file", file);
    let own = reader.value("mask_salt", of);
    let of_file = reader.value("mask_salt_file", |shown| {
        let path = named.as_deref().unwrap_or(Path::new(shown));
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        of(text.trim_end_matches(['\r', '\n']))
    });
    if let (Some(_), Some(given)) = (&own, reader.given("mask_salt_file")) {
        reader.refuse("mask_salt_file", given, "the salt is given as mask_salt already; leave one of the two out");
    }
    own.or(of_file).or_else(|| {
        let text = std::env::var("CALVE_MASK_SALT").ok()?;
        of(&text).map_err(|what| reader.missing(format!("CALVE_MASK_SALT: {what}"))).ok()
    })
}

fn is_mask(reader: &mut Reader<'_>, given: &Given) -> bool {
    if given.text != "sha256" {
        reader.refuse("mask", given, &format!("'{}' is no mask; there is sha256", given.text));
    }
    true
}

fn filter_of(reader: &mut Reader<'_>, given: &Given) -> Option<String> {
    given.text.parse::<Condition>().map_err(|what| reader.refuse("where", given, &what)).ok()?;
    Some(given.text.clone())
}

fn selection_of(reader: &mut Reader<'_>, entry: &TableEntry) -> ColumnSelection {
    let patterns = |names: &[Given]| names.iter().map(|given| ColumnPattern::new(given.text.as_str())).collect();
    for (key, _) in entry.column_lists.iter().filter(|(_, names)| names.is_empty()) {
        reader.refuse(key, &entry.pattern, "it lists no column; name some, or leave it out");
    }
    let list = |key| entry.column_lists.get(key).filter(|names| !names.is_empty());
    match (list("include_columns"), list("exclude_columns")) {
        (None, None) => ColumnSelection::All,
        (Some(only), None) => ColumnSelection::Only(patterns(only)),
        (only, Some(without)) => {
            if let Some(given) = only.and_then(|only| only.first()) {
                let what = "a table has include_columns or exclude_columns, not both; leave one out";
                reader.refuse("include_columns", given, what);
            }
            ColumnSelection::Without(patterns(without))
        }
    }
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

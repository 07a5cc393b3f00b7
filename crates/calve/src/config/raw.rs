//! Options as they were given, before anything is understood: by the file, by flags, by the record of the last run.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value as Json};

use super::address::without_password;
use super::interpolate::interpolate;
use super::option::{self, Kind};
use super::problem::{Origin, Problem, Problems};
use super::yaml::{Key, Node, Value};

/// A value as text, and where it came from.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// Hides the text: it may be a secret.
impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[given by {:?}]", self.origin)
    }
}

/// An entry of a list of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableEntry {
    pub(crate) pattern: Given,
    /// The table in the lake, where the entry names one.
    pub(crate) target: Option<Given>,
}

/// One layer of configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Raw {
    pub(super) scalars: BTreeMap<String, Given>,
    pub(super) tables: BTreeMap<String, Vec<TableEntry>>,
}

impl Raw {
    /// Adds a flag's value.
    pub(crate) fn set_flag(&mut self, key: &str, flag: &str, text: Option<String>) {
        debug_assert!(option::find(key).is_some(), "{key} is no option");
        if let Some(text) = text {
            self.scalars.insert(key.to_owned(), Given { text, origin: Origin::Flag(flag.to_owned()) });
        }
    }

    /// Adds a repeatable flag's values; none leave the option as it is in lower layers.
    pub(crate) fn set_table_flags(&mut self, key: &str, flag: &str, patterns: Vec<String>) {
        debug_assert!(option::find(key).is_some(), "{key} is no option");
        if !patterns.is_empty() {
            let origin = Origin::Flag(flag.to_owned());
            let entry = |text| TableEntry { pattern: Given { text, origin: origin.clone() }, target: None };
            self.tables.insert(key.to_owned(), patterns.into_iter().map(entry).collect());
        }
    }

    /// A scalar's text, unchecked.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.scalars.get(key).map(|given| given.text.as_str())
    }

    pub(super) fn scalar(&self, key: &str) -> Option<&Given> {
        self.scalars.get(key)
    }

    /// Fills what this layer leaves open from a lower one. An address of the source is taken whole or not at all.
    #[must_use]
    pub(super) fn over(mut self, lower: &Self) -> Self {
        let keeps_source = self.names_source();
        for (key, given) in &lower.scalars {
            // A password may be added to an address that was remembered without one.
            let part_of_source = key == "source" || key.starts_with("source.");
            let only_password = self.scalars.keys().filter(|k| k.starts_with("source")).all(|k| k == "source.password");
            if part_of_source && keeps_source && !only_password {
                continue;
            }
            self.scalars.entry(key.clone()).or_insert_with(|| given.clone());
        }
        for (key, entries) in &lower.tables {
            self.tables.entry(key.clone()).or_insert_with(|| entries.clone());
        }
        self
    }

    /// Reads the file's tree, replacing references to environment variables in every value.
    pub(super) fn from_yaml(root: Node, variable: &dyn Fn(&str) -> Option<String>, problems: &mut Problems) -> Self {
        let mut raw = Self::default();
        match root.value {
            Value::Mapping(entries) => Layer { raw: &mut raw, variable, problems }.section(None, entries),
            Value::Scalar(None) => {}
            _ => problems.add(Problem::new(Origin::Line(root.line), "expected options, one 'name: value' a line")),
        }
        raw
    }

    /// Everything but passwords, to be remembered beside the lake.
    pub(crate) fn to_record(&self) -> Json {
        let mut record = Map::new();
        for (key, given) in &self.scalars {
            let text = match option::find(key).map(|option| option.kind) {
                Some(Kind::Scalar) => given.text.clone(),
                Some(Kind::Address) => without_password(&given.text),
                Some(Kind::Secret | Kind::Tables) | None => continue,
            };
            if !text.is_empty() {
                record.insert(key.clone(), Json::String(text));
            }
        }
        for (key, entries) in &self.tables {
            let entry = |entry: &TableEntry| match &entry.target {
                None => Json::String(entry.pattern.text.clone()),
                Some(target) => serde_json::json!({ "name": entry.pattern.text, "as": target.text }),
            };
            record.insert(key.clone(), entries.iter().map(entry).collect());
        }
        Json::Object(record)
    }

    /// Reads back what [`to_record`](Self::to_record) made. Options of another version are passed over.
    pub(crate) fn from_record(record: &Json) -> Self {
        let mut raw = Self::default();
        let given = |text: &str| Given { text: text.to_owned(), origin: Origin::Record };
        let entry = |value: &Json| match value {
            Json::String(pattern) => Some(TableEntry { pattern: given(pattern), target: None }),
            other => Some(TableEntry {
                pattern: given(other.get("name")?.as_str()?),
                target: other.get("as").and_then(Json::as_str).map(given),
            }),
        };
        for (key, value) in record.as_object().into_iter().flatten() {
            match (option::find(key).map(|option| option.kind), value) {
                (Some(Kind::Scalar | Kind::Address), Json::String(text)) => {
                    raw.scalars.insert(key.clone(), given(text));
                }
                (Some(Kind::Tables), Json::Array(entries)) => {
                    raw.tables.insert(key.clone(), entries.iter().filter_map(entry).collect());
                }
                _ => {}
            }
        }
        raw
    }

    /// Adds what a record says outside its settings.
    pub(crate) fn set_recorded(&mut self, key: &str, text: &str) {
        self.scalars.insert(key.to_owned(), Given { text: text.to_owned(), origin: Origin::Record });
    }
}

/// Reads a tree into a layer.
struct Layer<'a> {
    raw: &'a mut Raw,
    variable: &'a dyn Fn(&str) -> Option<String>,
    problems: &'a mut Problems,
}

impl Layer<'_> {
    fn section(&mut self, section: Option<&str>, entries: Vec<(Key, Node)>) {
        for (key, node) in entries {
            let path = section.map_or_else(|| key.name.clone(), |section| format!("{section}.{}", key.name));
            let kind = option::find(&path).map(|option| option.kind);
            match (kind, node.value) {
                (None, _) if !option::is_section(&path) => {
                    self.problem(key.line, option::unknown(&key.name, section));
                }
                (_, Value::Scalar(None)) => {}
                (_, Value::Mapping(entries)) if option::is_section(&path) => self.section(Some(&path), entries),
                (Some(Kind::Scalar | Kind::Address | Kind::Secret), Value::Scalar(Some(text))) => {
                    if let Some(given) = self.given(node.line, &text) {
                        self.raw.scalars.insert(path, given);
                    }
                }
                (Some(Kind::Tables), value) => self.tables(path, node.line, value),
                (Some(_), _) => self.problem(key.line, format!("'{path}' takes one value")),
                (None, _) => {
                    let names = option::names_in(Some(&path)).join(", ");
                    self.problem(key.line, format!("'{path}' takes options of its own: {names}"));
                }
            }
        }
    }

    fn tables(&mut self, path: String, line: usize, value: Value) {
        let nodes = match value {
            Value::Sequence(nodes) => nodes,
            one @ Value::Scalar(_) => vec![Node { line, value: one }],
            Value::Mapping(_) => {
                return self.problem(line, format!("'{path}' is a list: write '- schema.table', one a line"));
            }
        };
        let entries = nodes.into_iter().filter_map(|node| self.table(&path, node)).collect();
        self.raw.tables.insert(path, entries);
    }

    fn table(&mut self, path: &str, node: Node) -> Option<TableEntry> {
        match node.value {
            Value::Scalar(Some(text)) => Some(TableEntry { pattern: self.given(node.line, &text)?, target: None }),
            Value::Mapping(entries) if path == "tables" => self.table_with_fields(node.line, entries),
            _ => {
                self.problem(node.line, format!("an entry of '{path}' is a name such as public.orders or public.*"));
                None
            }
        }
    }

    fn table_with_fields(&mut self, line: usize, entries: Vec<(Key, Node)>) -> Option<TableEntry> {
        let mut fields = BTreeMap::new();
        for (key, node) in entries {
            let known = option::TABLE_FIELDS.iter().find(|field| **field == key.name);
            match (known, node.value) {
                (Some(field), Value::Scalar(Some(text))) => {
                    fields.insert(*field, self.given(node.line, &text)?);
                }
                (Some(field), _) => self.problem(node.line, format!("'{field}' of a table takes one value")),
                (None, _) => {
                    let meant = option::nearest(&key.name, option::TABLE_FIELDS.iter().copied());
                    let hint = meant.map_or_else(
                        || format!("known are {}", option::TABLE_FIELDS.join(", ")),
                        |meant| format!("did you mean '{meant}'?"),
                    );
                    self.problem(key.line, format!("'{}' is not an option of a table; {hint}", key.name));
                }
            }
        }
        let Some(pattern) = fields.remove("name") else {
            self.problem(line, "this table has no 'name'");
            return None;
        };
        Some(TableEntry { pattern, target: fields.remove("as") })
    }

    fn given(&mut self, line: usize, text: &str) -> Option<Given> {
        match interpolate(text, self.variable) {
            Ok(text) => Some(Given { text, origin: Origin::Line(line) }),
            Err(what) => {
                self.problem(line, what);
                None
            }
        }
    }

    fn problem(&mut self, line: usize, what: impl Into<String>) {
        self.problems.add(Problem::new(Origin::Line(line), what));
    }
}

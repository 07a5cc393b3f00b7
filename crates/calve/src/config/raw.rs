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
    /// What the tables become together, and its column that says where a row comes from.
    pub(crate) merge: Option<Given>,
    pub(crate) origin: Option<Given>,
    /// What becomes of values that the lake cannot hold.
    pub(crate) on_unrepresentable: Option<Given>,
    /// What the tables in the lake hold.
    pub(crate) mode: Option<Given>,
    /// Whether updates of a log say what rows were before.
    pub(crate) preimages: Option<Given>,
    /// The condition that the lake's rows are chosen by.
    pub(crate) filter: Option<Given>,
    /// Columns that the lake gets, or does not, by the field that lists them.
    pub(crate) column_lists: BTreeMap<String, Vec<Given>>,
    /// Columns that have fields of their own, by name.
    pub(crate) columns: BTreeMap<String, ColumnEntry>,
    /// How rows lie in the lake: `partition`, `sort`, and the fields of `files` as `files.target_size`.
    pub(crate) layout: BTreeMap<String, Given>,
    /// What becomes of the tables where they are altered, by kind.
    pub(crate) schema_changes: BTreeMap<String, Given>,
    /// It says how tables are replicated that entries after it name, and names none itself.
    pub(crate) only_says_how: bool,
}

/// A column of an entry: what is given for it, by field.
pub(crate) type ColumnEntry = BTreeMap<String, Given>;

impl TableEntry {
    fn new(pattern: Given) -> Self {
        Self {
            pattern,
            target: None,
            merge: None,
            origin: None,
            on_unrepresentable: None,
            mode: None,
            preimages: None,
            filter: None,
            column_lists: BTreeMap::new(),
            columns: BTreeMap::new(),
            layout: BTreeMap::new(),
            schema_changes: BTreeMap::new(),
            only_says_how: false,
        }
    }

    fn to_record(&self) -> Json {
        let mut record = Map::from_iter([("name".to_owned(), Json::String(self.pattern.text.clone()))]);
        let fields = [
            ("as", &self.target),
            ("merge", &self.merge),
            ("origin", &self.origin),
            ("on_unrepresentable", &self.on_unrepresentable),
            ("mode", &self.mode),
            ("preimages", &self.preimages),
            ("where", &self.filter),
        ];
        for (key, given) in fields.into_iter().filter_map(|(key, given)| Some((key, given.as_ref()?))) {
            record.insert(key.to_owned(), Json::String(given.text.clone()));
        }
        let field = |(key, given): (&String, &Given)| (key.clone(), Json::String(given.text.clone()));
        if self.only_says_how {
            record.insert("only_says_how".to_owned(), Json::Bool(true));
        }
        if !self.layout.is_empty() {
            record.insert("layout".to_owned(), Json::Object(self.layout.iter().map(field).collect()));
        }
        if !self.schema_changes.is_empty() {
            record.insert("schema_changes".to_owned(), Json::Object(self.schema_changes.iter().map(field).collect()));
        }
        for (key, names) in &self.column_lists {
            record.insert(key.clone(), names.iter().map(|given| Json::String(given.text.clone())).collect());
        }
        if !self.columns.is_empty() {
            let column = |(name, fields): (&String, &ColumnEntry)| {
                (name.clone(), Json::Object(fields.iter().map(field).collect()))
            };
            record.insert("columns".to_owned(), Json::Object(self.columns.iter().map(column).collect()));
        }
        // An entry that says no more is its pattern.
        if record.len() == 1 { Json::String(self.pattern.text.clone()) } else { Json::Object(record) }
    }

    fn from_record(value: &Json) -> Option<Self> {
        let given = |text: &str| Given { text: text.to_owned(), origin: Origin::Record };
        let field = |value: &Json, key: &str| value.get(key).and_then(Json::as_str).map(given);
        if let Json::String(pattern) = value {
            return Some(Self::new(given(pattern)));
        }
        let fields = |fields: &Json| {
            let fields = fields.as_object().into_iter().flatten();
            fields.filter_map(|(key, value)| Some((key.clone(), given(value.as_str()?)))).collect::<BTreeMap<_, _>>()
        };
        let column = |(name, of_column): (&String, &Json)| (name.clone(), fields(of_column));
        let listed = |key: &str| {
            let names: Vec<Given> = value.get(key)?.as_array()?.iter().filter_map(Json::as_str).map(given).collect();
            Some((key.to_owned(), names))
        };
        Some(Self {
            pattern: field(value, "name")?,
            target: field(value, "as"),
            merge: field(value, "merge"),
            origin: field(value, "origin"),
            on_unrepresentable: field(value, "on_unrepresentable"),
            mode: field(value, "mode"),
            preimages: field(value, "preimages"),
            filter: field(value, "where"),
            column_lists: option::COLUMN_LISTS.into_iter().filter_map(listed).collect(),
            columns: value.get("columns").and_then(Json::as_object).into_iter().flatten().map(column).collect(),
            layout: value.get("layout").map(fields).unwrap_or_default(),
            schema_changes: value.get("schema_changes").map(fields).unwrap_or_default(),
            only_says_how: value.get("only_says_how").is_some(),
        })
    }
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
            let entry = |text| TableEntry::new(Given { text, origin: origin.clone() });
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
            let own = self.tables.entry(key.clone()).or_insert_with(|| entries.clone());
            // A flag names tables, and nothing else: what is said below of how these are replicated stands.
            if own.iter().any(|entry| matches!(entry.pattern.origin, Origin::Flag(_))) {
                let said = |entry: &TableEntry| TableEntry { target: None, only_says_how: true, ..entry.clone() };
                own.splice(..0, entries.iter().map(said));
            }
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
                Some(Kind::Scalar | Kind::Policy) => given.text.clone(),
                Some(Kind::Address) => without_password(&given.text),
                Some(Kind::Secret | Kind::Tables) | None => continue,
            };
            if !text.is_empty() {
                record.insert(key.clone(), Json::String(text));
            }
        }
        for (key, entries) in &self.tables {
            record.insert(key.clone(), entries.iter().map(TableEntry::to_record).collect());
        }
        Json::Object(record)
    }

    /// Reads back what [`to_record`](Self::to_record) made. Options of another version are passed over.
    pub(crate) fn from_record(record: &Json) -> Self {
        let mut raw = Self::default();
        let given = |text: &str| Given { text: text.to_owned(), origin: Origin::Record };
        for (key, value) in record.as_object().into_iter().flatten() {
            match (option::find(key).map(|option| option.kind), value) {
                (Some(Kind::Scalar | Kind::Policy | Kind::Address), Json::String(text)) => {
                    raw.scalars.insert(key.clone(), given(text));
                }
                (Some(Kind::Tables), Json::Array(entries)) => {
                    raw.tables.insert(key.clone(), entries.iter().filter_map(TableEntry::from_record).collect());
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
                (Some(Kind::Policy), Value::Null) => {
                    let given = Given { text: "null".to_owned(), origin: Origin::Line(node.line) };
                    self.raw.scalars.insert(path, given);
                }
                (_, Value::Scalar(None) | Value::Null) => {}
                (_, Value::Mapping(entries)) if option::is_section(&path) => self.section(Some(&path), entries),
                (Some(Kind::Scalar | Kind::Policy | Kind::Address | Kind::Secret), Value::Scalar(Some(text))) => {
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
            one @ (Value::Scalar(_) | Value::Null) => vec![Node { line, value: one }],
            Value::Mapping(_) => {
                return self.problem(line, format!("'{path}' is a list: write '- schema.table', one a line"));
            }
        };
        let entries = nodes.into_iter().filter_map(|node| self.table(&path, node)).collect();
        self.raw.tables.insert(path, entries);
    }

    fn table(&mut self, path: &str, node: Node) -> Option<TableEntry> {
        match node.value {
            Value::Scalar(Some(text)) => Some(TableEntry::new(self.given(node.line, &text)?)),
            Value::Mapping(entries) if path == "tables" => self.table_with_fields(node.line, entries),
            _ => {
                self.problem(node.line, format!("an entry of '{path}' is a name such as public.orders or public.*"));
                None
            }
        }
    }

    fn table_with_fields(&mut self, line: usize, entries: Vec<(Key, Node)>) -> Option<TableEntry> {
        let (mut columns, mut column_lists) = (BTreeMap::new(), BTreeMap::new());
        let mut others = Vec::with_capacity(entries.len());
        let (mut layout, mut schema_changes) = (BTreeMap::new(), BTreeMap::new());
        for (key, node) in entries {
            match node.value {
                Value::Mapping(entries) if key.name == "files" => {
                    let fields = self.fields("the files of a table", option::FILE_FIELDS, entries);
                    layout.extend(fields.into_iter().map(|(name, given)| (format!("files.{name}"), given)));
                }
                _ if key.name == "files" => {
                    self.problem(node.line, format!("'files' takes fields: {}", option::FILE_FIELDS.join(", ")));
                }
                Value::Mapping(entries) if key.name == "schema_changes" => {
                    let known = option::names_in(Some("schema_changes"));
                    schema_changes = self.fields("schema_changes of a table", &known, entries);
                }
                _ if key.name == "schema_changes" => {
                    let known = option::names_in(Some("schema_changes")).join(", ");
                    self.problem(node.line, format!("'schema_changes' takes options of its own: {known}"));
                }
                Value::Mapping(named) if key.name == "columns" => {
                    for (column, node) in named {
                        let Value::Mapping(entries) = node.value else {
                            let what =
                                format!("column '{}' takes fields: {}", column.name, option::COLUMN_FIELDS.join(", "));
                            self.problem(node.line, what);
                            continue;
                        };
                        columns.insert(column.name, self.fields("a column", option::COLUMN_FIELDS, entries));
                    }
                }
                _ if key.name == "columns" => {
                    self.problem(node.line, "'columns' takes the names of columns, each with fields of its own");
                }
                value if option::COLUMN_LISTS.contains(&key.name.as_str()) => {
                    let names = self.names(&key.name, Node { line: node.line, value });
                    column_lists.insert(key.name, names);
                }
                value => others.push((key, Node { line: node.line, value })),
            }
        }
        let mut fields = self.fields("a table", option::TABLE_FIELDS, others);
        let Some(pattern) = fields.remove("name") else {
            self.problem(line, "this table has no 'name'");
            return None;
        };
        let (target, on_unrepresentable) = (fields.remove("as"), fields.remove("on_unrepresentable"));
        let (merge, origin) = (fields.remove("merge"), fields.remove("origin"));
        let (mode, preimages) = (fields.remove("mode"), fields.remove("preimages"));
        layout.extend(["partition", "sort"].into_iter().filter_map(|key| fields.remove_entry(key)));
        let filter = fields.remove("where");
        Some(TableEntry {
            pattern,
            target,
            merge,
            origin,
            on_unrepresentable,
            mode,
            preimages,
            filter,
            column_lists,
            columns,
            layout,
            schema_changes,
            only_says_how: false,
        })
    }

    /// Names of columns, one or a list.
    fn names(&mut self, field: &str, node: Node) -> Vec<Given> {
        let nodes = match node.value {
            Value::Sequence(nodes) => nodes,
            value => vec![Node { line: node.line, value }],
        };
        let mut names = Vec::with_capacity(nodes.len());
        for node in nodes {
            match node.value {
                Value::Scalar(Some(text)) => names.extend(self.given(node.line, &text)),
                _ => self.problem(node.line, format!("'{field}' is a list of columns: write [note, \"raw_*\"]")),
            }
        }
        names
    }

    /// Fields that take one value each.
    fn fields(&mut self, of: &str, known: &[&str], entries: Vec<(Key, Node)>) -> BTreeMap<String, Given> {
        let mut fields = BTreeMap::new();
        for (key, node) in entries {
            let is_known = known.contains(&key.name.as_str());
            let text = match node.value {
                Value::Scalar(Some(text)) if is_known => text,
                Value::Null if key.name == "on_unrepresentable" => "null".to_owned(),
                Value::Sequence(items) if is_known && option::LISTS.contains(&key.name.as_str()) => {
                    let Some(text) = self.joined(&key.name, items) else { continue };
                    text
                }
                _ if is_known => {
                    self.problem(node.line, format!("'{}' of {of} takes one value", key.name));
                    continue;
                }
                _ => {
                    let meant = option::nearest(&key.name, known.iter().copied());
                    let hint = meant.map_or_else(
                        || format!("known are {}", known.join(", ")),
                        |meant| format!("did you mean '{meant}'?"),
                    );
                    self.problem(key.line, format!("'{}' is not an option of {of}; {hint}", key.name));
                    continue;
                }
            };
            if let Some(given) = self.given(node.line, &text) {
                fields.insert(key.name, given);
            }
        }
        fields
    }

    /// A list as one text: YAML takes the commas of `bucket(16, id)` for its own.
    fn joined(&mut self, list: &str, items: Vec<Node>) -> Option<String> {
        let mut texts = Vec::with_capacity(items.len());
        for item in items {
            let Value::Scalar(Some(text)) = item.value else {
                self.problem(item.line, format!("an entry of '{list}' is one text"));
                return None;
            };
            texts.push(text);
        }
        Some(texts.join(", "))
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

//! The configuration, understood: what every command works with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use calve_core::{BloomFilters, Error, ErrorKind, Layout, Result, TableName, TableRules, ValueRules};
use calve_engine::SchemaPolicies;
use tracing::level_filters::LevelFilter;

use super::layouts;
use super::memory::{self, Memory};
use super::merges::{self, MergeInto};
use super::pattern::TablePattern;
use super::problem::Problems;
use super::raw::{Given, Raw, TableEntry};
use super::reader::Reader;
use super::rules;
use super::schema_changes;
use super::secret::Secret;
use super::units;
use crate::database::Address;
use crate::lake_dir::{LakeDir, PipelineDir};

/// Names of slots are at most 63 bytes; `calve_` comes before the pipeline's.
const MAX_PIPELINE_NAME: usize = 48;

/// Everything a command may need. Which of it must be there, each command says by asking for it.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Names the pipeline: its slot, publication, state and the mark on its tables.
    pub(crate) pipeline: String,
    /// None where no address was given: `status` goes on without.
    source: Option<Address>,
    pub(crate) slot: String,
    pub(crate) publication: String,
    /// Whether calve creates the publication and keeps its tables right, or leaves it to somebody else.
    pub(crate) manage_publication: bool,
    /// The number to register with at a MySQL server, if one was given.
    pub(crate) server_id: Option<u32>,
    /// MySQL: whether `TINYINT(1)` is a boolean.
    pub(crate) tinyint1_as_boolean: bool,
    /// MySQL: whether zero dates become NULL, or stop their table.
    pub(crate) zero_dates_become_null: bool,
    /// Of tables that have no policies of their own.
    pub(crate) schema_changes: SchemaPolicies,
    pub(crate) tables: TableSelection,
    /// The directory of the lake.
    pub(crate) into: PathBuf,
    pub(crate) warehouse: PathBuf,
    pub(crate) catalog: Catalog,
    /// Where transactions wait that are too large for memory; None: in the directory of the pipeline's local state.
    spill_dir: Option<PathBuf>,
    pub(crate) memory: Memory,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) commit_parallelism: usize,
    pub(crate) load_parallelism: usize,
    pub(crate) files: Files,
    pub(crate) expiry: Expiry,
    pub(crate) log: Log,
    /// What was given, to be remembered.
    pub(crate) raw: Raw,
}

/// Where the tables are registered.
#[derive(Clone, Debug)]
pub(crate) enum Catalog {
    /// A file.
    Sqlite(PathBuf),
    /// A database, by URL.
    Postgres(Secret),
}

/// When a checkpoint is cut: at whichever limit comes first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checkpoint {
    pub(crate) interval: Duration,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) idle_interval: Duration,
}

/// How data files are written.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) compression: Compression,
    pub(crate) target_size: u64,
    pub(crate) bloom_filters: BloomFilters,
}

/// Of Parquet pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Snappy,
    Lz4,
    Zstd,
}

impl Compression {
    /// As Iceberg's table properties spell it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "uncompressed",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// Which old snapshots go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expiry {
    pub(crate) age: Duration,
    pub(crate) min_snapshots: usize,
    pub(crate) max_snapshots: usize,
}

/// What is logged, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    pub(crate) level: LevelFilter,
    pub(crate) format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people on a terminal, JSON otherwise.
    Auto,
    Human,
    Json,
}

/// Which tables of the source, and what they are called in the lake.
#[derive(Debug, Default)]
pub(crate) struct TableSelection {
    pub(crate) include: Vec<Selected>,
    pub(crate) exclude: Vec<TablePattern>,
    /// The rules of tables that no entry is for.
    common: rules::Common,
    /// Whether patterns find no table that a tool for schema changes leaves beside another (MySQL).
    pub(crate) passes_over_copies: bool,
    /// Of every table in the lake, where it is not named by the entry itself; else the source's schema.
    pub(crate) namespace: Option<String>,
}

/// An entry of the selection.
#[derive(Clone, Debug)]
pub(crate) struct Selected {
    pub(crate) pattern: TablePattern,
    /// The table in the lake, where the entry names one.
    target: Option<TableName>,
    pub(super) merge: Option<MergeInto>,
    rules: TableRules,
    files: Files,
    schema_changes: Option<SchemaPolicies>,
    /// See [`TableEntry::only_says_how`].
    pub(super) only_says_how: bool,
}

impl Selected {
    /// Whether it says what this merged table is made of.
    fn makes(&self, table: &TableName) -> bool {
        self.merge.as_ref().is_some_and(|merge| merge.table == *table)
    }
}

impl Settings {
    /// Understands a merged configuration, adding everything wrong with it to `problems`. Paths given in a file are taken
    /// from where the file lies.
    pub(super) fn read(raw: Raw, file: Option<&Path>, problems: &mut Problems) -> Self {
        let settings = Self::from_reader(&mut Reader::new(&raw, problems), file);
        Self { raw, ..settings }
    }

    fn from_reader(reader: &mut Reader<'_>, file: Option<&Path>) -> Self {
        let into = path(reader, "into", file).unwrap_or_else(|| {
            reader.missing("no lake was given; add --into ./lake (or 'into: ./lake')");
            PathBuf::new()
        });
        let source = read_source(reader);
        let pipeline = read_name(reader, source.as_ref());
        let derived = format!("calve_{pipeline}");
        refuse_options_of_others(reader, source.as_ref());
        let memory = reader
            .value("memory", |text| Memory::new(units::bytes(text)?))
            .unwrap_or_else(|| Memory::new(memory::DEFAULT).expect("the default is enough"));
        let files = Files {
            compression: reader.value_or("files.compression", Compression::Zstd, compression),
            target_size: reader.value_or("files.target_size", 128 << 20, at_least_a_mebibyte),
            bloom_filters: reader.value_or("files.bloom_filters", BloomFilters::None, layouts::bloom_filters),
        };
        let schema_changes = schema_changes::read(reader);
        Self {
            server_id: reader.value("server_id", server_id),
            tinyint1_as_boolean: reader.value_or("tinyint1_as_boolean", false, boolean),
            zero_dates_become_null: reader.value_or("on_zero_date", true, on_zero_date),
            schema_changes,
            slot: reader.value_or("slot", derived.clone(), slot_name),
            publication: reader.value_or("publication", derived, not_empty),
            manage_publication: reader.value_or("manage_publication", true, boolean),
            tables: TableSelection {
                passes_over_copies: matches!(source, Some(Address::MySql(_))),
                ..read_tables(reader, file, &files, schema_changes)
            },
            warehouse: path(reader, "warehouse", file).unwrap_or_else(|| into.join("warehouse")),
            catalog: read_catalog(reader, file, &into),
            checkpoint: Checkpoint {
                interval: reader.value_or("checkpoint.interval", Duration::from_secs(10), positive_duration),
                rows: reader.value_or("checkpoint.rows", 1_000_000, positive),
                bytes: reader.value_or("checkpoint.bytes", memory.checkpoint(), |text| {
                    let bytes = at_least_a_mebibyte(text)?;
                    memory.holds_checkpoints_of(bytes).map(|()| bytes)
                }),
                idle_interval: reader.value_or("checkpoint.idle_interval", Duration::from_secs(10), positive_duration),
            },
            commit_parallelism: reader.value_or("parallelism.commit", 8, parallelism),
            load_parallelism: reader.value_or("parallelism.load", memory.connections(), |text| {
                let count = parallelism(text)?;
                memory.holds_connections(count).map(|()| count)
            }),
            spill_dir: path(reader, "spill_dir", file),
            memory,
            files,
            expiry: read_expiry(reader),
            log: Log {
                level: reader.value_or("log.level", LevelFilter::INFO, log_level),
                format: reader.value_or("log.format", LogFormat::Auto, log_format),
            },
            pipeline,
            source,
            into,
            raw: Raw::default(),
        }
    }

    /// Names of the options that something reads.
    #[cfg(test)]
    pub(super) fn options_read() -> std::collections::BTreeSet<&'static str> {
        let (raw, mut problems) = (Raw::default(), Problems::default());
        let mut reader = Reader::new(&raw, &mut problems);
        Self::from_reader(&mut reader, None);
        reader.read_keys()
    }

    /// The source's address, or the error that asks for it.
    pub(crate) fn source(&self) -> Result<&Address> {
        self.source.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::Config,
                "no source was given; add --source postgres://user@host/database (or mysql://user@host/database)",
            )
        })
    }

    /// What becomes of a table where it is altered.
    pub(crate) fn policies(&self, table: &TableName) -> SchemaPolicies {
        entry_of(&self.tables.include, table)
            .and_then(|selected| selected.schema_changes)
            .unwrap_or(self.schema_changes)
    }

    /// The lake's directory.
    pub(crate) fn lake_dir(&self) -> LakeDir {
        LakeDir::new(&self.into)
    }

    /// The directory of the pipeline's local state.
    pub(crate) fn pipeline_dir(&self) -> PipelineDir {
        self.lake_dir().pipeline(&self.pipeline)
    }

    /// Where transactions wait that are too large for memory.
    pub(crate) fn spill_dir(&self) -> PathBuf {
        self.spill_dir.clone().unwrap_or_else(|| self.pipeline_dir().path().to_owned())
    }

    /// The source's address if there is one.
    pub(crate) fn known_source(&self) -> Option<&Address> {
        self.source.as_ref()
    }
}

impl TableSelection {
    /// Whether nothing was selected.
    pub(crate) fn is_empty(&self) -> bool {
        self.include.iter().all(|selected| selected.only_says_how)
    }

    /// Refuses a selection of nothing.
    pub(crate) fn required(&self) -> Result<()> {
        if self.is_empty() {
            let ask = "no tables were given; add --table schema.table (or --table 'public.*')";
            return Err(Error::new(ErrorKind::Config, ask));
        }
        Ok(())
    }

    /// The name in the lake of a table, if it is selected. The first entry that matches decides. Of tables that are merged the one that
    /// they make is selected.
    pub(crate) fn target(&self, table: &TableName) -> Option<TableName> {
        let naming = || self.include.iter().filter(|selected| !selected.only_says_how);
        if self.is_merged(table) {
            let names = |selected: &Selected| selected.makes(table) || selected.pattern.matches(table);
            return naming().any(names).then(|| table.clone());
        }
        if self.merged(table).is_some() {
            return None;
        }
        if self.exclude.iter().any(|pattern| pattern.matches(table)) {
            return None;
        }
        let selected = naming().find(|selected| selected.pattern.matches(table))?;
        Some(
            selected
                .target
                .clone()
                .unwrap_or_else(|| TableName::new(self.namespace.as_ref().unwrap_or(&table.schema), &table.name)),
        )
    }

    /// Whether tables are merged into one of this name.
    fn is_merged(&self, table: &TableName) -> bool {
        self.include.iter().any(|selected| selected.makes(table))
    }

    /// Tables that are selected by their very name.
    pub(crate) fn named(&self) -> Vec<TableName> {
        let naming = self.include.iter().filter(|selected| !selected.only_says_how);
        naming.filter_map(|selected| selected.pattern.exact()).collect()
    }

    /// What was chosen for the values of each table. As for its name, the first entry that matches decides.
    pub(crate) fn rules(&self) -> ValueRules {
        let (include, others) = (self.include.clone(), self.common.rules());
        ValueRules::new(move |table| match entry_of(&include, table) {
            Some(selected) if selected.makes(table) => TableRules { of_this_table: true, ..selected.rules.clone() },
            Some(selected) => selected.rules.clone(),
            None => others.clone(),
        })
    }

    /// How a table is to lie in the lake; `all` is what is said of the files of all tables.
    pub(crate) fn layout(&self, table: &TableName, all: &Files) -> (Arc<Layout>, Files) {
        if let Some(selected) = entry_of(&self.include, table) {
            return (Arc::clone(&selected.rules.layout), selected.files.clone());
        }
        let layout = Layout { bloom_filters: all.bloom_filters.clone(), ..Layout::default() };
        (Arc::new(layout), all.clone())
    }

    /// Every selected one of `tables` with its target, and what is wrong with the selection: two tables of one target, an
    /// entry that matches nothing. Merged tables that were there `before` need no members any more.
    pub(crate) fn resolve(
        &self,
        tables: &[TableName],
        before: &[TableName],
    ) -> (BTreeMap<TableName, TableName>, Vec<String>) {
        let mut wrong = Vec::new();
        for selected in self.include.iter().filter(|selected| !selected.only_says_how) {
            let pattern = &selected.pattern;
            let is_there = tables.iter().any(|table| pattern.matches(table));
            if !is_there && !before.iter().any(|table| selected.makes(table)) {
                wrong.push(absent(pattern, tables));
            }
        }
        let mut targets: BTreeMap<TableName, TableName> = BTreeMap::new();
        let mut taken: BTreeMap<TableName, &TableName> = BTreeMap::new();
        for table in tables {
            if let Some(merged) = self.merged(table) {
                wrong.extend(self.overlap(table));
                targets.extend(self.target(merged).map(|target| (merged.clone(), target)));
                continue;
            }
            let Some(target) = self.target(table) else { continue };
            if self.is_merged(table) {
                let named =
                    self.include.iter().any(|selected| !selected.only_says_how && selected.pattern.matches(table));
                if named {
                    wrong.push(format!("the table {table} and the tables merged into it would both be {table}; merge them under another name"));
                }
                continue;
            }
            // An exact name is taken at its word.
            if self.passes_over_copies && is_left_by_tools(table, tables) && !self.named().contains(table) {
                continue;
            }
            if let Some(other) = taken.insert(target.clone(), table) {
                wrong.push(format!(
                    "{other} and {table} would both become {target}; give one another name: '- {{name: {table}, as: ...}}'"
                ));
            }
            targets.insert(table.clone(), target);
        }
        for table in before.iter().filter(|table| self.is_merged(table)) {
            targets.extend(self.target(table).map(|target| (table.clone(), target)));
        }
        if targets.is_empty() && wrong.is_empty() {
            wrong.push("every table that matches is excluded".to_owned());
        }
        (targets, wrong)
    }
}

/// Whether gh-ost or pt-online-schema-change made this table, or gave it its name, beside one of the others.
fn is_left_by_tools(table: &TableName, tables: &[TableName]) -> bool {
    let Some(inside) = table.name.strip_prefix('_') else { return false };
    if ["_gho", "_ghc", "_del"].iter().any(|suffix| inside.strip_suffix(suffix).is_some_and(|name| !name.is_empty())) {
        return true;
    }
    // `_t_new`, with more of what it begins with where that was taken.
    let of = ["_new", "_old"].iter().find_map(|suffix| inside.strip_suffix(suffix));
    of.is_some_and(|name| {
        let underscores = name.len() - name.trim_start_matches('_').len();
        let is_there = |name: &str| tables.iter().any(|other| other.schema == table.schema && other.name == name);
        (0..=underscores).filter_map(|cut| name.get(cut..)).any(|name| !name.is_empty() && is_there(name))
    })
}

/// The entry that says how a table is replicated: the one that makes it, else the first that matches.
fn entry_of<'a>(include: &'a [Selected], table: &TableName) -> Option<&'a Selected> {
    let makes = include.iter().find(|selected| selected.makes(table));
    makes.or_else(|| include.iter().find(|selected| selected.pattern.matches(table)))
}

fn absent(pattern: &TablePattern, tables: &[TableName]) -> String {
    let Some(exact) = pattern.exact() else {
        return format!("no table of the source matches '{pattern}'; check the pattern and the user's privileges");
    };
    let names: Vec<_> = tables.iter().map(ToString::to_string).collect();
    match super::option::nearest(&exact.to_string(), names.iter().map(String::as_str)) {
        Some(meant) => format!("table {exact} does not exist in the source; did you mean {meant}?"),
        None => {
            format!("table {exact} does not exist in the source; check its name, and that the user may see its schema")
        }
    }
}

fn read_source(reader: &mut Reader<'_>) -> Option<Address> {
    const PARTS: [(&str, &str); 9] = [
        ("source.host", "host"),
        ("source.port", "port"),
        ("source.database", "dbname"),
        ("source.user", "user"),
        ("source.password", "password"),
        ("source.sslmode", "sslmode"),
        ("source.sslrootcert", "sslrootcert"),
        ("source.sslcert", "sslcert"),
        ("source.sslkey", "sslkey"),
    ];
    // All are read, so that an option is never passed over because another one is given.
    let parts: Vec<_> = PARTS.iter().filter_map(|&(key, word)| Some((key, word, reader.given(key)?))).collect();
    if reader.given("source").is_some() {
        let mut config = reader.value("source", Address::parse)?;
        for (key, word, part) in &parts {
            if *word == "password" {
                config = config.with_password(calve_core::Secret::new(part.text.as_str()));
            } else {
                reader.refuse(key, part, "give the source either as one URL or by its parts, not both");
            }
        }
        return Some(config);
    }
    let (_, _, first) = parts.first()?;
    let keywords: Vec<_> = parts.iter().map(|(_, word, given)| format!("{word}={}", quoted(&given.text))).collect();
    match calve_postgres::ConnectConfig::parse(&keywords.join(" ")) {
        Ok(config) => Some(Address::Postgres(config)),
        Err(error) => {
            reader.refuse("source", first, &error.to_string());
            None
        }
    }
}

/// An option that the source's kind has no use for is a misunderstanding, not something to pass over.
fn refuse_options_of_others(reader: &mut Reader<'_>, source: Option<&Address>) {
    let others: &[&str] = match source {
        None => &[],
        Some(Address::Postgres(_)) => &["server_id", "tinyint1_as_boolean", "on_zero_date"],
        Some(Address::MySql(_)) => &["slot", "publication", "manage_publication"],
    };
    if matches!(source, Some(Address::Postgres(_))) {
        for given in reader.tables("tables").iter().filter_map(|entry| entry.merge.as_ref()) {
            reader.refuse(
                "merge",
                given,
                "only sources of MySQL and MariaDB merge tables; leave it out, or partition the table there",
            );
        }
    }
    for key in others {
        if let Some(given) = reader.given(key) {
            let kind = if matches!(source, Some(Address::Postgres(_))) { "MySQL and MariaDB" } else { "Postgres" };
            reader.refuse(key, given, &format!("only sources of {kind} have this option; leave it out"));
        }
    }
}

fn server_id(text: &str) -> std::result::Result<u32, String> {
    match text.parse() {
        Ok(number @ 1..) => Ok(number),
        _ => Err(format!("'{text}' is no server_id; use a number from 1 to 4294967295 that no other replica has")),
    }
}

fn on_zero_date(text: &str) -> std::result::Result<bool, String> {
    match text {
        "null" => Ok(true),
        "error" => Ok(false),
        _ => Err(match super::option::nearest(text, ["null", "error"].into_iter()) {
            Some(meant) => format!("'{text}' is not what zero dates can become; did you mean '{meant}'?"),
            None => format!("'{text}' is not what zero dates can become; use null, or error to stop their table"),
        }),
    }
}

/// A value of a libpq keyword string.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn read_name(reader: &mut Reader<'_>, source: Option<&Address>) -> String {
    if reader.given("name").is_some() {
        return reader.value_or("name", "invalid".to_owned(), pipeline_name);
    }
    let derived = source.map(|source| derived_name(source.database().unwrap_or("mysql")));
    derived.unwrap_or_else(|| {
        reader.missing(
            "no source was given; add --source postgres://user@host/database, or at least the pipeline's --name",
        );
        "unknown".to_owned()
    })
}

/// The default name of a pipeline: its database's, in the characters that a slot's name may have.
fn derived_name(database: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let name: String = database.chars().map(plain).take(MAX_PIPELINE_NAME).collect();
    if name.is_empty() { "postgres".to_owned() } else { name }
}

fn pipeline_name(text: &str) -> std::result::Result<String, String> {
    let plain = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if plain && !text.is_empty() && text.len() <= MAX_PIPELINE_NAME {
        return Ok(text.to_owned());
    }
    Err(format!(
        "'{text}' cannot name a pipeline; use at most {MAX_PIPELINE_NAME} of a-z, 0-9 and _, such as {}",
        derived_name(text)
    ))
}

fn slot_name(text: &str) -> std::result::Result<String, String> {
    let plain = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if plain && !text.is_empty() && text.len() <= 63 {
        return Ok(text.to_owned());
    }
    Err(format!("'{text}' cannot name a replication slot; Postgres allows at most 63 of a-z, 0-9 and _"))
}

fn read_tables(
    reader: &mut Reader<'_>,
    file: Option<&Path>,
    files: &Files,
    policies: SchemaPolicies,
) -> TableSelection {
    let mut selection = TableSelection {
        namespace: reader.value("namespace", not_empty),
        common: rules::Common::read(reader, file, policies),
        ..TableSelection::default()
    };
    for entry in reader.tables("tables") {
        let Some(pattern) = pattern(reader, "tables", entry) else { continue };
        let only_says_how = entry.only_says_how;
        let target = entry.target.as_ref().filter(|_| entry.merge.is_none());
        let target = target.and_then(|given| target_of(reader, &pattern, given));
        let merge = merges::of_entry(reader, entry, &pattern);
        let rules = rules::of_entry(reader, entry, &selection.common, pattern.exact().is_some());
        let (layout, files) = layouts::of_entry(reader, entry, files);
        let schema_changes = schema_changes::of_entry(reader, entry, policies);
        let leaves_out_added = rules::leaves_out_added(schema_changes.unwrap_or(policies));
        selection.include.push(Selected {
            pattern,
            target,
            merge,
            rules: TableRules { layout, leaves_out_added, ..rules },
            files,
            schema_changes,
            only_says_how,
        });
    }
    for entry in reader.tables("exclude") {
        selection.exclude.extend(pattern(reader, "exclude", entry));
    }
    merges::check(reader, &selection);
    selection
}

fn pattern(reader: &mut Reader<'_>, key: &str, entry: &TableEntry) -> Option<TablePattern> {
    entry.pattern.text.parse().map_err(|what: String| reader.refuse(key, &entry.pattern, &what)).ok()
}

fn target_of(reader: &mut Reader<'_>, pattern: &TablePattern, given: &Given) -> Option<TableName> {
    if pattern.exact().is_none() {
        reader.refuse(
            "as",
            given,
            &format!("many tables may match '{pattern}', and one name cannot be given to all; use 'namespace'"),
        );
        return None;
    }
    let parsed: std::result::Result<TableName, _> = given.text.parse();
    parsed
        .map_err(|error| reader.refuse("as", given, &error.to_string().replace("schema.table", "namespace.table")))
        .ok()
}

fn read_catalog(reader: &mut Reader<'_>, file: Option<&Path>, into: &Path) -> Catalog {
    let default = Catalog::Sqlite(into.join("catalog.db"));
    let Some(given) = reader.given("catalog") else { return default };
    if given.text == "sqlite" {
        return default;
    }
    match given.text.split_once("://") {
        Some(("postgres" | "postgresql", _)) => Catalog::Postgres(Secret::new(given.text.as_str())),
        Some(("sqlite", path)) if !path.is_empty() => Catalog::Sqlite(beside(file, given, Path::new(path))),
        // The text is not repeated: it may hold a password.
        _ => {
            reader.refuse(
                "catalog",
                given,
                "not a catalog; write sqlite, sqlite://path or postgres://user@host/database",
            );
            default
        }
    }
}

fn read_expiry(reader: &mut Reader<'_>) -> Expiry {
    let expiry = Expiry {
        age: reader.value_or("expiry.age", Duration::from_hours(24), units::duration),
        min_snapshots: reader.value_or("expiry.min_snapshots", 100, snapshots),
        max_snapshots: reader.value_or("expiry.max_snapshots", 1_000, snapshots),
    };
    let given = reader.given("expiry.max_snapshots").or(reader.given("expiry.min_snapshots"));
    if let Some(given) = given.filter(|_| expiry.max_snapshots < expiry.min_snapshots) {
        let what = format!(
            "expiry.max_snapshots ({}) is less than expiry.min_snapshots ({})",
            expiry.max_snapshots, expiry.min_snapshots
        );
        reader.refuse("expiry", given, &what);
    }
    expiry
}

pub(super) fn path(reader: &mut Reader<'_>, key: &'static str, file: Option<&Path>) -> Option<PathBuf> {
    let given = reader.given(key)?;
    reader.value(key, not_empty).map(|text| beside(file, given, Path::new(&text)))
}

/// A relative path written in a file is taken from the file's directory, any other from the working directory.
fn beside(file: Option<&Path>, given: &Given, path: &Path) -> PathBuf {
    use super::problem::Origin;
    match (&given.origin, file.and_then(Path::parent)) {
        (Origin::Line(_), Some(directory)) => directory.join(path),
        _ => path.to_owned(),
    }
}

fn not_empty(text: &str) -> std::result::Result<String, String> {
    if text.trim().is_empty() { Err("is empty".to_owned()) } else { Ok(text.to_owned()) }
}

pub(super) fn boolean(text: &str) -> std::result::Result<bool, String> {
    match text {
        "true" | "yes" => Ok(true),
        "false" | "no" => Ok(false),
        _ => Err(format!("'{text}' is neither true nor false")),
    }
}

fn positive(text: &str) -> std::result::Result<u64, String> {
    match units::count(text)? {
        0 => Err("must be at least 1".to_owned()),
        number => Ok(number),
    }
}

fn positive_duration(text: &str) -> std::result::Result<Duration, String> {
    let duration = units::duration(text)?;
    if duration.is_zero() { Err("must be longer than nothing, such as 1s".to_owned()) } else { Ok(duration) }
}

pub(super) fn at_least_a_mebibyte(text: &str) -> std::result::Result<u64, String> {
    let bytes = units::bytes(text)?;
    if bytes < 1 << 20 { Err(format!("'{text}' is less than 1MiB")) } else { Ok(bytes) }
}

fn parallelism(text: &str) -> std::result::Result<usize, String> {
    match usize::try_from(units::count(text)?) {
        Ok(number @ 1..=64) => Ok(number),
        _ => Err(format!("'{text}' is not between 1 and 64")),
    }
}

fn snapshots(text: &str) -> std::result::Result<usize, String> {
    let count = positive(text)?;
    usize::try_from(count).map_err(|_| format!("'{text}' is too many"))
}

pub(super) fn compression(text: &str) -> std::result::Result<Compression, String> {
    match text {
        "none" => Ok(Compression::None),
        "snappy" => Ok(Compression::Snappy),
        "lz4" => Ok(Compression::Lz4),
        "zstd" => Ok(Compression::Zstd),
        _ => Err(format!("'{text}' is not a compression; use zstd, snappy, lz4 or none")),
    }
}

fn log_level(text: &str) -> std::result::Result<LevelFilter, String> {
    match text {
        "error" => Ok(LevelFilter::ERROR),
        "warn" => Ok(LevelFilter::WARN),
        "info" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        "trace" => Ok(LevelFilter::TRACE),
        _ => Err(format!("'{text}' is not a log level; use error, warn, info, debug or trace")),
    }
}

fn log_format(text: &str) -> std::result::Result<LogFormat, String> {
    match text {
        "auto" => Ok(LogFormat::Auto),
        "human" => Ok(LogFormat::Human),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("'{text}' is not a log format; use auto, human or json")),
    }
}

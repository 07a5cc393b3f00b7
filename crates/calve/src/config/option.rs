//! Every option there is. The file, the command line and the record of the last run all speak in these names.

use super::raw::Raw;

/// What an option holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One value.
    Scalar,
    /// One value, which may be the word `null`.
    Policy,
    /// A URL that may hold a password: shown and stored without it.
    Address,
    /// One value that must not be shown or stored.
    Secret,
    /// A list of tables; an entry may carry fields of its own.
    Tables,
}

/// An option by its path in the file (`checkpoint.interval`).
#[derive(Debug)]
pub(super) struct ConfigOption {
    pub(super) key: &'static str,
    pub(super) kind: Kind,
}

const fn scalar(key: &'static str) -> ConfigOption {
    ConfigOption { key, kind: Kind::Scalar }
}

const fn policy(key: &'static str) -> ConfigOption {
    ConfigOption { key, kind: Kind::Policy }
}

const fn address(key: &'static str) -> ConfigOption {
    ConfigOption { key, kind: Kind::Address }
}

const fn secret(key: &'static str) -> ConfigOption {
    ConfigOption { key, kind: Kind::Secret }
}

const fn tables(key: &'static str) -> ConfigOption {
    ConfigOption { key, kind: Kind::Tables }
}

/// In the order of the reference in README.md.
pub(super) const OPTIONS: &[ConfigOption] = &[
    scalar("name"),
    address("source"),
    scalar("source.host"),
    scalar("source.port"),
    scalar("source.database"),
    scalar("source.user"),
    secret("source.password"),
    scalar("source.sslmode"),
    scalar("source.sslrootcert"),
    scalar("source.sslcert"),
    scalar("source.sslkey"),
    scalar("slot"),
    scalar("publication"),
    scalar("manage_publication"),
    scalar("server_id"),
    scalar("tinyint1_as_boolean"),
    policy("on_zero_date"),
    policy("on_unrepresentable"),
    scalar("mode"),
    scalar("preimages"),
    secret("mask_salt"),
    scalar("mask_salt_file"),
    tables("tables"),
    tables("exclude"),
    scalar("into"),
    address("catalog"),
    scalar("warehouse"),
    scalar("namespace"),
    scalar("schema_changes.add_column"),
    scalar("schema_changes.drop_column"),
    scalar("schema_changes.rename_column"),
    scalar("schema_changes.widen_type"),
    scalar("schema_changes.drop_not_null"),
    scalar("schema_changes.drop_partition"),
    scalar("schema_changes.swap"),
    scalar("schema_changes.otherwise"),
    scalar("spill_dir"),
    scalar("memory"),
    scalar("checkpoint.interval"),
    scalar("checkpoint.rows"),
    scalar("checkpoint.bytes"),
    scalar("checkpoint.idle_interval"),
    scalar("parallelism.commit"),
    scalar("parallelism.load"),
    scalar("files.compression"),
    scalar("files.target_size"),
    scalar("files.bloom_filters"),
    scalar("expiry.age"),
    scalar("expiry.min_snapshots"),
    scalar("expiry.max_snapshots"),
    scalar("log.level"),
    scalar("log.format"),
];

/// Fields that an entry of `tables` may have beside its pattern.
pub(super) const TABLE_FIELDS: &[&str] = &[
    "name",
    "as",
    "merge",
    "origin",
    "on_unrepresentable",
    "mode",
    "preimages",
    "where",
    "include_columns",
    "exclude_columns",
    "columns",
    "partition",
    "sort",
    "files",
    "schema_changes",
];

/// Those of them that list names of columns.
pub(super) const COLUMN_LISTS: [&str; 2] = ["include_columns", "exclude_columns"];

/// Fields of such an entry that are lists, or one text with commas.
pub(super) const LISTS: &[&str] = &["partition", "sort", "bloom_filters"];

/// Fields of `files` of such an entry.
pub(super) const FILE_FIELDS: &[&str] = &["compression", "target_size", "bloom_filters"];

/// Fields of a column of such an entry.
pub(super) const COLUMN_FIELDS: &[&str] = &["type", "on_unrepresentable", "mask"];

pub(super) fn find(key: &str) -> Option<&'static ConfigOption> {
    OPTIONS.iter().find(|option| option.key == key)
}

/// Whether options lie under this path.
pub(super) fn is_section(path: &str) -> bool {
    OPTIONS.iter().any(|option| option.key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// What may stand directly under `section` (`None`: at the top).
pub(super) fn names_in(section: Option<&str>) -> Vec<&'static str> {
    let mut names: Vec<_> = OPTIONS
        .iter()
        .filter_map(|option| match section {
            None => Some(option.key),
            Some(section) => option.key.strip_prefix(section)?.strip_prefix('.'),
        })
        .map(|name| name.split('.').next().unwrap_or(name))
        .collect();
    names.dedup();
    names
}

/// The refusal of an unknown name, with the known one it was probably meant to be.
pub(super) fn unknown(name: &str, section: Option<&str>) -> String {
    let place = section.map_or(String::new(), |section| format!(" in '{section}'"));
    let known = names_in(section);
    if let Some(meant) = nearest(name, known.iter().copied()) {
        return format!("'{name}' is not an option{place}; did you mean '{meant}'?");
    }
    // An option of another section, written in the wrong place.
    let leaf = |key: &'static str| key.rsplit('.').next().unwrap_or(key);
    if let Some(meant) = OPTIONS.iter().find(|option| leaf(option.key) == name) {
        return format!("'{name}' is not an option{place}; did you mean '{}'?", meant.key);
    }
    format!("'{name}' is not an option{place}; known are {}", known.join(", "))
}

/// The candidate most like `name`, if one is near enough to have been meant.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::normalized_damerau_levenshtein(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

impl Raw {
    /// Whether any part of the source's address is given.
    pub(super) fn names_source(&self) -> bool {
        self.scalars.keys().any(|key| key == "source" || key.starts_with("source."))
    }
}

//! A lake's directory as a reader finds it: where the tables' metadata lies, and what it says.

use std::path::{Path, PathBuf};

use anyhow::Context;
use calve_testkit::readers::Table;
use serde_json::Value;

use crate::readers;

/// A lake with the embedded catalog.
#[derive(Clone, Debug)]
pub struct Lake {
    path: PathBuf,
}

impl Lake {
    /// The lake in a directory, whether or not anything is there yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The catalog's file.
    pub fn catalog(&self) -> PathBuf {
        self.path.join("catalog.db")
    }

    /// The local state of a pipeline.
    pub fn positions(&self, pipeline: &str) -> PathBuf {
        self.path.join(".calve").join(pipeline).join("positions")
    }

    /// Where the catalog says that the table's metadata is now.
    pub fn metadata_file(&self, namespace: &str, table: &str) -> anyhow::Result<PathBuf> {
        let found = readers::duckdb(|duckdb| Ok(duckdb.locate(&self.catalog(), namespace, table)?))?;
        Ok(PathBuf::from(found.strip_prefix("file://").unwrap_or(&found)))
    }

    /// The table at its current snapshot, for the readers.
    pub fn table(&self, namespace: &str, table: &str) -> anyhow::Result<Table> {
        Ok(Table::current(self.metadata_file(namespace, table)?.to_string_lossy()))
    }

    /// What the table's metadata says now.
    pub fn metadata(&self, namespace: &str, table: &str) -> anyhow::Result<TableMetadata> {
        TableMetadata::read(&self.metadata_file(namespace, table)?)
    }
}

/// A metadata file, read as the JSON it is.
#[derive(Clone, Debug)]
pub struct TableMetadata {
    file: PathBuf,
    json: Value,
}

/// One snapshot of a table.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its id.
    pub id: i64,
    /// Its summary.
    pub summary: Value,
}

/// Of the snapshot summary and of the table's properties.
pub const CHECKPOINT_KEY: &str = "calve.checkpoint";

impl Snapshot {
    /// The id of the checkpoint it completes; none in the middle of a group, and none on another writer's snapshot.
    pub fn checkpoint(&self) -> Option<&str> {
        self.summary.get(CHECKPOINT_KEY)?.as_str()
    }
}

impl TableMetadata {
    /// Reads a metadata file.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let json = serde_json::from_str(&text).with_context(|| format!("reading {}", file.display()))?;
        Ok(Self { file: file.to_owned(), json })
    }

    /// The whole of it.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// A table property.
    pub fn property(&self, key: &str) -> Option<&str> {
        self.json.get("properties")?.get(key)?.as_str()
    }

    /// All snapshots that it still has, oldest first.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        let listed = self.json.get("snapshots").and_then(Value::as_array);
        let mut snapshots: Vec<(i64, Snapshot)> = listed
            .into_iter()
            .flatten()
            .filter_map(|snapshot| {
                let id = snapshot.get("snapshot-id")?.as_i64()?;
                let sequence = snapshot.get("sequence-number")?.as_i64()?;
                let summary = snapshot.get("summary").cloned().unwrap_or_default();
                Some((sequence, Snapshot { id, summary }))
            })
            .collect();
        snapshots.sort_by_key(|(sequence, _)| *sequence);
        snapshots.into_iter().map(|(_, snapshot)| snapshot).collect()
    }

    /// A total from the summary of the newest snapshot, such as `total-records`; 0 where it is not told.
    pub fn total(&self, key: &str) -> u64 {
        let newest = self.snapshots().pop();
        newest.and_then(|snapshot| snapshot.summary.get(key)?.as_str()?.parse().ok()).unwrap_or_default()
    }

    /// The table at one of its snapshots, for the readers.
    pub fn at(&self, snapshot: &Snapshot) -> Table {
        Table::at(self.file.to_string_lossy(), snapshot.id)
    }

    /// The table at its current snapshot as of this file, for the readers.
    pub fn current(&self) -> Table {
        Table::current(self.file.to_string_lossy())
    }
}

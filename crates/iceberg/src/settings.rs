//! What a lake is opened with.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use calve_core::{Layout, TableName};
use uuid::Uuid;

/// The name under which tables stand in a SQL catalog unless another is given. Readers that open the catalog use it too
/// (PyIceberg: `load_catalog("calve", ...)`).
pub const DEFAULT_CATALOG_NAME: &str = "calve";

/// Where tables are registered.
#[derive(Clone)]
pub enum CatalogSettings {
    /// A sqlite file, made where it is missing.
    Sqlite {
        /// The file.
        path: PathBuf,
    },
    /// A Postgres database; the catalog's two tables are made where they are missing.
    Postgres {
        /// `postgres://user:password@host:port/database`.
        url: String,
    },
}

impl fmt::Debug for CatalogSettings {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { path } => f.debug_struct("Sqlite").field("path", path).finish(),
            Self::Postgres { .. } => f.debug_struct("Postgres").finish_non_exhaustive(),
        }
    }
}

/// The table in the lake that a source table goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Table properties given when the table is made or read again, such as `write.parquet.compression-codec`.
    pub properties: HashMap<String, String>,
    /// How its rows lie from then on.
    pub layout: Arc<Layout>,
}

/// How long snapshots are kept. The current one, the one a position rests on, and those that a tag or branch names are
/// kept whatever this says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRetentionSettings {
    /// Snapshots older than this go.
    pub age: Duration,
    /// But this many of the newest stay.
    pub min: usize,
    /// And never more than this many stay.
    pub max: usize,
}

impl Default for SnapshotRetentionSettings {
    fn default() -> Self {
        Self { age: Duration::from_hours(24), min: 100, max: 1_000 }
    }
}

/// A lake.
#[derive(Clone, Debug)]
pub struct LakeSettings {
    /// The catalog.
    pub catalog: CatalogSettings,
    /// The catalog's name in its own rows; [`DEFAULT_CATALOG_NAME`] where nothing else is wanted.
    pub catalog_name: String,
    /// The directory under which tables are made.
    pub warehouse: PathBuf,
    /// The pipeline that owns the tables.
    pub pipeline: String,
    /// This process; the names of its files carry it.
    pub run: Uuid,
    /// Files encoded at a time at most.
    pub encoders: usize,
    /// The tables.
    pub targets: BTreeMap<TableName, Target>,
    /// How long their snapshots are kept.
    pub retention: SnapshotRetentionSettings,
}

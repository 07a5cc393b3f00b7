//! Catalogs: who says which metadata file is a table's present one, and swaps it for the next.
//!
//! A commit is a list of requirements and a list of updates, as the REST protocol has it. A SQL catalog applies them here
//! and swaps the metadata file's location.

mod database;
mod sql;

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use calve_core::Result;
use iceberg::spec::{SnapshotReference, TableMetadata, TableMetadataRef};
use iceberg::{TableIdent, TableRequirement, TableUpdate};

pub(crate) use sql::{SqlCatalog, metadata_properties};

/// A table as the catalog has it.
#[derive(Clone, Debug)]
pub(crate) struct TableAt {
    /// The metadata file. Names the exact state of the table.
    pub(crate) location: String,
    /// What is in it.
    pub(crate) metadata: TableMetadataRef,
    /// Its branches and tags, which the crate's metadata keeps to itself.
    pub(crate) refs: Arc<References>,
}

/// Branches and tags by name.
pub(crate) type References = HashMap<String, SnapshotReference>;

/// Why a commit did not come back as done.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// It was certainly not applied, and never will be.
    Lost(calve_core::Error),
    /// It may have been applied, or may be yet.
    Unknown(calve_core::Error),
}

impl CommitError {
    /// The error for the caller.
    pub(crate) fn into_inner(self) -> calve_core::Error {
        match self {
            Self::Lost(error) | Self::Unknown(error) => error,
        }
    }
}

/// A table after a commit.
#[derive(Debug)]
pub(crate) struct Committed {
    /// Its new state.
    pub(crate) at: TableAt,
    /// Metadata files that fell out of its metadata log, to be removed.
    pub(crate) old_metadata: Vec<String>,
}

/// A catalog of Iceberg tables.
#[async_trait]
pub(crate) trait Catalog: Debug + Send + Sync {
    /// The table's present state, or None where there is no such table. `known` spares reading its metadata again.
    async fn load(&self, table: &TableIdent, known: Option<&TableAt>) -> Result<Option<TableAt>>;

    /// Registers a new table. Lost where one of that name exists.
    async fn create(&self, table: &TableIdent, metadata: TableMetadata) -> std::result::Result<TableAt, CommitError>;

    /// Applies the updates in one step if the table still stands at `base` and meets the requirements.
    async fn commit(
        &self,
        table: &TableIdent,
        base: &TableAt,
        requirements: &[TableRequirement],
        updates: Vec<TableUpdate>,
    ) -> std::result::Result<Committed, CommitError>;

    /// Takes the table off the catalog; its files stay. Returns whether it was there.
    async fn drop_table(&self, table: &TableIdent) -> Result<bool>;
}

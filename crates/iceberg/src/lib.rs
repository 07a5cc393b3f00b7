//! Iceberg as the lake: schema mapping, delta writers, manifests, row-delta commits, catalogs, maintenance.
//!
//! [`IcebergLake`] stages changes as Parquet data and equality-delete files ([`calve_core::DeltaWriter`]) and makes them
//! visible ([`calve_core::Lake`]): one catalog commit for each checkpoint of a table, with the stamp that recovery reads.
//! The iceberg crate gives formats and metadata; what it keeps to itself (row deltas, several snapshots in one commit,
//! merging, clean-up, durable files) is done here.

mod catalog;
mod cleanup;
mod commit;
mod delta;
mod error;
mod expiry;
mod failpoint;
mod fit;
mod lake;
mod manifests;
mod naming;
mod partition;
mod placement;
mod reader;
mod schema;
mod settings;
mod snapshot;
mod stamp;
mod storage;
mod summary;
#[cfg(test)]
mod tests;
mod writer;

pub use lake::IcebergLake;
pub use reader::RowStream;
pub use settings::{CatalogSettings, DEFAULT_CATALOG_NAME, LakeSettings, SnapshotRetentionSettings, Target};
pub use summary::TableSummary;

//! Postgres as a source: replication transport, pgoutput decoder, slot and publication, snapshot reader.

mod array;
mod attributes;
mod catalog_type;
mod cell;
mod check;
mod column_kind;
mod config;
mod copy;
mod datetime;
mod describe;
mod error;
mod guard;
mod hstore;
mod identity;
mod labels;
mod load;
mod numeric;
mod partitions;
mod pgoutput;
mod pipeline;
mod publication;
mod relation;
mod slot;
mod socket;
mod source;
#[cfg(test)]
mod speed;
mod sql;
mod stream;
mod tls;
mod transport;
mod types;
mod vector;
mod witness;

pub use check::check;
pub use config::{ChannelBinding, ConnectConfig, Host, RootCertificates, SslMode};

pub use pipeline::{Dropped, drop_pipeline, list_tables, slot_status};

pub use slot::SlotStatus;
pub use source::{PostgresSettings, PostgresSource};
pub use witness::{TableWitness, WitnessedChanges};

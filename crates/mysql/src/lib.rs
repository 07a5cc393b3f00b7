//! MySQL and MariaDB as sources: binlog reader and row decoder, GTIDs, snapshot reader.
//!
//! The flow: `stream` brings the events of the binary log, `binlog` takes them apart, `transactions` puts them together into
//! committed transactions and pushes those into the sink, keeping in `place` where reading stands. `load` reads tables whole;
//! `source` is all of this behind the port.

mod binlog;
mod charset;
mod check;
mod config;
mod connection;
mod conversions;
mod ddl;
mod describe;
mod effects;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod identity;
mod load;
mod merge;
mod pipeline;
mod place;
mod server;
mod settings;
mod snapshot_place;
mod source;
#[cfg(test)]
mod speed;
mod sql;
mod standstill;
mod status;
mod stream;
mod transactions;
mod types;
mod witness;
mod xa_search;

pub use check::check;
pub use config::{ConnectConfig, Host, RootCertificates, SslMode};
pub use conversions::{Conversions, OnZeroDate, ZeroDates};
pub use merge::{Merge, Merges};
pub use pipeline::list_tables;
pub use settings::MySqlSettings;
pub use source::MySqlSource;
pub use status::{LogStatus, log_status};
pub use witness::{TableWitness, WitnessedChanges};

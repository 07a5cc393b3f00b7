//! MySQL and MariaDB as sources: binlog reader and row decoder, GTIDs, snapshot reader.
//!
//! The flow: `stream` brings the events of the binary log, `binlog` takes them apart, `transactions` puts them together into
//! committed transactions and pushes those into the sink, keeping in `place` where reading stands. `load` reads tables whole;
//! `source` is all of this behind the port.

mod binlog;
mod charset;
mod config;
mod connection;
mod ddl;
mod describe;
mod effects;
mod error;
mod identity;
mod pipeline;
mod place;
mod server;
mod settings;
mod spool;
mod sql;
mod stream;
mod transactions;
mod types;

pub use config::{ConnectConfig, Host, RootCertificates, SslMode};
pub use pipeline::list_tables;
pub use settings::MySqlSettings;

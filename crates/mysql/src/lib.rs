//! MySQL and MariaDB as sources: binlog reader and row decoder, GTIDs, snapshot reader.

// The source itself, which calls the rest, comes with the stream.
#![allow(dead_code, unused_imports, reason = "called by the source")]

mod charset;
mod check;
mod config;
mod connection;
mod ddl;
mod describe;
mod error;
mod key_text;
mod load;
mod pipeline;
mod server;
mod settings;
mod sql;
mod types;

pub use check::check;
pub use config::{ConnectConfig, Host, RootCertificates, SslMode};
pub use pipeline::list_tables;
pub use settings::MySqlSettings;

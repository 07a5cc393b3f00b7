//! The streaming replication protocol (Postgres manual, chapter 53.4): login, its few commands, and the stream of WAL.

mod connection;
mod stream;

pub(crate) use connection::{ReplicationConnection, Reply};
pub(crate) use stream::{Block, StreamSettings, WalStream};

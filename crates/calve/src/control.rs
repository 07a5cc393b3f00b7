//! The socket through which other commands ask a running calve: one JSON object a line each way.
//!
//! ```text
//! > {"ask":"status"}                                    < {"answer":"status","status":{..}}
//! > {"ask":"reload","tables":[{"schema":..,"name":..}]} < {"answer":"loading",..}*  {"answer":"published",..}|{"answer":"stopped",..}  each table
//!                                                       < {"answer":"done"} | {"answer":"refused","why":".."}
//! ```
//!
//! The socket lies in the pipeline's own directory: whoever may write the lake may ask.

mod client;
mod path;
mod server;

use calve_core::{StopReason, TableName};
use serde::{Deserialize, Serialize};

use crate::progress::LiveStatus;

pub(crate) use client::Client;
pub(crate) use server::Server;

/// Longest line that is read: no request or answer comes near it.
const MAX_LINE: u64 = 64 << 20;

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
enum Request {
    Status,
    Reload { tables: Vec<TableName> },
}

/// What comes back.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum Answer {
    Status { status: Box<LiveStatus> },
    Loading { table: TableName, rows: u64, estimated: Option<u64> },
    Published { table: TableName },
    Stopped { table: TableName, reason: StopReason },
    Refused { why: String },
    Done,
}

#[cfg(test)]
mod tests;

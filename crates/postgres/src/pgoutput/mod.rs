//! The logical decoding plugin pgoutput: its messages, and how their rows become entries of row buffers
//! (Postgres manual, "Logical Replication Message Formats").
//!
//! Protocol version 1 is spoken: the server sends a transaction when it is committed, whole and in commit order.

mod apply;
mod message;
mod plan;
mod row;

pub(crate) use apply::Decoder;
pub(crate) use message::{Malformed, Reader};
pub(crate) use plan::schema_changed;

#[cfg(test)]
mod tests;

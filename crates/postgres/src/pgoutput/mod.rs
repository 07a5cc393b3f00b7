//! The logical decoding plugin pgoutput: its messages, and how their rows become entries of row buffers
//! (Postgres manual, "Logical Replication Message Formats").
//!
//! Protocol version 1 is spoken: the server sends a transaction when it is committed, whole and in commit order.

mod apply;
mod message;
mod plan;
mod reshape;
mod row;

pub(crate) use apply::{Decoder, LookedUp};
pub(crate) use message::{Malformed, Reader};

#[cfg(test)]
mod tests;

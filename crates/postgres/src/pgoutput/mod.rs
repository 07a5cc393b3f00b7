//! The logical decoding plugin pgoutput: its messages, and how their rows become entries of row buffers
//! (Postgres manual, "Logical Replication Message Formats").
//!
//! Protocol version 2 is spoken: the server sends a transaction when it is committed, whole and in commit order, or, where it
//! outgrows the server's `logical_decoding_work_mem`, while it is in progress, in segments and then its outcome. What the sink
//! sees is the same.

mod apply;
mod blank;
mod in_progress;
mod message;
mod plan;
mod reshape;
mod row;

pub(crate) use apply::{Decoder, LookedUp};
pub(crate) use in_progress::Replay;
pub(crate) use message::{Malformed, Reader};

#[cfg(test)]
mod tests;

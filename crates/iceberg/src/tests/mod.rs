//! Tests of the whole lake without servers: what is committed is read back by the iceberg crate's own scan, and other
//! writers work through its own SQL catalog.

mod commits;
mod deleted_rows;
mod fixture;
mod foreign;
mod growth;
mod looking_up;
pub(crate) mod nested;
#[cfg(feature = "servers")]
mod partitions;
mod postgres;
mod reading;
mod refusals;

//! calve on real servers, end to end: the binary is run as users run it, and its tables are read by DuckDB and Spark.
//!
//! One program, so that servers and readers are started once. Each test has a database, a lake and a pipeline of its own.
//!
//! What cannot be brought about from outside a process (an answer lost after its effect, a request that lands after a
//! restart, power lost with writes unsynced, a failed commit retried while the same key changes) is shown by the
//! simulation in `crates/testkit`.

#![allow(clippy::format_push_string, reason = "scripts are put together once, and read better so")]

mod append;
mod attached_partitions;
mod case;
mod changes;
mod chosen_types;
mod commands;
mod crash_suite;
mod deleted_rows;
mod documented_types;
mod excerpts;
mod first_steps;
mod foreign_writers;
mod identities;
mod lists;
mod loads;
mod matrix;
mod memory;
mod migrations;
mod mysql;
mod names;
mod partitions;
mod recovery;
mod refusals;
mod schema_changes;
mod secrets;
mod slots;
mod transactions_in_progress;
mod types;
mod unchanged_values;
mod unrepresentable;

//! Every type with its least and its greatest value, zero, NULL and what tends to go wrong; loaded, streamed, and written while calve was
//! away; as a column and, where servers and lake allow it, as part of a key. What DuckDB and Spark read is what the server prints.
//!
//! All of it is made from lists, `postgres_types`, `postgis` and `binlog_types`: adding a type is adding a line. A type that a server has and
//! its list has not fails the test.

mod binlog;
mod binlog_types;
mod chosen;
mod keys;
mod plain;
mod postgis;
mod postgres;
mod postgres_types;
mod run;
mod types;

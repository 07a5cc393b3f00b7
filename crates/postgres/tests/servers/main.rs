//! The stream, the slot and the publication against real servers. Their addresses come from the environment
//! (`CALVE_TEST_POSTGRES_15`, `_17`, `_18`: URLs of a superuser on servers with `wal_level = logical`).

mod database;
mod login;
mod membership;
mod recorder;
mod stream;

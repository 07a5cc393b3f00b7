//! Entry points of the fuzz targets: each takes any bytes, and panics where the reader breaks a promise.
//!
//! The promises are those of [`binlog`](crate::binlog): a value or an error, whatever the bytes; and what holds beyond that is
//! asserted here: what was read can be written and read back, rows that are walked over end where decoded ones do, and the
//! sink is called as its contract says. `fuzz` beside this crate calls these under libFuzzer; `integration/fuzz.sh` runs it.

mod captured;
mod documents;
mod framing;
mod input;
mod mutator;
mod positions;
mod rows;
mod schemas;
mod seeds;
#[path = "binlog/captures/shown.rs"]
#[allow(clippy::duplicate_mod, dead_code, reason = "the tests of `binlog` have it as well, and use all of it")]
mod shown;
mod statements;
#[cfg(test)]
mod tests;
mod transactions;

pub use documents::documents;
pub use framing::framing;
pub use mutator::{framing_mutated, rows_mutated, transactions_mutated};
pub use positions::positions;
pub use rows::rows;
pub use seeds::{Seed, seeds};
pub use statements::statements;
pub use transactions::transactions;

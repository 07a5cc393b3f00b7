//! Readers shared by all tests of a process: starting one costs half a second (DuckDB) or ten (Spark).

use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use calve_testkit::readers::{DuckDb, Metadata, Spark};

static DUCKDB: Mutex<Vec<DuckDb>> = Mutex::new(Vec::new());
static METADATA: Mutex<Vec<Metadata>> = Mutex::new(Vec::new());
static SPARK: Mutex<Option<Spark>> = Mutex::new(None);

/// Has DuckDB do something. As many of it run as are asked at the same time.
pub fn duckdb<T>(ask: impl FnOnce(&mut DuckDb) -> anyhow::Result<T>) -> anyhow::Result<T> {
    pooled(&DUCKDB, || DuckDb::open().context("starting DuckDB"), ask)
}

/// Has pyiceberg do something.
pub fn metadata<T>(ask: impl FnOnce(&mut Metadata) -> anyhow::Result<T>) -> anyhow::Result<T> {
    pooled(&METADATA, || Metadata::open().context("starting pyiceberg"), ask)
}

/// Has Spark do something. There is one for all, and others wait: its memory is what this machine has least of.
pub fn spark<T>(ask: impl FnOnce(&mut Spark) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let mut spark = SPARK.lock().unwrap_or_else(PoisonError::into_inner);
    if spark.is_none() {
        *spark = Some(Spark::open().context("starting Spark")?);
    }
    ask(spark.as_mut().expect("it was just started"))
}

fn pooled<R, T>(
    pool: &Mutex<Vec<R>>,
    open: impl FnOnce() -> anyhow::Result<R>,
    ask: impl FnOnce(&mut R) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let idle = pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut reader = match idle {
        Some(reader) => reader,
        None => open()?,
    };
    let answer = ask(&mut reader);
    // A reader answers on after an error of its own; a broken one says so again and is noticed.
    pool.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
    answer
}

//! The table's side: how far it is, and its rows.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use calve_core::{Error, ErrorKind, Lake, Position, Result, TableName, TableSchema};
use calve_iceberg::IcebergLake;
use tokio::time::Instant;

use super::rows::{Digest, Rows};
use crate::bounds::Bounds;
use crate::control::Client;
use crate::wiring::Targets;

const POLL_INTERVAL: Duration = Duration::from_millis(250);

pub(super) struct LakeSide {
    lake: Arc<IcebergLake>,
    targets: Targets,
    /// Of the running calve, if one runs.
    socket: PathBuf,
}

/// A state of a table.
pub(super) struct Reached {
    pub(super) snapshot: Option<i64>,
    /// The rows of the snapshot are the source's at this position. None before the first load.
    pub(super) position: Option<Position>,
    /// Whether a calve runs, so that it may get further.
    pub(super) running: bool,
}

impl LakeSide {
    pub(super) fn new(lake: Arc<IcebergLake>, targets: Targets, socket: PathBuf) -> Self {
        Self { lake, targets, socket }
    }

    /// The source's schema at the table's position. A table that does not go on cannot be compared.
    pub(super) async fn schema(&self, table: &TableName) -> Result<Arc<TableSchema>> {
        let unready = |what: &str| {
            Error::new(ErrorKind::Config, format!("it {what}; run calve run, and verify when it is loaded"))
        };
        let state = self.lake.load(table).await?.ok_or_else(|| unready("is not in the lake yet"))?;
        if state.rolled_back {
            let message = format!(
                "it was rolled back in the lake by someone, so its rows are not those it recorded; run calve reload {table}"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        if let Some(mark) = state.stopped {
            return Err(Error::new(ErrorKind::Config, format!("it is stopped: {}", mark.reason)));
        }
        state.stamp.map(|stamp| stamp.schema).ok_or_else(|| unready("was not loaded yet"))
    }

    /// Waits until the table is complete up to `at`, or cannot be.
    pub(super) async fn wait_for(&self, table: &TableName, at: &Position, wait: Duration) -> Result<Reached> {
        let deadline = Instant::now() + wait;
        loop {
            // Asked before the table is read: a calve that left meanwhile has committed all it will.
            let running = Client::connect(&self.socket).await?.is_some();
            let reached = self.reached(table, running).await?;
            let there = reached.position.as_ref().is_some_and(|position| position.covers(at));
            if there || !running || Instant::now() >= deadline {
                return Ok(reached);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Feeds every row of a snapshot (None: the current one).
    pub(super) async fn read(
        &self,
        schema: &TableSchema,
        snapshot: Option<i64>,
        mut row: impl FnMut(&[u8], Digest),
    ) -> Result<()> {
        let mut batches = self.lake.scan(schema, snapshot).await?;
        let mut key = Vec::new();
        while let Some(arrays) = batches.next().await? {
            let mut rows = Rows::new(schema, &arrays)?;
            for index in 0..rows.len() {
                rows.key(index, &mut key);
                row(&key, rows.digest(index));
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn reached(&self, table: &TableName, running: bool) -> Result<Reached> {
        let bounds = Bounds::read(&self.lake, &self.targets).await?;
        let summary = self.lake.summary(table).await?;
        let own = summary.as_ref().and_then(|summary| summary.stamp.as_ref()).map(|stamp| &stamp.position);
        Ok(Reached {
            position: bounds.bound(table, own),
            snapshot: summary.as_ref().and_then(|summary| summary.snapshot),
            running,
        })
    }
}

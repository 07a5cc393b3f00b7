//! Rows and keys as Parquet files that nobody sees yet.
//!
//! A delta becomes data files (`partitions`, and for each of them `series`, one for every 128 MB) and equality-delete files that
//! hold the key alone; each is described for its manifest (`metrics`, `bounds`). Encoding happens on a bounded number of threads (`encoders`), never on
//! the ones that read the log or talk to the catalog. Loads (`load`) write several files at a time.

mod bounds;
mod complete;
mod dictionaries;
mod encoders;
mod load;
mod metrics;
mod partitions;
mod properties;
mod series;
mod sorting;
#[cfg(test)]
mod speed;

use std::sync::Arc;

use async_trait::async_trait;
use calve_core::{
    DeltaBatch, DeltaWriter, EncodeJob, Error, ErrorKind, Excerpt, Ground, LoadWriter, Onto, Result, StagedDelta,
    StopReason, TableName, TableSchema, Written,
};

pub(crate) use dictionaries::Dictionaries;
pub(crate) use encoders::Encoders;
use encoders::{Below, Files, run_with, stage, write_batch};
use load::TableLoad;
pub(crate) use metrics::field_id;
pub(crate) use sorting::Sorting;

use crate::delta::TableLayout;
use crate::failpoint;
use crate::lake::{IcebergLake, KnownTable};
use crate::placement;
use crate::reader::{LookUp, Remaining};

#[async_trait]
impl DeltaWriter for IcebergLake {
    async fn write(&self, table: &TableName, job: EncodeJob, onto: Onto, ground: &Ground) -> Result<Written> {
        let batch = self.encoders.run(job).await?;
        if batch.schema.table != *table {
            return Err(Error::new(
                ErrorKind::Bug,
                format!("changes of table {} were to be written as those of {table}", batch.schema.table),
            ));
        }
        if onto == Onto::Table
            && let Some(what) = self.taken_name(&batch.schema).await?
        {
            return Ok(Written::Stops(StopReason::schema_changed(table, what)));
        }
        let layout = self.layout_for(&batch.schema, onto).await?;
        if layout.delete_spec.is_none() && batch.deletes.num_rows() > 0 && !batch.replace {
            return Ok(Written::Stops(placement::nothing_for_deletes(table)));
        }
        let replace = batch.replace;
        let files = if batch.needs_ground() {
            let slot = self.slot(table)?;
            let known = self.standing_at(slot, ground.base).await?;
            match self.write_files(&layout, batch, Some((&known, &ground.staged))).await {
                Ok(files) => files,
                Err(error) => match self.unless_moved(slot, &known, error).await {
                    // The table is as it is found, and will be next time: no reason to hold up the others.
                    error if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Config) => {
                        return Ok(Written::Stops(StopReason::unreadable(table, error)));
                    }
                    error => return Err(error),
                },
            }
        } else {
            self.write_files(&layout, batch, None).await?
        };
        let (rows, deletes) = match files {
            Files::Written(rows, deletes) => (rows, deletes),
            Files::Stops(reason) => return Ok(Written::Stops(reason)),
        };
        failpoint::hit("writer.data-written");
        let delta = stage(&layout, &self.naming, replace, rows, deletes).await?;
        failpoint::hit("writer.staged");
        Ok(Written::Delta(delta))
    }

    async fn start_load(&self, schema: Arc<TableSchema>, excerpt: Excerpt) -> Result<Box<dyn LoadWriter>> {
        if let Some(what) = self.taken_name(&schema).await? {
            let what = format!(
                "table {}: {what}; rename the column at the source, or leave it out of the lake (exclude_columns)",
                schema.table
            );
            return Err(Error::new(ErrorKind::Config, what));
        }
        let layout = self.layout_for(&schema, Onto::Load).await?;
        Ok(Box::new(TableLoad::new(layout, excerpt, Arc::clone(&self.naming), Arc::clone(&self.encoders))))
    }

    async fn discard(&self, deltas: &[StagedDelta]) {
        for file in deltas.iter().flat_map(|delta| &delta.files) {
            if let Err(error) = self.io.delete(file).await {
                // It is found by its name after the next start.
                tracing::warn!(%file, %error, "an uncommitted file could not be removed");
            }
        }
    }
}

impl IcebergLake {
    /// Writes the files of a batch. Cells that it lacks, and rows that stay as deleted ones, are read from the table as it is known,
    /// and from what was staged on it.
    async fn write_files(
        &self,
        layout: &Arc<TableLayout>,
        batch: DeltaBatch,
        ground: Option<(&KnownTable, &[StagedDelta])>,
    ) -> Result<Files> {
        // What manifests take counts as what an encoder does.
        let permit = self.encoders.permit().await?;
        let mut below = Below::default();
        if let Some((known, staged)) = ground {
            let metadata = &known.at.metadata;
            if let Some(rows) = &batch.incomplete {
                below.look_up = Some(LookUp::plan(layout, metadata, staged, rows).await?);
            }
            if batch.retire.is_some() {
                below.remaining = Some(Remaining::plan(layout, metadata, staged, &batch.deletes).await?);
            }
        }
        let (layout, naming) = (Arc::clone(layout), Arc::clone(&self.naming));
        run_with(permit, move || write_batch(&layout, &naming, batch, below)).await
    }
}

#[cfg(test)]
mod tests;

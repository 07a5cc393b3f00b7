//! Rows and keys as Parquet files that nobody sees yet.
//!
//! A delta becomes data files (`series`, one for every 128 MB) and equality-delete files that hold the key alone; each is
//! described for its manifest (`metrics`, `bounds`). Encoding happens on a bounded number of threads (`encoders`), never on
//! the ones that read the log or talk to the catalog. Loads (`load`) write several files at a time.

mod bounds;
mod encoders;
mod load;
mod metrics;
mod properties;
mod series;
#[cfg(test)]
mod speed;

use std::sync::Arc;

use async_trait::async_trait;
use calve_core::{
    DeltaWriter, EncodeJob, Error, ErrorKind, LoadWriter, Onto, Result, StagedDelta, TableName, TableSchema,
};

pub(crate) use encoders::Encoders;
use encoders::{stage, write_batch};
use load::TableLoad;

use crate::failpoint;
use crate::lake::IcebergLake;

#[async_trait]
impl DeltaWriter for IcebergLake {
    async fn write(&self, table: &TableName, job: EncodeJob, onto: Onto) -> Result<StagedDelta> {
        let batch = self.encoders.run(job).await?;
        if batch.schema.table != *table {
            return Err(Error::new(
                ErrorKind::Bug,
                format!("changes of table {} were to be written as those of {table}", batch.schema.table),
            ));
        }
        let layout = self.layout_for(&batch.schema, onto).await?;
        let replace = batch.replace;
        let (files_layout, naming) = (Arc::clone(&layout), Arc::clone(&self.naming));
        let (rows, deletes) = self.encoders.run(move || write_batch(&files_layout, &naming, batch)).await?;
        failpoint::hit("writer.data-written");
        let delta = stage(&layout, &self.naming, replace, rows, deletes).await?;
        failpoint::hit("writer.staged");
        Ok(delta)
    }

    async fn start_load(&self, schema: Arc<TableSchema>) -> Result<Box<dyn LoadWriter>> {
        let layout = self.layout_for(&schema, Onto::Load).await?;
        Ok(Box::new(TableLoad::new(layout, Arc::clone(&self.naming), Arc::clone(&self.encoders))))
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

#[cfg(test)]
mod tests;

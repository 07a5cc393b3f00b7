//! A whole table being written: several files at a time, with memory that does not grow with the table.

use std::sync::Arc;

use async_trait::async_trait;
use calve_core::{Error, ErrorKind, Excerpt, LoadWriter, Result, RowBuffer, RowOp, StagedDelta};
use iceberg::spec::DataFile;
use tokio::task::JoinSet;

use super::encoders::{self, Encoders};
use super::partitions::PartitionedFiles;
use super::series::Content;
use crate::delta::TableLayout;
use crate::failpoint;
use crate::naming::FileNaming;

/// Writes one table's load.
///
/// There is a series of files for each encoder at most, or one for each partition. A buffer goes to an idle series; another series is
/// begun only when none is idle, so that a small table becomes one file.
pub(crate) struct TableLoad {
    layout: Arc<TableLayout>,
    excerpt: Arc<Excerpt>,
    naming: Arc<FileNaming>,
    encoders: Arc<Encoders>,
    idle: Vec<PartitionedFiles>,
    busy: JoinSet<Result<PartitionedFiles>>,
}

impl TableLoad {
    pub(crate) fn new(
        layout: Arc<TableLayout>,
        excerpt: Excerpt,
        naming: Arc<FileNaming>,
        encoders: Arc<Encoders>,
    ) -> Self {
        let excerpt = Arc::new(excerpt);
        Self { layout, excerpt, naming, encoders, idle: Vec::new(), busy: JoinSet::new() }
    }

    /// A series to write to; waits for one where as many are busy as there are encoders.
    async fn series(&mut self) -> Result<PartitionedFiles> {
        while let Some(done) = self.busy.try_join_next() {
            self.idle.push(encoders::joined(done)?);
        }
        if let Some(series) = self.idle.pop() {
            return Ok(series);
        }
        if self.busy.len() >= self.encoders.count()
            && let Some(done) = self.busy.join_next().await
        {
            return encoders::joined(done);
        }
        Ok(PartitionedFiles::new(Arc::clone(&self.layout), Arc::clone(&self.naming), Content::Rows))
    }

    /// Waits until every series is idle.
    async fn settle(&mut self) -> Result<()> {
        while let Some(done) = self.busy.join_next().await {
            self.idle.push(encoders::joined(done)?);
        }
        Ok(())
    }

    async fn complete(&mut self) -> Result<Vec<DataFile>> {
        self.settle().await?;
        // Closing encodes what is left and waits for the disk, so the files close beside each other.
        let mut closing = JoinSet::new();
        for series in self.idle.drain(..) {
            let permit = self.encoders.permit().await?;
            closing.spawn_blocking(move || {
                let _permit = permit;
                series.finish()
            });
        }
        let mut files = Vec::new();
        let mut failed = None;
        while let Some(done) = closing.join_next().await {
            match encoders::joined(done) {
                Ok(closed) => files.extend(closed),
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            encoders::remove(files).await;
            return Err(error);
        }
        if !files.is_empty() {
            failpoint::hit("load.file-written");
        }
        Ok(files)
    }
}

#[async_trait]
impl LoadWriter for TableLoad {
    async fn append(&mut self, rows: RowBuffer) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        if rows.ops().iter().any(|op| *op != RowOp::Insert) {
            return Err(Error::new(
                ErrorKind::Bug,
                format!("table {}: a load brings other than rows", self.layout.table),
            ));
        }
        let mut series = self.series().await?;
        let (permit, excerpt) = (self.encoders.permit().await?, Arc::clone(&self.excerpt));
        self.busy.spawn_blocking(move || {
            let _permit = permit;
            let complete = series.complete_files();
            let (columns, count) = excerpt.loaded(rows)?;
            series.write(columns, count)?;
            if series.complete_files() > complete {
                failpoint::hit("load.file-written");
            }
            Ok(series)
        });
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<StagedDelta> {
        let files = self.complete().await?;
        encoders::stage(&self.layout, &self.naming, true, files, Vec::new()).await
    }

    async fn abort(mut self: Box<Self>) {
        // A series removes its files when it is dropped, whether it failed or not.
        while self.busy.join_next().await.is_some() {}
        let idle = std::mem::take(&mut self.idle);
        let _ = tokio::task::spawn_blocking(move || drop(idle)).await;
    }
}

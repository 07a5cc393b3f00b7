//! The threads that encode, bounded in number, and what is done before and after on the others.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use calve_core::{DeltaBatch, Error, ErrorKind, Result, StagedDelta, StopReason, TableSchema};
use iceberg::spec::DataFile;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;

use super::complete::completed;
use super::partitions::PartitionedFiles;
use super::series::Content;
use crate::delta::{self, TableLayout};
use crate::naming::FileNaming;
use crate::reader::{LookUp, Remaining, shown_key};
use crate::storage;

/// Bounds how many files are encoded at a time, over all tables.
#[derive(Debug)]
pub(crate) struct Encoders {
    permits: Arc<Semaphore>,
    count: usize,
}

impl Encoders {
    /// `count` of them, at least one.
    pub(crate) fn new(count: usize) -> Self {
        let count = count.max(1);
        Self { permits: Arc::new(Semaphore::new(count)), count }
    }

    /// As many as there are processors, but no more than `most`.
    pub(crate) fn for_this_machine(most: usize) -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(most))
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Waits for a free encoder.
    pub(crate) async fn permit(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .map_err(|closed| Error::with_source(ErrorKind::Bug, "the encoders are closed while in use", closed))
    }

    /// Runs `work` on a thread of its own, once an encoder is free.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        run_with(self.permit().await?, work).await
    }
}

/// Runs `work` on a thread of its own, on the encoder that was waited for.
pub(crate) async fn run_with<T: Send + 'static>(
    permit: OwnedSemaphorePermit,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        work()
    });
    joined(done.await)
}

/// The result of a thread; one that panicked is a bug to report, not to spread.
pub(crate) fn joined<T>(done: std::result::Result<Result<T>, JoinError>) -> Result<T> {
    done.unwrap_or_else(|error| {
        Err(Error::with_source(ErrorKind::Bug, format!("encoding ended abruptly: {error}"), error))
    })
}

/// What became of a batch.
pub(crate) enum Files {
    /// Data files and delete files.
    Written(Vec<DataFile>, Vec<DataFile>),
    /// Nothing: the table lacks what cells were to be taken of.
    Stops(StopReason),
}

/// What a batch needs of the table that it is put on.
#[derive(Default)]
pub(crate) struct Below {
    /// Cells that its rows lack.
    pub(crate) look_up: Option<LookUp>,
    /// Rows that stay as deleted ones.
    pub(crate) remaining: Option<Remaining>,
}

/// Writes the files of a batch, durable but for their directory's entries. A failure leaves none.
pub(crate) fn write_batch(
    layout: &Arc<TableLayout>,
    naming: &Arc<FileNaming>,
    batch: DeltaBatch,
    below: Below,
) -> Result<Files> {
    let files = |content| PartitionedFiles::new(Arc::clone(layout), Arc::clone(naming), content);
    let (mut rows, mut deletes) = (files(Content::Rows), files(Content::EqualityDeletes));
    // Both are dropped, and remove their files, unless both are written.
    rows.write(batch.rows.columns().to_vec(), batch.rows.num_rows())?;
    match (batch.retire, below.remaining) {
        (None, _) => deletes.write(batch.deletes.columns().to_vec(), batch.deletes.num_rows())?,
        (Some(at), Some(remaining)) => remaining.run(|columns| retire(at, columns, &mut rows))?,
        (Some(_), None) => {
            let what = format!("table {}: rows were to stay that nobody reads", layout.table);
            return Err(Error::new(ErrorKind::Bug, what));
        }
    }
    let DeltaBatch { schema, incomplete, .. } = batch;
    match (incomplete, below.look_up) {
        (None, _) => {}
        (Some(incomplete), Some(look_up)) => {
            let looked = look_up.run(|places, found| {
                let (columns, count) = completed(&incomplete, places, found).map_err(|error| {
                    let what = format!("table {}: looked-up values could not be put into their rows", layout.table);
                    Error::with_source(ErrorKind::Bug, what, error)
                })?;
                rows.write(columns, count)
            })?;
            if let Some(missing) = looked.missing {
                let key = shown_key(&schema, incomplete.keys.columns(), missing);
                let reason = match incomplete.filter {
                    Some(_) => StopReason::unchanged_values_of_new_row(&schema.table, &key),
                    None => StopReason::row_missing(&schema.table, &key),
                };
                return Ok(Files::Stops(reason));
            }
        }
        (Some(_), None) => {
            let what = format!("table {}: rows without all of their cells were to be written", layout.table);
            return Err(Error::new(ErrorKind::Bug, what));
        }
    }
    let rows = rows.finish()?;
    match deletes.finish() {
        Ok(deletes) => Ok(Files::Written(rows, deletes)),
        Err(error) => {
            remove_now(&rows);
            Err(error)
        }
    }
}

/// Writes rows of a table that keeps deleted ones, as deleted at this time where they were not yet.
fn retire(at: i64, mut columns: Vec<ArrayRef>, rows: &mut PartitionedFiles) -> Result<()> {
    let Some(before) = columns.pop() else { return Ok(()) };
    let before = before.as_primitive::<TimestampMicrosecondType>();
    columns.push(TableSchema::deleted_cells(before.iter().map(|before| before.or(Some(at)))));
    let count = before.len();
    rows.write(columns, count)
}

/// Makes the files' directory entries durable and writes the manifests. A failure leaves none of the files.
pub(crate) async fn stage(
    layout: &TableLayout,
    naming: &FileNaming,
    replace: bool,
    data: Vec<DataFile>,
    deletes: Vec<DataFile>,
) -> Result<StagedDelta> {
    let written: Vec<DataFile> = data.iter().chain(&deletes).cloned().collect();
    let staged = match sync_directory(written.first()).await {
        Ok(()) => delta::stage(layout, replace, data, deletes, naming).await,
        Err(error) => Err(error),
    };
    if staged.is_err() {
        remove(written).await;
    }
    staged
}

/// All files of a delta lie in one directory.
async fn sync_directory(file: Option<&DataFile>) -> Result<()> {
    let Some(location) = file.map(|file| file.file_path().to_owned()) else { return Ok(()) };
    let done = tokio::task::spawn_blocking(move || {
        storage::sync_directory(&location)
            .map_err(|error| storage::file_error("write the directory of", &location, error))
    });
    joined(done.await)
}

/// Removes files that nothing refers to.
pub(crate) async fn remove(files: Vec<DataFile>) {
    let _ = tokio::task::spawn_blocking(move || remove_now(&files)).await;
}

fn remove_now(files: &[DataFile]) {
    for path in files.iter().filter_map(|file| storage::local_path(file.file_path())) {
        // What stays is found by its name after the next start.
        let _ = std::fs::remove_file(path);
    }
}

//! Reading a table as it is at a snapshot, with memory that depends neither on its rows nor on its deletes.
//!
//! A row counts unless an equality delete of its key is newer than its file, or a position delete names it. Deletes are
//! indexed by the hash of the key; where the index would be too large, the table is read in several passes, each over one
//! part of the keys. Verification reads tables this way, many times faster than a general scan that tests every row
//! against every delete.

mod asked;
mod columns;
mod deletes;
mod keys;
mod look_up;
mod plan;
mod remaining;
mod scan;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_select::filter::filter;
use calve_core::{Error, ErrorKind, Result, TableName, TableSchema};
use iceberg::spec::{SchemaRef, TableMetadata};
use tokio::sync::mpsc;

use columns::TableColumn;
use deletes::{DeleteIndex, Part};
pub(crate) use keys::KeyCells;
use plan::Plan;
use scan::Scan;

#[cfg(test)]
pub(crate) use look_up::Looked;
pub(crate) use look_up::{LookUp, shown_key};
pub(crate) use remaining::Remaining;

use crate::lake::IcebergLake;

/// Memory for the index of deletes of one pass.
const INDEX_BYTES: u64 = 256 << 20;

/// Batches that wait to be taken, for each thread that reads.
const BATCHES_AHEAD: usize = 2;

impl IcebergLake {
    /// The rows that a table has at a snapshot (None: the current one), each once, in no order; none of those that it keeps as
    /// deleted. Batches have one column for each of the schema's, of [`calve_core::ColumnType::arrow_type`].
    pub async fn scan(&self, schema: &TableSchema, snapshot: Option<i64>) -> Result<RowStream> {
        let slot = self.slot(&schema.table)?;
        let known = self
            .read(slot)
            .await?
            .ok_or_else(|| Error::new(ErrorKind::Config, format!("table {} is not in the lake", schema.table)))?;
        let metadata = &known.at.metadata;
        if schema.retires_rows() {
            let reader = TableReader::open(&schema.in_lake(), &self.io, metadata, snapshot).await?;
            return Ok(RowStream { living: true, ..reader.rows(INDEX_BYTES, self.encoders.count()) });
        }
        let reader = TableReader::open(schema, &self.io, metadata, snapshot).await?;
        Ok(reader.rows(INDEX_BYTES, self.encoders.count()))
    }
}

/// A table at a snapshot, ready to be read.
pub(crate) struct TableReader {
    table: TableName,
    columns: Vec<TableColumn>,
    key: Vec<TableColumn>,
    schema: SchemaRef,
    plan: Plan,
}

impl TableReader {
    /// Reads the snapshot's manifests.
    pub(crate) async fn open(
        source: &TableSchema,
        io: &iceberg::io::FileIO,
        metadata: &TableMetadata,
        snapshot: Option<i64>,
    ) -> Result<Self> {
        let table = source.table.clone();
        let found = match snapshot {
            Some(id) => Some(metadata.snapshot_by_id(id).ok_or_else(|| {
                let what = format!("table {table}: snapshot {id} is no longer in the lake: it expired");
                Error::new(ErrorKind::Retry, what)
            })?),
            None => metadata.current_snapshot(),
        };
        let plan = match found {
            Some(snapshot) => Plan::read(&table, io, metadata, snapshot, None).await?,
            None => Plan::default(),
        };
        let of_snapshot = found.and_then(|snapshot| snapshot.schema(metadata).ok());
        let schema = of_snapshot.unwrap_or_else(|| Arc::clone(metadata.current_schema()));
        let column = |index: &usize| {
            let column = source.columns.get(*index)?;
            let field = schema.as_struct().fields().iter().find(|field| field.name == column.name)?;
            let arrow = column.ty.arrow_type();
            Some(TableColumn { field_id: field.id, name: column.name.clone(), arrow })
        };
        let lacking = || {
            let what = format!(
                "table {table}: its columns in the lake are not those of the source; run `calve reload {table}`"
            );
            Error::new(ErrorKind::Config, what)
        };
        let all: Vec<usize> = (0..source.columns.len()).collect();
        let columns = all.iter().map(column).collect::<Option<Vec<_>>>().ok_or_else(lacking)?;
        let key = source.key.iter().map(column).collect::<Option<Vec<_>>>().ok_or_else(lacking)?;
        Ok(Self { table, columns, key, schema, plan })
    }

    /// The key's field ids, ascending.
    fn key_ids(&self) -> Vec<i32> {
        let mut ids: Vec<i32> = self.key.iter().map(|column| column.field_id).collect();
        ids.sort_unstable();
        ids
    }

    /// How many passes keep the index of deletes below `memory` bytes.
    fn passes(&self, memory: u64) -> u32 {
        let key = self.key_ids();
        deletes::passes(self.plan.deleted_keys(|ids| *ids == key), memory)
    }

    /// Starts reading on `threads` threads, with an index of deletes of at most `memory` bytes.
    pub(crate) fn rows(self, memory: u64, threads: usize) -> RowStream {
        let threads = threads.max(1);
        let (sender, receiver) = mpsc::channel(threads * BATCHES_AHEAD);
        let runtime = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || {
            if let Err(error) = self.read_all(memory, threads, &sender, &runtime) {
                // Nobody may be left to hear it.
                let _ = sender.blocking_send(Err(error));
            }
        });
        RowStream { receiver, living: false }
    }

    fn read_all(
        self,
        memory: u64,
        threads: usize,
        sender: &mpsc::Sender<Result<Vec<ArrayRef>>>,
        runtime: &tokio::runtime::Handle,
    ) -> Result<()> {
        self.plan.check_other_deletes(&self.table, &self.key_ids(), memory)?;
        let of = self.passes(memory);
        let this = Arc::new(self);
        for bucket in 0..of {
            if sender.is_closed() {
                return Ok(());
            }
            let scan = Arc::new(this.scan(Part { bucket, of })?);
            let next = Arc::new(AtomicUsize::new(0));
            let workers: Vec<_> = (0..threads.min(this.plan.data.len()))
                .map(|_| {
                    let (this, scan, next, sender) =
                        (Arc::clone(&this), Arc::clone(&scan), Arc::clone(&next), sender.clone());
                    runtime.spawn_blocking(move || {
                        while let Some(file) = this.plan.data.get(next.fetch_add(1, Ordering::Relaxed)) {
                            scan.file(file, |batch| sender.blocking_send(Ok(batch)).is_ok())?;
                            if sender.is_closed() {
                                break;
                            }
                        }
                        Ok(())
                    })
                })
                .collect();
            for worker in workers {
                let done = runtime.block_on(worker);
                done.unwrap_or_else(|panicked| {
                    let what = format!("table {}: reading it ended abruptly: {panicked}", this.table);
                    Err(Error::with_source(ErrorKind::Bug, what, panicked))
                })?;
            }
        }
        Ok(())
    }

    fn scan(&self, part: Part) -> Result<Scan> {
        let column = |id: i32| TableColumn::of(&self.schema, id);
        let deletes = DeleteIndex::read(&self.table, &self.plan, &self.key, column, part, None)?;
        Ok(Scan {
            table: self.table.clone(),
            columns: self.columns.clone(),
            key: self.key.clone(),
            part,
            deletes: Arc::new(deletes),
            asked: None,
            except: None,
        })
    }
}

/// Rows of a table. Dropped, it stops reading.
#[derive(Debug)]
pub struct RowStream {
    receiver: mpsc::Receiver<Result<Vec<ArrayRef>>>,
    /// The last column says when a row was deleted, and is for nobody else.
    living: bool,
}

impl RowStream {
    /// The next rows, one array for each column; None after the last. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Vec<ArrayRef>>> {
        let Some(batch) = self.receiver.recv().await.transpose()? else { return Ok(None) };
        if self.living { living(batch).map(Some) } else { Ok(Some(batch)) }
    }
}

/// The rows whose last column is NULL, without it.
fn living(mut batch: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
    let Some(deleted) = batch.pop().filter(|deleted| deleted.null_count() < deleted.len()) else { return Ok(batch) };
    let lives: BooleanArray = (0..deleted.len()).map(|row| Some(deleted.is_null(row))).collect();
    let columns = batch.iter().map(|column| filter(column, &lives)).collect::<std::result::Result<_, _>>();
    columns.map_err(|error| Error::with_source(ErrorKind::Bug, "deleted rows could not be left out", error))
}

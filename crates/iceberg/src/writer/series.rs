//! Files of one kind being written one after the other: each is completed once it is large enough.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, SchemaRef as ArrowSchemaRef};
use calve_core::{Error, ErrorKind, Result};
use iceberg::spec::{DataContentType, DataFile, Struct};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::errors::ParquetError;

use super::metrics::{self, FileFacts};
use super::properties::{FileFormat, parquet_schema, value_size};
use crate::delta::TableLayout;
use crate::naming::FileNaming;
use crate::storage::{self, NewFile};

/// After this many rows it is looked whether the file is large enough,
const ROWS_A_STEP: usize = 8 * 1024;
/// or after about so many bytes: rows of a step are in memory once more, as pages.
const STEP_BYTES: usize = 8 << 20;

/// What the files hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Rows.
    Rows,
    /// Keys of rows that go.
    EqualityDeletes,
}

/// A series of files. Dropped before [`finish`](Self::finish), it leaves none of them.
pub(crate) struct FileSeries {
    layout: Arc<TableLayout>,
    naming: Arc<FileNaming>,
    format: FileFormat,
    content: Content,
    /// That all rows are of.
    partition: Struct,
    open: Option<OpenFile>,
    complete: Vec<DataFile>,
}

struct OpenFile {
    location: String,
    writer: ArrowWriter<NewFile>,
    /// One for each column.
    nan_counts: Vec<u64>,
    /// So many writes brought its rows, each of which is sorted.
    runs: usize,
}

impl FileSeries {
    /// Of a partition.
    pub(crate) fn new(
        layout: Arc<TableLayout>,
        naming: Arc<FileNaming>,
        content: Content,
        partition: Struct,
    ) -> Result<Self> {
        let format = FileFormat::of(&layout.table, &layout.properties)?;
        Ok(Self { layout, naming, format, content, partition, open: None, complete: Vec::new() })
    }

    /// Bytes of the open row group in memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.open.as_ref().map_or(0, |file| file.writer.memory_size())
    }

    /// What a row group may have.
    pub(crate) fn row_group_bytes(&self) -> usize {
        self.format.row_group_bytes
    }

    /// Completes the open row group.
    pub(crate) fn end_row_group(&mut self) -> Result<()> {
        let Some(mut file) = self.open.take() else { return Ok(()) };
        file.writer.flush().map_err(|error| self.failed(&file.location, error))?;
        self.open = Some(file);
        Ok(())
    }

    /// Files completed so far.
    pub(crate) fn complete_files(&self) -> usize {
        self.complete.len()
    }

    fn arrow(&self) -> &ArrowSchemaRef {
        match self.content {
            Content::Rows => &self.layout.arrow,
            Content::EqualityDeletes => &self.layout.key_arrow,
        }
    }

    /// Appends rows (or keys), one column for each of the layout's.
    pub(crate) fn write(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        // Cells come without the field ids that are written inside of lists.
        let options = RecordBatchOptions::new().with_row_count(Some(rows)).with_match_field_names(false);
        let batch = RecordBatch::try_new_with_options(Arc::clone(self.arrow()), columns, &options)
            .map_err(|error| Self::misfit(&self.layout, &error))?;
        if let Some(file) = &mut self.open {
            file.runs += 1;
        }
        let row: usize = batch.columns().iter().map(value_size).sum();
        let rows_a_step = (STEP_BYTES / row.max(1)).clamp(1, ROWS_A_STEP);
        for start in (0..rows).step_by(rows_a_step) {
            let step = batch.slice(start, rows_a_step.min(rows - start));
            let mut file = match self.open.take() {
                Some(file) => file,
                None => self.begin(&step)?,
            };
            file.count_nans(&step);
            file.writer.write(&step).map_err(|error| self.failed(&file.location, error))?;
            let large = file.writer.bytes_written() + file.writer.in_progress_size() >= self.format.file_bytes;
            self.open = Some(file);
            if large {
                self.end()?;
            }
        }
        Ok(())
    }

    /// The files completed, which stay from here on.
    pub(crate) fn into_files(mut self) -> Vec<DataFile> {
        std::mem::take(&mut self.complete)
    }

    /// Begins a file whose first rows are these.
    fn begin(&self, rows: &RecordBatch) -> Result<OpenFile> {
        let location = match self.content {
            Content::Rows => self.naming.data_file(&self.layout.location),
            Content::EqualityDeletes => self.naming.delete_file(&self.layout.location),
        };
        let key: Vec<&str> = self.layout.key_arrow.fields().iter().map(|field| field.name().as_str()).collect();
        let partitioned = !self.layout.spec.is_unpartitioned();
        let properties =
            self.format.writer_properties(rows, &key, self.content, &self.layout.dictionaries, partitioned);
        let schema = parquet_schema(self.arrow()).map_err(|error| self.failed(&location, error))?;
        let options = ArrowWriterOptions::new()
            .with_properties(properties)
            .with_parquet_schema(schema)
            // Iceberg readers go by the Parquet types and field ids alone.
            .with_skip_arrow_metadata(true);
        let file = NewFile::create(&location).map_err(|error| storage::file_error("create", &location, error))?;
        let writer = ArrowWriter::try_new_with_options(file, Arc::clone(self.arrow()), options)
            .map_err(|error| self.failed(&location, error))?;
        Ok(OpenFile { location, writer, nan_counts: vec![0; self.arrow().fields().len()], runs: 1 })
    }

    /// Completes the open file; it is durable but for its directory's entry.
    pub(crate) fn end(&mut self) -> Result<()> {
        let Some(mut file) = self.open.take() else { return Ok(()) };
        file.writer.flush().map_err(|error| self.failed(&file.location, error))?;
        let groups = file.writer.flushed_row_groups().to_vec();
        let sink = file.writer.into_inner().map_err(|error| self.failed(&file.location, error))?;
        let bytes = sink.finish().map_err(|error| storage::file_error("write", &file.location, error))?;
        let facts = FileFacts {
            location: file.location,
            bytes,
            content: match self.content {
                Content::Rows => DataContentType::Data,
                Content::EqualityDeletes => DataContentType::EqualityDeletes,
            },
            arrow: self.arrow(),
            groups: &groups,
            nan_counts: &file.nan_counts,
            spec_id: match self.content {
                Content::Rows => self.layout.spec.spec_id(),
                Content::EqualityDeletes => self.layout.delete_spec.as_ref().unwrap_or(&self.layout.spec).spec_id(),
            },
            partition: self.partition.clone(),
            sort_order: self.layout.sorting.order_id().filter(|_| self.content == Content::Rows && file.runs == 1),
        };
        self.layout.dictionaries.learn(self.arrow(), &groups);
        let described = metrics::describe(&self.layout, facts)?;
        self.complete.push(described);
        Ok(())
    }

    /// The table's schema does not take the cells.
    pub(super) fn misfit(layout: &TableLayout, error: &arrow_schema::ArrowError) -> Error {
        Error::new(
            ErrorKind::Config,
            format!(
                "table {}: rows of the source do not fit its columns in the lake ({error}); read it again with \
                 `calve reload {}`",
                layout.table, layout.table
            ),
        )
    }

    fn failed(&self, location: &str, error: ParquetError) -> Error {
        match error {
            ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
                Ok(error) => storage::file_error("write", location, *error),
                Err(cause) => Error::with_source(
                    ErrorKind::Retry,
                    format!("table {}: cannot write {location}: {cause}", self.layout.table),
                    cause,
                ),
            },
            error => Error::with_source(
                ErrorKind::Bug,
                format!("table {}: its rows cannot be encoded as Parquet: {error}", self.layout.table),
                error,
            ),
        }
    }
}

impl Drop for FileSeries {
    fn drop(&mut self) {
        // The open file removes itself.
        for file in &self.complete {
            if let Some(path) = storage::local_path(file.file_path()) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

impl OpenFile {
    /// NaN is outside of bounds, so readers are told how many there are.
    fn count_nans(&mut self, batch: &RecordBatch) {
        for (column, count) in batch.columns().iter().zip(&mut self.nan_counts) {
            let nans = match column.data_type() {
                DataType::Float32 => {
                    column.as_primitive::<Float32Type>().iter().flatten().filter(|value| value.is_nan()).count()
                }
                DataType::Float64 => {
                    column.as_primitive::<Float64Type>().iter().flatten().filter(|value| value.is_nan()).count()
                }
                _ => 0,
            };
            *count += nans as u64;
        }
    }
}

//! The limit of a stream that the client and not the server bounds: rows that are Arrow arrays already, written by one
//! bare `ArrowWriter` with the compression that calve uses.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

/// Rows read at a time; as many are given to the writer at once.
const BATCH_ROWS: usize = 65_536;
/// As calve's default.
const ZSTD_LEVEL: i32 = 3;

/// Rows in memory.
#[derive(Debug)]
pub(super) struct Rows {
    batches: Vec<RecordBatch>,
}

impl Rows {
    /// Reads files of one table, or of several with the same columns.
    pub(super) fn read(files: &[PathBuf]) -> anyhow::Result<Self> {
        let mut batches = Vec::new();
        for path in files {
            let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
            let reader = ParquetRecordBatchReaderBuilder::try_new(file)?.with_batch_size(BATCH_ROWS).build()?;
            for batch in reader {
                batches.push(batch?);
            }
        }
        Ok(Self { batches })
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.batches.iter().map(|batch| batch.num_rows() as u64).sum()
    }

    /// Writes them all into one file, which is removed again.
    pub(super) fn write(&self, directory: &Path) -> anyhow::Result<Duration> {
        let first = self.batches.first().context("there are no rows to write")?;
        let path = directory.join("limit.parquet");
        let properties =
            WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?)).build();
        let started = Instant::now();
        let file = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let mut writer = ArrowWriter::try_new(file, first.schema(), Some(properties))?;
        for batch in &self.batches {
            // Tables of one shape differ in their field ids, which cost nothing.
            writer.write(&RecordBatch::try_new(first.schema(), batch.columns().to_vec())?)?;
        }
        let written = writer.close()?;
        let wall = started.elapsed();
        ensure!(written.file_metadata().num_rows().cast_unsigned() == self.count(), "the writer lost rows");
        std::fs::remove_file(&path)?;
        Ok(wall)
    }
}

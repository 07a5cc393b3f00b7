//! Files of all partitions of a table being written: each row goes to those of its partition.
//!
//! No more than some of the partitions have an open file at a time, and together these hold no more than the one file of a table
//! without partitions would: the file that was written to longest ago is completed, and the row group of the largest one is.

use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array};
use arrow_schema::ArrowError;
use calve_core::Result;
use iceberg::spec::{DataFile, Struct};

use super::series::{Content, FileSeries};
use super::sorting::taken;
use crate::delta::TableLayout;
use crate::naming::FileNaming;
use crate::partition::Partitioning;

/// Partitions that have an open file: each is a buffer for every column, and a small row group of the memory that all share.
const MOST_OPEN: usize = 128;

/// Files of rows, or of keys. Dropped before [`finish`](Self::finish), it leaves none of them.
pub(crate) struct PartitionedFiles {
    layout: Arc<TableLayout>,
    naming: Arc<FileNaming>,
    content: Content,
    /// In the order in which they were written to.
    open: Vec<(Struct, FileSeries)>,
    /// Series that have no open file.
    complete: Vec<FileSeries>,
}

impl PartitionedFiles {
    pub(crate) fn new(layout: Arc<TableLayout>, naming: Arc<FileNaming>, content: Content) -> Self {
        Self { layout, naming, content, open: Vec::new(), complete: Vec::new() }
    }

    /// Files completed so far.
    pub(crate) fn complete_files(&self) -> usize {
        let all = self.open.iter().map(|(_, series)| series).chain(&self.complete);
        all.map(FileSeries::complete_files).sum()
    }

    /// Appends rows (or keys), one column for each of the layout's.
    pub(crate) fn write(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let layout = Arc::clone(&self.layout);
        let misfit = |error: ArrowError| FileSeries::misfit(&layout, &error);
        let columns = match self.content {
            Content::Rows => layout.sorting.sorted(columns).map_err(misfit)?,
            Content::EqualityDeletes => columns,
        };
        let partitions = self.partitioning();
        if partitions.is_one() {
            return self.series(Struct::empty())?.write(columns, rows);
        }
        let groups = partitions.groups(&columns, rows).map_err(|why| misfit(ArrowError::SchemaError(why)))?;
        let alone = groups.len() == 1;
        for group in groups {
            let count = group.rows.len();
            let part = if alone {
                columns.clone()
            } else {
                taken(&columns, &UInt32Array::from(group.rows)).map_err(misfit)?
            };
            self.series(group.partition)?.write(part, count)?;
            self.make_room()?;
        }
        Ok(())
    }

    /// Completes the last files; all are durable but for their directory's entries.
    pub(crate) fn finish(mut self) -> Result<Vec<DataFile>> {
        let mut all = std::mem::take(&mut self.complete);
        all.extend(self.open.drain(..).map(|(_, series)| series));
        // Whatever fails, what was completed before is removed when it is dropped.
        for series in &mut all {
            series.end()?;
        }
        Ok(all.into_iter().flat_map(FileSeries::into_files).collect())
    }

    fn partitioning(&self) -> &Partitioning {
        match self.content {
            Content::Rows => &self.layout.row_partitions,
            Content::EqualityDeletes => &self.layout.key_partitions,
        }
    }

    /// The series of a partition, which is the last one then.
    fn series(&mut self, partition: Struct) -> Result<&mut FileSeries> {
        let series = if let Some(place) = self.open.iter().position(|(of, _)| *of == partition) {
            self.open.remove(place)
        } else {
            if self.open.len() >= MOST_OPEN {
                let (_, mut oldest) = self.open.remove(0);
                oldest.end()?;
                self.complete.push(oldest);
            }
            let (layout, naming) = (Arc::clone(&self.layout), Arc::clone(&self.naming));
            let series = FileSeries::new(layout, naming, self.content, partition.clone())?;
            (partition, series)
        };
        self.open.push(series);
        let place = self.open.len() - 1;
        Ok(&mut self.open[place].1)
    }

    fn make_room(&mut self) -> Result<()> {
        let held: usize = self.open.iter().map(|(_, series)| series.held_bytes()).sum();
        match self.open.iter_mut().map(|(_, series)| series).max_by_key(|series| series.held_bytes()) {
            Some(largest) if held > largest.row_group_bytes() => largest.end_row_group(),
            _ => Ok(()),
        }
    }
}

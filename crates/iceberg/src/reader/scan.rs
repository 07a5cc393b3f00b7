//! Reading data files: a file's columns, less the rows that are deleted or belong to another part of the keys.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::ArrowError;
use calve_core::{Result, TableName};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowPredicateFn, RowFilter};
use parquet::file::metadata::ParquetMetaData;

use super::asked::Asked;
use super::columns::{FileColumns, TableColumn};
use super::deletes::{Part, SharedIndex, open, unreadable};
use super::keys::KeyCells;
use super::plan::PlannedFile;

/// Rows of one batch.
const BATCH_ROWS: usize = 4 * 1024;

/// Where batches are of bounded size, what one takes, about.
const BATCH_BYTES: u64 = 8 << 20;

/// What a value of fixed width takes in memory, at most.
const VALUE_BYTES: i64 = 16;

/// What is read of every file.
pub(crate) struct Scan {
    pub(crate) table: TableName,
    /// The columns wanted.
    pub(crate) columns: Vec<TableColumn>,
    /// The key's, in its order.
    pub(crate) key: Vec<TableColumn>,
    pub(crate) part: Part,
    pub(crate) deletes: SharedIndex,
    /// The only keys whose rows are wanted; None for all.
    pub(crate) asked: Option<Arc<Asked>>,
    /// Keys whose rows are left out. Batches are of bounded size then.
    pub(crate) except: Option<Arc<Asked>>,
}

impl Scan {
    /// Hands the rows of a file to `work`, batch by batch, until it returns false. Returns how many rows were looked at.
    pub(crate) fn file(&self, file: &PlannedFile, mut work: impl FnMut(Vec<ArrayRef>) -> bool) -> Result<usize> {
        let bad = |why: &str| unreadable(&self.table, file, why);
        let mut reader = open(&self.table, file, self.asked.is_some() || self.except.is_some())?;
        let columns = FileColumns::find(reader.parquet_schema(), &self.columns).map_err(|why| bad(&why))?;
        let mut rows = usize::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0);
        match (self.deletes.remaining(&file.location, rows), &self.asked) {
            (Some(remaining), _) => reader = reader.with_row_selection(remaining),
            (None, Some(asked)) => (reader, rows) = asked.narrow(reader),
            (None, None) => {}
        }
        let bounded = self.asked.is_some() || self.except.is_some();
        let batch_rows = if bounded { bounded_rows(reader.metadata(), &columns.mask) } else { BATCH_ROWS };
        reader = reader.with_batch_size(batch_rows);
        if let Some(filter) = self.filter(file, reader.parquet_schema()).map_err(|why| bad(&why))? {
            reader = reader.with_row_filter(filter);
        }
        let batches = reader.with_projection(columns.mask.clone()).build().map_err(|error| bad(&error.to_string()))?;
        for batch in batches {
            let batch = batch.map_err(|error| bad(&error.to_string()))?;
            if !work(columns.of(&batch).map_err(|why| bad(&why))?) {
                break;
            }
        }
        Ok(rows)
    }

    /// Decides by the key alone, so that other columns of rows left out are not decoded. None where every row stays.
    fn filter(
        &self,
        file: &PlannedFile,
        parquet: &parquet::schema::types::SchemaDescriptor,
    ) -> std::result::Result<Option<RowFilter>, String> {
        let sets: Vec<usize> = (0..self.deletes.keys.len())
            .filter(|set| self.deletes.keys.get(*set).is_some_and(|keys| keys.may_hit(file)))
            .collect();
        let chosen = self.asked.is_some() || self.except.is_some();
        let by_key = self.part.of > 1 || chosen || sets.iter().any(|set| self.deletes.keys[*set].of_key);
        if !by_key && sets.is_empty() {
            return Ok(None);
        }
        // The key's columns come first, then those of each set that compares others.
        let mut wanted = if by_key { self.key.clone() } else { Vec::new() };
        let key_width = wanted.len();
        let mut others = Vec::new();
        for set in sets.iter().filter(|set| !self.deletes.keys[**set].of_key) {
            let compared = &self.deletes.keys[*set].columns;
            others.push((*set, wanted.len()..wanted.len() + compared.len()));
            wanted.extend(compared.iter().cloned());
        }
        let of_key: Vec<usize> = sets.iter().copied().filter(|set| self.deletes.keys[*set].of_key).collect();
        let columns = FileColumns::find(parquet, &wanted)?;
        let mask = columns.mask.clone();
        let (index, part, sequence) = (Arc::clone(&self.deletes), self.part, file.sequence);
        let (asked, except) = (self.asked.clone(), self.except.clone());
        let stays = move |batch: RecordBatch| {
            let failed = |why: String| ArrowError::ExternalError(why.into());
            let arrays = columns.of(&batch).map_err(failed)?;
            let cells = |range: std::ops::Range<usize>| {
                KeyCells::new(&arrays[range]).ok_or_else(|| failed("a compared column cannot be a key".to_owned()))
            };
            let mut stays = vec![true; batch.num_rows()];
            if by_key {
                let mut key = cells(0..key_width)?;
                for (row, stays) in stays.iter_mut().enumerate() {
                    let hash = key.hash(row);
                    *stays = hash.bucket(part.of) == part.bucket
                        && asked.as_ref().is_none_or(|asked| asked.place(hash).is_some())
                        && except.as_ref().is_none_or(|except| except.place(hash).is_none())
                        && !of_key.iter().any(|set| index.keys[*set].hits(hash.0, sequence));
                }
            }
            for (set, range) in &others {
                let mut compared = cells(range.clone())?;
                for (row, stays) in stays.iter_mut().enumerate().filter(|(_, stays)| **stays) {
                    *stays = !index.keys[*set].hits(compared.hash(row).0, sequence);
                }
            }
            Ok(BooleanArray::from(stays))
        };
        Ok(Some(RowFilter::new(vec![Box::new(ArrowPredicateFn::new(mask, stays))])))
    }
}

/// So many rows of a file make a batch of a bounded size, be they those of the page with the largest values.
fn bounded_rows(file: &ParquetMetaData, columns: &ProjectionMask) -> usize {
    let mut largest = 1;
    for (at, group) in file.row_groups().iter().enumerate() {
        let mut row = 0;
        for (leaf, chunk) in group.columns().iter().enumerate().filter(|(leaf, _)| columns.leaf_included(*leaf)) {
            let rows = u64::try_from(group.num_rows()).unwrap_or(0).max(1);
            let bytes = chunk.unencoded_byte_array_data_bytes().unwrap_or_else(|| chunk.uncompressed_size());
            // In memory a value takes as much as that, though many of a list may be told in a few bytes.
            let bytes = bytes.max(chunk.num_values().saturating_mul(VALUE_BYTES));
            let average = u64::try_from(bytes).unwrap_or(0) / rows;
            row += page_average(file, at, leaf, rows).unwrap_or(0).max(average);
        }
        largest = row.max(largest);
    }
    usize::try_from(BATCH_BYTES / largest).unwrap_or(BATCH_ROWS).clamp(1, BATCH_ROWS)
}

/// Bytes of a value on average, in the page of a column where that is the most.
fn page_average(file: &ParquetMetaData, group: usize, leaf: usize, rows: u64) -> Option<u64> {
    let index = file.offset_index()?.get(group)?.get(leaf)?;
    let bytes = index.unencoded_byte_array_data_bytes()?.iter();
    let first = index.page_locations().iter().map(|page| u64::try_from(page.first_row_index).unwrap_or(0));
    let ends = first.clone().skip(1).chain([rows]);
    first
        .zip(ends)
        .zip(bytes)
        .map(|((first, end), bytes)| u64::try_from(*bytes).unwrap_or(0) / end.saturating_sub(first).max(1))
        .max()
}

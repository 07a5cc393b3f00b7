//! Reading data files: a file's columns, less the rows that are deleted or belong to another part of the keys.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::ArrowError;
use calve_core::{Result, TableName};
use parquet::arrow::arrow_reader::{ArrowPredicateFn, RowFilter};

use super::columns::{FileColumns, TableColumn};
use super::deletes::{Part, SharedIndex, open, unreadable};
use super::keys::KeyCells;
use super::plan::PlannedFile;

/// Rows of one batch.
const BATCH_ROWS: usize = 4 * 1024;

/// What is read of every file.
pub(crate) struct Scan {
    pub(crate) table: TableName,
    /// The columns wanted.
    pub(crate) columns: Vec<TableColumn>,
    /// The key's, in its order.
    pub(crate) key: Vec<TableColumn>,
    pub(crate) part: Part,
    pub(crate) deletes: SharedIndex,
}

impl Scan {
    /// Hands the rows of a file to `work`, batch by batch, until it returns false.
    pub(crate) fn file(&self, file: &PlannedFile, mut work: impl FnMut(Vec<ArrayRef>) -> bool) -> Result<()> {
        let bad = |why: &str| unreadable(&self.table, file, why);
        let mut reader = open(&self.table, file)?.with_batch_size(BATCH_ROWS);
        let columns = FileColumns::find(reader.parquet_schema(), &self.columns).map_err(|why| bad(&why))?;
        let rows = usize::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0);
        if let Some(remaining) = self.deletes.remaining(&file.location, rows) {
            reader = reader.with_row_selection(remaining);
        }
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
        Ok(())
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
        let by_key = self.part.of > 1 || sets.iter().any(|set| self.deletes.keys[*set].of_key);
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

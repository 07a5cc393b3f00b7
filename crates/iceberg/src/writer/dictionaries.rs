//! Which columns are written without a dictionary, by what became of the ones before.
//!
//! A dictionary that outgrows its page is given up in the middle of a column: what went into it until then costs more time
//! than encoding and compressing the values as they are. So a column that had such a one goes without for a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::{Field, SchemaRef as ArrowSchemaRef};
use parquet::basic::{Encoding, PageType};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use super::metrics::field_id;
use crate::schema::leaves;

/// Files that a column goes without.
const FILES_WITHOUT: u8 = 31;

/// What is known of the columns of one table.
#[derive(Debug, Default)]
pub(crate) struct Dictionaries {
    /// By field id: how many files more are written without.
    without: Mutex<HashMap<i32, u8>>,
}

impl Dictionaries {
    /// Whether the column has a dictionary in the file that begins.
    pub(super) fn are_tried(&self, column: &Field) -> bool {
        let mut without = self.without.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(left) = field_id(column).and_then(|id| without.get_mut(&id)) else { return true };
        let tried = *left == 0;
        *left = left.saturating_sub(1);
        tried
    }

    /// Looks at the columns of a file that was written.
    pub(super) fn learn(&self, columns: &ArrowSchemaRef, groups: &[RowGroupMetaData]) {
        let mut without = self.without.lock().unwrap_or_else(PoisonError::into_inner);
        // Parquet's columns are what is inside of those that have parts.
        let inside = columns.fields().iter().flat_map(|column| {
            let parts = leaves(column.data_type());
            if parts.is_empty() { vec![Arc::clone(column)] } else { parts.to_vec() }
        });
        for (index, column) in inside.enumerate() {
            let mut chunks = groups.iter().filter_map(|group| group.columns().get(index));
            if chunks.any(has_outgrown)
                && let Some(id) = field_id(&column)
            {
                without.insert(id, FILES_WITHOUT);
            }
        }
    }
}

/// Whether values were written without the chunk's dictionary.
fn has_outgrown(chunk: &ColumnChunkMetaData) -> bool {
    let pages = chunk.page_encoding_stats().map_or(&[][..], Vec::as_slice);
    chunk.dictionary_page_offset().is_some()
        && pages.iter().any(|pages| pages.page_type == PageType::DATA_PAGE && pages.encoding == Encoding::PLAIN)
}

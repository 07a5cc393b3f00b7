//! The log of a table: of all changes of a checkpoint each becomes a row, in their order.
//!
//! An update whose row gets another key is two rows, as if the one had gone and the other come: whoever takes the last row of each
//! key has the table. Where nothing tells rows apart an update always says what the row was before.
//!
//! Where the lake gets some of the rows only, a change goes whose images are all of other rows. One that leads from the rows had to
//! others stays, and so does one of which it is not known: without it the log would tell of a row that is none of them any more.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use arrow_select::concat::concat;
use arrow_select::interleave::interleave;
use calve_core::{ColumnBuffer, DeltaBatch, Error, ErrorKind, Excerpt, LogOp, Result, RowBuffer, RowOp, TableSchema};

use crate::fold::{field, key_fields};

/// Where the cells of a row of the log are.
#[derive(Clone, Copy, Debug)]
enum Cells {
    /// In the new images, at this row.
    Image(usize),
    /// In the rows before, at this row.
    Old(usize),
    /// Those of the key in this new image; nothing is known of the others.
    KeyOf(usize),
    /// Nowhere.
    Nothing,
}

/// Every change as a row, as far as the lake gets it.
pub(crate) fn log(buffer: RowBuffer, excerpt: &Excerpt) -> Result<DeltaBatch> {
    let schema = Arc::clone(buffer.schema());
    if !buffer.unchanged().is_empty() {
        let what = format!("an update left values of {} alone, which a log cannot look up", schema.table);
        return Err(Error::new(ErrorKind::Bug, what));
    }
    let (rows, cells) = rows(&schema, &buffer);
    gather(&schema, excerpt, buffer, rows, cells).map_err(|error| match error {
        ArrowError::OffsetOverflowError(_) => {
            let what = format!("a column of {} holds more than 2 GiB; lower checkpoint.bytes", schema.table);
            Error::with_source(ErrorKind::Retry, what, error)
        }
        error => Error::with_source(ErrorKind::Bug, format!("changes of {} make no log", schema.table), error),
    })
}

/// Rows of which Arrow notes the place of every element at a time.
const ROWS_OF_LISTS: usize = 4096;

/// The cells at these places.
fn picked(from: &[&dyn Array], places: &[(usize, usize)]) -> std::result::Result<ArrayRef, ArrowError> {
    let has_parts = from.iter().any(|array| matches!(array.data_type(), DataType::List(_) | DataType::Map(..)));
    if !has_parts || places.len() <= ROWS_OF_LISTS {
        return interleave(from, places);
    }
    let parts = places.chunks(ROWS_OF_LISTS).map(|places| interleave(from, places));
    let parts: Vec<ArrayRef> = parts.collect::<std::result::Result<_, _>>()?;
    concat(&parts.iter().map(|part| &**part).collect::<Vec<_>>())
}

/// The rows of the log: what became of each, which entry it is of, and where its cells are.
fn rows(schema: &TableSchema, buffer: &RowBuffer) -> (Vec<(LogOp, usize)>, Vec<Cells>) {
    let preimages = schema.keeps_preimages();
    let (mut rows, mut cells) = (Vec::with_capacity(buffer.len()), Vec::with_capacity(buffer.len()));
    let (mut image, mut old) = (0, 0);
    let (mut key, mut key_before) = (Vec::new(), Vec::new());
    for (entry, &op) in buffer.ops().iter().enumerate() {
        let mut row = |op: LogOp, at: Cells| {
            rows.push((op, entry));
            cells.push(at);
        };
        match op {
            RowOp::Insert => row(LogOp::Insert, Cells::Image(image)),
            RowOp::Update => {
                if preimages {
                    row(LogOp::UpdatePreimage, Cells::KeyOf(image));
                }
                row(LogOp::Update, Cells::Image(image));
            }
            RowOp::UpdateFrom => {
                key.clear();
                key_before.clear();
                buffer.encode_image_key(image, &mut key);
                buffer.encode_old_key(old, &mut key_before);
                if key == key_before {
                    if preimages {
                        row(LogOp::UpdatePreimage, Cells::Old(old));
                    }
                    row(LogOp::Update, Cells::Image(image));
                } else {
                    row(LogOp::Delete, Cells::Old(old));
                    row(LogOp::Insert, Cells::Image(image));
                }
            }
            RowOp::Delete => row(LogOp::Delete, Cells::Old(old)),
            RowOp::Truncate => row(LogOp::Truncate, Cells::Nothing),
            RowOp::Retire => unreachable!("a buffer refuses such rows of a log"),
        }
        image += usize::from(op.has_image());
        old += usize::from(op.has_old_key());
    }
    (rows, cells)
}

fn gather(
    schema: &Arc<TableSchema>,
    excerpt: &Excerpt,
    buffer: RowBuffer,
    mut rows: Vec<(LogOp, usize)>,
    mut cells: Vec<Cells>,
) -> std::result::Result<DeltaBatch, ArrowError> {
    let (entries, old_in_part) = (buffer.log().clone(), buffer.is_old_in_part());
    let (ops, images, old) = buffer.into_parts();
    let arrays = |columns: Vec<ColumnBuffer>| {
        excerpt.columns(columns.into_iter().map(ColumnBuffer::into_array).collect::<Vec<ArrayRef>>())
    };
    let (images, old) = (arrays(images), arrays(old));
    if let Some(had) = had(schema, excerpt, &ops, &images, &old, old_in_part) {
        cells = cells.into_iter().zip(&rows).filter(|(_, (_, entry))| had[*entry]).map(|(at, _)| at).collect();
        rows.retain(|(_, entry)| had[*entry]);
    }
    let added = TableSchema::logged_cells(&entries, &rows);
    // Where every row is a new image, and every image a row, there is nothing to pick.
    let are_images = cells.len() == images[0].len() && cells.iter().all(|at| matches!(at, Cells::Image(_)));
    let column = |(index, (image, old)): (usize, (ArrayRef, ArrayRef))| {
        if are_images {
            return Ok(image);
        }
        let nothing = new_null_array(image.data_type(), 1);
        let in_key = schema.key.contains(&index);
        let places: Vec<(usize, usize)> = cells
            .iter()
            .map(|at| match *at {
                Cells::Image(row) => (0, row),
                Cells::KeyOf(row) if in_key => (0, row),
                Cells::Old(row) => (1, row),
                Cells::KeyOf(_) | Cells::Nothing => (2, 0),
            })
            .collect();
        picked(&[&*image, &*old, &*nothing], &places)
    };
    let columns = schema.kept_places().into_iter().zip(images.into_iter().zip(old)).map(column);
    let mut columns = excerpt.masked(columns.collect::<std::result::Result<_, _>>()?);
    columns.extend(added);
    let fields: Vec<Field> = schema.in_lake().columns.iter().map(field).collect();
    Ok(DeltaBatch {
        schema: Arc::clone(schema),
        replace: false,
        rows: RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?,
        incomplete: None,
        deletes: RecordBatch::new_empty(Arc::new(key_fields(schema))),
        retire: None,
    })
}

/// Which of the entries are had; None: all.
fn had(
    schema: &TableSchema,
    excerpt: &Excerpt,
    ops: &[RowOp],
    images: &[ArrayRef],
    old: &[ArrayRef],
    old_in_part: bool,
) -> Option<Vec<bool>> {
    let filter = excerpt.filter()?;
    let (now, whole) = (filter.selects(images), schema.kept());
    let unsent = |(at, column): (usize, &ArrayRef)| {
        let may_lack = old_in_part && !whole.key.contains(&at) && column.null_count() > 0;
        may_lack.then(|| BooleanBuffer::collect_bool(column.len(), |row| column.is_null(row)))
    };
    let before = filter.may_select(old, &old.iter().enumerate().map(unsent).collect::<Vec<_>>());
    let (mut now, mut before) = (now.iter(), before.iter());
    let entry = |op: &RowOp| {
        let now = op.has_image().then(|| now.next()).flatten();
        let before = op.has_old_key().then(|| before.next()).flatten();
        match op {
            RowOp::Truncate | RowOp::Update => true,
            RowOp::Insert | RowOp::UpdateFrom | RowOp::Delete | RowOp::Retire => {
                now == Some(true) || before == Some(true)
            }
        }
    };
    Some(ops.iter().map(entry).collect())
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;

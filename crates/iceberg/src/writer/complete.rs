//! Rows that lack cells, put together with what the table has of them.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, UInt32Array};
use arrow_schema::ArrowError;
use arrow_select::filter::filter;
use arrow_select::interleave::interleave;
use arrow_select::take::take;
use calve_core::{CheckpointId, Error, ErrorKind, IncompleteRows, Result};

use crate::lake::{IcebergLake, KnownTable, TableSlot};
use crate::stamp;

/// The rows of these places, as far as they are put, and how many these are. `found` has one array for each column that some row lacks,
/// with a cell for each of the places.
pub(super) fn completed(
    rows: &IncompleteRows,
    places: &[u32],
    found: &[ArrayRef],
) -> std::result::Result<(Vec<ArrayRef>, usize), ArrowError> {
    let columns = whole(rows, places, found)?;
    let Some(selected) = rows.filter.as_ref().map(|filter| filter.selects(&columns)) else {
        return Ok((columns, places.len()));
    };
    let (count, selected) = (selected.count_set_bits(), BooleanArray::new(selected, None));
    let columns = columns.iter().map(|column| filter(column, &selected)).collect::<std::result::Result<_, _>>()?;
    Ok((columns, count))
}

fn whole(rows: &IncompleteRows, places: &[u32], found: &[ArrayRef]) -> std::result::Result<Vec<ArrayRef>, ArrowError> {
    let own = UInt32Array::from(places.to_vec());
    let mut found = found.iter();
    let columns = rows.rows.columns().iter().zip(&rows.missing);
    columns
        .map(|(column, missing)| {
            let Some((missing, found)) = missing.as_ref().and_then(|missing| Some((missing, found.next()?))) else {
                return take(column, &own, None);
            };
            let lacks = |place: &u32| missing.value(*place as usize);
            if places.iter().all(lacks) {
                return Ok(Arc::clone(found));
            }
            let cell = |(at, place): (usize, &u32)| if lacks(place) { (1, at) } else { (0, *place as usize) };
            let cells: Vec<_> = places.iter().enumerate().map(cell).collect();
            interleave(&[&**column, &**found], &cells)
        })
        .collect()
}

impl IcebergLake {
    /// The table, if its last data commit is this one.
    pub(super) async fn standing_at(&self, slot: &TableSlot, base: Option<CheckpointId>) -> Result<Arc<KnownTable>> {
        let stands = |known: &KnownTable| {
            let recorded = known.marks.stamp.as_ref();
            recorded.map(|stamp| stamp.checkpoint) == base && !stamp::rolled_back(&known.at.metadata, recorded)
        };
        if let Some(known) = slot.known().filter(|known| stands(known)) {
            return Ok(known);
        }
        self.read(slot).await?.filter(|known| stands(known)).ok_or_else(|| moved(slot))
    }

    /// What failed on a table as it was. Files of a table that went on meanwhile may be gone, which is nobody's fault.
    pub(super) async fn unless_moved(&self, slot: &TableSlot, known: &KnownTable, error: Error) -> Error {
        if error.kind() != ErrorKind::Corrupt {
            return error;
        }
        match self.read(slot).await {
            Ok(Some(now)) if now.at.location == known.at.location => error,
            Ok(_) => moved(slot),
            Err(unread) => unread,
        }
    }
}

fn moved(slot: &TableSlot) -> Error {
    Error::new(
        ErrorKind::Retry,
        format!("table {} was committed to by another process while values were looked up in it", slot.ident),
    )
}

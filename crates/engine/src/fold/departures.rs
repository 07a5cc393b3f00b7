//! When rows went that their table keeps as deleted.

use calve_core::{RowBuffer, RowOp, TableSchema};

/// What went of a buffer's images, and when, microseconds since 1970-01-01 UTC.
pub(super) struct Departures {
    /// Images that are of rows as they were when they went, ascending.
    rows: Vec<(u32, i64)>,
    /// Where all rows went: how many images there were until then.
    all: Vec<(u32, i64)>,
}

impl Departures {
    /// None where the table keeps no rows that went. With `all_stay` not even those stay that all went at once.
    pub(super) fn of(buffer: &RowBuffer, all_stay: bool) -> Option<Self> {
        if !buffer.schema().retires_rows() {
            return None;
        }
        let (mut rows, mut all, mut image) = (Vec::new(), Vec::new(), 0);
        for (entry, op) in buffer.ops().iter().enumerate() {
            match op {
                RowOp::Retire => rows.push((image, buffer.log().committed_at(entry))),
                RowOp::Truncate if all_stay => all.push((image, buffer.log().committed_at(entry))),
                _ => {}
            }
            image += u32::from(op.has_image());
        }
        Some(Self { rows, all })
    }

    /// When the rows went that the table held before all of this; None where they did not go all at once.
    pub(super) fn of_table(&self) -> Option<i64> {
        self.all.first().map(|(_, at)| *at)
    }

    /// When the row went whose last image this is; None where it is there.
    fn of_image(&self, image: u32) -> Option<i64> {
        if let Ok(found) = self.rows.binary_search_by_key(&image, |(image, _)| *image) {
            return Some(self.rows[found].1);
        }
        let next = self.all.partition_point(|(images, _)| *images <= image);
        self.all.get(next).map(|(_, at)| *at)
    }

    /// The column that says so of rows with these last images.
    pub(super) fn cells(&self, images: impl IntoIterator<Item = u32>) -> arrow_array::ArrayRef {
        TableSchema::deleted_cells(images.into_iter().map(|image| self.of_image(image)))
    }
}

//! Where the value is of a cell that an update left alone: in an earlier image of its row, or in the table.
//!
//! A row is followed through its updates, from key to key. Nothing is kept of buffers without such cells.

use std::collections::BTreeSet;

use arrow_buffer::BooleanBuffer;
use calve_core::{RowBuffer, Unchanged};

/// Where the key stands that a row has in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyAt {
    /// In the old keys, at this row.
    OldKey(u32),
    /// In the new images, at this row.
    Image(u32),
}

/// What an image was made from.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// No row: it was inserted, or none can have been there.
    Nothing,
    /// An earlier image.
    Image(u32),
    /// The row that has this key in the table.
    Table(KeyAt),
}

/// Where a value is.
#[derive(Clone, Copy, Debug)]
enum Source {
    Image(u32),
    Table(KeyAt),
}

/// What each image was made from; None where nobody needs to know.
pub(super) struct Lineage(Option<Vec<Origin>>);

impl Lineage {
    pub(super) fn of(buffer: &RowBuffer) -> Self {
        Self((!buffer.unchanged().is_empty()).then(|| Vec::with_capacity(buffer.len())))
    }

    /// The next image is a new row's.
    pub(super) fn inserted(&mut self) {
        self.push(Origin::Nothing);
    }

    /// The next image is that of a row which had the image `before`; without one it was in the table, or nowhere.
    pub(super) fn updated(&mut self, before: Option<u32>, is_in_table: bool, key: KeyAt) {
        self.push(match before {
            Some(image) => Origin::Image(image),
            None if is_in_table => Origin::Table(key),
            None => Origin::Nothing,
        });
    }

    fn push(&mut self, origin: Origin) {
        if let Some(origins) = &mut self.0 {
            origins.push(origin);
        }
    }

    /// Finds the value of each cell. None where a row left one alone that cannot have had it.
    pub(super) fn resolve(self, cells: &[Unchanged]) -> Option<Resolved> {
        let mut resolved = Resolved { cells: Vec::with_capacity(cells.len()), columns: BTreeSet::new() };
        let origins = self.0.unwrap_or_default();
        for cell in cells {
            let image = u32::try_from(cell.image).ok()?;
            let source = match *origins.get(cell.image)? {
                Origin::Nothing => return None,
                Origin::Table(key) => Source::Table(key),
                // Cells come in the order of images, so that of an earlier one is resolved.
                Origin::Image(before) => resolved.source(before, cell.column).unwrap_or(Source::Image(before)),
            };
            resolved.cells.push((image, cell.column, source));
            resolved.columns.insert(cell.column);
        }
        Some(resolved)
    }
}

/// Where the values are of all cells that were left alone.
pub(super) struct Resolved {
    /// Image and column of each, ascending.
    cells: Vec<(u32, usize, Source)>,
    /// The columns of all.
    columns: BTreeSet<usize>,
}

impl Resolved {
    pub(super) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    fn source(&self, image: u32, column: usize) -> Option<Source> {
        let found = self.cells.binary_search_by_key(&(image, column), |(image, column, _)| (*image, *column)).ok()?;
        Some(self.cells[found].2)
    }

    fn of(&self, image: u32) -> impl Iterator<Item = Source> {
        let first = self.cells.partition_point(|(other, ..)| *other < image);
        self.cells[first..].iter().take_while(move |(other, ..)| *other == image).map(|(.., source)| *source)
    }

    /// The key by which the table has what an image lacks.
    pub(super) fn key_in_table(&self, image: u32) -> Option<KeyAt> {
        self.of(image).find_map(|source| match source {
            Source::Table(key) => Some(key),
            Source::Image(_) => None,
        })
    }

    /// Whether the table alone has a value of this image.
    pub(super) fn lacks(&self, image: u32) -> bool {
        self.key_in_table(image).is_some()
    }

    /// For each of these images the one that has its cell of a column; itself where none does. None where each has its own.
    pub(super) fn images_of(&self, images: &[u32], column: usize) -> Option<Vec<u32>> {
        if !self.columns.contains(&column) {
            return None;
        }
        let image_of = |image: &u32| match self.source(*image, column) {
            Some(Source::Image(before)) => before,
            Some(Source::Table(_)) | None => *image,
        };
        Some(images.iter().map(image_of).collect())
    }

    /// Which of these images lack a cell of a column; None where none does.
    pub(super) fn missing(&self, images: &[u32], column: usize) -> Option<BooleanBuffer> {
        if !self.columns.contains(&column) {
            return None;
        }
        let lacks = |at: usize| matches!(self.source(images[at], column), Some(Source::Table(_)));
        let missing = BooleanBuffer::collect_bool(images.len(), lacks);
        (missing.count_set_bits() > 0).then_some(missing)
    }
}

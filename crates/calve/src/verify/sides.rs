//! The shapes of both sides: the source's rows, and what of them the lake has.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;
use calve_core::{ColumnBuffer, Error, ErrorKind, Excerpt, Result, TableSchema, Unchanged, ValueRules};

/// A table that is compared.
pub(super) struct Sides {
    pub(super) source: Arc<TableSchema>,
    /// Without what the lake does not get, and what it alone has.
    pub(super) lake: Arc<TableSchema>,
    excerpt: Excerpt,
}

impl Sides {
    pub(super) fn new(source: Arc<TableSchema>, rules: &ValueRules) -> Result<Self> {
        let excerpt = Excerpt::of(&source, rules)?;
        let lake = Arc::new(source.kept().into_owned());
        Ok(Self { source, lake, excerpt })
    }

    /// What the lake gets of these rows.
    pub(super) fn excerpt(&self, images: Vec<ColumnBuffer>) -> Result<Vec<ArrayRef>> {
        let table = &self.source.table;
        let bug = |error| Error::with_source(ErrorKind::Bug, format!("rows of {table} could not be chosen"), error);
        self.excerpt.rows(arrays(images), Vec::new()).map_err(bug)
    }

    /// All of these rows as the lake would have them, and which of them it gets; None: each. Cells that are `unchanged` may decide.
    pub(super) fn all(&self, images: Vec<ColumnBuffer>, unchanged: &[Unchanged]) -> (Vec<ArrayRef>, Option<Chosen>) {
        let (width, rows) = (images.len(), images.first().map_or(0, ColumnBuffer::len));
        let columns = self.excerpt.columns(arrays(images));
        let chosen = self.excerpt.filter().map(|filter| {
            let missing = |column: usize| {
                let of_column: BTreeSet<usize> =
                    unchanged.iter().filter(|cell| cell.column == column).map(|cell| cell.image).collect();
                (!of_column.is_empty()).then(|| BooleanBuffer::collect_bool(rows, |row| of_column.contains(&row)))
            };
            let missing = self.excerpt.columns((0..width).map(missing).collect());
            Chosen {
                by_what_is_there: filter.selects(&columns),
                perhaps: filter.may_select_unchanged(&columns, &missing),
            }
        });
        (self.excerpt.masked(columns), chosen)
    }
}

/// Which rows the lake gets.
pub(super) struct Chosen {
    by_what_is_there: BooleanBuffer,
    perhaps: BooleanBuffer,
}

impl Chosen {
    /// Whether the lake gets the row; None where that hangs on what is not known of it.
    pub(super) fn has(&self, row: usize) -> Option<bool> {
        match (self.perhaps.value(row), self.by_what_is_there.value(row)) {
            (false, _) => Some(false),
            (true, true) => Some(true),
            (true, false) => None,
        }
    }
}

fn arrays(columns: Vec<ColumnBuffer>) -> Vec<ArrayRef> {
    columns.into_iter().map(ColumnBuffer::into_array).collect()
}

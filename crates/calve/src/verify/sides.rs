//! The shapes of both sides: the source's rows, and what of them the lake has.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;
use calve_core::{ColumnBuffer, Error, ErrorKind, Excerpt, Result, TableSchema, ValueRules};

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

    /// All of these rows as the lake would have them, and which of them it gets; None: each.
    pub(super) fn all(&self, images: Vec<ColumnBuffer>) -> (Vec<ArrayRef>, Option<BooleanBuffer>) {
        let columns = self.excerpt.columns(arrays(images));
        let chosen = self.excerpt.selects(&columns);
        (self.excerpt.masked(columns), chosen)
    }
}

fn arrays(columns: Vec<ColumnBuffer>) -> Vec<ArrayRef> {
    columns.into_iter().map(ColumnBuffer::into_array).collect()
}

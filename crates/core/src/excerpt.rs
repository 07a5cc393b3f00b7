//! What the lake gets of a table's rows: which columns, which of these as digests, and which rows.
//!
//! A table's schema says all of it ([`Column::usage`](crate::Column), [`TableSchema::filter`]), as it was when the table was read;
//! only the salt of digests comes from the configuration. Decoders pass over what is left out; what they append otherwise becomes
//! an excerpt where rows become columns to be written, so that loads, the log and comparisons cannot differ.

mod mask;
mod rules;
mod selection;

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray};
use arrow_buffer::BooleanBuffer;
use arrow_schema::ArrowError;
use arrow_select::filter::filter;
use serde::{Deserialize, Serialize};

use crate::{Column, ColumnBuffer, Error, ErrorKind, Result, RowBuffer, RowFilter, TableSchema, ValueRules};

pub use mask::MaskKey;
pub use selection::{ColumnPattern, ColumnSelection};

/// What the lake gets of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnUse {
    /// Its values.
    #[default]
    Values,
    /// Nothing: the lake does not have the column, and no value of it is read.
    LeftOut,
    /// Digests of its values, which are texts, under the salt of this [fingerprint](MaskKey::fingerprint).
    Masked(String),
}

impl ColumnUse {
    /// Whether the lake has the values as they are.
    pub fn is_values(&self) -> bool {
        *self == Self::Values
    }

    /// Whether the lake has nothing of the column.
    pub fn is_left_out(&self) -> bool {
        *self == Self::LeftOut
    }
}

impl TableSchema {
    /// The schema without the columns that are left out.
    pub fn kept(&self) -> Cow<'_, Self> {
        if !self.columns.iter().any(|column| column.usage.is_left_out()) {
            return Cow::Borrowed(self);
        }
        let places = self.kept_places();
        let columns = places.iter().map(|&at| self.columns[at].clone()).collect();
        let place = |key: &usize| places.iter().position(|at| at == key);
        Cow::Owned(Self { columns, key: self.key.iter().filter_map(place).collect(), ..self.clone() })
    }

    /// Where the columns stand among `columns` that are not left out.
    pub fn kept_places(&self) -> Vec<usize> {
        let kept = |(at, column): (usize, &Column)| (!column.usage.is_left_out()).then_some(at);
        self.columns.iter().enumerate().filter_map(kept).collect()
    }
}

/// How rows of one schema become what the lake gets of them.
#[derive(Clone, Debug)]
pub struct Excerpt {
    /// Places among the schema's columns.
    kept: Vec<usize>,
    /// Whether these are all.
    whole: bool,
    /// Places among those kept.
    masked: Vec<usize>,
    mask: Option<MaskKey>,
    filter: Option<RowFilter>,
}

impl Excerpt {
    /// As the schema says, with the salt that the rules have for its table.
    ///
    /// # Errors
    /// Of kind [`ErrorKind::Config`]: there is no salt, or another than the table's digests were made with; or the rows are chosen by a
    /// condition that does not fit the columns.
    pub fn of(schema: &TableSchema, rules: &ValueRules) -> Result<Self> {
        let kept = schema.kept_places();
        let rules = rules.table(&schema.table);
        let mut masked = Vec::new();
        for (place, &at) in kept.iter().enumerate() {
            if let ColumnUse::Masked(fingerprint) = &schema.columns[at].usage {
                rules::check_salt(schema, &schema.columns[at], fingerprint, rules.mask.as_ref())?;
                masked.push(place);
            }
        }
        let filter = RowFilter::of(schema).map_err(|what| {
            let message = format!("the rows of table {} cannot be chosen by its 'where': {what}", schema.table);
            Error::new(ErrorKind::Config, message)
        })?;
        Ok(Self { whole: kept.len() == schema.columns.len(), kept, masked, mask: rules.mask, filter })
    }

    /// Of the schema's columns those that are kept.
    pub fn columns<T: Clone>(&self, all: Vec<T>) -> Vec<T> {
        if self.whole {
            return all;
        }
        self.kept.iter().map(|&at| all[at].clone()).collect()
    }

    /// Which rows are had, and where they are chosen.
    pub fn filter(&self) -> Option<&RowFilter> {
        self.filter.as_ref()
    }

    /// Which rows of these columns are had; None: all. The columns are those kept.
    pub fn selects(&self, columns: &[ArrayRef]) -> Option<BooleanBuffer> {
        self.filter.as_ref().map(|filter| filter.selects(columns))
    }

    /// Those of the kept columns, with digests where there shall be such.
    pub fn masked(&self, mut columns: Vec<ArrayRef>) -> Vec<ArrayRef> {
        if let Some(mask) = &self.mask {
            for &place in &self.masked {
                columns[place] = mask.digests(&columns[place]);
            }
        }
        columns
    }

    /// What the lake gets of rows, of which `all` are the schema's columns, and `added` columns that it has after these.
    ///
    /// # Errors
    /// Arrow's.
    pub fn rows(&self, all: Vec<ArrayRef>, added: Vec<ArrayRef>) -> std::result::Result<Vec<ArrayRef>, ArrowError> {
        let mut columns = self.columns(all);
        let selected = self.selects(&columns);
        columns.extend(added);
        if let Some(selected) = selected {
            columns = selected_rows(columns, &selected)?;
        }
        Ok(self.masked(columns))
    }

    /// What the lake gets of a load's buffer, every entry of which is an insert: one array for each column that the schema has [in the
    /// lake](TableSchema::in_lake), and how many rows that are.
    ///
    /// # Errors
    /// Of kind [`ErrorKind::Bug`], where Arrow cannot choose the rows.
    pub fn loaded(&self, rows: RowBuffer) -> Result<(Vec<ArrayRef>, usize)> {
        let schema = Arc::clone(rows.schema());
        let (ops, images, _) = rows.into_parts();
        let images: Vec<ArrayRef> = images.into_iter().map(ColumnBuffer::into_array).collect();
        let added = schema.loaded_cells(ops.len());
        let columns = self.rows(images, added).map_err(|error| {
            let what = format!("rows of the load of table {} could not be chosen", schema.table);
            Error::with_source(ErrorKind::Bug, what, error)
        })?;
        let count = columns.first().map_or(0, |column| column.len());
        Ok((columns, count))
    }
}

/// Those of the rows.
pub(crate) fn selected_rows(
    columns: Vec<ArrayRef>,
    selected: &BooleanBuffer,
) -> std::result::Result<Vec<ArrayRef>, ArrowError> {
    if selected.count_set_bits() == selected.len() {
        return Ok(columns);
    }
    let selected = BooleanArray::new(selected.clone(), None);
    columns.iter().map(|column| filter(column, &selected)).collect()
}

#[cfg(test)]
mod tests;

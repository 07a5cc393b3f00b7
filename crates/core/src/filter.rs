//! Which rows of a table the lake gets: a condition over its columns, as the configuration writes it.
//!
//! `region = 'eu' and (amount > 10 or note is null)`: columns are compared with literals, by the three-valued logic of SQL, and a
//! row is had where the whole is true. What is written is read by `parse`, meets the columns of a table in `bind`, and is
//! evaluated a column at a time (`evaluate`), always by the same code, so that a load and the log agree whatever the source's own
//! rules of comparison are.

mod bind;
mod evaluate;
mod literal;
mod number;
mod parse;
#[cfg(test)]
mod tests;

use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;

use crate::{Column, TableSchema};

use bind::Bound;
use evaluate::Missing;
pub use parse::Condition;

/// A condition, ready for rows of one table.
#[derive(Clone, Debug)]
pub struct RowFilter(Bound);

impl RowFilter {
    /// The condition that a table's rows are chosen by, for the columns that it has in the lake; None where all are had.
    ///
    /// # Errors
    /// What in the condition does not fit the columns, by name and type.
    pub fn of(schema: &TableSchema) -> Result<Option<Self>, String> {
        let Some(text) = &schema.filter else { return Ok(None) };
        let condition: Condition = text.parse()?;
        condition.bind(&schema.kept().columns).map(Some)
    }

    /// Which rows are had.
    pub fn selects(&self, columns: &[ArrayRef]) -> BooleanBuffer {
        self.0.outcome(columns, Missing::NONE).yes
    }

    /// Which rows are had for some value of the cells that are missing of them, NULL among these: for each column, which rows lack its
    /// cell.
    pub fn may_select(&self, columns: &[ArrayRef], missing: &[Option<BooleanBuffer>]) -> BooleanBuffer {
        self.0.outcome(columns, Missing { cells: missing, may_be_null: true }).yes
    }

    /// The same where the cells are left alone by updates ([`note_unchanged`](crate::RowBuffer::note_unchanged)), which NULL never is.
    pub fn may_select_unchanged(&self, columns: &[ArrayRef], unchanged: &[Option<BooleanBuffer>]) -> BooleanBuffer {
        self.0.outcome(columns, Missing { cells: unchanged, may_be_null: false }).yes
    }
}

impl Condition {
    /// Makes it ready for rows of these columns.
    ///
    /// # Errors
    /// What in it does not fit the columns, by name and type.
    pub fn bind(&self, columns: &[Column]) -> Result<RowFilter, String> {
        Bound::of(self, columns).map(RowFilter)
    }
}

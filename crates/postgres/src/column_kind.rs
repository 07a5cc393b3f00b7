//! How the cells of one column are decoded: single values by `cell`, arrays and what else has parts by these.

use calve_core::{Column, ColumnBuffer, ColumnType};

use crate::cell::{CellError, CellKind};
use crate::{array, hstore, vector};

/// The plan for a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Single(CellKind),
    Array { element: CellKind, delimiter: u8 },
    Hstore,
    Vector,
}

/// Whether the binary form of this column's type is understood. Where it is not, the stream must not be asked for binary
/// cells, and a load must ask for the column's text.
pub(crate) fn binary_safe(column: &Column) -> bool {
    match ColumnKind::plan(column) {
        ColumnKind::Single(kind) | ColumnKind::Array { element: kind, .. } => kind != CellKind::ServerText,
        ColumnKind::Hstore | ColumnKind::Vector => true,
    }
}

impl ColumnKind {
    /// By the column's type in the lake and at the source.
    pub(crate) fn plan(column: &Column) -> Self {
        match (&column.ty, column.native.element) {
            (ColumnType::List(ty), Some(element)) => Self::Array {
                element: CellKind::of(ty, element.id, &[]),
                // Of one byte in the catalog.
                delimiter: u8::try_from(element.delimiter).unwrap_or(b','),
            },
            (ColumnType::List(_), None) => Self::Vector,
            (ColumnType::Map, _) => Self::Hstore,
            (ty, _) => Self::Single(CellKind::of(ty, column.native.id, &column.native.attributes)),
        }
    }

    /// Appends a cell that came as text.
    #[inline]
    pub(crate) fn text(self, bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
        match self {
            Self::Single(kind) => kind.text(bytes, out),
            Self::Array { element, delimiter } => array::push_text(element, delimiter, bytes, out),
            Self::Hstore => hstore::push_text(bytes, out),
            Self::Vector => vector::push_text(bytes, out),
        }
    }

    /// Appends a cell that came in its type's binary form (`typsend`).
    #[inline]
    pub(crate) fn binary(self, bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
        match self {
            Self::Single(kind) => kind.binary(bytes, out),
            Self::Array { element, .. } => array::push_binary(element, bytes, out),
            Self::Hstore => hstore::push_binary(bytes, out),
            Self::Vector => vector::push_binary(bytes, out),
        }
    }

    /// The value nearest to a cell that came as text and cannot be held, as the number that its type counts it by. None where none is,
    /// as for every list.
    pub(crate) fn nearest_of_text(self, bytes: &[u8]) -> Option<i128> {
        match self {
            Self::Single(kind) => kind.nearest_of_text(bytes),
            Self::Array { .. } | Self::Hstore | Self::Vector => None,
        }
    }

    /// As [`nearest_of_text`](Self::nearest_of_text), of a cell in binary form.
    pub(crate) fn nearest_of_binary(self, bytes: &[u8]) -> Option<i128> {
        match self {
            Self::Single(kind) => kind.nearest_of_binary(bytes),
            Self::Array { .. } | Self::Hstore | Self::Vector => None,
        }
    }
}

#[cfg(test)]
#[path = "column_kind_tests.rs"]
mod tests;

//! A condition over rows, a column at a time, by the three-valued logic of SQL.
//!
//! Of every row it is kept which of the three answers are possible: one, where all of its cells are there. A cell that is missing
//! could be anything, or anything but NULL, so that several are; what comes out then holds for whatever the cell is.

use std::cmp::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;

use super::bind::{Bound, Constant};
use super::parse::Comparison;

/// Answers that are possible, a bit a row each.
pub(super) struct Outcome {
    pub(super) yes: BooleanBuffer,
    no: BooleanBuffer,
    /// Neither, because of a NULL.
    unknown: BooleanBuffer,
}

/// Cells that are not there: for each column, which rows lack its cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing<'a> {
    pub(super) cells: &'a [Option<BooleanBuffer>],
    /// They may be NULL, as those may be that a log does not have of a row. Values left alone are none: only large ones are.
    pub(super) may_be_null: bool,
}

impl Missing<'_> {
    pub(super) const NONE: Self = Self { cells: &[], may_be_null: false };
}

impl Bound {
    /// `missing` says of each column which rows lack its cell; what is not said is there.
    ///
    /// # Panics
    /// When the columns are not those that it was bound to.
    pub(super) fn outcome(&self, columns: &[ArrayRef], missing: Missing<'_>) -> Outcome {
        let joined = |all: &[Self], join: fn(Outcome, &Outcome) -> Outcome| {
            let mut outcomes = all.iter().map(|one| one.outcome(columns, missing));
            let first = outcomes.next().expect("a condition joins two or more");
            outcomes.fold(first, |all, one| join(all, &one))
        };
        let missing_of = |at: usize| missing.cells.get(at).and_then(Option::as_ref);
        match self {
            Self::And(all) => joined(all, Outcome::and),
            Self::Or(all) => joined(all, Outcome::or),
            Self::Not(one) => {
                let Outcome { yes, no, unknown } = one.outcome(columns, missing);
                Outcome { yes: no, no: yes, unknown }
            }
            Self::IsNull(at) => {
                let array = &columns[*at];
                let null = BooleanBuffer::collect_bool(array.len(), |row| array.is_null(row));
                let unknown = BooleanBuffer::new_unset(array.len());
                let outcome = Outcome { no: !&null, yes: null, unknown };
                match missing_of(*at) {
                    Some(cells) if !missing.may_be_null => {
                        Outcome { yes: &outcome.yes & &!cells, no: &outcome.no | cells, ..outcome }
                    }
                    cells => outcome.or_missing(cells, false),
                }
            }
            Self::Compare(at, comparison, constant) => {
                let constants = std::slice::from_ref(constant);
                of_values(&columns[*at], constants, *comparison).or_missing(missing_of(*at), missing.may_be_null)
            }
            Self::In(at, constants) => {
                of_values(&columns[*at], constants, Comparison::Equal).or_missing(missing_of(*at), missing.may_be_null)
            }
        }
    }
}

impl Outcome {
    fn and(self, other: &Self) -> Self {
        let unknown = &(&self.unknown & &(&other.yes | &other.unknown)) | &(&self.yes & &other.unknown);
        Self { yes: &self.yes & &other.yes, no: &self.no | &other.no, unknown }
    }

    fn or(self, other: &Self) -> Self {
        let unknown = &(&self.unknown & &(&other.no | &other.unknown)) | &(&self.no & &other.unknown);
        Self { yes: &self.yes | &other.yes, no: &self.no & &other.no, unknown }
    }

    /// Anything is possible where the cell is missing; not that nothing is known, unless it `may_be_unknown`.
    fn or_missing(self, missing: Option<&BooleanBuffer>, may_be_unknown: bool) -> Self {
        let Some(missing) = missing else { return self };
        // Its place holds a NULL.
        let unknown = if may_be_unknown { &self.unknown | missing } else { &self.unknown & &!missing };
        Self { yes: &self.yes | missing, no: &self.no | missing, unknown }
    }
}

/// Whether the comparison holds with one of the constants.
fn of_values(array: &ArrayRef, constants: &[Constant], comparison: Comparison) -> Outcome {
    let holds = comparisons(array, constants, comparison);
    let unknown = BooleanBuffer::collect_bool(array.len(), |row| array.is_null(row));
    let known = !&unknown;
    Outcome { yes: &holds & &known, no: &!&holds & &known, unknown }
}

/// The bits of NULLs mean nothing.
fn comparisons(array: &ArrayRef, constants: &[Constant], comparison: Comparison) -> BooleanBuffer {
    macro_rules! numbers {
        ($ty:ty) => {{
            let values = array.as_primitive::<$ty>().values();
            rows(constants, values.len(), comparison, |constant, row| match constant {
                Constant::Number(point) => point.compared(values[row].into()),
                other => unlike(other, array.data_type()),
            })
        }};
    }
    macro_rules! floats {
        ($ty:ty) => {{
            let values = array.as_primitive::<$ty>().values();
            rows(constants, values.len(), comparison, |constant, row| match constant {
                Constant::Float(number) => floats(values[row].into(), *number),
                other => unlike(other, array.data_type()),
            })
        }};
    }
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean();
            rows(constants, values.len(), comparison, |constant, row| match constant {
                Constant::Boolean(wanted) => values.value(row).cmp(wanted),
                other => unlike(other, array.data_type()),
            })
        }
        DataType::Int32 => numbers!(Int32Type),
        DataType::Date32 => numbers!(Date32Type),
        DataType::Int64 => numbers!(Int64Type),
        DataType::Time64(_) => numbers!(Time64MicrosecondType),
        DataType::Timestamp(..) => numbers!(TimestampMicrosecondType),
        DataType::Decimal128(..) => numbers!(Decimal128Type),
        DataType::Float32 => floats!(Float32Type),
        DataType::Float64 => floats!(Float64Type),
        DataType::Utf8 => {
            let values = array.as_string::<i32>();
            rows(constants, values.len(), comparison, |constant, row| match constant {
                Constant::Text(text) => values.value(row).as_bytes().cmp(text.as_bytes()),
                other => unlike(other, array.data_type()),
            })
        }
        DataType::FixedSizeBinary(_) => {
            let values = array.as_fixed_size_binary();
            rows(constants, values.len(), comparison, |constant, row| match constant {
                Constant::Uuid(uuid) => values.value(row).cmp(&uuid[..]),
                other => unlike(other, array.data_type()),
            })
        }
        other => panic!("a condition was bound to a column of {other}"),
    }
}

fn rows(
    constants: &[Constant],
    len: usize,
    comparison: Comparison,
    compared: impl Fn(&Constant, usize) -> Ordering,
) -> BooleanBuffer {
    match constants {
        [one] => BooleanBuffer::collect_bool(len, |row| comparison.holds(compared(one, row))),
        all => BooleanBuffer::collect_bool(len, |row| all.iter().any(|one| comparison.holds(compared(one, row)))),
    }
}

/// NaN equals itself and is greater than every number, as Postgres has it; the two zeros are one.
fn floats(value: f64, number: f64) -> Ordering {
    value.partial_cmp(&number).unwrap_or_else(|| value.is_nan().cmp(&number.is_nan()))
}

#[cold]
fn unlike(constant: &Constant, ty: &DataType) -> ! {
    panic!("a condition with {constant:?} was bound to a column that is not {ty}")
}

//! Rows of both sides in one canonical form: the bytes of a key, and a digest of the whole row.
//!
//! Source and lake give Arrow columns of the same types, so that equal rows have equal bytes. Floats are compared by their
//! bits, except that every NaN is one: readers and writers may canonicalise it.

use std::borrow::Cow;
use std::hash::Hasher;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, ListArray, MapArray, StringArray};
use calve_core::{Column, ColumnType, Error, ErrorKind, Result, TableSchema};

/// A digest of a whole row. Two different rows share one with a chance of 2^-128 or so.
pub(super) type Digest = u128;

/// Columns of a table, to be read row by row.
pub(super) struct Rows<'a> {
    /// Indexes into `columns`.
    key: Cow<'a, [usize]>,
    columns: Vec<Cells<'a>>,
    len: usize,
    row: Vec<u8>,
}

/// One column's cells, by how their bytes are found.
enum Cells<'a> {
    Boolean(&'a BooleanArray),
    Int32(&'a [i32], &'a dyn Array),
    Int64(&'a [i64], &'a dyn Array),
    Float32(&'a [f32], &'a dyn Array),
    Float64(&'a [f64], &'a dyn Array),
    Decimal(&'a [i128], &'a dyn Array),
    Fixed(&'a FixedSizeBinaryArray),
    Text(&'a StringArray),
    Binary(&'a BinaryArray),
    List(&'a ListArray, Box<Cells<'a>>),
    Map(&'a MapArray, Box<(Cells<'a>, Cells<'a>)>),
}

impl<'a> Rows<'a> {
    /// `arrays` are the schema's columns, in its order.
    pub(super) fn new(schema: &'a TableSchema, arrays: &'a [ArrayRef]) -> Result<Self> {
        Self::of(schema, schema.columns.iter(), arrays, Cow::Borrowed(&schema.key))
    }

    /// `arrays` are the columns of the schema's key, in the key's order.
    pub(super) fn of_keys(schema: &'a TableSchema, arrays: &'a [ArrayRef]) -> Result<Self> {
        Self::of(schema, schema.key_columns(), arrays, Cow::Owned((0..schema.key.len()).collect()))
    }

    fn of(
        schema: &TableSchema,
        expected: impl ExactSizeIterator<Item = &'a Column>,
        arrays: &'a [ArrayRef],
        key: Cow<'a, [usize]>,
    ) -> Result<Self> {
        let unlike = |what: String| {
            Error::new(
                ErrorKind::Bug,
                format!("the columns read of {} are not those of its schema: {what}", schema.table),
            )
        };
        if arrays.len() != expected.len() {
            return Err(unlike(format!("{} instead of {}", arrays.len(), expected.len())));
        }
        let mut columns = Vec::with_capacity(arrays.len());
        for (column, array) in expected.zip(arrays) {
            let cells = Cells::new(&column.ty, array.as_ref());
            let cells = cells.ok_or_else(|| unlike(format!("{} is {} there", column.name, array.data_type())))?;
            columns.push(cells);
        }
        let len = arrays.first().map_or(0, Array::len);
        Ok(Self { key, columns, len, row: Vec::new() })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The bytes of a row's key, in the key's order. Replaces what `out` holds.
    pub(super) fn key(&self, row: usize, out: &mut Vec<u8>) {
        out.clear();
        for &column in self.key.iter() {
            self.columns[column].append(row, out);
        }
    }

    pub(super) fn digest(&mut self, row: usize) -> Digest {
        let mut bytes = std::mem::take(&mut self.row);
        bytes.clear();
        for column in &self.columns {
            column.append(row, &mut bytes);
        }
        let digest = u128::from(hash(1, &bytes)) << 64 | u128::from(hash(2, &bytes));
        self.row = bytes;
        digest
    }
}

/// The place of a key among buckets.
pub(super) fn key_hash(key: &[u8]) -> u64 {
    hash(0, key)
}

fn hash(seed: u8, bytes: &[u8]) -> u64 {
    // Both sides are hashed by the same process, so the algorithm need not be the same tomorrow.
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write_u8(seed);
    hasher.write(bytes);
    hasher.finish()
}

impl<'a> Cells<'a> {
    fn new(ty: &ColumnType, array: &'a dyn Array) -> Option<Self> {
        Some(match ty {
            ColumnType::Boolean => Self::Boolean(array.as_boolean_opt()?),
            ColumnType::Int => Self::Int32(array.as_primitive_opt::<Int32Type>()?.values(), array),
            ColumnType::Date => Self::Int32(array.as_primitive_opt::<Date32Type>()?.values(), array),
            ColumnType::Long => Self::Int64(array.as_primitive_opt::<Int64Type>()?.values(), array),
            ColumnType::Time => Self::Int64(array.as_primitive_opt::<Time64MicrosecondType>()?.values(), array),
            ColumnType::Timestamp | ColumnType::TimestampTz => {
                Self::Int64(array.as_primitive_opt::<TimestampMicrosecondType>()?.values(), array)
            }
            ColumnType::Float => Self::Float32(array.as_primitive_opt::<Float32Type>()?.values(), array),
            ColumnType::Double => Self::Float64(array.as_primitive_opt::<Float64Type>()?.values(), array),
            ColumnType::Decimal { .. } => Self::Decimal(array.as_primitive_opt::<Decimal128Type>()?.values(), array),
            ColumnType::Uuid => Self::Fixed(array.as_fixed_size_binary_opt()?),
            ColumnType::String => Self::Text(array.as_string_opt()?),
            ColumnType::Binary => Self::Binary(array.as_binary_opt()?),
            ColumnType::List(element) => {
                let list = array.as_list_opt()?;
                Self::List(list, Box::new(Self::new(element, list.values().as_ref())?))
            }
            ColumnType::Map => {
                let map = array.as_map_opt()?;
                let part = |part: &'a ArrayRef| Self::new(&ColumnType::String, part.as_ref());
                Self::Map(map, Box::new((part(map.keys())?, part(map.values())?)))
            }
        })
    }

    /// Appends a length and the cell's bytes; for NULL a length that no cell has.
    fn append(&self, row: usize, out: &mut Vec<u8>) {
        if self.array().is_null(row) {
            out.extend_from_slice(&u32::MAX.to_le_bytes());
            return;
        }
        match self {
            Self::Boolean(array) => part(out, &[u8::from(array.value(row))]),
            Self::Int32(values, _) => part(out, &values[row].to_le_bytes()),
            Self::Int64(values, _) => part(out, &values[row].to_le_bytes()),
            Self::Float32(values, _) => {
                let value = if values[row].is_nan() { f32::NAN } else { values[row] };
                part(out, &value.to_bits().to_le_bytes());
            }
            Self::Float64(values, _) => {
                let value = if values[row].is_nan() { f64::NAN } else { values[row] };
                part(out, &value.to_bits().to_le_bytes());
            }
            Self::Decimal(values, _) => part(out, &values[row].to_le_bytes()),
            Self::Fixed(array) => part(out, array.value(row)),
            Self::Text(array) => part(out, array.value(row).as_bytes()),
            Self::Binary(array) => part(out, array.value(row)),
            // How many there are, and each of them.
            Self::List(array, elements) => {
                let places = places(array.value_offsets(), row);
                part(out, &places.len().to_le_bytes());
                places.for_each(|place| elements.append(place, out));
            }
            Self::Map(array, entries) => {
                let places = places(array.value_offsets(), row);
                part(out, &places.len().to_le_bytes());
                for place in places {
                    entries.0.append(place, out);
                    entries.1.append(place, out);
                }
            }
        }
    }

    fn array(&self) -> &dyn Array {
        match self {
            Self::Boolean(array) => array,
            Self::Int32(_, array)
            | Self::Int64(_, array)
            | Self::Float32(_, array)
            | Self::Float64(_, array)
            | Self::Decimal(_, array) => *array,
            Self::Fixed(array) => array,
            Self::Text(array) => array,
            Self::Binary(array) => array,
            Self::List(array, _) => array,
            Self::Map(array, _) => array,
        }
    }
}

/// Where the parts of a list are.
fn places(offsets: &[i32], row: usize) -> std::ops::Range<usize> {
    let place = |at: usize| usize::try_from(offsets[at]).unwrap_or(0);
    place(row)..place(row + 1)
}

fn part(out: &mut Vec<u8>, bytes: &[u8]) {
    // Arrow's 32-bit offsets keep every cell below 2 GiB.
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX - 1);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(bytes);
}

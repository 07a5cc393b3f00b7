//! Keys of rows in Arrow columns, as bytes and as hashes.
//!
//! The bytes are those of `calve_core::encode_key`, and beyond it know NULL, which deletes of other writers may name: in
//! Iceberg a NULL of a delete matches NULL.

use std::cmp::Ordering;
use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::{DataType, TimeUnit};

/// In the place of a part's length; longer than any part can be.
const NULL: u32 = u32::MAX;

/// 128 bits of a key: so many that two keys of one table do not share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyHash(pub(crate) u128);

impl KeyHash {
    /// Of an encoded key.
    pub(crate) fn of(key: &[u8]) -> Self {
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u8(salt);
            hasher.write(key);
            u128::from(hasher.finish())
        };
        Self(half(1) << 64 | half(2))
    }

    /// Which of `of` equal parts of all keys this one belongs to.
    pub(crate) fn bucket(self, of: u32) -> u32 {
        // The upper half; the lower one finds the place in a map.
        let upper = self.0 >> 64;
        u32::try_from(upper % u128::from(of.max(1))).unwrap_or(0)
    }
}

/// A part of a key in the order of its type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Number(i128),
    Bytes(Vec<u8>),
}

/// Hashes what is a hash already.
#[derive(Default)]
pub(crate) struct AsIs(u64);

pub(crate) type BuildAsIs = BuildHasherDefault<AsIs>;

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.0 ^= u64::from_ne_bytes(word);
    }

    fn write_u128(&mut self, hash: u128) {
        self.0 = u64::try_from(hash & u128::from(u64::MAX)).unwrap_or(0);
    }
}

/// The cells that make up the keys of a batch.
pub(crate) struct KeyCells<'a> {
    columns: Vec<Cells<'a>>,
    key: Vec<u8>,
}

enum Cells<'a> {
    Boolean(&'a BooleanArray),
    Int32(&'a dyn Array, &'a [i32]),
    Int64(&'a dyn Array, &'a [i64]),
    Float32(&'a dyn Array, &'a [f32]),
    Float64(&'a dyn Array, &'a [f64]),
    Decimal(&'a dyn Array, &'a [i128]),
    Text(&'a arrow_array::StringArray),
    Bytes(&'a arrow_array::BinaryArray),
    Fixed(&'a arrow_array::FixedSizeBinaryArray),
}

impl<'a> KeyCells<'a> {
    /// The parts of the key, in its order. None where a type cannot be part of a key.
    pub(crate) fn new(columns: &'a [ArrayRef]) -> Option<Self> {
        let columns = columns.iter().map(|column| Cells::of(column.as_ref())).collect::<Option<_>>()?;
        Some(Self { columns, key: Vec::new() })
    }

    /// The encoded key of a row.
    pub(crate) fn key(&mut self, row: usize) -> &[u8] {
        self.key.clear();
        for column in &self.columns {
            column.encode(row, &mut self.key);
        }
        &self.key
    }

    /// A part of it, of the column `at`. None where that is NULL, or has no order that is its identity too.
    pub(crate) fn part(&self, at: usize, row: usize) -> Option<Part> {
        self.columns.get(at)?.part(row)
    }

    /// Which of two keys comes first in the order of their parts.
    pub(crate) fn compare(&self, one: usize, other: usize) -> Ordering {
        let compared = self.columns.iter().map(|column| column.compare(one, other));
        compared.fold(Ordering::Equal, Ordering::then)
    }

    /// Its hash.
    pub(crate) fn hash(&mut self, row: usize) -> KeyHash {
        KeyHash::of(self.key(row))
    }
}

impl<'a> Cells<'a> {
    fn of(array: &'a dyn Array) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Boolean => Self::Boolean(array.as_boolean()),
            DataType::Int32 => Self::Int32(array, array.as_primitive::<Int32Type>().values()),
            DataType::Date32 => Self::Int32(array, array.as_primitive::<Date32Type>().values()),
            DataType::Int64 => Self::Int64(array, array.as_primitive::<Int64Type>().values()),
            DataType::Time64(TimeUnit::Microsecond) => {
                Self::Int64(array, array.as_primitive::<Time64MicrosecondType>().values())
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                Self::Int64(array, array.as_primitive::<TimestampMicrosecondType>().values())
            }
            DataType::Float32 => Self::Float32(array, array.as_primitive::<Float32Type>().values()),
            DataType::Float64 => Self::Float64(array, array.as_primitive::<Float64Type>().values()),
            DataType::Decimal128(..) => Self::Decimal(array, array.as_primitive::<Decimal128Type>().values()),
            DataType::Utf8 => Self::Text(array.as_string()),
            DataType::Binary => Self::Bytes(array.as_binary()),
            DataType::FixedSizeBinary(_) => Self::Fixed(array.as_fixed_size_binary()),
            _ => return None,
        })
    }

    fn array(&self) -> &'a dyn Array {
        match self {
            Self::Boolean(array) => *array,
            Self::Int32(array, _)
            | Self::Int64(array, _)
            | Self::Float32(array, _)
            | Self::Float64(array, _)
            | Self::Decimal(array, _) => *array,
            Self::Text(array) => *array,
            Self::Bytes(array) => *array,
            Self::Fixed(array) => *array,
        }
    }

    fn part(&self, row: usize) -> Option<Part> {
        if row >= self.array().len() || self.array().is_null(row) {
            return None;
        }
        Some(match self {
            Self::Boolean(array) => Part::Number(i128::from(array.value(row))),
            Self::Int32(_, values) => Part::Number(i128::from(values[row])),
            Self::Int64(_, values) => Part::Number(i128::from(values[row])),
            Self::Decimal(_, values) => Part::Number(values[row]),
            Self::Text(array) => Part::Bytes(array.value(row).as_bytes().to_vec()),
            Self::Bytes(array) => Part::Bytes(array.value(row).to_vec()),
            Self::Fixed(array) => Part::Bytes(array.value(row).to_vec()),
            Self::Float32(..) | Self::Float64(..) => return None,
        })
    }

    /// NULL and floats, of which there are none in keys, are all the same.
    fn compare(&self, one: usize, other: usize) -> Ordering {
        match self {
            Self::Boolean(array) => array.value(one).cmp(&array.value(other)),
            Self::Int32(_, values) => values[one].cmp(&values[other]),
            Self::Int64(_, values) => values[one].cmp(&values[other]),
            Self::Decimal(_, values) => values[one].cmp(&values[other]),
            Self::Text(array) => array.value(one).cmp(array.value(other)),
            Self::Bytes(array) => array.value(one).cmp(array.value(other)),
            Self::Fixed(array) => array.value(one).cmp(array.value(other)),
            Self::Float32(..) | Self::Float64(..) => Ordering::Equal,
        }
    }

    fn encode(&self, row: usize, out: &mut Vec<u8>) {
        if self.array().is_null(row) {
            out.extend_from_slice(&NULL.to_le_bytes());
            return;
        }
        match self {
            Self::Boolean(array) => part(out, &[u8::from(array.value(row))]),
            Self::Int32(_, values) => part(out, &values[row].to_le_bytes()),
            Self::Int64(_, values) => part(out, &values[row].to_le_bytes()),
            // All NaN are one value to Iceberg.
            Self::Float32(_, values) if values[row].is_nan() => part(out, &f32::NAN.to_bits().to_le_bytes()),
            Self::Float64(_, values) if values[row].is_nan() => part(out, &f64::NAN.to_bits().to_le_bytes()),
            Self::Float32(_, values) => part(out, &values[row].to_bits().to_le_bytes()),
            Self::Float64(_, values) => part(out, &values[row].to_bits().to_le_bytes()),
            Self::Decimal(_, values) => part(out, &values[row].to_le_bytes()),
            Self::Text(array) => part(out, array.value(row).as_bytes()),
            Self::Bytes(array) => part(out, array.value(row)),
            Self::Fixed(array) => part(out, array.value(row)),
        }
    }
}

fn part(out: &mut Vec<u8>, bytes: &[u8]) {
    // Arrow's 32-bit offsets keep every cell shorter than 2 GiB.
    let len = u32::try_from(bytes.len()).unwrap_or(NULL - 1);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use calve_core::{ColumnBuffer, ColumnType, encode_key};

    use super::*;

    #[test]
    fn keys_are_encoded_as_the_engine_does() {
        let mut columns: Vec<ColumnBuffer> = [
            ColumnType::Boolean,
            ColumnType::Int,
            ColumnType::Long,
            ColumnType::Decimal { precision: 20, scale: 0 },
            ColumnType::String,
            ColumnType::Binary,
            ColumnType::Date,
            ColumnType::Time,
            ColumnType::Timestamp,
            ColumnType::TimestampTz,
            ColumnType::Uuid,
        ]
        .into_iter()
        .map(ColumnBuffer::new)
        .collect();
        for n in [0_i32, 7, -3] {
            for column in &mut columns {
                match column.column_type() {
                    ColumnType::Boolean => column.push_bool(n == 0),
                    ColumnType::Int | ColumnType::Date => column.push_i32(n),
                    ColumnType::Decimal { .. } => column.push_decimal(i128::from(n)),
                    ColumnType::String => column.push_str(&n.to_string()).unwrap(),
                    ColumnType::Binary => column.push_bytes(&n.to_be_bytes()).unwrap(),
                    ColumnType::Uuid => column.push_uuid(i128::from(n).to_be_bytes()),
                    _ => column.push_i64(i64::from(n)),
                }
            }
        }
        let expected: Vec<Vec<u8>> = (0..3)
            .map(|row| {
                let mut key = Vec::new();
                encode_key(columns.iter(), row, &mut key);
                key
            })
            .collect();
        let arrays: Vec<ArrayRef> = columns.into_iter().map(ColumnBuffer::into_array).collect();
        let mut cells = KeyCells::new(&arrays).unwrap();
        for (row, key) in expected.iter().enumerate() {
            assert_eq!(cells.key(row), key);
        }
    }

    #[test]
    fn null_is_no_value() {
        let mut column = ColumnBuffer::new(ColumnType::String);
        column.push_null();
        column.push_str("").unwrap();
        let arrays = [column.into_array()];
        let mut cells = KeyCells::new(&arrays).unwrap();
        let null = cells.key(0).to_vec();
        assert_ne!(null, cells.key(1));
        assert_eq!(null, cells.key(0));
    }

    #[test]
    fn buckets_share_the_keys_evenly() {
        let mut counts = [0; 7];
        for n in 0..7_000_u32 {
            counts[KeyHash::of(&n.to_le_bytes()).bucket(7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}

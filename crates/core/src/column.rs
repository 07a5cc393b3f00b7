//! One column of rows being decoded: values appended cell by cell, rolled back when a row fails, and handed over as an
//! Arrow array without a copy.
//!
//! Arrow's own builders cannot take cells back, which a failed row, an aborted transaction and a stopped table all need.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int32Array, Int64Array, ListArray, MapArray, StringArray, StructArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;

use crate::ColumnType;

/// The variable-length part of a column would pass 2 GiB, or its lists as many elements, which 32-bit offsets cannot address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a column of one buffer would hold more than 2 GiB")]
pub struct BufferFull;

/// The cells of a column, by physical type. Decoders match on this once per cell and push.
///
/// A NULL cell holds a default value here and a zero bit in the validity of its [`ColumnBuffer`].
#[derive(Debug)]
pub enum Values {
    /// [`ColumnType::Boolean`].
    Boolean(BooleanBufferBuilder),
    /// [`ColumnType::Int`] and [`ColumnType::Date`] (days since 1970-01-01).
    Int32(Vec<i32>),
    /// [`ColumnType::Long`], and microseconds of [`ColumnType::Time`], [`ColumnType::Timestamp`], [`ColumnType::TimestampTz`].
    Int64(Vec<i64>),
    /// [`ColumnType::Float`].
    Float32(Vec<f32>),
    /// [`ColumnType::Double`].
    Float64(Vec<f64>),
    /// [`ColumnType::Decimal`], unscaled.
    Decimal(Vec<i128>),
    /// [`ColumnType::Uuid`], 16 bytes a cell.
    Uuid(Vec<u8>),
    /// [`ColumnType::String`] and [`ColumnType::Binary`]: cell i is `data[offsets[i]..offsets[i + 1]]`.
    Bytes {
        /// One more than there are cells; the first is 0.
        offsets: Vec<i32>,
        /// All cells, one after the other.
        data: Vec<u8>,
    },
    /// [`ColumnType::List`]: cell i is the elements from `offsets[i]` to `offsets[i + 1]`.
    List {
        /// One more than there are cells; the first is 0.
        offsets: Vec<i32>,
        /// Those of all cells, one after the other.
        elements: Box<ColumnBuffer>,
    },
    /// [`ColumnType::Map`]: cell i is the entries from `offsets[i]` to `offsets[i + 1]`.
    Map {
        /// One more than there are cells; the first is 0.
        offsets: Vec<i32>,
        /// Those of all cells, one after the other; none is NULL.
        keys: Box<ColumnBuffer>,
        /// One for each key.
        values: Box<ColumnBuffer>,
    },
}

/// A growing column of one [`ColumnType`].
#[derive(Debug)]
pub struct ColumnBuffer {
    ty: ColumnType,
    values: Values,
    /// One bit a cell, 1 = not NULL. Absent until the first NULL.
    validity: Option<BooleanBufferBuilder>,
    len: usize,
}

impl ColumnBuffer {
    /// An empty column.
    pub fn new(ty: ColumnType) -> Self {
        let values = match &ty {
            ColumnType::Boolean => Values::Boolean(BooleanBufferBuilder::new(0)),
            ColumnType::Int | ColumnType::Date => Values::Int32(Vec::new()),
            ColumnType::Long | ColumnType::Time | ColumnType::Timestamp | ColumnType::TimestampTz => {
                Values::Int64(Vec::new())
            }
            ColumnType::Float => Values::Float32(Vec::new()),
            ColumnType::Double => Values::Float64(Vec::new()),
            ColumnType::Decimal { .. } => Values::Decimal(Vec::new()),
            ColumnType::Uuid => Values::Uuid(Vec::new()),
            ColumnType::String | ColumnType::Binary => Values::Bytes { offsets: vec![0], data: Vec::new() },
            ColumnType::List(element) => {
                Values::List { offsets: vec![0], elements: Box::new(Self::new((**element).clone())) }
            }
            ColumnType::Map => {
                let texts = || Box::new(Self::new(ColumnType::String));
                Values::Map { offsets: vec![0], keys: texts(), values: texts() }
            }
        };
        Self { ty, values, validity: None, len: 0 }
    }

    /// The type of the cells.
    pub fn column_type(&self) -> &ColumnType {
        &self.ty
    }

    /// Cells so far.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no cell yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The cells, for reading.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Whether cell `index` is NULL.
    pub fn is_null(&self, index: usize) -> bool {
        self.validity.as_ref().is_some_and(|bits| !bits.get_bit(index))
    }

    /// Bytes of memory that every cell uses, whatever its value; a bit counts as a byte, and those that tell NULL as nothing.
    pub(crate) fn cell_width(&self) -> usize {
        match &self.values {
            Values::Boolean(_) => 1,
            Values::Int32(_) | Values::Float32(_) | Values::Bytes { .. } | Values::List { .. } | Values::Map { .. } => {
                4
            }
            Values::Int64(_) | Values::Float64(_) => 8,
            Values::Decimal(_) | Values::Uuid(_) => 16,
        }
    }

    /// Bytes of memory that the cells use beyond that; None where none ever does.
    pub(crate) fn varying_bytes(&self) -> Option<usize> {
        match &self.values {
            Values::Bytes { data, .. } => Some(data.len()),
            Values::List { elements, .. } => Some(elements.bytes()),
            Values::Map { keys, values, .. } => Some(keys.bytes() + values.bytes()),
            _ => None,
        }
    }

    /// Bytes of memory that all cells use.
    fn bytes(&self) -> usize {
        self.len * self.cell_width() + self.varying_bytes().unwrap_or(0)
    }

    #[inline]
    fn pushed(&mut self) {
        self.len += 1;
        if let Some(bits) = &mut self.validity {
            bits.append(true);
        }
    }

    /// Appends NULL.
    pub fn push_null(&mut self) {
        match &mut self.values {
            Values::Boolean(bits) => bits.append(false),
            Values::Int32(v) => v.push(0),
            Values::Int64(v) => v.push(0),
            Values::Float32(v) => v.push(0.0),
            Values::Float64(v) => v.push(0.0),
            Values::Decimal(v) => v.push(0),
            Values::Uuid(v) => v.extend_from_slice(&[0; 16]),
            Values::Bytes { offsets, .. } | Values::List { offsets, .. } | Values::Map { offsets, .. } => {
                offsets.push(*offsets.last().expect("offsets begin with 0"));
            }
        }
        let len = self.len;
        let bits = self.validity.get_or_insert_with(|| {
            let mut bits = BooleanBufferBuilder::new(len + 1);
            bits.append_n(len, true);
            bits
        });
        bits.append(false);
        self.len += 1;
    }

    /// Appends to a [`ColumnType::Boolean`] column.
    #[inline]
    pub fn push_bool(&mut self, value: bool) {
        let Values::Boolean(bits) = &mut self.values else { self.mismatch("a boolean") };
        bits.append(value);
        self.pushed();
    }

    /// Appends to an [`ColumnType::Int`] or [`ColumnType::Date`] column.
    #[inline]
    pub fn push_i32(&mut self, value: i32) {
        let Values::Int32(v) = &mut self.values else { self.mismatch("a 32-bit integer") };
        v.push(value);
        self.pushed();
    }

    /// Appends to a [`ColumnType::Long`], [`ColumnType::Time`], [`ColumnType::Timestamp`] or [`ColumnType::TimestampTz`] column.
    #[inline]
    pub fn push_i64(&mut self, value: i64) {
        let Values::Int64(v) = &mut self.values else { self.mismatch("a 64-bit integer") };
        v.push(value);
        self.pushed();
    }

    /// Appends to a [`ColumnType::Float`] column.
    #[inline]
    pub fn push_f32(&mut self, value: f32) {
        let Values::Float32(v) = &mut self.values else { self.mismatch("a binary32 float") };
        v.push(value);
        self.pushed();
    }

    /// Appends to a [`ColumnType::Double`] column.
    #[inline]
    pub fn push_f64(&mut self, value: f64) {
        let Values::Float64(v) = &mut self.values else { self.mismatch("a binary64 float") };
        v.push(value);
        self.pushed();
    }

    /// Appends an unscaled value to a [`ColumnType::Decimal`] column; it must fit the column's precision.
    #[inline]
    pub fn push_decimal(&mut self, unscaled: i128) {
        let Values::Decimal(v) = &mut self.values else { self.mismatch("a decimal") };
        v.push(unscaled);
        self.pushed();
    }

    /// Appends a number to a column whose values are numbers, counted as such: days, microseconds, unscaled decimals, 0 and 1 for
    /// truth values. It must be one of the column's type.
    pub fn push_number(&mut self, number: i128) {
        match &mut self.values {
            Values::Boolean(bits) => bits.append(number != 0),
            Values::Int32(v) => v.push(i32::try_from(number).expect("it is one of the column's type")),
            Values::Int64(v) => v.push(i64::try_from(number).expect("it is one of the column's type")),
            Values::Decimal(v) => v.push(number),
            _ => self.mismatch("a number"),
        }
        self.pushed();
    }

    /// Appends to a [`ColumnType::Uuid`] column.
    #[inline]
    pub fn push_uuid(&mut self, value: [u8; 16]) {
        let Values::Uuid(v) = &mut self.values else { self.mismatch("a uuid") };
        v.extend_from_slice(&value);
        self.pushed();
    }

    /// Appends to a [`ColumnType::String`] column.
    #[inline]
    pub fn push_str(&mut self, value: &str) -> Result<(), BufferFull> {
        self.push_pieces(&[value.as_bytes()], &ColumnType::String)
    }

    /// Appends to a [`ColumnType::Binary`] column.
    #[inline]
    pub fn push_bytes(&mut self, value: &[u8]) -> Result<(), BufferFull> {
        self.push_pieces(&[value], &ColumnType::Binary)
    }

    #[inline]
    fn push_pieces(&mut self, pieces: &[&[u8]], expected: &ColumnType) -> Result<(), BufferFull> {
        if self.ty != *expected {
            self.mismatch("text or bytes of the other kind");
        }
        let Values::Bytes { offsets, data } = &mut self.values else { self.mismatch("bytes") };
        let end = data.len() + pieces.iter().map(|p| p.len()).sum::<usize>();
        let end = i32::try_from(end).map_err(|_| BufferFull)?;
        for piece in pieces {
            data.extend_from_slice(piece);
        }
        offsets.push(end);
        self.pushed();
        Ok(())
    }

    /// Appends a list to a [`ColumnType::List`] column: the elements that `append` pushes. None of them stays where it fails.
    ///
    /// # Errors
    /// Those of `append`, and [`BufferFull`].
    pub fn push_list<E: From<BufferFull>>(&mut self, append: impl FnOnce(&mut Self) -> Result<(), E>) -> Result<(), E> {
        let Values::List { offsets, elements } = &mut self.values else { self.mismatch("a list") };
        let before = elements.len;
        match append(elements).and_then(|()| Ok(i32::try_from(elements.len).map_err(|_| BufferFull)?)) {
            Ok(end) => offsets.push(end),
            Err(error) => {
                elements.truncate(before);
                return Err(error);
            }
        }
        self.pushed();
        Ok(())
    }

    /// Appends a map to a [`ColumnType::Map`] column: the keys and the values that `append` pushes, as many of the one as of the
    /// other and no key twice. None of them stays where it fails.
    ///
    /// # Errors
    /// Those of `append`, and [`BufferFull`].
    ///
    /// # Panics
    /// When a key lacks its value, or is NULL: a decoder that does this is wrong.
    pub fn push_map<E: From<BufferFull>>(
        &mut self,
        append: impl FnOnce(&mut Self, &mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let Values::Map { offsets, keys, values } = &mut self.values else { self.mismatch("a map") };
        let before = keys.len;
        match append(keys, values).and_then(|()| Ok(i32::try_from(keys.len).map_err(|_| BufferFull)?)) {
            Ok(end) => offsets.push(end),
            Err(error) => {
                keys.truncate(before);
                values.truncate(before);
                return Err(error);
            }
        }
        assert!(keys.len == values.len && keys.validity.is_none(), "a map was pushed whose keys have not each a value");
        self.pushed();
        Ok(())
    }

    #[cold]
    fn mismatch(&self, pushed: &str) -> ! {
        unreachable!("a decoder pushed {pushed} into a column of {:?}: plans are made from the column's type", self.ty)
    }

    /// Forgets all cells from `len` on.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        match &mut self.values {
            Values::Boolean(bits) => bits.truncate(len),
            Values::Int32(v) => v.truncate(len),
            Values::Int64(v) => v.truncate(len),
            Values::Float32(v) => v.truncate(len),
            Values::Float64(v) => v.truncate(len),
            Values::Decimal(v) => v.truncate(len),
            Values::Uuid(v) => v.truncate(len * 16),
            Values::Bytes { offsets, data } => {
                offsets.truncate(len + 1);
                data.truncate(last_offset(offsets));
            }
            Values::List { offsets, elements } => {
                offsets.truncate(len + 1);
                elements.truncate(last_offset(offsets));
            }
            Values::Map { offsets, keys, values } => {
                offsets.truncate(len + 1);
                keys.truncate(last_offset(offsets));
                values.truncate(last_offset(offsets));
            }
        }
        if let Some(bits) = &mut self.validity {
            bits.truncate(len);
        }
        self.len = len;
    }

    /// Moves the cells from `at` on into a column of their own.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        let mut tail = Self::new(self.ty.clone());
        if at >= self.len {
            return tail;
        }
        tail.len = self.len - at;
        tail.values = match &mut self.values {
            Values::Boolean(bits) => Values::Boolean(tail_of(bits, at)),
            Values::Int32(v) => Values::Int32(v.split_off(at)),
            Values::Int64(v) => Values::Int64(v.split_off(at)),
            Values::Float32(v) => Values::Float32(v.split_off(at)),
            Values::Float64(v) => Values::Float64(v.split_off(at)),
            Values::Decimal(v) => Values::Decimal(v.split_off(at)),
            Values::Uuid(v) => Values::Uuid(v.split_off(at * 16)),
            Values::Bytes { offsets, data } => {
                let (offsets, first) = offsets_from(offsets, at);
                Values::Bytes { offsets, data: data.split_off(first) }
            }
            Values::List { offsets, elements } => {
                let (offsets, first) = offsets_from(offsets, at);
                Values::List { offsets, elements: Box::new(elements.split_off(first)) }
            }
            Values::Map { offsets, keys, values } => {
                let (offsets, first) = offsets_from(offsets, at);
                Values::Map {
                    offsets,
                    keys: Box::new(keys.split_off(first)),
                    values: Box::new(values.split_off(first)),
                }
            }
        };
        tail.validity = self.validity.as_ref().map(|bits| tail_of(bits, at));
        self.truncate(at);
        tail
    }

    /// The cells as an Arrow array of [`ColumnType::arrow_type`], without copying them. The validity is absent where no cell is NULL.
    pub fn into_array(self) -> ArrayRef {
        let nulls = self.validity.map(|mut bits| NullBuffer::new(bits.finish())).filter(|nulls| nulls.null_count() > 0);
        match (self.ty, self.values) {
            (ty, Values::List { offsets, elements }) => {
                let DataType::List(element) = ty.arrow_type() else { unreachable!("a list is a list to Arrow") };
                Arc::new(ListArray::new(element, OffsetBuffer::new(offsets.into()), elements.into_array(), nulls))
            }
            (ty, Values::Map { offsets, keys, values }) => {
                let DataType::Map(entry, _) = ty.arrow_type() else { unreachable!("a map is a map to Arrow") };
                let DataType::Struct(parts) = entry.data_type() else { unreachable!("entries have two parts") };
                let entries = StructArray::new(parts.clone(), vec![keys.into_array(), values.into_array()], None);
                Arc::new(MapArray::new(entry, OffsetBuffer::new(offsets.into()), entries, nulls, false))
            }
            (ColumnType::Boolean, Values::Boolean(mut bits)) => Arc::new(BooleanArray::new(bits.finish(), nulls)),
            (ColumnType::Int, Values::Int32(v)) => Arc::new(Int32Array::new(v.into(), nulls)),
            (ColumnType::Date, Values::Int32(v)) => Arc::new(Date32Array::new(v.into(), nulls)),
            (ColumnType::Long, Values::Int64(v)) => Arc::new(Int64Array::new(v.into(), nulls)),
            (ColumnType::Time, Values::Int64(v)) => Arc::new(Time64MicrosecondArray::new(v.into(), nulls)),
            (ColumnType::Timestamp, Values::Int64(v)) => Arc::new(TimestampMicrosecondArray::new(v.into(), nulls)),
            (ty @ ColumnType::TimestampTz, Values::Int64(v)) => {
                Arc::new(TimestampMicrosecondArray::new(v.into(), nulls).with_data_type(ty.arrow_type()))
            }
            (ColumnType::Float, Values::Float32(v)) => Arc::new(Float32Array::new(v.into(), nulls)),
            (ColumnType::Double, Values::Float64(v)) => Arc::new(Float64Array::new(v.into(), nulls)),
            (ty @ ColumnType::Decimal { .. }, Values::Decimal(v)) => {
                Arc::new(Decimal128Array::new(v.into(), nulls).with_data_type(ty.arrow_type()))
            }
            (ColumnType::Uuid, Values::Uuid(v)) => Arc::new(FixedSizeBinaryArray::new(16, Buffer::from_vec(v), nulls)),
            (ty, Values::Bytes { offsets, data }) => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                let data = Buffer::from_vec(data);
                if ty == ColumnType::String {
                    Arc::new(StringArray::new(offsets, data, nulls))
                } else {
                    Arc::new(BinaryArray::new(offsets, data, nulls))
                }
            }
            (ty, _) => unreachable!("a column of {ty:?} holds values of another type"),
        }
    }
}

/// Where the last cell ends.
fn last_offset(offsets: &[i32]) -> usize {
    usize::try_from(*offsets.last().expect("offsets begin with 0")).expect("offsets are not negative")
}

/// The offsets of the cells from `at` on, in a column of their own, and where the first of them begins in this one.
fn offsets_from(offsets: &[i32], at: usize) -> (Vec<i32>, usize) {
    let first = offsets[at];
    let first_index = usize::try_from(first).expect("offsets are not negative");
    (offsets[at..].iter().map(|offset| offset - first).collect(), first_index)
}

/// The bits from `at` on, as a builder of their own.
fn tail_of(bits: &BooleanBufferBuilder, at: usize) -> BooleanBufferBuilder {
    let mut tail = BooleanBufferBuilder::new(bits.len() - at);
    let whole: BooleanBuffer = bits.finish_cloned();
    tail.append_buffer(&whole.slice(at, bits.len() - at));
    tail
}

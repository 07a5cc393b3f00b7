//! Keys as bytes: two rows have the same key exactly when their encoded keys are equal.

use crate::{ColumnBuffer, ColumnType, TableSchema, Values};

/// Appends the encoded key of cell `row` of `columns` to `out`.
///
/// Each part is its length (4 bytes, little-endian) and its bytes, so that no two different keys encode alike. Columns are
/// those of the key, in the key's order; none may be NULL there.
pub fn encode_key<'a>(columns: impl Iterator<Item = &'a ColumnBuffer>, row: usize, out: &mut Vec<u8>) {
    for column in columns {
        debug_assert!(!column.is_null(row), "a key holds NULL");
        match column.values() {
            Values::Boolean(bits) => part(out, &[u8::from(bits.get_bit(row))]),
            Values::Int32(v) => part(out, &v[row].to_le_bytes()),
            Values::Int64(v) => part(out, &v[row].to_le_bytes()),
            Values::Float32(v) => part(out, &v[row].to_bits().to_le_bytes()),
            Values::Float64(v) => part(out, &v[row].to_bits().to_le_bytes()),
            Values::Decimal(v) => part(out, &v[row].to_le_bytes()),
            Values::Uuid(v) => part(out, &v[row * 16..row * 16 + 16]),
            Values::Bytes { offsets, data } => part(out, &data[index(offsets[row])..index(offsets[row + 1])]),
            Values::List { .. } | Values::Map { .. } => unreachable!("a table with such a key is refused"),
        }
    }
}

/// The columns of the key that [`encode_key`] made these bytes of, with one cell each. None where they are no key of the schema.
pub fn decode_key(schema: &TableSchema, mut bytes: &[u8]) -> Option<Vec<ColumnBuffer>> {
    let mut columns = Vec::with_capacity(schema.key.len());
    for column in schema.key_columns() {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        let (cell, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
        bytes = rest;
        let mut out = ColumnBuffer::new(column.ty.clone());
        match &column.ty {
            ColumnType::Boolean => out.push_bool(*cell.first()? != 0),
            ColumnType::Int | ColumnType::Date => out.push_i32(i32::from_le_bytes(cell.try_into().ok()?)),
            ColumnType::Long | ColumnType::Time | ColumnType::Timestamp | ColumnType::TimestampTz => {
                out.push_i64(i64::from_le_bytes(cell.try_into().ok()?));
            }
            ColumnType::Float => out.push_f32(f32::from_le_bytes(cell.try_into().ok()?)),
            ColumnType::Double => out.push_f64(f64::from_le_bytes(cell.try_into().ok()?)),
            ColumnType::Decimal { .. } => out.push_decimal(i128::from_le_bytes(cell.try_into().ok()?)),
            ColumnType::Uuid => out.push_uuid(cell.try_into().ok()?),
            ColumnType::String => out.push_str(std::str::from_utf8(cell).ok()?).ok()?,
            ColumnType::Binary => out.push_bytes(cell).ok()?,
            ColumnType::List(_) | ColumnType::Map => return None,
        }
        columns.push(out);
    }
    bytes.is_empty().then_some(columns)
}

fn part(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).expect("a cell is shorter than 2 GiB");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn index(offset: i32) -> usize {
    usize::try_from(offset).expect("offsets are not negative")
}

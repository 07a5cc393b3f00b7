//! Keys as bytes: two rows have the same key exactly when their encoded keys are equal.

use crate::{ColumnBuffer, Values};

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
        }
    }
}

fn part(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).expect("a cell is shorter than 2 GiB");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn index(offset: i32) -> usize {
    usize::try_from(offset).expect("offsets are not negative")
}

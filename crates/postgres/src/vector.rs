//! `vector` of pgvector, in both of its forms, as a list of floats.

use calve_core::ColumnBuffer;

use crate::cell::{CellError, CellKind, malformed};

const BINARY: CellError = malformed("a vector in binary form");
const TEXT: CellError = malformed("a vector as the server prints it");

/// Appends the binary form (`vector_send`): how many there are, two unused bytes, and each as a real.
pub(crate) fn push_binary(bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
    let ([high, low, _, _], numbers) = bytes.split_first_chunk::<4>().ok_or(BINARY)?;
    let (numbers, rest) = numbers.as_chunks::<4>();
    if numbers.len() != usize::from(u16::from_be_bytes([*high, *low])) || !rest.is_empty() {
        return Err(BINARY);
    }
    out.push_list(|elements| numbers.iter().try_for_each(|number| CellKind::Float.binary(number, elements)))
}

/// Appends the text form (`vector_out`): `[1,2.5]`.
pub(crate) fn push_text(bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
    let numbers = bytes.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")).ok_or(TEXT)?;
    out.push_list(|elements| {
        numbers.split(|byte| *byte == b',').try_for_each(|number| CellKind::Float.text(number, elements))
    })
}

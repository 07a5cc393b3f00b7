//! `hstore`, in both of its forms, as a map.

use calve_core::ColumnBuffer;

use crate::array::unquote;
use crate::cell::{CellError, CellKind, malformed};

const BINARY: CellError = malformed("an hstore in binary form");
const TEXT: CellError = malformed("an hstore as the server prints it");

/// Appends the binary form (`hstore_send`): how many pairs, and of each the lengths and texts of key and value, -1 for NULL.
pub(crate) fn push_binary(bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
    let (count, mut rest) = number(bytes)?;
    let count = u32::try_from(count).map_err(|_| BINARY)?;
    out.push_map(|keys, values| {
        let mut before = None;
        for _ in 0..count {
            let (key, after) = text(rest)?;
            let key = key.ok_or(BINARY)?;
            if !follows(key, before) {
                return Err(BINARY);
            }
            CellKind::Text.text(key, keys)?;
            before = Some(key);
            let (value, after) = text(after)?;
            push_value(value, values)?;
            rest = after;
        }
        if rest.is_empty() { Ok(()) } else { Err(BINARY) }
    })
}

/// Appends the text form (`hstore_out`): `"a"=>"1", "b"=>NULL`.
pub(crate) fn push_text(bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
    out.push_map(|keys, values| {
        let mut rest = bytes;
        let (mut before, mut key, mut value) = (Vec::new(), Vec::new(), Vec::new());
        while !rest.is_empty() {
            let after = unquote(rest.strip_prefix(b"\"").ok_or(TEXT)?, &mut key).ok_or(TEXT)?;
            let after = after.strip_prefix(b"=>").ok_or(TEXT)?;
            if !follows(&key, (rest.len() < bytes.len()).then_some(&before[..])) {
                return Err(TEXT);
            }
            CellKind::Text.text(&key, keys)?;
            std::mem::swap(&mut before, &mut key);
            let after = if let Some(quoted) = after.strip_prefix(b"\"") {
                let after = unquote(quoted, &mut value).ok_or(TEXT)?;
                push_value(Some(&value), values)?;
                after
            } else {
                push_value(None, values)?;
                after.strip_prefix(b"NULL").ok_or(TEXT)?
            };
            rest = match after.strip_prefix(b", ") {
                Some([]) => return Err(TEXT),
                Some(next) => next,
                None if after.is_empty() => after,
                None => return Err(TEXT),
            };
        }
        Ok(())
    })
}

/// Keys come by length and then by bytes, each once (`hstoreUniquePairs`).
fn follows(key: &[u8], before: Option<&[u8]>) -> bool {
    before.is_none_or(|before| (before.len(), before) < (key.len(), key))
}

fn push_value(value: Option<&[u8]>, out: &mut ColumnBuffer) -> Result<(), CellError> {
    let Some(text) = value else {
        out.push_null();
        return Ok(());
    };
    CellKind::Text.text(text, out)
}

fn number(bytes: &[u8]) -> Result<(i32, &[u8]), CellError> {
    let (number, rest) = bytes.split_first_chunk::<4>().ok_or(BINARY)?;
    Ok((i32::from_be_bytes(*number), rest))
}

/// A text after its length, None for NULL, and what follows it.
fn text(bytes: &[u8]) -> Result<(Option<&[u8]>, &[u8]), CellError> {
    match number(bytes)? {
        (-1, rest) => Ok((None, rest)),
        (length, rest) => {
            let length = usize::try_from(length).map_err(|_| BINARY)?;
            rest.split_at_checked(length).map(|(text, rest)| (Some(text), rest)).ok_or(BINARY)
        }
    }
}

//! Arrays, in both of their forms, as lists.
//!
//! A list has one dimension, and no number that its elements are counted from: an array of more dimensions cannot be held, and
//! the lower bound of one is not kept (`'[2:4]={a,b,c}'` has the elements of `'{a,b,c}'`).

use calve_core::ColumnBuffer;

use crate::cell::{CellError, CellKind, malformed, unrepresentable};

/// The most dimensions that an array has (`MAXDIM`).
const MOST_DIMENSIONS: i32 = 6;
const DIMENSIONS: CellError = unrepresentable("an array of more than one dimension");
const BINARY: CellError = malformed("an array in binary form");
const TEXT: CellError = malformed("an array as the server prints it");

/// Appends an array in its binary form (`array_send`): the number of dimensions, whether there are NULLs, the elements' type; of each
/// dimension how many there are and the number of the first; then each element as its length, -1 for NULL, and its binary form.
pub(crate) fn push_binary(element: CellKind, bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
    let (dimensions, rest) = number(bytes)?;
    let (_flags, rest) = number(rest)?;
    let (_element_type, rest) = number(rest)?;
    let (count, mut rest) = match dimensions {
        0 => (0, rest),
        1 => {
            let (count, rest) = number(rest)?;
            (count, number(rest)?.1)
        }
        2..=MOST_DIMENSIONS => return Err(DIMENSIONS),
        _ => return Err(BINARY),
    };
    out.push_list(|elements| {
        for _ in 0..count {
            let (length, after) = number(rest)?;
            let Ok(length) = usize::try_from(length) else {
                elements.push_null();
                rest = if length == -1 { after } else { return Err(BINARY) };
                continue;
            };
            let (cell, after) = after.split_at_checked(length).ok_or(BINARY)?;
            element.binary(cell, elements)?;
            rest = after;
        }
        if count >= 0 && rest.is_empty() { Ok(()) } else { Err(BINARY) }
    })
}

fn number(bytes: &[u8]) -> Result<(i32, &[u8]), CellError> {
    let (number, rest) = bytes.split_first_chunk::<4>().ok_or(BINARY)?;
    Ok((i32::from_be_bytes(*number), rest))
}

/// Appends an array as the server prints it (`array_out`): `{1,NULL,"a \"quoted\" one"}`, or `[2:4]={..}` where the first is not
/// number 1. `delimiter` is what the elements' type has between them, a blank for `int2vector` and `oidvector`.
pub(crate) fn push_text(
    element: CellKind,
    delimiter: u8,
    bytes: &[u8],
    out: &mut ColumnBuffer,
) -> Result<(), CellError> {
    if delimiter == b' ' {
        let numbers = bytes.split(|byte| *byte == b' ').filter(|number| !number.is_empty());
        return out.push_list(|elements| {
            let mut numbers = numbers;
            numbers.try_for_each(|number| element.text(number, elements))
        });
    }
    let body = without_bounds(bytes)?;
    let body = body.strip_prefix(b"{").and_then(|body| body.strip_suffix(b"}")).ok_or(TEXT)?;
    out.push_list(|elements| {
        let mut reader = Elements { rest: body, delimiter, unescaped: Vec::new() };
        if body.is_empty() {
            return Ok(());
        }
        loop {
            match reader.next()? {
                None => elements.push_null(),
                Some(text) => element.text(text, elements)?,
            }
            match reader.rest.split_first() {
                None => return Ok(()),
                Some((byte, rest)) if *byte == delimiter => reader.rest = rest,
                Some(_) => return Err(TEXT),
            }
        }
    })
}

/// The array without the bounds before it.
fn without_bounds(bytes: &[u8]) -> Result<&[u8], CellError> {
    if bytes.first() != Some(&b'[') {
        return Ok(bytes);
    }
    let end = bytes.iter().position(|byte| *byte == b'=').ok_or(TEXT)?;
    let (bounds, array) = bytes.split_at_checked(end).ok_or(TEXT)?;
    if !bounds.iter().all(|byte| matches!(byte, b'[' | b']' | b':' | b'-' | b'0'..=b'9')) {
        return Err(TEXT);
    }
    // `[1:2][1:2]`
    if bounds.windows(2).any(|pair| pair == b"][") {
        return Err(DIMENSIONS);
    }
    array.get(1..).ok_or(TEXT)
}

/// The elements between the braces.
struct Elements<'a> {
    rest: &'a [u8],
    delimiter: u8,
    unescaped: Vec<u8>,
}

impl Elements<'_> {
    /// The text of the next element; None for NULL.
    fn next(&mut self) -> Result<Option<&[u8]>, CellError> {
        match self.rest.first() {
            Some(b'{') => Err(DIMENSIONS),
            Some(b'"') => {
                let quoted = self.rest.get(1..).unwrap_or_default();
                self.rest = unquote(quoted, &mut self.unescaped).ok_or(TEXT)?;
                Ok(Some(&self.unescaped))
            }
            _ => {
                let end = self.rest.iter().position(|byte| *byte == self.delimiter).unwrap_or(self.rest.len());
                let (text, rest) = self.rest.split_at_checked(end).ok_or(TEXT)?;
                self.rest = rest;
                // What would be read as something else stands in quotes.
                if text.is_empty() || text.iter().any(|byte| matches!(byte, b'"' | b'\\' | b'{' | b'}')) {
                    return Err(TEXT);
                }
                Ok((text != b"NULL").then_some(text))
            }
        }
    }
}

/// Reads a text whose opening quote was taken, up to the closing one, and returns what follows that. A backslash stands before what
/// is meant as it is. None where no quote closes it.
pub(crate) fn unquote<'a>(quoted: &'a [u8], into: &mut Vec<u8>) -> Option<&'a [u8]> {
    into.clear();
    let mut rest = quoted;
    loop {
        let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        let (plain, special) = rest.split_at_checked(end)?;
        into.extend_from_slice(plain);
        match special {
            [b'\\', meant, after @ ..] => {
                into.push(*meant);
                rest = after;
            }
            [b'"', after @ ..] => return Some(after),
            _ => return None,
        }
    }
}

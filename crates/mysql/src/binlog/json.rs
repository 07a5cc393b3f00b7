//! JSON documents of MySQL: from the binary form they are stored in to the text that the server prints.
//!
//! The binary form (`sql-common/json_binary.h`): a byte of type and a value. Containers begin with the count of their
//! members and their size in bytes, followed by offsets from their own beginning: two bytes each in small ones, four in
//! large ones. An object has for each key an offset and a length (2), a container for each value a type and an offset, in
//! place of which short values stand themselves. Every offset is checked against its container.

use calve_core::ColumnBuffer;

use super::json_text;
use super::value::{CellError, malformed};
use super::wire::uint_le;

pub(super) const MALFORMED: CellError = malformed("a JSON document");
/// The server refuses deeper documents (`JSON_DOCUMENT_MAX_DEPTH`).
pub(super) const DEPTH_MAX: usize = 100;

/// Appends a document as text.
pub(crate) fn push_json(bytes: &[u8], text: &mut Vec<u8>, out: &mut ColumnBuffer) -> Result<(), CellError> {
    text.clear();
    write_value(&Value::document(bytes)?, 1, text)?;
    push_text(text, out)
}

pub(super) fn push_text(text: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
    let text = std::str::from_utf8(text).map_err(|_| MALFORMED)?;
    Ok(out.push_str(text)?)
}

/// A value, not looked into yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Object(Container<'a>),
    Array(Container<'a>),
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(&'a [u8]),
    /// A value of an SQL type that JSON has not: the type's number and its bytes.
    Opaque(u8, &'a [u8]),
}

/// An object or array: its bytes, from the count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Container<'a> {
    bytes: &'a [u8],
    count: usize,
    large: bool,
    is_object: bool,
}

impl<'a> Value<'a> {
    /// A whole document. An empty one stands for `null`: what is left of a NULL that was forced into a NOT NULL column.
    pub(super) fn document(bytes: &'a [u8]) -> Result<Self, CellError> {
        match bytes.split_first() {
            None => Ok(Self::Null),
            Some((kind, value)) => Self::parse(*kind, value),
        }
    }

    /// A value of this type at the beginning of `bytes`.
    fn parse(kind: u8, bytes: &'a [u8]) -> Result<Self, CellError> {
        Ok(match kind {
            0x00 => Self::Object(Container::parse(bytes, false, true)?),
            0x01 => Self::Object(Container::parse(bytes, true, true)?),
            0x02 => Self::Array(Container::parse(bytes, false, false)?),
            0x03 => Self::Array(Container::parse(bytes, true, false)?),
            0x04 => match bytes.first() {
                Some(0x00) => Self::Null,
                Some(0x01) => Self::Bool(true),
                Some(0x02) => Self::Bool(false),
                _ => return Err(MALFORMED),
            },
            0x05 => Self::Int(i16::from_le_bytes(first(bytes)?).into()),
            0x06 => Self::Uint(u16::from_le_bytes(first(bytes)?).into()),
            0x07 => Self::Int(i32::from_le_bytes(first(bytes)?).into()),
            0x08 => Self::Uint(u32::from_le_bytes(first(bytes)?).into()),
            0x09 => Self::Int(i64::from_le_bytes(first(bytes)?)),
            0x0a => Self::Uint(u64::from_le_bytes(first(bytes)?)),
            0x0b => Self::Double(f64::from_le_bytes(first(bytes)?)),
            0x0c => Self::String(counted(bytes)?),
            0x0f => {
                let (field, rest) = bytes.split_first().ok_or(MALFORMED)?;
                Self::Opaque(*field, counted(rest)?)
            }
            _ => return Err(MALFORMED),
        })
    }
}

fn first<const N: usize>(bytes: &[u8]) -> Result<[u8; N], CellError> {
    bytes.first_chunk::<N>().copied().ok_or(MALFORMED)
}

/// Bytes behind their length, which has seven bits in a byte and the highest bit set where another follows; five at most.
fn counted(bytes: &[u8]) -> Result<&[u8], CellError> {
    let mut length: u64 = 0;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        length |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            let length = usize::try_from(length).map_err(|_| MALFORMED)?;
            let end = (at + 1).checked_add(length).ok_or(MALFORMED)?;
            return bytes.get(at + 1..end).ok_or(MALFORMED);
        }
    }
    Err(MALFORMED)
}

impl<'a> Container<'a> {
    fn parse(bytes: &'a [u8], large: bool, is_object: bool) -> Result<Self, CellError> {
        let width = if large { 4 } else { 2 };
        let number = |at: usize| {
            let field = bytes.get(at * width..(at + 1) * width).ok_or(MALFORMED)?;
            usize::try_from(uint_le(field)).map_err(|_| MALFORMED)
        };
        let (count, size) = (number(0)?, number(1)?);
        let bytes = bytes.get(..size).ok_or(MALFORMED)?;
        let container = Self { bytes, count, large, is_object };
        // What every member has in the table at the beginning must fit, and so bounds the count.
        let entries = count.checked_mul(container.key_entry() + container.value_entry()).ok_or(MALFORMED)?;
        if entries > size.saturating_sub(2 * width) {
            return Err(MALFORMED);
        }
        Ok(container)
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    fn width(&self) -> usize {
        if self.large { 4 } else { 2 }
    }

    fn key_entry(&self) -> usize {
        if self.is_object { self.width() + 2 } else { 0 }
    }

    fn value_entry(&self) -> usize {
        1 + self.width()
    }

    fn number(&self, at: usize, width: usize) -> Result<usize, CellError> {
        let field = self.bytes.get(at..at + width).ok_or(MALFORMED)?;
        usize::try_from(uint_le(field)).map_err(|_| MALFORMED)
    }

    /// The key of member `index` of an object.
    pub(super) fn key(&self, index: usize) -> Result<&'a [u8], CellError> {
        let entry = 2 * self.width() + index * self.key_entry();
        let offset = self.number(entry, self.width())?;
        let length = self.number(entry + self.width(), 2)?;
        self.bytes.get(offset..offset.saturating_add(length)).ok_or(MALFORMED)
    }

    /// Member `index`.
    pub(super) fn value(&self, index: usize) -> Result<Value<'a>, CellError> {
        let entry = 2 * self.width() + self.count * self.key_entry() + index * self.value_entry();
        let kind = *self.bytes.get(entry).ok_or(MALFORMED)?;
        // Literals, and integers as wide as an offset, stand in its place.
        let inlined = match kind {
            0x04..=0x06 => true,
            0x07 | 0x08 => self.large,
            _ => false,
        };
        let start = if inlined { entry + 1 } else { self.number(entry + 1, self.width())? };
        let bytes = self.bytes.get(start..).ok_or(MALFORMED)?;
        // A container that pointed at or before itself would have no end.
        if matches!(kind, 0x00..=0x03) && start <= entry {
            return Err(MALFORMED);
        }
        Value::parse(kind, bytes)
    }
}

/// Writes a value at this depth, the document's own being 1.
pub(super) fn write_value(value: &Value<'_>, depth: usize, text: &mut Vec<u8>) -> Result<(), CellError> {
    if depth > DEPTH_MAX {
        return Err(MALFORMED);
    }
    match value {
        Value::Object(object) => {
            text.push(b'{');
            for index in 0..object.len() {
                if index > 0 {
                    text.extend_from_slice(b", ");
                }
                json_text::write_string(object.key(index)?, text);
                text.extend_from_slice(b": ");
                write_value(&object.value(index)?, depth + 1, text)?;
                bound(text)?;
            }
            text.push(b'}');
        }
        Value::Array(array) => {
            text.push(b'[');
            for index in 0..array.len() {
                if index > 0 {
                    text.extend_from_slice(b", ");
                }
                write_value(&array.value(index)?, depth + 1, text)?;
                bound(text)?;
            }
            text.push(b']');
        }
        Value::Null => text.extend_from_slice(b"null"),
        Value::Bool(true) => text.extend_from_slice(b"true"),
        Value::Bool(false) => text.extend_from_slice(b"false"),
        Value::Int(number) => text.extend_from_slice(number.to_string().as_bytes()),
        Value::Uint(number) => text.extend_from_slice(number.to_string().as_bytes()),
        Value::Double(number) => json_text::write_double(*number, text)?,
        Value::String(string) => json_text::write_string(string, text),
        Value::Opaque(kind, bytes) => json_text::write_opaque(*kind, bytes, text)?,
    }
    Ok(())
}

/// Members of a made-up document may overlap, and so print as more than any document the server accepts.
pub(super) fn bound(text: &[u8]) -> Result<(), CellError> {
    /// `max_allowed_packet` bounds documents and their text at 1 GiB.
    const TEXT_MAX: usize = 1 << 30;
    if text.len() > TEXT_MAX { Err(MALFORMED) } else { Ok(()) }
}

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
    write_value(&Value::document(bytes)?, 1, text_limit(bytes.len()), text)?;
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

/// Bytes of text that a document of this size has at most. A control character prints as six, `null` in an array as six for
/// three; nothing prints as more. A document that does has members that overlap, which the server writes none of.
pub(super) fn text_limit(bytes: usize) -> usize {
    bytes.saturating_mul(8).saturating_add(64)
}

/// Writes a value at this depth, the document's own being 1, as long as all of the text is within the limit.
pub(super) fn write_value(value: &Value<'_>, depth: usize, limit: usize, text: &mut Vec<u8>) -> Result<(), CellError> {
    if depth > DEPTH_MAX || text.len() > limit {
        return Err(MALFORMED);
    }
    match value {
        Value::Object(object) => {
            text.push(b'{');
            for index in 0..object.len() {
                separate(index, text);
                json_text::write_string(object.key(index)?, text);
                text.extend_from_slice(b": ");
                write_value(&object.value(index)?, depth + 1, limit, text)?;
            }
            text.push(b'}');
        }
        Value::Array(array) => {
            text.push(b'[');
            for index in 0..array.len() {
                separate(index, text);
                write_value(&array.value(index)?, depth + 1, limit, text)?;
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

/// What stands before all members but the first.
pub(super) fn separate(index: usize, text: &mut Vec<u8>) {
    if index > 0 {
        text.extend_from_slice(b", ");
    }
}

#[cfg(test)]
mod tests {
    use calve_core::ColumnType;

    use super::*;

    fn check(bytes: &[u8], expected: Option<&str>) {
        let mut out = ColumnBuffer::new(ColumnType::String);
        let mut text = Vec::new();
        let pushed = push_json(bytes, &mut text, &mut out);
        let found = pushed.is_ok().then(|| String::from_utf8(text).unwrap());
        assert_eq!(found.as_deref(), expected, "{bytes:02x?}");
        assert_eq!(out.len(), usize::from(expected.is_some()));
    }

    /// What servers write is in the captures; these are what they do not.
    #[test]
    fn documents_that_are_none_are_refused() {
        check(&[], Some("null"));
        check(&[0x02, 1, 0, 7, 0, 0x05, 0xff, 0xff], Some("[-1]"));
        // A count beyond the size, a size beyond the bytes, a type that is none.
        check(&[0x02, 9, 0, 7, 0, 0x05, 0xff, 0xff], None);
        check(&[0x02, 1, 0, 8, 0, 0x05, 0xff, 0xff], None);
        check(&[0x0d, 0], None);
        check(&[0x04, 9], None);
        // A string longer than what is left, and one whose length has no end.
        check(&[0x0c, 5, b'a'], None);
        check(&[0x0c, 0xff, 0xff, 0xff, 0xff, 0xff, 0], None);
        // Bytes that are not UTF-8.
        check(&[0x0c, 1, 0xff], None);
        // An array in itself.
        check(&[0x02, 1, 0, 7, 0, 0x02, 0, 0], None);
    }

    /// 65 nines, 30 of them behind the point, as MySQL 9.7 has written them.
    #[test]
    fn decimals_of_documents_count_the_digits_of_whole_groups() {
        let head = [0x02, 1, 0, 0x29, 0, 0x0f, 7, 0, 0xf6, 0x20, 66, 30, 0x85, 0xf5, 0xe0, 0xff];
        let bytes = [&head[..], &[0x3b, 0x9a, 0xc9, 0xff].repeat(6), &[0x03, 0xe7]].concat();
        check(&bytes, Some(&format!("[{}.{}]", "9".repeat(35), "9".repeat(30))));
        let too_long = [&head[..10], &[82, 30], &head[12..], &bytes[16..]].concat();
        check(&too_long, None);
    }

    /// Arrays whose members are all one and the same array: the text doubles with each level.
    #[test]
    fn documents_do_not_print_as_more_than_they_can_hold() {
        let mut bytes = vec![0x02];
        for _ in 0..40 {
            bytes.extend_from_slice(&[2, 0, 0, 0, 0x02, 10, 0, 0x02, 10, 0]);
        }
        bytes.extend_from_slice(&[0, 0, 4, 0]);
        let length = bytes.len() - 1;
        for level in 0..40 {
            let size = u16::try_from(length - level * 10).unwrap().to_le_bytes();
            bytes[1 + level * 10 + 2..][..2].copy_from_slice(&size);
        }
        check(&bytes, None);
    }
}

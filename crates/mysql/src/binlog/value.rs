//! One value into its column: conversions that the stream and the snapshot reader share, so that a row is the same
//! whichever way it came. A value that the lake's type cannot hold is refused, never bent.

use std::borrow::Cow;

use calve_core::{BufferFull, ColumnBuffer};

use super::compressed;
use super::wire::{Malformed, uint_be, uint_le};
use crate::charset::Charset;

/// Why a value was not appended. Nothing was pushed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CellError {
    /// The value is right, but the column's type in the lake cannot hold it. `what` names the kind of value, and nothing of
    /// the row: it is fit for logs.
    #[error("{what}")]
    Unrepresentable { what: &'static str },
    /// A date of which the year, the month or the day is zero as no calendar has it. NULL takes its place where it may.
    #[error("a zero date")]
    ZeroDate,
    /// The bytes are not what the server writes for this type.
    #[error("the bytes are not {expected}")]
    Malformed { expected: Cow<'static, str> },
    /// The buffer cannot take more: seal it and decode the row again.
    #[error(transparent)]
    Full(#[from] BufferFull),
}

pub(crate) const fn unrepresentable(what: &'static str) -> CellError {
    CellError::Unrepresentable { what }
}

pub(crate) const fn malformed(expected: &'static str) -> CellError {
    CellError::Malformed { expected: Cow::Borrowed(expected) }
}

impl From<Malformed> for CellError {
    fn from(error: Malformed) -> Self {
        Self::Malformed { expected: Cow::Owned(format!("well-formed: {error}")) }
    }
}

/// Appends a signed integer to a column of the lake's `int` or `long`. It must fit: the plan saw to it.
pub(crate) fn push_signed(value: i64, long: bool, out: &mut ColumnBuffer) -> Result<(), CellError> {
    if long {
        out.push_i64(value);
    } else {
        out.push_i32(i32::try_from(value).map_err(|_| malformed("an integer of 32 bits"))?);
    }
    Ok(())
}

/// `TINYINT(1)` as a boolean.
pub(crate) fn push_flag(value: i64, out: &mut ColumnBuffer) -> Result<(), CellError> {
    match value {
        0 | 1 => out.push_bool(value == 1),
        _ => return Err(unrepresentable("a TINYINT other than 0 and 1, which no boolean can hold")),
    }
    Ok(())
}

/// `VECTOR`: its numbers as floats of 4 bytes, little-endian, as both servers keep and send it.
pub(crate) fn push_vector(bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
    let (numbers, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(malformed("a VECTOR of 4 bytes a number"));
    }
    out.push_list(|elements| {
        for number in numbers {
            elements.push_f32(f32::from_le_bytes(*number));
        }
        Ok(())
    })
}

/// `BIGINT UNSIGNED`, and `BIT(64)`.
pub(crate) fn push_unsigned_long(value: u64, out: &mut ColumnBuffer) {
    out.push_decimal(value.into());
}

/// `BIGINT UNSIGNED` where a long is wanted.
pub(crate) fn push_unsigned_as_long(value: u64, out: &mut ColumnBuffer) -> Result<(), CellError> {
    const TOO_LARGE: CellError = unrepresentable("a number beyond 9223372036854775807, which no long can hold");
    out.push_i64(i64::try_from(value).map_err(|_| TOO_LARGE)?);
    Ok(())
}

/// `BIT(n)` of more than one bit, from its big-endian bytes.
pub(crate) fn push_bits(bytes: &[u8], bits: u16, out: &mut ColumnBuffer) -> Result<(), CellError> {
    let value = bits_of(bytes, bits)?;
    if bits == 64 {
        push_unsigned_long(value, out);
    } else {
        out.push_i64(value.cast_signed());
    }
    Ok(())
}

/// `BIT(1)`.
pub(crate) fn push_bit(bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
    out.push_bool(bits_of(bytes, 1)? == 1);
    Ok(())
}

fn bits_of(bytes: &[u8], bits: u16) -> Result<u64, CellError> {
    let value = uint_be(bytes);
    let fits = bits >= 64 || value >> bits == 0;
    if fits && bytes.len() <= 8 { Ok(value) } else { Err(malformed("a bit field of its width")) }
}

/// `YEAR`: 0, or counted from 1900.
pub(crate) fn push_year(byte: u8, out: &mut ColumnBuffer) {
    out.push_i32(year(byte));
}

pub(crate) fn year(byte: u8) -> i32 {
    if byte == 0 { 0 } else { 1900 + i32::from(byte) }
}

/// Text in the column's character set. `CHAR` is shown without the spaces that pad it, whether the session that wrote it
/// kept them (`PAD_CHAR_TO_FULL_LENGTH`) or not.
pub(crate) fn push_text(
    bytes: &[u8],
    charset: Charset,
    pad_spaces: bool,
    scratch: &mut Vec<u8>,
    out: &mut ColumnBuffer,
) -> Result<(), CellError> {
    const INVALID: CellError = unrepresentable("bytes that are no text of the column's character set");
    let shown = |text: &str, out: &mut ColumnBuffer| {
        let text = if pad_spaces { text.trim_end_matches(' ') } else { text };
        out.push_str(text)
    };
    if let Some(text) = charset.as_utf8(bytes).map_err(|_| INVALID)? {
        return Ok(shown(text, out)?);
    }
    scratch.clear();
    charset.decode(bytes, scratch).map_err(|_| INVALID)?;
    let text = std::str::from_utf8(scratch).map_err(|_| INVALID)?;
    Ok(shown(text, out)?)
}

/// `BINARY(n)`: the log leaves out the zero bytes at the end.
pub(crate) fn push_padded(
    bytes: &[u8],
    length: usize,
    scratch: &mut Vec<u8>,
    out: &mut ColumnBuffer,
) -> Result<(), CellError> {
    if bytes.len() == length {
        return Ok(out.push_bytes(bytes)?);
    }
    pad(bytes, length, scratch)?;
    Ok(out.push_bytes(scratch)?)
}

fn pad(bytes: &[u8], length: usize, scratch: &mut Vec<u8>) -> Result<(), CellError> {
    if bytes.len() > length {
        return Err(malformed("as long as its column at most"));
    }
    scratch.clear();
    scratch.extend_from_slice(bytes);
    scratch.resize(length, 0);
    Ok(())
}

fn padded<const N: usize>(bytes: &[u8], expected: &'static str) -> Result<[u8; N], CellError> {
    let mut array = [0; N];
    array.get_mut(..bytes.len()).ok_or(malformed(expected))?.copy_from_slice(bytes);
    Ok(array)
}

/// Labels of an ENUM or SET, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Labels {
    texts: Box<[Box<str>]>,
    /// They come from the catalog, and their character set has characters that the catalog shows as `?`.
    doubtful: bool,
}

const DOUBTFUL: CellError = unrepresentable(
    "a label with a '?', which may stand for a character beyond U+FFFF that information_schema cannot show (SET GLOBAL \
     binlog_row_metadata = FULL makes the server log the label itself)",
);

impl Labels {
    /// As the table map has them.
    pub(crate) fn logged(texts: Vec<Box<str>>) -> Self {
        Self { texts: texts.into(), doubtful: false }
    }

    /// As `COLUMN_TYPE` has them, which is in utf8mb3: characters beyond U+FFFF are lost there, one `?` each.
    pub(crate) fn of_catalog(texts: &[Box<str>], charset: &str) -> Self {
        let doubtful = matches!(charset, "utf8mb4" | "utf16" | "utf16le" | "utf32" | "gb18030");
        Self { texts: texts.into(), doubtful }
    }

    /// The label at an index from 0.
    fn get(&self, index: usize) -> Result<&str, CellError> {
        let label = self.texts.get(index).ok_or(malformed("the index of a label"))?;
        if self.doubtful && label.contains('?') { Err(DOUBTFUL) } else { Ok(label) }
    }
}

/// `ENUM`: the label of an index counted from 1. 0 stands for a value that was no label.
pub(crate) fn push_label(index: u64, labels: &Labels, out: &mut ColumnBuffer) -> Result<(), CellError> {
    let label = match index.checked_sub(1) {
        None => "",
        Some(place) => labels.get(usize::try_from(place).unwrap_or(usize::MAX))?,
    };
    Ok(out.push_str(label)?)
}

/// `SET`: the labels of the bits that are set, with commas between them.
pub(crate) fn push_labels(
    mask: u64,
    labels: &Labels,
    scratch: &mut Vec<u8>,
    out: &mut ColumnBuffer,
) -> Result<(), CellError> {
    scratch.clear();
    let mut rest = mask;
    while rest != 0 {
        let bit = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        if !scratch.is_empty() {
            scratch.push(b',');
        }
        scratch.extend_from_slice(labels.get(bit)?.as_bytes());
    }
    let text = std::str::from_utf8(scratch).map_err(|_| malformed("text"))?;
    Ok(out.push_str(text)?)
}

/// MariaDB's `UUID`, in the order of its text. The log leaves out zero bytes at the end.
pub(crate) fn push_uuid(bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
    out.push_uuid(padded(bytes, "a UUID of 16 bytes")?);
    Ok(())
}

/// The text of MariaDB's `UUID`, in the order of its bytes in the log.
pub(crate) fn push_uuid_as_text(bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
    let uuid = uuid::Uuid::from_bytes(padded(bytes, "a UUID of 16 bytes")?);
    Ok(out.push_str(uuid.hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()))?)
}

/// MariaDB's `UUID` as text, as SELECT shows it: five groups of hex digits.
pub(crate) fn push_uuid_text(text: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
    const EXPECTED: CellError = malformed("a UUID of 32 hex digits in five groups");
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() == 36).ok_or(EXPECTED)?;
    out.push_uuid(*uuid::Uuid::try_parse(text).map_err(|_| EXPECTED)?.as_bytes());
    Ok(())
}

/// MariaDB's `INET4`, as `1.2.3.4`.
pub(crate) fn push_inet4(bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
    let [a, b, c, d] = padded::<4>(bytes, "an address of 4 bytes")?;
    Ok(out.push_str(&format!("{a}.{b}.{c}.{d}"))?)
}

/// MariaDB's `INET6`, as the server prints it (`Inet6::to_string`): the longest run of zero groups, the first of such and be
/// it of one only, as `::`; an IPv4 address behind six zero groups or behind `::ffff:` in its own form.
pub(crate) fn push_inet6(bytes: &[u8], out: &mut ColumnBuffer) -> Result<(), CellError> {
    let bytes = padded::<16>(bytes, "an address of 16 bytes")?;
    Ok(out.push_str(&inet6_text(bytes))?)
}

fn inet6_text(bytes: [u8; 16]) -> String {
    use std::fmt::Write as _;
    let groups = std::net::Ipv6Addr::from(bytes).segments();
    let mut gap = 0..0;
    let mut start = 0;
    while start < groups.len() {
        let length = groups.iter().skip(start).take_while(|group| **group == 0).count();
        if length > gap.len() {
            gap = start..start + length;
        }
        start += length.max(1);
    }
    let mut text = String::with_capacity(39);
    let mut index = 0;
    while index < groups.len() {
        if index == gap.start && !gap.is_empty() {
            text.push_str("::");
            index = gap.end;
            continue;
        }
        if index > 0 && index != gap.end {
            text.push(':');
        }
        let mapped = groups.get(5) == Some(&0xffff);
        if index == 6 && gap.start == 0 && (gap.end == 6 || gap.end == 5 && mapped) {
            let [.., a, b, c, d] = bytes;
            // Writing to a string cannot fail.
            let _ = write!(text, "{a}.{b}.{c}.{d}");
            break;
        }
        let _ = write!(text, "{:x}", groups.get(index).copied().unwrap_or_default());
        index += 1;
    }
    text
}

/// A value of a compressed column of MariaDB, decompressed into `into`.
pub(crate) fn decompress(bytes: &[u8], into: &mut Vec<u8>) -> Result<(), CellError> {
    Ok(compressed::inflate_value(bytes, into)?)
}

/// An integer as rows have it: little-endian, in two's complement.
pub(crate) fn signed_le(bytes: &[u8]) -> i64 {
    let spare = 64 - 8 * bytes.len().min(8);
    // Shifted up and down again, the sign fills what the value lacks. Nothing is left of no bytes.
    if spare == 64 { 0 } else { (uint_le(bytes) << spare).cast_signed() >> spare }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_keep_their_sign_at_every_width() {
        for (bytes, expected) in [
            (&[0x80][..], -128),
            (&[0xff, 0x7f], 32767),
            (&[0, 0, 0x80], -8_388_608),
            (&[0xff, 0xff, 0x7f], 8_388_607),
            (&[0xff, 0xff, 0xff], -1),
            (&[0, 0, 0, 0x80], i64::from(i32::MIN)),
            (&[0, 0, 0, 0, 0, 0, 0, 0x80], i64::MIN),
            (&[], 0),
        ] {
            assert_eq!(signed_le(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn addresses_are_printed_as_the_server_does() {
        for (address, expected) in [
            ("::", "::"),
            ("::1", "::1"),
            ("::2.3.4.5", "::2.3.4.5"),
            ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
            ("fe80::", "fe80::"),
            ("2001:db8::ff00:42:8329", "2001:db8::ff00:42:8329"),
            ("1:0:0:4:0:0:0:8", "1:0:0:4::8"),
            ("1:0:3:4:5:6:7:8", "1::3:4:5:6:7:8"),
            ("1:2:3:4:5:6:7:0", "1:2:3:4:5:6:7::"),
            ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
        ] {
            let address: std::net::Ipv6Addr = address.parse().unwrap();
            assert_eq!(inet6_text(address.octets()), expected);
        }
    }
}

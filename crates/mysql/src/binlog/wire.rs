//! Fields off a slice: little-endian integers, the packed integers of the protocol, texts and bitmaps.

use std::borrow::Cow;

/// Bytes that are not what the server's documentation says they are, or say something that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("{what} ends too early")]
    Short { what: &'static str },
    #[error("{what} is followed by {bytes} bytes that do not belong to it")]
    Long { what: &'static str, bytes: usize },
    #[error("a name in {what} is not UTF-8")]
    Name { what: &'static str },
    #[error("events of type {0} are unknown, and this one must not be ignored")]
    Kind(u8),
    #[error("{value} is no {what}")]
    Value { what: &'static str, value: u64 },
    #[error("{what} claims a length of {bytes} bytes, which is beyond the limit")]
    TooLarge { what: &'static str, bytes: u64 },
    #[error("{what} cannot be decompressed")]
    Compression { what: &'static str },
    #[error("the checksum is {found:#010x}, and the bytes give {computed:#010x}")]
    Checksum { found: u32, computed: u32 },
    #[error("the log is encrypted: read it from the server, which decrypts it, and not from a copy of its files")]
    Encrypted,
    #[error("a value of column {column} is not {expected}")]
    Cell { column: String, expected: Cow<'static, str> },
    #[error("{0}")]
    Other(String),
}

/// Reads fields off a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// `what` is named by errors, with its article: `a table map`.
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, what }
    }

    fn short(&self) -> Malformed {
        Malformed::Short { what: self.what }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What was not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (field, rest) = self.bytes.split_first_chunk::<N>().ok_or_else(|| self.short())?;
        self.bytes = rest;
        Ok(*field)
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (field, rest) = self.bytes.split_at_checked(length).ok_or_else(|| self.short())?;
        self.bytes = rest;
        Ok(field)
    }

    /// As [`take`](Self::take), of a length that came off the wire.
    pub(crate) fn take_u64(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        usize::try_from(length).map_err(|_| self.short()).and_then(|length| self.take(length))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// A little-endian integer of up to 8 bytes.
    pub(crate) fn uint(&mut self, bytes: usize) -> Result<u64, Malformed> {
        Ok(uint_le(self.take(bytes)?))
    }

    /// An integer of 1, 3, 4 or 9 bytes (MySQL internals, `Protocol::LengthEncodedInteger`).
    pub(crate) fn packed(&mut self) -> Result<u64, Malformed> {
        match self.u8()? {
            small @ 0..=250 => Ok(small.into()),
            252 => self.uint(2),
            253 => self.uint(3),
            254 => self.uint(8),
            byte => Err(Malformed::Value { what: "packed integer's first byte", value: byte.into() }),
        }
    }

    /// A packed integer that counts something in memory.
    pub(crate) fn packed_usize(&mut self) -> Result<usize, Malformed> {
        let value = self.packed()?;
        usize::try_from(value).map_err(|_| Malformed::TooLarge { what: self.what, bytes: value })
    }

    /// Bytes with their packed length before them.
    pub(crate) fn packed_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.packed()?;
        self.take_u64(length)
    }

    /// Bytes up to a zero byte, which is read over.
    pub(crate) fn until_zero(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self.bytes.iter().position(|byte| *byte == 0).ok_or_else(|| self.short())?;
        let text = self.take(end)?;
        self.take(1)?;
        Ok(text)
    }

    /// A text of this many bytes.
    pub(crate) fn text(&mut self, length: usize) -> Result<&'a str, Malformed> {
        let bytes = self.take(length)?;
        self.utf8(bytes)
    }

    pub(crate) fn utf8(&self, bytes: &'a [u8]) -> Result<&'a str, Malformed> {
        std::str::from_utf8(bytes).map_err(|_| Malformed::Name { what: self.what })
    }

    /// One bit for each of `count` things.
    pub(crate) fn bits(&mut self, count: usize) -> Result<Bits<'a>, Malformed> {
        self.take(count.div_ceil(8)).map(|bytes| Bits { bytes })
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        match self.bytes.len() {
            0 => Ok(()),
            bytes => Err(Malformed::Long { what: self.what, bytes }),
        }
    }
}

/// A bitmap as the log has it: bit i in byte i / 8, lowest bit first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bits<'a> {
    bytes: &'a [u8],
}

impl Bits<'_> {
    /// Whether bit `index` is set; beyond the end none is.
    pub(crate) fn get(&self, index: usize) -> bool {
        self.bytes.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
    }

    /// Whether the first `count` bits are all set.
    pub(crate) fn all(&self, count: usize) -> bool {
        let (whole, rest) = (count / 8, count % 8);
        let full = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0xff);
        let last = (1u16 << rest) - 1;
        self.bytes.get(..whole).is_some_and(full)
            && (rest == 0 || self.bytes.get(whole).is_some_and(|byte| u16::from(*byte) & last == last))
    }
}

/// A little-endian integer of up to 8 bytes; more are cut off.
pub(crate) fn uint_le(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// A big-endian integer of up to 8 bytes; of more only the last count.
pub(crate) fn uint_be(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_integers_are_read_in_each_of_their_sizes() {
        for (bytes, expected) in [
            (&[0][..], Ok(0)),
            (&[250], Ok(250)),
            (&[252, 0xfb, 0], Ok(251)),
            (&[253, 1, 2, 3], Ok(0x03_0201)),
            (&[254, 1, 2, 3, 4, 5, 6, 7, 8], Ok(0x0807_0605_0403_0201)),
            (&[252, 1], Err(Malformed::Short { what: "a test" })),
            (&[251], Err(Malformed::Value { what: "packed integer's first byte", value: 251 })),
            (&[255], Err(Malformed::Value { what: "packed integer's first byte", value: 255 })),
        ] {
            assert_eq!(Reader::new(bytes, "a test").packed(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn bitmaps_know_when_they_are_full() {
        for (bytes, count, expected) in [
            (&[0xff][..], 8, true),
            (&[0x7f], 7, true),
            (&[0x7f], 8, false),
            (&[0xff, 0x01], 9, true),
            (&[0xff, 0x02], 9, false),
            (&[0xff], 9, false),
            (&[], 0, true),
        ] {
            assert_eq!(Bits { bytes }.all(count), expected, "{bytes:?} of {count}");
        }
    }
}

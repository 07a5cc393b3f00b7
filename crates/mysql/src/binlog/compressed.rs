//! What MariaDB compresses in the log: the end of an event, and the values of compressed columns. Both declare their length
//! before the zlib stream, and nothing is allocated beyond it, nor it beyond a limit.

use std::io::Read;

use flate2::read::{DeflateDecoder, ZlibDecoder};

use super::wire::{Malformed, Reader, uint_be};

/// `max_allowed_packet` can be no larger, and with it no event and no value.
pub(crate) const LIMIT: u64 = 1 << 30;

const EVENT: &str = "a compressed event";
const VALUE: &str = "a compressed value";

/// The part of an event that `log_bin_compress` compressed (`binlog_buf_compress`): a byte of method (bits 4 to 6) and of
/// how long the length is (bits 0 to 2), the length, big-endian, and a zlib stream.
pub(crate) fn inflate_event(bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut reader = Reader::new(bytes, EVENT);
    let method = reader.u8()?;
    let (algorithm, width) = (method >> 4 & 7, method & 7);
    if method & 0x80 == 0 || algorithm != 0 {
        return Err(Malformed::Value { what: "method of event compression that is understood", value: method.into() });
    }
    let length = length(reader.take(width.into())?, EVENT)?;
    inflate(ZlibDecoder::new(reader.rest()), length, EVENT)
}

/// A value of a `COMPRESSED` column (`field_comp.cc`): nothing, or a byte 0 and the value itself, or a byte of method (bits 4
/// to 7, 8 = zlib), of whether the stream lacks zlib's own frame (bit 3), and of how long the length is; then as above.
pub(crate) fn inflate_value(bytes: &[u8], into: &mut Vec<u8>) -> Result<(), Malformed> {
    into.clear();
    let Some((method, rest)) = bytes.split_first() else { return Ok(()) };
    if *method == 0 {
        into.extend_from_slice(rest);
        return Ok(());
    }
    if method >> 4 != 8 {
        return Err(Malformed::Value {
            what: "method of column compression that is understood",
            value: (*method).into(),
        });
    }
    let mut reader = Reader::new(rest, VALUE);
    let length = length(reader.take((method & 7).into())?, VALUE)?;
    let stream = reader.rest();
    *into = if method & 8 == 0 {
        inflate(ZlibDecoder::new(stream), length, VALUE)?
    } else {
        inflate(DeflateDecoder::new(stream), length, VALUE)?
    };
    Ok(())
}

fn length(bytes: &[u8], what: &'static str) -> Result<u64, Malformed> {
    let length = uint_be(bytes);
    if length > LIMIT { Err(Malformed::TooLarge { what, bytes: length }) } else { Ok(length) }
}

/// Exactly `length` bytes. They are allocated as they come: a stream that lies about its length costs what it holds.
fn inflate(stream: impl Read, length: u64, what: &'static str) -> Result<Vec<u8>, Malformed> {
    let mut bytes = Vec::new();
    let read = stream.take(length + 1).read_to_end(&mut bytes).map_err(|_| Malformed::Compression { what })?;
    if read as u64 == length { Ok(bytes) } else { Err(Malformed::Compression { what }) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, ZlibEncoder};

    use super::*;

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn events_are_as_long_as_they_say() {
        let stream = zlib(&[b'x'; 300]);
        for (head, expected) in [
            (&[0x82, 1, 44][..], true),
            (&[0x84, 0, 0, 1, 44], true),
            (&[0x82, 1, 43], false),
            (&[0x82, 1, 45], false),
            // More than a gigabyte.
            (&[0x84, 0x40, 0, 0, 1], false),
            // Another algorithm, and no method at all.
            (&[0x92, 1, 44], false),
            (&[0x02, 1, 44], false),
        ] {
            let found = inflate_event(&[head, &stream].concat());
            let whole = found.as_deref() == Ok(&[b'x'; 300][..]);
            assert_eq!(whole, expected, "{head:02x?} gave {found:?}");
        }
        assert!(inflate_event(&[]).is_err());
        assert!(inflate_event(&[0x82, 1, 44, 0x78, 0x9c]).is_err());
    }

    #[test]
    fn values_are_plain_framed_or_bare() {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(b"text text text").unwrap();
        let bare = encoder.finish().unwrap();
        let framed = zlib(b"text text text");
        for (value, expected) in [
            (vec![], Some(&b""[..])),
            (b"\x00text text text".to_vec(), Some(b"text text text")),
            ([&[0x81, 14], &*framed].concat(), Some(b"text text text")),
            ([&[0x89, 14], &*bare].concat(), Some(b"text text text")),
            ([&[0x89, 14], &*framed].concat(), None),
            ([&[0x81, 14], &*bare].concat(), None),
            ([&[0x81, 13], &*framed].concat(), None),
            ([&[0x71, 14], &*framed].concat(), None),
            (vec![0x81], None),
        ] {
            let mut into = b"before".to_vec();
            let found = inflate_value(&value, &mut into).map(|()| into.as_slice());
            assert_eq!(found.ok(), expected, "{value:02x?}");
        }
    }
}

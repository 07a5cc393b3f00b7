//! A transaction compressed as a whole (`binlog_transaction_compression`): its events one after the other, decompressed as a
//! stream, so that memory holds one of them at a time.
//!
//! Inner events are as outside, but without checksums and positions (`Transaction_payload_event`).

use std::io::{BufReader, Read};

use super::event::{Header, kind};
use super::wire::{Malformed, Reader};

const WHAT: &str = "a compressed transaction";
/// No event is larger: `max_allowed_packet` of replication allows 1 GiB (`MAX_MAX_ALLOWED_PACKET`).
const EVENT_LIMIT: u64 = 1 << 30;

/// The event that holds a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payload<'a> {
    compression: Compression,
    /// Bytes of the inner events.
    uncompressed: u64,
    /// As they were compressed.
    bytes: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    Zstd,
    None,
}

impl<'a> Payload<'a> {
    /// Fields of a type, a length and a value, up to the type 0; then the payload.
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, WHAT);
        let (mut size, mut compression, mut uncompressed) = (None, None, None);
        loop {
            let field = reader.packed()?;
            if field == 0 {
                break;
            }
            let mut value = Reader::new(reader.packed_bytes()?, WHAT);
            match field {
                1 => size = Some(value.packed()?),
                2 => {
                    compression = Some(match value.packed()? {
                        0 => Compression::Zstd,
                        255 => Compression::None,
                        value => {
                            return Err(Malformed::Value { what: "compression that is understood", value });
                        }
                    });
                }
                3 => uncompressed = Some(value.packed()?),
                // Each field has its length so that readers can pass over those of later versions.
                _ => {}
            }
        }
        let (Some(size), Some(compression)) = (size, compression) else {
            return Err(Malformed::Short { what: WHAT });
        };
        let bytes = reader.take_u64(size)?;
        reader.end()?;
        let uncompressed = match (compression, uncompressed) {
            (_, Some(length)) => length,
            (Compression::None, None) => size,
            (Compression::Zstd, None) => return Err(Malformed::Short { what: WHAT }),
        };
        Ok(Self { compression, uncompressed, bytes })
    }

    /// The events of the transaction, in order.
    pub(crate) fn events(&self) -> Result<PayloadEvents<'a>, Malformed> {
        let stream = match self.compression {
            Compression::None => Stream::Plain(self.bytes),
            Compression::Zstd => {
                let decoder = zstd::stream::read::Decoder::with_buffer(self.bytes)
                    .map_err(|_| Malformed::Compression { what: WHAT })?;
                Stream::Zstd(BufReader::with_capacity(64 << 10, decoder))
            }
        };
        Ok(PayloadEvents { stream, left: self.uncompressed, event: Vec::new(), failed: false })
    }
}

enum Stream<'a> {
    Plain(&'a [u8]),
    Zstd(BufReader<zstd::stream::read::Decoder<'static, &'a [u8]>>),
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(bytes) => bytes.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

/// Inner events of a [`Payload`], one at a time.
pub(crate) struct PayloadEvents<'a> {
    stream: Stream<'a>,
    /// Bytes of events that are still to come.
    left: u64,
    /// The body of the last event.
    event: Vec<u8>,
    failed: bool,
}

impl PayloadEvents<'_> {
    /// The next event's header and body; None after the last. After an error there is none.
    pub(crate) fn next(&mut self) -> Option<Result<(Header, &[u8]), Malformed>> {
        if self.failed {
            return None;
        }
        let next = self.read();
        self.failed = !matches!(next, Ok(Some(_)));
        match next {
            Ok(header) => header.map(|header| Ok((header, self.event.as_slice()))),
            Err(error) => Some(Err(error)),
        }
    }

    fn read(&mut self) -> Result<Option<Header>, Malformed> {
        if self.left == 0 {
            // The length is checked both ways: nothing may follow.
            return match self.stream.read(&mut [0]) {
                Ok(0) => Ok(None),
                Ok(bytes) => Err(Malformed::Long { what: WHAT, bytes }),
                Err(_) => Err(Malformed::Compression { what: WHAT }),
            };
        }
        let mut header = [0; Header::LENGTH];
        self.fill_exact(&mut header)?;
        let header = Header::parse(&header)?;
        let length = u64::from(header.size)
            .checked_sub(Header::LENGTH as u64)
            .filter(|length| *length <= self.left)
            .ok_or(Malformed::Value { what: "size of an event", value: header.size.into() })?;
        if length > EVENT_LIMIT {
            return Err(Malformed::TooLarge { what: WHAT, bytes: length });
        }
        if header.kind == kind::TRANSACTION_PAYLOAD {
            return Err(Malformed::Value { what: "kind of event inside a payload", value: header.kind.into() });
        }
        self.event.clear();
        // Grows as bytes come, so a length that lies costs nothing.
        let read = (&mut self.stream)
            .take(length)
            .read_to_end(&mut self.event)
            .map_err(|_| Malformed::Compression { what: WHAT })?;
        if read as u64 != length {
            return Err(Malformed::Short { what: WHAT });
        }
        self.left -= length;
        Ok(Some(header))
    }

    fn fill_exact(&mut self, buffer: &mut [u8]) -> Result<(), Malformed> {
        let length = buffer.len() as u64;
        self.left = self.left.checked_sub(length).ok_or(Malformed::Short { what: WHAT })?;
        self.stream.read_exact(buffer).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Malformed::Short { what: WHAT },
            _ => Malformed::Compression { what: WHAT },
        })
    }
}

impl std::fmt::Debug for PayloadEvents<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PayloadEvents").field("left", &self.left).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: u8, body: &[u8]) -> Vec<u8> {
        let size = u32::try_from(Header::LENGTH + body.len()).unwrap();
        let header = Header { timestamp: 1, kind, server_id: 1, size, log_pos: 0, flags: 0 };
        [&header.to_bytes(), body].concat()
    }

    fn payload(compression: u8, uncompressed: usize, bytes: &[u8]) -> Vec<u8> {
        let field = |field: u8, value: usize| {
            let value = u32::try_from(value).unwrap().to_le_bytes();
            vec![field, 4, 253, value[0], value[1], value[2]]
        };
        let compression = vec![2, 3, 252, compression, 0];
        [field(1, bytes.len()), compression, field(3, uncompressed), vec![0], bytes.to_vec()].concat()
    }

    /// Kinds of the inner events, and how it ended.
    fn read(body: &[u8]) -> Result<Vec<u8>, Malformed> {
        let payload = Payload::parse(body)?;
        let mut events = payload.events()?;
        let mut kinds = Vec::new();
        while let Some(next) = events.next() {
            kinds.push(next?.0.kind);
        }
        assert!(events.next().is_none(), "nothing comes after the end");
        Ok(kinds)
    }

    #[test]
    fn lengths_are_checked_both_ways() {
        let events = [event(2, b"query"), event(16, &vec![7; 100_000])].concat();
        let length = events.len();
        let zstd = zstd::encode_all(events.as_slice(), 3).unwrap();
        let nested = event(kind::TRANSACTION_PAYLOAD, b"");
        let mut lying = events.clone();
        // The size in the first header.
        lying[9] = 200;
        for (body, expected) in [
            (payload(0, length, &zstd), Some(vec![2, 16])),
            (payload(255, length, &events), Some(vec![2, 16])),
            (payload(0, 0, &zstd::encode_all(&b""[..], 3).unwrap()), Some(vec![])),
            (payload(0, length - 1, &zstd), None),
            (payload(0, length + 1, &zstd), None),
            (payload(0, length + 100, &zstd), None),
            (payload(0, 24, &zstd), None),
            (payload(0, length, &zstd[..zstd.len() - 4]), None),
            (payload(0, length, b"not compressed"), None),
            (payload(255, length, &events[..length - 1]), None),
            (payload(7, length, &events), None),
            (payload(255, nested.len(), &nested), None),
            (payload(255, length, &lying), None),
            (vec![], None),
            (vec![0], None),
            (b"\x01\x01\x05\x02\x01\x00\x00".to_vec(), None),
        ] {
            let found = read(&body);
            assert_eq!(found.as_ref().ok(), expected.as_ref(), "{:02x?}.. gave {found:?}", body.get(..20));
        }
        // Bytes behind the payload.
        let mut longer = payload(255, length, &events);
        longer.push(0);
        assert!(read(&longer).is_err());
    }
}

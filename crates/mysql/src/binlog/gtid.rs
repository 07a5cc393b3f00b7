//! Transaction identifiers in the log: MySQL's three events and the set that begins a file, MariaDB's event and list.

use calve_core::{GtidInterval, GtidSet, GtidSource, MariaDbGtid};
use uuid::Uuid;

use super::event::Xid;
use super::wire::{Malformed, Reader};

/// The beginning of a transaction in MySQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gtid {
    /// None for an anonymous transaction (`gtid_mode` off).
    pub(crate) id: Option<(GtidSource, u64)>,
    /// Microseconds since 1970-01-01 UTC, by the clock of the server that committed it first; 0 before MySQL 8.0.1.
    pub(crate) original_commit_us: u64,
    /// As above, by the clock of the server that is read.
    pub(crate) immediate_commit_us: u64,
    /// Bytes of the whole transaction in the log, this event included; 0 where it was not written (before MySQL 8.0.2).
    pub(crate) transaction_length: u64,
}

const GTID: &str = "a GTID event";
/// Bit of the immediate timestamp that says that the original one follows (`ENCODED_COMMIT_TIMESTAMP_LENGTH`).
const ORIGINAL_TIMESTAMP_FOLLOWS: u64 = 1 << 55;

impl Gtid {
    /// `GTID_LOG_EVENT` and `ANONYMOUS_GTID_LOG_EVENT`.
    pub(super) fn parse(body: &[u8], anonymous: bool) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, GTID);
        let _flags = reader.u8()?;
        let server = Uuid::from_bytes(reader.array()?);
        let number = reader.u64()?;
        let id = if anonymous { None } else { Some((GtidSource::server(server), transaction_number(number)?)) };
        let mut gtid = Self { id, original_commit_us: 0, immediate_commit_us: 0, transaction_length: 0 };
        // Each part that follows came with a later version of the server.
        if reader.is_empty() {
            return Ok(gtid);
        }
        let clock = reader.u8()?;
        if clock != 2 {
            return Err(Malformed::Value { what: "type of a logical clock", value: clock.into() });
        }
        let _last_committed_and_sequence_number = reader.array::<16>()?;
        if reader.is_empty() {
            return Ok(gtid);
        }
        let immediate = reader.uint(7)?;
        gtid.immediate_commit_us = immediate & !ORIGINAL_TIMESTAMP_FOLLOWS;
        gtid.original_commit_us = match immediate & ORIGINAL_TIMESTAMP_FOLLOWS {
            0 => gtid.immediate_commit_us,
            _ => reader.uint(7)?,
        };
        if !reader.is_empty() {
            gtid.transaction_length = reader.packed()?;
        }
        // Server versions and the commit group's ticket follow: nothing that rows depend on.
        Ok(gtid)
    }

    /// `GTID_TAGGED_LOG_EVENT`: a message of the server's own serialization library (`libs/mysql/serialization/readme.md`).
    /// Fields come as their number and value, in the order of their numbers; optional ones may be missing.
    pub(super) fn parse_tagged(body: &[u8]) -> Result<Self, Malformed> {
        let mut message = Serialized(Reader::new(body, GTID));
        let version = message.unsigned()?;
        if version != 1 {
            return Err(Malformed::Value { what: "serialization format that is understood", value: version });
        }
        let _size = message.unsigned()?;
        // One more than the last field that a reader must know.
        let must_know = message.unsigned()?;
        let mut server = None;
        let mut number = None;
        let mut tag = None;
        let mut gtid = Self { id: None, original_commit_us: 0, immediate_commit_us: 0, transaction_length: 0 };
        let mut original = None;
        while !message.0.is_empty() {
            match message.unsigned()? {
                // Flags of the transaction; last committed, sequence number: for parallel appliers. Server versions.
                0 | 9 | 10 | 11 => {
                    message.unsigned()?;
                }
                1 => {
                    let mut uuid = [0; 16];
                    for byte in &mut uuid {
                        let value = message.unsigned()?;
                        *byte = u8::try_from(value).map_err(|_| Malformed::Value { what: "byte of a UUID", value })?;
                    }
                    server = Some(Uuid::from_bytes(uuid));
                }
                2 => number = Some(message.signed()?),
                3 => tag = Some(message.text()?),
                4 | 5 => {
                    message.signed()?;
                }
                6 => gtid.immediate_commit_us = message.unsigned()?,
                7 => original = Some(message.unsigned()?),
                8 => gtid.transaction_length = message.unsigned()?,
                field if field < must_know => {
                    return Err(Malformed::Value { what: "field of a GTID that is understood", value: field });
                }
                // Without its definition its end cannot be found, and all that is needed came before it.
                _ => break,
            }
        }
        gtid.original_commit_us = original.unwrap_or(gtid.immediate_commit_us);
        let (Some(server), Some(number), Some(tag)) = (server, number, tag) else {
            return Err(Malformed::Short { what: GTID });
        };
        gtid.id = Some((source(server, tag)?, transaction_number(number.cast_unsigned())?));
        Ok(gtid)
    }
}

/// Numbers are from 1 up to `GNO_END`, which is none any more. Another could not be read again from a position's text.
fn transaction_number(number: u64) -> Result<u64, Malformed> {
    if (1..i64::MAX.cast_unsigned()).contains(&number) { Ok(number) } else { Err(bad_number(number)) }
}

fn bad_number(value: u64) -> Malformed {
    Malformed::Value { what: "transaction number", value }
}

fn source(server: Uuid, tag: &str) -> Result<GtidSource, Malformed> {
    if tag.is_empty() {
        return Ok(GtidSource::server(server));
    }
    GtidSource::tagged(server, tag).ok_or(Malformed::Name { what: GTID })
}

/// A message of `mysql::serialization`. Integers are of variable length: as many ones at the low end of the first byte as
/// bytes follow, then the value, little-endian; the sign of signed ones is their lowest bit.
struct Serialized<'a>(Reader<'a>);

impl<'a> Serialized<'a> {
    fn unsigned(&mut self) -> Result<u64, Malformed> {
        let first = self.0.u8()?;
        let more = first.trailing_ones();
        let high = self.0.uint(more as usize)?;
        Ok(match more {
            7.. => high,
            _ => high << (7 - more) | u64::from(first >> (more + 1)),
        })
    }

    fn signed(&mut self) -> Result<i64, Malformed> {
        let value = self.unsigned()?;
        let magnitude = (value >> 1).cast_signed();
        Ok(if value & 1 == 1 { !magnitude } else { magnitude })
    }

    fn text(&mut self) -> Result<&'a str, Malformed> {
        let length = self.unsigned()?;
        let bytes = self.0.take_u64(length)?;
        self.0.utf8(bytes)
    }
}

/// `PREVIOUS_GTIDS_LOG_EVENT`: what was executed before the file begins (`Gtid_set::encode`).
pub(crate) fn previous_gtids(body: &[u8]) -> Result<GtidSet, Malformed> {
    let mut reader = Reader::new(body, "a set of previous GTIDs");
    let header = reader.u64()?;
    // With tags the first and the last byte are 1 and the count lies between them.
    let tagged = header >> 56 == 1;
    let sources = if tagged { header >> 8 & 0xffff_ffff_ffff } else { header };
    let mut set = GtidSet::default();
    for _ in 0..sources {
        let server = Uuid::from_bytes(reader.array()?);
        let source = if tagged {
            let mut message = Serialized(reader);
            let tag = message.text()?;
            reader = message.0;
            source(server, tag)?
        } else {
            GtidSource::server(server)
        };
        for _ in 0..reader.u64()? {
            let (start, end) = (reader.u64()?, reader.u64()?);
            if start == 0 || start >= end || end > i64::MAX.cast_unsigned() {
                return Err(bad_number(start));
            }
            set.add(&source, GtidInterval { start, end });
        }
    }
    reader.end()?;
    Ok(set)
}

/// The beginning of a transaction, or of a statement that is one by itself, in MariaDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MariaGtid<'a> {
    pub(crate) domain: u32,
    pub(crate) gtid: MariaDbGtid,
    /// No COMMIT follows: one statement, or an event group of one event (`FL_STANDALONE`).
    pub(crate) standalone: bool,
    /// It can be rolled back (`FL_TRANSACTIONAL`).
    pub(crate) transactional: bool,
    /// Its statement is DDL (`FL_DDL`); where it is not also `standalone`, of rows as well (CREATE TABLE .. SELECT).
    pub(crate) ddl: bool,
    pub(crate) commit_id: Option<u64>,
    pub(crate) xa: Option<MariaXa<'a>>,
    /// Phase of an ALTER that is logged in two (`binlog_alter_two_phase`).
    pub(crate) alter: Option<MariaAlter>,
}

/// What the transaction is to a distributed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MariaXa<'a> {
    /// The rows of this one, up to its PREPARE.
    Prepared(Xid<'a>),
    /// Its COMMIT or ROLLBACK.
    Completed(Xid<'a>),
}

/// Phase of a two-phase ALTER. Only a `Commit` changes the table; the number is that of its `Start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MariaAlter {
    Start,
    Commit(u64),
    Rollback(u64),
}

impl<'a> MariaGtid<'a> {
    /// `GTID_EVENT` (`Gtid_log_event`): the server's number stands in the header.
    pub(super) fn parse(body: &'a [u8], server: u32) -> Result<Self, Malformed> {
        const STANDALONE: u8 = 1;
        const GROUP_COMMIT_ID: u8 = 2;
        const TRANSACTIONAL: u8 = 4;
        const DDL: u8 = 32;
        const PREPARED_XA: u8 = 64;
        const COMPLETED_XA: u8 = 128;
        const EXTRA_MULTI_ENGINE: u8 = 1;
        const EXTRA_START_ALTER: u8 = 2;
        const EXTRA_COMMIT_ALTER: u8 = 4;
        const EXTRA_ROLLBACK_ALTER: u8 = 8;

        let mut reader = Reader::new(body, GTID);
        let sequence = reader.u64()?;
        // The server counts from 1: 0 in `gtid_seq_no` asks it for the next (`MYSQL_BIN_LOG::write_gtid_event`).
        if sequence == 0 {
            return Err(bad_number(sequence));
        }
        let domain = reader.u32()?;
        let flags = reader.u8()?;
        let commit_id = if flags & GROUP_COMMIT_ID != 0 { Some(reader.u64()?) } else { None };
        let xa = if flags & (PREPARED_XA | COMPLETED_XA) != 0 {
            let format = reader.u32()?;
            let (global, branch) = (reader.u8()?, reader.u8()?);
            let xid = Xid { format, global: reader.take(global.into())?, branch: reader.take(branch.into())? };
            Some(if flags & PREPARED_XA != 0 { MariaXa::Prepared(xid) } else { MariaXa::Completed(xid) })
        } else {
            None
        };
        // Zeros pad the event to its minimal length, so what follows is a byte of flags or nothing.
        let extra = if reader.is_empty() { 0 } else { reader.u8()? };
        if extra & EXTRA_MULTI_ENGINE != 0 {
            reader.u8()?;
        }
        let alter = match extra {
            _ if extra & EXTRA_START_ALTER != 0 => Some(MariaAlter::Start),
            _ if extra & EXTRA_COMMIT_ALTER != 0 => Some(MariaAlter::Commit(reader.u64()?)),
            _ if extra & EXTRA_ROLLBACK_ALTER != 0 => Some(MariaAlter::Rollback(reader.u64()?)),
            _ => None,
        };
        Ok(Self {
            domain,
            gtid: MariaDbGtid { server, sequence },
            standalone: flags & STANDALONE != 0,
            transactional: flags & TRANSACTIONAL != 0,
            ddl: flags & DDL != 0,
            commit_id,
            xa,
            alter,
        })
    }
}

/// `GTID_LIST_EVENT`: the last transaction of every domain and server before the file begins, by domain.
pub(super) fn gtid_list(body: &[u8]) -> Result<Vec<(u32, MariaDbGtid)>, Malformed> {
    let mut reader = Reader::new(body, "a list of GTIDs");
    // The high bits are flags.
    let count = reader.u32()? & 0x0fff_ffff;
    let mut list = Vec::new();
    for _ in 0..count {
        let domain = reader.u32()?;
        let server = reader.u32()?;
        list.push((domain, MariaDbGtid { server, sequence: reader.u64()? }));
    }
    // An empty list is filled up to 6 bytes, for the sake of servers of old (`Gtid_list_log_event::write`).
    if !list.is_empty() {
        reader.end()?;
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_may_be_empty() {
        assert_eq!(gtid_list(&[0; 6]), Ok(vec![]));
        assert_eq!(gtid_list(&[0, 0, 0, 0xf0, 0, 0]), Ok(vec![]));
        let one = [1, 0, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(gtid_list(&one), Ok(vec![(5, MariaDbGtid { server: 7, sequence: 9 })]));
        assert!(gtid_list(&one[..19]).is_err());
        assert!(gtid_list(&[&one[..], &[0]].concat()).is_err());
    }

    /// A position with another number could be written, and not be read again.
    #[test]
    fn transactions_are_numbered_from_one() {
        let event = |number: u64| [&[0][..], &[7; 16], &number.to_le_bytes()].concat();
        let tagged = |number: &[u8]| [&[2, 54, 6, 2][..], &[14; 16], &[4], number, &[6, 0]].concat();
        for (number, serialized, accepted) in [
            (0, &[0][..], false),
            (1, &[4], true),
            (i64::MAX.cast_unsigned() - 1, &[0xff, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], true),
            (i64::MAX.cast_unsigned(), &[0xff, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], false),
            (u64::MAX, &[2], false),
        ] {
            let id = |parsed: Result<Gtid, Malformed>| parsed.ok().and_then(|gtid| gtid.id).map(|(_, number)| number);
            let expected = accepted.then_some(number);
            assert_eq!(id(Gtid::parse(&event(number), false)), expected, "{number}");
            assert_eq!(id(Gtid::parse_tagged(&tagged(serialized))), expected, "{number}");
            // An anonymous one has no number at all.
            assert_eq!(Gtid::parse(&event(number), true).map(|gtid| gtid.id), Ok(None));
        }
        let maria = |number: u64| [number.to_le_bytes().as_slice(), &[0; 5]].concat();
        assert!(MariaGtid::parse(&maria(0), 1).is_err());
        assert_eq!(MariaGtid::parse(&maria(1), 1).map(|gtid| gtid.gtid.sequence), Ok(1));
    }

    /// Every width of the integers of `mysql::serialization`, from its definition: `n` ones, a zero, the value.
    #[test]
    fn serialized_integers_are_read_in_every_width() {
        for (bytes, unsigned, signed) in [
            (&[0][..], 0, 0),
            (&[0b1111_1110], 127, -64),
            (&[0b0000_0001, 2], 128, 64),
            (&[0b1111_1101, 0xff], 16_383, -8192),
            (&[0b1111_1011, 0xff, 0xff], (1 << 21) - 1, -(1 << 20)),
            (&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], (1 << 56) - 1, -(1 << 55)),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], u64::MAX, i64::MIN),
            (&[0xff, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], u64::MAX - 1, i64::MAX),
        ] {
            let read = || Serialized(Reader::new(bytes, "a test"));
            assert_eq!(read().unsigned(), Ok(unsigned), "{bytes:02x?}");
            assert_eq!(read().signed(), Ok(signed), "{bytes:02x?}");
            let mut short = Serialized(Reader::new(&bytes[..bytes.len() - 1], "a test"));
            assert!(short.unsigned().is_err(), "{bytes:02x?}");
        }
    }
}

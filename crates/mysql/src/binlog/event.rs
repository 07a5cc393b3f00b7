//! One event, taken apart. Every kind of event that MySQL and MariaDB write has its arm in [`parse`]; what is not known
//! and not marked as ignorable is refused, because skipping it could lose rows.
//!
//! MySQL: `libs/mysql/binlog/event/binlog_event.h`; MariaDB: `sql/log_event.h`.

use std::borrow::Cow;

use calve_core::{GtidSet, MariaDbGtid};

use super::Flavour;
use super::gtid::{self, Gtid, MariaGtid};
use super::payload::Payload;
use super::query::Query;
use super::rows::RowsEvent;
use super::table_map::TableMap;
use super::wire::{Malformed, Reader};

/// Numbers of the kinds of events.
pub(crate) mod kind {
    pub(crate) const QUERY: u8 = 2;
    pub(crate) const STOP: u8 = 3;
    pub(crate) const ROTATE: u8 = 4;
    pub(crate) const INTVAR: u8 = 5;
    pub(crate) const LOAD: u8 = 6;
    pub(crate) const CREATE_FILE: u8 = 8;
    pub(crate) const APPEND_BLOCK: u8 = 9;
    pub(crate) const EXEC_LOAD: u8 = 10;
    pub(crate) const DELETE_FILE: u8 = 11;
    pub(crate) const NEW_LOAD: u8 = 12;
    pub(crate) const RAND: u8 = 13;
    pub(crate) const USER_VAR: u8 = 14;
    pub(crate) const FORMAT_DESCRIPTION: u8 = 15;
    pub(crate) const XID: u8 = 16;
    pub(crate) const BEGIN_LOAD_QUERY: u8 = 17;
    pub(crate) const EXECUTE_LOAD_QUERY: u8 = 18;
    pub(crate) const TABLE_MAP: u8 = 19;
    pub(crate) const WRITE_ROWS_V1: u8 = 23;
    pub(crate) const UPDATE_ROWS_V1: u8 = 24;
    pub(crate) const DELETE_ROWS_V1: u8 = 25;
    pub(crate) const INCIDENT: u8 = 26;
    pub(crate) const HEARTBEAT: u8 = 27;
    pub(crate) const IGNORABLE: u8 = 28;
    pub(crate) const ROWS_QUERY: u8 = 29;
    pub(crate) const WRITE_ROWS: u8 = 30;
    pub(crate) const UPDATE_ROWS: u8 = 31;
    pub(crate) const DELETE_ROWS: u8 = 32;
    pub(crate) const GTID: u8 = 33;
    pub(crate) const ANONYMOUS_GTID: u8 = 34;
    pub(crate) const PREVIOUS_GTIDS: u8 = 35;
    pub(crate) const TRANSACTION_CONTEXT: u8 = 36;
    pub(crate) const VIEW_CHANGE: u8 = 37;
    pub(crate) const XA_PREPARE: u8 = 38;
    pub(crate) const PARTIAL_UPDATE_ROWS: u8 = 39;
    pub(crate) const TRANSACTION_PAYLOAD: u8 = 40;
    pub(crate) const HEARTBEAT_V2: u8 = 41;
    pub(crate) const GTID_TAGGED: u8 = 42;
    pub(crate) const MARIA_ANNOTATE_ROWS: u8 = 160;
    pub(crate) const MARIA_BINLOG_CHECKPOINT: u8 = 161;
    pub(crate) const MARIA_GTID: u8 = 162;
    pub(crate) const MARIA_GTID_LIST: u8 = 163;
    pub(crate) const MARIA_START_ENCRYPTION: u8 = 164;
    pub(crate) const MARIA_QUERY_COMPRESSED: u8 = 165;
    pub(crate) const MARIA_WRITE_ROWS_COMPRESSED_V1: u8 = 166;
    pub(crate) const MARIA_UPDATE_ROWS_COMPRESSED_V1: u8 = 167;
    pub(crate) const MARIA_DELETE_ROWS_COMPRESSED_V1: u8 = 168;
    pub(crate) const MARIA_WRITE_ROWS_COMPRESSED: u8 = 169;
    pub(crate) const MARIA_UPDATE_ROWS_COMPRESSED: u8 = 170;
    pub(crate) const MARIA_DELETE_ROWS_COMPRESSED: u8 = 171;
}

/// Header flags.
pub(crate) mod flag {
    /// The file is being written to, or its server died; only on its first event.
    pub(crate) const BINLOG_IN_USE: u16 = 0x01;
    /// Not in the file: made by the server for this reader.
    pub(crate) const ARTIFICIAL: u16 = 0x20;
    /// A reader that does not know the event may go on without it.
    pub(crate) const IGNORABLE: u16 = 0x80;
}

/// What every event begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Seconds since 1970-01-01 UTC; 0 in events that the server made for this reader.
    pub(crate) timestamp: u32,
    /// See [`kind`].
    pub(crate) kind: u8,
    pub(crate) server_id: u32,
    /// Bytes of the event, with header and checksum.
    pub(crate) size: u32,
    /// The low 32 bits of where the event ends in its file. 0 inside a payload.
    pub(crate) log_pos: u32,
    /// See [`flag`].
    pub(crate) flags: u16,
}

impl Header {
    /// Bytes of a header.
    pub(crate) const LENGTH: usize = 19;

    /// From the first bytes of an event.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, "an event's header");
        Ok(Self {
            timestamp: reader.u32()?,
            kind: reader.u8()?,
            server_id: reader.u32()?,
            size: reader.u32()?,
            log_pos: reader.u32()?,
            flags: reader.u16()?,
        })
    }

    /// As the event begins on the wire.
    pub(crate) fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let fields: [&[u8]; 6] = [
            &self.timestamp.to_le_bytes(),
            &[self.kind],
            &self.server_id.to_le_bytes(),
            &self.size.to_le_bytes(),
            &self.log_pos.to_le_bytes(),
            &self.flags.to_le_bytes(),
        ];
        for (to, from) in bytes.iter_mut().zip(fields.into_iter().flatten()) {
            *to = *from;
        }
        bytes
    }

    /// Whether the server made the event for this reader.
    pub(crate) fn is_artificial(self) -> bool {
        self.flags & flag::ARTIFICIAL != 0
    }
}

/// Checks an event against the CRC32 behind it. `body` is without the checksum, with everything else.
///
/// The flag that says that a file is in use is left out of the sum: it is set and cleared in place.
pub(crate) fn verify_checksum(header: Header, body: &[u8], found: u32) -> Result<(), Malformed> {
    let computed = checksum(header, body);
    if computed == found { Ok(()) } else { Err(Malformed::Checksum { found, computed }) }
}

fn checksum(header: Header, body: &[u8]) -> u32 {
    let mut summed = header;
    if header.kind == kind::FORMAT_DESCRIPTION {
        summed.flags &= !flag::BINLOG_IN_USE;
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(&summed.to_bytes());
    crc.update(body);
    crc.finalize()
}

/// How the events after a format description end.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checksums {
    Off,
    Crc32,
}

/// What a whole format description event, header and checksum left out of `body` and the algorithm's byte in it, says of the
/// checksums of events that follow. The description itself has a checksum either way.
#[cfg(test)]
pub(crate) fn checksums(body: &[u8]) -> Result<Checksums, Malformed> {
    match body.last() {
        Some(0) => Ok(Checksums::Off),
        Some(1) => Ok(Checksums::Crc32),
        Some(other) => Err(Malformed::Value { what: "checksum algorithm", value: (*other).into() }),
        None => Err(Malformed::Short { what: "a format description" }),
    }
}

/// An event.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    FormatDescription(FormatDescription<'a>),
    /// What follows is in this file, from this offset on.
    Rotate {
        file: &'a str,
        position: u64,
    },
    Gtid(Gtid),
    MariaGtid(MariaGtid<'a>),
    /// MySQL: what was executed before the file begins.
    #[cfg_attr(not(test), expect(dead_code, reason = "looked at in captured logs only"))]
    PreviousGtids(GtidSet),
    /// MariaDB: the last transaction of every domain and server before the file begins.
    #[cfg_attr(not(test), expect(dead_code, reason = "looked at in captured logs only"))]
    GtidList(Vec<(u32, MariaDbGtid)>),
    /// A statement as text: DDL, BEGIN, COMMIT, XA.
    Query(Query<'a>),
    /// COMMIT of a transaction.
    Xid,
    XaPrepare(XaPrepare<'a>),
    TableMap(TableMap<'a>),
    Rows(RowsEvent<'a>),
    /// Events of one transaction, compressed.
    Payload(Payload<'a>),
    /// The log was read up to here and nothing is there.
    Heartbeat {
        file: &'a str,
        position: u64,
    },
    /// The server was shut down.
    Stop,
    /// The log may lack changes.
    Incident {
        number: u16,
        message: &'a [u8],
    },
    /// Part of a change that was logged as a statement, which no row can be had from.
    Statement(StatementPart),
    /// Nothing that rows or positions depend on, of this kind.
    Aside(u8),
}

/// The first event of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FormatDescription<'a> {
    pub(crate) server_version: &'a str,
    /// Seconds since 1970-01-01 UTC when the server was started, on the first file after that; 0 on others.
    pub(crate) created: u32,
    /// Seconds since 1970-01-01 UTC when the file was begun.
    pub(crate) timestamp: u32,
}

/// What identifies a distributed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Xid<'a> {
    pub(crate) format: u32,
    /// `gtrid`.
    pub(crate) global: &'a [u8],
    /// `bqual`.
    pub(crate) branch: &'a [u8],
}

/// The end of a distributed transaction's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct XaPrepare<'a> {
    /// `XA COMMIT .. ONE PHASE`: committed at once.
    pub(crate) one_phase: bool,
    pub(crate) xid: Xid<'a>,
}

/// Events that only a change logged as a statement has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatementPart {
    /// `LAST_INSERT_ID` or `INSERT_ID`.
    IntVar,
    Rand,
    UserVar,
    /// `LOAD DATA INFILE`, in whichever of its pieces.
    LoadData,
}

/// Takes an event apart. `body` is what follows the header, without the checksum.
pub(crate) fn parse<'a>(flavour: Flavour, header: &Header, body: &'a [u8]) -> Result<Event<'a>, Malformed> {
    let whole = |what| Reader::new(body, what);
    Ok(match header.kind {
        kind::FORMAT_DESCRIPTION => Event::FormatDescription(format_description(header, body)?),
        kind::ROTATE => rotate(header, body)?,
        kind::QUERY => Event::Query(Query::parse(flavour, body)?),
        kind::XID => {
            whole("an XID event").u64()?;
            Event::Xid
        }
        kind::XA_PREPARE => Event::XaPrepare(xa_prepare(body)?),
        kind::TABLE_MAP => Event::TableMap(TableMap::parse(flavour, body)?),
        kind::WRITE_ROWS_V1..=kind::DELETE_ROWS_V1 | kind::WRITE_ROWS..=kind::DELETE_ROWS => {
            Event::Rows(RowsEvent::parse(header.kind, body)?)
        }
        kind::HEARTBEAT => heartbeat(flavour, header, body)?,
        kind::STOP => Event::Stop,
        kind::INCIDENT => {
            let mut reader = whole("an incident event");
            let number = reader.u16()?;
            let length = reader.u8()?;
            Event::Incident { number, message: reader.take(length.into())? }
        }
        kind::INTVAR => Event::Statement(StatementPart::IntVar),
        kind::RAND => Event::Statement(StatementPart::Rand),
        kind::USER_VAR => Event::Statement(StatementPart::UserVar),
        kind::LOAD
        | kind::CREATE_FILE
        | kind::APPEND_BLOCK
        | kind::EXEC_LOAD
        | kind::DELETE_FILE
        | kind::NEW_LOAD
        | kind::BEGIN_LOAD_QUERY
        | kind::EXECUTE_LOAD_QUERY => Event::Statement(StatementPart::LoadData),
        // The statement behind the rows, for readers of the log. Contexts and views are for members of a group.
        kind::IGNORABLE | kind::ROWS_QUERY => Event::Aside(header.kind),
        _ => match flavour {
            Flavour::MySql => mysql(header, body)?,
            Flavour::MariaDb => mariadb(header, body)?,
        },
    })
}

fn mysql<'a>(header: &Header, body: &'a [u8]) -> Result<Event<'a>, Malformed> {
    Ok(match header.kind {
        kind::GTID => Event::Gtid(Gtid::parse(body, false)?),
        kind::ANONYMOUS_GTID => Event::Gtid(Gtid::parse(body, true)?),
        kind::GTID_TAGGED => Event::Gtid(Gtid::parse_tagged(body)?),
        kind::PREVIOUS_GTIDS => Event::PreviousGtids(gtid::previous_gtids(body)?),
        kind::PARTIAL_UPDATE_ROWS => Event::Rows(RowsEvent::parse(header.kind, body)?),
        kind::TRANSACTION_PAYLOAD => Event::Payload(Payload::parse(body)?),
        kind::HEARTBEAT_V2 => heartbeat_v2(body)?,
        kind::TRANSACTION_CONTEXT | kind::VIEW_CHANGE => Event::Aside(header.kind),
        _ => unknown(header)?,
    })
}

fn mariadb<'a>(header: &Header, body: &'a [u8]) -> Result<Event<'a>, Malformed> {
    Ok(match header.kind {
        kind::MARIA_GTID => Event::MariaGtid(MariaGtid::parse(body, header.server_id)?),
        kind::MARIA_GTID_LIST => Event::GtidList(gtid::gtid_list(body)?),
        kind::MARIA_ANNOTATE_ROWS | kind::MARIA_BINLOG_CHECKPOINT => Event::Aside(header.kind),
        kind::MARIA_QUERY_COMPRESSED => Event::Query(Query::parse_compressed(body)?),
        kind::MARIA_WRITE_ROWS_COMPRESSED_V1..=kind::MARIA_DELETE_ROWS_COMPRESSED => {
            Event::Rows(RowsEvent::parse(header.kind, body)?)
        }
        // A server decrypts what it sends, and marks what is left of the encryption as ignorable.
        kind::MARIA_START_ENCRYPTION if header.flags & flag::IGNORABLE == 0 => return Err(Malformed::Encrypted),
        _ => unknown(header)?,
    })
}

fn unknown(header: &Header) -> Result<Event<'static>, Malformed> {
    if header.flags & flag::IGNORABLE == 0 { Err(Malformed::Kind(header.kind)) } else { Ok(Event::Aside(header.kind)) }
}

/// The tail (lengths of post-headers, the checksum's algorithm) is left alone: all servers since MySQL 5.0 agree on the
/// lengths, and transports differ in what of the tail they pass on.
fn format_description<'a>(header: &Header, body: &'a [u8]) -> Result<FormatDescription<'a>, Malformed> {
    let mut reader = Reader::new(body, "a format description");
    let version = reader.u16()?;
    if version != 4 {
        return Err(Malformed::Value { what: "version of the binary log that is understood", value: version.into() });
    }
    let server_version = reader.take(50)?;
    let server_version = server_version.split(|byte| *byte == 0).next().unwrap_or_default();
    let server_version = reader.utf8(server_version)?;
    let created = reader.u32()?;
    let header_length = reader.u8()?;
    if usize::from(header_length) != Header::LENGTH {
        return Err(Malformed::Value {
            what: "length of event headers that is understood",
            value: header_length.into(),
        });
    }
    Ok(FormatDescription { server_version, created, timestamp: header.timestamp })
}

/// The first rotation that MariaDB makes up for a reader ends with a checksum before any event said that there are
/// checksums, so it may still be behind the name.
fn rotate<'a>(header: &Header, body: &'a [u8]) -> Result<Event<'a>, Malformed> {
    let body = match body.split_last_chunk::<4>() {
        Some((rest, sum)) if header.is_artificial() && checksum(*header, rest) == u32::from_le_bytes(*sum) => rest,
        _ => body,
    };
    let mut reader = Reader::new(body, "a rotation");
    let position = file_offset(reader.u64()?)?;
    Ok(Event::Rotate { file: file_name(reader.rest())?, position })
}

/// Names of log files end in a number, which orders them (`MYSQL_BIN_LOG::find_uniq_filename`). A position with another name
/// could be written, and not be read again.
fn file_name(bytes: &[u8]) -> Result<&str, Malformed> {
    const WHAT: &str = "the name of a log file";
    let name = std::str::from_utf8(bytes).map_err(|_| Malformed::Name { what: WHAT })?;
    let numbered =
        |(_, number): (&str, &str)| number.bytes().all(|digit| digit.is_ascii_digit()) && number.parse::<u64>().is_ok();
    match name {
        "" => Err(Malformed::Short { what: WHAT }),
        _ if name.rsplit_once('.').is_some_and(numbered) => Ok(name),
        _ => Err(Malformed::Other(format!("{WHAT} does not end in its number: {name:?}"))),
    }
}

/// Servers count bytes of files in signed numbers, so that there is room behind every offset.
fn file_offset(offset: u64) -> Result<u64, Malformed> {
    match i64::try_from(offset) {
        Ok(_) => Ok(offset),
        Err(_) => Err(Malformed::TooLarge { what: "a log file", bytes: offset }),
    }
}

/// MySQL knows positions up to 4 GiB here. MariaDB writes larger ones before the name, and 0 into the header.
fn heartbeat<'a>(flavour: Flavour, header: &Header, body: &'a [u8]) -> Result<Event<'a>, Malformed> {
    let mut reader = Reader::new(body, "a heartbeat");
    let position = match (flavour, header.log_pos) {
        (Flavour::MariaDb, 0) => file_offset(reader.u64()?)?,
        (_, position) => position.into(),
    };
    Ok(Event::Heartbeat { file: file_name(reader.rest())?, position })
}

/// Fields of a type, a length and a value, up to the type 0.
fn heartbeat_v2(body: &[u8]) -> Result<Event<'_>, Malformed> {
    let mut reader = Reader::new(body, "a heartbeat");
    let (mut file, mut position) = (None, None);
    loop {
        match reader.packed()? {
            0 => break,
            1 => file = Some(file_name(reader.packed_bytes()?)?),
            2 => position = Some(file_offset(Reader::new(reader.packed_bytes()?, "a heartbeat").packed()?)?),
            // Each field has its length so that readers can pass over those of later versions.
            _ => {
                reader.packed_bytes()?;
            }
        }
    }
    match (file, position) {
        (Some(file), Some(position)) => Ok(Event::Heartbeat { file, position }),
        _ => Err(Malformed::Short { what: "a heartbeat" }),
    }
}

fn xa_prepare(body: &[u8]) -> Result<XaPrepare<'_>, Malformed> {
    let mut reader = Reader::new(body, "an XA PREPARE event");
    let one_phase = reader.u8()? != 0;
    let format = reader.u32()?;
    let (global, branch) = (reader.u32()?, reader.u32()?);
    let xid = Xid { format, global: reader.take_u64(global.into())?, branch: reader.take_u64(branch.into())? };
    reader.end()?;
    Ok(XaPrepare { one_phase, xid })
}

/// Bytes that were compressed, or not.
pub(crate) type Bytes<'a> = Cow<'a, [u8]>;

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;

//! A statement in the log, with what of its session changes its meaning.
//!
//! The session comes as variables of a code and a value each (`Query_event`, table "Status variables"). A server that meets
//! a code it does not know stops reading them there, since codes come in rising order and later ones matter to later
//! versions only; so does this.

use std::borrow::Cow;

use super::Flavour;
use super::compressed;
use super::event::Bytes;
use super::wire::{Malformed, Reader};

const WHAT: &str = "a query event";

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query<'a> {
    /// The session's default database; empty for none.
    pub(crate) database: &'a str,
    /// In the character set of [`charset_client`](Self::charset_client).
    pub(crate) sql: Bytes<'a>,
    /// The error that the statement ended with on the server; 0 for none.
    pub(crate) error: u16,
    /// Bits of the session where they were sent: 26 = no checks of foreign keys, 27 = relaxed checks of unique keys
    /// (`OPTION_NO_FOREIGN_KEY_CHECKS`, `OPTION_RELAXED_UNIQUE_CHECKS`).
    pub(crate) flags: Option<u32>,
    /// Bits of `@@session.sql_mode`, where they were sent.
    pub(crate) sql_mode: Option<u64>,
    /// Collation id of `character_set_client`, where it was sent.
    pub(crate) charset_client: Option<u16>,
    /// MySQL: transaction number of an atomic DDL statement; MariaDB: of its two-phase ALTER.
    pub(crate) xid: Option<u64>,
}

impl<'a> Query<'a> {
    pub(super) fn parse(flavour: Flavour, body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, WHAT);
        let _thread_and_seconds = reader.u64()?;
        let database_length = reader.u8()?;
        let error = reader.u16()?;
        let session_length = reader.u16()?;
        let session = reader.take(session_length.into())?;
        let database = reader.text(database_length.into())?;
        let _zero = reader.u8()?;
        let mut query = Self {
            database,
            sql: Cow::Borrowed(reader.rest()),
            error,
            flags: None,
            sql_mode: None,
            charset_client: None,
            xid: None,
        };
        query.session(flavour, session)?;
        Ok(query)
    }

    /// MariaDB's `QUERY_COMPRESSED_EVENT`: the same with the statement's text compressed.
    pub(super) fn parse_compressed(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut query = Self::parse(Flavour::MariaDb, body)?;
        if let Cow::Borrowed(sql) = query.sql {
            query.sql = Cow::Owned(compressed::inflate_event(sql)?);
        }
        Ok(query)
    }

    fn session(&mut self, flavour: Flavour, bytes: &[u8]) -> Result<(), Malformed> {
        let mut reader = Reader::new(bytes, "the session of a query event");
        while !reader.is_empty() {
            match (reader.u8()?, flavour) {
                (0, _) => self.flags = Some(reader.u32()?),
                // Steps of AUTO_INCREMENT; length of the event on a former server.
                (3 | 10, _) => _ = reader.u32()?,
                (1, _) => self.sql_mode = Some(reader.u64()?),
                // The catalog, from servers of before 5.0.
                (2, _) => {
                    skip_text(&mut reader)?;
                    reader.u8()?;
                }
                (4, _) => {
                    self.charset_client = Some(reader.u16()?);
                    reader.u32()?;
                }
                // The time zone; the catalog.
                (5 | 6, _) => skip_text(&mut reader)?,
                // Names of days; the database's character set; MySQL: what utf8mb4 means without a collation.
                (7 | 8, _) | (18, Flavour::MySql) => _ = reader.u16()?,
                // Tables of a multi-table update.
                (9, _) => _ = reader.u64()?,
                // DEFINER.
                (11, _) => {
                    skip_text(&mut reader)?;
                    skip_text(&mut reader)?;
                }
                // Databases touched. 254 stands for too many to name.
                (12, _) => {
                    let count = reader.u8()?;
                    for _ in 0..if count == 254 { 0 } else { count } {
                        reader.until_zero()?;
                    }
                }
                // Microseconds of the timestamp.
                (13, _) | (128, Flavour::MariaDb) => _ = reader.array::<3>()?,
                (17, Flavour::MySql) | (129, Flavour::MariaDb) => self.xid = Some(reader.u64()?),
                // Defaults for timestamps, primary keys required, encryption of tables.
                (16 | 19 | 20, Flavour::MySql) => _ = reader.u8()?,
                _ => return Ok(()),
            }
        }
        Ok(())
    }
}

fn skip_text(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    let length = reader.u8()?;
    reader.take(length.into()).map(|_| ())
}

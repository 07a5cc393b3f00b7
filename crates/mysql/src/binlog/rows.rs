//! A row event: which table its rows are of, which columns they have, and the rows as bytes.

use std::borrow::Cow;

use super::compressed;
use super::event::{Bytes, kind};
use super::wire::{Bits, Malformed, Reader};

const WHAT: &str = "a row event";

/// What a row event does with its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowsKind {
    Insert,
    /// Each row before, then after.
    Update,
    Delete,
}

/// Rows of one table, changed by one statement or a part of it.
#[derive(Clone, Debug)]
pub(crate) struct RowsEvent<'a> {
    pub(crate) kind: RowsKind,
    /// Rows after an update may have documents as what changed in them (`binlog_row_value_options = PARTIAL_JSON`).
    pub(crate) partial: bool,
    /// That of the table's map.
    pub(crate) table_id: u64,
    /// The partition the rows are in, where the server said so; of an update: the one they come into.
    #[cfg_attr(not(test), expect(dead_code, reason = "looked at in captured logs only"))]
    pub(crate) partition: Option<u16>,
    pub(super) columns: usize,
    /// Columns that rows have (`binlog_row_image`): of an update the rows before.
    present: Bits<'a>,
    present_after: Bits<'a>,
    pub(super) rows: Bytes<'a>,
}

impl<'a> RowsEvent<'a> {
    /// Bytes of the rows, as they are when they were decompressed.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn parse(event: u8, body: &'a [u8]) -> Result<Self, Malformed> {
        // Number of the kind, whether there is extra data (version 2 of the events), whether the rows are compressed.
        let (kind, extra, compressed) = match event {
            kind::WRITE_ROWS_V1 => (RowsKind::Insert, false, false),
            kind::UPDATE_ROWS_V1 => (RowsKind::Update, false, false),
            kind::DELETE_ROWS_V1 => (RowsKind::Delete, false, false),
            kind::WRITE_ROWS => (RowsKind::Insert, true, false),
            kind::UPDATE_ROWS | kind::PARTIAL_UPDATE_ROWS => (RowsKind::Update, true, false),
            kind::DELETE_ROWS => (RowsKind::Delete, true, false),
            kind::MARIA_WRITE_ROWS_COMPRESSED_V1 => (RowsKind::Insert, false, true),
            kind::MARIA_UPDATE_ROWS_COMPRESSED_V1 => (RowsKind::Update, false, true),
            kind::MARIA_DELETE_ROWS_COMPRESSED_V1 => (RowsKind::Delete, false, true),
            kind::MARIA_WRITE_ROWS_COMPRESSED => (RowsKind::Insert, true, true),
            kind::MARIA_UPDATE_ROWS_COMPRESSED => (RowsKind::Update, true, true),
            kind::MARIA_DELETE_ROWS_COMPRESSED => (RowsKind::Delete, true, true),
            other => return Err(Malformed::Kind(other)),
        };
        let mut reader = Reader::new(body, WHAT);
        let table_id = reader.uint(6)?;
        let _flags = reader.u16()?;
        let mut partition = None;
        if extra {
            // The length counts itself.
            let length = reader.u16()?.checked_sub(2).ok_or(Malformed::Short { what: WHAT })?;
            let extra = Reader::new(reader.take(length.into())?, "the extra data of a row event");
            partition = extra_data(extra, kind)?;
        }
        let columns = reader.packed_usize()?;
        let present = reader.bits(columns)?;
        let present_after = if kind == RowsKind::Update { reader.bits(columns)? } else { present };
        let rows = if compressed && !reader.is_empty() {
            Cow::Owned(compressed::inflate_event(reader.rest())?)
        } else {
            Cow::Borrowed(reader.rest())
        };
        Ok(Self {
            kind,
            partial: event == kind::PARTIAL_UPDATE_ROWS,
            table_id,
            partition,
            columns,
            present,
            present_after,
            rows,
        })
    }

    /// Columns that rows before the change have; None: all of them.
    pub(super) fn before(&self) -> Option<Bits<'a>> {
        Some(self.present).filter(|present| !present.all(self.columns))
    }

    /// Columns that rows after the change have; None: all of them.
    pub(super) fn after(&self) -> Option<Bits<'a>> {
        Some(self.present_after).filter(|present| !present.all(self.columns))
    }

    /// An event that only ends a statement: it has no rows, and its table id names no table (`0xffffff`).
    pub(crate) fn is_dummy(&self) -> bool {
        self.table_id == 0x00ff_ffff
    }
}

/// Pieces of a type each: 0 = data of NDB (length, format, data), 1 = the partition, and of an update that from which.
fn extra_data(mut reader: Reader<'_>, kind: RowsKind) -> Result<Option<u16>, Malformed> {
    let mut partition = None;
    while !reader.is_empty() {
        match reader.u8()? {
            0 => {
                let length = reader.u8()?;
                let _format = reader.u8()?;
                let rest = length.checked_sub(2).ok_or(Malformed::Short { what: WHAT })?;
                reader.take(rest.into())?;
            }
            1 => {
                partition = Some(reader.u16()?);
                if kind == RowsKind::Update {
                    reader.u16()?;
                }
            }
            other => {
                return Err(Malformed::Value { what: "kind of extra data that is understood", value: other.into() });
            }
        }
    }
    Ok(partition)
}

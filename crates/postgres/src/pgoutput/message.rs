//! The messages, taken apart without copying. Whatever the bytes are, the result is a message or an error, never a panic.

/// Bytes that are no message of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("a {what} ends too early")]
    Short { what: &'static str },
    #[error("a {what} is followed by bytes that do not belong to it")]
    Long { what: &'static str },
    #[error("a name is not UTF-8")]
    Name,
    #[error("message type {0:#04x} is unknown")]
    Type(u8),
    #[error("{byte:#04x} is no {what}")]
    Byte { what: &'static str, byte: u8 },
    #[error("a transaction begins or ends within a segment of another")]
    Nested,
}

/// Reads big-endian fields off a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// `what` is named by errors.
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, what }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (field, rest) = self.bytes.split_first_chunk::<N>().ok_or(Malformed::Short { what: self.what })?;
        self.bytes = rest;
        Ok(*field)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_be_bytes(self.take()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_be_bytes(self.take()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_be_bytes(self.take()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(self.take()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_be_bytes(self.take()?))
    }

    /// As many bytes as the 4 before them say.
    pub(crate) fn counted(&mut self) -> Result<&'a [u8], Malformed> {
        let short = Malformed::Short { what: self.what };
        let length = usize::try_from(self.i32()?).map_err(|_| short)?;
        let (bytes, rest) = self.bytes.split_at_checked(length).ok_or(short)?;
        self.bytes = rest;
        Ok(bytes)
    }

    /// A text that ends with a zero byte.
    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        let end = self.bytes.iter().position(|byte| *byte == 0).ok_or(Malformed::Short { what: self.what })?;
        let (text, rest) = self.bytes.split_at(end);
        self.bytes = rest.get(1..).unwrap_or_default();
        std::str::from_utf8(text).map_err(|_| Malformed::Name)
    }

    pub(super) fn end(self) -> Result<(), Malformed> {
        if self.bytes.is_empty() { Ok(()) } else { Err(Malformed::Long { what: self.what }) }
    }
}

/// One message of pgoutput.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    Begin {
        /// Start of the commit record.
        commit_lsn: u64,
        /// Microseconds since 2000-01-01 UTC.
        committed_at: i64,
        xid: u32,
    },
    Commit {
        /// First byte after the commit record.
        end_lsn: u64,
        /// Microseconds since 2000-01-01 UTC.
        committed_at: i64,
    },
    Relation(Relation<'a>),
    Insert {
        relation: u32,
        new: Tuple<'a>,
    },
    Update {
        relation: u32,
        old: Option<OldTuple<'a>>,
        new: Tuple<'a>,
    },
    Delete {
        relation: u32,
        old: OldTuple<'a>,
    },
    Truncate(Truncate<'a>),
    /// A segment of a transaction in progress begins.
    StreamStart {
        xid: u32,
        /// Whether it is the transaction's first.
        first: bool,
    },
    /// A transaction is committed that was sent while it was in progress.
    StreamCommit {
        xid: u32,
        /// Start of the commit record.
        commit_lsn: u64,
        /// First byte after the commit record.
        end_lsn: u64,
        /// Microseconds since 2000-01-01 UTC.
        committed_at: i64,
    },
    /// A sub-transaction of one in progress is aborted; where both numbers are the same, all of it.
    StreamAbort {
        xid: u32,
        sub_xid: u32,
    },
    /// Origin, Type and Message: nothing that rows depend on.
    Aside,
}

/// The shape of a table, sent before the first row that has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relation<'a> {
    pub(crate) oid: u32,
    pub(crate) schema: &'a str,
    pub(crate) name: &'a str,
    /// `pg_class.relreplident`: d(efault), n(othing), f(ull), i(ndex).
    pub(crate) replica_identity: u8,
    columns: Reader<'a>,
    count: u16,
}

/// A column of a [`Relation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RelationColumn<'a> {
    /// Whether it is part of the replica identity.
    pub(crate) is_key: bool,
    pub(crate) name: &'a str,
    pub(crate) type_oid: u32,
    pub(crate) modifier: i32,
}

impl<'a> Relation<'a> {
    /// The columns that are sent, in the order in which rows have them.
    pub(crate) fn columns(&self) -> Result<Vec<RelationColumn<'a>>, Malformed> {
        let mut reader = self.columns;
        let mut columns = Vec::new();
        for _ in 0..self.count {
            columns.push(RelationColumn {
                is_key: reader.u8()? & 1 != 0,
                name: reader.text()?,
                type_oid: reader.u32()?,
                modifier: reader.i32()?,
            });
        }
        reader.end()?;
        Ok(columns)
    }
}

/// The tables that one TRUNCATE emptied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truncate<'a> {
    relations: Reader<'a>,
    count: u32,
}

impl Truncate<'_> {
    pub(crate) fn relations(&self) -> Result<Vec<u32>, Malformed> {
        let mut reader = self.relations;
        let mut relations = Vec::new();
        for _ in 0..self.count {
            relations.push(reader.u32()?);
        }
        reader.end()?;
        Ok(relations)
    }
}

/// What an update or delete says of the row before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OldTuple<'a> {
    /// Whether it is the whole row (REPLICA IDENTITY FULL); else only key columns hold values, all others read as NULL.
    pub(crate) full: bool,
    pub(crate) row: Tuple<'a>,
}

/// The cells of a row, not taken apart yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuple<'a> {
    columns: u16,
    cells: Reader<'a>,
}

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell<'a> {
    Null,
    /// A TOAST value that the update left alone and that is not sent for that reason.
    Unchanged,
    Text(&'a [u8]),
    Binary(&'a [u8]),
}

impl<'a> Tuple<'a> {
    fn start(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let columns = reader.u16()?;
        Ok(Self { columns, cells: *reader })
    }

    /// A tuple that others follow.
    fn skip(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let tuple = Self::start(reader)?;
        let mut cells = tuple.cells();
        for _ in 0..tuple.columns {
            cells.next()?;
        }
        *reader = cells.reader;
        Ok(tuple)
    }

    pub(crate) fn columns(&self) -> usize {
        usize::from(self.columns)
    }

    pub(crate) fn cells(&self) -> Cells<'a> {
        Cells { reader: self.cells }
    }
}

/// Walks the cells of a tuple.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cells<'a> {
    reader: Reader<'a>,
}

impl<'a> Cells<'a> {
    /// The next cell. The caller knows how many there are.
    pub(crate) fn next(&mut self) -> Result<Cell<'a>, Malformed> {
        match self.reader.u8()? {
            b'n' => Ok(Cell::Null),
            b'u' => Ok(Cell::Unchanged),
            b't' => Ok(Cell::Text(self.reader.counted()?)),
            b'b' => Ok(Cell::Binary(self.reader.counted()?)),
            byte => Err(Malformed::Byte { what: "kind of cell", byte }),
        }
    }

    /// Nothing may follow the last cell.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        self.reader.end()
    }
}

impl<'a> Message<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (&tag, body) = bytes.split_first().ok_or(Malformed::Short { what: "message" })?;
        Self::of(tag, body)
    }

    /// From what follows the message's type.
    pub(crate) fn of(tag: u8, body: &'a [u8]) -> Result<Self, Malformed> {
        let reader = |what| Reader::new(body, what);
        match tag {
            b'I' => {
                let mut reader = reader("Insert");
                let relation = reader.u32()?;
                expect(&mut reader, b'N')?;
                Ok(Self::Insert { relation, new: Tuple::start(&mut reader)? })
            }
            b'U' => {
                let mut reader = reader("Update");
                let relation = reader.u32()?;
                let old = match reader.u8()? {
                    b'N' => None,
                    kind => {
                        let old = OldTuple { full: is_full(kind)?, row: Tuple::skip(&mut reader)? };
                        expect(&mut reader, b'N')?;
                        Some(old)
                    }
                };
                Ok(Self::Update { relation, old, new: Tuple::start(&mut reader)? })
            }
            b'D' => {
                let mut reader = reader("Delete");
                let relation = reader.u32()?;
                let full = is_full(reader.u8()?)?;
                Ok(Self::Delete { relation, old: OldTuple { full, row: Tuple::start(&mut reader)? } })
            }
            b'B' => {
                let mut reader = reader("Begin");
                let (commit_lsn, committed_at, xid) = (reader.u64()?, reader.i64()?, reader.u32()?);
                reader.end()?;
                Ok(Self::Begin { commit_lsn, committed_at, xid })
            }
            b'C' => {
                let mut reader = reader("Commit");
                let (_flags, _commit_lsn, end_lsn) = (reader.u8()?, reader.u64()?, reader.u64()?);
                let committed_at = reader.i64()?;
                reader.end()?;
                Ok(Self::Commit { end_lsn, committed_at })
            }
            b'R' => {
                let mut reader = reader("Relation");
                let (oid, schema, name) = (reader.u32()?, reader.text()?, reader.text()?);
                let (replica_identity, count) = (reader.u8()?, reader.u16()?);
                Ok(Self::Relation(Relation { oid, schema, name, replica_identity, columns: reader, count }))
            }
            b'T' => {
                let mut reader = reader("Truncate");
                let (count, _options) = (reader.u32()?, reader.u8()?);
                Ok(Self::Truncate(Truncate { relations: reader, count }))
            }
            b'S' => {
                let mut reader = reader("Stream Start");
                let (xid, first) = (reader.u32()?, reader.u8()? == 1);
                reader.end()?;
                Ok(Self::StreamStart { xid, first })
            }
            b'c' => {
                let mut reader = reader("Stream Commit");
                let (xid, _flags, commit_lsn) = (reader.u32()?, reader.u8()?, reader.u64()?);
                let (end_lsn, committed_at) = (reader.u64()?, reader.i64()?);
                reader.end()?;
                Ok(Self::StreamCommit { xid, commit_lsn, end_lsn, committed_at })
            }
            b'A' => {
                let mut reader = reader("Stream Abort");
                let (xid, sub_xid) = (reader.u32()?, reader.u32()?);
                reader.end()?;
                Ok(Self::StreamAbort { xid, sub_xid })
            }
            b'O' => {
                let mut reader = reader("Origin");
                let (_lsn, _name) = (reader.u64()?, reader.text()?);
                reader.end()?;
                Ok(Self::Aside)
            }
            b'Y' => {
                let mut reader = reader("Type");
                let (_oid, _schema, _name) = (reader.u32()?, reader.text()?, reader.text()?);
                reader.end()?;
                Ok(Self::Aside)
            }
            b'M' => {
                let mut reader = reader("Message");
                let (_flags, _lsn, _prefix, _content) =
                    (reader.u8()?, reader.u64()?, reader.text()?, reader.counted()?);
                reader.end()?;
                Ok(Self::Aside)
            }
            // Unknown is an error, not to be skipped: a newer message might carry rows.
            other => Err(Malformed::Type(other)),
        }
    }
}

fn expect(reader: &mut Reader<'_>, expected: u8) -> Result<(), Malformed> {
    match reader.u8()? {
        byte if byte == expected => Ok(()),
        byte => Err(Malformed::Byte { what: "start of a new row", byte }),
    }
}

fn is_full(kind: u8) -> Result<bool, Malformed> {
    match kind {
        b'O' => Ok(true),
        b'K' => Ok(false),
        byte => Err(Malformed::Byte { what: "kind of old row", byte }),
    }
}

//! COPY in binary form: from the bytes of the server to rows in a buffer.
//!
//! The stream is a header, then tuples of a 16-bit field count and for each field a 32-bit length (-1 for NULL) and its
//! bytes, then a field count of -1 (`PostgreSQL` manual, COPY, "Binary Format"). Messages of the protocol may end anywhere.

use std::sync::Arc;

use bytes::{Buf, BytesMut};
use calve_core::{
    CellRule, Column, ColumnBuffer, Error, ErrorKind, RowBuffer, RowOp, StopReason, Substituted, TableSchema,
    ValueRules, show_key,
};

use crate::cell::{CellError, substitute};
use crate::column_kind::{ColumnKind, binary_safe};
use crate::sql::identifier;

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// The signature, the flags, and the length of a header extension.
const HEADER: usize = 19;

/// The columns of a table, less those that are left out, as a SELECT list whose cells can all be decoded from binary form. A type whose binary form is not
/// understood is asked for as the text that its output function prints; a cast to text would be another thing for some
/// types (`inet`, `char(n)`), and `format` makes NULL an empty text.
pub(crate) fn select_list(schema: &TableSchema) -> String {
    let select = |column: &Column| {
        let name = identifier(&column.name);
        if binary_safe(column) {
            name
        } else {
            format!("CASE WHEN pg_catalog.num_nulls({name}) = 0 THEN pg_catalog.format('%s', {name}) END")
        }
    };
    schema.kept().columns.iter().map(select).collect::<Vec<_>>().join(", ")
}

/// Decodes one COPY of a table's [`select_list`].
pub(crate) struct CopyDecoder {
    schema: Arc<TableSchema>,
    kinds: Vec<CopyKind>,
    rules: Vec<CellRule>,
    /// What a message left over, until the next completes it.
    pending: BytesMut,
    header_read: bool,
    ended: bool,
}

/// How the cells of one column are decoded.
struct CopyKind {
    /// The column's place in the schema.
    at: usize,
    kind: ColumnKind,
    /// The SELECT list asks for the text, whose binary form is the text itself.
    printed: bool,
}

impl CopyKind {
    fn new(at: usize, column: &Column) -> Self {
        Self { at, kind: ColumnKind::plan(column), printed: !binary_safe(column) }
    }

    #[inline]
    fn push(&self, cell: &[u8], out: &mut ColumnBuffer) -> std::result::Result<(), CellError> {
        if self.printed { self.kind.text(cell, out) } else { self.kind.binary(cell, out) }
    }

    fn nearest(&self, cell: &[u8]) -> Option<i128> {
        if self.printed { self.kind.nearest_of_text(cell) } else { self.kind.nearest_of_binary(cell) }
    }
}

/// Why a COPY cannot be decoded to its end.
#[derive(Debug)]
pub(crate) enum CopyFault {
    /// The table holds what the lake cannot.
    Stop(StopReason),
    /// The bytes are wrong, or missing.
    Broken(Error),
}

type Result<T> = std::result::Result<T, CopyFault>;

/// What was taken from the front of the bytes.
enum Taken {
    /// A tuple of this length was decoded.
    Row(usize),
    /// The buffer is full; the tuple is still to be decoded.
    Full,
    /// More bytes are needed.
    Incomplete,
    /// The end of the data.
    End,
}

impl CopyDecoder {
    pub(crate) fn new(schema: Arc<TableSchema>, rules: &ValueRules) -> Self {
        let rules = rules.cells(&schema);
        let kinds = schema.kept_places().into_iter().filter_map(|at| Some(CopyKind::new(at, schema.columns.get(at)?)));
        let kinds = kinds.collect();
        Self { schema, kinds, rules, pending: BytesMut::new(), header_read: false, ended: false }
    }

    /// The schema of the rows.
    pub(crate) fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Decodes a message into `buffer`. Where a column of the buffer is full, `seal` is called to take it away and put an
    /// empty one in its place.
    pub(crate) fn message(
        &mut self,
        message: &[u8],
        buffer: &mut RowBuffer,
        seal: &mut impl FnMut(&mut RowBuffer),
    ) -> Result<()> {
        if self.pending.is_empty() {
            let rest = self.decode(message, buffer, seal)?;
            self.pending.extend_from_slice(message.get(rest..).unwrap_or_default());
            return Ok(());
        }
        let mut pending = std::mem::take(&mut self.pending);
        pending.extend_from_slice(message);
        let rest = self.decode(&pending, buffer, seal)?;
        pending.advance(rest);
        self.pending = pending;
        Ok(())
    }

    /// The stream of messages ended: so must the data.
    pub(crate) fn finish(&self) -> Result<()> {
        if self.ended && self.pending.is_empty() {
            return Ok(());
        }
        let message = format!("the server ended the COPY of table {} early", self.schema.table);
        Err(CopyFault::Broken(Error::new(ErrorKind::Retry, message)))
    }

    /// Decodes what is whole in `bytes`, and returns how many bytes that was.
    fn decode(&mut self, bytes: &[u8], buffer: &mut RowBuffer, seal: &mut impl FnMut(&mut RowBuffer)) -> Result<usize> {
        let mut at = 0;
        if !self.header_read {
            match header(bytes) {
                Some(Ok(length)) => at = length,
                Some(Err(())) => return Err(self.corrupt("its header is not that of COPY in binary form")),
                None => return Ok(0),
            }
            self.header_read = true;
        }
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            if self.ended && !rest.is_empty() {
                return Err(self.corrupt("bytes follow its end"));
            }
            match self.tuple(rest, buffer)? {
                Taken::Row(length) => at += length,
                Taken::Incomplete => return Ok(at),
                Taken::End => {
                    self.ended = true;
                    at += 2;
                }
                Taken::Full if buffer.is_empty() => {
                    return Err(self.corrupt("one row is larger than 2 GiB"));
                }
                Taken::Full => seal(buffer),
            }
        }
    }

    fn tuple(&self, bytes: &[u8], buffer: &mut RowBuffer) -> Result<Taken> {
        let Some((count, mut rest)) = bytes.split_first_chunk::<2>() else { return Ok(Taken::Incomplete) };
        match i16::from_be_bytes(*count) {
            -1 => return Ok(Taken::End),
            count if usize::try_from(count) == Ok(self.kinds.len()) => {}
            count => {
                let message = format!("a row has {count} columns instead of {}", self.kinds.len());
                return Err(self.corrupt(&message));
            }
        }
        let whole = rest;
        let mut substituted = Substituted::default();
        for kind in &self.kinds {
            let index = kind.at;
            let column = buffer.image(index);
            let (cell, after) = match field(rest) {
                Ok(Some(found)) => found,
                Ok(None) => {
                    buffer.discard_row();
                    return Ok(Taken::Incomplete);
                }
                Err(()) => return Err(self.corrupt("a cell has a negative length")),
            };
            rest = after;
            let Some(cell) = cell else {
                column.push_null();
                continue;
            };
            if let Err(error) = kind.push(cell, column)
                && let Err(error) = self.replace(error, index, kind.nearest(cell), column, &mut substituted)
            {
                buffer.discard_row();
                return match error {
                    CellError::Full(_) => Ok(Taken::Full),
                    error => Err(self.cell_fault(index, error, whole)),
                };
            }
        }
        buffer.note_substituted(substituted);
        buffer.finish_row(RowOp::Insert);
        Ok(Taken::Row(bytes.len() - rest.len()))
    }

    #[cold]
    fn replace(
        &self,
        error: CellError,
        index: usize,
        nearest: Option<i128>,
        out: &mut ColumnBuffer,
        substituted: &mut Substituted,
    ) -> std::result::Result<(), CellError> {
        match self.rules.get(index) {
            Some(rule) => substitute(error, nearest, rule, (&self.schema, index), out, substituted),
            None => Err(error),
        }
    }

    #[cold]
    fn cell_fault(&self, index: usize, error: CellError, tuple: &[u8]) -> CopyFault {
        let table = &self.schema.table;
        let column = self.schema.columns.get(index).map_or_else(|| "?".to_owned(), |column| identifier(&column.name));
        let key = self.key_of(tuple).unwrap_or_else(|| "a key that cannot be read".to_owned());
        match error {
            CellError::Unrepresentable { what } => CopyFault::Stop(StopReason {
                state: "unrepresentable value".to_owned(),
                detail: format!("column {column} of the row with {key} holds {what}"),
                remedy: format!("change the value in Postgres, then run `calve reload {table}`"),
            }),
            error => self.corrupt(&format!("in column {column} of the row with {key}, {error}")),
        }
    }

    /// The key of a tuple one of whose other cells cannot be decoded.
    fn key_of(&self, tuple: &[u8]) -> Option<String> {
        let mut cells = Vec::with_capacity(self.kinds.len());
        let mut rest = tuple;
        for _ in &self.kinds {
            let (cell, after) = field(rest).ok()??;
            cells.push(cell);
            rest = after;
        }
        let mut key: Vec<ColumnBuffer> =
            self.schema.key_columns().map(|column| ColumnBuffer::new(column.ty.clone())).collect();
        for (out, &index) in key.iter_mut().zip(&self.schema.key) {
            let place = self.kinds.iter().position(|kind| kind.at == index)?;
            self.kinds.get(place)?.push((*cells.get(place)?)?, out).ok()?;
        }
        Some(show_key(&self.schema, key.iter(), 0))
    }

    fn corrupt(&self, what: &str) -> CopyFault {
        let message = format!("the COPY of table {} is not what Postgres sends: {what}", self.schema.table);
        CopyFault::Broken(Error::new(ErrorKind::Corrupt, message))
    }
}

/// The length of the header, once it is whole.
fn header(bytes: &[u8]) -> Option<std::result::Result<usize, ()>> {
    let fixed = bytes.get(..HEADER)?;
    let Some((flags, extension)) = fixed.strip_prefix(SIGNATURE).and_then(|rest| rest.split_first_chunk::<4>()) else {
        return Some(Err(()));
    };
    // The upper half of the flags marks changes of the format that must be understood.
    let [0, 0, _, _] = flags else { return Some(Err(())) };
    let length = u32::from_be_bytes(extension.try_into().ok()?);
    let length = HEADER + usize::try_from(length).ok()?;
    (bytes.len() >= length).then_some(Ok(length))
}

/// A field, and what follows it.
type Field<'a> = (Option<&'a [u8]>, &'a [u8]);

/// The first field: none where it is not whole, an error where its length is impossible.
fn field(bytes: &[u8]) -> std::result::Result<Option<Field<'_>>, ()> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    match i32::from_be_bytes(*length) {
        -1 => Ok(Some((None, rest))),
        length => {
            let length = usize::try_from(length).map_err(|_| ())?;
            Ok(rest.split_at_checked(length).map(|(cell, rest)| (Some(cell), rest)))
        }
    }
}

#[cfg(test)]
#[path = "copy_tests.rs"]
mod tests;

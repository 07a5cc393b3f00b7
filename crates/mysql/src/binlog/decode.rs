//! Rows of an event into the buffer of a sink: each cell goes from the event's bytes straight into its column.

use calve_core::{
    BufferFull, ChangeSink, ColumnBuffer, RowBuffer, RowOp, StopReason, Substitute, Substituted, TableIndex, show_key,
};

use super::cell::{Kind, Scratch};
use super::plan::{ColumnPlan, Filling, RowPlan, Target};
use super::rows::{RowsEvent, RowsKind};
use super::value::CellError;
use super::wire::{Bits, Malformed, Reader};
use crate::conversions::{refused_zero_date, tell_substituted};

const WHAT: &str = "a row";

/// The place of the column that says which member of a merged table a row is of: among the columns as in the key.
const ORIGIN: usize = 0;

/// Why rows were not appended. Those before the one at fault were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowFault {
    /// The table cannot go on; others can.
    Stop(StopReason),
    /// The log is not what it should be.
    Malformed(Malformed),
    /// The cells of this column passed 2 GiB: seal the buffer and decode the transaction again.
    Full { column: String, full: BufferFull },
}

impl From<Malformed> for RowFault {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}

/// Why one row could not be appended. The buffer holds a half-finished entry then.
enum Fault {
    Cell { column: usize, error: CellError },
    Null { column: usize },
    Wire(Malformed),
}

impl From<Malformed> for Fault {
    fn from(error: Malformed) -> Self {
        Self::Wire(error)
    }
}

/// What is kept from row to row.
#[derive(Default)]
struct Work<'a> {
    scratch: Scratch,
    /// Values of the present row that others took the place of.
    substituted: Substituted,
    /// Cells of the key before an update, by place in the key.
    old_key: Vec<&'a [u8]>,
    /// Documents before an update, in the order of their columns.
    documents: Vec<Option<&'a [u8]>>,
}

fn push_origin(filling: &Filling, out: &mut ColumnBuffer) -> Result<(), Fault> {
    out.push_str(&filling.origin).map_err(|full| Fault::Cell { column: ORIGIN, error: CellError::Full(full) })
}

impl RowPlan {
    /// Appends the rows of an event to the sink's buffer for `table`, as long as it wants them.
    ///
    /// # Panics
    /// When the sink's buffer is of another schema than the plan.
    pub(crate) fn decode(
        &self,
        rows: &RowsEvent<'_>,
        table: TableIndex,
        sink: &mut dyn ChangeSink,
    ) -> Result<(), RowFault> {
        if rows.columns != self.columns.len() {
            let what = format!("a row event has {} columns and its table map {}", rows.columns, self.columns.len());
            return Err(Malformed::Other(what).into());
        }
        let mut work = Work::default();
        let mut reader = Reader::new(&rows.rows, WHAT);
        let missing = self.missing(rows);
        while !reader.is_empty() {
            let Some(buffer) = sink.rows(table) else {
                self.skip(rows, &mut reader)?;
                continue;
            };
            // Only rows that somebody wants can stop their table.
            if let Some(column) = missing {
                return Err(self.not_full(column));
            }
            assert!(
                std::sync::Arc::ptr_eq(buffer.schema(), &self.schema) || *buffer.schema() == self.schema,
                "rows of {} were decoded with the plan of another schema",
                self.schema.table
            );
            let begins = reader;
            if let Err(fault) = self.row(rows, &mut reader, &mut work, buffer) {
                buffer.discard_row();
                return Err(self.explain(fault, || self.key_of(rows, begins)));
            }
        }
        Ok(())
    }

    fn row<'a>(
        &self,
        rows: &RowsEvent<'_>,
        reader: &mut Reader<'a>,
        work: &mut Work<'a>,
        buffer: &mut RowBuffer,
    ) -> Result<(), Fault> {
        work.substituted = Substituted::default();
        let op = match rows.kind {
            RowsKind::Insert => {
                self.whole_row(rows.after(), reader, work, buffer)?;
                RowOp::Insert
            }
            RowsKind::Delete if self.schema.retires_rows() => {
                self.whole_row(rows.before(), reader, work, buffer)?;
                // Counted when the row came.
                work.substituted = Substituted::default();
                RowOp::Retire
            }
            RowsKind::Delete => {
                if self.schema.keeps_log() {
                    self.old_row(rows, reader, work, buffer)?;
                } else {
                    self.cells(reader, rows.before(), |column, cell| match &column.target {
                        Some(target @ Target { key: Some(key), .. }) => {
                            let out = buffer.old(*key);
                            self.push(target, cell, &mut work.scratch, &mut work.substituted, out)
                        }
                        _ => Ok(()),
                    })?;
                    self.fill_old_key(buffer)?;
                }
                RowOp::Delete
            }
            RowsKind::Update => self.update(rows, reader, work, buffer)?,
        };
        buffer.note_substituted(work.substituted);
        buffer.finish_row(op);
        Ok(())
    }

    /// An image as that of a row of the table.
    fn whole_row<'a>(
        &self,
        present: Option<Bits<'_>>,
        reader: &mut Reader<'a>,
        work: &mut Work<'a>,
        buffer: &mut RowBuffer,
    ) -> Result<(), Fault> {
        self.cells(reader, present, |column, cell| match &column.target {
            Some(target) => {
                let out = buffer.image(target.index);
                self.push(target, cell, &mut work.scratch, &mut work.substituted, out)
            }
            None => Ok(()),
        })?;
        self.fill_image(buffer)
    }

    /// The cells that a member of a merged table does not have itself.
    fn fill_image(&self, buffer: &mut RowBuffer) -> Result<(), Fault> {
        let Some(filling) = &self.filling else { return Ok(()) };
        filling.absent.iter().for_each(|&at| buffer.image(at).push_null());
        push_origin(filling, buffer.image(ORIGIN))
    }

    fn fill_old_row(&self, buffer: &mut RowBuffer) -> Result<(), Fault> {
        let Some(filling) = &self.filling else { return Ok(()) };
        filling.absent.iter().for_each(|&at| buffer.old(at).push_null());
        push_origin(filling, buffer.old(ORIGIN))
    }

    fn fill_old_key(&self, buffer: &mut RowBuffer) -> Result<(), Fault> {
        self.filling.as_ref().map_or(Ok(()), |filling| push_origin(filling, buffer.old(ORIGIN)))
    }

    /// The row before as far as the log has it, for a table that keeps a log: there it always comes with the row after.
    fn old_row<'a>(
        &self,
        rows: &RowsEvent<'_>,
        reader: &mut Reader<'a>,
        work: &mut Work<'a>,
        buffer: &mut RowBuffer,
    ) -> Result<(), Fault> {
        // Counted when the row came.
        let mut substituted = Substituted::default();
        self.cells(reader, rows.before(), |column, cell| {
            if column.is_json {
                work.documents.push(cell);
            }
            let Some(target) = &column.target else { return Ok(()) };
            let out = buffer.old(target.index);
            if cell.is_none() && target.key.is_none() {
                out.push_null();
                return Ok(());
            }
            self.push(target, cell, &mut work.scratch, &mut substituted, out)
        })?;
        self.fill_old_row(buffer)
    }

    /// The key before is appended only where it is another: a row that keeps its key replaces itself.
    fn update<'a>(
        &self,
        rows: &RowsEvent<'_>,
        reader: &mut Reader<'a>,
        work: &mut Work<'a>,
        buffer: &mut RowBuffer,
    ) -> Result<RowOp, Fault> {
        work.old_key.clear();
        work.old_key.resize(self.schema.key.len(), &[]);
        work.documents.clear();
        let begins = *reader;
        let keeps_log = self.schema.keeps_log();
        let before =
            if keeps_log { self.old_row(rows, reader, work, buffer) } else { self.key_before(rows, reader, work) };
        before?;
        let changed = self.partial_documents(rows.partial, reader)?;
        let after = *reader;
        let same_key = self.row_after(rows, changed, reader, work, buffer)?;
        if keeps_log {
            return Ok(RowOp::UpdateFrom);
        }
        if same_key {
            return Ok(RowOp::Update);
        }
        if self.schema.retires_rows() {
            // Only now is it known that a row went, which is told first.
            buffer.discard_row();
            let substituted = work.substituted;
            self.whole_row(rows.before(), &mut begins.clone(), work, buffer)?;
            buffer.finish_row(RowOp::Retire);
            self.row_after(rows, changed, &mut after.clone(), work, buffer)?;
            work.substituted = substituted;
        }
        let keys = self.columns.iter().filter_map(|column| column.target.as_ref());
        for (target, key) in keys.filter_map(|target| target.key.map(|key| (target, key))) {
            let cell = work.old_key.get(key).copied();
            self.push(target, cell, &mut work.scratch, &mut work.substituted, buffer.old(key))?;
        }
        self.fill_old_key(buffer)?;
        Ok(RowOp::UpdateFrom)
    }

    /// The row after an update of which the row before was read. Returns whether it has the key that it had.
    fn row_after<'a>(
        &self,
        rows: &RowsEvent<'_>,
        changed: Option<Bits<'_>>,
        reader: &mut Reader<'a>,
        work: &mut Work<'a>,
        buffer: &mut RowBuffer,
    ) -> Result<bool, Fault> {
        let mut same_key = true;
        let mut document = 0;
        self.cells(reader, rows.after(), |column, cell| {
            let place = document;
            document += usize::from(column.is_json);
            let Some(target) = &column.target else { return Ok(()) };
            if let Some(key) = target.key {
                same_key &= work.old_key.get(key).copied() == cell;
            }
            let out = buffer.image(target.index);
            match cell {
                Some(diff) if column.is_json && changed.is_some_and(|bits| bits.get(place)) => {
                    let before =
                        work.documents.get(place).copied().flatten().ok_or_else(|| {
                            Malformed::Other("a partial update of a document that was NULL".to_owned())
                        })?;
                    Kind::push_json_diff(before, diff, &mut work.scratch, out)
                        .map_err(|error| Fault::Cell { column: target.index, error })
                }
                cell => self.push(target, cell, &mut work.scratch, &mut work.substituted, out),
            }
        })?;
        self.fill_image(buffer)?;
        Ok(same_key)
    }

    /// Cells of the row before an update that are needed afterwards: the key's, and documents.
    fn key_before<'a>(&self, rows: &RowsEvent<'_>, reader: &mut Reader<'a>, work: &mut Work<'a>) -> Result<(), Fault> {
        self.cells(reader, rows.before(), |column, cell| {
            if let Some(Target { index, key: Some(key), .. }) = &column.target
                && let Some(old) = work.old_key.get_mut(*key)
            {
                *old = cell.ok_or(Fault::Null { column: *index })?;
            }
            if column.is_json {
                work.documents.push(cell);
            }
            Ok(())
        })
    }

    /// Appends a cell, with something else in its place where it cannot be held and a rule says what.
    fn push(
        &self,
        target: &Target,
        cell: Option<&[u8]>,
        scratch: &mut Scratch,
        substituted: &mut Substituted,
        out: &mut ColumnBuffer,
    ) -> Result<(), Fault> {
        let may_be_null = target.nullable && target.key.is_none();
        let Some(bytes) = cell else {
            if !may_be_null {
                return Err(Fault::Null { column: target.index });
            }
            out.push_null();
            return Ok(());
        };
        match target.kind.push(bytes, scratch, out) {
            Err(CellError::ZeroDate) if may_be_null && self.zero_dates.become_null() => {
                out.push_null();
                substituted.count(Substitute::Null);
                self.tell_zero_date(target);
                Ok(())
            }
            Err(error @ CellError::Unrepresentable { what }) if may_be_null || !target.rule.makes_null() => {
                let substitute = target.rule.append(target.kind.nearest(bytes), out);
                substituted.count(substitute.ok_or(Fault::Cell { column: target.index, error })?);
                tell_substituted(&target.rule, &self.schema, target.index, what);
                Ok(())
            }
            pushed => pushed.map_err(|error| Fault::Cell { column: target.index, error }),
        }
    }

    /// A row after a partial update begins with options, and where they say so with a bit for each document: whether it is
    /// there as its changes (`Rows_event`, "partial bits").
    fn partial_documents<'a>(&self, partial: bool, reader: &mut Reader<'a>) -> Result<Option<Bits<'a>>, Malformed> {
        if !partial {
            return Ok(None);
        }
        match reader.packed()? {
            0 => Ok(None),
            1 => reader.bits(self.documents).map(Some),
            value => Err(Malformed::Value { what: "set of options of a partial row that is understood", value }),
        }
    }

    /// Walks over one image, column by column. Those that it lacks pass as NULL: none of them is asked for, or the table has
    /// been stopped. The bits for NULL are those of the columns that are there.
    fn cells<'a>(
        &self,
        reader: &mut Reader<'a>,
        present: Option<Bits<'_>>,
        mut each: impl FnMut(&ColumnPlan, Option<&'a [u8]>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let is_there = |place| present.is_none_or(|present| present.get(place));
        let count = match present {
            None => self.columns.len(),
            Some(present) => (0..self.columns.len()).filter(|place| present.get(*place)).count(),
        };
        if count == 0 {
            return Err(Malformed::Other("a row has no columns at all".to_owned()).into());
        }
        let nulls = reader.bits(count)?;
        let mut bit = 0;
        for (place, column) in self.columns.iter().enumerate() {
            let mut cell = None;
            if is_there(place) {
                if !nulls.get(bit) {
                    cell = Some(column.length.take(reader)?);
                }
                bit += 1;
            }
            each(column, cell)?;
        }
        Ok(())
    }

    fn skip(&self, rows: &RowsEvent<'_>, reader: &mut Reader<'_>) -> Result<(), RowFault> {
        let image = |reader: &mut Reader<'_>, present| match self.cells(reader, present, |_, _| Ok(())) {
            Err(Fault::Wire(error)) => Err(error),
            _ => Ok(()),
        };
        image(reader, rows.before())?;
        if rows.kind == RowsKind::Update {
            self.partial_documents(rows.partial, reader)?;
            image(reader, rows.after())?;
        }
        Ok(())
    }

    /// A column of the schema that rows of the event lack where it is needed: in a row that is there afterwards, be it as a deleted
    /// one, every column, in one that was there before the key's, and documents of which only changes follow. Where a log has chosen
    /// rows, it has to be known of the row before too whether it is one.
    fn missing(&self, rows: &RowsEvent<'_>) -> Option<usize> {
        let (before, after) = (rows.before(), rows.after());
        if before.is_none() && after.is_none() {
            return None;
        }
        let lacks = |present: Option<Bits<'_>>, place| present.is_some_and(|present| !present.get(place));
        self.columns.iter().enumerate().find_map(|(place, column)| {
            let target = column.target.as_ref()?;
            let chosen_by = self.schema.keeps_log() && self.schema.filter.is_some();
            let needed_before =
                target.key.is_some() || self.schema.retires_rows() || chosen_by || (rows.partial && column.is_json);
            let missing = match rows.kind {
                RowsKind::Insert => lacks(after, place),
                RowsKind::Delete => needed_before && lacks(before, place),
                RowsKind::Update => lacks(after, place) || (needed_before && lacks(before, place)),
            };
            missing.then_some(target.index)
        })
    }

    fn not_full(&self, column: usize) -> RowFault {
        let table = &self.schema.table;
        let name = self.schema.columns.get(column).map_or("?", |column| column.name.as_str());
        RowFault::Stop(StopReason {
            state: "row image not full".into(),
            detail: format!("a change of a row was logged without column {name}"),
            remedy: format!(
                "set binlog_row_image=FULL on the server and in the sessions that change {table} (a generated column that \
                 MariaDB does not log at all: leave it out), then run `calve reload {table}`"
            ),
        })
    }

    /// The key of a row as people read it, of an update the one before: `id = 5, region = 'eu'`.
    fn key_of(&self, rows: &RowsEvent<'_>, mut row: Reader<'_>) -> String {
        let mut key: Vec<ColumnBuffer> =
            self.schema.key_columns().map(|column| ColumnBuffer::new(column.ty.clone())).collect();
        if let (Some(filling), Some(out)) = (&self.filling, key.get_mut(ORIGIN)) {
            let _ = push_origin(filling, out);
        }
        let mut scratch = Scratch::default();
        let present = if rows.kind == RowsKind::Insert { rows.after() } else { rows.before() };
        // What cannot be read is shown as a `?`.
        let _ = self.cells(&mut row, present, |column, cell| {
            if let Some(Target { key: Some(place), kind, .. }) = &column.target
                && let (Some(out), Some(cell)) = (key.get_mut(*place), cell)
            {
                let _ = kind.push(cell, &mut scratch, out);
            }
            Ok(())
        });
        show_key(&self.schema, key.iter(), 0)
    }

    fn explain(&self, fault: Fault, key: impl FnOnce() -> String) -> RowFault {
        let table = &self.schema.table;
        let name = |column: usize| self.schema.columns.get(column).map_or("?", |column| column.name.as_str());
        let is_key = |column: usize| self.schema.key.contains(&column);
        let unrepresentable = |column: usize, what: &str, key: String| {
            RowFault::Stop(StopReason {
                state: "unrepresentable value".into(),
                detail: format!("column {} of the row with {key} holds {what}", name(column)),
                remedy: format!("change the value in the source, then run `calve reload {table}`"),
            })
        };
        match fault {
            Fault::Wire(error) => error.into(),
            Fault::Cell { column, error: CellError::Unrepresentable { what } } => unrepresentable(column, what, key()),
            Fault::Cell { column, error: CellError::ZeroDate } => {
                unrepresentable(column, refused_zero_date(is_key(column)), key())
            }
            Fault::Cell { column, error: CellError::Malformed { expected } } => {
                RowFault::Malformed(Malformed::Cell { column: format!("{} of {table}", name(column)), expected })
            }
            Fault::Cell { column, error: CellError::Full(full) } => {
                RowFault::Full { column: format!("{} of {table}", name(column)), full }
            }
            Fault::Null { column } => RowFault::Stop(StopReason {
                state: if is_key(column) { "unrepresentable value" } else { "schema changed" }.into(),
                detail: format!("column {} may not be NULL, and is NULL in the row with {}", name(column), key()),
                remedy: format!("run `calve reload {table}`"),
            }),
        }
    }
}

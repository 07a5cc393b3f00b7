//! One row from the wire into a row buffer.

use calve_core::{ColumnBuffer, RowBuffer, RowOp, Substitute, Substituted};

use super::message::{Cell, Malformed, OldTuple, Tuple};
use super::plan::{ColumnPlan, RowPlan};
use crate::cell::{CellError, substitute};

/// Why a row could not be appended. The buffer holds a half-finished entry then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The cell of this column.
    Cell { column: usize, error: CellError },
    /// NULL where none may be.
    Null { column: usize },
    /// A value that the server left out because it did not change, of the key or in what is no update.
    Unchanged { column: usize },
    /// The row as a whole.
    Wire(Malformed),
    /// It has another number of cells than its relation has columns.
    Count { cells: usize },
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Self {
        Self::Wire(malformed)
    }
}

/// A change of one row, as its message has it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change<'a> {
    Insert(Tuple<'a>),
    Update(Option<OldTuple<'a>>, Tuple<'a>),
    Delete(OldTuple<'a>),
}

impl<'a> Change<'a> {
    /// Decodes the change into one entry.
    pub(super) fn append(&self, plan: &RowPlan, buffer: &mut RowBuffer) -> Result<(), Fault> {
        let op = match *self {
            Self::Insert(new) => {
                push_image(plan, new, &Before::Nothing, buffer)?;
                RowOp::Insert
            }
            Self::Update(None, new) => {
                push_image(plan, new, &Before::Row(None), buffer)?;
                RowOp::Update
            }
            Self::Update(Some(old), new) => {
                if plan.schema.retires_rows() && changes_key(plan, old, new)? {
                    push_retiring(plan, old, buffer)?;
                    buffer.finish_row(RowOp::Retire);
                }
                push_old(plan, old, buffer)?;
                push_image(plan, new, &Before::Row(Some(old)), buffer)?;
                RowOp::UpdateFrom
            }
            Self::Delete(old) if plan.schema.retires_rows() => {
                push_retiring(plan, old, buffer)?;
                RowOp::Retire
            }
            Self::Delete(old) => {
                push_old(plan, old, buffer)?;
                RowOp::Delete
            }
        };
        buffer.finish_row(op);
        Ok(())
    }

    /// A row that holds the key, to name it by.
    pub(super) fn key_row(&self) -> Tuple<'a> {
        match *self {
            Self::Insert(new) | Self::Update(None, new) => new,
            Self::Update(Some(old), _) | Self::Delete(old) => old.row,
        }
    }
}

/// What is known of the row before its new image.
#[derive(Clone, Copy, Debug)]
enum Before<'a> {
    /// There was none.
    Nothing,
    /// It was there, and the message may say what it was.
    Row(Option<OldTuple<'a>>),
}

fn push_image<'a>(plan: &RowPlan, row: Tuple<'a>, before: &Before<'a>, buffer: &mut RowBuffer) -> Result<(), Fault> {
    check_count(plan, row)?;
    let mut cells = row.cells();
    let mut unchanged = false;
    let mut substituted = Substituted::default();
    for (index, (column, out)) in plan.columns.iter().zip(buffer.images_mut()).enumerate() {
        let cell = cells.next()?;
        if column.left_out {
            continue;
        }
        if let Some(cell) = before.known(column, index, cell)? {
            if let Err(fault) = push(column, index, cell, out) {
                replace(plan, fault, cell, out, &mut substituted)?;
            }
        } else if plan.schema.keeps_log() {
            // What a log says is not looked up in it.
            return Err(Fault::Unchanged { column: index });
        } else {
            out.push_null();
            unchanged = true;
        }
    }
    cells.end()?;
    buffer.note_substituted(substituted);
    if unchanged {
        let mut cells = row.cells();
        for (index, column) in plan.columns.iter().enumerate() {
            let cell = cells.next()?;
            if !column.left_out && before.known(column, index, cell)?.is_none() {
                buffer.note_unchanged(index);
            }
        }
    }
    Ok(())
}

fn push_old(plan: &RowPlan, old: OldTuple<'_>, buffer: &mut RowBuffer) -> Result<(), Fault> {
    check_count(plan, old.row)?;
    if plan.schema.keeps_log() && !old.full {
        buffer.note_old_in_part();
    }
    let mut cells = old.row.cells();
    for (index, column) in plan.columns.iter().enumerate() {
        let cell = cells.next()?;
        let Some(place) = column.old.filter(|_| !column.left_out) else { continue };
        let out = buffer.old(place);
        // Without the whole old row, NULL there means "not sent" for every column outside the key.
        if column.key.is_none() && (cell == Cell::Null || !old.full) {
            out.push_null();
        } else if let Err(fault) = push(column, index, cell, out) {
            // Counted when the row came.
            replace(plan, fault, cell, out, &mut Substituted::default())?;
        }
    }
    Ok(())
}

/// Whether an update gives its row another key, as far as the bytes of the message tell.
fn changes_key(plan: &RowPlan, old: OldTuple<'_>, new: Tuple<'_>) -> Result<bool, Fault> {
    check_count(plan, old.row)?;
    check_count(plan, new)?;
    let (mut before, mut after) = (old.row.cells(), new.cells());
    for column in &plan.columns {
        let (before, after) = (before.next()?, after.next()?);
        if column.key.is_some() && after != Cell::Unchanged && before != after {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The image of a row that goes and stays as a deleted one: all that the message says of it.
fn push_retiring(plan: &RowPlan, old: OldTuple<'_>, buffer: &mut RowBuffer) -> Result<(), Fault> {
    check_count(plan, old.row)?;
    let unknown = |column: &ColumnPlan, cell| column.key.is_none() && (cell == Cell::Unchanged || !old.full);
    let mut cells = old.row.cells();
    for (index, (column, out)) in plan.columns.iter().zip(buffer.images_mut()).enumerate() {
        let cell = cells.next()?;
        if column.left_out {
            continue;
        }
        if unknown(column, cell) {
            out.push_null();
        } else if let Err(fault) = push(column, index, cell, out) {
            // Counted when the row came.
            replace(plan, fault, cell, out, &mut Substituted::default())?;
        }
    }
    let mut cells = old.row.cells();
    for (index, column) in plan.columns.iter().enumerate() {
        let cell = cells.next()?;
        if !column.left_out && unknown(column, cell) {
            buffer.note_unchanged(index);
        }
    }
    Ok(())
}

fn check_count(plan: &RowPlan, row: Tuple<'_>) -> Result<(), Fault> {
    let cells = row.columns();
    if cells == plan.columns.len() { Ok(()) } else { Err(Fault::Count { cells }) }
}

impl<'a> Before<'a> {
    /// A cell of the new image; where the update left its value out, that of the old row. None where the message has neither: the
    /// row has the value already.
    fn known(&self, column: &ColumnPlan, index: usize, cell: Cell<'a>) -> Result<Option<Cell<'a>>, Fault> {
        if cell != Cell::Unchanged {
            return Ok(Some(cell));
        }
        let Self::Row(old) = self else { return Err(Fault::Unchanged { column: index }) };
        // Without the whole old row, NULL there means "not sent" for every column outside the key.
        if let Some(old) = old.filter(|old| old.full || column.key.is_some()) {
            let mut cells = old.row.cells();
            for _ in 0..index {
                cells.next()?;
            }
            let cell = cells.next()?;
            if cell != Cell::Unchanged {
                return Ok(Some(cell));
            }
        }
        if column.key.is_some() { Err(Fault::Unchanged { column: index }) } else { Ok(None) }
    }
}

fn push(column: &ColumnPlan, index: usize, cell: Cell<'_>, out: &mut ColumnBuffer) -> Result<(), Fault> {
    let pushed = match cell {
        Cell::Text(bytes) => column.kind.text(bytes, out),
        Cell::Binary(bytes) => column.kind.binary(bytes, out),
        Cell::Null if column.nullable && column.key.is_none() => {
            out.push_null();
            Ok(())
        }
        Cell::Null => return Err(Fault::Null { column: index }),
        Cell::Unchanged => return Err(Fault::Unchanged { column: index }),
    };
    pushed.map_err(|error| Fault::Cell { column: index, error })
}

/// Appends what the column's rule has in place of a cell that could not be appended, or gives the fault back. Where that is NULL, and
/// may not be in the column yet, it is as if NULL had come.
#[cold]
fn replace(
    plan: &RowPlan,
    fault: Fault,
    cell: Cell<'_>,
    out: &mut ColumnBuffer,
    substituted: &mut Substituted,
) -> Result<(), Fault> {
    let Fault::Cell { column: index, error: error @ CellError::Unrepresentable { .. } } = fault else {
        return Err(fault);
    };
    let column = plan.columns.get(index).ok_or(fault)?;
    let nearest = match cell {
        Cell::Text(bytes) => column.kind.nearest_of_text(bytes),
        Cell::Binary(bytes) => column.kind.nearest_of_binary(bytes),
        Cell::Null | Cell::Unchanged => None,
    };
    if column.rule.substitute(nearest) == Some(Substitute::Null) && !column.nullable {
        return Err(Fault::Null { column: index });
    }
    substitute(error, nearest, &column.rule, (&plan.schema, index), out, substituted).map_err(|_| fault)
}

/// The key of a row as an operator would write it: `id = 42, region = 'eu'`. A part that cannot be read is a `?`.
pub(super) fn key_text(plan: &RowPlan, row: Tuple<'_>) -> String {
    let mut key: Vec<ColumnBuffer> =
        plan.schema.key_columns().map(|column| ColumnBuffer::new(column.ty.clone())).collect();
    let mut cells = row.cells();
    for column in &plan.columns {
        let Ok(cell) = cells.next() else { break };
        if let Some(out) = column.key.and_then(|index| key.get_mut(index)) {
            // A cell that fails pushes nothing, which is what the `?` stands for.
            let _ = match cell {
                Cell::Text(bytes) => column.kind.text(bytes, out),
                Cell::Binary(bytes) => column.kind.binary(bytes, out),
                Cell::Null | Cell::Unchanged => Ok(()),
            };
        }
    }
    calve_core::show_key(&plan.schema, key.iter(), 0)
}

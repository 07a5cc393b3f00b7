//! Folding: of all changes to a key within a checkpoint only the last state is written.
//!
//! A key whose first change is an insert needs no equality delete; one whose first change is an update or a delete does.
//! A key change deletes the old key and puts the new one. TRUNCATE forgets what came before, and what comes after it needs
//! no delete. Inserts whose keys ascend are of as many keys, and nothing is folded. An equality delete applies only
//! to rows with a strictly smaller sequence number, so the deletes written beside
//! the rows of the same snapshot never reach those rows.
//!
//! Of a table that keeps deleted rows a key whose last change is a row that goes has that row, with the time (`departures`), and
//! TRUNCATE forgets nothing. A key may be in such a table as a deleted one, so every put also deletes.
//!
//! Cells that an update left alone come from the row's earlier images, as far as these have them (`lineage`); rows for which
//! that is not all are set apart, with the key that each has in the table.
//!
//! Where the lake gets some of the rows only, they are chosen last: a key whose last image is not chosen has no row, and its delete
//! stands, whatever the row was before.

mod departures;
mod lineage;

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{ArrowError, Field, Schema};
use arrow_select::concat::concat;
use arrow_select::interleave::interleave;
use arrow_select::take::take;
use calve_core::{
    Column, ColumnBuffer, DeltaBatch, Error, ErrorKind, Excerpt, IncompleteRows, Result, RowBuffer, RowOp, TableSchema,
};
use hashbrown::{DefaultHashBuilder, HashTable};

use departures::Departures;
use lineage::{KeyAt, Lineage, Resolved};

/// Whether the row of an insert can be in the table already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserts {
    /// The log is the only source of rows: an inserted key was not there, and needs no delete.
    AreNew,
    /// A load may have read the row after it was inserted: every put also deletes.
    MayExist,
}

/// Where the key of an equality delete stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delete {
    /// No delete: the key was inserted in this checkpoint, or the table was truncated before.
    No,
    /// In the old keys, at this row.
    OldKey(u32),
    /// In the new images, at this row.
    Image(u32),
}

/// What is to be written for one key.
struct KeyState {
    /// The encoded key begins here in `Keys::bytes`, and ends where the next state's begins.
    start: usize,
    delete: Delete,
    /// The last image, if the row is there at the end.
    row: Option<u32>,
}

/// All keys of a buffer, found by their encoded bytes.
#[derive(Default)]
struct Keys {
    hasher: DefaultHashBuilder,
    table: HashTable<u32>,
    states: Vec<KeyState>,
    bytes: Vec<u8>,
    truncated: bool,
}

impl Keys {
    /// With room for as many keys as there are entries: nearly always each is of another key, and nothing is moved then.
    fn with_room(entries: usize) -> Self {
        Self { table: HashTable::with_capacity(entries), states: Vec::with_capacity(entries), ..Self::default() }
    }

    /// The state of the key that was appended to `bytes` from `start` on. `delete` counts if this is the key's first change.
    fn touch(&mut self, start: usize, delete: Delete) -> &mut KeyState {
        let key = &self.bytes[start..];
        let hash = self.hasher.hash_one(key);
        if let Some(&found) = self.table.find(hash, |&i| key_of(&self.states, &self.bytes[..start], i) == key) {
            self.bytes.truncate(start);
            return &mut self.states[found as usize];
        }
        let index = u32::try_from(self.states.len()).expect("a buffer holds fewer than 2^32 entries");
        let (hasher, states, bytes) = (&self.hasher, &self.states, &self.bytes[..start]);
        self.table.insert_unique(hash, index, |&i| hasher.hash_one(key_of(states, bytes, i)));
        let delete = if self.truncated { Delete::No } else { delete };
        self.states.push(KeyState { start, delete, row: None });
        &mut self.states[index as usize]
    }

    /// How many keys there are.
    fn known(&self) -> usize {
        self.states.len()
    }

    /// Whether the key touched last, before which there were `known`, stands in the table as it was before.
    fn is_in_table(&self, known: usize) -> bool {
        self.states.len() > known && !self.truncated
    }

    fn truncate(&mut self) {
        self.table.clear();
        self.states.clear();
        self.bytes.clear();
        self.truncated = true;
    }
}

/// The encoded key of state `index`. `bytes` end where the last state's key does.
fn key_of<'a>(states: &[KeyState], bytes: &'a [u8], index: u32) -> &'a [u8] {
    let at = index as usize;
    let end = states.get(at + 1).map_or(bytes.len(), |next| next.start);
    &bytes[states[at].start..end]
}

/// Folds the changes of one table, of which the lake gets the excerpt. One row and one delete a key at most come out.
pub fn fold(buffer: RowBuffer, inserts: Inserts, excerpt: &Excerpt) -> Result<DeltaBatch> {
    let table = buffer.schema().table.clone();
    // What is put on a load that is of no one position becomes part of it: history begins with the load.
    let departures = Departures::of(&buffer, inserts == Inserts::AreNew);
    let inserts = if departures.is_some() { Inserts::MayExist } else { inserts };
    let folded = if buffer.ops().iter().all(|op| *op == RowOp::Insert) && buffer.keys_ascend() {
        all_new(buffer, inserts, excerpt)
    } else {
        let (keys, resolved) = last_states(&buffer, inserts, departures.as_ref())?;
        gather(&keys, &resolved, departures.as_ref(), buffer, excerpt)
    };
    folded.map_err(|e| Error::with_source(ErrorKind::Bug, format!("changes of {table} could not be folded"), e))
}

/// Inserts alone, each of another key.
fn all_new(buffer: RowBuffer, inserts: Inserts, excerpt: &Excerpt) -> std::result::Result<DeltaBatch, ArrowError> {
    let schema = Arc::clone(buffer.schema());
    let (_, images, old) = buffer.into_parts();
    let images: Vec<ArrayRef> = images.into_iter().map(ColumnBuffer::into_array).collect();
    let old: Vec<ArrayRef> = old.into_iter().map(ColumnBuffer::into_array).collect();
    let deletes = match inserts {
        // There are none.
        Inserts::AreNew => schema.old_key().map(|place| Arc::clone(&old[place])).collect(),
        Inserts::MayExist => schema.key.iter().map(|&index| Arc::clone(&images[index])).collect(),
    };
    let added = schema.loaded_cells(images[0].len());
    batch(&schema, excerpt, false, images, added, None, deletes)
}

/// What is to be written for every key, and where the cells come from that updates left alone.
fn last_states(buffer: &RowBuffer, inserts: Inserts, departures: Option<&Departures>) -> Result<(Keys, Resolved)> {
    let all_stay = departures.is_some_and(|departures| departures.of_table().is_some());
    let put = |image| match inserts {
        Inserts::AreNew => Delete::No,
        Inserts::MayExist => Delete::Image(image),
    };
    let mut keys = Keys::with_room(buffer.len());
    let mut lineage = Lineage::of(buffer);
    let (mut image, mut old) = (0_u32, 0_u32);
    for &op in buffer.ops() {
        let start = keys.bytes.len();
        match op {
            RowOp::Insert => {
                buffer.encode_image_key(image as usize, &mut keys.bytes);
                keys.touch(start, put(image)).row = Some(image);
                lineage.inserted();
            }
            RowOp::Update | RowOp::Retire => {
                buffer.encode_image_key(image as usize, &mut keys.bytes);
                let known = keys.known();
                let state = keys.touch(start, Delete::Image(image));
                let before = state.row.replace(image);
                lineage.updated(before, keys.is_in_table(known), KeyAt::Image(image));
            }
            RowOp::UpdateFrom => {
                buffer.encode_old_key(old as usize, &mut keys.bytes);
                let known = keys.known();
                let old_state = keys.touch(start, Delete::OldKey(old));
                // Where the key changed and its table keeps deleted rows, this is the one that went by it.
                let before = if departures.is_some() { old_state.row } else { old_state.row.take() };
                lineage.updated(before, keys.is_in_table(known), KeyAt::OldKey(old));
                // Where the key stayed the same this finds the state just touched, and its delete stands.
                let start = keys.bytes.len();
                buffer.encode_image_key(image as usize, &mut keys.bytes);
                keys.touch(start, put(image)).row = Some(image);
            }
            RowOp::Delete => {
                buffer.encode_old_key(old as usize, &mut keys.bytes);
                keys.touch(start, Delete::OldKey(old)).row = None;
            }
            RowOp::Truncate if all_stay => {}
            RowOp::Truncate => keys.truncate(),
        }
        image += u32::from(op.has_image());
        old += u32::from(op.has_old_key());
    }
    let resolved = lineage.resolve(buffer.unchanged()).ok_or_else(|| {
        let table = &buffer.schema().table;
        Error::new(
            ErrorKind::Bug,
            format!("an update of {table} left values of a row alone that cannot have been there"),
        )
    })?;
    Ok((keys, resolved))
}

/// The surviving rows and the keys to delete, as batches.
fn gather(
    keys: &Keys,
    resolved: &Resolved,
    departures: Option<&Departures>,
    buffer: RowBuffer,
    excerpt: &Excerpt,
) -> std::result::Result<DeltaBatch, ArrowError> {
    let schema = &Arc::clone(buffer.schema());
    let (_, images, old) = buffer.into_parts();
    let images: Vec<ArrayRef> = images.into_iter().map(ColumnBuffer::into_array).collect();
    let old: Vec<ArrayRef> = old.into_iter().map(ColumnBuffer::into_array).collect();
    let old_keys: Vec<ArrayRef> = schema.old_key().map(|place| Arc::clone(&old[place])).collect();

    let (mut from_old, mut from_image) = (Vec::new(), Vec::new());
    for state in &keys.states {
        match state.delete {
            Delete::No => {}
            Delete::OldKey(row) => from_old.push(row),
            Delete::Image(row) => from_image.push(row),
        }
    }
    let (from_old, from_image) = (UInt32Array::from(from_old), UInt32Array::from(from_image));
    let deletes = schema
        .key
        .iter()
        .zip(&old_keys)
        .map(|(&index, old)| concat(&[&take(old, &from_old, None)?, &take(&images[index], &from_image, None)?]))
        .collect::<std::result::Result<_, _>>()?;

    let mut rows: Vec<u32> = keys.states.iter().filter_map(|state| state.row).collect();
    rows.sort_unstable();
    let added = |rows: &[u32]| match departures {
        Some(departures) => vec![departures.cells(rows.iter().copied())],
        // The changes that a load is put right with are part of it.
        None => schema.loaded_cells(rows.len()),
    };
    let (mut incomplete, mut images) = (None, images);
    // Where every image survived whole there is nothing to pick.
    if rows.len() < images[0].len() || !resolved.is_empty() {
        let (whole, lacking): (Vec<u32>, Vec<u32>) = rows.into_iter().partition(|row| !resolved.lacks(*row));
        if !lacking.is_empty() {
            incomplete = incomplete_rows(schema, excerpt, resolved, lacking, &images, &added, &old_keys)?;
        }
        images = picked(resolved, &whole, &images)?;
        rows = whole;
    }
    let retire = departures.and_then(Departures::of_table);
    let replace = keys.truncated || retire.is_some();
    let batch = batch(schema, excerpt, replace, images, added(&rows), incomplete, deletes)?;
    Ok(DeltaBatch { retire, ..batch })
}

fn batch(
    schema: &Arc<TableSchema>,
    excerpt: &Excerpt,
    replace: bool,
    images: Vec<ArrayRef>,
    added: Vec<ArrayRef>,
    incomplete: Option<IncompleteRows>,
    deletes: Vec<ArrayRef>,
) -> std::result::Result<DeltaBatch, ArrowError> {
    let rows = excerpt.rows(images, added)?;
    let row_fields: Vec<Field> = schema.in_lake().columns.iter().map(field).collect();
    Ok(DeltaBatch {
        schema: Arc::clone(schema),
        replace,
        rows: RecordBatch::try_new(Arc::new(Schema::new(row_fields)), rows)?,
        incomplete,
        deletes: RecordBatch::try_new(Arc::new(key_fields(schema)), deletes)?,
        retire: None,
    })
}

/// Rows that lack cells, and where the table has them. None where the lake gets none of them, whatever these cells are.
fn incomplete_rows(
    schema: &TableSchema,
    excerpt: &Excerpt,
    resolved: &Resolved,
    mut rows: Vec<u32>,
    images: &[ArrayRef],
    added: &dyn Fn(&[u32]) -> Vec<ArrayRef>,
    old_keys: &[ArrayRef],
) -> std::result::Result<Option<IncompleteRows>, ArrowError> {
    let parts = |rows: &[u32]| {
        let missing = (0..schema.columns.len()).map(|column| resolved.missing(rows, column)).collect();
        Ok::<_, ArrowError>((excerpt.columns(picked(resolved, rows, images)?), excerpt.columns(missing)))
    };
    let (mut cells, mut missing) = parts(&rows)?;
    if let Some(filter) = excerpt.filter() {
        let may_be_had = filter.may_select_unchanged(&cells, &missing);
        let mut had = may_be_had.iter();
        rows.retain(|_| had.next() == Some(true));
        if rows.is_empty() {
            return Ok(None);
        }
        (cells, missing) = parts(&rows)?;
    }
    let places: Vec<(usize, usize)> = rows
        .iter()
        .filter_map(|row| resolved.key_in_table(*row))
        .map(|key| match key {
            KeyAt::OldKey(row) => (0, row as usize),
            KeyAt::Image(row) => (1, row as usize),
        })
        .collect();
    let keys = schema.key.iter().zip(old_keys);
    let keys = keys
        .map(|(&index, old)| interleave(&[&**old, &*images[index]], &places))
        .collect::<std::result::Result<_, _>>()?;
    let added = added(&rows);
    missing.resize(cells.len() + added.len(), None);
    let mut columns = excerpt.masked(cells);
    columns.extend(added);
    let fields: Vec<Field> = schema.in_lake().columns.iter().map(|column| field(column).with_nullable(true)).collect();
    Ok(Some(IncompleteRows {
        rows: RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?,
        keys: RecordBatch::try_new(Arc::new(key_fields(schema)), keys)?,
        missing,
        filter: excerpt.filter().cloned(),
    }))
}

/// These images, each cell from the image that has it.
fn picked(resolved: &Resolved, rows: &[u32], images: &[ArrayRef]) -> std::result::Result<Vec<ArrayRef>, ArrowError> {
    let own = UInt32Array::from(rows.to_vec());
    let pick = |(column, image): (usize, &ArrayRef)| match resolved.images_of(rows, column) {
        Some(images) => take(image, &UInt32Array::from(images), None),
        None => take(image, &own, None),
    };
    images.iter().enumerate().map(pick).collect()
}

pub(crate) fn field(column: &Column) -> Field {
    Field::new(&column.name, column.ty.arrow_type(), column.nullable)
}

pub(crate) fn key_fields(schema: &TableSchema) -> Schema {
    Schema::new(schema.key_columns().map(field).collect::<Vec<_>>())
}

#[cfg(test)]
mod retire_tests;

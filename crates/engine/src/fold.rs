//! Folding: of all changes to a key within a checkpoint only the last state is written.
//!
//! A key whose first change is an insert needs no equality delete; one whose first change is an update or a delete does.
//! A key change deletes the old key and puts the new one. TRUNCATE forgets what came before, and what comes after it needs
//! no delete. An equality delete applies only to rows with a strictly smaller sequence number, so the deletes written beside
//! the rows of the same snapshot never reach those rows.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{ArrowError, Field, Schema};
use arrow_select::concat::concat;
use arrow_select::take::take;
use calve_core::{Column, ColumnBuffer, DeltaBatch, Error, ErrorKind, Result, RowBuffer, RowOp};
use hashbrown::{DefaultHashBuilder, HashTable};

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

/// Folds the changes of one table. One row and one delete a key at most come out.
pub fn fold(buffer: RowBuffer, inserts: Inserts) -> Result<DeltaBatch> {
    let put = |image| match inserts {
        Inserts::AreNew => Delete::No,
        Inserts::MayExist => Delete::Image(image),
    };
    let schema = Arc::clone(buffer.schema());
    let mut keys = Keys::with_room(buffer.len());
    let (mut image, mut old) = (0_u32, 0_u32);
    for &op in buffer.ops() {
        let start = keys.bytes.len();
        match op {
            RowOp::Insert => {
                buffer.encode_image_key(image as usize, &mut keys.bytes);
                keys.touch(start, put(image)).row = Some(image);
            }
            RowOp::Update => {
                buffer.encode_image_key(image as usize, &mut keys.bytes);
                keys.touch(start, Delete::Image(image)).row = Some(image);
            }
            RowOp::UpdateFrom => {
                buffer.encode_old_key(old as usize, &mut keys.bytes);
                let old_state = keys.touch(start, Delete::OldKey(old));
                old_state.row = None;
                // Where the key stayed the same this finds the state just touched, and its delete stands.
                let start = keys.bytes.len();
                buffer.encode_image_key(image as usize, &mut keys.bytes);
                keys.touch(start, put(image)).row = Some(image);
            }
            RowOp::Delete => {
                buffer.encode_old_key(old as usize, &mut keys.bytes);
                keys.touch(start, Delete::OldKey(old)).row = None;
            }
            RowOp::Truncate => keys.truncate(),
        }
        image += u32::from(op.has_image());
        old += u32::from(op.has_old_key());
    }
    gather(&schema.columns, &schema.key, &keys, buffer)
        .map(|(rows, deletes)| DeltaBatch { schema: Arc::clone(&schema), replace: keys.truncated, rows, deletes })
        .map_err(|e| Error::with_source(ErrorKind::Bug, format!("changes of {} could not be folded", schema.table), e))
}

/// The surviving rows and the keys to delete, as batches.
fn gather(
    columns: &[Column],
    key: &[usize],
    keys: &Keys,
    buffer: RowBuffer,
) -> std::result::Result<(RecordBatch, RecordBatch), ArrowError> {
    let (_, images, old_keys) = buffer.into_parts();
    let images: Vec<ArrayRef> = images.into_iter().map(ColumnBuffer::into_array).collect();
    let old_keys: Vec<ArrayRef> = old_keys.into_iter().map(ColumnBuffer::into_array).collect();

    let (mut from_old, mut from_image) = (Vec::new(), Vec::new());
    for state in &keys.states {
        match state.delete {
            Delete::No => {}
            Delete::OldKey(row) => from_old.push(row),
            Delete::Image(row) => from_image.push(row),
        }
    }
    let (from_old, from_image) = (UInt32Array::from(from_old), UInt32Array::from(from_image));
    let deletes = key
        .iter()
        .zip(&old_keys)
        .map(|(&index, old)| concat(&[&take(old, &from_old, None)?, &take(&images[index], &from_image, None)?]))
        .collect::<std::result::Result<_, _>>()?;

    let mut rows: Vec<u32> = keys.states.iter().filter_map(|state| state.row).collect();
    let images = if rows.len() == images[0].len() {
        images // every image survived: nothing to pick
    } else {
        rows.sort_unstable();
        let rows = UInt32Array::from(rows);
        images.iter().map(|column| take(column, &rows, None)).collect::<std::result::Result<_, _>>()?
    };
    let field = |column: &Column| Field::new(&column.name, column.ty.arrow_type(), column.nullable);
    let row_fields: Vec<Field> = columns.iter().map(field).collect();
    let key_fields: Vec<Field> = key.iter().map(|&index| field(&columns[index])).collect();
    let rows = RecordBatch::try_new(Arc::new(Schema::new(row_fields)), images)?;
    Ok((rows, RecordBatch::try_new(Arc::new(Schema::new(key_fields)), deletes)?))
}

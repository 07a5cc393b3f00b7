//! The changes of one table as they come from the log: columns of row images, and beside them what was done.

use std::sync::Arc;

use crate::{
    Column, ColumnBuffer, ColumnType, ColumnUse, LogEntries, Origin, Substitute, TableSchema, Values, encode_key,
};

/// What one entry of a [`RowBuffer`] did to its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowOp {
    /// A row that was not there. One new image.
    Insert,
    /// A row changed and kept its key. One new image.
    Update,
    /// A row changed and the source sent the key it had before, equal to the new one or not. One old key, one new image.
    UpdateFrom,
    /// A row went. One old key.
    Delete,
    /// A row went, of a table that keeps it as deleted ([`TableMode::SoftDelete`](crate::TableMode)): there nothing else says so, and
    /// a change of a key comes after the row that goes by it. One new image, of the row as it was; what is not known of it is
    /// [unchanged](RowBuffer::note_unchanged).
    Retire,
    /// All rows went. No image.
    Truncate,
}

impl RowOp {
    /// Whether the entry carries a new image.
    pub fn has_image(self) -> bool {
        matches!(self, Self::Insert | Self::Update | Self::UpdateFrom | Self::Retire)
    }

    /// Whether the entry's image is of a row that was there, so that the log may leave values of it out.
    fn is_of_a_row(self) -> bool {
        matches!(self, Self::Update | Self::UpdateFrom | Self::Retire)
    }

    /// Whether the entry carries the key of the row before.
    pub fn has_old_key(self) -> bool {
        matches!(self, Self::UpdateFrom | Self::Delete)
    }
}

/// Values that something else took the place of, because the lake cannot hold them and a rule says what becomes of such.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Substituted {
    /// They became NULL.
    pub nulled: u64,
    /// They became the nearest value that their column's type holds.
    pub clamped: u64,
}

impl Substituted {
    /// Counts one.
    pub fn count(&mut self, substitute: Substitute) {
        match substitute {
            Substitute::Null => self.nulled += 1,
            Substitute::Nearest => self.clamped += 1,
        }
    }

    /// Counts those of others too.
    pub fn add(&mut self, others: Self) {
        self.nulled += others.nulled;
        self.clamped += others.clamped;
    }

    fn since(self, before: Self) -> Self {
        Self { nulled: self.nulled - before.nulled, clamped: self.clamped - before.clamped }
    }
}

/// A place between two entries of a [`RowBuffer`], to go back to or to cut at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    ops: usize,
    images: usize,
    old_keys: usize,
    substituted: Substituted,
}

/// A cell of a new image that stands for the value which its row had before: an update left it alone, and the log does not
/// carry it. The cell itself is NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unchanged {
    /// Which of the new images.
    pub image: usize,
    /// Which of the schema's columns; none of the key's.
    pub column: usize,
}

/// The changes of one table, in log order, under one schema.
///
/// A decoder appends the cells of the new image to [`image`](Self::image) and those of the old key to
/// [`old`](Self::old), then calls [`finish_row`](Self::finish_row); a row that fails half-way is taken back with
/// [`discard_row`](Self::discard_row). `images` is columns of the full row, `old` those that are kept of the row before
/// ([`TableSchema::old_columns`]): the key, or of a table that keeps a log all. Of columns that are left out nothing is appended.
#[derive(Debug)]
pub struct RowBuffer {
    schema: Arc<TableSchema>,
    ops: Vec<RowOp>,
    images: Vec<ColumnBuffer>,
    old: Vec<ColumnBuffer>,
    /// Ascending.
    unchanged: Vec<Unchanged>,
    /// Columns among the images, and among the rows before, of which nothing is kept.
    left_out: Arc<LeftOut>,
    /// Rows before may lack cells beside the key's, which are NULL then.
    old_in_part: bool,
    end: Mark,
    /// Of the entry that is not finished.
    substituted: Substituted,
    image_size: RowSize,
    old_size: RowSize,
    /// Which changes the entries are, for a log.
    log: LogEntries,
    /// What an entry takes once it is rows of a log, beside its cells.
    logged: usize,
}

/// What a digest takes of memory beside the value that it is of.
const DIGEST: usize = 68;

/// What the columns that a log adds take of memory for a row, about.
const LOGGED_ROW: usize = 96;
/// What is known of a transaction takes so much, about.
const LOGGED_TRANSACTION: usize = 192;

/// What rows of some columns use of memory: how much each, and in which columns it varies.
#[derive(Clone, Debug)]
struct RowSize {
    width: usize,
    varying: Box<[usize]>,
}

/// Places of columns of which nothing is kept.
#[derive(Debug)]
struct LeftOut {
    images: Vec<usize>,
    old: Vec<usize>,
}

impl RowSize {
    /// So many of the columns become digests.
    fn new(columns: &[ColumnBuffer], masked: usize) -> Self {
        let varying = columns.iter().enumerate().filter(|(_, column)| column.varying_bytes().is_some());
        let width = columns.iter().map(ColumnBuffer::cell_width).sum::<usize>() + masked * DIGEST;
        Self { width, varying: varying.map(|(at, _)| at).collect() }
    }

    fn bytes(&self, rows: usize, columns: &[ColumnBuffer]) -> usize {
        let varying = self.varying.iter().filter_map(|&at| columns[at].varying_bytes());
        rows * self.width + varying.sum::<usize>()
    }
}

/// Where cells of a column go. One that is left out has none; NULL, a bit each, keeps its place.
fn column_buffer(column: &Column) -> ColumnBuffer {
    ColumnBuffer::new(if column.usage.is_left_out() { ColumnType::Boolean } else { column.ty.clone() })
}

impl RowBuffer {
    /// An empty buffer for rows of this schema.
    pub fn new(schema: Arc<TableSchema>) -> Self {
        let (columns, before) = (schema.columns.iter(), schema.old_columns());
        let images: Vec<_> = columns.clone().map(column_buffer).collect();
        let old: Vec<_> = before.iter().map(|at| column_buffer(&schema.columns[*at])).collect();
        let is_left_out = |column: &Column| column.usage.is_left_out();
        let left_out = columns.enumerate().filter(|(_, column)| is_left_out(column)).map(|(at, _)| at).collect();
        let before = before.iter().enumerate().filter(|(_, at)| is_left_out(&schema.columns[**at]));
        let left_out = Arc::new(LeftOut { images: left_out, old: before.map(|(place, _)| place).collect() });
        let masked = |at: &usize| matches!(schema.columns[*at].usage, ColumnUse::Masked(_));
        let masked_old = schema.old_columns().iter().filter(|at| masked(at)).count();
        let masked_images = (0..images.len()).filter(|at| masked(at)).count();
        let (image_size, old_size) = (RowSize::new(&images, masked_images), RowSize::new(&old, masked_old));
        let (end, substituted) = (Mark::default(), Substituted::default());
        let (ops, unchanged) = (Vec::new(), Vec::new());
        let log = LogEntries::default();
        let rows_an_entry = usize::from(schema.keeps_log()) + usize::from(schema.keeps_preimages());
        let logged = rows_an_entry * LOGGED_ROW;
        let old_in_part = false;
        Self {
            schema,
            ops,
            images,
            old,
            unchanged,
            left_out,
            old_in_part,
            end,
            substituted,
            image_size,
            old_size,
            log,
            logged,
        }
    }

    /// The schema all rows have.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// The column of new images at `index` of the schema's columns, to append a cell to.
    #[inline]
    pub fn image(&mut self, index: usize) -> &mut ColumnBuffer {
        &mut self.images[index]
    }

    /// The column of rows before at `index` of the schema's [`old_columns`](TableSchema::old_columns), to append a cell to.
    #[inline]
    pub fn old(&mut self, index: usize) -> &mut ColumnBuffer {
        &mut self.old[index]
    }

    /// All columns of new images, to append cells to.
    pub fn images_mut(&mut self) -> &mut [ColumnBuffer] {
        &mut self.images
    }

    /// NULL, appended last to a column of the present entry's image, stands for the value that the row has already. Columns are
    /// told in their order; only updates and rows that retire leave values alone, and none of the key.
    ///
    /// # Panics
    /// When the column is not told in order, is of the key, or holds something else: a decoder that does this is wrong.
    pub fn note_unchanged(&mut self, column: usize) {
        let cell = Unchanged { image: self.end.images, column };
        assert!(
            self.unchanged.last().is_none_or(|last| *last < cell)
                && !self.schema.key.contains(&column)
                && self.images[column].len() == cell.image + 1
                && self.images[column].is_null(cell.image),
            "column {column} of {} was wrongly said to be unchanged",
            self.schema.table
        );
        self.unchanged.push(cell);
    }

    /// The cells that stand for a value not in the log, in the order of images, then of columns.
    pub fn unchanged(&self) -> &[Unchanged] {
        &self.unchanged
    }

    /// Completes the entry whose cells were appended.
    ///
    /// # Panics
    /// When a column lacks its cell or has one too many, when what is of no row that was there left a value alone, or when a row
    /// goes in another way than its table wants: a decoder that does this is wrong.
    pub fn finish_row(&mut self, op: RowOp) {
        let mut end = self.end;
        end.ops += 1;
        end.images += usize::from(op.has_image());
        end.old_keys += usize::from(op.has_old_key());
        if op.has_image() {
            self.left_out.images.iter().for_each(|&at| self.images[at].push_null());
        }
        if op.has_old_key() {
            self.left_out.old.iter().for_each(|&at| self.old[at].push_null());
        }
        assert!(
            self.images.iter().all(|c| c.len() == end.images) && self.old.iter().all(|c| c.len() == end.old_keys),
            "a row of {} was finished with cells missing or left over",
            self.schema.table
        );
        assert!(
            op.is_of_a_row() || self.unchanged.last().is_none_or(|cell| cell.image < self.end.images),
            "a row of {} that is no update leaves a value alone",
            self.schema.table
        );
        let goes_wrong = if self.schema.retires_rows() { RowOp::Delete } else { RowOp::Retire };
        assert!(op != goes_wrong, "a row of {} went by {op:?}", self.schema.table);
        self.ops.push(op);
        end.substituted.add(std::mem::take(&mut self.substituted));
        self.end = end;
    }

    /// The log has of some row before a change no more than its key: the other cells, which are NULL, say nothing.
    pub fn note_old_in_part(&mut self) {
        self.old_in_part = true;
    }

    /// Whether NULL in a row before, beside its key, may say nothing.
    pub fn is_old_in_part(&self) -> bool {
        self.old_in_part
    }

    /// The source had values for cells of the present entry that the lake cannot hold, and others were appended instead, as
    /// rules say. Counted with the entry.
    pub fn note_substituted(&mut self, substituted: Substituted) {
        self.substituted.add(substituted);
    }

    /// Values that something else took the place of.
    pub fn substituted(&self) -> Substituted {
        self.end.substituted
    }

    /// Forgets the cells appended since the last finished entry.
    pub fn discard_row(&mut self) {
        self.cut(self.end);
    }

    /// Entries in the buffer.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Bytes of memory the entries use, but for the bits that tell NULL. Asked for at every row, so no column of fixed width
    /// is looked at.
    pub fn bytes(&self) -> usize {
        self.end.ops
            + self.unchanged.len() * size_of::<Unchanged>()
            + self.image_size.bytes(self.end.images, &self.images)
            + self.old_size.bytes(self.end.old_keys, &self.old)
            + self.end.ops * self.logged
            + self.log.transactions.len() * LOGGED_TRANSACTION
    }

    /// The end of the last finished entry.
    pub fn mark(&self) -> Mark {
        self.end
    }

    /// Goes back to an earlier end.
    pub fn truncate(&mut self, mark: Mark) {
        self.cut(mark);
        self.log.truncate(mark.ops);
    }

    fn cut(&mut self, mark: Mark) {
        self.ops.truncate(mark.ops);
        for column in &mut self.images {
            column.truncate(mark.images);
        }
        for column in &mut self.old {
            column.truncate(mark.old_keys);
        }
        self.unchanged.truncate(self.unchanged_before(mark));
        self.end = mark;
        self.substituted = Substituted::default();
    }

    fn unchanged_before(&self, mark: Mark) -> usize {
        self.unchanged.partition_point(|cell| cell.image < mark.images)
    }

    /// Moves the entries after `mark` into a buffer of their own.
    #[must_use]
    pub fn split_off(&mut self, mark: Mark) -> Self {
        let end = Mark {
            ops: self.end.ops - mark.ops,
            images: self.end.images - mark.images,
            old_keys: self.end.old_keys - mark.old_keys,
            substituted: self.end.substituted.since(mark.substituted),
        };
        let mut unchanged = self.unchanged.split_off(self.unchanged_before(mark));
        for cell in &mut unchanged {
            cell.image -= mark.images;
        }
        let tail = Self {
            schema: Arc::clone(&self.schema),
            ops: self.ops.split_off(mark.ops),
            images: self.images.iter_mut().map(|column| column.split_off(mark.images)).collect(),
            old: self.old.iter_mut().map(|column| column.split_off(mark.old_keys)).collect(),
            unchanged,
            left_out: Arc::clone(&self.left_out),
            old_in_part: self.old_in_part,
            end,
            substituted: std::mem::take(&mut self.substituted),
            image_size: self.image_size.clone(),
            old_size: self.old_size.clone(),
            log: self.log.split_off(mark.ops),
            logged: self.logged,
        };
        self.end = mark;
        tail
    }

    /// The next entry is the change of its table that has this number. Said of an empty buffer.
    pub fn number_from(&mut self, first: u64) {
        debug_assert!(self.is_empty(), "entries of {} have numbers already", self.schema.table);
        self.log.first = first;
    }

    /// Entries from here on are of this transaction.
    pub fn begin_transaction(&mut self, origin: Arc<Origin>) {
        self.log.truncate(self.len());
        self.log.transactions.push((self.len(), origin));
    }

    /// Which changes the entries are; empty unless the table [wants to know](TableSchema::wants_origins).
    pub fn log(&self) -> &LogEntries {
        &self.log
    }

    /// Whether all rows go at once, of a table that keeps them as deleted.
    pub fn retires_all(&self) -> bool {
        self.schema.retires_rows() && self.ops.contains(&RowOp::Truncate)
    }

    /// The number of the change after the last entry.
    pub fn next_number(&self) -> u64 {
        self.log.first + self.len() as u64
    }

    /// What was done, in log order.
    pub fn ops(&self) -> &[RowOp] {
        &self.ops
    }

    /// Whether each new image is known to have a greater key than the one before. Other keys than a single number are not looked
    /// at.
    pub fn keys_ascend(&self) -> bool {
        let [key] = self.schema.key[..] else { return false };
        match self.images[key].values() {
            Values::Int32(numbers) => numbers.is_sorted_by(|a, b| a < b),
            Values::Int64(numbers) => numbers.is_sorted_by(|a, b| a < b),
            _ => false,
        }
    }

    /// Appends the encoded key of new image `row` to `out`.
    pub fn encode_image_key(&self, row: usize, out: &mut Vec<u8>) {
        encode_key(self.schema.key.iter().map(|&index| &self.images[index]), row, out);
    }

    /// Appends the encoded old key `row` to `out`.
    pub fn encode_old_key(&self, row: usize, out: &mut Vec<u8>) {
        encode_key(self.schema.old_key().map(|place| &self.old[place]), row, out);
    }

    /// Takes the buffer apart: entries, columns of new images, columns of rows before. Cells that are [`unchanged`](Self::unchanged)
    /// are NULL in them: whoever can meet such cells asks for them first.
    pub fn into_parts(self) -> (Vec<RowOp>, Vec<ColumnBuffer>, Vec<ColumnBuffer>) {
        (self.ops, self.images, self.old)
    }
}

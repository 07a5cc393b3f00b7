//! Assembles committed transactions into checkpoints: the engine's end of [`ChangeSink`].
//!
//! A checkpoint always ends at a transaction boundary. Where it has to be sealed in the middle of a transaction, the rows
//! of that transaction are split off and stay behind; where a single transaction outgrows a checkpoint, it is handed on in
//! chunks, which are staged but not committed before the transaction ends.

use std::collections::VecDeque;
use std::sync::Arc;

use calve_core::{
    ChangeSink, Evolution, Mark, Origin, Position, RowBuffer, SchemaChange, StopReason, TableIndex, TableSchema,
    TransactionPoint,
};

use crate::policy::SchemaPolicies;
use crate::settings::{Mutation, Rules, Settings};
use crate::weight::{UnderWay, Weight};

/// The changes of one table within a checkpoint or chunk.
pub(crate) type TableRows = (TableIndex, RowBuffer);

/// What the reader hands to the committer, in this order.
#[derive(Debug)]
pub(crate) enum Work {
    /// Part of a transaction that is not over yet.
    Chunk(Vec<TableRows>),
    /// The transaction whose chunks were handed on will come again from its beginning.
    Abandon,
    /// A complete checkpoint.
    Seal(Sealed),
    /// The table cannot go on beyond the checkpoint sealed last.
    Stop(TableIndex, StopReason),
    /// Something that might stop the table does not, as its policy says.
    Ignored(TableIndex, StopReason),
}

impl Work {
    /// Memory that its rows use.
    pub(crate) fn bytes(&self) -> usize {
        let tables = match self {
            Self::Chunk(tables) => tables,
            Self::Seal(sealed) => &sealed.tables,
            Self::Abandon | Self::Stop(..) | Self::Ignored(..) => return 0,
        };
        tables.iter().map(|(_, rows)| rows.bytes()).sum()
    }
}

/// A checkpoint, complete and not yet written.
#[derive(Debug)]
pub(crate) struct Sealed {
    /// Where the checkpoint before ended.
    pub(crate) start: Position,
    /// End of its last transaction.
    pub(crate) end: Position,
    /// Source time of its newest transaction, microseconds since 1970-01-01 UTC.
    pub(crate) committed_at: Option<i64>,
    /// Tables with changes; for a transaction handed on in chunks, the last of them.
    pub(crate) tables: Vec<TableRows>,
}

/// A followed table, as far as reading is concerned.
#[derive(Debug)]
struct Slot {
    schema: Arc<TableSchema>,
    policies: SchemaPolicies,
    buffer: Option<RowBuffer>,
    /// Memory the buffer used when it was last looked at.
    bytes: usize,
    /// Changes are wanted beyond this position: what is at or below it is in the table, or is brought by its load. None
    /// while the table is stopped or its load has not begun.
    after: Option<Position>,
    /// The transaction that touched the table last, and the buffer's end before it.
    touched: u64,
    mark: Mark,
    /// The schema before the present transaction changed it.
    before: Option<Arc<TableSchema>>,
    /// Changes whose rows were handed on, where the table keeps a log.
    changes: u64,
}

impl Slot {
    /// An empty buffer for what comes next, which is of this transaction.
    fn buffer(&self, origin: Option<&Arc<Origin>>) -> RowBuffer {
        let mut buffer = RowBuffer::new(Arc::clone(&self.schema));
        if self.schema.keeps_log() {
            buffer.number_from(self.changes + 1);
        }
        if self.schema.wants_origins()
            && let Some(origin) = origin
        {
            buffer.begin_transaction(Arc::clone(origin));
        }
        buffer
    }

    /// Hands on the buffer.
    fn take(&mut self) -> Option<RowBuffer> {
        let buffer = self.buffer.take()?;
        self.changes = self.changes.max(buffer.next_number().saturating_sub(1));
        Some(buffer)
    }
}

/// What is taken of a table.
enum Part {
    /// Everything, the present transaction's rows included.
    All(Option<RowBuffer>),
    /// What came before the present transaction, which touched the table.
    Before(Option<RowBuffer>),
}

/// Limits of one checkpoint in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) rows: u64,
    pub(crate) bytes: usize,
}

/// Collects rows by table until a checkpoint is sealed.
#[derive(Debug)]
pub(crate) struct Assembler {
    slots: Vec<Slot>,
    /// One of the tables wants to know of transactions. That stays the same as long as its load counts.
    wants_origins: bool,
    limits: Limits,
    rules: Rules,
    /// End of the last transaction that is complete here.
    position: Position,
    committed_at: Option<i64>,
    /// End of the last sealed checkpoint.
    sealed: Position,
    /// The source has said where it stands, be it where reading began, and no checkpoint says so yet.
    spoke: Option<bool>,
    transaction: Option<TransactionPoint>,
    /// What is known of it, where a table wants that.
    origin: Option<Arc<Origin>>,
    /// Counts transactions.
    serial: u64,
    /// The transaction that chunks were handed on of, until it is sealed.
    chunked: Option<u64>,
    rows: u64,
    bytes: usize,
    last: Option<usize>,
    /// Tables that have another schema than what was handed on of them last.
    reshaped: Vec<usize>,
    /// Tables whose schema the present transaction changed.
    altered: Vec<usize>,
    ready: VecDeque<Work>,
    /// What was handed on and is not encoded yet.
    under_way: UnderWay,
    /// A large message waits until no rows are in memory.
    waits: bool,
}

impl Assembler {
    /// `from` is where reading begins. Of each table the changes beyond its own position are wanted; none where it has none.
    pub(crate) fn new(
        from: Position,
        tables: Vec<(Arc<TableSchema>, Option<Position>)>,
        limits: Limits,
        settings: &Settings,
    ) -> Self {
        let wants_origins = tables.iter().any(|(schema, _)| schema.wants_origins());
        let slots = tables.into_iter().map(|(schema, after)| Slot {
            policies: settings.policies(&schema.table),
            schema,
            buffer: None,
            bytes: 0,
            after,
            touched: 0,
            mark: Mark::default(),
            before: None,
            changes: 0,
        });
        Self {
            slots: slots.collect(),
            wants_origins,
            limits,
            rules: settings.rules,
            sealed: from.clone(),
            spoke: None,
            position: from,
            committed_at: None,
            transaction: None,
            origin: None,
            serial: 0,
            chunked: None,
            rows: 0,
            bytes: 0,
            last: None,
            reshaped: Vec::new(),
            altered: Vec::new(),
            ready: VecDeque::new(),
            under_way: UnderWay::new(),
            waits: false,
        }
    }

    /// Tables have had so many changes already, in their order.
    pub(crate) fn after_changes(mut self, changes: impl Iterator<Item = u64>) -> Self {
        for (slot, changes) in self.slots.iter_mut().zip(changes) {
            slot.changes = if self.rules.broken(Mutation::NumbersAgain) { 0 } else { changes };
        }
        self
    }

    /// Counts rows that are handed on, until they are encoded.
    pub(crate) fn hand_on(&self, work: &Work) -> Weight {
        self.under_way.add(work.bytes())
    }

    /// Waits until rows that were handed on are encoded. Cancel-safe.
    pub(crate) async fn encoded(&mut self) {
        self.under_way.lessened().await;
    }

    /// Whether there is memory for more rows: two checkpoints are there at a time, be they filled, queued or encoded, and a large
    /// message is alone.
    pub(crate) fn has_room(&self) -> bool {
        let under_way = self.under_way.bytes();
        if self.waits { under_way == 0 } else { self.bytes() + under_way < self.limits.bytes.saturating_mul(2) }
    }

    /// Memory that the rows use.
    pub(crate) fn bytes(&self) -> usize {
        let last = self.last.map_or(0, |last| {
            let slot = &self.slots[last];
            slot.buffer.as_ref().map_or(0, RowBuffer::bytes) - slot.bytes
        });
        self.bytes + last
    }

    /// End of the last complete transaction.
    pub(crate) fn position(&self) -> &Position {
        &self.position
    }

    /// Source time of the newest complete transaction that is not sealed yet.
    pub(crate) fn committed_at(&self) -> Option<i64> {
        self.committed_at
    }

    /// Whether anything, be it only an idle stretch of log, was read since the last seal.
    pub(crate) fn has_progress(&self) -> bool {
        self.position != self.sealed || self.spoke == Some(true)
    }

    /// Whether there is something of complete transactions to commit.
    pub(crate) fn has_changes(&self) -> bool {
        self.has_progress() && (self.rows > 0 || self.chunked.is_some() || !self.reshaped.is_empty())
    }

    /// The table's changes are of no more use.
    pub(crate) fn forget(&mut self, table: TableIndex) {
        let slot = &mut self.slots[table.0];
        slot.after = None;
        slot.buffer = None;
        slot.before = None;
        self.reshaped.retain(|reshaped| *reshaped != table.0);
        self.bytes -= std::mem::take(&mut slot.bytes);
    }

    /// The next piece of work that became ready by itself.
    pub(crate) fn next_ready(&mut self) -> Option<Work> {
        self.ready.pop_front()
    }

    /// When the limits are reached: the complete transactions as a checkpoint, or else a chunk of the transaction at hand.
    pub(crate) fn relieve(&mut self) -> Option<Work> {
        self.measure();
        let waited_for = self.waits && self.rows > 0;
        if self.rows < self.limits.rows && self.bytes < self.limits.bytes && !waited_for {
            return None;
        }
        if self.has_progress() {
            return Some(Work::Seal(self.seal()));
        }
        Some(self.chunk())
    }

    /// All that there is of the transaction at hand, where nothing before it waits to be sealed.
    fn chunk(&mut self) -> Work {
        self.chunked = Some(self.serial);
        let serial = self.serial;
        Work::Chunk(self.take(|slot| {
            debug_assert!(
                slot.buffer.is_none() || slot.touched == serial,
                "rows of no complete and no present transaction"
            );
            slot.mark = Mark::default();
            Part::All(slot.take())
        }))
    }

    /// Seals the complete transactions; rows of one that is not over stay behind.
    pub(crate) fn seal(&mut self) -> Sealed {
        let open = self.transaction.is_some().then_some(self.serial);
        let tables = self.take(|slot| {
            if open != Some(slot.touched) {
                return Part::All(slot.take());
            }
            let mark = std::mem::take(&mut slot.mark);
            let Some(buffer) = &mut slot.buffer else { return Part::Before(None) };
            let tail = buffer.split_off(mark);
            slot.changes = slot.changes.max(buffer.next_number().saturating_sub(1));
            Part::Before(slot.buffer.replace(tail))
        });
        debug_assert!(
            open.is_none() || self.chunked != open,
            "a seal would commit chunks of a transaction that is not over"
        );
        self.chunked = None;
        self.spoke = Some(false);
        let start = std::mem::replace(&mut self.sealed, self.position.clone());
        Sealed { start, end: self.position.clone(), committed_at: self.committed_at.take(), tables }
    }

    /// A table's new schema goes with its rows, or by itself in a buffer without any.
    fn take(&mut self, mut part: impl FnMut(&mut Slot) -> Part) -> Vec<TableRows> {
        let mut tables = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let (rows, whole) = match part(slot) {
                Part::All(rows) => (rows, true),
                Part::Before(rows) => (rows, slot.before.is_none()),
            };
            let reshaped = whole.then(|| self.reshaped.iter().position(|reshaped| *reshaped == index)).flatten();
            let rows = match reshaped {
                Some(at) => {
                    self.reshaped.swap_remove(at);
                    Some(rows.unwrap_or_else(|| slot.buffer(None)))
                }
                None => rows.filter(|rows| !rows.is_empty()),
            };
            tables.extend(rows.map(|rows| (TableIndex(index), rows)));
        }
        self.count();
        tables
    }

    /// Counts what the buffers hold.
    fn count(&mut self) {
        (self.rows, self.bytes, self.last) = (0, 0, None);
        for slot in &mut self.slots {
            slot.bytes = slot.buffer.as_ref().map_or(0, RowBuffer::bytes);
            self.bytes += slot.bytes;
            self.rows += slot.buffer.as_ref().map_or(0, |buffer| buffer.len() as u64);
        }
    }

    /// Counts what was appended to the buffer handed out last.
    fn measure(&mut self) {
        if let Some(slot) = self.last.take().map(|last| &mut self.slots[last]) {
            let now = slot.buffer.as_ref().map_or(0, RowBuffer::bytes);
            self.bytes = self.bytes - slot.bytes + now;
            slot.bytes = now;
        }
    }

    fn end_transaction(&mut self) {
        self.measure();
        self.transaction = None;
    }

    /// Rows of two schemas never share a buffer, and a schema is committed by itself: what came before it is handed on first.
    fn reshape(&mut self, table: TableIndex, schema: Arc<TableSchema>) {
        self.measure();
        if self.has_progress() {
            let sealed = self.seal();
            self.ready.push_back(Work::Seal(sealed));
        }
        if self.slots[table.0].buffer.as_ref().is_some_and(|rows| !rows.is_empty()) {
            let chunk = self.chunk();
            self.ready.push_back(chunk);
        }
        let slot = &mut self.slots[table.0];
        slot.take();
        let before = std::mem::replace(&mut slot.schema, schema);
        // Between transactions there is none that could take it back.
        if self.transaction.is_some() {
            (slot.touched, slot.mark) = (self.serial, Mark::default());
            if slot.before.is_none() {
                slot.before = Some(before);
                self.altered.push(table.0);
            }
        }
        if !self.reshaped.contains(&table.0) {
            self.reshaped.push(table.0);
        }
    }

    /// Why the table cannot take the change, in words.
    fn refusal(&self, table: TableIndex, change: &SchemaChange) -> Option<String> {
        let slot = &self.slots[table.0];
        // Files of both would be staged before either schema is the table's, and could give their new columns the same id.
        let altered = slot.before.as_ref().is_some_and(|before| !before.has_rows_of(&slot.schema));
        let adds = || change.schema.kept().columns.iter().any(|column| slot.schema.counterpart(column).is_none());
        if altered && adds() {
            return Some("columns were added to it in two steps within a transaction".to_owned());
        }
        match (&change.existing_rows, slot.schema.evolution(&change.schema)) {
            (Some(why), _) => Some(why.clone()),
            (None, Evolution::ReadAgain(why)) => Some(why),
            (None, Evolution::Kept) => None,
        }
    }
}

impl ChangeSink for Assembler {
    fn begin(&mut self, transaction: &TransactionPoint) {
        assert!(self.transaction.is_none(), "a transaction began inside another");
        self.transaction = Some(transaction.clone());
        self.origin = None;
        self.serial += 1;
    }

    fn wants_origins(&self) -> bool {
        self.wants_origins
    }

    fn origin(&mut self, origin: Origin) {
        self.origin = Some(Arc::new(origin));
    }

    fn wants(&self, table: TableIndex) -> bool {
        let transaction = self.transaction.as_ref().expect("changes come inside a transaction");
        let slot = &self.slots[table.0];
        let Some(after) = &slot.after else { return false };
        // Asked at every row: positions are compared once a transaction.
        slot.touched == self.serial || !after.covers_transaction(transaction) || self.rules.broken(Mutation::SkipOff)
    }

    fn schema(&mut self, table: TableIndex, mut change: SchemaChange) {
        let Slot { schema: before, policies, .. } = &self.slots[table.0];
        // What is true of the lake alone, and the source knows nothing of.
        let keeps_gone = before.keeps_gone || change.schema.keeps_gone;
        let drops_columns = policies.drops_columns(before, &change.schema);
        if (change.schema.keeps_gone, change.schema.drops_columns) != (keeps_gone, drops_columns) {
            change.schema = Arc::new(TableSchema { keeps_gone, drops_columns, ..(*change.schema).clone() });
        }
        let refusal = match self.refusal(table, &change) {
            Some(why) if change.schema.swaps != before.swaps => Some(StopReason::swapped(&change.schema.table, why)),
            Some(why) => Some(StopReason::schema_changed(&change.schema.table, why)),
            None => policies.refusal(before, &change),
        };
        if let Some(reason) = refusal {
            self.stop(table, reason);
            return;
        }
        if let Some(what) = policies.left_out(before, &change.schema) {
            let reason = StopReason::schema_changed(&change.schema.table, what);
            self.ready.push_back(Work::Ignored(table, reason));
        }
        self.reshape(table, change.schema);
    }

    fn rows(&mut self, table: TableIndex) -> Option<&mut RowBuffer> {
        self.measure();
        if !self.wants(table) {
            return None;
        }
        let slot = &mut self.slots[table.0];
        if slot.buffer.is_none() {
            slot.buffer = Some(slot.buffer(self.origin.as_ref()));
        }
        let buffer = slot.buffer.as_mut()?;
        if slot.touched != self.serial {
            slot.touched = self.serial;
            slot.mark = buffer.mark();
            if slot.schema.wants_origins()
                && let Some(origin) = &self.origin
            {
                buffer.begin_transaction(Arc::clone(origin));
            }
        }
        self.rows += 1;
        self.last = Some(table.0);
        Some(buffer)
    }

    fn schema_of(&mut self, table: TableIndex) -> Option<Arc<TableSchema>> {
        self.wants(table).then(|| Arc::clone(&self.slots[table.0].schema))
    }

    fn stop(&mut self, table: TableIndex, reason: StopReason) {
        if self.slots[table.0].after.is_none() {
            return;
        }
        if self.slots[table.0].policies.ignores(&reason) {
            self.ready.push_back(Work::Ignored(table, reason));
            let schema = &self.slots[table.0].schema;
            if !schema.keeps_gone {
                let schema = Arc::new(TableSchema { keeps_gone: true, ..(**schema).clone() });
                self.reshape(table, schema);
            }
            return;
        }
        self.measure();
        // The table goes as far as the transactions that are complete; nothing after them of any table may be committed
        // before the stop itself is.
        if self.has_progress() {
            let sealed = self.seal();
            self.ready.push_back(Work::Seal(sealed));
        }
        self.ready.push_back(Work::Stop(table, reason));
        self.forget(table);
    }

    fn commit(&mut self, end: Position, committed_at: i64) {
        assert!(self.transaction.is_some(), "a transaction ended that did not begin");
        self.end_transaction();
        for table in self.altered.drain(..) {
            self.slots[table].before = None;
        }
        self.position = end;
        self.spoke.get_or_insert(true);
        self.committed_at = Some(committed_at);
    }

    fn abort(&mut self) {
        if self.transaction.is_none() {
            return;
        }
        if self.chunked == Some(self.serial) {
            self.chunked = None;
            self.ready.push_back(Work::Abandon);
        }
        let serial = self.serial;
        for slot in &mut self.slots {
            if slot.touched == serial
                && let Some(buffer) = &mut slot.buffer
            {
                buffer.truncate(slot.mark);
            }
        }
        // What the transaction changed of a schema was changed after everything before it was handed on.
        for table in self.altered.drain(..) {
            let slot = &mut self.slots[table];
            if let Some(before) = slot.before.take() {
                (slot.schema, slot.buffer) = (before, None);
                self.reshaped.retain(|reshaped| *reshaped != table);
            }
        }
        self.count();
        self.end_transaction();
    }

    fn idle(&mut self, end: Position) {
        assert!(self.transaction.is_none(), "an idle position came inside a transaction");
        if end.covers(&self.position) {
            self.position = end;
            self.spoke.get_or_insert(true);
        }
    }

    fn has_room_for(&mut self, bytes: usize) -> bool {
        let is_large = bytes >= self.limits.bytes / 2;
        self.waits = is_large && self.bytes() + self.under_way.bytes() > 0;
        !self.waits
    }

    fn is_full(&self) -> bool {
        !self.ready.is_empty() || self.rows >= self.limits.rows || self.bytes() >= self.limits.bytes
    }
}

//! A sink that writes down what it is told, in words.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use calve_core::{
    ChangeSink, ChangeSource, ColumnBuffer, CommitReceipt, CompleteTo, DurablePosition, LakeVersion, Lsn, MemberDigest,
    Position, RowBuffer, RowOp, SchemaChange, SourceTable, StopReason, TableIndex, TransactionPoint, Unchanged, Values,
};
use calve_postgres::PostgresSource;

pub(crate) struct Recorder {
    tables: Vec<SourceTable>,
    buffers: Vec<Option<RowBuffer>>,
    stopped: Vec<bool>,
    open: Option<Vec<usize>>,
    /// Complete transactions, each a list of changes.
    pub(crate) transactions: Vec<Vec<String>>,
    pub(crate) stops: Vec<(String, StopReason)>,
    /// Tables whose schema changed, the columns they have then, and what was said of rows that were there.
    pub(crate) schemas: Vec<(String, String, Option<String>)>,
    /// End of the last transaction.
    pub(crate) committed: u64,
    /// That, or an idle position beyond it.
    pub(crate) position: u64,
    pub(crate) idles: usize,
    pub(crate) aborts: usize,
    pub(crate) full: bool,
    log: Vec<String>,
}

impl Recorder {
    pub(crate) fn new(tables: &[SourceTable]) -> Self {
        Self {
            buffers: tables.iter().map(|_| None).collect(),
            stopped: vec![false; tables.len()],
            tables: tables.to_vec(),
            open: None,
            transactions: Vec::new(),
            stops: Vec::new(),
            schemas: Vec::new(),
            committed: 0,
            position: 0,
            idles: 0,
            aborts: 0,
            full: false,
            log: Vec::new(),
        }
    }

    /// Polls until `done`, or panics.
    pub(crate) async fn until(&mut self, source: &mut PostgresSource, what: &str, done: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !done(self) {
            assert!(Instant::now() < deadline, "{what} did not come; transactions: {:?}", self.transactions);
            source.poll(self).await.unwrap_or_else(|error| panic!("waiting for {what}: {error}"));
        }
    }

    pub(crate) async fn transactions(&mut self, source: &mut PostgresSource, count: usize) -> Vec<Vec<String>> {
        self.until(source, &format!("transaction {count}"), |sink| sink.transactions.len() >= count).await;
        std::mem::take(&mut self.transactions)
    }

    /// Changes of the transaction that is open.
    pub(crate) fn changes(&self) -> usize {
        self.log.len() + self.buffers.iter().flatten().map(RowBuffer::len).sum::<usize>()
    }

    fn write_down(&mut self) {
        for (table, buffer) in self.tables.iter().zip(&mut self.buffers) {
            let Some(buffer) = buffer.take() else { continue };
            let key_names: Vec<String> = table.schema.key_columns().map(|c| c.name.clone()).collect();
            let unchanged = buffer.unchanged().to_vec();
            let (ops, images, keys) = buffer.into_parts();
            let (mut image, mut key) = (0, 0);
            for op in ops {
                let mut words = format!("{} {op:?}", table.name.name);
                if op.has_old_key() {
                    for (name, column) in key_names.iter().zip(&keys) {
                        write!(words, " {name}={}", shown(column, key)).unwrap();
                    }
                    key += 1;
                }
                if op.has_old_key() && op.has_image() {
                    words += " ->";
                }
                if op.has_image() {
                    for (at, (column, cells)) in table.schema.columns.iter().zip(&images).enumerate() {
                        let kept = unchanged.contains(&Unchanged { image, column: at });
                        let shown = if kept { "as it was".to_owned() } else { shown(cells, image) };
                        write!(words, " {}={shown}", column.name).unwrap();
                    }
                    image += 1;
                }
                assert!(op.has_image() || op.has_old_key() || op == RowOp::Truncate);
                self.log.push(words);
            }
        }
    }
}

fn shown(column: &ColumnBuffer, row: usize) -> String {
    if column.is_null(row) {
        return "NULL".into();
    }
    match column.values() {
        Values::Boolean(bits) => bits.get_bit(row).to_string(),
        Values::Int32(v) => v[row].to_string(),
        Values::Int64(v) => v[row].to_string(),
        Values::Float32(v) => v[row].to_string(),
        Values::Float64(v) => v[row].to_string(),
        Values::Decimal(v) => v[row].to_string(),
        Values::Uuid(v) => format!("{:?}", &v[row * 16..row * 16 + 16]),
        Values::Bytes { offsets, data } => {
            let bytes = &data[offsets[row].try_into().unwrap()..offsets[row + 1].try_into().unwrap()];
            let text = String::from_utf8_lossy(bytes);
            if text.len() > 40 { format!("{} bytes", text.len()) } else { text.into_owned() }
        }
        Values::List { .. } | Values::Map { .. } => calve_core::cell_text(column, row).expect("it is there"),
    }
}

impl ChangeSink for Recorder {
    fn begin(&mut self, transaction: &TransactionPoint) {
        let TransactionPoint::Postgres { commit_lsn } = transaction else {
            panic!("{transaction:?} is none of Postgres")
        };
        assert!(self.open.replace(Vec::new()).is_none(), "a transaction began inside another");
        assert!(commit_lsn.0 >= self.position, "a transaction came twice or out of order");
    }

    fn wants(&self, table: TableIndex) -> bool {
        !self.stopped[table.0]
    }

    fn rows(&mut self, table: TableIndex) -> Option<&mut RowBuffer> {
        assert!(self.open.is_some(), "a row outside a transaction");
        if self.stopped[table.0] {
            return None;
        }
        // Changes of other tables are written down first, so that the order of the log shows.
        if self.buffers.iter().enumerate().any(|(i, buffer)| i != table.0 && buffer.is_some()) {
            self.write_down();
        }
        let schema = &self.tables[table.0].schema;
        Some(self.buffers[table.0].get_or_insert_with(|| RowBuffer::new(Arc::clone(schema))))
    }

    fn schema(&mut self, table: TableIndex, change: SchemaChange) {
        self.write_down();
        let columns = change.schema.columns.iter().map(|column| {
            let nullable = if column.nullable { "" } else { " not null" };
            format!("{} {} {}{nullable}", column.id, column.name, column.native.name)
        });
        let columns = columns.collect::<Vec<_>>().join(", ");
        self.schemas.push((self.tables[table.0].name.to_string(), columns, change.existing_rows));
        self.tables[table.0].schema = change.schema;
    }

    fn stop(&mut self, table: TableIndex, reason: StopReason) {
        if !self.stopped[table.0] {
            self.stopped[table.0] = true;
            self.buffers[table.0] = None;
            self.stops.push((self.tables[table.0].name.to_string(), reason));
        }
    }

    fn commit(&mut self, end: Position, committed_at: i64) {
        assert!(self.open.take().is_some(), "a transaction ended that did not begin");
        let Position::Postgres(end) = end else { panic!("{end} is none of Postgres") };
        assert!(end.0 > self.position, "positions must grow");
        self.committed = end.0;
        self.position = end.0;
        let year = 31_557_600_000_000;
        assert!((54 * year..100 * year).contains(&committed_at), "commit time {committed_at}");
        self.write_down();
        let log = std::mem::take(&mut self.log);
        self.transactions.push(log);
    }

    fn abort(&mut self) {
        self.open = None;
        self.buffers.iter_mut().for_each(|buffer| *buffer = None);
        self.log.clear();
        self.aborts += 1;
    }

    fn idle(&mut self, end: Position) {
        assert!(self.open.is_none(), "idle inside a transaction");
        let Position::Postgres(end) = end else { panic!("{end} is none of Postgres") };
        self.position = self.position.max(end.0);
        self.idles += 1;
    }

    fn is_full(&self) -> bool {
        self.full
    }
}

/// What a commit in the lake would prove.
pub(crate) fn durable(position: u64) -> DurablePosition {
    let position = Position::Postgres(Lsn(position));
    let complete = CompleteTo { members: MemberDigest::of([]), position: position.clone() };
    let receipt = CommitReceipt { version: LakeVersion("1".into()), complete_to: Some(complete) };
    DurablePosition::recorded(&position, &receipt).unwrap()
}

//! The captures as committed transactions: what is pushed into a sink, whole and from every position on.

use std::collections::BTreeMap;
use std::sync::Arc;

use calve_core::{
    ChangeSink, ColumnBuffer, Position, RowBuffer, SourceTable, StopReason, TableIndex, TableSchema, TransactionPoint,
};
use calve_spool::Spools;

use super::{Capture, captures, file, shown};
use crate::transactions::Transactions;

/// One committed transaction: its end, and what it did, table by table.
type Committed = (Position, Vec<String>);

/// Writes down what is committed, and holds its source to the rules of [`ChangeSink`].
struct Notes {
    tables: Vec<Arc<TableSchema>>,
    open: Option<BTreeMap<usize, RowBuffer>>,
    committed: Vec<Committed>,
    /// Where it was told that the log is, last.
    at: Position,
    stops: Vec<(usize, StopReason)>,
    /// Rolled back, or cut off.
    aborts: usize,
}

impl Notes {
    fn forward(&mut self, end: Position) {
        assert!(end.covers(&self.at), "the log went back from {} to {end}", self.at);
        self.at = end;
    }
}

impl ChangeSink for Notes {
    fn begin(&mut self, transaction: &TransactionPoint) {
        assert!(!self.at.covers_transaction(transaction), "{transaction:?} came at {}", self.at);
        assert!(self.open.replace(BTreeMap::new()).is_none(), "a transaction began inside another");
    }

    fn wants(&self, _: TableIndex) -> bool {
        true
    }

    fn rows(&mut self, table: TableIndex) -> Option<&mut RowBuffer> {
        let schema = &self.tables[table.0];
        let open = self.open.as_mut().expect("rows come inside a transaction");
        Some(open.entry(table.0).or_insert_with(|| RowBuffer::new(Arc::clone(schema))))
    }

    fn stop(&mut self, table: TableIndex, reason: StopReason) {
        self.stops.push((table.0, reason));
    }

    fn commit(&mut self, end: Position, committed_at: i64) {
        let changes = self.open.take().expect("a transaction ended that did not begin");
        assert!(committed_at > 1_700_000_000_000_000, "committed at {committed_at}");
        self.forward(end.clone());
        let lines: Vec<String> = changes.into_values().flat_map(lines).collect();
        // Definitions are transactions in which nothing is done to rows.
        if !lines.is_empty() {
            self.committed.push((end, lines));
        }
    }

    fn abort(&mut self) {
        assert!(self.open.take().is_some(), "nothing was begun that could be taken back");
        self.aborts += 1;
    }

    fn idle(&mut self, end: Position) {
        assert!(self.open.is_none(), "idle inside a transaction");
        self.forward(end);
    }

    fn is_full(&self) -> bool {
        false
    }
}

fn lines(buffer: RowBuffer) -> Vec<String> {
    let schema = Arc::clone(buffer.schema());
    let (ops, images, old_keys) = buffer.into_parts();
    let cells = |columns: &mut dyn Iterator<Item = (usize, &ColumnBuffer)>, row| -> String {
        let shown = columns.map(|(index, cells)| format!("{:?}", shown::show(&schema.columns[index], cells, row)));
        shown.collect::<Vec<_>>().join(",")
    };
    let (mut image, mut old) = (0, 0);
    let mut lines = Vec::new();
    for op in ops {
        let mut line = format!("{} {op:?}", schema.table.name);
        if op.has_old_key() {
            line.push_str(" from ");
            line.push_str(&cells(&mut schema.key.iter().copied().zip(&old_keys), old));
            old += 1;
        }
        if op.has_image() {
            line.push_str(" to ");
            line.push_str(&cells(&mut images.iter().enumerate(), image));
            image += 1;
        }
        lines.push(line);
    }
    lines
}

/// Reads the capture's log from its beginning, as a pipeline that is at `start` does.
fn read(capture: &Capture, start: &Position) -> Notes {
    let tables: Vec<SourceTable> = capture
        .tables
        .iter()
        .map(|table| SourceTable { name: table.schema.table.clone(), schema: Arc::clone(&table.schema) })
        .collect();
    let mut reader =
        Transactions::new(capture.flavour, 0, start, None, &tables, Spools::new(std::env::temp_dir())).unwrap();
    let mut notes = Notes {
        tables: tables.into_iter().map(|table| table.schema).collect(),
        open: None,
        committed: Vec::new(),
        at: start.clone(),
        stops: Vec::new(),
        aborts: 0,
    };
    reader.enter("binlog.000001");
    file::outer_bodies(&capture.log, |header, body| {
        reader.event(*header, body, &mut notes).unwrap_or_else(|error| panic!("{}: {error}", capture.name));
        reader.tell_quiet(&mut notes);
        Ok(())
    })
    .unwrap_or_else(|error| panic!("{}: {error}", capture.name));
    notes
}

fn starts(capture: &Capture) -> Vec<Position> {
    let by_place = "binlog:binlog.000001:4;created=0";
    let names: &[&str] = match capture.flavour {
        crate::binlog::Flavour::MariaDb => &["mariadb:"],
        // Without GTIDs there is only the place; with them the place would do as well.
        crate::binlog::Flavour::MySql if capture.name.ends_with("anonymous") => &[by_place],
        crate::binlog::Flavour::MySql => &["mysql:", by_place],
    };
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// What the log of a table described as it is at the end may stop it for.
fn is_expected(capture: &Capture, reason: &StopReason) -> bool {
    let partial = ["unfit", "not_full", "lost_labels", "generated"].iter().any(|name| capture.name.ends_with(name));
    partial || reason.state == StopReason::SCHEMA_CHANGED || capture.name.ends_with("statements")
}

#[test]
fn from_every_position_on_the_rest_of_the_log_is_read() {
    let mut transactions = 0;
    for capture in captures() {
        for start in starts(&capture) {
            let whole = read(&capture, &start);
            let unexpected: Vec<_> = whole.stops.iter().filter(|(_, reason)| !is_expected(&capture, reason)).collect();
            assert!(unexpected.is_empty(), "{}: {unexpected:?}", capture.name);
            transactions += whole.committed.len();
            for (done, (position, _)) in (1..).zip(&whole.committed) {
                // As it is remembered over a restart.
                let position: Position = position.to_string().parse().unwrap();
                let rest = read(&capture, &position);
                assert_eq!(rest.committed, whole.committed[done..], "{} from {position}", capture.name);
                let same = rest.at.covers(&whole.at) && whole.at.covers(&rest.at);
                assert!(same, "{} from {position} ends at {}, not at {}", capture.name, rest.at, whole.at);
            }
        }
    }
    assert!(transactions > 400, "only {transactions} transactions were read");
}

/// The rows of a distributed transaction come with its COMMIT; of one rolled back they never come.
#[test]
fn distributed_transactions_come_when_they_are_decided() {
    for capture in captures().iter().filter(|capture| capture.name.ends_with("/xa")) {
        for start in starts(capture) {
            let notes = read(capture, &start);
            let all: Vec<&String> = notes.committed.iter().flat_map(|(_, lines)| lines).collect();
            let rows = capture.tables.iter().map(|table| table.rows.len()).sum::<usize>();
            assert!(all.len() >= rows && rows > 0, "{}: {all:?}", capture.name);
            assert!(!all.iter().any(|line| line.contains("rolled back")), "{}: {all:?}", capture.name);
            assert_eq!((notes.stops.len(), notes.open.is_none()), (1, true), "{}: {:?}", capture.name, notes.stops);
        }
    }
}

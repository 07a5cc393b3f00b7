//! Events put together into transactions, and a sink that holds the reader to the sink's contract.

use std::sync::{Arc, OnceLock};

use calve_core::{
    ChangeSink, GtidSet, LastGtid, MariaDbGtid, Mark, Position, RowBuffer, SourceTable, StopReason, TableIndex,
    TransactionPoint,
};
use calve_spool::Spools;

use super::captured::captures;
use super::input::{Choices, events};
use super::rows::check;
use super::shown::Table;
use crate::binlog::Flavour;
use crate::binlog::event::{self, Event, Header, flag, kind};
use crate::transactions::Transactions;

/// Flavour, how positions are named, tables, where reading begins, how it goes on.
pub(super) const CHOICES: usize = 6;

/// Reads the events as a stream does: a rotation first, then each with its size and place made right.
pub fn transactions(data: &[u8]) {
    let (mut choices, rest) = Choices::split(data, CHOICES);
    let flavour = choices.flavour();
    let naming = choices.byte() % 3;
    let tables = choices.among(tables());
    let begun = usize::from(choices.byte() % 4);
    let ways = choices.byte();
    let events = as_sent(naming == 2, events(rest).take(500));
    let (start, expected) = start(flavour, naming, begun, &events);
    let expected = expected.filter(|_| ways & 1 == 1);
    let lower_case_table_names = ways >> 1 & 1;
    let spools = Spools::new(std::env::temp_dir());
    let mut transactions = Transactions::new(flavour, lower_case_table_names, &start, expected, tables, spools)
        .unwrap_or_else(|error| panic!("{start} is a place to begin at: {error}"));
    let mut sink = Recording::new(&start, tables, events.iter().any(|(header, _)| moves(header.kind)));
    let rotation = rotation();
    let opening = Header { flags: flag::ARTIFICIAL, ..header(kind::ROTATE, &rotation) };
    transactions.event(opening, &rotation, &mut sink).expect("a rotation is read");
    for (at, (header, body)) in events.iter().enumerate() {
        let read = search(&mut transactions, *header, body, ways & 4 != 0, &start, &events[..at])
            .and_then(|()| transactions.event(*header, body, &mut sink));
        assert_eq!(
            transactions.in_transaction(),
            sink.open.is_some(),
            "both know whether a transaction is open: {read:?}"
        );
        if read.is_err() {
            if transactions.in_transaction() {
                sink.abort();
            }
            break;
        }
        if ways & 8 != 0 {
            transactions.tell_quiet(&mut sink);
        }
    }
    sink.end();
}

/// Looks for an XA transaction as the source does: among what came before, or not at all.
fn search(
    transactions: &mut Transactions,
    header: Header,
    body: &[u8],
    again: bool,
    start: &Position,
    before: &[(Header, &[u8])],
) -> calve_core::Result<()> {
    let Some(xid) = transactions.unknown_xid(header, body)? else { return Ok(()) };
    let mut found = None;
    if again {
        let mut searcher = transactions.searcher(start)?;
        for (header, body) in before {
            searcher.event(*header, body, &mut Deaf)?;
        }
        found = searcher.take_prepared(&xid);
    }
    transactions.learn_prepared(xid, found);
    Ok(())
}

fn header(kind: u8, body: &[u8]) -> Header {
    sized(Header { timestamp: 0, kind, server_id: 1, size: 0, log_pos: 0, flags: 0 }, body)
}

/// Makes right what a transport and a file cannot get wrong: the sizes of events, who made them, and, where positions are places
/// in the log, that they follow one another.
fn as_sent<'a>(placed: bool, events: impl Iterator<Item = (Header, &'a [u8])>) -> Vec<(Header, &'a [u8])> {
    let mut end = 4_u32;
    let mut sent = Vec::new();
    for (header, body) in events {
        let mut header = sized(header, body);
        if !moves(header.kind) && header.kind != kind::FORMAT_DESCRIPTION {
            header.flags &= !flag::ARTIFICIAL;
        }
        if placed && !header.is_artificial() {
            end = end.wrapping_add(header.size);
            header.log_pos = end;
        }
        sent.push((header, body));
    }
    sent
}

/// A transport brings no event of another size than its header says.
fn sized(header: Header, body: &[u8]) -> Header {
    Header { size: u32::try_from(Header::LENGTH + body.len()).unwrap_or(u32::MAX), ..header }
}

fn rotation() -> Vec<u8> {
    [&4_u64.to_le_bytes(), b"binlog.000001".as_slice()].concat()
}

/// Events after which the place in the log is not one byte after the other.
fn moves(kind: u8) -> bool {
    matches!(kind, kind::ROTATE | kind::HEARTBEAT | kind::HEARTBEAT_V2)
}

/// Tables of each capture, as sources follow them.
fn tables() -> &'static [Vec<SourceTable>] {
    static TABLES: OnceLock<Vec<Vec<SourceTable>>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let of = |table: &Table| SourceTable { name: table.schema.table.clone(), schema: Arc::clone(&table.schema) };
        captures().iter().map(|capture| capture.tables.iter().map(of).collect()).collect()
    })
}

/// A position that holds the first transactions of the input, and the last of these.
fn start(flavour: Flavour, naming: u8, count: usize, events: &[(Header, &[u8])]) -> (Position, Option<LastGtid>) {
    let mut executed = GtidSet::default();
    let mut domains: Vec<(u32, MariaDbGtid)> = Vec::new();
    let mut last = None;
    let parsed = events.iter().filter_map(|(header, body)| event::parse(flavour, header, body).ok());
    for event in parsed.filter(|event| matches!(event, Event::Gtid(_) | Event::MariaGtid(_))).take(count) {
        match event {
            Event::Gtid(gtid) => {
                if let Some((source, number)) = gtid.id {
                    executed.insert(&source, number);
                    last = Some(LastGtid { source, number, committed_at: gtid.original_commit_us });
                }
            }
            Event::MariaGtid(gtid) => {
                domains.retain(|(domain, _)| *domain != gtid.domain);
                domains.push((gtid.domain, gtid.gtid));
            }
            _ => {}
        }
    }
    let domains: Vec<String> =
        domains.iter().map(|(domain, gtid)| format!("{domain}-{}-{}", gtid.server, gtid.sequence)).collect();
    let text = match naming {
        0 => format!("mysql:{executed}"),
        1 => format!("mariadb:{}", domains.join(",")),
        _ => format!("binlog:binlog.000001:{};created=0", count * 100 + 4),
    };
    (text.parse().unwrap_or_else(|error| panic!("{text}: {error}")), last)
}

/// The transaction that is open.
struct Open {
    point: TransactionPoint,
    /// Where each buffer was before it.
    marks: Vec<Mark>,
}

/// Keeps rows as the engine does, and panics where the contract of [`ChangeSink`] is broken.
struct Recording {
    buffers: Vec<RowBuffer>,
    stopped: Vec<bool>,
    open: Option<Open>,
    position: Position,
    /// Places in the log do not follow one another in this input.
    jumps: bool,
}

impl Recording {
    fn new(start: &Position, tables: &[SourceTable], jumps: bool) -> Self {
        let buffers = tables.iter().map(|table| RowBuffer::new(Arc::clone(&table.schema))).collect();
        Self { buffers, stopped: vec![false; tables.len()], open: None, position: start.clone(), jumps }
    }

    fn end(self) {
        let open = self.open.map(|open| open.marks);
        for (index, mut buffer) in self.buffers.into_iter().enumerate() {
            if let Some(marks) = &open {
                buffer.truncate(marks[index]);
            }
            check(buffer);
        }
    }

    /// A position is kept as text, and only goes forward.
    fn advance(&mut self, end: Position) {
        let text = end.to_string();
        assert_eq!(text.parse().as_ref(), Ok(&end), "{text} reads back");
        assert!(self.jumps || end.covers(&self.position), "{end} comes after {}", self.position);
        self.position = end;
    }
}

impl ChangeSink for Recording {
    fn begin(&mut self, transaction: &TransactionPoint) {
        assert!(self.open.is_none(), "a transaction began inside another");
        let marks = self.buffers.iter().map(RowBuffer::mark).collect();
        self.open = Some(Open { point: transaction.clone(), marks });
    }

    fn wants(&self, table: TableIndex) -> bool {
        !self.stopped[table.0]
    }

    fn rows(&mut self, table: TableIndex) -> Option<&mut RowBuffer> {
        assert!(self.open.is_some(), "rows come inside a transaction");
        if self.stopped[table.0] { None } else { Some(&mut self.buffers[table.0]) }
    }

    fn stop(&mut self, table: TableIndex, reason: StopReason) {
        assert!(!reason.state.is_empty() && !reason.detail.is_empty() && !reason.remedy.is_empty(), "{reason}");
        if let Some(open) = &self.open {
            self.buffers[table.0].truncate(open.marks[table.0]);
        }
        self.stopped[table.0] = true;
    }

    fn commit(&mut self, end: Position, _: i64) {
        let open = self.open.take().expect("a transaction that began");
        // A GTID that a log of MySQL holds twice is brought twice: the engine knows what it has.
        let again = self.position.covers_transaction(&open.point) && !matches!(end, Position::MySql(_));
        assert!(self.jumps || !again, "{:?} came again after {}", open.point, self.position);
        assert!(self.jumps || end.covers_transaction(&open.point), "{end} is after {:?}", open.point);
        self.advance(end);
    }

    fn abort(&mut self) {
        let open = self.open.take().expect("a transaction that began");
        for (buffer, mark) in self.buffers.iter_mut().zip(open.marks) {
            buffer.truncate(mark);
        }
    }

    fn idle(&mut self, end: Position) {
        assert!(self.open.is_none(), "an idle position came inside a transaction");
        self.advance(end);
    }

    fn is_full(&self) -> bool {
        false
    }
}

/// The sink of a searcher.
struct Deaf;

impl ChangeSink for Deaf {
    fn begin(&mut self, _: &TransactionPoint) {}

    fn wants(&self, _: TableIndex) -> bool {
        false
    }

    fn rows(&mut self, _: TableIndex) -> Option<&mut RowBuffer> {
        None
    }

    fn stop(&mut self, _: TableIndex, _: StopReason) {}
    fn commit(&mut self, _: Position, _: i64) {}
    fn abort(&mut self) {}
    fn idle(&mut self, _: Position) {}

    fn is_full(&self) -> bool {
        false
    }
}

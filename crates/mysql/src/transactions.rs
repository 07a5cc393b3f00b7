//! Events of the log put together into committed transactions, and pushed into the sink.
//!
//! A transaction runs from its GTID event (or BEGIN) to XID or COMMIT; a statement outside of one is a transaction of its
//! own. Positions are taken only at these ends. The sink hears of a transaction when its first change of a followed table
//! comes; of the others it hears how far the log is. Rows of an XA transaction are put aside at its PREPARE and count from
//! its COMMIT on, which is a transaction of its own with no rows in it.

mod copies;
mod members;
mod survival;
mod xa;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use calve_core::{
    BinlogOffset, ChangeSink, Error, ErrorKind, LastGtid, Position, Result, RowOp, SchemaChange, SourceTable,
    StopReason, TableIndex, TableName, TransactionPoint,
};
use calve_spool::{Spool, Spools};

use crate::binlog::Flavour;
use crate::binlog::decode::RowFault;
use crate::binlog::event::{self, Event, Header, StatementPart, kind};
use crate::binlog::gtid::{Gtid, MariaAlter, MariaGtid, MariaXa};
use crate::binlog::plan::RowPlan;
use crate::binlog::query::Query;
use crate::binlog::rows::RowsEvent;
use crate::binlog::table_map::TableMap;
use crate::binlog::wire::Malformed;
use crate::conversions::Conversions;
use crate::ddl::{StatementKind, Xid, shadow, statement_kind};
use crate::effects::{Altered, Effect, Statements};
use crate::place::{Place, TransactionGtid, TransactionName};
use crate::settings::MySqlSettings;

use members::Merged;
pub(crate) use xa::Prepared;
use xa::Undecided;

/// What a table id of the log stands for.
#[derive(Debug)]
enum Mapped {
    /// A table that is not followed.
    Other(TableName),
    Followed(TableIndex, Arc<RowPlan>),
    /// The log's columns are not those of the schema.
    Changed(TableIndex, String),
}

impl Mapped {
    fn table(&self) -> Option<TableIndex> {
        match self {
            Self::Other(..) => None,
            Self::Followed(table, _) | Self::Changed(table, _) => Some(*table),
        }
    }
}

/// A transaction that has begun in the log.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "what became of it so far, each by itself")]
struct Current {
    name: TransactionName,
    point: TransactionPoint,
    /// It is part of the position that reading began at.
    covered: bool,
    /// BEGIN was seen, or is implied: statements do not end it.
    open: bool,
    /// The sink knows of it.
    begun: bool,
    /// Of which XA transaction it is the first half, whose rows wait here.
    xa: Option<(Xid, Spool)>,
    /// By the server's clock, microseconds since 1970-01-01 UTC.
    committed_at: i64,
    /// Tables that it changed.
    touched: Vec<TableIndex>,
    /// Of a two-phase ALTER: not the part that changes the table.
    announces: bool,
}

/// The reader's state from event to event.
#[derive(Debug)]
pub(crate) struct Transactions {
    flavour: Flavour,
    tables: Vec<SourceTable>,
    indexes: HashMap<TableName, TableIndex>,
    statements: Statements,
    merged: Merged,
    /// Tables whose load began while the stream went on, and up to where the log may hold what their description shows already.
    settling: HashMap<TableIndex, BinlogOffset>,
    /// Tables that left their names to copies that do not have them yet.
    nameless: BTreeSet<TableIndex>,
    /// By table id, each with the bytes it was made from.
    maps: HashMap<u64, (Vec<u8>, Mapped)>,
    place: Place,
    start: Position,
    current: Option<Current>,
    undecided: Undecided,
    spools: Spools,
    conversions: Conversions,
    /// An event beyond it is told of.
    checkpoint_bytes: u64,
    /// The last transaction of the position that reading began at, if it was asked for again.
    expected: Option<LastGtid>,
    /// The log went on since the sink was told last.
    quiet: bool,
}

impl Transactions {
    /// Reading begins at `start`. With `expected` the log shall bring that transaction again, and be refused if it is another.
    pub(crate) fn new(
        flavour: Flavour,
        lower_case_table_names: u8,
        start: &Position,
        expected: Option<LastGtid>,
        tables: &[SourceTable],
        spools: Spools,
    ) -> Result<Self> {
        let indexes: HashMap<_, _> =
            tables.iter().enumerate().map(|(index, table)| (table.name.clone(), TableIndex(index))).collect();
        let merged = Merged::of(tables);
        Ok(Self {
            flavour,
            tables: tables.to_vec(),
            indexes,
            statements: Statements::new(flavour, lower_case_table_names, merged.followed(tables)),
            merged,
            settling: HashMap::new(),
            nameless: copies::nameless(tables),
            maps: HashMap::new(),
            place: Place::new(start)?,
            start: start.clone(),
            current: None,
            undecided: Undecided::default(),
            spools,
            conversions: Conversions::default(),
            checkpoint_bytes: u64::MAX,
            expected,
            quiet: false,
        })
    }

    /// As the pipeline's settings say.
    pub(crate) fn with_settings(self, settings: &MySqlSettings) -> Self {
        let conversions = settings.conversions.clone();
        let mut tables = self.tables;
        for table in &mut tables {
            if let Some(loosened) = conversions.rules.loosened(&table.schema) {
                table.schema = Arc::new(loosened);
            }
        }
        let merged = self.merged.by(&conversions.merges, &tables);
        Self { tables, conversions, merged, checkpoint_bytes: settings.checkpoint_bytes, ..self }
    }

    /// See [`Place::know`].
    pub(crate) fn know_place(&mut self, at: BinlogOffset) {
        self.place.know(at);
    }

    /// What comes next is in this file, from its beginning on.
    #[cfg(test)]
    pub(crate) fn enter(&mut self, file: &str) {
        self.place.rotate(file, 4);
    }

    /// These tables are being read as they are somewhere up to here: what alters them before that may have been seen by who
    /// described them, or not.
    pub(crate) fn loads(&mut self, tables: &[TableName], settled: &Position) {
        let Some(at) = settled.binlog_offset() else { return };
        let indexes = tables.iter().filter_map(|table| self.indexes.get(table));
        self.settling.extend(indexes.map(|index| (*index, at.clone())));
    }

    /// Where reading stands: after the last transaction that is over.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// A reader of the same tables from another place of the log, whose sink hears nothing.
    pub(crate) fn searcher(&self, from: &Position) -> Result<Self> {
        Ok(Self {
            flavour: self.flavour,
            tables: self.tables.clone(),
            indexes: self.indexes.clone(),
            statements: self.statements.clone(),
            merged: self.merged.clone(),
            settling: HashMap::new(),
            nameless: BTreeSet::new(),
            maps: HashMap::new(),
            place: Place::new(from)?,
            start: from.clone(),
            current: None,
            undecided: Undecided::default(),
            spools: self.spools.clone(),
            conversions: self.conversions.clone(),
            checkpoint_bytes: u64::MAX,
            expected: None,
            quiet: false,
        })
    }

    /// The sink is in the middle of a transaction.
    pub(crate) fn in_transaction(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.begun)
    }

    /// Tells the sink how far the log is, if nothing else told it.
    pub(crate) fn tell_quiet(&mut self, sink: &mut dyn ChangeSink) {
        if std::mem::take(&mut self.quiet) && self.current.is_none() {
            sink.idle(self.place.position());
        }
    }

    /// Handles an event.
    pub(crate) fn event(&mut self, header: Header, body: &[u8], sink: &mut dyn ChangeSink) -> Result<()> {
        if !header.is_artificial() && header.kind != kind::ROTATE && !is_heartbeat(header.kind) {
            // MariaDB writes events of a transaction without their place; they lie one after the other.
            let inside = header.log_pos == 0 && self.current.is_some();
            self.place.event_ended(header.log_pos, if inside { header.size } else { 0 });
        }
        self.inner(header, body, sink)?;
        self.give_up_gone();
        self.stop_unlike(sink);
        Ok(())
    }

    /// An event as it is, or as it comes out of a compressed transaction.
    fn inner(&mut self, header: Header, body: &[u8], sink: &mut dyn ChangeSink) -> Result<()> {
        if header.kind == kind::TABLE_MAP && self.is_known(body) {
            return self.keep_aside(header.kind, body);
        }
        let event = event::parse(self.flavour, &header, body).map_err(|error| self.malformed(&error))?;
        match event {
            Event::FormatDescription(description) => {
                self.file_begun(description.timestamp)?;
                self.maps.clear();
                if !header.is_artificial() {
                    // What a crash cut off was never committed, and has no end in the file before this one.
                    self.cut_off(sink);
                    if description.created != 0 {
                        self.server_began();
                    }
                    self.quiet_end();
                }
            }
            Event::Rotate { file, position } => self.place.rotate(file, position),
            Event::Heartbeat { file, position } => {
                self.place.heartbeat(file, position);
                self.quiet_end();
            }
            Event::Gtid(gtid) => self.begin(&header, &gtid, sink)?,
            Event::MariaGtid(gtid) => self.begin_maria(&header, &gtid, sink)?,
            Event::Query(query) => self.query(&header, &query, sink)?,
            Event::Xid => self.commit(sink)?,
            Event::XaPrepare(prepare) => {
                let xid = xa::owned(&prepare.xid);
                if prepare.one_phase { self.decide_own(sink)? } else { self.prepare(&xid, sink)? }
            }
            Event::TableMap(map) => {
                self.table_map(&map, body);
                self.keep_aside(header.kind, body)?;
            }
            Event::Rows(rows) => {
                // Those that were put aside were told of when they came.
                if header.size > 0 {
                    self.tell_large(&rows);
                }
                if !self.put_aside(&rows, header.kind, body)? {
                    self.rows(&rows, sink)?;
                }
            }
            Event::Payload(payload) => {
                let mut events = payload.events().map_err(|error| self.malformed(&error))?;
                while let Some(inner) = events.next() {
                    let (header, body) = inner.map_err(|error| self.malformed(&error))?;
                    self.inner(header, body, sink)?;
                }
            }
            Event::Incident { number, message } => {
                return Err(Error::new(
                    ErrorKind::SourceGone,
                    format!(
                        "the log says that it lacks changes (incident {number}: {}) at {}; run `calve reload --all`",
                        String::from_utf8_lossy(message),
                        self.place.position()
                    ),
                ));
            }
            Event::Statement(StatementPart::LoadData) => {
                self.stop_all_wanted(sink, |table| by_statement(table, "LOAD DATA was logged as a statement"))?;
            }
            // Only what a statement needs; the statement itself is looked at when it comes.
            Event::Aside(kind) => tracing::trace!(kind, "passed over an event"),
            Event::Statement(_) | Event::Stop | Event::PreviousGtids(_) | Event::GtidList(_) => {}
        }
        Ok(())
    }

    /// A file of the name that the position has must be the file that it was taken in.
    fn file_begun(&mut self, timestamp: u32) -> Result<()> {
        if let (Position::Binlog(start), Some(at)) = (&self.start, self.place.at())
            && start.created != 0
            && start.applied.file == at.file
            && start.created != timestamp
        {
            return Err(Error::new(
                ErrorKind::SourceGone,
                format!(
                    "file {} of the log is not the one that was replicated under this name: the log was reset, or the server                      was restored from a backup; run `calve reload --all`",
                    at.file
                ),
            ));
        }
        self.place.file_begun(timestamp);
        Ok(())
    }

    fn begin(&mut self, header: &Header, gtid: &Gtid, sink: &mut dyn ChangeSink) -> Result<()> {
        let id = gtid.id.clone().map(|(source, number)| TransactionGtid::MySql {
            source,
            number,
            committed_at: gtid.original_commit_us,
        });
        if let (Some(TransactionGtid::MySql { source, number, committed_at }), Some(expected)) = (&id, &self.expected)
            && (source, *number) == (&expected.source, expected.number)
        {
            if *committed_at != expected.committed_at {
                return Err(Error::new(
                    ErrorKind::SourceGone,
                    format!(
                        "transaction {source}:{number} is not the one that was replicated under this GTID: the server's log was \
                         reset, or it was restored from a backup; run `calve reload --all`"
                    ),
                ));
            }
            self.expected = None;
        }
        let committed_at = match gtid.immediate_commit_us {
            0 => i64::from(header.timestamp) * 1_000_000,
            us => i64::try_from(us).unwrap_or(i64::MAX),
        };
        self.begin_named(header, id, committed_at, sink)
    }

    fn begin_maria(&mut self, header: &Header, gtid: &MariaGtid<'_>, sink: &mut dyn ChangeSink) -> Result<()> {
        let id = TransactionGtid::MariaDb { domain: gtid.domain, gtid: gtid.gtid };
        self.begin_named(header, Some(id), i64::from(header.timestamp) * 1_000_000, sink)?;
        if let Some(current) = &mut self.current {
            current.open = !gtid.standalone;
            current.announces = matches!(gtid.alter, Some(MariaAlter::Start | MariaAlter::Rollback(_)));
            if let Some(MariaXa::Prepared(xid)) = &gtid.xa {
                current.xa = Some((xa::owned(xid), self.spools.spool()));
            }
        }
        Ok(())
    }

    fn begin_named(
        &mut self,
        header: &Header,
        gtid: Option<TransactionGtid>,
        committed_at: i64,
        sink: &mut dyn ChangeSink,
    ) -> Result<()> {
        // One that has no end was cut off by a crash of the server.
        self.cut_off(sink);
        let name = TransactionName { gtid, start: self.place.start_of_event(header.size) };
        let point = self.place.point(&name)?;
        let covered = self.start.covers_transaction(&point);
        self.current = Some(Current {
            name,
            point,
            covered,
            open: false,
            begun: false,
            xa: None,
            committed_at,
            touched: Vec::new(),
            announces: false,
        });
        Ok(())
    }

    fn query(&mut self, header: &Header, query: &Query<'_>, sink: &mut dyn ChangeSink) -> Result<()> {
        let kind = statement_kind(&query.sql);
        if self.current.is_none() {
            // Logs of servers without GTID events.
            self.begin_named(header, None, i64::from(header.timestamp) * 1_000_000, sink)?;
        }
        match kind {
            StatementKind::Begin => self.present().open = true,
            StatementKind::Commit => self.commit(sink)?,
            StatementKind::Rollback => self.roll_back(sink)?,
            StatementKind::Savepoint => {
                // The log holds what was rolled back to a savepoint only where a table without transactions was changed too,
                // and then it holds it as it was done.
                if query.sql.trim_ascii_start().get(..8).is_some_and(|word| word.eq_ignore_ascii_case(b"ROLLBACK")) {
                    for table in self.present().touched.clone() {
                        self.stop_wanted(table, sink, |table| StopReason {
                            state: "not replicable".into(),
                            detail:
                                "a transaction changed it and a table without transactions, and was rolled back in part"
                                    .into(),
                            remedy: format!("run `calve reload {table}`"),
                        })?;
                    }
                }
            }
            StatementKind::XaStart(xid) => {
                let spool = self.spools.spool();
                let current = self.present();
                current.open = true;
                current.xa = Some((xid, spool));
            }
            StatementKind::XaEnd(_) => {}
            StatementKind::XaPrepare(xid) => self.prepare(&xid, sink)?,
            StatementKind::XaCommit(xid) => {
                if self.present().xa.as_ref().is_some_and(|(own, _)| *own == xid) {
                    self.decide_own(sink)?;
                } else {
                    self.decide(&xid, true, sink)?;
                }
            }
            StatementKind::XaRollback(xid) => self.decide(&xid, false, sink)?,
            StatementKind::Other => self.statement(query, sink)?,
        }
        Ok(())
    }

    /// The transaction that a statement has found or begun.
    fn present(&mut self) -> &mut Current {
        self.current.as_mut().expect("a statement is in a transaction, its own at least")
    }

    /// A definition, or a change logged as a statement.
    fn statement(&mut self, query: &Query<'_>, sink: &mut dyn ChangeSink) -> Result<()> {
        let (covered, announces) = (self.present().covered, self.present().announces);
        if !covered && !announces {
            for (table, effect) in self.statements.effects(query, &copies::known(&self.tables)) {
                if let Some((table, member)) = self.merged.member(table) {
                    self.member_changed(table, &member, effect, sink)?;
                    continue;
                }
                match effect {
                    Effect::Truncate => {
                        if let Some(buffer) = self.wanted(table, sink) {
                            buffer.finish_row(RowOp::Truncate);
                        }
                    }
                    Effect::Alter(altered) => self.alter(table, &altered, sink)?,
                    Effect::Unique => self.unique(table, sink)?,
                    Effect::Copy(effect) => self.copy(table, effect, sink)?,
                    Effect::Swap => self.swap(table, sink)?,
                    Effect::Stop(reason) => self.stop_wanted(table, sink, |_| reason)?,
                }
            }
            self.others_changed(query, sink)?;
        }
        let starts = query.sql.trim_ascii_end().ends_with(b"START TRANSACTION");
        let current = self.present();
        current.open |= starts;
        if current.open { Ok(()) } else { self.commit(sink) }
    }

    fn alter(&mut self, table: TableIndex, altered: &Altered, sink: &mut dyn ChangeSink) -> Result<()> {
        let Some(schema) = self.tables.get(table.0).map(|source| Arc::clone(&source.schema)) else { return Ok(()) };
        let changed = altered.apply(self.flavour, &self.conversions, &schema);
        self.change(table, changed, || altered.while_read(&schema.table), sink).map(|_| ())
    }

    /// Moves the table's schema on, where the sink wants what the present transaction does to it: a table that is ahead has it. True
    /// where it was moved. `while_read` is what it means before all of the table was read.
    fn change(
        &mut self,
        table: TableIndex,
        changed: std::result::Result<Option<SchemaChange>, StopReason>,
        while_read: impl FnOnce() -> StopReason,
        sink: &mut dyn ChangeSink,
    ) -> Result<bool> {
        if changed == Ok(None) {
            return Ok(false);
        }
        self.begin_in_sink(sink)?;
        if !sink.wants(table) {
            return Ok(false);
        }
        if self.is_settling(table) {
            sink.stop(table, while_read());
            return Ok(false);
        }
        match changed {
            Ok(None) => {}
            Ok(Some(change)) => {
                self.move_on(table, change, sink);
                return Ok(true);
            }
            Err(reason) => sink.stop(table, reason),
        }
        Ok(false)
    }

    /// Whether who described the table for its load may have seen what comes now.
    fn is_settling(&self, table: TableIndex) -> bool {
        let settles = |at: &BinlogOffset| self.place.at().is_none_or(|reached| reached <= at);
        self.settling.get(&table).is_some_and(settles)
    }

    /// The table has another schema from here on.
    fn move_on(&mut self, table: TableIndex, change: SchemaChange, sink: &mut dyn ChangeSink) {
        if let Some(source) = self.tables.get_mut(table.0) {
            source.schema = Arc::clone(&change.schema);
            self.nameless = copies::nameless(&self.tables);
        }
        // Rows that follow come with a table map of their own; none is decoded by a plan of the schema that was.
        self.maps.retain(|_, (_, mapped)| mapped.table() != Some(table));
        sink.schema(table, change);
        self.take_from_sink(table, sink);
    }

    /// The sink may say more of the table than the log does: what the lake keeps, or is to forget. Whether it did.
    fn take_from_sink(&mut self, table: TableIndex, sink: &mut dyn ChangeSink) -> bool {
        match (sink.schema_of(table), self.tables.get_mut(table.0)) {
            (Some(schema), Some(source)) if source.schema != schema => {
                source.schema = schema;
                true
            }
            _ => false,
        }
    }

    fn commit(&mut self, sink: &mut dyn ChangeSink) -> Result<()> {
        if !self.nameless.is_empty() {
            self.stop_deserted(sink)?;
        }
        let Some(current) = self.current.take() else { return Ok(()) };
        if let Err(error) = self.end(&current) {
            // The sink is still in it, and is told to go back by whoever hears of the error.
            self.current = Some(current);
            return Err(error);
        }
        if current.begun {
            sink.commit(self.place.position(), current.committed_at);
            self.quiet = false;
        }
        Ok(())
    }

    /// Rows of the transaction are in the log, because a table without transactions was changed too, and do not count.
    fn roll_back(&mut self, sink: &mut dyn ChangeSink) -> Result<()> {
        let Some(current) = self.current.take() else { return Ok(()) };
        if current.begun {
            sink.abort();
        }
        self.end(&current)
    }

    fn end(&mut self, current: &Current) -> Result<()> {
        if current.covered {
            self.place.came_again(&current.name);
        } else {
            self.place.ended(&current.name)?;
            self.quiet = true;
        }
        Ok(())
    }

    /// The log went on, and between transactions nothing is open.
    fn quiet_end(&mut self) {
        if self.current.is_none() {
            self.place.pass_quiet_log();
            self.quiet = true;
        }
    }

    fn cut_off(&mut self, sink: &mut dyn ChangeSink) {
        if self.current.take().is_some_and(|current| current.begun) {
            sink.abort();
        }
    }

    /// Whether the table map is the one that its id stands for already.
    fn is_known(&self, body: &[u8]) -> bool {
        let Some(id) = body.first_chunk::<6>() else { return false };
        let id = id.iter().rev().fold(0_u64, |id, byte| id << 8 | u64::from(*byte));
        self.maps.get(&id).is_some_and(|(bytes, _)| bytes == body)
    }

    fn table_map(&mut self, map: &TableMap<'_>, body: &[u8]) {
        if let Some(mapped) = self.member_map(map) {
            self.maps.insert(map.id, (body.to_vec(), mapped));
            return;
        }
        let index = self.statements.find(map.database, map.table).and_then(|name| self.indexes.get(name)).copied();
        let mapped = match index {
            None => Mapped::Other(TableName::new(map.database, map.table)),
            Some(index) => match RowPlan::new(self.flavour, map, &self.tables[index.0].schema) {
                Ok(plan) => Mapped::Followed(index, Arc::new(plan.with_conversions(&self.conversions))),
                Err(mismatch) => Mapped::Changed(index, mismatch.what),
            },
        };
        self.maps.insert(map.id, (body.to_vec(), mapped));
    }

    fn rows(&mut self, rows: &RowsEvent<'_>, sink: &mut dyn ChangeSink) -> Result<()> {
        if rows.is_dummy() || self.current.as_ref().is_some_and(|current| current.covered) {
            return Ok(());
        }
        let (index, plan) = match self.maps.get(&rows.table_id) {
            Some((_, Mapped::Other(name))) => {
                let Some(ghost) = shadow::ghost_of_changelog(name) else { return Ok(()) };
                return self.ghost_at_work(&ghost, sink);
            }
            Some((_, Mapped::Followed(index, plan))) => (*index, Arc::clone(plan)),
            Some((_, Mapped::Changed(index, what))) => {
                let (index, detail) = (*index, what.clone());
                return self.stop_wanted(index, sink, |table| schema_changed(table, detail));
            }
            None => {
                let what = format!("rows of table number {} came without its table map", rows.table_id);
                return Err(self.malformed(&Malformed::Other(what)));
            }
        };
        self.begin_in_sink(sink)?;
        if let Some(current) = &mut self.current
            && !current.touched.contains(&index)
        {
            current.touched.push(index);
        }
        self.loosen(index, &plan, sink);
        match plan.decode(rows, index, sink) {
            Ok(()) => Ok(()),
            Err(RowFault::Stop(reason)) => {
                sink.stop(index, reason);
                Ok(())
            }
            Err(RowFault::Malformed(error)) => Err(self.malformed(&error)),
            Err(RowFault::Full { column, full }) => Err(Error::new(
                ErrorKind::Retry,
                format!("column {column} of {}: {full}; lower checkpoint.bytes", self.tables[index.0].name),
            )),
        }
    }

    /// Rows so far had a schema in which a column may not be NULL that a rule may make NULL: from here on it may be.
    fn loosen(&self, table: TableIndex, plan: &RowPlan, sink: &mut dyn ChangeSink) {
        let Some(schema) = sink.schema_of(table) else { return };
        if Arc::ptr_eq(&schema, &plan.schema) || schema == plan.schema {
            return;
        }
        if self.conversions.rules.loosened(&schema).as_ref() == Some(&*plan.schema) {
            sink.schema(table, SchemaChange { schema: Arc::clone(&plan.schema), existing_rows: None });
        }
    }

    /// An event is held in memory whole, whatever the bounds are: the server sends it so.
    fn tell_large(&self, rows: &RowsEvent<'_>) {
        let bytes = rows.bytes() as u64;
        if bytes <= self.checkpoint_bytes {
            return;
        }
        let table = match self.maps.get(&rows.table_id) {
            Some((_, Mapped::Other(name))) => name,
            Some((_, Mapped::Followed(index, _) | Mapped::Changed(index, _))) => &self.tables[index.0].name,
            None => return,
        };
        tracing::warn!(
            %table,
            bytes,
            "checkpoint.bytes" = self.checkpoint_bytes,
            "an event of the log is larger than checkpoint.bytes, and takes the memory that it needs"
        );
    }

    /// Tells the sink of the present transaction, if it was not told yet.
    fn begin_in_sink(&mut self, sink: &mut dyn ChangeSink) -> Result<()> {
        let Some(current) = &mut self.current else {
            return Err(self.malformed(&Malformed::Other("rows came outside of a transaction".into())));
        };
        if !current.begun {
            current.begun = true;
            sink.begin(&current.point);
            if sink.wants_origins() {
                sink.origin(current.name.origin(current.committed_at));
            }
        }
        Ok(())
    }

    /// The table's buffer, if the sink wants what the present transaction does to it.
    fn wanted<'s>(&mut self, table: TableIndex, sink: &'s mut dyn ChangeSink) -> Option<&'s mut calve_core::RowBuffer> {
        self.begin_in_sink(sink).ok()?;
        sink.rows(table)
    }

    /// Stops the table, unless what the present transaction does to it is in it already.
    fn stop_wanted(
        &mut self,
        table: TableIndex,
        sink: &mut dyn ChangeSink,
        reason: impl FnOnce(&TableName) -> StopReason,
    ) -> Result<()> {
        if self.current.as_ref().is_none_or(|current| current.covered) {
            return Ok(());
        }
        self.begin_in_sink(sink)?;
        if sink.wants(table) {
            sink.stop(table, reason(&self.tables[table.0].name));
            // One that goes on all the same may have another schema by that.
            if self.take_from_sink(table, sink) {
                self.maps.retain(|_, (_, mapped)| mapped.table() != Some(table));
            }
        }
        Ok(())
    }

    /// As [`stop_wanted`](Self::stop_wanted), every table: which of them the present transaction changed is not known.
    fn stop_all_wanted(&mut self, sink: &mut dyn ChangeSink, reason: impl Fn(&TableName) -> StopReason) -> Result<()> {
        (0..self.tables.len()).try_for_each(|table| self.stop_wanted(TableIndex(table), sink, &reason))
    }

    fn malformed(&self, error: &Malformed) -> Error {
        Error::new(
            ErrorKind::Corrupt,
            format!("the binary log is not what its format says, after {}: {error}", self.place.position()),
        )
    }
}

fn is_heartbeat(kind: u8) -> bool {
    matches!(kind, event::kind::HEARTBEAT | event::kind::HEARTBEAT_V2)
}

/// The stop of a table whose columns are not those its rows had so far.
pub(crate) fn schema_changed(table: &TableName, detail: String) -> StopReason {
    StopReason {
        state: StopReason::SCHEMA_CHANGED.into(),
        detail,
        remedy: format!("run `calve reload {table}` to read it again as it is now"),
    }
}

/// The stop of a table that was changed without rows in the log.
pub(crate) fn by_statement(table: &TableName, what: &str) -> StopReason {
    StopReason {
        state: "changed by statement".into(),
        detail: format!("{what}, so the log does not hold the rows it changed"),
        remedy: format!(
            "SET GLOBAL binlog_format = 'ROW' and see which sessions set another; then run `calve reload {table}`"
        ),
    }
}

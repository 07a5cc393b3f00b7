//! The state of one stream: which relations were described, which transaction is open, which are in progress. Every message
//! is pushed whole into the sink, or not at all.

use std::collections::HashMap;
use std::sync::Arc;

use calve_core::{
    ChangeSink, Error, ErrorKind, Lsn, Origin, Partitions, Position, Result, RowOp, SchemaChange, SourceTable,
    StopReason, TableIndex, TableSchema, TransactionPoint, ValueRules,
};
use calve_spool::Spools;

use super::in_progress::{InProgress, Refusal, Replay};
use super::message::{Malformed, Message, Relation, Truncate};
use super::plan::{Known, Mismatch, RowPlan};
use super::row::{Change, Fault, key_text};
use crate::attributes::Attribute;
use crate::cell::CellError;
use crate::column_kind::binary_safe;
use crate::types::chosen;

/// Microseconds from 1970-01-01 to 2000-01-01, where Postgres counts from.
const POSTGRES_EPOCH_US: i64 = 946_684_800_000_000;

/// Turns messages into calls of a sink.
#[derive(Debug)]
pub(crate) struct Decoder {
    tables: Vec<SourceTable>,
    relations: Vec<Known>,
    /// Their places by oid.
    places: HashMap<u32, usize>,
    /// Where the relation of the last row stands: rows of one table come in runs.
    last: usize,
    /// The sink is in a transaction.
    in_transaction: bool,
    /// The number of the transaction that began last.
    xid: u32,
    /// Everything up to here was handled.
    reached: Lsn,
    /// Transactions that emptied a table, the newest last.
    emptied: HashMap<TableIndex, Vec<u32>>,
    in_progress: InProgress,
    /// Cells are asked for in binary form where a type has one.
    binary: bool,
    wants_text: bool,
    /// What was looked up of relations, by oid.
    looked_up: HashMap<u32, LookedUp>,
    rules: ValueRules,
}

/// What the catalog says of a relation, when its description comes.
#[derive(Debug, Default)]
pub(crate) struct LookedUp {
    /// Under REPLICA IDENTITY FULL, the names of the primary key's columns: the log marks all columns there.
    pub(crate) primary_key: Option<Vec<String>>,
    pub(crate) attributes: Arc<[Attribute]>,
}

impl Decoder {
    /// What is sent of transactions in progress is put aside in `spools`.
    pub(crate) fn new(tables: &[SourceTable], binary: bool, spools: Spools, rules: ValueRules) -> Self {
        Self {
            tables: tables.to_vec(),
            relations: Vec::new(),
            places: HashMap::new(),
            last: 0,
            in_transaction: false,
            xid: 0,
            reached: Lsn(0),
            emptied: HashMap::new(),
            in_progress: InProgress::new(spools),
            binary,
            wants_text: false,
            looked_up: HashMap::new(),
            rules,
        }
    }

    /// A table has a column by now whose binary form is not understood: the stream must begin again in text form.
    pub(crate) fn wants_text(&self) -> bool {
        self.wants_text
    }

    /// Whether the sink is in a transaction that has begun and not ended.
    pub(crate) fn in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// Everything up to here was handled.
    pub(crate) fn reached(&self) -> Lsn {
        self.reached
    }

    /// Whether the log had this transaction, not long ago, emptying the whole table.
    pub(crate) fn emptied(&self, table: TableIndex, by: u32) -> bool {
        self.emptied.get(&table).is_some_and(|emptied| emptied.contains(&by))
    }

    /// There is nothing in the log up to here.
    pub(crate) fn idle(&mut self, end: Lsn, sink: &mut dyn ChangeSink) {
        self.reached = self.reached.max(end);
        sink.idle(Position::Postgres(end));
    }

    /// Whether the server is in the middle of sending a transaction, or a segment of one.
    pub(crate) fn is_inside(&self) -> bool {
        self.in_transaction || self.in_progress.in_segment()
    }

    /// The oid of a Relation message that describes a followed table, and whether that has REPLICA IDENTITY FULL. What the
    /// catalog says of it is to be told with [`look_up`](Self::look_up) before the message is handled. None where the message
    /// is only put aside now: the catalog is asked when it counts.
    pub(crate) fn followed(&self, bytes: &[u8]) -> Option<(u32, bool)> {
        if bytes.first() != Some(&b'R') || self.in_progress.in_segment() {
            return None;
        }
        match Message::parse(bytes) {
            Ok(Message::Relation(relation)) => {
                table_of(&self.tables, &relation).map(|_| (relation.oid, relation.replica_identity == b'f'))
            }
            _ => None,
        }
    }

    /// What the catalog says of a relation now.
    pub(crate) fn look_up(&mut self, oid: u32, found: LookedUp) {
        self.looked_up.insert(oid, found);
    }

    /// Handles one message of pgoutput. Where it commits a transaction that was in progress, the transaction is begun, and
    /// what is returned is to be [`replayed`](Self::replayed) before the next message.
    pub(crate) fn message(&mut self, bytes: &[u8], sink: &mut dyn ChangeSink) -> Result<Option<Replay>> {
        if self.in_progress.in_segment() {
            let (tables, rules) = (&self.tables, &self.rules);
            let follows = |relation: &Relation<'_>| table_of(tables, relation).is_some();
            // Left out by the schema so far and by the rules for columns to come: in no case is it wanted at the commit.
            let leaves_out = |relation: &Relation<'_>, name: &str| {
                let table = table_of(tables, relation).and_then(|index| tables.get(index.0));
                table.is_some_and(|table| {
                    let column = table.schema.columns.iter().find(|column| column.name == name);
                    column.is_none_or(|column| column.usage.is_left_out())
                        && rules.table(&table.name).usage(name).is_left_out()
                })
            };
            self.in_progress.message(bytes, follows, leaves_out).map_err(refused)?;
            return Ok(None);
        }
        match Message::parse(bytes).map_err(|error| malformed(&error))? {
            Message::StreamStart { xid, first } => {
                self.expect_transaction(false, "a Stream Start")?;
                self.in_progress.start(xid, first).map_err(refused)?;
            }
            Message::StreamAbort { xid, sub_xid } => {
                self.expect_transaction(false, "a Stream Abort")?;
                self.in_progress.abort(xid, sub_xid);
            }
            Message::StreamCommit { xid, commit_lsn, end_lsn, committed_at } => {
                self.expect_transaction(false, "a Stream Commit")?;
                let (records, aborted) = self.in_progress.commit(xid).map_err(refused)?;
                self.begin(commit_lsn, committed_at, xid, sink);
                return Ok(Some(Replay::new(records, aborted, end_lsn, committed_at)));
            }
            message => self.committed(&message, sink)?,
        }
        Ok(None)
    }

    /// Handles a message of a replay.
    pub(crate) fn replayed(&mut self, bytes: &[u8], sink: &mut dyn ChangeSink) -> Result<()> {
        self.committed(&Message::parse(bytes).map_err(|error| malformed(&error))?, sink)
    }

    /// All messages of a replay were handled.
    pub(crate) fn end_replay(&mut self, replay: &Replay, sink: &mut dyn ChangeSink) {
        self.commit(replay.end_lsn, replay.committed_at, sink);
    }

    /// Handles a message of a transaction that is committed.
    fn committed(&mut self, message: &Message<'_>, sink: &mut dyn ChangeSink) -> Result<()> {
        match *message {
            Message::Insert { relation, new } => self.row(relation, Change::Insert(new), sink),
            Message::Update { relation, old, new } => self.row(relation, Change::Update(old, new), sink),
            Message::Delete { relation, old } => self.row(relation, Change::Delete(old), sink),
            Message::Begin { commit_lsn, committed_at, xid } => {
                self.expect_transaction(false, "a Begin")?;
                self.begin(commit_lsn, committed_at, xid, sink);
                Ok(())
            }
            Message::Commit { end_lsn, committed_at } => {
                self.expect_transaction(true, "a Commit")?;
                self.commit(end_lsn, committed_at, sink);
                Ok(())
            }
            Message::Relation(ref relation) => self.relation(relation),
            Message::Truncate(ref truncate) => self.truncate(truncate, sink),
            Message::Aside => Ok(()),
            Message::StreamStart { .. } | Message::StreamCommit { .. } | Message::StreamAbort { .. } => {
                Err(malformed(&Malformed::Nested))
            }
        }
    }

    fn begin(&mut self, commit_lsn: u64, committed_at: i64, xid: u32, sink: &mut dyn ChangeSink) {
        (self.in_transaction, self.xid) = (true, xid);
        sink.begin(&TransactionPoint::Postgres { commit_lsn: Lsn(commit_lsn) });
        if sink.wants_origins() {
            sink.origin(Origin {
                position: Lsn(commit_lsn).to_string(),
                transaction: Some(xid.to_string()),
                committed_at: committed_at.saturating_add(POSTGRES_EPOCH_US),
            });
        }
    }

    fn commit(&mut self, end_lsn: u64, committed_at: i64, sink: &mut dyn ChangeSink) {
        (self.in_transaction, self.reached) = (false, self.reached.max(Lsn(end_lsn)));
        sink.commit(Position::Postgres(Lsn(end_lsn)), committed_at.saturating_add(POSTGRES_EPOCH_US));
    }

    fn expect_transaction(&self, expected: bool, what: &str) -> Result<()> {
        if self.in_transaction == expected {
            return Ok(());
        }
        let place = if expected { "outside a transaction" } else { "inside a transaction" };
        Err(corrupt(format!("{what} came {place}")))
    }

    fn relation(&mut self, relation: &Relation<'_>) -> Result<()> {
        let table = table_of(&self.tables, relation);
        let schema = match table.and_then(|index| self.tables.get(index.0)) {
            Some(table) => Arc::clone(&table.schema),
            None => no_schema(),
        };
        let looked_up = self.looked_up.remove(&relation.oid).unwrap_or_default();
        let LookedUp { primary_key, attributes } = looked_up;
        let rules = self.rules.table(&schema.table);
        let typed = |now: &Attribute| Attribute { column: chosen(&now.column, &rules), ..now.clone() };
        let attributes: Arc<[Attribute]> = attributes.iter().map(typed).collect();
        let known = Known::new(relation, table, &schema, primary_key.as_deref(), attributes, &self.rules)
            .map_err(|error| malformed(&error))?;
        let place = *self.places.entry(known.oid).or_insert(self.relations.len());
        match self.relations.get_mut(place) {
            Some(old) => *old = known,
            None => self.relations.push(known),
        }
        Ok(())
    }

    fn known(&mut self, oid: u32) -> Result<&mut Known> {
        if self.relations.get(self.last).is_none_or(|known| known.oid != oid) {
            let place = self.places.get(&oid);
            self.last =
                *place.ok_or_else(|| corrupt(format!("a row of relation {oid} came before its description")))?;
        }
        self.relations.get_mut(self.last).ok_or_else(|| corrupt("a relation is missing"))
    }

    fn row(&mut self, oid: u32, change: Change<'_>, sink: &mut dyn ChangeSink) -> Result<()> {
        self.expect_transaction(true, "a row")?;
        loop {
            let known = self.known(oid)?;
            let Some(table) = known.table else { return Ok(()) };
            // Asked before anything else: what is not wanted cannot stop a table either.
            let Some(buffer) = sink.rows(table) else { return Ok(()) };
            known.fit(buffer.schema());
            let reshaped = match &known.plan {
                Err((_, Mismatch::Changed(reshaped))) => reshaped.clone(),
                Err((_, Mismatch::Stop(reason))) => {
                    sink.stop(table, reason.clone());
                    return Ok(());
                }
                Ok(plan) => {
                    let Err(fault) = change.append(plan, buffer) else { return Ok(()) };
                    buffer.discard_row();
                    let Some(loosened) = loosened(plan, fault) else {
                        let reason = stop_reason(plan, &change, fault)?;
                        sink.stop(table, reason);
                        return Ok(());
                    };
                    loosened
                }
            };
            self.reshape(table, reshaped, sink)?;
        }
    }

    /// The table's rows have another schema from here on. The sink takes it, or takes no more rows of the table.
    fn reshape(&mut self, table: TableIndex, change: SchemaChange, sink: &mut dyn ChangeSink) -> Result<()> {
        let unsafe_column =
            change.schema.columns.iter().find(|column| !column.usage.is_left_out() && !binary_safe(column));
        if let Some(column) = unsafe_column.filter(|_| self.binary) {
            self.wants_text = true;
            let (table, name, ty) = (&change.schema.table, &column.name, &column.native.name);
            return Err(Error::new(
                ErrorKind::Retry,
                format!(
                    "column {name} of {table} is now {ty}, which is read as text: the stream begins again in text form"
                ),
            ));
        }
        if let Some(table) = self.tables.get_mut(table.0) {
            table.schema = Arc::clone(&change.schema);
        }
        sink.schema(table, change);
        Ok(())
    }

    fn note_emptied(&mut self, table: TableIndex) {
        const KEPT: usize = 256;
        let emptied = self.emptied.entry(table).or_default();
        if emptied.len() == KEPT {
            emptied.remove(0);
        }
        emptied.push(self.xid);
    }

    fn truncate(&mut self, truncate: &Truncate<'_>, sink: &mut dyn ChangeSink) -> Result<()> {
        self.expect_transaction(true, "a Truncate")?;
        for oid in truncate.relations().map_err(|error| malformed(&error))? {
            if let Some(table) = self.known(oid)?.table {
                self.note_emptied(table);
            }
            loop {
                let xid = self.xid;
                let known = self.known(oid)?;
                let Some(table) = known.table else { break };
                let Some(buffer) = sink.rows(table) else { break };
                known.fit(buffer.schema());
                match &known.plan {
                    // The files of its partitions are others from here on.
                    Ok(plan) if plan.schema.partitions.as_ref().is_some_and(|p| p.emptied_by != Some(xid)) => {
                        let known = plan.schema.partitions.clone().unwrap_or_default().known;
                        let partitions = Some(Partitions { known, emptied_by: Some(xid) });
                        let schema = Arc::new(TableSchema { partitions, ..(*plan.schema).clone() });
                        self.reshape(table, SchemaChange { schema, existing_rows: None }, sink)?;
                    }
                    Ok(_) => {
                        buffer.finish_row(RowOp::Truncate);
                        break;
                    }
                    Err((_, Mismatch::Stop(reason))) => {
                        sink.stop(table, reason.clone());
                        break;
                    }
                    Err((_, Mismatch::Changed(change))) => {
                        let change = change.clone();
                        self.reshape(table, change, sink)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The followed table that a relation is: by its number, or by its name where it was made anew.
fn table_of(tables: &[SourceTable], relation: &Relation<'_>) -> Option<TableIndex> {
    let by_oid = tables.iter().position(|table| table.schema.native_id == relation.oid);
    let by_name = || tables.iter().position(|t| t.name.schema == relation.schema && t.name.name == relation.name);
    by_oid.or_else(by_name).map(TableIndex)
}

/// NULL in a column outside the key that allowed none: it does now, which the log shows in no other way.
fn loosened(plan: &RowPlan, fault: Fault) -> Option<SchemaChange> {
    let Fault::Null { column } = fault else { return None };
    plan.columns.get(column).filter(|planned| planned.key.is_none() && !planned.nullable)?;
    let mut schema = (*plan.schema).clone();
    schema.columns.get_mut(column)?.nullable = true;
    Some(SchemaChange { schema: Arc::new(schema), existing_rows: None })
}

/// What a fault means: the table stops, or the stream itself is broken.
fn stop_reason(plan: &RowPlan, change: &Change<'_>, fault: Fault) -> Result<StopReason> {
    let table = &plan.schema.table;
    let name = |column: usize| plan.schema.columns.get(column).map_or("?", |column| column.name.as_str());
    let is_key = |column: usize| plan.columns.get(column).is_some_and(|column| column.key.is_some());
    let key = || key_text(plan, change.key_row());
    match fault {
        Fault::Cell { column, error: CellError::Unrepresentable { what } } => Ok(StopReason {
            state: "unrepresentable value".into(),
            detail: format!("column {} of the row with {} holds {what}", name(column), key()),
            remedy: format!("change the value in Postgres, then run `calve reload {table}`"),
        }),
        Fault::Unchanged { column } => Ok(StopReason {
            state: "unchanged TOAST".into(),
            detail: format!(
                "a change of the row with {} left out the large value in column {}, and nothing in it tells what that is{}",
                key(),
                name(column),
                if plan.schema.keeps_log() { " (in mode append it is not looked up)" } else { "" }
            ),
            remedy: format!(
                "run ALTER TABLE {}.{} REPLICA IDENTITY FULL, then `calve reload {table}`",
                crate::sql::identifier(&table.schema),
                crate::sql::identifier(&table.name)
            ),
        }),
        Fault::Null { column } if is_key(column) => Ok(StopReason {
            state: "unrepresentable value".into(),
            detail: format!("key column {} is NULL in a row with {}", name(column), key()),
            remedy: format!("make the column NOT NULL in Postgres, then run `calve reload {table}`"),
        }),
        Fault::Null { column } => {
            Err(corrupt(format!("a cell of column {} of {table} is NULL where none may be", name(column))))
        }
        Fault::Cell { column, error: CellError::Malformed { expected } } => {
            Err(corrupt(format!("a cell of column {} of {table} is not {expected}", name(column))))
        }
        Fault::Cell { column, error: CellError::Full(full) } => Err(Error::with_source(
            ErrorKind::Config,
            format!(
                "column {} of {table} outgrew 2 GiB within one checkpoint: lower the checkpoint's byte limit",
                name(column)
            ),
            full,
        )),
        Fault::Wire(error) => Err(malformed(&error)),
        Fault::Count { cells } => {
            Err(corrupt(format!("a row of {table} has {cells} cells where {} are expected", plan.columns.len())))
        }
    }
}

fn malformed(error: &Malformed) -> Error {
    corrupt(error.to_string())
}

fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Malformed(error) => malformed(&error),
        Refusal::OutOfTurn(what) => corrupt(what),
        Refusal::Disk(error) => error,
    }
}

fn corrupt(what: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("the replication stream of Postgres is not what its protocol says: {what}; please report this"),
    )
}

/// Stands in for the schema of relations that nobody follows.
fn no_schema() -> Arc<TableSchema> {
    let table = calve_core::TableName::new("", "");
    Arc::new(TableSchema::new(table, 0, Vec::new(), Vec::new()))
}

//! The state of one stream: which relations were described, which transaction is open. Every message is pushed whole into
//! the sink, or not at all.

use std::collections::HashMap;
use std::sync::Arc;

use calve_core::{
    ChangeSink, Error, ErrorKind, Lsn, Position, Result, RowOp, SourceTable, StopReason, TableIndex, TableSchema,
    TransactionPoint,
};

use super::message::{Malformed, Message, Relation, Truncate};
use super::plan::{Known, RowPlan};
use super::row::{Change, Fault, key_text};
use crate::cell::CellError;

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
    in_transaction: bool,
    /// Of relations under REPLICA IDENTITY FULL.
    primary_keys: HashMap<u32, Vec<String>>,
}

impl Decoder {
    pub(crate) fn new(tables: &[SourceTable]) -> Self {
        Self {
            tables: tables.to_vec(),
            relations: Vec::new(),
            places: HashMap::new(),
            last: 0,
            in_transaction: false,
            primary_keys: HashMap::new(),
        }
    }

    /// Whether a transaction has begun and not ended.
    pub(crate) fn in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// The oid of a Relation message that describes a followed table under REPLICA IDENTITY FULL. Its key is not among
    /// what the message tells; [`set_primary_key`](Self::set_primary_key) is to be called before the message is handled.
    pub(crate) fn full_identity(&self, bytes: &[u8]) -> Option<u32> {
        match Message::parse(bytes) {
            Ok(Message::Relation(relation)) if relation.replica_identity == b'f' => {
                self.table_of(&relation).map(|_| relation.oid)
            }
            _ => None,
        }
    }

    /// The names of the primary key's columns that the relation has now.
    pub(crate) fn set_primary_key(&mut self, oid: u32, columns: Vec<String>) {
        self.primary_keys.insert(oid, columns);
    }

    /// Handles one message of pgoutput.
    pub(crate) fn message(&mut self, bytes: &[u8], sink: &mut dyn ChangeSink) -> Result<()> {
        match Message::parse(bytes).map_err(|error| malformed(&error))? {
            Message::Insert { relation, new } => self.row(relation, Change::Insert(new), sink),
            Message::Update { relation, old, new } => self.row(relation, Change::Update(old, new), sink),
            Message::Delete { relation, old } => self.row(relation, Change::Delete(old), sink),
            Message::Begin { commit_lsn } => {
                self.expect_transaction(false, "a Begin")?;
                self.in_transaction = true;
                sink.begin(&TransactionPoint::Postgres { commit_lsn: Lsn(commit_lsn) });
                Ok(())
            }
            Message::Commit { end_lsn, committed_at } => {
                self.expect_transaction(true, "a Commit")?;
                self.in_transaction = false;
                sink.commit(Position::Postgres(Lsn(end_lsn)), committed_at.saturating_add(POSTGRES_EPOCH_US));
                Ok(())
            }
            Message::Relation(relation) => self.relation(&relation),
            Message::Truncate(truncate) => self.truncate(&truncate, sink),
            Message::Aside => Ok(()),
        }
    }

    fn expect_transaction(&self, expected: bool, what: &str) -> Result<()> {
        if self.in_transaction == expected {
            return Ok(());
        }
        let place = if expected { "outside a transaction" } else { "inside a transaction" };
        Err(corrupt(format!("{what} came {place}")))
    }

    fn table_of(&self, relation: &Relation<'_>) -> Option<TableIndex> {
        let by_oid = self.tables.iter().position(|table| table.schema.native_id == relation.oid);
        let by_name =
            || self.tables.iter().position(|t| t.name.schema == relation.schema && t.name.name == relation.name);
        by_oid.or_else(by_name).map(TableIndex)
    }

    fn relation(&mut self, relation: &Relation<'_>) -> Result<()> {
        let table = self.table_of(relation);
        let schema = match table.and_then(|index| self.tables.get(index.0)) {
            Some(table) => Arc::clone(&table.schema),
            None => no_schema(),
        };
        let primary_key = self.primary_keys.get(&relation.oid).map(Vec::as_slice);
        let known = Known::new(relation, table, &schema, primary_key).map_err(|error| malformed(&error))?;
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
        let known = self.known(oid)?;
        let Some(table) = known.table else { return Ok(()) };
        // Asked before anything else: what is not wanted cannot stop a table either.
        let Some(buffer) = sink.rows(table) else { return Ok(()) };
        known.fit(buffer.schema());
        let plan = match &known.plan {
            Ok(plan) => plan,
            Err((_, reason)) => {
                sink.stop(table, reason.clone());
                return Ok(());
            }
        };
        if let Err(fault) = change.append(plan, buffer) {
            buffer.discard_row();
            let reason = stop_reason(plan, &change, fault)?;
            sink.stop(table, reason);
        }
        Ok(())
    }

    fn truncate(&mut self, truncate: &Truncate<'_>, sink: &mut dyn ChangeSink) -> Result<()> {
        self.expect_transaction(true, "a Truncate")?;
        for oid in truncate.relations().map_err(|error| malformed(&error))? {
            let known = self.known(oid)?;
            let Some(table) = known.table else { continue };
            let Some(buffer) = sink.rows(table) else { continue };
            known.fit(buffer.schema());
            match &known.plan {
                Ok(_) => buffer.finish_row(RowOp::Truncate),
                Err((_, reason)) => sink.stop(table, reason.clone()),
            }
        }
        Ok(())
    }
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
                "an update of the row with {} left the large value in column {} as it was, so Postgres did not send it",
                key(),
                name(column)
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
        Fault::Null { column } => Ok(super::plan::schema_changed(
            table,
            format!("column {} was NOT NULL and holds NULL in the row with {}", name(column), key()),
        )),
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

fn corrupt(what: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("the replication stream of Postgres is not what its protocol says: {what}; please report this"),
    )
}

/// Stands in for the schema of relations that nobody follows.
fn no_schema() -> Arc<TableSchema> {
    let table = calve_core::TableName::new("", "");
    Arc::new(TableSchema { table, native_id: 0, columns: Vec::new(), key: Vec::new() })
}

//! A reader of the stream, as small as one can be: tables by name, plans by table id, and rows by key.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use calve_core::{ChangeSink, Position, RowBuffer, RowOp, StopReason, TableIndex, TransactionPoint};

use super::shown::{self, Table};
use crate::binlog::Flavour;
use crate::binlog::decode::RowFault;
use crate::binlog::event::Event;
use crate::binlog::plan::RowPlan;
use crate::binlog::wire::Malformed;

/// Rows of one table by their encoded key.
type Rows = BTreeMap<Vec<u8>, Vec<Option<String>>>;

/// Receives rows of all tables.
#[derive(Debug)]
pub(super) struct Model {
    flavour: Flavour,
    tables: Vec<Table>,
    buffers: Vec<RowBuffer>,
    /// What is done with rows of a table id; None: nobody follows the table.
    plans: HashMap<u64, Option<(TableIndex, Arc<RowPlan>)>>,
    /// What stopped a table, by its name.
    pub(super) stops: Vec<(String, String)>,
    /// Tables whose rows nobody wants.
    pub(super) unwanted: bool,
}

impl Model {
    pub(super) fn new(flavour: Flavour, tables: &[Table]) -> Self {
        Self {
            flavour,
            tables: tables.to_vec(),
            buffers: tables.iter().map(|table| RowBuffer::new(Arc::clone(&table.schema))).collect(),
            plans: HashMap::new(),
            stops: Vec::new(),
            unwanted: false,
        }
    }

    pub(super) fn event(&mut self, event: &Event<'_>) -> Result<(), Malformed> {
        match event {
            Event::TableMap(map) => {
                let found = self.tables.iter().position(|table| {
                    let name = &table.schema.table;
                    (name.schema.as_str(), name.name.as_str()) == (map.database, map.table)
                });
                let planned = found.and_then(|index| {
                    let schema = &self.tables[index].schema;
                    match RowPlan::new(self.flavour, map, schema) {
                        Ok(plan) => Some((TableIndex(index), Arc::new(plan))),
                        Err(mismatch) => {
                            self.stops.push((schema.table.name.clone(), mismatch.what));
                            None
                        }
                    }
                });
                self.plans.insert(map.id, planned);
            }
            Event::Rows(rows) => {
                let Some(Some((table, plan))) = self.plans.get(&rows.table_id).cloned() else { return Ok(()) };
                match plan.decode(rows, table, self) {
                    Ok(()) => {}
                    Err(RowFault::Malformed(error)) => return Err(error),
                    Err(RowFault::Stop(reason)) => self.stop(table, reason),
                    Err(full @ RowFault::Full { .. }) => panic!("{full:?}"),
                }
            }
            // The one statement that the scripts empty a table with.
            Event::Query(query) if query.sql.as_ref() == b"TRUNCATE TABLE t" => {
                let emptied = self.tables.iter().position(|table| table.schema.table.name == "t").unwrap();
                self.buffers[emptied].finish_row(RowOp::Truncate);
            }
            _ => {}
        }
        Ok(())
    }

    /// Values that became NULL, by table.
    pub(super) fn nulled(&self) -> Vec<(&str, u64)> {
        let tables = self.tables.iter().map(|table| table.schema.table.name.as_str());
        let nulled = self.buffers.iter().map(|buffer| buffer.substituted().nulled);
        tables.zip(nulled).filter(|(_, nulled)| *nulled > 0).collect()
    }

    /// The rows that every table has in the end.
    pub(super) fn fold(self) -> Vec<(String, Vec<Vec<Option<String>>>)> {
        let tables = self.tables.into_iter().zip(self.buffers);
        tables.map(|(table, buffer)| (table.schema.table.name.clone(), fold(buffer).into_values().collect())).collect()
    }
}

fn fold(buffer: RowBuffer) -> Rows {
    let schema = Arc::clone(buffer.schema());
    let mut rows = Rows::new();
    let (mut image, mut old_key) = (0, 0);
    let keys = |old: bool, row: usize| {
        let mut key = Vec::new();
        if old {
            buffer.encode_old_key(row, &mut key);
        } else {
            buffer.encode_image_key(row, &mut key);
        }
        key
    };
    let ops = buffer.ops().to_vec();
    let mut images = Vec::new();
    for op in &ops {
        let old = op.has_old_key().then(|| keys(true, old_key));
        let new = op.has_image().then(|| keys(false, image));
        images.push((old, new, image));
        old_key += usize::from(op.has_old_key());
        image += usize::from(op.has_image());
    }
    let (_, columns, _) = buffer.into_parts();
    for (op, (old, new, image)) in ops.into_iter().zip(images) {
        if op == RowOp::Truncate {
            rows.clear();
        }
        if let Some(old) = old {
            assert!(rows.remove(&old).is_some(), "{op:?} of a row of {} that was not there", schema.table);
        }
        if let Some(new) = new {
            let row = schema.columns.iter().zip(&columns).map(|(column, cells)| shown::show(column, cells, image));
            let before = rows.insert(new, row.collect());
            let expected = op == RowOp::Update;
            assert_eq!(before.is_some(), expected, "{op:?} in {}", schema.table);
        }
    }
    rows
}

impl ChangeSink for Model {
    fn begin(&mut self, _: &TransactionPoint) {}

    fn wants(&self, _: TableIndex) -> bool {
        !self.unwanted
    }

    fn rows(&mut self, table: TableIndex) -> Option<&mut RowBuffer> {
        if self.unwanted { None } else { self.buffers.get_mut(table.0) }
    }

    fn stop(&mut self, table: TableIndex, reason: StopReason) {
        self.stops.push((self.tables[table.0].schema.table.name.clone(), reason.to_string()));
    }

    fn commit(&mut self, _: Position, _: i64) {}
    fn abort(&mut self) {}
    fn idle(&mut self, _: Position) {}

    fn is_full(&self) -> bool {
        false
    }
}

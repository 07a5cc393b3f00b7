//! Rows of table maps and row events, against schemas that fit them and schemas that do not.

use std::collections::HashMap;
use std::sync::Arc;

use calve_core::{ChangeSink, ColumnType, Position, RowBuffer, StopReason, TableIndex, TransactionPoint, Values};

use super::input::{Choices, events};
use super::{schemas, shown};
use crate::binlog::event::{self, Event};
use crate::binlog::plan::RowPlan;
use crate::binlog::rows::RowsEvent;

/// Bytes of an input before its events: the flavour, whether schemas are made to fit, and what they are made by.
pub(super) const CHOICES: usize = 32;

/// Decodes the rows of each row event by the plan of its table map, or of the last one.
pub fn rows(data: &[u8]) {
    let (mut choices, rest) = Choices::split(data, CHOICES);
    let flavour = choices.flavour();
    let fit = choices.byte() & 1 == 1;
    let mut plans: HashMap<u64, Arc<RowPlan>> = HashMap::new();
    let mut last = None;
    for (header, body) in events(rest) {
        match event::parse(flavour, &header, body) {
            Ok(Event::TableMap(map)) => {
                let mut choices = choices.clone();
                let schema = if fit { schemas::fitting(&map, &mut choices) } else { schemas::changed(&mut choices) };
                if let Ok(plan) = RowPlan::new(flavour, &map, &schema) {
                    last = Some(Arc::new(plan));
                    plans.extend(last.clone().map(|plan| (map.id, plan)));
                }
            }
            Ok(Event::Rows(rows)) => {
                if let Some(plan) = plans.get(&rows.table_id).or(last.as_ref()) {
                    decode(plan, &rows);
                }
            }
            _ => {}
        }
    }
}

fn decode(plan: &RowPlan, rows: &RowsEvent<'_>) {
    let mut wanted = One { buffer: RowBuffer::new(Arc::clone(&plan.schema)), wanted: true };
    let decoded = plan.decode(rows, TableIndex(0), &mut wanted);
    let mut unwanted = One { buffer: RowBuffer::new(Arc::clone(&plan.schema)), wanted: false };
    let skipped = plan.decode(rows, TableIndex(0), &mut unwanted);
    assert!(decoded.is_err() || skipped.is_ok(), "rows that are decoded can be walked over: {skipped:?}");
    assert!(unwanted.buffer.is_empty(), "nothing is appended of rows that nobody wants");
    check(wanted.buffer);
}

/// Every cell is in the range of its column's type, NULL only where that may be, and keys can be encoded.
pub(super) fn check(buffer: RowBuffer) {
    let schema = Arc::clone(buffer.schema());
    let (mut images, mut old_keys) = (0, 0);
    let mut key = Vec::new();
    for op in buffer.ops() {
        if op.has_image() {
            buffer.encode_image_key(images, &mut key);
            images += 1;
        }
        if op.has_old_key() {
            buffer.encode_old_key(old_keys, &mut key);
            old_keys += 1;
        }
        key.clear();
    }
    let (_, columns, keys) = buffer.into_parts();
    let of_keys = schema.key_columns().zip(&keys).map(|(column, cells)| (column, cells, old_keys));
    let of_images = schema.columns.iter().zip(&columns).map(|(column, cells)| (column, cells, images));
    for (column, cells, rows) in of_images.chain(of_keys) {
        assert_eq!(cells.len(), rows, "column {} has a cell for each row", column.name);
        // What is wrong with a later row is wrong with one of the first in another input.
        for row in 0..rows.min(64) {
            assert!(column.nullable || !cells.is_null(row), "column {} has a NULL", column.name);
            assert!(cells.is_null(row) || is_in_range(&column.ty, cells.values(), row), "{column:?}: {cells:?}");
            shown::show(column, cells, row);
        }
    }
    for cells in columns.into_iter().chain(keys) {
        drop(cells.into_array());
    }
}

/// What Arrow and Parquet do not check themselves.
fn is_in_range(ty: &ColumnType, values: &Values, row: usize) -> bool {
    /// Midnights of 0000-01-01 and 10000-01-01, in days since 1970-01-01.
    const DAYS: std::ops::Range<i64> = -719_528..2_932_897;
    const DAY_US: i64 = 86_400_000_000;
    match (ty, values) {
        (ColumnType::Decimal { precision, .. }, Values::Decimal(v)) => {
            v[row].unsigned_abs() < 10_u128.pow((*precision).into())
        }
        (ColumnType::Date, Values::Int32(v)) => DAYS.contains(&v[row].into()),
        (ColumnType::Time, Values::Int64(v)) => (0..DAY_US).contains(&v[row]),
        (ColumnType::Timestamp | ColumnType::TimestampTz, Values::Int64(v)) => {
            DAYS.contains(&v[row].div_euclid(DAY_US))
        }
        _ => true,
    }
}

/// A sink with one table.
struct One {
    buffer: RowBuffer,
    wanted: bool,
}

impl ChangeSink for One {
    fn begin(&mut self, _: &TransactionPoint) {}

    fn wants(&self, _: TableIndex) -> bool {
        self.wanted
    }

    fn rows(&mut self, _: TableIndex) -> Option<&mut RowBuffer> {
        self.wanted.then_some(&mut self.buffer)
    }

    fn stop(&mut self, _: TableIndex, _: StopReason) {}
    fn commit(&mut self, _: Position, _: i64) {}
    fn abort(&mut self) {}
    fn idle(&mut self, _: Position) {}

    fn is_full(&self) -> bool {
        false
    }
}

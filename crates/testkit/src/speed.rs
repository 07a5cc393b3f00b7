//! Micro-benchmarks: how fast one piece of work is on one core, by itself. Told, never judged: no test fails for its speed.
//!
//! They are tests named `speed::..` that are ignored unless asked for; `integration/bench.sh micro` asks for them. Rows have
//! the shape of the benchmarks' table: the New York taxi records and a key.

use std::sync::Arc;
use std::time::{Duration, Instant};

use calve_core::{
    ChangeSink, Column, ColumnBuffer, ColumnType, NativeType, Position, RowBuffer, RowOp, StopReason, TableIndex,
    TableName, TableSchema, TransactionPoint,
};

/// Rows of a round.
pub const ROWS: usize = 100_000;
/// Rounds at least, and for how long at least; the fastest counts, since whatever else a machine does only slows one down.
const ROUNDS: u32 = 5;
const LENGTH: Duration = Duration::from_secs(2);

/// Runs rounds of [`ROWS`] rows and prints how many a second the fastest did. What `prepare` makes is not measured.
pub fn tell<P, R>(what: &str, mut prepare: impl FnMut() -> P, mut round: impl FnMut(P) -> R) {
    let started = Instant::now();
    let mut fastest = Duration::MAX;
    let mut rounds = 0;
    while rounds < ROUNDS || started.elapsed() < LENGTH {
        let prepared = prepare();
        let began = Instant::now();
        let result = std::hint::black_box(round(prepared));
        fastest = fastest.min(began.elapsed());
        drop(result);
        rounds += 1;
    }
    let seconds_per_million = fastest.as_secs_f64() * 1e6 / f64::from(u32::try_from(ROWS).unwrap_or(u32::MAX));
    println!("{what}: {:.2} M rows/s, {seconds_per_million:.3} s per million rows", 1.0 / seconds_per_million);
}

/// A cell of a trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    /// `bigint`.
    Long(i64),
    /// `int`.
    Int(i32),
    /// `timestamp`, `datetime`: seconds since 1970-01-01.
    Timestamp(i64),
    /// `double precision`.
    Double(f64),
    /// `varchar(1)`.
    Text(&'static str),
    /// `numeric(8,2)`: hundredths.
    Money(i32),
}

/// Cells of a trip.
pub const COLUMNS: usize = 20;

/// A trip, made of its number alone. Cells take different bits of a hash of it.
pub fn trip(number: u32) -> [Cell; COLUMNS] {
    // 2^32 by the golden ratio (Knuth's multiplicative hash).
    let h = number.wrapping_mul(2_654_435_761);
    let part = |by: u32, of: u32| (h / by % of).cast_signed();
    let pickup = 1_704_067_200 + i64::from(number / 2 + h % 3600);
    let (fare, tip) = (250 + part(37, 6000), part(43, 1500));
    [
        Cell::Long(number.into()),
        Cell::Int(1 + part(1, 2)),
        Cell::Timestamp(pickup),
        Cell::Timestamp(pickup + i64::from(300 + part(7, 3000))),
        Cell::Int(1 + part(11, 6)),
        Cell::Double(f64::from(part(13, 3000)) / 100.0),
        Cell::Int(1 + part(17, 6)),
        Cell::Text(if part(19, 100) == 0 { "Y" } else { "N" }),
        Cell::Int(1 + part(23, 265)),
        Cell::Int(1 + part(29, 265)),
        Cell::Int(1 + part(31, 4)),
        Cell::Double(f64::from(fare) / 100.0),
        Cell::Double(f64::from(part(41, 3)) * 0.5),
        Cell::Double(0.5),
        Cell::Money(tip),
        Cell::Money(if part(47, 20) == 0 { 694 } else { 0 }),
        Cell::Double(1.0),
        Cell::Money(500 + fare + tip),
        Cell::Double(2.5),
        Cell::Money(if part(53, 12) == 0 { 175 } else { 0 }),
    ]
}

/// The schema of trips, with the source's types as `native` says. The first column is the key, and alone may not be NULL.
pub fn schema(native: impl Fn(Cell) -> NativeType) -> Arc<TableSchema> {
    let column = |(index, cell)| Column {
        id: 0,
        name: format!("c{index}"),
        ty: match cell {
            Cell::Long(_) => ColumnType::Long,
            Cell::Int(_) => ColumnType::Int,
            Cell::Timestamp(_) => ColumnType::Timestamp,
            Cell::Double(_) => ColumnType::Double,
            Cell::Text(_) => ColumnType::String,
            Cell::Money(_) => ColumnType::Decimal { precision: 8, scale: 2 },
        },
        nullable: index > 0,
        native: native(cell),
        usage: calve_core::ColumnUse::Values,
    };
    let columns = trip(0).into_iter().enumerate().map(column).collect();
    Arc::new(TableSchema::new(TableName::new("public", "trips"), 1, columns, vec![0]))
}

/// A buffer of [`ROWS`] trips under the schema.
///
/// # Panics
/// When the schema is not one of [`schema`].
pub fn buffer(schema: &Arc<TableSchema>, op: RowOp) -> RowBuffer {
    let mut buffer = RowBuffer::new(Arc::clone(schema));
    for number in 0..u32::try_from(ROWS).unwrap_or(u32::MAX) {
        for (cell, column) in trip(number).into_iter().zip(buffer.images_mut()) {
            push(cell, column);
        }
        buffer.finish_row(op);
    }
    buffer
}

fn push(cell: Cell, column: &mut ColumnBuffer) {
    match cell {
        Cell::Long(value) => column.push_i64(value),
        Cell::Int(value) => column.push_i32(value),
        Cell::Timestamp(seconds) => column.push_i64(seconds * 1_000_000),
        Cell::Double(value) => column.push_f64(value),
        Cell::Text(text) => column.push_str(text).expect("a buffer of small rows is not full"),
        Cell::Money(cents) => column.push_decimal(cents.into()),
    }
}

/// A sink for one table that wants all its changes.
#[derive(Debug)]
pub struct OneTable(pub RowBuffer);

impl ChangeSink for OneTable {
    fn begin(&mut self, _: &TransactionPoint) {}

    fn wants(&self, _: TableIndex) -> bool {
        true
    }

    fn rows(&mut self, _: TableIndex) -> Option<&mut RowBuffer> {
        Some(&mut self.0)
    }

    fn stop(&mut self, _: TableIndex, reason: StopReason) {
        unreachable!("the table stopped: {reason}")
    }

    fn commit(&mut self, _: Position, _: i64) {}

    fn abort(&mut self) {}

    fn idle(&mut self, _: Position) {}

    fn is_full(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use calve_engine::{Inserts, fold};

    #[test]
    #[ignore = "tells a speed: integration/bench.sh micro"]
    fn building_and_folding() {
        let schema = schema(|_| NativeType::new(0, -1, "native"));
        let rows = || (0..u32::try_from(ROWS).unwrap()).map(trip).collect::<Vec<_>>();
        tell("columns built", rows, |rows| {
            let mut buffer = RowBuffer::new(Arc::clone(&schema));
            for row in rows {
                for (cell, column) in row.into_iter().zip(buffer.images_mut()) {
                    push(cell, column);
                }
                buffer.finish_row(RowOp::Insert);
            }
            buffer
        });
        let excerpt = calve_core::Excerpt::of(&schema, &calve_core::ValueRules::default()).unwrap();
        for (what, op) in [("inserts folded", RowOp::Insert), ("updates folded", RowOp::Update)] {
            tell(
                what,
                || buffer(&schema, op),
                |buffer| {
                    let batch = fold(buffer, Inserts::AreNew, &excerpt).unwrap();
                    let deletes = if op == RowOp::Insert { 0 } else { ROWS };
                    assert_eq!((batch.rows.num_rows(), batch.deletes.num_rows()), (ROWS, deletes));
                    batch
                },
            );
        }
    }
}

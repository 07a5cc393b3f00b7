//! Speed of the decoder of row events, as `calve_testkit::speed` has it.

use std::sync::Arc;

use calve_core::{NativeType, RowBuffer, TableIndex};
use calve_testkit::speed::{self, Cell, OneTable, ROWS, tell};

use crate::binlog::Flavour;
use crate::binlog::event::{Header, kind};
use crate::binlog::plan::RowPlan;
use crate::binlog::{self, event::Event};
use crate::types::code;

/// Rows of an event, about as many of this size as a server puts into one.
const ROWS_AN_EVENT: usize = 80;

fn native(cell: Cell) -> NativeType {
    match cell {
        Cell::Long(_) => NativeType::new(code::LONGLONG, 0, "bigint"),
        Cell::Int(_) => NativeType::new(code::LONG, 0, "int"),
        Cell::Timestamp(_) => NativeType::new(code::DATETIME2, 0, "datetime"),
        Cell::Double(_) => NativeType::new(code::DOUBLE, 8, "double"),
        Cell::Text(_) => {
            NativeType { character_set: Some("utf8mb4".to_owned()), ..NativeType::new(code::VARCHAR, 4, "varchar(1)") }
        }
        Cell::Money(_) => NativeType::new(code::NEWDECIMAL, 8 << 8 | 2, "decimal(8,2)"),
    }
}

/// The type's part of a table map's metadata.
fn metadata(cell: Cell) -> &'static [u8] {
    match cell {
        Cell::Long(_) | Cell::Int(_) => &[],
        Cell::Timestamp(_) => &[0],
        Cell::Double(_) => &[8],
        Cell::Text(_) => &[4, 0],
        Cell::Money(_) => &[8, 2],
    }
}

/// The cell as a row event has it.
fn packed(cell: Cell, out: &mut Vec<u8>) {
    match cell {
        Cell::Long(value) => out.extend(value.to_le_bytes()),
        Cell::Int(value) => out.extend(value.to_le_bytes()),
        Cell::Timestamp(seconds) => {
            // 40 bits: the sign, year and month as one number, day, hour, minute, second (`my_datetime_packed_to_binary`).
            let (day, second) = (seconds / 86_400 - 19_723, seconds % 86_400);
            let ymd = ((2024 * 13 + 1) << 5) + 1 + day;
            let hms = (second / 3600) << 12 | (second / 60 % 60) << 6 | (second % 60);
            let bits = (ymd << 17 | hms) + 0x80_0000_0000;
            out.extend(&bits.to_be_bytes()[3..]);
        }
        Cell::Double(value) => out.extend(value.to_le_bytes()),
        Cell::Text(text) => {
            out.push(u8::try_from(text.len()).unwrap());
            out.extend(text.as_bytes());
        }
        Cell::Money(cents) => {
            // Six digits in three bytes, two in one; the sign is the first bit, inverted (`decimal2bin`).
            let [_, high @ ..] = (cents / 100).to_be_bytes();
            out.extend([high[0] ^ 0x80, high[1], high[2], u8::try_from(cents % 100).unwrap()]);
        }
    }
}

fn table_map() -> Vec<u8> {
    let row = speed::trip(0);
    let mut body = vec![1, 0, 0, 0, 0, 0, 1, 0];
    body.extend(b"\x06public\0\x05trips\0");
    body.push(u8::try_from(row.len()).unwrap());
    body.extend(row.map(|cell| u8::try_from(native(cell).id).unwrap()));
    let details: Vec<u8> = row.into_iter().flat_map(metadata).copied().collect();
    body.push(u8::try_from(details.len()).unwrap());
    body.extend(details);
    // All columns may be NULL but the first.
    body.extend([0xfe, 0xff, 0x0f]);
    body
}

fn row_event(kind: u8, numbers: std::ops::Range<u32>) -> Vec<u8> {
    let mut body = vec![1, 0, 0, 0, 0, 0, 1, 0, 2, 0, 20];
    let images = if kind == kind::UPDATE_ROWS { 2 } else { 1 };
    for _ in 0..images {
        body.extend([0xff, 0xff, 0x0f]);
    }
    for number in numbers {
        for _ in 0..images {
            body.extend([0, 0, 0xf0]);
            for cell in speed::trip(number) {
                packed(cell, &mut body);
            }
        }
    }
    body
}

fn header(kind: u8) -> Header {
    Header { timestamp: 0, kind, server_id: 0, size: 0, log_pos: 0, flags: 0 }
}

#[test]
#[ignore = "tells a speed: integration/bench.sh micro"]
fn row_events() {
    let schema = speed::schema(native);
    let map = table_map();
    let Event::TableMap(map) = binlog::event::parse(Flavour::MySql, &header(kind::TABLE_MAP), &map).unwrap() else {
        panic!("the table map is another event");
    };
    let plan = RowPlan::new(Flavour::MySql, &map, &schema).unwrap();
    for (what, kind) in [("inserts decoded", kind::WRITE_ROWS), ("updates decoded", kind::UPDATE_ROWS)] {
        let numbers = (0..u32::try_from(ROWS).unwrap()).step_by(ROWS_AN_EVENT);
        let events: Vec<Vec<u8>> =
            numbers.map(|first| row_event(kind, first..first + u32::try_from(ROWS_AN_EVENT).unwrap())).collect();
        tell(
            what,
            || OneTable(RowBuffer::new(Arc::clone(&schema))),
            |mut sink| {
                for body in &events {
                    let Event::Rows(rows) = binlog::event::parse(Flavour::MySql, &header(kind), body).unwrap() else {
                        panic!("the rows are another event");
                    };
                    plan.decode(&rows, TableIndex(0), &mut sink).unwrap();
                }
                assert_eq!(sink.0.len(), ROWS);
                sink
            },
        );
    }
}

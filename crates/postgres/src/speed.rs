//! Speed of the decoders, as `calve_testkit::speed` has it.

use std::sync::Arc;

use calve_core::{NativeType, RowBuffer, SourceTable, ValueRules};
use calve_spool::Spools;
use calve_testkit::speed::{self, Cell, OneTable, ROWS, tell};

use crate::copy::CopyDecoder;
use crate::pgoutput::Decoder;
use crate::types::oid;

/// Days and seconds from 1970-01-01 to 2000-01-01.
const EPOCH_S: i64 = 946_684_800;

fn native(cell: Cell) -> NativeType {
    match cell {
        Cell::Long(_) => NativeType::new(oid::INT8, -1, "bigint"),
        Cell::Int(_) => NativeType::new(oid::INT4, -1, "integer"),
        Cell::Timestamp(_) => NativeType::new(oid::TIMESTAMP, -1, "timestamp without time zone"),
        Cell::Double(_) => NativeType::new(oid::FLOAT8, -1, "double precision"),
        Cell::Text(_) => NativeType::new(oid::VARCHAR, 5, "character varying(1)"),
        Cell::Money(_) => NativeType::new(oid::NUMERIC, (8 << 16 | 2) + 4, "numeric(8,2)"),
    }
}

/// The cell as its type's send function writes it.
fn binary(cell: Cell) -> Vec<u8> {
    match cell {
        Cell::Long(value) => value.to_be_bytes().into(),
        Cell::Int(value) => value.to_be_bytes().into(),
        Cell::Timestamp(seconds) => ((seconds - EPOCH_S) * 1_000_000).to_be_bytes().into(),
        Cell::Double(value) => value.to_be_bytes().into(),
        Cell::Text(text) => text.into(),
        Cell::Money(cents) => {
            // Groups of four digits, of which the last is behind the point; zeros at the end are left out.
            let mut groups = vec![cents / 100, cents % 100 * 100];
            while groups.last() == Some(&0) {
                groups.pop();
            }
            let header = [groups.len().try_into().unwrap(), 0, 0, 2];
            let groups = groups.into_iter().map(|group| i16::try_from(group).unwrap());
            header.into_iter().chain(groups).flat_map(i16::to_be_bytes).collect()
        }
    }
}

fn text(cell: Cell) -> Vec<u8> {
    match cell {
        Cell::Long(value) => value.to_string(),
        Cell::Int(value) => value.to_string(),
        Cell::Timestamp(seconds) => {
            let of_day = seconds % 86_400;
            let day = 1 + (seconds - 1_704_067_200) / 86_400;
            format!("2024-01-{day:02} {:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
        }
        Cell::Double(value) => value.to_string(),
        Cell::Text(text) => text.to_owned(),
        Cell::Money(cents) => format!("{}.{:02}", cents / 100, cents % 100),
    }
    .into_bytes()
}

fn numbers() -> std::ops::Range<u32> {
    0..u32::try_from(ROWS).unwrap()
}

#[test]
#[ignore = "tells a speed: integration/bench.sh micro"]
fn copy_in_binary_form() {
    let schema = speed::schema(native);
    let mut wire = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    let mut messages = vec![std::mem::take(&mut wire)];
    for number in numbers() {
        let mut row = 20_i16.to_be_bytes().to_vec();
        for cell in speed::trip(number) {
            let cell = binary(cell);
            row.extend(i32::try_from(cell.len()).unwrap().to_be_bytes());
            row.extend(cell);
        }
        messages.push(row);
    }
    messages.push((-1_i16).to_be_bytes().to_vec());
    tell(
        "COPY decoded",
        || (CopyDecoder::new(Arc::clone(&schema), &ValueRules::default()), RowBuffer::new(Arc::clone(&schema))),
        |(mut decoder, mut buffer)| {
            for message in &messages {
                decoder.message(message, &mut buffer, &mut |_| panic!("the buffer is full")).unwrap();
            }
            decoder.finish().unwrap();
            assert_eq!(buffer.len(), ROWS);
            buffer
        },
    );
}

#[test]
#[ignore = "tells a speed: integration/bench.sh micro"]
fn pgoutput() {
    let schema = speed::schema(native);
    let table = SourceTable { name: schema.table.clone(), schema: Arc::clone(&schema) };
    let mut relation = b"R\0\0\0\x01public\0trips\0d".to_vec();
    relation.extend(20_i16.to_be_bytes());
    for (index, column) in schema.columns.iter().enumerate() {
        relation.push(u8::from(index == 0));
        relation.extend(column.name.as_bytes());
        relation.push(0);
        relation.extend(column.native.id.to_be_bytes());
        relation.extend(column.native.modifier.to_be_bytes());
    }
    for (what, tag, form) in [
        ("pgoutput decoded, binary", b'b', binary as fn(Cell) -> Vec<u8>),
        ("pgoutput decoded, text", b't', text as fn(Cell) -> Vec<u8>),
    ] {
        let insert = |number| {
            let mut message = b"I\0\0\0\x01N".to_vec();
            message.extend(20_i16.to_be_bytes());
            for cell in speed::trip(number) {
                let cell = form(cell);
                message.push(tag);
                message.extend(i32::try_from(cell.len()).unwrap().to_be_bytes());
                message.extend(cell);
            }
            message
        };
        let messages: Vec<Vec<u8>> = numbers().map(insert).collect();
        let begin = [&b"B"[..], &[0; 20]].concat();
        tell(
            what,
            || {
                let mut decoder = Decoder::new(
                    std::slice::from_ref(&table),
                    tag == b'b',
                    Spools::new(std::env::temp_dir()),
                    ValueRules::default(),
                );
                let mut sink = OneTable(RowBuffer::new(Arc::clone(&schema)));
                decoder.message(&relation, &mut sink).unwrap();
                decoder.message(&begin, &mut sink).unwrap();
                (decoder, sink)
            },
            |(mut decoder, mut sink)| {
                for message in &messages {
                    decoder.message(message, &mut sink).unwrap();
                }
                assert_eq!(sink.0.len(), ROWS);
                sink
            },
        );
    }
}

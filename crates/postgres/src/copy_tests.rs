//! COPY data cut, spoiled and whole.

use calve_core::{ColumnType, NativeType, TableName, Values};

use super::*;
use crate::types::oid;

fn column(name: &str, ty: ColumnType, id: u32) -> Column {
    Column {
        id: 0,
        name: name.into(),
        ty,
        nullable: true,
        native: NativeType::new(id, -1, name),
        usage: calve_core::ColumnUse::Values,
    }
}

fn schema() -> Arc<TableSchema> {
    Arc::new(TableSchema::new(
        TableName::new("public", "t"),
        20_000,
        vec![
            column("id", ColumnType::Long, oid::INT8),
            column("note", ColumnType::String, oid::TEXT),
            column("day", ColumnType::Date, oid::DATE),
            column("place \"x\"", ColumnType::String, 869),
        ],
        vec![0],
    ))
}

fn field_of(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    match bytes {
        Some(bytes) => {
            out.extend(i32::try_from(bytes.len()).unwrap().to_be_bytes());
            out.extend(bytes);
        }
        None => out.extend((-1_i32).to_be_bytes()),
    }
}

fn tuple(id: i64, note: Option<&str>, day: i32) -> Vec<u8> {
    let mut out = 4_i16.to_be_bytes().to_vec();
    field_of(Some(&id.to_be_bytes()), &mut out);
    field_of(note.map(str::as_bytes), &mut out);
    field_of(Some(&day.to_be_bytes()), &mut out);
    field_of(Some(b"10.0.0.1"), &mut out);
    out
}

fn header_bytes() -> Vec<u8> {
    let mut bytes = SIGNATURE.to_vec();
    // No flags; an extension of 3 bytes, to be skipped.
    bytes.extend([0, 0, 0, 0, 0, 0, 0, 3, 7, 7, 7]);
    bytes
}

fn whole() -> Vec<u8> {
    let mut bytes = header_bytes();
    bytes.extend(tuple(1, Some("one"), 0));
    bytes.extend(tuple(2, None, -10_957));
    bytes.extend(tuple(3, Some(""), 1));
    bytes.extend((-1_i16).to_be_bytes());
    bytes
}

fn decode(messages: &[&[u8]]) -> Result<RowBuffer> {
    let mut decoder = CopyDecoder::new(schema(), &ValueRules::default());
    let mut buffer = RowBuffer::new(schema());
    for message in messages {
        decoder.message(message, &mut buffer, &mut |_| panic!("three rows fill a buffer"))?;
    }
    decoder.finish()?;
    Ok(buffer)
}

fn assert_whole(buffer: RowBuffer) {
    assert_eq!(buffer.ops(), [RowOp::Insert; 3]);
    let (_, images, _) = buffer.into_parts();
    let (Values::Int64(ids), Values::Int32(days)) = (images[0].values(), images[2].values()) else { panic!() };
    assert_eq!(*ids, [1, 2, 3]);
    assert_eq!(*days, [10_957, 0, 10_958]);
    assert_eq!([0, 1, 2].map(|row| images[1].is_null(row)), [false, true, false]);
    let Values::Bytes { data, .. } = images[3].values() else { panic!() };
    assert_eq!(data, b"10.0.0.110.0.0.110.0.0.1");
}

#[test]
fn messages_may_end_anywhere() {
    let bytes = whole();
    for first in 0..=bytes.len() {
        for second in first..=bytes.len() {
            let parts = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            assert_whole(decode(&parts).unwrap_or_else(|fault| panic!("cut at {first} and {second}: {fault:?}")));
        }
    }
    assert_whole(decode(&bytes.chunks(1).collect::<Vec<_>>()).unwrap());
}

#[test]
fn an_early_end_is_noticed() {
    let bytes = whole();
    for end in 0..bytes.len() {
        let Err(CopyFault::Broken(error)) = decode(&[&bytes[..end]]) else { panic!("an end at {end} went unnoticed") };
        assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    }
}

#[test]
fn spoiled_bytes_are_an_error_or_other_values_but_never_a_panic() {
    let bytes = whole();
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut spoiled = bytes.clone();
            spoiled[at] = value;
            if at < SIGNATURE.len() && value != bytes[at] {
                assert!(matches!(decode(&[&spoiled]), Err(CopyFault::Broken(_))), "byte {at} as {value}");
            } else {
                _ = decode(&[&spoiled]);
            }
        }
    }
    for (tail, what) in [
        (&[0, 3][..], "has 3 columns instead of 4"),
        (&[0, 4, 0xff, 0xff, 0xff, 0xfe][..], "negative length"),
        (&[0xff, 0xff, 0][..], "bytes follow its end"),
    ] {
        let bytes = [header_bytes(), tail.to_vec()].concat();
        let Err(CopyFault::Broken(error)) = decode(&[&bytes]) else { panic!("{what} went unnoticed") };
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn a_value_that_does_not_fit_leaves_the_rows_before_it() {
    let mut decoder = CopyDecoder::new(schema(), &ValueRules::default());
    let mut buffer = RowBuffer::new(schema());
    let bytes = [header_bytes(), tuple(1, None, 0), tuple(2, None, i32::MAX)].concat();
    let Err(CopyFault::Stop(reason)) = decoder.message(&bytes, &mut buffer, &mut |_| panic!()) else { panic!() };
    assert_eq!(reason.state, "unrepresentable value");
    assert!(reason.detail.contains("column \"day\" of the row with id = 2 holds infinity"), "{reason}");
    assert_eq!(buffer.len(), 1);
    assert!(buffer.images_mut().iter().all(|column| column.len() == 1));
}

#[test]
fn types_without_an_understood_binary_form_are_asked_for_as_printed() {
    assert_eq!(
        select_list(&schema()),
        "\"id\", \"note\", \"day\", CASE WHEN pg_catalog.num_nulls(\"place \"\"x\"\"\") = 0 \
         THEN pg_catalog.format('%s', \"place \"\"x\"\"\") END"
    );
}

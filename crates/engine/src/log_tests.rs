use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use calve_core::{Origin, RowBuffer, RowOp, TableMode, TableSchema};

use super::log;
use crate::fold::{Inserts, fold};
use crate::fold_tests::schema;

fn log_schema(preimages: bool, key: &[usize]) -> Arc<TableSchema> {
    Arc::new(TableSchema { mode: TableMode::Append { preimages }, key: key.to_vec(), ..(*schema()).clone() })
}

fn origin(name: &str) -> Arc<Origin> {
    Arc::new(Origin { position: name.to_owned(), transaction: Some(format!("t{name}")), committed_at: 0 })
}

/// A row: its note and its id. The second part of the key is 1.
type Row = (&'static str, i64);

fn image(rows: &mut RowBuffer, (note, id): Row) {
    rows.image(0).push_str(note).unwrap();
    rows.image(1).push_i64(id);
    rows.image(2).push_i32(1);
}

fn old(rows: &mut RowBuffer, (note, id): Row) {
    rows.old(0).push_str(note).unwrap();
    rows.old(1).push_i64(id);
    rows.old(2).push_i32(1);
}

/// Two transactions: a row comes, changes without and with what it was before, gets another key; all rows go.
fn changes(schema: &Arc<TableSchema>) -> RowBuffer {
    let mut rows = RowBuffer::new(Arc::clone(schema));
    rows.number_from(7);
    rows.begin_transaction(origin("a"));
    image(&mut rows, ("one", 1));
    rows.finish_row(RowOp::Insert);
    image(&mut rows, ("two", 1));
    rows.finish_row(RowOp::Update);
    rows.begin_transaction(origin("b"));
    old(&mut rows, ("two", 1));
    image(&mut rows, ("three", 1));
    rows.finish_row(RowOp::UpdateFrom);
    old(&mut rows, ("three", 1));
    image(&mut rows, ("four", 2));
    rows.finish_row(RowOp::UpdateFrom);
    old(&mut rows, ("four", 2));
    rows.finish_row(RowOp::Delete);
    rows.finish_row(RowOp::Truncate);
    rows
}

/// `note|id|part|op|ordinal|position|transaction`, a line each.
fn shown(batch: &RecordBatch) -> Vec<String> {
    let cell = |cells: &ArrayRef, row: usize| match cells.data_type() {
        _ if cells.is_null(row) => String::new(),
        DataType::Utf8 => cells.as_string::<i32>().value(row).to_owned(),
        DataType::Int32 => cells.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => cells.as_primitive::<Int64Type>().value(row).to_string(),
        other => panic!("no column of {other} is asked for"),
    };
    let row = |row: usize| batch.columns()[..7].iter().map(|cells| cell(cells, row)).collect::<Vec<_>>().join("|");
    (0..batch.num_rows()).map(row).collect()
}

#[test]
fn every_change_is_a_row() {
    let batch = log(changes(&log_schema(false, &[2, 1]))).unwrap();
    assert!(!batch.replace && batch.incomplete.is_none() && batch.deletes.num_rows() == 0);
    assert_eq!(
        shown(&batch.rows),
        [
            "one|1|1|insert|7|a|ta",
            "two|1|1|update|8|a|ta",
            "three|1|1|update|9|b|tb",
            "three|1|1|delete|10|b|tb",
            "four|2|1|insert|10|b|tb",
            "four|2|1|delete|11|b|tb",
            "|||truncate|12|b|tb",
        ]
    );
    assert_eq!(batch.rows.column(7).null_count(), 0);
}

#[test]
fn what_rows_were_before_comes_first() {
    let updates = |key: &[usize], preimages| {
        let rows = shown(&log(changes(&log_schema(preimages, key))).unwrap().rows);
        rows.into_iter().filter(|row| row.contains("update")).collect::<Vec<_>>()
    };
    assert_eq!(
        updates(&[2, 1], true),
        [
            "|1|1|update_preimage|8|a|ta",
            "two|1|1|update|8|a|ta",
            "two|1|1|update_preimage|9|b|tb",
            "three|1|1|update|9|b|tb",
        ]
    );
    // Without a key nothing else tells which row it was.
    assert_eq!(
        updates(&[], false),
        [
            "|||update_preimage|8|a|ta",
            "two|1|1|update|8|a|ta",
            "two|1|1|update_preimage|9|b|tb",
            "three|1|1|update|9|b|tb",
            "three|1|1|update_preimage|10|b|tb",
            "four|2|1|update|10|b|tb",
        ]
    );
}

#[test]
fn a_buffer_that_is_cut_makes_the_same_log() {
    let schema = log_schema(true, &[2, 1]);
    let insert = |rows: &mut RowBuffer, id| {
        image(rows, ("x", id));
        rows.finish_row(RowOp::Insert);
        rows.mark()
    };
    let build = || {
        let mut rows = RowBuffer::new(Arc::clone(&schema));
        rows.number_from(7);
        let mut marks = vec![rows.mark()];
        for (id, transaction) in (1..).zip(["a", "a", "b", "b", "b", "c"]) {
            if rows.log().transactions.last().is_none_or(|(_, last)| last.position != transaction) {
                rows.begin_transaction(origin(transaction));
            }
            marks.push(insert(&mut rows, id));
        }
        (rows, marks)
    };
    let whole = shown(&log(build().0).unwrap().rows);
    assert_eq!((whole[1].as_str(), whole[5].as_str()), ("x|2|1|insert|8|a|ta", "x|6|1|insert|12|c|tc"));
    for at in 0..=6 {
        let (mut rows, marks) = build();
        let tail = rows.split_off(marks[at]);
        assert_eq!((rows.next_number(), tail.next_number()), (7 + at as u64, 13));
        let mut cut = shown(&log(rows).unwrap().rows);
        cut.extend(shown(&log(tail).unwrap().rows));
        assert_eq!(cut, whole, "cut at {at}");

        let (mut rows, marks) = build();
        rows.truncate(marks[at]);
        rows.begin_transaction(origin("d"));
        insert(&mut rows, 9);
        let again = shown(&log(rows).unwrap().rows);
        let last = format!("x|9|1|insert|{}|d|td", 7 + at);
        assert_eq!((&again[..at], &again[at]), (&whole[..at], &last), "taken back to {at}");
    }
}

#[test]
fn changes_that_belong_to_a_load_are_rows_of_it() {
    let batch = fold(changes(&log_schema(true, &[2, 1])), Inserts::MayExist).unwrap();
    assert!(batch.replace && batch.rows.num_rows() == 0);
    let mut rows = RowBuffer::new(log_schema(true, &[2, 1]));
    old(&mut rows, ("one", 1));
    image(&mut rows, ("two", 2));
    rows.finish_row(RowOp::UpdateFrom);
    let batch = fold(rows, Inserts::MayExist).unwrap();
    assert_eq!(shown(&batch.rows), ["two|2|1|read|0||"]);
    assert_eq!((batch.deletes.num_columns(), batch.deletes.num_rows()), (2, 2), "the old key and the new");
}

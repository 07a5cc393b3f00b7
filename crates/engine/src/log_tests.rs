use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use calve_core::{DeltaBatch, Excerpt, Origin, Result, RowBuffer, RowOp, TableMode, TableSchema, ValueRules};

use super::log;
use crate::fold::Inserts;
use crate::fold_tests::{fold_of, schema};

/// The log of a table that the lake gets as its schema says.
fn logged(rows: RowBuffer) -> Result<DeltaBatch> {
    let excerpt = Excerpt::of(rows.schema(), &ValueRules::default())?;
    log(rows, &excerpt)
}

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
    let batch = logged(changes(&log_schema(false, &[2, 1]))).unwrap();
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
        let rows = shown(&logged(changes(&log_schema(preimages, key))).unwrap().rows);
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
    let whole = shown(&logged(build().0).unwrap().rows);
    assert_eq!((whole[1].as_str(), whole[5].as_str()), ("x|2|1|insert|8|a|ta", "x|6|1|insert|12|c|tc"));
    for at in 0..=6 {
        let (mut rows, marks) = build();
        let tail = rows.split_off(marks[at]);
        assert_eq!((rows.next_number(), tail.next_number()), (7 + at as u64, 13));
        let mut cut = shown(&logged(rows).unwrap().rows);
        cut.extend(shown(&logged(tail).unwrap().rows));
        assert_eq!(cut, whole, "cut at {at}");

        let (mut rows, marks) = build();
        rows.truncate(marks[at]);
        rows.begin_transaction(origin("d"));
        insert(&mut rows, 9);
        let again = shown(&logged(rows).unwrap().rows);
        let last = format!("x|9|1|insert|{}|d|td", 7 + at);
        assert_eq!((&again[..at], &again[at]), (&whole[..at], &last), "taken back to {at}");
    }
}

#[test]
fn changes_that_belong_to_a_load_are_rows_of_it() {
    let batch = fold_of(changes(&log_schema(true, &[2, 1])), Inserts::MayExist).unwrap();
    assert!(batch.replace && batch.rows.num_rows() == 0);
    let mut rows = RowBuffer::new(log_schema(true, &[2, 1]));
    old(&mut rows, ("one", 1));
    image(&mut rows, ("two", 2));
    rows.finish_row(RowOp::UpdateFrom);
    let batch = fold_of(rows, Inserts::MayExist).unwrap();
    assert_eq!(shown(&batch.rows), ["two|2|1|read|0||"]);
    assert_eq!((batch.deletes.num_columns(), batch.deletes.num_rows()), (2, 2), "the old key and the new");
}

#[test]
fn changes_that_are_all_of_other_rows_are_not_logged() {
    let choosing = |filter: &str| {
        let schema = TableSchema { filter: Some(filter.to_owned()), ..(*log_schema(true, &[2, 1])).clone() };
        Arc::new(schema)
    };
    let build = |in_part: bool| {
        let mut rows = RowBuffer::new(choosing("note = 'a'"));
        rows.number_from(1);
        rows.begin_transaction(origin("p"));
        if in_part {
            rows.note_old_in_part();
        }
        for (before, after) in [(None, Some("a")), (None, Some("b")), (Some("a"), Some("b")), (Some("b"), Some("a"))] {
            if let Some(note) = before {
                old(&mut rows, (note, 1));
            }
            image(&mut rows, (after.unwrap(), 1));
            rows.finish_row(if before.is_some() { RowOp::UpdateFrom } else { RowOp::Insert });
        }
        for note in ["a", "b"] {
            old(&mut rows, (note, 1));
            rows.finish_row(RowOp::Delete);
        }
        // Of this one no more is known than the key, if that is so.
        rows.old(0).push_null();
        rows.old(1).push_i64(1);
        rows.old(2).push_i32(1);
        rows.finish_row(RowOp::Delete);
        image(&mut rows, ("b", 1));
        rows.finish_row(RowOp::Update);
        rows.finish_row(RowOp::Truncate);
        rows
    };
    let ops = |in_part| {
        let batch = logged(build(in_part)).unwrap();
        let rows = shown(&batch.rows);
        rows.iter().map(|row| row.split('|').skip(3).take(2).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    let whole = [
        "insert 1",
        "update_preimage 3",
        "update 3",
        "update_preimage 4",
        "update 4",
        "delete 5",
        "update_preimage 8",
        "update 8",
        "truncate 9",
    ];
    assert_eq!(ops(false), whole);
    let mut in_part = whole.to_vec();
    in_part.insert(6, "delete 7");
    assert_eq!(ops(true), in_part);
    // Where every image that is left is one of many.
    let mut rows = RowBuffer::new(choosing("note = 'a'"));
    rows.number_from(1);
    rows.begin_transaction(origin("p"));
    for note in ["b", "a", "b"] {
        image(&mut rows, (note, 1));
        rows.finish_row(RowOp::Insert);
    }
    assert_eq!(shown(&logged(rows).unwrap().rows), ["a|1|1|insert|2|p|tp"]);
}

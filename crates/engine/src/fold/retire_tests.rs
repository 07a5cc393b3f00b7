//! Folding of a table that keeps deleted rows, against a model that keeps whole tables: every sequence of up to four changes to two
//! keys, on every table that these keys can stand in before.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use calve_core::{Origin, RowBuffer, RowOp, TableMode, TableSchema};

use crate::Inserts;
use crate::fold_tests::{Change, Key, append, fold_of, schema};

/// A row: its note, and when it was deleted.
type Row = (String, Option<i64>);
type Table = BTreeMap<Key, Row>;

const A: Key = (0, 1);
const B: Key = (0, 2);

/// What is done to a row. The log knows the notes of rows that go, or leaves them to be looked up.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put(Key),
    Keep(Key),
    Go { key: Key, known: bool },
    Move { from: Key, to: Key, known: bool },
    AllGo,
}

/// Does it to the table, and tells a buffer of it as a decoder does.
fn take(step: Step, at: i64, table: &mut Table, rows: &mut RowBuffer) {
    const NOTES: [&str; 5] = ["p", "q", "r", "s", "t"];
    let position = at.to_string();
    rows.begin_transaction(Arc::new(Origin { position, transaction: None, committed_at: at }));
    let note = NOTES[usize::try_from(at).unwrap()];
    let lives = |table: &Table, key: Key| table.get(&key).is_some_and(|(_, deleted)| deleted.is_none());
    let retire = |table: &mut Table, rows: &mut RowBuffer, key: Key, known: bool| {
        let row = table.get_mut(&key).expect("a row is there to go");
        row.1 = Some(at);
        if known {
            rows.image(0).push_str(&row.0).unwrap();
        } else {
            rows.image(0).push_null();
        }
        rows.image(1).push_i64(key.1);
        rows.image(2).push_i32(key.0);
        if !known {
            rows.note_unchanged(0);
        }
        rows.finish_row(RowOp::Retire);
        row.0.clone()
    };
    match step {
        Step::Put(key) => {
            let change = if lives(table, key) { Change::Update(key, note) } else { Change::Insert(key, note) };
            append(rows, &change);
            table.insert(key, (note.to_owned(), None));
        }
        Step::Keep(key) => append(rows, &Change::Keep(key)),
        Step::Go { key, known } => {
            retire(table, rows, key, known);
        }
        Step::Move { from, to, known } => {
            let kept = retire(table, rows, from, known);
            append(rows, &Change::KeepFrom(from, to));
            table.insert(to, (kept, None));
        }
        Step::AllGo => {
            rows.finish_row(RowOp::Truncate);
            table.values_mut().filter(|(_, deleted)| deleted.is_none()).for_each(|(_, deleted)| *deleted = Some(at));
        }
    }
}

/// What can be done next.
fn steps(table: &Table) -> Vec<Step> {
    let lives = |key: Key| table.get(&key).is_some_and(|(_, deleted)| deleted.is_none());
    let mut all = vec![Step::AllGo];
    for (key, other) in [(A, B), (B, A)] {
        all.push(Step::Put(key));
        if lives(key) {
            all.push(Step::Keep(key));
            all.extend([true, false].map(|known| Step::Go { key, known }));
            if !lives(other) {
                all.extend([true, false].map(|known| Step::Move { from: key, to: other, known }));
            }
        }
    }
    all
}

fn keys(batch: &RecordBatch, part: usize, id: usize) -> Vec<Key> {
    let parts = batch.column(part).as_primitive::<Int32Type>();
    let ids = batch.column(id).as_primitive::<Int64Type>();
    (0..batch.num_rows()).map(|row| (parts.value(row), ids.value(row))).collect()
}

/// The table that a folded buffer makes of another.
fn put_on(before: &Table, rows: RowBuffer, said: &dyn std::fmt::Debug) -> Table {
    let batch = fold_of(rows, Inserts::AreNew).unwrap();
    let mut result = before.clone();
    for key in keys(&batch.deletes, 0, 1) {
        result.remove(&key);
    }
    match batch.retire {
        Some(at) => {
            assert!(batch.replace, "{said:?}");
            for (_, deleted) in result.values_mut() {
                *deleted = deleted.or(Some(at));
            }
        }
        None => assert!(!batch.replace, "{said:?} forgets rows"),
    }
    let deleted = |rows: &RecordBatch, row: usize| {
        let times = rows.column(3).as_primitive::<TimestampMicrosecondType>();
        times.is_valid(row).then(|| times.value(row))
    };
    let mut put = |key, row| assert_eq!(result.insert(key, row), None, "{said:?} doubles {key:?}");
    let notes = batch.rows.column(0).as_string::<i32>();
    for (row, key) in keys(&batch.rows, 2, 1).into_iter().enumerate() {
        put(key, (notes.value(row).to_owned(), deleted(&batch.rows, row)));
    }
    if let Some(incomplete) = &batch.incomplete {
        let new = keys(&incomplete.rows, 2, 1);
        for (row, (key, old)) in new.into_iter().zip(keys(&incomplete.keys, 0, 1)).enumerate() {
            put(key, (before[&old].0.clone(), deleted(&incomplete.rows, row)));
        }
    }
    result
}

#[test]
fn deleted_rows_are_as_the_changes_leave_them() {
    let schema: Arc<TableSchema> = Arc::new(TableSchema { mode: TableMode::SoftDelete, ..(*schema()).clone() });
    let living: Row = ("before".to_owned(), None);
    let deleted: Row = ("gone".to_owned(), Some(-7));
    let stands = [None, Some(living), Some(deleted)];
    let mut walked = 0;
    for a in &stands {
        for b in &stands {
            let before: Table =
                [(A, a), (B, b)].into_iter().filter_map(|(key, row)| Some((key, row.clone()?))).collect();
            let mut open = vec![Vec::new()];
            for length in 0..4 {
                let mut longer = Vec::new();
                for done in open {
                    let (mut table, mut rows) = (before.clone(), RowBuffer::new(Arc::clone(&schema)));
                    for (at, step) in (0..).zip(&done) {
                        take(*step, at, &mut table, &mut rows);
                    }
                    for step in steps(&table) {
                        let mut done: Vec<Step> = done.clone();
                        done.push(step);
                        let (mut table, mut rows) = (before.clone(), RowBuffer::new(Arc::clone(&schema)));
                        for (at, step) in (0..).zip(&done) {
                            take(*step, at, &mut table, &mut rows);
                        }
                        assert_eq!(put_on(&before, rows, &done), table, "{done:?} on {before:?}");
                        walked += 1;
                        longer.push(done);
                    }
                }
                open = if length < 3 { longer } else { Vec::new() };
            }
        }
    }
    assert!(walked > 10_000, "only {walked} sequences were walked");
}

/// What is put on a load of no one position becomes part of it.
#[test]
fn a_truncate_of_what_is_loaded_forgets() {
    let schema = Arc::new(TableSchema { mode: TableMode::SoftDelete, ..(*schema()).clone() });
    let mut rows = RowBuffer::new(schema);
    let mut table = Table::from([(A, ("before".to_owned(), None))]);
    for (at, step) in (0..).zip([Step::Put(A), Step::AllGo, Step::Put(B), Step::Go { key: B, known: true }]) {
        take(step, at, &mut table, &mut rows);
    }
    let batch = fold_of(rows, Inserts::MayExist).unwrap();
    assert!(batch.replace && batch.retire.is_none() && batch.deletes.num_rows() == 0);
    assert_eq!(keys(&batch.rows, 2, 1), [B]);
    assert_eq!(batch.rows.column(3).as_primitive::<TimestampMicrosecondType>().value(0), 3);
}

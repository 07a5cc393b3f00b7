//! Tests of folding: what comes out of every sequence of changes to a few keys, against a model that keeps whole tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use calve_core::{Column, ColumnType, NativeType, RowBuffer, RowOp, TableName, TableSchema};

use crate::{Inserts, fold};

/// `t(note text, id bigint, part int)`, key (part, id): not in the columns' order.
pub(crate) fn schema() -> Arc<TableSchema> {
    let column = |name: &str, ty: ColumnType, nullable| Column {
        id: 0,
        name: name.into(),
        ty,
        nullable,
        native: NativeType::new(0, -1, ""),
    };
    let columns = vec![
        column("note", ColumnType::String, true),
        column("id", ColumnType::Long, false),
        column("part", ColumnType::Int, false),
    ];
    Arc::new(TableSchema {
        table: TableName::new("public", "t"),
        native_id: 1,
        character_set: None,
        left_out: Vec::new(),
        columns,
        key: vec![2, 1],
    })
}

pub(crate) type Key = (i32, i64);

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Insert(Key, &'static str),
    Update(Key, &'static str),
    UpdateFrom(Key, Key, &'static str),
    Delete(Key),
    Truncate,
}

use Change::{Delete, Insert, Truncate, Update, UpdateFrom};

/// Appends a change as a decoder would.
pub(crate) fn append(rows: &mut RowBuffer, change: &Change) {
    let image = |rows: &mut RowBuffer, key: Key, note: &str| {
        if note.is_empty() {
            rows.image(0).push_null();
        } else {
            rows.image(0).push_str(note).unwrap();
        }
        rows.image(1).push_i64(key.1);
        rows.image(2).push_i32(key.0);
    };
    let old = |rows: &mut RowBuffer, key: Key| {
        rows.old_key(0).push_i32(key.0);
        rows.old_key(1).push_i64(key.1);
    };
    let op = match *change {
        Insert(key, note) => {
            image(rows, key, note);
            RowOp::Insert
        }
        Update(key, note) => {
            image(rows, key, note);
            RowOp::Update
        }
        UpdateFrom(from, to, note) => {
            old(rows, from);
            image(rows, to, note);
            RowOp::UpdateFrom
        }
        Delete(key) => {
            old(rows, key);
            RowOp::Delete
        }
        Truncate => RowOp::Truncate,
    };
    rows.finish_row(op);
}

pub(crate) fn buffer(changes: &[Change]) -> RowBuffer {
    let mut rows = RowBuffer::new(schema());
    for change in changes {
        append(&mut rows, change);
    }
    rows
}

fn keys(batch: &RecordBatch, part: usize, id: usize) -> Vec<Key> {
    let parts = batch.column(part).as_primitive::<Int32Type>();
    let ids = batch.column(id).as_primitive::<Int64Type>();
    (0..batch.num_rows()).map(|row| (parts.value(row), ids.value(row))).collect()
}

/// Folds and gives (replace, rows by key, deleted keys), having checked that no key comes twice.
pub(crate) fn folded(buffer: RowBuffer, inserts: Inserts) -> (bool, BTreeMap<Key, String>, Vec<Key>) {
    let batch = fold(buffer, inserts).unwrap();
    let row_keys = keys(&batch.rows, 2, 1);
    let notes = batch.rows.column(0).as_string::<i32>();
    let note = |row| if notes.is_null(row) { String::new() } else { notes.value(row).to_owned() };
    let rows: BTreeMap<Key, String> = row_keys.iter().enumerate().map(|(row, key)| (*key, note(row))).collect();
    assert_eq!(rows.len(), row_keys.len(), "a key was put twice");
    let mut deletes = keys(&batch.deletes, 0, 1);
    let count = deletes.len();
    deletes.sort_unstable();
    deletes.dedup();
    assert_eq!(deletes.len(), count, "a key was deleted twice");
    (batch.replace, rows, deletes)
}

#[track_caller]
fn check(changes: &[Change], replace: bool, rows: &[(Key, &str)], deletes: &[Key]) {
    let expected = rows.iter().map(|(key, note)| (*key, (*note).to_owned())).collect();
    assert_eq!(folded(buffer(changes), Inserts::AreNew), (replace, expected, deletes.to_vec()), "{changes:?}");
}

const A: Key = (0, 1);
const B: Key = (0, 2);
const C: Key = (1, 1);

#[test]
fn the_last_state_of_a_key_is_written() {
    check(&[], false, &[], &[]);
    check(&[Insert(A, "1")], false, &[(A, "1")], &[]);
    check(&[Insert(A, "1"), Delete(A)], false, &[], &[]);
    check(&[Insert(A, "1"), Update(A, "2"), Update(A, "")], false, &[(A, "")], &[]);
    check(&[Update(A, "1")], false, &[(A, "1")], &[A]);
    check(&[Update(A, "1"), Delete(A)], false, &[], &[A]);
    check(&[Delete(A), Insert(A, "2")], false, &[(A, "2")], &[A]);
    check(&[Delete(A), Insert(A, "2"), Delete(A)], false, &[], &[A]);
    check(&[Update(A, "1"), Update(B, "2"), Update(A, "3")], false, &[(A, "3"), (B, "2")], &[A, B]);
}

#[test]
fn where_a_load_may_have_read_a_row_already_every_put_deletes() {
    let check = |changes: &[Change], replace, rows: &[(Key, &str)], deletes: &[Key]| {
        let expected = rows.iter().map(|(key, note)| (*key, (*note).to_owned())).collect();
        assert_eq!(folded(buffer(changes), Inserts::MayExist), (replace, expected, deletes.to_vec()), "{changes:?}");
    };
    check(&[Insert(A, "1")], false, &[(A, "1")], &[A]);
    check(&[Insert(A, "1"), Delete(A)], false, &[], &[A]);
    check(&[UpdateFrom(A, B, "1")], false, &[(B, "1")], &[A, B]);
    check(&[UpdateFrom(A, A, "1")], false, &[(A, "1")], &[A]);
    check(&[Insert(A, "1"), Truncate, Insert(B, "2")], true, &[(B, "2")], &[]);
}

#[test]
fn a_key_change_deletes_the_old_key_and_puts_the_new() {
    check(&[UpdateFrom(A, B, "1")], false, &[(B, "1")], &[A]);
    check(&[UpdateFrom(A, A, "1")], false, &[(A, "1")], &[A]);
    check(&[Insert(A, "1"), UpdateFrom(A, B, "2")], false, &[(B, "2")], &[]);
    check(&[UpdateFrom(A, B, "1"), UpdateFrom(B, A, "2")], false, &[(A, "2")], &[A]);
    // A swap through a third key, as one transaction does it.
    let swap = [UpdateFrom(A, C, "a"), UpdateFrom(B, A, "b"), UpdateFrom(C, B, "a")];
    check(&swap, false, &[(A, "b"), (B, "a")], &[A, B]);
    check(&[Delete(B), UpdateFrom(A, B, "1")], false, &[(B, "1")], &[A, B]);
}

#[test]
fn truncate_forgets_what_came_before() {
    check(&[Truncate], true, &[], &[]);
    check(&[Update(A, "1"), Truncate], true, &[], &[]);
    check(&[Delete(A), Truncate, Insert(A, "2"), Update(A, "3")], true, &[(A, "3")], &[]);
    check(&[Truncate, Insert(A, "1"), UpdateFrom(A, B, "2")], true, &[(B, "2")], &[]);
    check(&[Truncate, Insert(A, "1"), Truncate, Insert(B, "2")], true, &[(B, "2")], &[]);
}

/// The changes put on rows that were read somewhere in the middle of them.
fn after_a_load_in_between(changes: &[Change], read: &BTreeMap<Key, String>, after: &BTreeMap<Key, String>) {
    let (replace, rows, deletes) = folded(buffer(changes), Inserts::MayExist);
    let mut result = if replace { BTreeMap::new() } else { read.clone() };
    result.retain(|key, _| !deletes.contains(key));
    for (key, note) in rows {
        assert_eq!(result.insert(key, note), None, "{changes:?} on {read:?} doubles {key:?}");
    }
    assert_eq!(result, *after, "{changes:?} on {read:?}");
}

/// Every legal sequence of up to five changes over two keys, applied to every table those keys can stand in before.
#[test]
fn folded_changes_do_to_a_table_what_the_changes_do() {
    let mut sequences = 0;
    for before in [vec![], vec![A], vec![B], vec![A, B]] {
        let table: BTreeMap<Key, String> = before.iter().map(|key| (*key, "before".to_owned())).collect();
        let mut open = vec![(Vec::new(), vec![table.clone()])];
        for note in ["p", "q", "r", "s", "t"] {
            let mut longer = Vec::new();
            for (changes, states) in open {
                let state = states.last().expect("it begins with the table before");
                for (change, after) in next(state, note) {
                    let mut changes: Vec<Change> = changes.clone();
                    changes.push(change);
                    for read in &states {
                        after_a_load_in_between(&changes, read, &after);
                    }
                    let (replace, rows, deletes) = folded(buffer(&changes), Inserts::AreNew);
                    let mut result = if replace { BTreeMap::new() } else { table.clone() };
                    for key in deletes {
                        assert!(
                            result.remove(&key).is_some(),
                            "{changes:?} on {before:?} deletes {key:?}, which is not there"
                        );
                    }
                    for (key, note) in rows {
                        assert_eq!(result.insert(key, note), None, "{changes:?} on {before:?} doubles {key:?}");
                    }
                    assert_eq!(result, after, "{changes:?} on {before:?}");
                    sequences += 1;
                    let states = states.iter().cloned().chain([after]).collect();
                    longer.push((changes, states));
                }
            }
            open = longer;
        }
    }
    assert!(sequences > 10_000, "only {sequences} sequences were walked");
}

/// What can be done to a table next, and the table afterwards.
fn next(state: &BTreeMap<Key, String>, note: &'static str) -> Vec<(Change, BTreeMap<Key, String>)> {
    let mut all = vec![(Truncate, BTreeMap::new())];
    for (key, other) in [(A, B), (B, A)] {
        let mut after = state.clone();
        if state.contains_key(&key) {
            after.insert(key, note.to_owned());
            all.push((Update(key, note), after.clone()));
            all.push((UpdateFrom(key, key, note), after.clone()));
            after.remove(&key);
            all.push((Delete(key), after.clone()));
            if !state.contains_key(&other) {
                after.insert(other, note.to_owned());
                all.push((UpdateFrom(key, other, note), after));
            }
        } else {
            after.insert(key, note.to_owned());
            all.push((Insert(key, note), after));
        }
    }
    all
}

//! Tests of folding: what comes out of every sequence of changes to a few keys, against a model that keeps whole tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use calve_core::{
    Column, ColumnType, DeltaBatch, Excerpt, NativeType, Result, RowBuffer, RowOp, TableName, TableSchema, ValueRules,
};

use crate::{Inserts, fold};

/// Of a table that the lake gets as its schema says.
pub(crate) fn fold_of(buffer: RowBuffer, inserts: Inserts) -> Result<DeltaBatch> {
    let excerpt = Excerpt::of(buffer.schema(), &ValueRules::default())?;
    fold(buffer, inserts, &excerpt)
}

/// `t(note text, id bigint, part int)`, key (part, id): not in the columns' order.
pub(crate) fn schema() -> Arc<TableSchema> {
    let column = |name: &str, ty: ColumnType, nullable| Column {
        id: 0,
        name: name.into(),
        ty,
        nullable,
        native: NativeType::new(0, -1, ""),
        usage: calve_core::ColumnUse::Values,
    };
    let columns = vec![
        column("note", ColumnType::String, true),
        column("id", ColumnType::Long, false),
        column("part", ColumnType::Int, false),
    ];
    Arc::new(TableSchema::new(TableName::new("public", "t"), 1, columns, vec![2, 1]))
}

pub(crate) type Key = (i32, i64);

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Insert(Key, &'static str),
    Update(Key, &'static str),
    UpdateFrom(Key, Key, &'static str),
    /// An update that leaves the note alone, and one that changes the key beside.
    Keep(Key),
    KeepFrom(Key, Key),
    Delete(Key),
    Truncate,
}

use Change::{Delete, Insert, Keep, KeepFrom, Truncate, Update, UpdateFrom};

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
        rows.old(0).push_i32(key.0);
        rows.old(1).push_i64(key.1);
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
        Keep(key) => {
            image(rows, key, "");
            rows.note_unchanged(0);
            RowOp::Update
        }
        KeepFrom(from, to) => {
            old(rows, from);
            image(rows, to, "");
            rows.note_unchanged(0);
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
    let batch = fold_of(buffer, inserts).unwrap();
    assert!(batch.incomplete.is_none(), "every row is whole");
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

/// A delete that the log does not hold, for one: a row is written once, whatever the source says of its keys.
#[test]
fn a_key_that_is_inserted_twice_is_written_once() {
    let by_id = Arc::new(TableSchema { key: vec![1], ..(*schema()).clone() });
    let inserted = |ids: &[i64]| {
        let mut rows = RowBuffer::new(Arc::clone(&by_id));
        for id in ids {
            append(&mut rows, &Insert((0, *id), "x"));
        }
        rows
    };
    for ids in [&[1, 2, 3][..], &[2, 3, 2], &[1, 1]] {
        for inserts in [Inserts::AreNew, Inserts::MayExist] {
            let batch = fold_of(inserted(ids), inserts).unwrap();
            let ids_of = |batch: &RecordBatch, column: usize| {
                let mut ids = batch.column(column).as_primitive::<Int64Type>().values().to_vec();
                ids.sort_unstable();
                ids
            };
            let mut expected = ids.to_vec();
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(ids_of(&batch.rows, 1), expected);
            let deletes = if inserts == Inserts::AreNew { Vec::new() } else { expected };
            assert_eq!(ids_of(&batch.deletes, 0), deletes);
        }
        assert_eq!(inserted(ids).keys_ascend(), ids == [1, 2, 3]);
    }
}

/// The table that a folded buffer makes of another, with the notes that it leaves alone looked up there.
fn put_on(table: &BTreeMap<Key, String>, changes: &[Change]) -> BTreeMap<Key, String> {
    let batch = fold_of(buffer(changes), Inserts::AreNew).unwrap();
    let mut result = if batch.replace { BTreeMap::new() } else { table.clone() };
    for key in keys(&batch.deletes, 0, 1) {
        assert!(result.remove(&key).is_some(), "{changes:?} deletes {key:?}, which is not there");
    }
    let mut put = |key, note: String| assert_eq!(result.insert(key, note), None, "{changes:?} doubles {key:?}");
    let notes = batch.rows.column(0).as_string::<i32>();
    for (row, key) in keys(&batch.rows, 2, 1).into_iter().enumerate() {
        put(key, notes.value(row).to_owned());
    }
    if let Some(incomplete) = &batch.incomplete {
        let (new, old) = (keys(&incomplete.rows, 2, 1), keys(&incomplete.keys, 0, 1));
        assert!(!new.is_empty() && new.len() == old.len(), "{changes:?}");
        let [Some(missing), None, None] = &incomplete.missing[..] else { panic!("{changes:?} lacks parts of a key") };
        assert_eq!(missing.count_set_bits(), new.len(), "{changes:?}");
        for (new, old) in new.into_iter().zip(old) {
            let note = table.get(&old).unwrap_or_else(|| panic!("{changes:?} looks {old:?} up, which is not there"));
            put(new, note.clone());
        }
    }
    result
}

/// Every legal sequence of up to five changes over two keys that leave notes alone, on every table those keys can stand in.
#[test]
fn what_updates_leave_alone_stays_what_it_was() {
    let mut sequences = 0;
    for before in [vec![], vec![A], vec![B], vec![A, B]] {
        let table: BTreeMap<Key, String> = before.iter().map(|key| (*key, format!("before {key:?}"))).collect();
        let mut open = vec![(Vec::new(), table.clone())];
        for note in ["p", "q", "r", "s", "t"] {
            let mut longer = Vec::new();
            for (changes, state) in open {
                for (change, after) in next_leaving(&state, note) {
                    let mut changes: Vec<Change> = changes.clone();
                    changes.push(change);
                    assert_eq!(put_on(&table, &changes), after, "{changes:?} on {before:?}");
                    sequences += 1;
                    longer.push((changes, after));
                }
            }
            open = longer;
        }
    }
    assert!(sequences > 50_000, "only {sequences} sequences were walked");
}

fn next_leaving(state: &BTreeMap<Key, String>, note: &'static str) -> Vec<(Change, BTreeMap<Key, String>)> {
    let mut all = vec![(Truncate, BTreeMap::new())];
    for (key, other) in [(A, B), (B, A)] {
        let mut after = state.clone();
        let Some(value) = after.remove(&key) else {
            after.insert(key, note.to_owned());
            all.push((Insert(key, note), after));
            continue;
        };
        all.push((Keep(key), state.clone()));
        all.push((KeepFrom(key, key), state.clone()));
        all.push((Delete(key), after.clone()));
        if !state.contains_key(&other) {
            let mut moved = after.clone();
            moved.insert(other, value);
            all.push((KeepFrom(key, other), moved));
        }
        after.insert(key, note.to_owned());
        all.push((Update(key, note), after));
    }
    all
}

#[test]
fn rows_that_trade_keys_keep_their_values() {
    let table: BTreeMap<Key, String> = [(A, "a".to_owned()), (B, "b".to_owned())].into();
    let swap = [KeepFrom(A, C), KeepFrom(B, A), KeepFrom(C, B), Keep(A), Keep(B)];
    assert_eq!(put_on(&table, &swap), [(A, "b".to_owned()), (B, "a".to_owned())].into());
    let chain = [KeepFrom(A, C), Insert(A, "new"), Keep(A), KeepFrom(C, (9, 9)), Delete(B), KeepFrom((9, 9), B)];
    assert_eq!(put_on(&table, &chain), [(A, "new".to_owned()), (B, "a".to_owned())].into());
}

#[test]
fn a_value_of_a_row_that_cannot_be_there_is_a_fault() {
    for changes in [
        &[Delete(A), Keep(A)][..],
        &[Truncate, Keep(A)],
        &[KeepFrom(A, B), Keep(A)],
        &[KeepFrom(A, B), KeepFrom(A, C)],
        &[Insert(A, "1"), Truncate, KeepFrom(A, B)],
    ] {
        let error = fold_of(buffer(changes), Inserts::AreNew).unwrap_err();
        assert_eq!(error.kind(), calve_core::ErrorKind::Bug, "{changes:?}: {error}");
    }
}

/// Each cell comes from the last image that has it, and only what none has is left to the table.
#[test]
fn cells_of_a_row_come_from_several_images() {
    let mut wide = (*schema()).clone();
    wide.columns.push(Column { name: "more".into(), ..wide.columns[0].clone() });
    let mut rows = RowBuffer::new(Arc::new(wide));
    let update = |rows: &mut RowBuffer, id, cells: [Option<&str>; 2]| {
        for (column, cell) in [0, 3].into_iter().zip(cells) {
            match cell {
                Some(text) => rows.image(column).push_str(text).unwrap(),
                None => rows.image(column).push_null(),
            }
        }
        rows.image(1).push_i64(id);
        rows.image(2).push_i32(0);
        for (column, cell) in [0, 3].into_iter().zip(cells) {
            if cell.is_none() {
                rows.note_unchanged(column);
            }
        }
        rows.finish_row(RowOp::Update);
    };
    update(&mut rows, 1, [Some("note 1"), None]);
    update(&mut rows, 1, [None, Some("more 1")]);
    update(&mut rows, 1, [None, None]);
    update(&mut rows, 2, [None, Some("more 2")]);
    update(&mut rows, 2, [None, None]);
    update(&mut rows, 3, [None, None]);
    let batch = fold_of(rows, Inserts::AreNew).unwrap();
    let text = |batch: &RecordBatch, column: usize| {
        let cells = batch.column(column).as_string::<i32>();
        cells.iter().map(|cell| cell.map(ToOwned::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(
        (text(&batch.rows, 0), text(&batch.rows, 3)),
        (vec![Some("note 1".into())], vec![Some("more 1".into())])
    );
    let incomplete = batch.incomplete.unwrap();
    assert_eq!(keys(&incomplete.rows, 2, 1), [(0, 2), (0, 3)]);
    assert_eq!(keys(&incomplete.keys, 0, 1), [(0, 2), (0, 3)]);
    assert_eq!(text(&incomplete.rows, 3), [Some("more 2".into()), None]);
    let missing = |column: usize| incomplete.missing[column].as_ref().map(|bits| bits.iter().collect::<Vec<_>>());
    assert_eq!((missing(0), missing(3)), (Some(vec![true, true]), Some(vec![false, true])));
}

/// A table of which the lake gets rows with ids below 3, and not their notes.
fn chosen() -> Arc<TableSchema> {
    let mut schema = (*schema()).clone();
    schema.filter = Some("id < 3".to_owned());
    schema.columns[0].usage = calve_core::ColumnUse::LeftOut;
    Arc::new(schema)
}

#[test]
fn rows_that_are_not_chosen_go_and_their_deletes_stay() {
    let mut rows = RowBuffer::new(chosen());
    let image = |rows: &mut RowBuffer, id: i64| {
        rows.image(1).push_i64(id);
        rows.image(2).push_i32(1);
    };
    let old = |rows: &mut RowBuffer, id: i64| {
        rows.old(0).push_i32(1);
        rows.old(1).push_i64(id);
    };
    // Comes and is not chosen; is changed and is not; leaves by its key; comes by its key; is chosen.
    image(&mut rows, 7);
    rows.finish_row(RowOp::Insert);
    image(&mut rows, 8);
    rows.finish_row(RowOp::Update);
    for (from, to) in [(1, 9), (10, 2)] {
        old(&mut rows, from);
        image(&mut rows, to);
        rows.finish_row(RowOp::UpdateFrom);
    }
    image(&mut rows, 0);
    rows.finish_row(RowOp::Insert);
    let batch = fold_of(rows, Inserts::AreNew).unwrap();
    let names: Vec<_> = batch.rows.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["id", "part"]);
    let mut ids = batch.rows.column(0).as_primitive::<Int64Type>().values().to_vec();
    ids.sort_unstable();
    assert_eq!(ids, [0, 2]);
    let mut deletes = batch.deletes.column(1).as_primitive::<Int64Type>().values().to_vec();
    deletes.sort_unstable();
    assert_eq!(deletes, [1, 8, 10]);
    // Inserts alone, of ascending keys or not.
    for ids in [[1, 5], [5, 1]] {
        let mut rows = RowBuffer::new(chosen());
        for id in ids {
            image(&mut rows, id);
            rows.finish_row(RowOp::Insert);
        }
        let batch = fold_of(rows, Inserts::MayExist).unwrap();
        assert_eq!((batch.rows.num_rows(), batch.deletes.num_rows()), (1, 2));
    }
}

#[test]
fn rows_that_lack_values_are_looked_up_only_where_they_may_be_chosen() {
    for (filter, had) in [
        ("id < 3", Some(vec![1])),
        ("note = 'x'", Some(vec![1, 5])),
        ("note = 'x' and id > 4", Some(vec![5])),
        ("note is null and id > 9", None),
        ("id = 1 or note is not null", Some(vec![1, 5])),
    ] {
        let schema = TableSchema { filter: Some(filter.to_owned()), ..(*schema()).clone() };
        let mut rows = RowBuffer::new(Arc::new(schema));
        for id in [1, 5] {
            rows.image(0).push_null();
            rows.image(1).push_i64(id);
            rows.image(2).push_i32(1);
            rows.note_unchanged(0);
            rows.finish_row(RowOp::Update);
        }
        let batch = fold_of(rows, Inserts::AreNew).unwrap();
        assert_eq!((batch.rows.num_rows(), batch.deletes.num_rows()), (0, 2), "{filter}");
        let found = batch.incomplete.map(|incomplete| {
            assert!(incomplete.filter.is_some());
            let keys = incomplete.keys.column(1).as_primitive::<Int64Type>().values().to_vec();
            assert_eq!(incomplete.rows.column(1).as_primitive::<Int64Type>().values(), &keys[..]);
            keys
        });
        assert_eq!(found, had, "{filter}");
    }
}

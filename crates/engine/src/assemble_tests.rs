//! Tests of assembling: checkpoints end at transaction boundaries, whatever cuts them.

use std::sync::Arc;

use calve_core::{
    ChangeSink, Lsn, NativeType, Origin, Position, RowBuffer, SchemaChange, StopReason, TableIndex, TableMode,
    TableSchema, TransactionPoint,
};

use crate::assemble::{Assembler, Limits, Sealed, Work};
use crate::fold_tests::{Change, append, schema};
use crate::policy::{Policy, SchemaPolicies};
use crate::settings::Settings;

const T: TableIndex = TableIndex(0);
const U: TableIndex = TableIndex(1);

fn at(lsn: u64) -> Position {
    Position::Postgres(Lsn(lsn))
}

fn assembler(rows: u64, after: [Option<u64>; 2]) -> Assembler {
    let tables = after.map(|after| (schema(), after.map(at))).into();
    Assembler::new(at(0), tables, Limits { rows, bytes: usize::MAX }, &Settings::default())
}

/// Numbers of the changes that a checkpoint has of a table that keeps a log.
fn numbers(sealed: &Sealed) -> Vec<u64> {
    let numbers = |rows: &RowBuffer| rows.log().first..rows.next_number();
    sealed.tables.iter().flat_map(|(_, rows)| numbers(rows)).collect()
}

/// However a checkpoint cuts a transaction that is rolled back, and whatever comes then.
#[test]
fn no_number_of_a_log_is_given_twice() {
    let log = Arc::new(TableSchema { mode: TableMode::Append { preimages: false }, ..(*schema()).clone() });
    let mut assembler = Assembler::new(
        at(0),
        vec![(Arc::clone(&log), Some(at(0)))],
        Limits { rows: 100, bytes: usize::MAX },
        &Settings::default(),
    );
    let origin = || Origin { position: String::new(), transaction: None, committed_at: 0 };
    begin(&mut assembler, 10);
    assembler.origin(origin());
    (1..4).for_each(|id| assert!(insert(&mut assembler, T, id)));
    assembler.commit(at(11), 0);
    begin(&mut assembler, 20);
    assembler.origin(origin());
    assert!(insert(&mut assembler, T, 4));
    assert_eq!(numbers(&assembler.seal()), [1, 2, 3]);
    assembler.abort();
    begin(&mut assembler, 30);
    assembler.origin(origin());
    let mut other = (*log).clone();
    other.columns[0].native = NativeType::new(0, -1, "longer text");
    assembler.schema(T, SchemaChange { schema: Arc::new(other), existing_rows: None });
    assert!(insert(&mut assembler, T, 5));
    assembler.commit(at(31), 0);
    assert_eq!(numbers(&assembler.seal()), [4]);
}

fn begin(assembler: &mut Assembler, commit: u64) {
    assembler.begin(&TransactionPoint::Postgres { commit_lsn: Lsn(commit) });
}

/// One inserted row; false where the table does not want it.
fn insert(assembler: &mut Assembler, table: TableIndex, id: i64) -> bool {
    let Some(rows) = assembler.rows(table) else { return false };
    append(rows, &Change::Insert((0, id), "x"));
    true
}

/// (start, end, rows of each table).
fn shape(sealed: &Sealed) -> (Position, Position, Vec<(usize, usize)>) {
    (sealed.start.clone(), sealed.end.clone(), counts(&sealed.tables))
}

fn counts(tables: &[(TableIndex, RowBuffer)]) -> Vec<(usize, usize)> {
    tables.iter().map(|(index, rows)| (index.0, rows.len())).collect()
}

#[test]
fn rows_of_an_open_transaction_stay_behind() {
    let mut assembler = assembler(100, [Some(0), Some(0)]);
    begin(&mut assembler, 10);
    assert!(insert(&mut assembler, T, 1) && insert(&mut assembler, U, 1));
    assembler.commit(at(11), 7);
    begin(&mut assembler, 20);
    assert!(insert(&mut assembler, T, 2) && insert(&mut assembler, T, 3));
    assert_eq!(shape(&assembler.seal()), (at(0), at(11), vec![(0, 1), (1, 1)]));
    assert!(!assembler.has_progress());
    assembler.commit(at(21), 8);
    let sealed = assembler.seal();
    assert_eq!((shape(&sealed), sealed.committed_at), ((at(11), at(21), vec![(0, 2)]), Some(8)));
}

#[test]
fn an_aborted_transaction_leaves_no_row() {
    let mut assembler = assembler(100, [Some(0), Some(0)]);
    begin(&mut assembler, 10);
    insert(&mut assembler, T, 1);
    assembler.commit(at(11), 0);
    begin(&mut assembler, 20);
    insert(&mut assembler, T, 2);
    insert(&mut assembler, U, 2);
    assembler.abort();
    begin(&mut assembler, 20);
    insert(&mut assembler, T, 2);
    assembler.commit(at(21), 0);
    assert_eq!(shape(&assembler.seal()), (at(0), at(21), vec![(0, 2)]));
}

#[test]
fn transactions_that_a_table_has_are_skipped_for_that_table() {
    let mut assembler = assembler(100, [Some(15), None]);
    begin(&mut assembler, 10);
    assert!(!insert(&mut assembler, T, 1), "at or below the table's own position");
    assert!(!insert(&mut assembler, U, 1), "not wanted at all");
    assembler.commit(at(15), 0);
    begin(&mut assembler, 15);
    assert!(insert(&mut assembler, T, 2));
    assembler.commit(at(20), 0);
    assert_eq!(shape(&assembler.seal()), (at(0), at(20), vec![(0, 1)]));
}

#[test]
fn a_transaction_larger_than_a_checkpoint_goes_in_chunks() {
    let mut assembler = assembler(3, [Some(0), Some(0)]);
    begin(&mut assembler, 10);
    insert(&mut assembler, U, 1);
    assembler.commit(at(11), 0);
    assert!(!assembler.is_full());
    begin(&mut assembler, 20);
    insert(&mut assembler, T, 1);
    insert(&mut assembler, T, 2);
    assert!(assembler.is_full());
    // What is complete goes first, by itself.
    let Some(Work::Seal(sealed)) = assembler.relieve() else { panic!("complete transactions are sealed first") };
    assert_eq!(shape(&sealed), (at(0), at(11), vec![(1, 1)]));
    assert!(assembler.relieve().is_none(), "two rows are within the limit");
    insert(&mut assembler, T, 3);
    let Some(Work::Chunk(chunk)) = assembler.relieve() else { panic!("the open transaction is cut") };
    assert_eq!(counts(&chunk), [(0, 3)]);
    insert(&mut assembler, T, 4);
    assert!(!assembler.has_progress(), "nothing is complete yet");
    assembler.commit(at(21), 0);
    assert!(assembler.has_changes());
    assert_eq!(shape(&assembler.seal()), (at(11), at(21), vec![(0, 1)]));
}

#[test]
fn chunks_of_an_aborted_transaction_are_abandoned() {
    let mut assembler = assembler(1, [Some(0), Some(0)]);
    begin(&mut assembler, 10);
    insert(&mut assembler, T, 1);
    assert!(matches!(assembler.relieve(), Some(Work::Chunk(_))));
    assembler.abort();
    assert!(matches!(assembler.next_ready(), Some(Work::Abandon)));
    // Chunks of a transaction that is complete are not touched by the abort of the next.
    begin(&mut assembler, 10);
    insert(&mut assembler, T, 1);
    assert!(matches!(assembler.relieve(), Some(Work::Chunk(_))));
    assembler.commit(at(11), 0);
    begin(&mut assembler, 20);
    assembler.abort();
    assert!(assembler.next_ready().is_none());
    assert!(assembler.has_changes(), "the chunks wait for their seal");
}

#[test]
fn a_table_stops_at_the_last_complete_transaction() {
    let reason = || StopReason { state: "unrepresentable value".into(), detail: String::new(), remedy: String::new() };
    let mut assembler = assembler(100, [Some(0), Some(0)]);
    begin(&mut assembler, 10);
    insert(&mut assembler, T, 1);
    assembler.commit(at(11), 0);
    begin(&mut assembler, 20);
    insert(&mut assembler, U, 2);
    insert(&mut assembler, T, 2);
    assembler.stop(T, reason());
    assert!(assembler.is_full(), "a stop is handed on before anything else is read");
    assembler.stop(T, reason());
    assert!(!insert(&mut assembler, T, 3));
    insert(&mut assembler, U, 3);
    assembler.commit(at(21), 0);
    let Some(Work::Seal(sealed)) = assembler.next_ready() else { panic!("first what is complete") };
    assert_eq!(shape(&sealed), (at(0), at(11), vec![(0, 1)]));
    assert!(matches!(assembler.next_ready(), Some(Work::Stop(T, _))));
    assert!(assembler.next_ready().is_none(), "a table stops once");
    assert_eq!(shape(&assembler.seal()), (at(11), at(21), vec![(1, 2)]));
}

#[test]
fn memory_counts_what_was_appended_last() {
    let tables = vec![(schema(), Some(at(0)))];
    let mut assembler = Assembler::new(at(0), tables, Limits { rows: u64::MAX, bytes: 1 << 20 }, &Settings::default());
    begin(&mut assembler, 10);
    let rows = assembler.rows(T).unwrap();
    rows.image(0).push_str(&"x".repeat(1 << 20)).unwrap();
    rows.image(1).push_i64(1);
    rows.image(2).push_i32(1);
    rows.finish_row(calve_core::RowOp::Insert);
    assert!(assembler.is_full());
    assert!(matches!(assembler.relieve(), Some(Work::Chunk(_))));
    assert!(!assembler.is_full());
}

#[test]
fn idle_stretches_are_progress_and_never_go_back() {
    let mut assembler = assembler(100, [Some(0), Some(0)]);
    assembler.idle(at(50));
    assembler.idle(at(40));
    assert!(assembler.has_progress() && !assembler.has_changes());
    assert_eq!(shape(&assembler.seal()), (at(0), at(50), vec![]));
}

/// Two checkpoints are in memory, whether they are filled or on their way; a large message waits until it is alone.
#[test]
fn memory_is_counted_until_rows_are_encoded() {
    let row = {
        let mut rows = RowBuffer::new(schema());
        append(&mut rows, &Change::Insert((0, 1), "x"));
        rows.bytes()
    };
    let tables = [(schema(), Some(at(0)))].into();
    let limits = Limits { rows: 100, bytes: 4 * row };
    let mut assembler = Assembler::new(at(0), tables, limits, &Settings::default());
    assert!(assembler.has_room() && assembler.has_room_for(100 * row), "it is alone");
    begin(&mut assembler, 10);
    for id in 0..4 {
        insert(&mut assembler, T, id);
    }
    let first = assembler.relieve().unwrap();
    let first = assembler.hand_on(&first);
    assert!(assembler.has_room() && assembler.has_room_for(row));
    for id in 4..8 {
        insert(&mut assembler, T, id);
    }
    assert!(!assembler.has_room(), "two are there");
    drop(first);
    assert!(assembler.has_room());
    let second = assembler.relieve().unwrap();
    let second = assembler.hand_on(&second);
    insert(&mut assembler, T, 8);
    assert!(assembler.relieve().is_none());
    assert!(!assembler.has_room_for(2 * row));
    // What it waits for is handed on, however little it is.
    let third = assembler.relieve().unwrap();
    assert!(matches!(&third, Work::Chunk(rows) if counts(rows) == [(0, 1)]));
    let third = assembler.hand_on(&third);
    drop(second);
    assert!(!assembler.has_room());
    drop(third);
    assert!(assembler.has_room() && assembler.has_room_for(2 * row));
    assembler.commit(at(11), 0);
    assert_eq!(shape(&assembler.seal()), (at(0), at(11), vec![]));
}

/// Rows that went are kept where that is asked for, and from then on what is inserted may be there.
#[test]
fn what_is_ignored_is_remembered_by_the_schema() {
    let schema_changes = SchemaPolicies { drop_partition: Policy::Ignore, ..SchemaPolicies::default() };
    let settings = Settings { schema_changes, ..Settings::default() };
    let limits = Limits { rows: 100, bytes: usize::MAX };
    let mut assembler = Assembler::new(at(0), vec![(schema(), Some(at(0)))], limits, &settings);
    let name = schema().table.clone();
    begin(&mut assembler, 10);
    insert(&mut assembler, T, 1);
    assembler.commit(at(11), 0);
    begin(&mut assembler, 20);
    assembler.stop(T, StopReason::rows_gone(&name, "a partition was dropped"));
    assert!(assembler.schema_of(T).is_some_and(|schema| schema.keeps_gone));
    // A source that knows nothing of it changes nothing of it.
    let swapped = Arc::new(TableSchema { swaps: 1, ..(*schema()).clone() });
    assembler.schema(T, SchemaChange { schema: swapped, existing_rows: None });
    assert!(assembler.schema_of(T).is_some_and(|schema| schema.keeps_gone && schema.swaps == 1));
    insert(&mut assembler, T, 2);
    assembler.commit(at(21), 0);
    assert!(matches!(assembler.next_ready(), Some(Work::Ignored(T, _))));
    let Some(Work::Seal(sealed)) = assembler.next_ready() else { panic!("first what came before") };
    assert_eq!(shape(&sealed), (at(0), at(11), vec![(0, 1)]));
    assert_eq!(shape(&assembler.seal()), (at(11), at(21), vec![(0, 1)]));
    // Any other reason stops it.
    begin(&mut assembler, 30);
    assembler.stop(T, StopReason::rows_unknown(&name, "a partition was exchanged"));
    assert!(!assembler.wants(T));
}

/// Whether a dropped column leaves the lake is said of the schema without it, whatever the source knows.
#[test]
fn a_policy_of_the_lake_is_part_of_the_schema() {
    let schema_changes = SchemaPolicies { drop_column: Policy::Apply, ..SchemaPolicies::default() };
    let settings = Settings { schema_changes, ..Settings::default() };
    let limits = Limits { rows: 100, bytes: usize::MAX };
    let mut assembler = Assembler::new(at(0), vec![(schema(), Some(at(0)))], limits, &settings);
    let more = calve_core::Column { id: 90, name: "more".into(), nullable: true, ..schema().columns[1].clone() };
    let wider = TableSchema { columns: [schema().columns.clone(), vec![more]].concat(), ..(*schema()).clone() };
    for (begins, next, drops) in [(10, wider.clone(), false), (20, (*schema()).clone(), true), (30, wider, true)] {
        begin(&mut assembler, begins);
        assembler.schema(T, SchemaChange { schema: Arc::new(next), existing_rows: None });
        assert_eq!(assembler.schema_of(T).map(|schema| schema.drops_columns), Some(drops));
        assembler.commit(at(begins + 1), 0);
    }
}

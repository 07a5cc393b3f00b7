//! Tables that keep deleted rows: all rows retire at once, be they of the table or of what was staged on it, and rows that were one in
//! the table are looked up together.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, Int64Array, RecordBatch, StringArray};
use arrow_buffer::BooleanBuffer;
use calve_core::{
    Column, ColumnType, DeltaBatch, DeltaWriter, Ground, IncompleteRows, Lake, LakeVersion, Onto, StagedDelta,
    TableCommit, TableMode, TableSchema,
};

use super::fixture::{self, Scratch, batch_of, column, staged, stamp, table};
use crate::IcebergLake;

/// By id: a text, and when the row was deleted.
type Rows = BTreeMap<i64, (String, Option<i64>)>;

fn schema() -> Arc<TableSchema> {
    let columns = vec![
        Column { id: 1, ..column("id", ColumnType::Long, false) },
        Column { id: 2, ..column("note", ColumnType::String, true) },
    ];
    Arc::new(TableSchema { mode: TableMode::SoftDelete, ..(*fixture::schema_of(columns, vec![0])).clone() })
}

fn rows_of(rows: &Rows) -> RecordBatch {
    let notes: StringArray = rows.values().map(|(note, _)| Some(note.as_str())).collect();
    let deleted = TableSchema::deleted_cells(rows.values().map(|(_, deleted)| *deleted));
    batch_of(vec![Arc::new(Int64Array::from_iter_values(rows.keys().copied())), Arc::new(notes), deleted])
}

fn ids(ids: &[i64]) -> RecordBatch {
    batch_of(vec![Arc::new(Int64Array::from(ids.to_vec()))])
}

fn rows(rows: &[(i64, &str, Option<i64>)]) -> Rows {
    rows.iter().map(|(id, note, deleted)| (*id, ((*note).to_owned(), *deleted))).collect()
}

fn batch(puts: &Rows, deletes: &[i64]) -> DeltaBatch {
    DeltaBatch {
        schema: schema(),
        replace: false,
        rows: rows_of(puts),
        incomplete: None,
        deletes: ids(deletes),
        retire: None,
    }
}

struct Written {
    lake: Arc<IcebergLake>,
    version: LakeVersion,
    ground: Ground,
    lsn: u64,
}

impl Written {
    async fn create(scratch: &Scratch) -> Self {
        let lake = IcebergLake::open(scratch.settings()).await.unwrap();
        let version = lake.create(&schema()).await.unwrap().version;
        Self { lake, version, ground: Ground::default(), lsn: 0 }
    }

    async fn stage(&mut self, batch: DeltaBatch) {
        let written = self.lake.write(&table(), Box::new(move || Ok(batch)), Onto::Table, &self.ground).await.unwrap();
        self.ground.staged.push(staged(written));
    }

    /// Commits all that was staged.
    async fn commit(&mut self) -> Vec<StagedDelta> {
        self.lsn += 10;
        let stamp = stamp(self.lsn, &schema());
        self.ground.base = Some(stamp.checkpoint);
        let deltas = std::mem::take(&mut self.ground.staged);
        // A replacement takes away what was staged before it.
        let first = deltas.iter().rposition(|delta| delta.replace).unwrap_or(0);
        let deltas = deltas[first..].to_vec();
        let commit = TableCommit { deltas: deltas.clone(), stamp: Some(stamp), ..TableCommit::default() };
        self.version = self.lake.commit(&table(), &self.version, &commit).await.unwrap().version;
        deltas
    }

    /// Everything that stands in the table.
    async fn all(&self) -> Rows {
        let as_rows = TableSchema { mode: TableMode::Upsert, ..schema().in_lake().into_owned() };
        let mut stream = self.lake.scan(&as_rows, None).await.unwrap();
        let mut rows = Rows::new();
        while let Some(columns) = stream.next().await.unwrap() {
            let (ids, notes) = (columns[0].as_primitive::<Int64Type>(), columns[1].as_string::<i32>());
            let deleted = columns[2].as_primitive::<TimestampMicrosecondType>();
            for row in 0..ids.len() {
                let at = deleted.is_valid(row).then(|| deleted.value(row));
                let before = rows.insert(ids.value(row), (notes.value(row).to_owned(), at));
                assert_eq!(before, None, "{} is there twice", ids.value(row));
            }
        }
        rows
    }

    /// The ids of the rows that are there for everybody else.
    async fn living(&self) -> Vec<i64> {
        let mut stream = self.lake.scan(&schema(), None).await.unwrap();
        let mut living = Vec::new();
        while let Some(columns) = stream.next().await.unwrap() {
            assert_eq!(columns.len(), 2);
            living.extend_from_slice(columns[0].as_primitive::<Int64Type>().values());
        }
        living.sort_unstable();
        living
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_rows_retire_at_once() {
    let scratch = Scratch::new();
    let mut written = Written::create(&scratch).await;
    let mut many: Rows = (100..10_000).map(|id| (id, (format!("row {id}"), None))).collect();
    many.extend(rows(&[(1, "a", None), (2, "b", Some(5)), (3, "c", None), (4, "d", None)]));
    written.stage(batch(&many, &[])).await;
    written.commit().await;
    assert_eq!(written.living().await.len(), many.len() - 1);

    // On what was staged too: 3 goes there, 4 changes, 5 comes. Of what comes with it 1 is put, 6 was never there.
    written.stage(batch(&rows(&[(3, "c", Some(20)), (4, "changed", None), (5, "e", None)]), &[3, 4, 5])).await;
    let puts = rows(&[(1, "again", None), (6, "f", Some(40))]);
    written.stage(DeltaBatch { replace: true, retire: Some(30), ..batch(&puts, &[1, 6]) }).await;
    written.stage(batch(&rows(&[(5, "back", None)]), &[5])).await;
    let deltas = written.commit().await;
    assert_eq!((deltas.len(), deltas[0].replace, deltas[0].deletes), (2, true, 0));
    let mut expected: Rows = (100..10_000).map(|id| (id, (format!("row {id}"), Some(30)))).collect();
    expected.extend(rows(&[
        (1, "again", None),
        (2, "b", Some(5)),
        (3, "c", Some(20)),
        (4, "changed", Some(30)),
        (5, "back", None),
        (6, "f", Some(40)),
    ]));
    assert_eq!(written.all().await, expected);
    assert_eq!(written.living().await, [1, 5]);

    // An empty table has none to retire.
    let scratch = Scratch::new();
    let mut empty = Written::create(&scratch).await;
    empty.stage(DeltaBatch { replace: true, retire: Some(1), ..batch(&Rows::new(), &[]) }).await;
    empty.commit().await;
    assert!(empty.all().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_made_of_one_are_looked_up_together() {
    let scratch = Scratch::new();
    let mut written = Written::create(&scratch).await;
    written.stage(batch(&rows(&[(1, "one", None), (2, "two", None), (3, "three", None)]), &[])).await;
    written.commit().await;
    // 1 became 7, then 8, then 9; 3 went.
    let changed = [(1, Some(10), 1), (7, Some(20), 1), (8, Some(30), 1), (9, None, 1), (3, Some(40), 3)];
    let count = changed.len();
    let incomplete = IncompleteRows {
        rows: batch_of(vec![
            Arc::new(Int64Array::from_iter_values(changed.iter().map(|row| row.0))),
            Arc::new(StringArray::from(vec![None::<&str>; count])),
            TableSchema::deleted_cells(changed.iter().map(|row| row.1)),
        ]),
        keys: ids(&changed.map(|row| row.2)),
        missing: vec![None, Some(BooleanBuffer::new_set(count)), None],
        filter: None,
    };
    let deletes = [1, 7, 8, 9, 3];
    written.stage(DeltaBatch { incomplete: Some(incomplete), ..batch(&Rows::new(), &deletes) }).await;
    written.commit().await;
    let expected = [
        (1, "one", Some(10)),
        (2, "two", None),
        (3, "three", Some(40)),
        (7, "one", Some(20)),
        (8, "one", Some(30)),
        (9, "one", None),
    ];
    assert_eq!(written.all().await, rows(&expected));
}

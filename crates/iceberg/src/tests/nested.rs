//! Lists and maps: written, read back, looked up where an update left them alone, and grown.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_buffer::BooleanBuffer;
use calve_core::{
    BufferFull, CheckpointId, Column, ColumnBuffer, ColumnType, DeltaBatch, DeltaWriter, Ground, IncompleteRows, Lake,
    LakeVersion, Onto, StagedDelta, TableCommit, TableSchema, cell_text,
};
use iceberg::spec::DataFile;

use super::fixture::{self, Scratch, batch_of, column, staged, stamp, table};
use crate::IcebergLake;

fn schema(columns: Vec<(u32, Column)>) -> Arc<TableSchema> {
    let columns = columns.into_iter().map(|(id, column)| Column { id, ..column }).collect();
    let key = vec![0];
    fixture::schema_of(columns, key)
}

fn ids(ids: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(ids.to_vec()))
}

/// Rows of a column that depend on their numbers alone: NULL, empty, with NULLs inside, and long ones.
fn cells(ty: &ColumnType, rows: &[i64]) -> ColumnBuffer {
    let mut out = ColumnBuffer::new(ty.clone());
    for &row in rows {
        let parts = match row % 5 {
            0 => {
                out.push_null();
                continue;
            }
            1 => 0,
            2 => 3,
            3 => 1,
            _ => 4_000,
        };
        let text = |out: &mut ColumnBuffer, at: i64| {
            if at % 3 == 1 {
                out.push_null();
                return Ok(());
            }
            out.push_str(&format!("{row} ü {at}"))
        };
        let number = |out: &mut ColumnBuffer, at: i64| match out.column_type() {
            _ if at % 3 == 1 => out.push_null(),
            ColumnType::Int => out.push_i32(i32::try_from(row * 10_000 + at).unwrap()),
            ColumnType::Long => out.push_i64(row * 10_000 + at),
            ColumnType::Uuid => out.push_uuid([u8::try_from(at % 250).unwrap(); 16]),
            _ => out.push_decimal((at % 10).into()),
        };
        let pushed: Result<(), BufferFull> = match ty {
            ColumnType::Map => out.push_map(|keys, values| {
                (0..parts).try_for_each(|at| keys.push_str(&format!("key {at}")).and_then(|()| text(values, at)))
            }),
            ColumnType::List(element) if **element == ColumnType::String => {
                out.push_list(|out| (0..parts).try_for_each(|at| text(out, at)))
            }
            ColumnType::List(_) => out.push_list(|out| {
                (0..parts).for_each(|at| number(out, at));
                Ok(())
            }),
            _ => unreachable!("columns that have parts"),
        };
        pushed.unwrap();
    }
    out
}

/// What was written: for each row the texts of its cells.
fn expected(types: &[ColumnType], rows: &[i64]) -> Vec<(i64, Vec<Option<String>>)> {
    let columns: Vec<ColumnBuffer> = types.iter().map(|ty| cells(ty, rows)).collect();
    let texts = |at: usize| columns.iter().map(|column| cell_text(column, at)).collect();
    rows.iter().enumerate().map(|(at, row)| (*row, texts(at))).collect()
}

struct Written {
    lake: Arc<IcebergLake>,
    version: LakeVersion,
    base: Option<CheckpointId>,
}

impl Written {
    async fn create(scratch: &Scratch, schema: &TableSchema) -> Self {
        let lake = IcebergLake::open(scratch.settings()).await.unwrap();
        let version = lake.create(schema).await.unwrap().version;
        Self { lake, version, base: None }
    }

    async fn commit(&mut self, lsn: u64, schema: &Arc<TableSchema>, batch: DeltaBatch) -> StagedDelta {
        let ground = Ground { base: self.base, staged: Vec::new() };
        let written = self.lake.write(&table(), Box::new(move || Ok(batch)), Onto::Table, &ground).await.unwrap();
        let delta = staged(written);
        let stamp = stamp(lsn, schema);
        self.base = Some(stamp.checkpoint);
        let commit = TableCommit { deltas: vec![delta.clone()], stamp: Some(stamp), ..TableCommit::default() };
        self.version = self.lake.commit(&table(), &self.version, &commit).await.unwrap().version;
        delta
    }

    /// The rows by their ids, each cell compared as an array of one.
    async fn rows(&self, schema: &TableSchema) -> Vec<(i64, Vec<ArrayRef>)> {
        let mut stream = self.lake.scan(schema, None).await.unwrap();
        let mut rows = Vec::new();
        while let Some(columns) = stream.next().await.unwrap() {
            for (column, of) in columns.iter().zip(&schema.columns) {
                assert_eq!(column.data_type(), &of.ty.arrow_type(), "{}", of.name);
            }
            let ids = columns[0].as_primitive::<Int64Type>();
            rows.extend(
                (0..ids.len()).map(|row| (ids.value(row), columns[1..].iter().map(|c| c.slice(row, 1)).collect())),
            );
        }
        rows.sort_by_key(|(id, _)| *id);
        rows
    }
}

fn assert_rows(found: &[(i64, Vec<ArrayRef>)], types: &[ColumnType], rows: &[(i64, i64)]) {
    assert_eq!(found.iter().map(|(id, _)| *id).collect::<Vec<_>>(), rows.iter().map(|(id, _)| *id).collect::<Vec<_>>());
    for ((id, columns), (_, made_of)) in found.iter().zip(rows) {
        for (column, ty) in columns.iter().zip(types) {
            assert_eq!(column, &cells(ty, &[*made_of]).into_array(), "{ty} of {id}");
        }
    }
}

#[tokio::test]
async fn lists_and_maps_are_kept_grown_and_looked_up() {
    let scratch = Scratch::new();
    let texts = ColumnType::String.list();
    let before = schema(vec![
        (1, column("id", ColumnType::Long, false)),
        (2, column("tags", texts.clone(), true)),
        (3, column("numbers", ColumnType::Int.list(), true)),
        (4, column("attributes", ColumnType::Map, true)),
        (5, column("keys", ColumnType::Uuid.list(), true)),
        (6, column("digits", ColumnType::Decimal { precision: 1, scale: 0 }.list(), true)),
    ]);
    let types: Vec<ColumnType> = before.columns[1..].iter().map(|column| column.ty.clone()).collect();
    let mut written = Written::create(&scratch, &before).await;
    let all: Vec<i64> = (0..15).collect();
    let arrays = |types: &[ColumnType], rows: &[i64]| -> Vec<ArrayRef> {
        let columns = types.iter().map(|ty| cells(ty, rows).into_array());
        std::iter::once(ids(rows)).chain(columns).collect()
    };
    let batch = |schema: &Arc<TableSchema>, rows: Vec<ArrayRef>, incomplete, deletes: &[i64]| DeltaBatch {
        schema: Arc::clone(schema),
        replace: false,
        rows: batch_of(rows),
        incomplete,
        deletes: batch_of(vec![ids(deletes)]),
        retire: None,
    };
    written.commit(10, &before, batch(&before, arrays(&types, &all), None, &[])).await;
    let same: Vec<(i64, i64)> = all.iter().map(|id| (*id, *id)).collect();
    assert_rows(&written.rows(&before).await, &types, &same);
    assert_eq!(expected(&types, &[2])[0].1[1].as_deref(), Some("{20000,NULL,20002}"));

    // Tags are called labels by now and numbers grew; rows 0 to 9 moved to new keys and left some of both alone.
    let after = schema(vec![
        (1, column("id", ColumnType::Long, false)),
        (2, column("labels", texts.clone(), true)),
        (3, column("numbers", ColumnType::Long.list(), true)),
        (4, column("attributes", ColumnType::Map, true)),
        (5, column("keys", ColumnType::Uuid.list(), true)),
        (6, column("digits", ColumnType::Decimal { precision: 1, scale: 0 }.list(), true)),
    ]);
    let grown: Vec<ColumnType> = after.columns[1..].iter().map(|column| column.ty.clone()).collect();
    let (moved, old): (Vec<i64>, Vec<i64>) = ((100..110).collect(), (0..10).collect());
    let every_second = (0..10).map(|at| at % 2 == 0).collect::<BooleanBuffer>();
    let lacking = BooleanBuffer::new_set(10);
    let missing = vec![
        None,
        Some(lacking.clone()),
        Some(every_second),
        Some(lacking.clone()),
        Some(lacking.clone()),
        Some(lacking),
    ];
    let rows =
        batch_of(std::iter::once(ids(&moved)).chain(grown.iter().map(|ty| cells(ty, &moved).into_array())).collect());
    let incomplete = IncompleteRows { rows, keys: batch_of(vec![ids(&old)]), missing, filter: None };
    let nothing = arrays(&grown, &[]);
    written.commit(20, &after, batch(&after, nothing, Some(incomplete), &old)).await;
    let found = written.rows(&after).await;
    let (kept, moved) = found.split_at(5);
    assert_rows(kept, &grown, &same[10..]);
    let from = |second: bool| -> Vec<(i64, i64)> {
        (0..10).map(|at| (100 + at, if second && at % 2 == 1 { 100 + at } else { at })).collect()
    };
    let part = |at: usize| -> Vec<(i64, Vec<ArrayRef>)> {
        moved.iter().map(|(id, columns)| (*id, vec![Arc::clone(&columns[at])])).collect()
    };
    for (at, ty) in grown.iter().enumerate() {
        assert_rows(&part(at), std::slice::from_ref(ty), &from(at == 1));
    }
}

/// Values are counted and bounded of whole columns only; of what is inside of one the size alone is said.
pub(crate) fn assert_sizes_alone(file: &DataFile, inside: &[i32]) {
    for id in inside {
        assert!(file.column_sizes().get(id).is_some_and(|size| *size > 0), "{id}");
        assert!(!file.value_counts().contains_key(id) && !file.null_value_counts().contains_key(id), "{id}");
        assert!(!file.lower_bounds().contains_key(id) && !file.upper_bounds().contains_key(id), "{id}");
    }
}

#[test]
fn arrays_of_one_cell_are_compared_whole() {
    // The comparison above rests on it: cells of the same kind that differ anywhere are unequal.
    let ty = ColumnType::String.list();
    let all: Vec<ArrayRef> = (1..5).map(|row| cells(&ty, &[row]).into_array()).collect();
    let indices = arrow_array::PrimitiveArray::<UInt32Type>::from(vec![1]);
    for (at, array) in all.iter().enumerate() {
        assert_eq!(all.iter().filter(|other| *other == array).count(), 1, "{at}");
    }
    let both = arrow_select::concat::concat(&[&all[0], &all[1]]).unwrap();
    assert_eq!(&arrow_select::take::take(&both, &indices, None).unwrap(), &all[1]);
}

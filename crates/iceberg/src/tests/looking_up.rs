//! Values that updates left alone: found by key in whatever lies on the table, and nothing read for them that need not be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, new_null_array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field, Schema};
use calve_core::{
    BloomFilters, CheckpointId, ColumnBuffer, ColumnType, DeltaBatch, DeltaWriter, ErrorKind, Ground, IncompleteRows,
    Lake, LakeVersion, Onto, Result, StagedDelta, TableCommit, TableSchema, Written,
};
use iceberg::spec::DataContentType;
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use super::fixture::{self, Random, Scratch, batch_of, column, staged, stamp, table, write};
use crate::reader::{LookUp, Looked};
use crate::{IcebergLake, LakeSettings};

/// A key, and what the key `(id, name)` is in the tests with one of two columns.
type Key = (i64, String);
type Model = BTreeMap<Key, String>;

/// `t(body text, id bigint, name text, n bigint)`, key (name, id).
fn schema() -> Arc<TableSchema> {
    schema_of(vec![
        column("body", ColumnType::String, true),
        column("id", ColumnType::Long, false),
        column("name", ColumnType::String, false),
        column("n", ColumnType::Long, true),
    ])
}

fn schema_of(columns: Vec<calve_core::Column>) -> Arc<TableSchema> {
    let key = ["name", "id"].iter().filter_map(|name| columns.iter().position(|column| column.name == *name)).collect();
    fixture::schema_of(columns, key)
}

fn rows_of(puts: &Model) -> RecordBatch {
    batch_of(vec![
        Arc::new(puts.values().map(Some).collect::<StringArray>()),
        Arc::new(puts.keys().map(|(id, _)| *id).collect::<Int64Array>()),
        Arc::new(puts.keys().map(|(_, name)| Some(name)).collect::<StringArray>()),
        Arc::new(puts.keys().map(|(id, _)| Some(*id)).collect::<Int64Array>()),
    ])
}

fn keys_of<'a>(keys: impl Iterator<Item = &'a Key> + Clone) -> RecordBatch {
    batch_of(vec![
        Arc::new(keys.clone().map(|(_, name)| Some(name)).collect::<StringArray>()),
        Arc::new(keys.map(|(id, _)| *id).collect::<Int64Array>()),
    ])
}

/// Rows under new keys that lack their body, which the old ones have.
fn incomplete(moved: &[(Key, Key)]) -> IncompleteRows {
    let new: Model = moved.iter().map(|(_, new)| (new.clone(), String::new())).collect();
    let old: BTreeMap<&Key, &Key> = moved.iter().map(|(old, new)| (new, old)).collect();
    let whole = rows_of(&new);
    let mut columns = whole.columns().to_vec();
    columns[0] = new_null_array(&DataType::Utf8, new.len());
    IncompleteRows {
        rows: batch_of(columns),
        keys: keys_of(old.values().copied()),
        missing: vec![Some(BooleanBuffer::new_set(new.len())), None, None, None],
        filter: None,
    }
}

struct Table {
    lake: Arc<IcebergLake>,
    version: LakeVersion,
    base: Option<CheckpointId>,
    lsn: u64,
}

impl Table {
    async fn create(scratch: &Scratch, properties: &[(&str, &str)], schema: &TableSchema) -> Self {
        Self::create_in(scratch.settings(), properties, schema).await
    }

    async fn create_in(mut settings: LakeSettings, properties: &[(&str, &str)], schema: &TableSchema) -> Self {
        let properties = properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        settings.targets.get_mut(&table()).unwrap().properties.extend(properties);
        let lake = IcebergLake::open(settings).await.unwrap();
        let version = lake.create(schema).await.unwrap().version;
        Self { lake, version, base: None, lsn: 0 }
    }

    fn ground(&self, staged: &[StagedDelta]) -> Ground {
        Ground { base: self.base, staged: staged.to_vec() }
    }

    async fn write(&self, batch: DeltaBatch, before: &[StagedDelta]) -> Result<Written> {
        self.lake.write(&table(), Box::new(move || Ok(batch)), Onto::Table, &self.ground(before)).await
    }

    /// Puts, rows that were moved without their bodies, and keys that go.
    async fn stage(
        &self,
        puts: &Model,
        moved: &[(Key, Key)],
        deletes: &BTreeSet<Key>,
        replace: bool,
        before: &[StagedDelta],
    ) -> Result<Written> {
        let batch = DeltaBatch {
            schema: schema(),
            replace,
            rows: rows_of(puts),
            incomplete: (!moved.is_empty()).then(|| incomplete(moved)),
            deletes: keys_of(deletes.iter()),
            retire: None,
        };
        self.write(batch, before).await
    }

    async fn commit_under(&mut self, deltas: Vec<StagedDelta>, schema: &Arc<TableSchema>) {
        self.lsn += 10;
        let stamp = stamp(self.lsn, schema);
        self.base = Some(stamp.checkpoint);
        let commit = TableCommit { deltas, stamp: Some(stamp), ..TableCommit::default() };
        self.version = self.lake.commit(&table(), &self.version, &commit).await.unwrap().version;
    }

    async fn commit(&mut self, deltas: Vec<StagedDelta>) {
        self.commit_under(deltas, &schema()).await;
    }

    async fn put(&mut self, puts: &Model) {
        let delta = staged(self.stage(puts, &[], &BTreeSet::new(), false, &[]).await.unwrap());
        self.commit(vec![delta]).await;
    }

    async fn rows(&self) -> Model {
        let mut stream = self.lake.scan(&schema(), None).await.unwrap();
        let mut rows = Model::new();
        while let Some(columns) = stream.next().await.unwrap() {
            let (bodies, names) = (columns[0].as_string::<i32>(), columns[2].as_string::<i32>());
            let (ids, numbers) = (columns[1].as_primitive::<Int64Type>(), columns[3].as_primitive::<Int64Type>());
            for row in 0..ids.len() {
                let key = (ids.value(row), names.value(row).to_owned());
                assert_eq!(ids.value(row), numbers.value(row), "cells of {key:?} come from two rows");
                assert!(bodies.is_valid(row), "{key:?} lost its body");
                assert_eq!(rows.insert(key.clone(), bodies.value(row).to_owned()), None, "{key:?} came twice");
            }
        }
        rows
    }

    /// Looks rows up without writing them.
    async fn look_up(&self, rows: &IncompleteRows, mut found: impl FnMut(u32, &[ArrayRef], usize)) -> Result<Looked> {
        let layout = self.lake.layout_for(&schema(), Onto::Table).await.unwrap();
        let known = self.lake.read(self.lake.slot(&table()).unwrap()).await.unwrap().unwrap();
        LookUp::plan(&layout, &known.at.metadata, &[], rows).await?.run(|places, columns| {
            places.iter().enumerate().for_each(|(row, place)| found(*place, columns, row));
            Ok(())
        })
    }
}

fn key(id: i64, name: &str) -> Key {
    (id, name.to_owned())
}

fn body(n: u64) -> String {
    format!("{n} ").repeat(3_000)
}

fn random_key(random: &mut Random) -> Key {
    key(i64::try_from(random.below(9)).unwrap(), ["", "a", "ä and more"][usize::try_from(random.below(3)).unwrap()])
}

async fn random_history(seed: u64, partition: &str) {
    let mut random = Random(seed);
    let scratch = Scratch::new();
    let properties = [("write.parquet.row-group-size-bytes", "20000")];
    let settings = scratch.laid_out(partition, "n", BloomFilters::None);
    let mut table = Table::create_in(settings, &properties, &schema()).await;
    let (mut model, mut bodies) = (Model::new(), 0);
    for _ in 0..4 + random.below(6) {
        let mut deltas: Vec<StagedDelta> = Vec::new();
        // One commit of one to three deltas, each folded as the engine folds.
        for _ in 0..=random.below(3) {
            let before = model.clone();
            let replace = random.below(10) == 0;
            if replace {
                model.clear();
            }
            let (mut puts, mut moved, mut deletes) = (Model::new(), Vec::new(), BTreeSet::new());
            for _ in 0..random.below(12) {
                let (old, new) = (random_key(&mut random), random_key(&mut random));
                let fresh = |key: &Key| !puts.contains_key(key) && !moved.iter().any(|(_, new)| new == key);
                if !fresh(&new) || !fresh(&old) || deletes.contains(&old) || deletes.contains(&new) {
                    continue;
                }
                let kept =
                    model.remove(&old).filter(|_| random.below(2) == 0 && (old == new || !model.contains_key(&new)));
                if before.contains_key(&old) && !replace {
                    deletes.insert(old.clone());
                }
                match kept {
                    Some(body) => {
                        model.insert(new.clone(), body);
                        moved.push((old, new));
                    }
                    None if random.below(4) > 0 => {
                        bodies += 1;
                        model.insert(old.clone(), body(bodies));
                        puts.insert(old, body(bodies));
                    }
                    None => {}
                }
            }
            let delta = staged(table.stage(&puts, &moved, &deletes, replace, &deltas).await.unwrap());
            deltas.push(delta);
        }
        table.commit(deltas).await;
        assert_eq!(table.rows().await, model, "seed {seed} by {partition}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_histories_keep_what_is_left_alone() {
    for seed in 1..=25 {
        random_history(seed, "").await;
    }
    // By the key, by a column that is looked up, and by one that others tell.
    for seed in 26..=35 {
        for partition in ["bucket(3, id), name", "truncate(1, body)", "bucket(2, n)"] {
            random_history(seed, partition).await;
        }
    }
}

/// Files in every order of puts and deletes of one key, read between them as they stand.
#[tokio::test]
async fn the_last_row_of_a_key_is_the_one_that_counts() {
    let scratch = Scratch::new();
    let mut table = Table::create(&scratch, &[], &schema()).await;
    let (a, b) = (key(1, "a"), key(2, "a"));
    let keep = |key: &Key| vec![(key.clone(), key.clone())];
    let only = |key: &Key, body: &str| Model::from([(key.clone(), body.to_owned())]);
    let gone = |key: &Key| BTreeSet::from([key.clone()]);
    table.put(&only(&a, "first")).await;
    // Deleted and put again within a group, and looked up on it.
    let one = staged(table.stage(&only(&a, "second"), &[], &gone(&a), false, &[]).await.unwrap());
    let two =
        staged(table.stage(&only(&b, "b"), &keep(&a), &gone(&a), false, std::slice::from_ref(&one)).await.unwrap());
    let group = [one, two];
    let moved = vec![(b.clone(), key(3, "c"))];
    let three = staged(table.stage(&Model::new(), &moved, &gone(&b), false, &group).await.unwrap());
    let group: Vec<_> = group.into_iter().chain([three]).collect();
    table.commit(group).await;
    assert_eq!(table.rows().await, Model::from([(a.clone(), "second".into()), (key(3, "c"), "b".into())]));
    // Nothing before a replacement counts, and what follows it does.
    let replaced = staged(table.stage(&only(&b, "new"), &[], &BTreeSet::new(), true, &[]).await.unwrap());
    let lost = table.stage(&Model::new(), &keep(&a), &gone(&a), false, std::slice::from_ref(&replaced)).await.unwrap();
    let Written::Stops(reason) = lost else { panic!("a row was found that is gone") };
    assert_eq!(reason.state, "row missing");
    for part in ["name = 'a', id = 1", "calve reload public.orders"] {
        assert!(reason.to_string().contains(part), "{reason}");
    }
    let kept =
        staged(table.stage(&Model::new(), &keep(&b), &gone(&b), false, std::slice::from_ref(&replaced)).await.unwrap());
    table.commit(vec![replaced, kept]).await;
    assert_eq!(table.rows().await, only(&b, "new"));
}

/// Many files of large values, written as calve writes them: one row is asked for.
#[tokio::test]
async fn only_what_can_hold_a_key_is_read() {
    let scratch = Scratch::new();
    let mut table = Table::create(&scratch, &[], &schema()).await;
    let noise = |n: i64| {
        let mut random = Random(u64::try_from(n + 1).unwrap());
        (0..250).map(|_| random.below(1 << 31).to_string()).collect::<String>()
    };
    for file in 0..20 {
        let ids = file * 1_000..file * 1_000 + 50;
        table.put(&ids.map(|id| (key(id, "t"), noise(id))).collect()).await;
        // Deletes that have nothing to do with it.
        let deletes: BTreeSet<Key> = [key(file * 1_000 + 900, "t")].into();
        let delta = staged(table.stage(&Model::new(), &[], &deletes, false, &[]).await.unwrap());
        table.commit(vec![delta]).await;
    }
    let mut values = Vec::new();
    let moved = [(key(7_023, "t"), key(1, "x"))];
    let looked = table
        .look_up(&incomplete(&moved), |place, columns, row| {
            values.push((place, columns.len(), columns[0].as_string::<i32>().value(row).to_owned()));
        })
        .await
        .unwrap();
    assert_eq!(values, [(0, 1, noise(7_023))]);
    assert_eq!(looked, Looked { files: 1, rows: 50, missing: None });

    // Between the files there is nothing to open; a name that no file has rules all out although the number is there.
    for absent in [key(7_777, "t"), key(7_023, "z")] {
        let looked = table.look_up(&incomplete(&[(absent, key(1, "x"))]), |_, _, _| {}).await.unwrap();
        assert_eq!(looked, Looked { files: 0, rows: 0, missing: Some(0) });
    }
    // Where the key tells the partition, files of others stay closed although the key is within their bounds.
    let scratch = Scratch::new();
    let settings = scratch.laid_out("bucket(8, id)", "", BloomFilters::None);
    let mut parted = Table::create_in(settings, &[], &schema()).await;
    parted.put(&(0..400).map(|id| (key(id, "t"), "x".to_owned())).collect()).await;
    let looked = parted.look_up(&incomplete(&[(key(200, "u"), key(1, "x"))]), |_, _, _| {}).await.unwrap();
    assert_eq!((looked.files, looked.missing), (0, Some(0)));
    let looked = parted.look_up(&incomplete(&[(key(200, "t"), key(1, "x"))]), |_, _, _| {}).await.unwrap();
    assert_eq!((looked.files, looked.missing), (1, None));
    assert!(looked.rows < 100, "{looked:?}");

    // Each of many keys in its own file, in one pass.
    let moved: Vec<(Key, Key)> = (0..20).map(|file| (key(file * 1_000 + 7, "t"), key(file, "x"))).collect();
    let mut seen = BTreeSet::new();
    let looked = table
        .look_up(&incomplete(&moved), |place, columns, row| {
            assert_eq!(columns[0].as_string::<i32>().value(row), noise(i64::from(place) * 1_000 + 7));
            seen.insert(place);
        })
        .await
        .unwrap();
    assert_eq!((looked, seen.len()), (Looked { files: 20, rows: 20 * 50, missing: None }, 20));
}

/// Within a file it is row groups and pages that are left out.
#[tokio::test]
async fn only_the_part_of_a_file_that_can_hold_a_key_is_read() {
    let scratch = Scratch::new();
    let properties = [("write.parquet.row-group-size-bytes", "3000000")];
    let mut table = Table::create(&scratch, &properties, &schema()).await;
    // Of large values that do not compress a file has row groups of some rows each; of small ones, pages of some thousands.
    let noise = |n: i64| {
        let mut random = Random(u64::try_from(n + 1).unwrap());
        (0..15_000).map(|_| random.below(1 << 31).to_string()).collect::<String>()
    };
    table.put(&(0..240).map(|id| (key(id, "t"), noise(id))).collect()).await;
    table.put(&(1_000..51_000).map(|id| (key(id, "t"), format!("small {id}"))).collect()).await;
    for (asked, expected, at_most) in [(101, noise(101), 120), (42_042, "small 42042".to_owned(), 25_000)] {
        let mut found = String::new();
        let looked = table
            .look_up(&incomplete(&[(key(asked, "t"), key(1, "x"))]), |_, columns, row| {
                columns[0].as_string::<i32>().value(row).clone_into(&mut found);
            })
            .await
            .unwrap();
        assert!(found == expected, "another value was found for {asked}");
        assert_eq!((looked.files, looked.missing), (1, None));
        assert!((1..=at_most).contains(&looked.rows), "{} rows were looked at for {asked}", looked.rows);
    }
}

/// One column of keys of every type that can be one: three files, some keys deleted, and all others found.
#[tokio::test]
async fn keys_of_every_type_are_found() {
    let cell = |column: &mut ColumnBuffer, n: i64| match column.column_type() {
        ColumnType::Boolean => column.push_bool(n % 2 == 0),
        ColumnType::Int | ColumnType::Date => column.push_i32(i32::try_from(n - 30).unwrap()),
        ColumnType::Decimal { .. } => column.push_decimal(i128::from(n - 30) * 1_000_000_000_000),
        ColumnType::String => column.push_str(&format!("{}ü{n}", "long ".repeat(20))).unwrap(),
        ColumnType::Binary => column.push_bytes(&[u8::try_from(n * 4).unwrap(), 0xFF, 0]).unwrap(),
        ColumnType::Uuid => column.push_uuid((u128::try_from(n).unwrap() << 122 | 7).to_be_bytes()),
        _ => column.push_i64((n - 30) * 1_000_003),
    };
    for ty in [
        ColumnType::Boolean,
        ColumnType::Int,
        ColumnType::Long,
        ColumnType::Decimal { precision: 20, scale: 2 },
        ColumnType::Decimal { precision: 38, scale: 0 },
        ColumnType::String,
        ColumnType::Binary,
        ColumnType::Date,
        ColumnType::Time,
        ColumnType::Timestamp,
        ColumnType::TimestampTz,
        ColumnType::Uuid,
    ] {
        let count = if ty == ColumnType::Boolean { 2 } else { 60 };
        let count = if ty == ColumnType::Time { 30 } else { count };
        // Times have no sign.
        let shift = if ty == ColumnType::Time { 30 } else { 0 };
        let keys = |numbers: &[i64]| {
            let mut column = ColumnBuffer::new(ty.clone());
            for n in numbers {
                cell(&mut column, n + shift);
            }
            column.into_array()
        };
        let schema = schema_of(vec![column("id", ty.clone(), false), column("body", ColumnType::String, true)]);
        let scratch = Scratch::new();
        let mut table = Table::create(&scratch, &[], &schema).await;
        let bodies = |numbers: &[i64]| -> ArrayRef {
            Arc::new(numbers.iter().map(|n| Some(format!("body {n}"))).collect::<StringArray>())
        };
        let batch = |puts: &[i64], deletes: &[i64], incomplete| DeltaBatch {
            schema: Arc::clone(&schema),
            replace: false,
            rows: batch_of(vec![keys(puts), bodies(puts)]),
            incomplete,
            deletes: batch_of(vec![keys(deletes)]),
            retire: None,
        };
        let all: Vec<i64> = (0..count).collect();
        for third in all.chunks(all.len().div_ceil(3)) {
            let delta = staged(table.write(batch(third, &[], None), &[]).await.unwrap());
            table.commit_under(vec![delta], &schema).await;
        }
        let lacking = |numbers: &[i64]| IncompleteRows {
            rows: batch_of(vec![keys(numbers), new_null_array(&DataType::Utf8, numbers.len())]),
            keys: batch_of(vec![keys(numbers)]),
            missing: vec![None, Some(BooleanBuffer::new_set(numbers.len()))],
            filter: None,
        };
        let delta = staged(table.write(batch(&[], &all, Some(lacking(&all))), &[]).await.unwrap());
        assert_eq!(delta.rows, all.len() as u64, "{ty:?}");
        table.commit_under(vec![delta], &schema).await;
        let delta = staged(table.write(batch(&[], &[0], None), &[]).await.unwrap());
        table.commit_under(vec![delta], &schema).await;
        let Written::Stops(reason) = table.write(batch(&[], &all, Some(lacking(&all))), &[]).await.unwrap() else {
            panic!("{ty:?}: a row was found that is gone")
        };
        assert!(reason.detail.contains("row with id = "), "{ty:?}: {reason}");
        let mut stream = table.lake.scan(&schema, None).await.unwrap();
        let mut found = BTreeSet::new();
        while let Some(columns) = stream.next().await.unwrap() {
            found.extend(columns[1].as_string::<i32>().iter().map(|body| body.unwrap().to_owned()));
        }
        let expected: BTreeSet<String> = all[1..].iter().map(|n| format!("body {n}")).collect();
        assert_eq!(found, expected, "{ty:?}");
    }
}

/// Some rows lack one column and some another, each where it was and under what it is called now.
#[tokio::test]
async fn columns_are_found_wherever_they_are_by_now() {
    let scratch = Scratch::new();
    let before = schema_of(vec![
        calve_core::Column { id: 1, ..column("id", ColumnType::Long, false) },
        calve_core::Column { id: 2, ..column("body", ColumnType::String, true) },
        calve_core::Column { id: 3, ..column("n", ColumnType::Int, true) },
    ]);
    let mut table = Table::create(&scratch, &[], &before).await;
    let ids = |ids: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(ids.to_vec())) };
    let texts = |texts: &[Option<&str>]| -> ArrayRef { Arc::new(StringArray::from(texts.to_vec())) };
    let rows = batch_of(vec![
        ids(&[1, 2, 3]),
        texts(&[Some("one"), None, Some("three")]),
        Arc::new(arrow_array::Int32Array::from(vec![Some(10), Some(20), None])),
    ]);
    let batch = DeltaBatch {
        schema: Arc::clone(&before),
        replace: false,
        rows,
        incomplete: None,
        deletes: batch_of(vec![ids(&[])]),
        retire: None,
    };
    let delta = staged(table.write(batch, &[]).await.unwrap());
    table.commit_under(vec![delta], &before).await;

    // "body" is called "n" now, "n" grew and is called "number", and "added" is of today.
    let after = schema_of(vec![
        calve_core::Column { id: 4, ..column("added", ColumnType::String, true) },
        calve_core::Column { id: 2, ..column("n", ColumnType::String, true) },
        calve_core::Column { id: 3, ..column("number", ColumnType::Long, true) },
        calve_core::Column { id: 1, ..column("id", ColumnType::Long, false) },
    ]);
    let bits = |bits: [bool; 3]| Some(BooleanBuffer::from_iter(bits));
    let rows = batch_of(vec![
        texts(&[Some("a"), None, Some("c")]),
        texts(&[None, Some("two"), None]),
        Arc::new(Int64Array::from(vec![None, None, Some(33)])),
        ids(&[11, 12, 13]),
    ]);
    let incomplete = IncompleteRows {
        rows,
        keys: batch_of(vec![ids(&[1, 2, 3])]),
        missing: vec![bits([false, true, false]), bits([true, false, true]), bits([true, true, false]), None],
        filter: None,
    };
    let batch = DeltaBatch {
        schema: Arc::clone(&after),
        replace: false,
        rows: batch_of(vec![texts(&[]), texts(&[]), ids(&[]), ids(&[])]),
        incomplete: Some(incomplete),
        deletes: batch_of(vec![ids(&[1, 2, 3])]),
        retire: None,
    };
    let delta = staged(table.write(batch, &[]).await.unwrap());
    table.commit_under(vec![delta], &after).await;
    let mut stream = table.lake.scan(&after, None).await.unwrap();
    let mut found = Vec::new();
    while let Some(columns) = stream.next().await.unwrap() {
        let (added, texts) = (columns[0].as_string::<i32>(), columns[1].as_string::<i32>());
        let (numbers, ids) = (columns[2].as_primitive::<Int64Type>(), columns[3].as_primitive::<Int64Type>());
        found.extend((0..ids.len()).map(|row| {
            let text = |array: &StringArray| array.is_valid(row).then(|| array.value(row).to_owned());
            (ids.value(row), text(added), text(texts), numbers.is_valid(row).then(|| numbers.value(row)))
        }));
    }
    found.sort();
    let some = |text: &str| Some(text.to_owned());
    let expected = [
        (11, some("a"), some("one"), Some(10)),
        (12, None, some("two"), Some(20)),
        (13, some("c"), some("three"), Some(33)),
    ];
    assert_eq!(found, expected);
}

/// What others did to the table counts, and a table that went on is not taken for the one before.
#[tokio::test]
async fn other_hands_are_seen() {
    let scratch = Scratch::new();
    let mut table = Table::create(&scratch, &[], &schema()).await;
    table.put(&(0..4).map(|id| (key(id, "t"), format!("body {id}"))).collect()).await;
    let location = table.lake.layout_for(&schema(), Onto::Table).await.unwrap().location.clone();
    let data = super::fixture::files_under(&scratch.0).into_iter().find(|f| f.ends_with("-data.parquet")).unwrap();
    let with_id = |name: &str, ty, id: i32| {
        Field::new(name, ty, false).with_metadata([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())].into())
    };
    let fields =
        vec![with_id("file_path", DataType::Utf8, 2_147_483_546), with_id("pos", DataType::Int64, 2_147_483_545)];
    let columns: Vec<ArrayRef> =
        vec![Arc::new(StringArray::from(vec![data.as_str()])), Arc::new(Int64Array::from(vec![2]))];
    let positions = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let file = write(&format!("{location}/data/theirs.parquet"), &positions, DataContentType::PositionDeletes, None, 0);
    let layout = table.lake.layout_for(&schema(), Onto::Table).await.unwrap();
    let delta = crate::delta::stage(&layout, false, Vec::new(), vec![file], &table.lake.naming).await.unwrap();
    table.commit(vec![delta]).await;
    let mut values = BTreeMap::new();
    let all: Vec<(Key, Key)> = (0..4).map(|id| (key(id, "t"), key(id, "t"))).collect();
    let looked = table
        .look_up(&incomplete(&all), |place, columns, row| {
            values.insert(place, columns[0].as_string::<i32>().value(row).to_owned());
        })
        .await
        .unwrap();
    assert_eq!(looked.missing, Some(2));
    assert_eq!(values.into_iter().collect::<Vec<_>>(), [0, 1, 3].map(|id| (id, format!("body {id}"))));

    // Somebody committed in between: not a value of then is given for one of now.
    let base = table.base.replace(CheckpointId(uuid::Uuid::from_u128(99)));
    let error = table.stage(&Model::new(), &all[..1], &BTreeSet::new(), false, &[]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry);
    assert!(error.to_string().contains("by another process"), "{error}");
    table.base = base;

    // A key that the table has twice is no key.
    table.put(&Model::from([(key(0, "t"), "again".to_owned())])).await;
    let both = [all[2].clone(), all[0].clone()];
    let Written::Stops(reason) = table.stage(&Model::new(), &both, &BTreeSet::new(), false, &[]).await.unwrap() else {
        panic!("a row was chosen of two");
    };
    assert!(reason.detail.contains("two rows of one key") && reason.remedy.contains("calve reload"), "{reason}");
}

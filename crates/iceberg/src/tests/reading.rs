//! What is read back is what was written: random histories against a map, through the writer, the commit and the reader.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use calve_core::{
    BloomFilters, ColumnType, DeltaBatch, DeltaWriter, ErrorKind, Excerpt, Ground, Lake, LakeVersion, Onto, Result,
    RowBuffer, RowOp, StagedDelta, TableCommit, TableSchema, ValueRules,
};
use iceberg::spec::{DataContentType, DataFile, DataFileBuilder, DataFileFormat};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use super::fixture::{self, Random, Scratch, column, staged, stamp, table, write};
use crate::reader::{RowStream, TableReader};
use crate::{IcebergLake, delta, storage};

type Key = (i64, String);
type Model = BTreeMap<Key, Option<i64>>;

/// A table whose key is two columns, in another order than the table's.
fn schema() -> Arc<TableSchema> {
    let columns = vec![
        column("value", ColumnType::Long, true),
        column("name", ColumnType::String, false),
        column("id", ColumnType::Long, false),
    ];
    fixture::schema_of(columns, vec![2, 1])
}

struct History {
    lake: Arc<IcebergLake>,
    version: LakeVersion,
    lsn: u64,
}

impl History {
    async fn create(scratch: &Scratch) -> Self {
        Self::create_in(scratch.open().await).await
    }

    async fn create_in(lake: Arc<IcebergLake>) -> Self {
        let version = lake.create(&schema()).await.unwrap().version;
        Self { lake, version, lsn: 0 }
    }

    async fn stage(&self, puts: &Model, deletes: &BTreeSet<Key>, replace: bool) -> StagedDelta {
        let rows: Vec<ArrayRef> = vec![
            Arc::new(puts.values().copied().collect::<Int64Array>()),
            Arc::new(puts.keys().map(|(_, name)| Some(name)).collect::<StringArray>()),
            Arc::new(puts.keys().map(|(id, _)| *id).collect::<Int64Array>()),
        ];
        let keys: Vec<ArrayRef> = vec![
            Arc::new(deletes.iter().map(|(id, _)| *id).collect::<Int64Array>()),
            Arc::new(deletes.iter().map(|(_, name)| Some(name)).collect::<StringArray>()),
        ];
        let batch = |columns: Vec<ArrayRef>| {
            let fields =
                columns.iter().enumerate().map(|(n, c)| Field::new(n.to_string(), c.data_type().clone(), true));
            RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns).unwrap()
        };
        let (rows, deletes) = (batch(rows), batch(keys));
        let job = move || Ok(DeltaBatch { schema: schema(), replace, rows, incomplete: None, deletes, retire: None });
        staged(self.lake.write(&table(), Box::new(job), Onto::Table, &Ground::default()).await.unwrap())
    }

    /// Commits the deltas and returns the snapshot.
    async fn commit(&mut self, deltas: Vec<StagedDelta>) -> i64 {
        self.lsn += 10;
        let commit = TableCommit { deltas, stamp: Some(stamp(self.lsn, &schema())), ..TableCommit::default() };
        self.version = self.lake.commit(&table(), &self.version, &commit).await.unwrap().version;
        self.lake.summary(&table()).await.unwrap().unwrap().snapshot.unwrap()
    }

    async fn put(&mut self, puts: &[(i64, &str, Option<i64>)]) -> i64 {
        let puts = puts.iter().map(|(id, name, value)| ((*id, (*name).to_owned()), *value)).collect();
        let delta = self.stage(&puts, &BTreeSet::new(), false).await;
        self.commit(vec![delta]).await
    }

    /// Commits files as another engine wrote them.
    async fn commit_files(&mut self, data: Vec<DataFile>, deletes: Vec<DataFile>) -> i64 {
        let layout = self.lake.layout_for(&schema(), Onto::Table).await.unwrap();
        let delta = delta::stage(&layout, false, data, deletes, &self.lake.naming).await.unwrap();
        self.commit(vec![delta]).await
    }

    async fn read(&self, snapshot: Option<i64>, memory: u64) -> Result<Model> {
        let known = self.lake.read(self.lake.slot(&table())?).await?.unwrap();
        let reader = TableReader::open(&schema(), &self.lake.io, &known.at.metadata, snapshot).await?;
        collect(reader.rows(memory, 2)).await
    }

    async fn location(&self) -> String {
        self.lake.layout_for(&schema(), Onto::Table).await.unwrap().location.clone()
    }
}

/// All rows; a key that comes twice is a failure.
async fn collect(mut stream: RowStream) -> Result<Model> {
    let mut rows = Model::new();
    while let Some(columns) = stream.next().await? {
        let values = columns[0].as_primitive::<Int64Type>();
        let (names, ids) = (columns[1].as_string::<i32>(), columns[2].as_primitive::<Int64Type>());
        for row in 0..values.len() {
            let key = (ids.value(row), names.value(row).to_owned());
            let value = values.is_valid(row).then(|| values.value(row));
            assert_eq!(rows.insert(key.clone(), value), None, "{key:?} came twice");
        }
    }
    Ok(rows)
}

const PLENTY: u64 = 64 << 20;

fn random_key(random: &mut Random) -> Key {
    (
        i64::try_from(random.below(12)).unwrap(),
        ["", "a", "ä", "a longer name"][usize::try_from(random.below(4)).unwrap()].to_owned(),
    )
}

/// Without partitions, with those that the key tells, and with others.
const PARTITIONS: [&str; 4] = ["", "bucket(3, id), truncate(1, name)", "truncate(250, value)", "bucket(4, id), value"];

async fn random_history(seed: u64, partition: &str) {
    let mut random = Random(seed);
    let scratch = Scratch::new();
    let settings = scratch.laid_out(partition, "value desc, id", BloomFilters::Key);
    let mut history = History::create_in(IcebergLake::open(settings).await.unwrap()).await;
    let mut model = Model::new();
    let mut snapshots = Vec::new();
    for _ in 0..4 + random.below(8) {
        // One commit of one to three deltas, each folded as the engine folds: one row and one delete a key at most.
        let mut deltas = Vec::new();
        for _ in 0..=random.below(3) {
            let replace = random.below(12) == 0;
            if replace {
                model.clear();
            }
            let (mut puts, mut deletes) = (Model::new(), BTreeSet::new());
            for _ in 0..random.below(20) {
                let key = random_key(&mut random);
                if model.contains_key(&key) && !puts.contains_key(&key) {
                    deletes.insert(key.clone());
                } else if random.below(8) == 0 && !replace {
                    // A delete of what is not there, as a replay makes them.
                    deletes.insert(key.clone());
                }
                if random.below(3) == 0 {
                    model.remove(&key);
                    puts.remove(&key);
                } else {
                    let value = (random.below(4) > 0).then(|| i64::try_from(random.below(1_000)).unwrap());
                    model.insert(key.clone(), value);
                    puts.insert(key, value);
                }
            }
            if replace {
                deletes.clear();
            }
            deltas.push(history.stage(&puts, &deletes, replace).await);
        }
        let snapshot = history.commit(deltas).await;
        snapshots.push((snapshot, model.clone()));
    }
    assert_eq!(history.read(None, PLENTY).await.unwrap(), model, "seed {seed} by {partition}");
    for (snapshot, model) in &snapshots {
        assert_eq!(
            &history.read(Some(*snapshot), PLENTY).await.unwrap(),
            model,
            "seed {seed} by {partition} at {snapshot}"
        );
    }
    // So little memory that every pass holds a few keys only.
    assert_eq!(history.read(None, 300).await.unwrap(), model, "seed {seed} by {partition}, in parts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_histories_read_as_their_model() {
    for seed in 1..=15 {
        random_history(seed, "").await;
    }
    for (seed, partition) in (16..).zip(PARTITIONS.repeat(5)) {
        random_history(seed, partition).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_replaces_what_was_there() {
    let scratch = Scratch::new();
    let mut history = History::create(&scratch).await;
    history.put(&[(1, "a", Some(1))]).await;
    let mut writer =
        history.lake.start_load(schema(), Excerpt::of(&schema(), &ValueRules::default()).unwrap()).await.unwrap();
    let mut model = Model::new();
    for chunk in 0..20 {
        let mut rows = RowBuffer::new(schema());
        for id in chunk * 500..(chunk + 1) * 500 {
            if id % 3 == 0 {
                rows.image(0).push_null();
            } else {
                rows.image(0).push_i64(id);
            }
            rows.image(1).push_str("x").unwrap();
            rows.image(2).push_i64(id);
            rows.finish_row(RowOp::Insert);
            model.insert((id, "x".to_owned()), (id % 3 != 0).then_some(id));
        }
        writer.append(rows).await.unwrap();
    }
    let delta = writer.finish().await.unwrap();
    history.commit(vec![delta]).await;
    assert_eq!(collect(history.lake.scan(&schema(), None).await.unwrap()).await.unwrap(), model);
}

#[tokio::test]
async fn a_table_without_snapshots_is_empty() {
    let scratch = Scratch::new();
    let history = History::create(&scratch).await;
    assert_eq!(history.read(None, PLENTY).await.unwrap(), Model::new());
    let error = history.read(Some(77), PLENTY).await.unwrap_err();
    assert!(error.to_string().contains("snapshot 77 is no longer in the lake"), "{error}");
}

#[tokio::test]
async fn deltas_given_up_leave_no_file() {
    let scratch = Scratch::new();
    let history = History::create(&scratch).await;
    let before = super::fixture::files_under(&scratch.0);
    let puts = Model::from([((1, "a".to_owned()), None)]);
    let delta = history.stage(&puts, &BTreeSet::from([(2, "b".to_owned())]), false).await;
    assert_eq!(delta.files.len(), 4, "{:?}", delta.files);
    history.lake.discard(&[delta]).await;
    assert_eq!(super::fixture::files_under(&scratch.0), before);
}

fn with_id(name: &str, ty: DataType, nullable: bool, id: i32) -> Field {
    Field::new(name, ty, nullable).with_metadata([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())].into())
}

fn batch_of(columns: Vec<(Field, ArrayRef)>) -> RecordBatch {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

#[tokio::test]
async fn position_deletes_of_others_count() {
    let scratch = Scratch::new();
    let mut history = History::create(&scratch).await;
    history.put(&[(1, "a", None), (2, "a", None), (3, "a", None), (4, "a", None)]).await;
    let location = history.location().await;
    let data = super::fixture::files_under(&scratch.0).into_iter().find(|f| f.ends_with("-data.parquet")).unwrap();
    let deletes = batch_of(vec![
        (
            with_id("file_path", DataType::Utf8, false, 2_147_483_546),
            Arc::new(StringArray::from(vec!["file:///elsewhere", data.as_str(), data.as_str()])),
        ),
        (with_id("pos", DataType::Int64, false, 2_147_483_545), Arc::new(Int64Array::from(vec![1, 3, 0]))),
    ]);
    let file = write(&format!("{location}/data/theirs.parquet"), &deletes, DataContentType::PositionDeletes, None, 0);
    history.commit_files(Vec::new(), vec![file]).await;
    let expected = Model::from([((2, "a".to_owned()), None), ((3, "a".to_owned()), None)]);
    assert_eq!(history.read(None, PLENTY).await.unwrap(), expected);
    // Rows of later files are not those that were named.
    history.put(&[(4, "a", Some(1))]).await;
    assert_eq!(history.read(None, PLENTY).await.unwrap().len(), 3);
    let error = history.read(None, 8).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("3 position deletes"), "{error}");
}

#[tokio::test]
async fn equality_deletes_on_other_columns_count_and_null_equals_null() {
    let scratch = Scratch::new();
    let mut history = History::create(&scratch).await;
    history.put(&[(1, "a", None), (2, "a", Some(5)), (3, "b", Some(6)), (4, "b", Some(7))]).await;
    let location = history.location().await;
    // "value" is field 1.
    let values = with_id("value", DataType::Int64, true, 1);
    let deletes = batch_of(vec![(values, Arc::new(Int64Array::from(vec![None, Some(6)])))]);
    let path = format!("{location}/data/theirs.parquet");
    let file = write(&path, &deletes, DataContentType::EqualityDeletes, Some(vec![1]), 0);
    history.commit_files(Vec::new(), vec![file]).await;
    let expected = Model::from([((2, "a".to_owned()), Some(5)), ((4, "b".to_owned()), Some(7))]);
    assert_eq!(history.read(None, PLENTY).await.unwrap(), expected);
    assert_eq!(history.read(None, 144).await.unwrap(), expected);
    assert_eq!(history.read(None, 143).await.unwrap_err().kind(), ErrorKind::Config);
}

#[tokio::test]
async fn columns_that_a_file_lacks_are_null_and_grown_ones_grow() {
    let scratch = Scratch::new();
    let mut history = History::create(&scratch).await;
    let location = history.location().await;
    // As written when "id" was an int, and before "value" was added.
    let old = batch_of(vec![
        (with_id("id", DataType::Int32, false, 3), Arc::new(arrow_array::Int32Array::from(vec![-1, 2]))),
        (with_id("name", DataType::Utf8, false, 2), Arc::new(StringArray::from(vec!["x", "y"]))),
    ]);
    let file = write(&format!("{location}/data/old.parquet"), &old, DataContentType::Data, None, 0);
    history.commit_files(vec![file], Vec::new()).await;
    let expected = Model::from([((-1, "x".to_owned()), None), ((2, "y".to_owned()), None)]);
    assert_eq!(history.read(None, PLENTY).await.unwrap(), expected);
    // A delete written by today's type reaches the old file.
    let delta = history.stage(&Model::new(), &BTreeSet::from([(2, "y".to_owned())]), false).await;
    history.commit(vec![delta]).await;
    assert_eq!(history.read(None, PLENTY).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_read_is_named() {
    let scratch = Scratch::new();
    let mut history = History::create(&scratch).await;
    history.put(&[(1, "a", None)]).await;
    let location = history.location().await;

    let foreign = batch_of(vec![(Field::new("id", DataType::Int64, false), Arc::new(Int64Array::from(vec![1])))]);
    let file = write(&format!("{location}/data/no-ids.parquet"), &foreign, DataContentType::Data, None, 0);
    let snapshot = history.commit_files(vec![file], Vec::new()).await;
    let error = history.read(Some(snapshot), PLENTY).await.unwrap_err();
    assert!(error.to_string().contains("no-ids.parquet") && error.to_string().contains("no field ids"), "{error}");

    let avro = DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(format!("{location}/data/x.avro"))
        .file_format(DataFileFormat::Avro)
        .record_count(1)
        .file_size_in_bytes(1)
        .build()
        .unwrap();
    let snapshot = history.commit_files(vec![avro], Vec::new()).await;
    let error = history.read(Some(snapshot), PLENTY).await.unwrap_err();
    assert!(error.to_string().contains("data/x.avro to it in the lake, which is no Parquet file"), "{error}");

    let scratch = Scratch::new();
    let mut history = History::create(&scratch).await;
    history.put(&[(1, "a", None)]).await;
    let data = super::fixture::files_under(&scratch.0).into_iter().find(|f| f.ends_with("-data.parquet")).unwrap();
    std::fs::remove_file(storage::local_path(&data).unwrap()).unwrap();
    let error = history.read(None, PLENTY).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains(&data) && error.to_string().contains("it is missing"), "{error}");
}

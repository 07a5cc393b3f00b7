//! Tables that are partitioned and sorted: what their metadata declares, where files lie, what deletes reach, and what becomes of it
//! all when the configuration changes, the source's columns do, or somebody else comes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int32Array, Int64Array, StringArray};
use calve_core::{
    BloomFilters, ColumnType, DeltaBatch, DeltaWriter, ErrorKind, Excerpt, Ground, Lake, LakeVersion, Onto, Result,
    RowBuffer, RowOp, StagedDelta, TableCommit, TableSchema, ValueRules, Written,
};
use iceberg::spec::{
    DataContentType, DataFile, ManifestContentType, TableMetadataRef, Transform, UnboundPartitionSpec,
};
use iceberg::{TableRequirement, TableUpdate};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::fixture::{self, Scratch, batch_of, column, staged, stamp, table};
use crate::manifests::{is_live, read_list, read_manifest};
use crate::{IcebergLake, LakeSettings, partition, storage};

type Row = (i64, Option<&'static str>, i32);

/// All of every row.
fn whole() -> Excerpt {
    Excerpt::of(&schema(), &ValueRules::default()).unwrap()
}

/// `t(id bigint, city text, n int)`, key id.
fn schema() -> Arc<TableSchema> {
    schema_of(&[(1, "id", ColumnType::Long), (2, "city", ColumnType::String), (3, "n", ColumnType::Int)])
}

fn schema_of(columns: &[(u32, &str, ColumnType)]) -> Arc<TableSchema> {
    let columns =
        columns.iter().map(|(id, name, ty)| calve_core::Column { id: *id, ..column(name, ty.clone(), *id > 1) });
    fixture::schema_of(columns.collect(), vec![0])
}

fn columns_of(rows: &[Row]) -> Vec<ArrayRef> {
    vec![
        Arc::new(rows.iter().map(|(id, ..)| *id).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|(_, city, _)| *city).collect::<StringArray>()),
        Arc::new(rows.iter().map(|(.., n)| *n).collect::<Int32Array>()),
    ]
}

struct Parted {
    lake: Arc<IcebergLake>,
    version: LakeVersion,
    lsn: u64,
}

impl Parted {
    async fn create(settings: LakeSettings) -> Self {
        let lake = IcebergLake::open(settings).await.unwrap();
        let version = lake.create(&schema()).await.unwrap().version;
        Self { lake, version, lsn: 0 }
    }

    async fn reopen(&mut self, settings: LakeSettings) {
        self.lake = IcebergLake::open(settings).await.unwrap();
        self.version = self.lake.load(&table()).await.unwrap().unwrap().version;
    }

    async fn write(&self, schema: &Arc<TableSchema>, rows: Vec<ArrayRef>, deletes: &[i64]) -> Result<Written> {
        let deletes: ArrayRef = Arc::new(Int64Array::from(deletes.to_vec()));
        let (schema, rows, deletes) = (Arc::clone(schema), batch_of(rows), batch_of(vec![deletes]));
        let job = move || Ok(DeltaBatch { schema, replace: false, rows, incomplete: None, deletes, retire: None });
        self.lake.write(&table(), Box::new(job), Onto::Table, &Ground::default()).await
    }

    async fn stage(&self, rows: &[Row], deletes: &[i64]) -> StagedDelta {
        staged(self.write(&schema(), columns_of(rows), deletes).await.unwrap())
    }

    async fn try_commit(&mut self, delta: StagedDelta, schema: &Arc<TableSchema>) -> Result<()> {
        self.lsn += 10;
        let commit =
            TableCommit { deltas: vec![delta], stamp: Some(stamp(self.lsn, schema)), ..TableCommit::default() };
        self.version = self.lake.commit(&table(), &self.version, &commit).await?.version;
        Ok(())
    }

    async fn put(&mut self, rows: &[Row], deletes: &[i64]) {
        let delta = self.stage(rows, deletes).await;
        self.try_commit(delta, &schema()).await.unwrap();
    }

    async fn load(&mut self, rows: &[Row], schema: &Arc<TableSchema>) {
        let mut writer = self.lake.start_load(Arc::clone(schema), whole()).await.unwrap();
        let mut buffer = RowBuffer::new(Arc::clone(schema));
        for (id, city, n) in rows {
            buffer.image(0).push_i64(*id);
            match city {
                Some(city) => buffer.image(1).push_str(city).unwrap(),
                None => buffer.image(1).push_null(),
            }
            buffer.image(2).push_number(i128::from(*n));
            buffer.finish_row(RowOp::Insert);
        }
        writer.append(buffer).await.unwrap();
        let delta = writer.finish().await.unwrap();
        self.try_commit(delta, schema).await.unwrap();
    }

    async fn metadata(&self) -> TableMetadataRef {
        let known = self.lake.read(self.lake.slot(&table()).unwrap()).await.unwrap().unwrap();
        Arc::clone(&known.at.metadata)
    }

    /// Live files, each with the spec of its manifest.
    async fn files(&self, content: DataContentType) -> Vec<(i32, DataFile)> {
        let metadata = self.metadata().await;
        let mut files = Vec::new();
        for manifest in read_list(&table(), &self.lake.io, metadata.current_snapshot().unwrap()).await.unwrap() {
            let read = read_manifest(&table(), &self.lake.io, &manifest).await.unwrap();
            let live = read.entries().iter().filter(|entry| entry.is_alive() && entry.content_type() == content);
            files.extend(live.map(|entry| (manifest.partition_spec_id, entry.data_file().clone())));
        }
        files
    }

    /// Rows of data files by partition, as people read it.
    async fn partitions(&self, content: DataContentType) -> BTreeMap<String, u64> {
        let metadata = self.metadata().await;
        let mut partitions = BTreeMap::new();
        for (spec, file) in self.files(content).await {
            let spec = metadata.partition_spec_by_id(spec).unwrap();
            let values = partition::under(spec, metadata.current_schema(), file.partition());
            let path = spec.partition_to_path(&values, Arc::clone(metadata.current_schema()));
            *partitions.entry(path).or_default() += file.record_count();
        }
        partitions
    }

    async fn rows(&self, schema: &TableSchema) -> BTreeMap<i64, Option<String>> {
        let mut stream = self.lake.scan(schema, None).await.unwrap();
        let mut rows = BTreeMap::new();
        while let Some(columns) = stream.next().await.unwrap() {
            let (ids, cities) = (columns[0].as_primitive::<Int64Type>(), columns[1].as_string::<i32>());
            for (id, city) in ids.values().iter().zip(cities) {
                assert_eq!(rows.insert(*id, city.map(ToOwned::to_owned)), None, "{id} came twice");
            }
        }
        rows
    }

    /// What another engine does to the metadata.
    async fn update(&mut self, updates: Vec<TableUpdate>) {
        let slot = self.lake.slot(&table()).unwrap();
        let known = self.lake.read(slot).await.unwrap().unwrap();
        let uuid = TableRequirement::UuidMatch { uuid: known.at.metadata.uuid() };
        self.lake.catalog.commit(&slot.ident, &known.at, &[uuid], updates).await.unwrap();
        self.version = self.lake.load(&table()).await.unwrap().unwrap().version;
    }
}

fn named(partitions: &[(&str, u64)]) -> BTreeMap<String, u64> {
    partitions.iter().map(|(name, rows)| ((*name).to_owned(), *rows)).collect()
}

fn rows_of(rows: &[(i64, Option<&str>)]) -> BTreeMap<i64, Option<String>> {
    rows.iter().map(|(id, city)| (*id, city.map(ToOwned::to_owned))).collect()
}

/// A row that moves to another partition is deleted in the one that it was in, though nothing says which that is.
#[tokio::test]
async fn deletes_reach_every_partition_where_the_key_does_not_tell_it() {
    let scratch = Scratch::new();
    let mut parted = Parted::create(scratch.laid_out("city, truncate(10, n)", "n desc", BloomFilters::None)).await;
    let metadata = parted.metadata().await;
    let fields: Vec<_> = metadata.default_partition_spec().fields().iter().map(|by| by.name.clone()).collect();
    assert_eq!((metadata.default_partition_spec_id(), fields), (1, vec!["city_identity".into(), "n_trunc".into()]));
    assert_eq!(metadata.properties()["calve.partition-spec"], "1");

    parted.put(&[(1, Some("a"), 1), (2, Some("a"), 12), (3, None, 5), (4, Some("a"), 9)], &[]).await;
    let first =
        [("city_identity=a/n_trunc=0", 2), ("city_identity=a/n_trunc=10", 1), ("city_identity=null/n_trunc=0", 1)];
    assert_eq!(parted.partitions(DataContentType::Data).await, named(&first));
    parted.put(&[(1, Some("b"), 1), (3, Some("b"), 5)], &[1, 2, 3]).await;
    assert_eq!(parted.rows(&schema()).await, rows_of(&[(1, Some("b")), (3, Some("b")), (4, Some("a"))]));
    let deletes = parted.files(DataContentType::EqualityDeletes).await;
    let [(0, deletes)] = deletes.as_slice() else { panic!("{deletes:?}") };
    assert_eq!((deletes.record_count(), deletes.partition().iter().count()), (3, 0));
    // Readers leave manifests out by what these say of their partitions.
    let metadata = parted.metadata().await;
    let list = read_list(&table(), &parted.lake.io, metadata.current_snapshot().unwrap()).await.unwrap();
    for manifest in list {
        let bounds = manifest.partitions.unwrap();
        match manifest.content {
            ManifestContentType::Deletes => assert_eq!((manifest.partition_spec_id, bounds.len()), (0, 0)),
            ManifestContentType::Data => {
                assert_eq!((manifest.partition_spec_id, bounds.len()), (1, 2));
                assert!(bounds[0].lower_bound.is_some() && bounds[1].upper_bound.is_some());
            }
        }
    }
}

#[tokio::test]
async fn deletes_lie_in_the_partition_that_their_key_tells() {
    let scratch = Scratch::new();
    let mut parted = Parted::create(scratch.laid_out("truncate(10, id)", "", BloomFilters::None)).await;
    let rows: Vec<Row> = (0..40).map(|id| (id, Some("a"), 0)).collect();
    parted.put(&rows, &[]).await;
    parted.put(&[(5, Some("b"), 0)], &[5, 6, 31]).await;
    assert_eq!(
        parted.partitions(DataContentType::EqualityDeletes).await,
        named(&[("id_trunc=0", 2), ("id_trunc=30", 1)])
    );
    let left = parted.rows(&schema()).await;
    assert_eq!((left.len(), left[&5].as_deref()), (38, Some("b")));

    // Somebody rewrites a part of it under another spec: deletes would pass it by.
    let staged = parted.stage(&[], &[7]).await;
    let mut other = parted.stage(&[(50, None, 0)], &[]).await;
    let body = other.body.as_object_mut().unwrap();
    body["manifests"][0]["spec_id"] = 0.into();
    parted.try_commit(other, &schema()).await.unwrap();
    let error = parted.try_commit(staged, &schema()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("under its partition spec 0"), "{error}");
    // What deletes nothing goes on, and so does what replaces all.
    let more = parted.stage(&[(60, None, 0)], &[]).await;
    parted.try_commit(more, &schema()).await.unwrap();
    parted.load(&[(1, Some("new"), 0)], &schema()).await;
    parted.put(&[], &[1]).await;
    assert_eq!(parted.rows(&schema()).await, BTreeMap::new());
}

/// A table's `partition`, `sort` and Bloom filters, the spec that it has then, and rows of its partitions.
type Step = (&'static str, &'static str, BloomFilters, i32, &'static [(&'static str, u64)]);

/// What the configuration says of it counts when the table is read again.
#[tokio::test]
async fn a_load_gives_the_table_its_new_layout() {
    let scratch = Scratch::new();
    let mut parted = Parted::create(scratch.settings()).await;
    parted.put(&[(1, Some("a"), 1), (2, Some("b"), 2)], &[]).await;
    let steps: [Step; 5] = [
        ("city", "", BloomFilters::Key, 1, &[("city_identity=a", 2), ("city_identity=null", 1)]),
        ("bucket(1, n)", "n", BloomFilters::Columns(vec!["city".into()]), 2, &[("n_bucket=0", 3)]),
        ("bucket(1, n)", "n desc", BloomFilters::None, 2, &[("n_bucket=0", 3)]),
        ("", "", BloomFilters::None, 0, &[("", 3)]),
        ("city", "", BloomFilters::None, 1, &[("city_identity=a", 2), ("city_identity=null", 1)]),
    ];
    let mut before = 0;
    for (partition, sort, filters, spec, partitions) in steps {
        let mut settings = scratch.laid_out(partition, sort, filters);
        let size = settings.targets.get_mut(&table()).unwrap();
        size.properties.insert("write.target-file-size-bytes".into(), format!("{}", (spec + 1) << 20));
        parted.reopen(settings).await;
        // Until then rows lie as they did.
        parted.put(&[(3, Some("c"), 3)], &[3]).await;
        assert_eq!(parted.metadata().await.default_partition_spec_id(), before);
        parted.load(&[(1, Some("a"), 9), (2, None, 2), (3, Some("a"), 4)], &schema()).await;
        let metadata = parted.metadata().await;
        assert_eq!(metadata.default_partition_spec_id(), spec, "{partition}");
        assert_eq!(metadata.properties()["write.target-file-size-bytes"], format!("{}", (spec + 1) << 20));
        assert_eq!(parted.partitions(DataContentType::Data).await, named(partitions), "{partition}");
        let list = read_list(&table(), &parted.lake.io, metadata.current_snapshot().unwrap()).await.unwrap();
        assert!(list.iter().filter(|manifest| is_live(manifest)).all(|manifest| manifest.partition_spec_id == spec));
        parted.put(&[(2, Some("a"), 2)], &[2]).await;
        let expected = [(1, Some("a")), (2, Some("a")), (3, Some("a"))];
        assert_eq!(parted.rows(&schema()).await, rows_of(&expected), "{partition}");
        let sorted = metadata.default_sort_order();
        assert_eq!(sorted.fields.len(), usize::from(!sort.is_empty()));
        for (_, file) in parted.files(DataContentType::Data).await {
            let order = (!sort.is_empty()).then(|| i32::try_from(sorted.order_id).unwrap());
            assert_eq!(file.sort_order_id(), order, "{sort}");
        }
        before = spec;
    }
    let metadata = parted.metadata().await;
    assert!(metadata.properties().keys().all(|key| !key.contains("bloom")), "{:?}", metadata.properties());
}

#[tokio::test]
async fn rows_of_a_file_are_sorted_and_found_by_filters() {
    let scratch = Scratch::new();
    let filters = BloomFilters::Columns(vec!["city".into()]);
    let mut parted = Parted::create(scratch.laid_out("bucket(2, id)", "city nulls last, n desc", filters)).await;
    let cities = [Some("x"), None, Some("a"), Some("m")];
    let rows: Vec<Row> = (0..2_000)
        .map(|id| (id, cities[usize::try_from(id % 7 % 4).unwrap()], i32::try_from(id % 13).unwrap()))
        .collect();
    parted.put(&rows, &[]).await;
    let files = parted.files(DataContentType::Data).await;
    assert_eq!(files.len(), 2);
    for (_, file) in files {
        let open = File::open(storage::local_path(file.file_path()).unwrap()).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(open).unwrap();
        let groups = reader.metadata().row_groups();
        assert!(groups.iter().all(|group| group.column(1).bloom_filter_offset().is_some()));
        assert!(groups.iter().all(|group| group.column(0).bloom_filter_offset().is_none()));
        let filter = reader.get_row_group_column_bloom_filter(0, 1).unwrap().unwrap();
        assert!(filter.check("a") && filter.check("m") && !filter.check("another"));
        assert!(
            file.file_size_in_bytes() < 64 << 10,
            "{} bytes: the filter has the size of its values",
            file.file_size_in_bytes()
        );
        let mut found: Vec<(bool, Option<String>, i32)> = Vec::new();
        for batch in reader.build().unwrap() {
            let batch = batch.unwrap();
            let numbers = batch.column(2).as_primitive::<arrow_array::types::Int32Type>();
            let cities = batch.column(1).as_string::<i32>();
            found.extend(cities.iter().zip(numbers.values()).map(|(c, n)| (c.is_none(), c.map(ToOwned::to_owned), -n)));
        }
        assert!(found.is_sorted() && found.len() > 500, "{} rows", found.len());
        assert_eq!(file.sort_order_id(), Some(1));
    }
    // Two runs in one file are not one.
    let mut writer = parted.lake.start_load(schema(), whole()).await.unwrap();
    for n in 0..2 {
        let mut buffer = RowBuffer::new(schema());
        buffer.image(0).push_i64(n);
        buffer.image(1).push_null();
        buffer.image(2).push_number(0);
        buffer.finish_row(RowOp::Insert);
        writer.append(buffer).await.unwrap();
        // Idle again, so that the next rows go to the same file.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    let delta = writer.finish().await.unwrap();
    parted.try_commit(delta, &schema()).await.unwrap();
    let runs: Vec<_> =
        parted.files(DataContentType::Data).await.iter().map(|(_, f)| (f.record_count(), f.sort_order_id())).collect();
    assert!(runs == [(2, None)] || runs == [(1, Some(1)), (1, Some(1))], "{runs:?}");
}

/// More partitions than have a file open at a time, in random order, through a row group that all share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_of_many_partitions_keeps_every_row() {
    let scratch = Scratch::new();
    let mut settings = scratch.laid_out("truncate(25, n)", "", BloomFilters::Key);
    let target = settings.targets.get_mut(&table()).unwrap();
    target.properties.insert("write.parquet.row-group-size-bytes".into(), "100000".into());
    let mut parted = Parted::create(settings).await;
    let mut writer = parted.lake.start_load(schema(), whole()).await.unwrap();
    for chunk in 0..20 {
        let mut buffer = RowBuffer::new(schema());
        for at in 0..1_000 {
            let id = chunk * 1_000 + at;
            buffer.image(0).push_i64(id);
            buffer.image(1).push_str(&format!("city {id}")).unwrap();
            buffer.image(2).push_number(i128::from(id * 7_919 % 5_000));
            buffer.finish_row(RowOp::Insert);
        }
        writer.append(buffer).await.unwrap();
    }
    let delta = writer.finish().await.unwrap();
    parted.try_commit(delta, &schema()).await.unwrap();
    let partitions = parted.partitions(DataContentType::Data).await;
    assert_eq!(partitions.len(), 200);
    assert!(partitions.values().all(|rows| *rows == 100), "{partitions:?}");
    let rows = parted.rows(&schema()).await;
    assert_eq!(rows.len(), 20_000);
    assert!(rows.iter().all(|(id, city)| city.as_deref() == Some(&*format!("city {id}"))));
    let mut given_up = parted.lake.start_load(schema(), whole()).await.unwrap();
    let before = super::fixture::files_under(&scratch.0);
    let mut buffer = RowBuffer::new(schema());
    for n in 0..200 {
        buffer.image(0).push_i64(n);
        buffer.image(1).push_null();
        buffer.image(2).push_number(i128::from(n * 25));
        buffer.finish_row(RowOp::Insert);
    }
    given_up.append(buffer).await.unwrap();
    given_up.abort().await;
    assert_eq!(super::fixture::files_under(&scratch.0), before);
}

/// The column that partitions are by goes; its name comes again for another one.
#[tokio::test]
async fn a_column_that_partitions_are_by_may_go_and_grow() {
    let scratch = Scratch::new();
    let mut parted = Parted::create(scratch.laid_out("city, n", "n", BloomFilters::None)).await;
    for n in 0..12 {
        parted.put(&[(i64::from(n), Some("a"), n % 2)], &[]).await;
    }
    // Grown: values written before are of the same partitions, in merged manifests too.
    let grown = schema_of(&[(1, "id", ColumnType::Long), (2, "city", ColumnType::String), (3, "n", ColumnType::Long)]);
    for id in 12..24 {
        let mut columns = columns_of(&[(id, Some("a"), 0)]);
        columns[2] = Arc::new(Int64Array::from(vec![id % 2]));
        let delta = staged(parted.write(&grown, columns, &[]).await.unwrap());
        parted.try_commit(delta, &grown).await.unwrap();
    }
    let both = [("city_identity=a/n_identity=0", 12), ("city_identity=a/n_identity=1", 12)];
    assert_eq!(parted.partitions(DataContentType::Data).await, named(&both));

    let gone = schema_of(&[(1, "id", ColumnType::Long), (3, "n", ColumnType::Long)]);
    let numbers =
        |id: i64| -> Vec<ArrayRef> { vec![Arc::new(Int64Array::from(vec![id])), Arc::new(Int64Array::from(vec![0]))] };
    let delta = staged(parted.write(&gone, numbers(30), &[1]).await.unwrap());
    parted.try_commit(delta, &gone).await.unwrap();
    let again = schema_of(&[(1, "id", ColumnType::Long), (3, "n", ColumnType::Long), (4, "city", ColumnType::String)]);
    let mut columns = numbers(31);
    columns.push(Arc::new(StringArray::from(vec!["another"])));
    let delta = staged(parted.write(&again, columns, &[30]).await.unwrap());
    parted.try_commit(delta, &again).await.unwrap();
    let partitions = parted.partitions(DataContentType::Data).await;
    assert_eq!(partitions["city_identity=null/n_identity=0"], 2);
    let metadata = parted.metadata().await;
    let names: Vec<_> = metadata.current_schema().as_struct().fields().iter().map(|field| field.name.clone()).collect();
    assert_eq!(names, ["id", "n", "city", "city_dropped_2"]);
    let by_place = schema_of(&[(1, "id", ColumnType::Long), (4, "city", ColumnType::String)]);
    let rows = parted.rows(&by_place).await;
    assert_eq!((rows.len(), rows[&31].as_deref(), rows[&2].as_deref()), (24, Some("another"), None));

    // Iceberg wants the names of partition fields for itself.
    let taken =
        schema_of(&[(1, "id", ColumnType::Long), (3, "n", ColumnType::Long), (5, "n_identity", ColumnType::String)]);
    let mut columns = numbers(32);
    columns.push(Arc::new(StringArray::from(vec!["x"])));
    let Written::Stops(reason) = parted.write(&taken, columns, &[]).await.unwrap() else { panic!("it went on") };
    assert_eq!(reason.state, "schema changed");
    assert!(reason.detail.contains("\"n_identity\"") && reason.remedy.contains("calve reload"), "{reason}");
    let error = parted.lake.start_load(taken, whole()).await.err().unwrap();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("exclude_columns"), "{error}");
}

#[tokio::test]
async fn what_others_did_to_the_partitions_is_named() {
    let scratch = Scratch::new();
    let mut parted = Parted::create(scratch.laid_out("city", "", BloomFilters::None)).await;
    parted.put(&[(1, Some("a"), 1)], &[]).await;
    let kept = parted.stage(&[(2, Some("b"), 1)], &[1]).await;
    // Spark calls an identity like its column.
    let spec = UnboundPartitionSpec::builder().add_partition_field(1, "theirs", Transform::Bucket(4)).unwrap();
    let spec = spec.add_partition_field(3, "n", Transform::Identity).unwrap().build();
    parted.update(vec![TableUpdate::AddSpec { spec }, TableUpdate::SetDefaultSpec { spec_id: -1 }]).await;
    for default in [2, 0] {
        let error = parted.write(&schema(), columns_of(&[(3, None, 1)]), &[]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(&format!("gave it partition spec {default} in the lake")), "{error}");
        let error = parted.try_commit(kept.clone(), &schema()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        let error = parted.lake.start_load(schema(), whole()).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        parted.update(vec![TableUpdate::SetDefaultSpec { spec_id: i32::from(default != 2) }]).await;
    }
    parted.try_commit(kept, &schema()).await.unwrap();
    assert_eq!(parted.rows(&schema()).await, rows_of(&[(2, Some("b"))]));

    // A load makes the spec again under which deletes are written, should a clean-up have removed it.
    parted.load(&[(1, Some("a"), 1), (5, None, 1)], &schema()).await;
    parted.update(vec![TableUpdate::RemovePartitionSpecs { spec_ids: vec![0] }]).await;
    parted.put(&[(3, None, 1)], &[]).await;
    let Written::Stops(reason) = parted.write(&schema(), columns_of(&[(4, None, 1)]), &[3]).await.unwrap() else {
        panic!("its deletes reach nothing")
    };
    assert!(reason.state == "partition spec removed" && reason.remedy.contains("calve reload"), "{reason}");
    parted.reopen(scratch.laid_out("city", "", BloomFilters::Key)).await;
    parted.load(&[(1, Some("a"), 1), (5, None, 1)], &schema()).await;
    parted.put(&[(1, Some("b"), 1)], &[1, 5]).await;
    assert_eq!(parted.rows(&schema()).await, rows_of(&[(1, Some("b"))]));
    let specs: BTreeSet<i32> = parted.metadata().await.partition_specs_iter().map(|spec| spec.spec_id()).collect();
    assert_eq!(specs, BTreeSet::from([1, 2, 3]));
}

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use calve_core::{
    BufferFull, Column, ColumnBuffer, ColumnType, DeltaBatch, ErrorKind, LoadWriter, NativeType, Onto, Result,
    RowBuffer, RowOp, TableName, TableSchema,
};
use iceberg::TableCreation;
use iceberg::spec::{DataFile, Datum, TableMetadataBuilder};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{LogicalType, TimeUnit, Type as PhysicalType};
use uuid::Uuid;

use super::*;
use crate::delta::TableLayout;
use crate::naming::FileNaming;
use crate::{Target, schema, storage};

/// A table's directory and what a writer knows of it.
struct Fixture {
    dir: PathBuf,
    source: Arc<TableSchema>,
    layout: Arc<TableLayout>,
    naming: Arc<FileNaming>,
}

impl Fixture {
    fn new(columns: &[(&str, ColumnType, bool)], key: Vec<usize>, properties: &[(&str, &str)]) -> Self {
        let dir = std::env::temp_dir().join(format!("calve-writer-{}", Uuid::new_v4().simple()));
        let columns = columns.iter().map(|(name, ty, nullable)| Column {
            id: 0,
            name: (*name).to_owned(),
            ty: ty.clone(),
            nullable: *nullable,
            native: NativeType::new(0, -1, "native"),
            usage: calve_core::ColumnUse::Values,
        });
        let table = TableName::new("public", "t");
        let source = TableSchema::new(table, 1, columns.collect(), key);
        let creation = TableCreation::builder()
            .name("t".to_owned())
            .location(format!("file://{}", dir.display()))
            .schema(schema::new_schema(&source).unwrap())
            .properties(properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<HashMap<_, _>>())
            .build();
        let metadata = TableMetadataBuilder::from_table_creation(creation).unwrap().build().unwrap().metadata;
        let target =
            Target { namespace: "n".into(), name: "t".into(), properties: HashMap::new(), layout: Arc::default() };
        let layout = TableLayout::new(&source, &metadata, None, Onto::Table, &target, storage::file_io()).unwrap();
        let naming = FileNaming::new("shop", Uuid::new_v4()).unwrap();
        Self { dir, source: Arc::new(source), layout: Arc::new(layout), naming: Arc::new(naming) }
    }

    fn buffer(&self) -> RowBuffer {
        RowBuffer::new(Arc::clone(&self.source))
    }

    fn batch(&self, rows: Vec<ArrayRef>, deletes: Vec<ArrayRef>) -> DeltaBatch {
        let batch = |arrow: &arrow_schema::SchemaRef, columns: Vec<ArrayRef>| {
            let columns = if columns.is_empty() {
                arrow
                    .fields()
                    .iter()
                    .map(|field| arrow_array::new_empty_array(&schema::without_ids(field.data_type())))
                    .collect()
            } else {
                columns
            };
            // As the engine makes them: every column may be NULL, as far as it knows.
            let fields: Vec<_> = arrow
                .fields()
                .iter()
                .map(|f| arrow_schema::Field::new(f.name(), schema::without_ids(f.data_type()), true))
                .collect();
            RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), columns).unwrap()
        };
        DeltaBatch {
            schema: Arc::clone(&self.source),
            replace: false,
            rows: batch(&self.layout.arrow, rows),
            incomplete: None,
            deletes: batch(&self.layout.key_arrow, deletes),
            retire: None,
        }
    }

    fn files(&self) -> BTreeSet<String> {
        let walk = |sub: &str| fs::read_dir(self.dir.join(sub)).into_iter().flatten();
        ["data", "metadata"].into_iter().flat_map(walk).map(|e| e.unwrap().path().display().to_string()).collect()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn write_files(
    layout: &Arc<TableLayout>,
    naming: &Arc<FileNaming>,
    batch: DeltaBatch,
) -> Result<(Vec<DataFile>, Vec<DataFile>)> {
    match write_batch(layout, naming, batch, Below::default())? {
        Files::Written(rows, deletes) => Ok((rows, deletes)),
        Files::Stops(reason) => panic!("{reason}"),
    }
}

fn read(file: &DataFile) -> Vec<RecordBatch> {
    let open = File::open(storage::local_path(file.file_path()).unwrap()).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(open).unwrap().build().unwrap();
    reader.map(|batch| batch.unwrap()).collect()
}

/// One column of each kind, `rows` cells long, made of small numbers; every third cell NULL where it may be.
fn column(ty: &ColumnType, nullable: bool, rows: i32) -> ArrayRef {
    let mut column = ColumnBuffer::new(ty.clone());
    for n in 0..rows {
        if nullable && n % 3 == 1 {
            column.push_null();
            continue;
        }
        match ty {
            ColumnType::Boolean => column.push_bool(n % 2 == 0),
            ColumnType::Int | ColumnType::Date => column.push_i32(n - 5),
            ColumnType::Long | ColumnType::Time | ColumnType::Timestamp | ColumnType::TimestampTz => {
                column.push_i64(i64::from(n) * 1_000_000_007);
            }
            ColumnType::Float => column.push_f32(if n == 0 { f32::NAN } else { f32::from(i16::try_from(n).unwrap()) }),
            ColumnType::Double => column.push_f64(if n == 0 { f64::NAN } else { f64::from(-n) }),
            ColumnType::Decimal { precision: 1, .. } => column.push_decimal(i128::from(n % 10) - 4),
            ColumnType::Decimal { precision, .. } => {
                column.push_decimal((10_i128.pow(u32::from(*precision)) - 1) * if n % 2 == 0 { 1 } else { -1 });
            }
            ColumnType::String => column.push_str(&format!("text {n} beyond sixteen characters")).unwrap(),
            ColumnType::Binary => column.push_bytes(&n.to_be_bytes()).unwrap(),
            ColumnType::Uuid => column.push_uuid(u128::from(n.unsigned_abs()).to_be_bytes()),
            ColumnType::List(element) => column
                .push_list(|elements| {
                    (0..n % 4).for_each(|at| match **element {
                        _ if at == 2 => elements.push_null(),
                        ColumnType::Uuid => elements.push_uuid(u128::from(at.unsigned_abs()).to_be_bytes()),
                        ColumnType::Decimal { .. } => elements.push_decimal(at.into()),
                        _ => elements.push_i32(n * 10 + at),
                    });
                    Ok::<_, BufferFull>(())
                })
                .unwrap(),
            ColumnType::Map => column
                .push_map(|keys, values| {
                    (0..n % 3).try_for_each(|at| {
                        values.push_str(&format!("value {n}"))?;
                        keys.push_str(&format!("key {at}"))
                    })
                })
                .unwrap(),
        }
    }
    column.into_array()
}

fn decimal(precision: u8, scale: u8) -> ColumnType {
    ColumnType::Decimal { precision, scale }
}

fn all_types() -> Vec<(&'static str, ColumnType, bool)> {
    vec![
        ("id", ColumnType::Long, false),
        ("boolean", ColumnType::Boolean, true),
        ("int", ColumnType::Int, true),
        ("float", ColumnType::Float, true),
        ("double", ColumnType::Double, false),
        ("d1", decimal(1, 0), true),
        ("d9", decimal(9, 2), true),
        ("d10", decimal(10, 2), true),
        ("d18", decimal(18, 18), false),
        ("d19", decimal(19, 4), true),
        ("d38", decimal(38, 10), true),
        ("string", ColumnType::String, true),
        ("binary", ColumnType::Binary, true),
        ("date", ColumnType::Date, true),
        ("time", ColumnType::Time, true),
        ("timestamp", ColumnType::Timestamp, true),
        ("timestamptz", ColumnType::TimestampTz, false),
        ("uuid", ColumnType::Uuid, true),
        ("ints", ColumnType::Int.list(), true),
        ("uuids", ColumnType::Uuid.list(), false),
        ("d1s", decimal(1, 0).list(), true),
        ("map", ColumnType::Map, true),
    ]
}

/// Fields that hold values: the columns, and what is inside of those that have parts.
const SINGLE: usize = 18;
const INSIDE: [i32; 5] = [23, 24, 25, 26, 27];

#[test]
fn every_type_is_laid_out_as_the_specification_wants_it() {
    let fixture = Fixture::new(&all_types(), vec![0], &[]);
    let columns: Vec<ArrayRef> = all_types().iter().map(|(_, ty, nullable)| column(ty, *nullable, 10)).collect();
    let batch = fixture.batch(columns.clone(), Vec::new());
    let (rows, deletes) = write_files(&fixture.layout, &fixture.naming, batch).unwrap();
    assert_eq!((rows.len(), deletes.len()), (1, 0));

    let file = File::open(storage::local_path(rows[0].file_path()).unwrap()).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let types: Vec<_> = reader
        .parquet_schema()
        .columns()
        .iter()
        .map(|c| {
            (c.path().string(), c.physical_type(), c.logical_type_ref().cloned(), c.self_type().get_basic_info().id())
        })
        .collect();
    let is = |precision, scale| Some(LogicalType::Decimal { precision, scale });
    let timestamp = |utc| Some(LogicalType::Timestamp { is_adjusted_to_u_t_c: utc, unit: TimeUnit::MICROS });
    let time = Some(LogicalType::Time { is_adjusted_to_u_t_c: false, unit: TimeUnit::MICROS });
    let expected = [
        ("id", PhysicalType::INT64, None),
        ("boolean", PhysicalType::BOOLEAN, None),
        ("int", PhysicalType::INT32, None),
        ("float", PhysicalType::FLOAT, None),
        ("double", PhysicalType::DOUBLE, None),
        ("d1", PhysicalType::INT32, is(1, 0)),
        ("d9", PhysicalType::INT32, is(9, 2)),
        ("d10", PhysicalType::INT64, is(10, 2)),
        ("d18", PhysicalType::INT64, is(18, 18)),
        ("d19", PhysicalType::FIXED_LEN_BYTE_ARRAY, is(19, 4)),
        ("d38", PhysicalType::FIXED_LEN_BYTE_ARRAY, is(38, 10)),
        ("string", PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        ("binary", PhysicalType::BYTE_ARRAY, None),
        ("date", PhysicalType::INT32, Some(LogicalType::Date)),
        ("time", PhysicalType::INT64, time),
        ("timestamp", PhysicalType::INT64, timestamp(false)),
        ("timestamptz", PhysicalType::INT64, timestamp(true)),
        ("uuid", PhysicalType::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid)),
        ("ints.list.element", PhysicalType::INT32, None),
        ("uuids.list.element", PhysicalType::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid)),
        ("d1s.list.element", PhysicalType::INT32, is(1, 0)),
        ("map.key_value.key", PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        ("map.key_value.value", PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
    ];
    let expected: Vec<_> = (1..=18)
        .chain(INSIDE)
        .zip(expected)
        .map(|(id, (name, physical, logical))| (name.to_owned(), physical, logical, id))
        .collect();
    assert_eq!(types, expected);

    let groups = reader.parquet_schema().root_schema().get_fields()[SINGLE..].iter();
    let groups: Vec<_> =
        groups.map(|ty| (ty.get_basic_info().id(), ty.get_basic_info().logical_type_ref().cloned())).collect();
    let (list, map) = (Some(LogicalType::List), Some(LogicalType::Map));
    assert_eq!(groups, [(19, list.clone()), (20, list.clone()), (21, list), (22, map)]);

    let batches = read(&rows[0]);
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].num_columns(), all_types().len());
    for ((name, ty, _), (written, found)) in all_types()[..SINGLE].iter().zip(columns.iter().zip(batches[0].columns()))
    {
        // Parquet keeps "UTC", not the zone's spelling.
        let found = if *ty == ColumnType::TimestampTz {
            let nanos = arrow_array::cast::as_primitive_array::<arrow_array::types::TimestampMicrosecondType>(found);
            Arc::new(nanos.clone().with_timezone("+00:00")) as ArrayRef
        } else {
            Arc::clone(found)
        };
        assert_eq!(&found, written, "{name}");
    }
}

#[test]
fn counts_and_bounds_are_true() {
    let fixture = Fixture::new(&all_types(), vec![0], &[("write.parquet.row-group-size-bytes", "2000")]);
    let rows = 20_000;
    let columns = all_types().iter().map(|(_, ty, nullable)| column(ty, *nullable, rows)).collect();
    let (files, _) = write_files(&fixture.layout, &fixture.naming, fixture.batch(columns, Vec::new())).unwrap();
    let [file] = files.as_slice() else { panic!("{files:?}") };
    assert_eq!(file.record_count(), 20_000);
    assert_eq!(file.file_size_in_bytes(), fs::metadata(storage::local_path(file.file_path()).unwrap()).unwrap().len());
    let offsets = file.split_offsets().unwrap();
    assert!(offsets.len() > 1 && offsets.is_sorted() && offsets[0] == 4, "{offsets:?}");
    let id = |name: &str| fixture.layout.schema.as_struct().field_by_name(name).unwrap().id;
    crate::tests::nested::assert_sizes_alone(file, &INSIDE);
    for (name, _, nullable) in &all_types()[..SINGLE] {
        let nullable = *nullable;
        assert_eq!(file.value_counts()[&id(name)], 20_000, "{name}");
        assert_eq!(file.null_value_counts()[&id(name)], if nullable { 6_667 } else { 0 }, "{name}");
        assert!(file.column_sizes()[&id(name)] > 0, "{name}");
    }
    assert_eq!(file.nan_value_counts(), &HashMap::from([(id("float"), 1), (id("double"), 1)]));

    let unscaled = |precision, n: i128| {
        let ty = iceberg::spec::PrimitiveType::Decimal { precision, scale: 0 };
        Datum::try_from_bytes(&n.to_be_bytes(), ty).unwrap().literal().clone()
    };
    let last = 19_999_i64 * 1_000_000_007;
    for (name, lower, upper) in [
        ("id", Datum::long(0).literal().clone(), Datum::long(last).literal().clone()),
        ("boolean", Datum::bool(false).literal().clone(), Datum::bool(true).literal().clone()),
        ("int", Datum::int(-5).literal().clone(), Datum::int(19_993).literal().clone()),
        ("float", Datum::float(2.0).literal().clone(), Datum::float(19_998.0).literal().clone()),
        ("double", Datum::double(-19_999.0).literal().clone(), Datum::double(-1.0).literal().clone()),
        ("d1", unscaled(1, -4), unscaled(1, 5)),
        ("d9", unscaled(9, -999_999_999), unscaled(9, 999_999_999)),
        ("d38", unscaled(38, -(10_i128.pow(38) - 1)), unscaled(38, 10_i128.pow(38) - 1)),
        (
            "string",
            Datum::string("text 0 beyond si").literal().clone(),
            Datum::string("text 9999 beyone").literal().clone(),
        ),
        ("date", Datum::date(-5).literal().clone(), Datum::date(19_993).literal().clone()),
        ("timestamptz", Datum::long(0).literal().clone(), Datum::long(last).literal().clone()),
    ] {
        assert_eq!(file.lower_bounds()[&id(name)].literal(), &lower, "{name}");
        assert_eq!(file.upper_bounds()[&id(name)].literal(), &upper, "{name}");
    }
    // Not every reader orders them alike.
    assert_eq!(file.lower_bounds().get(&id("uuid")), None);
    assert_eq!(file.upper_bounds().get(&id("uuid")), None);
}

#[tokio::test]
async fn deletes_hold_the_key_alone() {
    let columns = [("a", ColumnType::String, true), ("b", ColumnType::Long, false), ("c", ColumnType::Int, false)];
    let fixture = Fixture::new(&columns, vec![2, 1], &[]);
    let key = vec![column(&ColumnType::Int, false, 7), column(&ColumnType::Long, false, 7)];
    let batch = fixture.batch(Vec::new(), key.clone());
    let (rows, deletes) = write_files(&fixture.layout, &fixture.naming, batch).unwrap();
    assert!(rows.is_empty());
    let [file] = deletes.as_slice() else { panic!("{deletes:?}") };
    assert_eq!(file.equality_ids(), Some(vec![3, 2]));
    assert_eq!(file.record_count(), 7);
    let batches = read(file);
    assert_eq!(batches[0].columns(), key);
    assert_eq!(batches[0].schema().fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["c", "b"]);

    let delta = stage(&fixture.layout, &fixture.naming, false, rows, deletes).await.unwrap();
    assert_eq!((delta.rows, delta.deletes), (0, 7));
    assert_eq!(delta.files.len(), 2);
    let listed: BTreeSet<String> =
        delta.files.iter().map(|f| storage::local_path(f).unwrap().display().to_string()).collect();
    assert_eq!(listed, fixture.files());

    let nothing = write_files(&fixture.layout, &fixture.naming, fixture.batch(Vec::new(), Vec::new())).unwrap();
    let empty = stage(&fixture.layout, &fixture.naming, false, nothing.0, nothing.1).await.unwrap();
    assert!(empty.is_empty() && empty.files.is_empty(), "{empty:?}");
}

#[test]
fn a_large_batch_becomes_several_files() {
    let columns = [("id", ColumnType::Long, false), ("s", ColumnType::String, false)];
    let fixture = Fixture::new(&columns, vec![0], &[("write.target-file-size-bytes", "200000")]);
    let rows = 60_000;
    let columns = vec![column(&ColumnType::Long, false, rows), column(&ColumnType::String, false, rows)];
    let (files, _) = write_files(&fixture.layout, &fixture.naming, fixture.batch(columns.clone(), Vec::new())).unwrap();
    assert!(files.len() > 2, "{}", files.len());
    let batches: Vec<RecordBatch> = files.iter().flat_map(read).collect();
    let ids: Vec<_> = batches.iter().map(|b| b.column(0).as_ref()).collect();
    assert_eq!(&arrow_select::concat::concat(&ids).unwrap(), &columns[0]);
    assert_eq!(files.iter().map(DataFile::record_count).sum::<u64>(), 60_000);
}

#[test]
fn a_column_that_outgrew_its_dictionary_goes_without_for_a_while() {
    let long = ColumnType::Long;
    let columns = [("id", long.clone(), false), ("city", long.clone(), true), ("ref", long, true)];
    let fixture = Fixture::new(&columns, vec![0], &[]);
    let write = |rows: i64| {
        let numbers = |of: fn(i64) -> i64| Arc::new(Int64Array::from_iter_values((0..rows).map(of))) as ArrayRef;
        let rows = vec![numbers(|i| i), numbers(|i| i % 50), numbers(|i| i * 7)];
        let (files, _) = write_files(&fixture.layout, &fixture.naming, fixture.batch(rows, Vec::new())).unwrap();
        let open = File::open(storage::local_path(files[0].file_path()).unwrap()).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(open).unwrap();
        let chunks = reader.metadata().row_group(0).columns();
        chunks.iter().map(|chunk| chunk.dictionary_page_offset().is_some()).collect::<Vec<_>>()
    };
    // A key of one column has none from the beginning.
    assert_eq!(write(1_000), [false, true, true]);
    assert_eq!(write(200_000), [false, true, true], "outgrown in this one");
    for _ in 0..31 {
        assert_eq!(write(1_000), [false, true, false]);
    }
    assert_eq!(write(1_000), [false, true, true], "tried again");
}

#[test]
fn rows_that_do_not_fit_leave_no_file() {
    let fixture = Fixture::new(&[("id", ColumnType::Int, false), ("n", ColumnType::Int, false)], vec![0], &[]);
    let columns = vec![column(&ColumnType::Int, false, 3), column(&ColumnType::Int, true, 3)];
    let key = vec![column(&ColumnType::Int, false, 3)];
    let error = write_files(&fixture.layout, &fixture.naming, fixture.batch(columns, key)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("'n'") && error.to_string().contains("calve reload public.t"), "{error}");
    assert_eq!(fixture.files(), BTreeSet::new());
}

fn load(fixture: &Fixture) -> Box<dyn LoadWriter> {
    let encoders = Arc::new(Encoders::new(2));
    let excerpt = calve_core::Excerpt::of(&fixture.source, &calve_core::ValueRules::default()).unwrap();
    Box::new(TableLoad::new(Arc::clone(&fixture.layout), excerpt, Arc::clone(&fixture.naming), encoders))
}

fn rows(fixture: &Fixture, from: i64, count: i64) -> RowBuffer {
    let mut buffer = fixture.buffer();
    for id in from..from + count {
        buffer.image(0).push_i64(id);
        buffer.image(1).push_str(&format!("row {id}")).unwrap();
        buffer.finish_row(RowOp::Insert);
    }
    buffer
}

#[tokio::test]
async fn a_load_writes_every_row_once() {
    let columns = [("id", ColumnType::Long, false), ("s", ColumnType::String, false)];
    let fixture = Fixture::new(&columns, vec![0], &[("write.target-file-size-bytes", "50000")]);
    let mut writer = load(&fixture);
    for n in 0..40 {
        writer.append(rows(&fixture, n * 1_000, 1_000)).await.unwrap();
    }
    writer.append(fixture.buffer()).await.unwrap();
    let delta = writer.finish().await.unwrap();
    assert!(delta.replace);
    assert_eq!((delta.rows, delta.deletes), (40_000, 0));
    let data: Vec<_> = delta.files.iter().filter(|f| f.ends_with(".parquet")).collect();
    assert!(data.len() > 2, "{data:?}");
    let mut ids = BTreeSet::new();
    for file in data {
        let open = File::open(storage::local_path(file).unwrap()).unwrap();
        for batch in ParquetRecordBatchReaderBuilder::try_new(open).unwrap().build().unwrap() {
            let batch = batch.unwrap();
            let column = arrow_array::cast::as_primitive_array::<arrow_array::types::Int64Type>(batch.column(0));
            ids.extend(column.values().iter().copied());
        }
    }
    assert_eq!(ids, (0..40_000).collect());
}

#[tokio::test]
async fn a_small_load_is_one_file_and_an_empty_one_none() {
    let columns = [("id", ColumnType::Long, false), ("s", ColumnType::String, false)];
    let fixture = Fixture::new(&columns, vec![0], &[]);
    let mut writer = load(&fixture);
    writer.append(rows(&fixture, 0, 10)).await.unwrap();
    let delta = writer.finish().await.unwrap();
    assert_eq!(delta.files.iter().filter(|f| f.ends_with("-data.parquet")).count(), 1);
    let delta = load(&fixture).finish().await.unwrap();
    assert!(delta.replace && delta.files.is_empty(), "{delta:?}");
}

#[tokio::test]
async fn a_load_given_up_leaves_nothing() {
    let columns = [("id", ColumnType::Long, false), ("s", ColumnType::String, false)];
    let fixture = Fixture::new(&columns, vec![0], &[("write.target-file-size-bytes", "2000")]);
    let mut writer = load(&fixture);
    for n in 0..10 {
        writer.append(rows(&fixture, n * 1_000, 1_000)).await.unwrap();
    }
    assert!(!fixture.files().is_empty());
    writer.abort().await;
    assert_eq!(fixture.files(), BTreeSet::new());

    let mut writer = load(&fixture);
    let mut buffer = rows(&fixture, 0, 1);
    buffer.old(0).push_i64(1);
    buffer.finish_row(RowOp::Delete);
    assert_eq!(writer.append(buffer).await.unwrap_err().kind(), ErrorKind::Bug);
}

#[test]
fn a_wide_tables_manifest_describes_the_first_columns_and_the_key() {
    let names: Vec<String> = (0..150).map(|n| format!("c{n}")).collect();
    let columns: Vec<_> = names.iter().map(|name| (name.as_str(), ColumnType::Int, false)).collect();
    let fixture = Fixture::new(&columns, vec![140], &[]);
    let rows = columns.iter().map(|(_, ty, _)| column(ty, false, 3)).collect();
    let (files, _) = write_files(&fixture.layout, &fixture.naming, fixture.batch(rows, Vec::new())).unwrap();
    let mut described: Vec<i32> = files[0].lower_bounds().keys().copied().collect();
    described.sort_unstable();
    assert_eq!(described, (1..=100).chain([141]).collect::<Vec<_>>());
    assert_eq!(files[0].value_counts().len(), 101);
}

//! A table with many commits stays as it was after the first hundred.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{
    ArrayRef, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{Field, Schema};
use calve_core::{ColumnType, DeltaBatch, DeltaWriter, Ground, Lake, Onto, TableCommit, TableSchema};
use iceberg::spec::{DataContentType, ManifestContentType, PrimitiveLiteral};

use super::fixture::{self, Orders, Scratch, column, files_under, staged, stamp, table};
use crate::IcebergLake;
use crate::manifests::read_manifest;

#[tokio::test]
async fn small_manifests_are_merged_and_keep_their_order() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    // Every commit rewrites one of three keys: a sequence number lost in a merge would double or lose a row.
    let names: Vec<String> = (0..70).map(|i| format!("v{i}")).collect();
    for (i, name) in names.iter().enumerate() {
        let key = i64::try_from(i).unwrap() % 3;
        orders.put(&[(key, name)], &[key]).await;
    }
    let expected: Vec<_> = [(0, "v69"), (1, "v67"), (2, "v68")].map(|(k, n)| (k, n.to_owned())).into();
    assert_eq!(orders.rows().await, expected);
    let manifests = orders.manifests().await;
    assert!(manifests.len() <= 2 * 2 * 8, "{} manifests", manifests.len());
    let files: u32 = manifests
        .iter()
        .filter(|m| m.content == ManifestContentType::Data)
        .map(|m| m.added_files_count.unwrap() + m.existing_files_count.unwrap())
        .sum();
    assert_eq!(files, 70);
    // Readers in the past still see their own.
    let table = orders.as_table().await;
    let tenth = table.metadata().snapshots().find(|s| s.sequence_number() == 10).unwrap();
    let expected: Vec<_> = [(0, "v9"), (1, "v7"), (2, "v8")].map(|(k, n)| (k, n.to_owned())).into();
    assert_eq!(orders.rows_at(tenth.snapshot_id()).await, expected);
}

/// The table of [`manifests_of_many_schemas_are_merged`] after so many changes of it: three of its columns grow, others are added.
fn changed(changes: usize) -> Arc<TableSchema> {
    let grown = |at: usize, from: ColumnType, to: ColumnType| if changes > at { to } else { from };
    let mut columns = vec![
        column("id", ColumnType::Long, false),
        column("name", ColumnType::String, true),
        column("n", grown(0, ColumnType::Int, ColumnType::Long), true),
        column("f", grown(1, ColumnType::Float, ColumnType::Double), true),
        column("x", ColumnType::Decimal { precision: if changes > 2 { 20 } else { 4 }, scale: 2 }, true),
    ];
    columns.extend((3..changes).map(|n| column(&format!("added{n}"), ColumnType::Int, true)));
    fixture::schema_of(columns, vec![0])
}

/// One row of that table, all of whose numbers are `i`.
fn row(schema: &TableSchema, i: i32) -> Vec<ArrayRef> {
    let column = |(n, ty): (usize, ColumnType)| -> ArrayRef {
        match ty {
            ColumnType::Long if n == 0 => Arc::new(Int64Array::from(vec![i64::from(i) % 5])),
            ColumnType::Long => Arc::new(Int64Array::from(vec![i64::from(i)])),
            ColumnType::Int => Arc::new(Int32Array::from(vec![i])),
            ColumnType::Float => Arc::new(Float32Array::from(vec![f32::from(u16::try_from(i).unwrap())])),
            ColumnType::Double => Arc::new(Float64Array::from(vec![f64::from(i)])),
            ColumnType::Decimal { precision, scale } => {
                let value = Decimal128Array::from(vec![i128::from(i)]);
                Arc::new(value.with_precision_and_scale(precision, scale.cast_signed()).unwrap())
            }
            _ => Arc::new(StringArray::from(vec![format!("v{i}")])),
        }
    };
    schema.columns.iter().map(|column| column.ty.clone()).enumerate().map(column).collect()
}

#[tokio::test]
async fn manifests_of_many_schemas_are_merged() {
    let scratch = Scratch::new();
    let lake = scratch.open().await;
    let version = lake.create(&changed(0)).await.unwrap().version;
    let mut orders = Orders { lake, version, lsn: 0 };
    for i in 0..70_i32 {
        let schema = changed(usize::try_from(i).unwrap() / 4);
        let batch = |columns: Vec<ArrayRef>| {
            let fields: Vec<_> = columns
                .iter()
                .enumerate()
                .map(|(n, c)| Field::new(n.to_string(), c.data_type().clone(), true))
                .collect();
            RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
        };
        let rows = row(&schema, i);
        let (rows, deletes) = (batch(rows.clone()), batch(vec![Arc::clone(&rows[0])]));
        let job = {
            let schema = Arc::clone(&schema);
            move || Ok(DeltaBatch { schema, replace: false, rows, incomplete: None, deletes, retire: None })
        };
        let delta = staged(orders.lake.write(&table(), Box::new(job), Onto::Table, &Ground::default()).await.unwrap());
        let position = 10 * u64::try_from(i + 1).unwrap();
        let commit =
            TableCommit { deltas: vec![delta], stamp: Some(stamp(position, &schema)), ..TableCommit::default() };
        orders.try_commit(&commit).await.unwrap();
    }
    let expected: Vec<_> =
        [(0, "v65"), (1, "v66"), (2, "v67"), (3, "v68"), (4, "v69")].map(|(k, n)| (k, n.to_owned())).into();
    assert_eq!(orders.rows().await, expected);
    let manifests = orders.manifests().await;
    assert!(manifests.len() <= 2 * 2 * 8, "{} manifests", manifests.len());

    let metadata = Arc::clone(&orders.lake.slot(&table()).unwrap().known().unwrap().at.metadata);
    let mut values = BTreeSet::new();
    for manifest in &manifests {
        let (entries, header) = read_manifest(&table(), &orders.lake.io, manifest).await.unwrap().into_parts();
        let named = metadata.schema_by_id(header.schema_id()).unwrap();
        assert_eq!(named.as_struct(), header.schema().as_struct(), "the schema that its id names");
        for file in entries.iter().map(|entry| &entry.data_file) {
            for (id, bound) in file.lower_bounds().iter().chain(file.upper_bounds()) {
                let field = named.field_by_id(*id).unwrap();
                assert_eq!(field.field_type.as_primitive_type(), Some(bound.data_type()), "{}", field.name);
            }
            if file.content_type() == DataContentType::Data {
                let number = match file.lower_bounds()[&3].literal() {
                    PrimitiveLiteral::Int(n) => i64::from(*n),
                    PrimitiveLiteral::Long(n) => *n,
                    other => panic!("{other:?}"),
                };
                let float = match file.upper_bounds()[&4].literal() {
                    PrimitiveLiteral::Float(n) => f64::from(n.0),
                    PrimitiveLiteral::Double(n) => n.0,
                    other => panic!("{other:?}"),
                };
                assert_eq!(format!("{float}"), format!("{number}"));
                assert_eq!(*file.upper_bounds()[&5].literal(), PrimitiveLiteral::Int128(number.into()));
                values.insert(number);
            }
        }
    }
    assert_eq!(values, (0..70).collect());
}

#[tokio::test]
async fn hundreds_of_commits_leave_metadata_flat_and_no_rubbish() {
    let scratch = Scratch::new();
    let mut settings = scratch.settings();
    settings.retention.max = 40;
    settings.retention.min = 10;
    let mut orders = Orders::create_in(IcebergLake::open(settings.clone()).await.unwrap()).await;
    let mut sizes = Vec::new();
    let mut slowest = Duration::ZERO;
    for i in 0..600_i64 {
        let replace = i % 97 == 96;
        let delta = if replace {
            orders.stage_replace(&[(i, "replaced")]).await
        } else {
            orders.stage(&[(i % 5, "x")], &[i % 5]).await
        };
        let begun = Instant::now();
        orders.commit(vec![delta]).await;
        slowest = slowest.max(begun.elapsed());
        if i % 100 == 99 {
            let metadata = crate::storage::local_path(&orders.version.0).unwrap();
            let snapshots = orders.as_table().await.metadata().snapshots().len();
            sizes.push((orders.manifests().await.len(), metadata.metadata().unwrap().len(), snapshots));
        }
    }
    println!("manifests, bytes of metadata, snapshots: {sizes:?}; slowest commit {slowest:?}");
    for (manifests, bytes, snapshots) in &sizes {
        assert!(*manifests <= 60 && *bytes <= 120_000 && *snapshots <= 40, "{sizes:?}");
    }
    let expected = orders.rows().await;

    // What lies in the directory is what the table refers to.
    let begun = Instant::now();
    let restarted = IcebergLake::open({
        settings.run = uuid::Uuid::new_v4();
        settings
    })
    .await
    .unwrap();
    let unreferenced = restarted.unreferenced_files(&table(), &BTreeSet::new()).await.unwrap();
    println!("looked for left-over files in {:?}", begun.elapsed());
    assert_eq!(unreferenced, Vec::<String>::new());
    let metadata_files =
        files_under(&scratch.0.join("warehouse")).iter().filter(|f| f.ends_with(".metadata.json")).count();
    assert!(metadata_files <= 21, "{metadata_files} metadata files");
    orders.lake = restarted;
    orders.reload().await;
    assert_eq!(orders.rows().await, expected);
}

/// Prints what grows and what does not. `cargo test -p calve-iceberg twenty_thousand_commits_of -- --ignored --nocapture`
#[tokio::test]
#[ignore = "takes minutes; run by hand for its figures"]
async fn twenty_thousand_commits_of_one_table() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    let (mut total, mut slowest) = (Duration::ZERO, Duration::ZERO);
    println!("commits manifests list_bytes metadata_bytes snapshots mean_ms slowest_ms rss_kb");
    for i in 0..20_000_i64 {
        let delta = orders.stage(&[(i % 1_000, "x")], &[i % 1_000]).await;
        let begun = Instant::now();
        orders.commit(vec![delta]).await;
        total += begun.elapsed();
        slowest = slowest.max(begun.elapsed());
        if i % 1_000 == 999 {
            let metadata = crate::storage::local_path(&orders.version.0).unwrap().metadata().unwrap().len();
            let table = orders.as_table().await;
            let list = table.metadata().current_snapshot().unwrap().manifest_list();
            let list = crate::storage::local_path(list).unwrap().metadata().unwrap().len();
            println!(
                "{} {} {list} {metadata} {} {:.1} {:.1} {}",
                i + 1,
                orders.manifests().await.len(),
                table.metadata().snapshots().len(),
                total.as_secs_f64(),
                slowest.as_secs_f64() * 1e3,
                resident_kb(),
            );
            (total, slowest) = (Duration::ZERO, Duration::ZERO);
        }
    }
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|kb| kb.parse().ok()).unwrap_or(0)
}

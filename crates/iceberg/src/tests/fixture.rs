//! A lake in a directory of its own, a table of keys and names, and ways to stage, commit and read rows.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};
use calve_core::{
    BloomFilters, CheckpointId, Column, ColumnType, CommitReceipt, Lake, LakeVersion, Layout, Lsn, NativeType, Onto,
    PartitionBy, Position, Result, SortBy, SourceIdentity, StagedDelta, Stamp, TableCommit, TableName, TableSchema,
    Written,
};
use futures::TryStreamExt;
use iceberg::spec::{DataContentType, DataFile, DataFileBuilder, DataFileFormat, ManifestFile};
use iceberg::table::Table;
use iceberg::{Catalog as _, CatalogBuilder, Runtime};
use iceberg_catalog_sql::{SqlBindStyle, SqlCatalogBuilder};
use parquet::arrow::ArrowWriter;
use uuid::Uuid;

use crate::delta;
use crate::manifests::read_list;
use crate::settings::{CatalogSettings, DEFAULT_CATALOG_NAME, LakeSettings, SnapshotRetentionSettings, Target};
use crate::{IcebergLake, storage};

/// A directory that goes with the test.
pub(super) struct Scratch(pub(super) PathBuf);

impl Scratch {
    pub(super) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("calve-lake-{}", Uuid::new_v4().simple()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn settings(&self) -> LakeSettings {
        let target = Target {
            namespace: "shop".into(),
            name: "orders".into(),
            properties: HashMap::new(),
            layout: Arc::default(),
        };
        LakeSettings {
            catalog: CatalogSettings::Sqlite { path: self.0.join("catalog.db") },
            catalog_name: DEFAULT_CATALOG_NAME.into(),
            warehouse: self.0.join("warehouse"),
            pipeline: "p".into(),
            run: Uuid::new_v4(),
            encoders: 4,
            targets: BTreeMap::from([(table(), target)]),
            retention: SnapshotRetentionSettings::default(),
        }
    }

    /// As [`settings`](Self::settings), with the table laid out.
    pub(super) fn laid_out(&self, partition: &str, sort: &str, bloom_filters: BloomFilters) -> LakeSettings {
        let parts = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let layout = Layout {
            partition: parts(partition).map_or_else(Vec::new, |text| PartitionBy::parse_list(&text).unwrap()),
            sort: parts(sort).map_or_else(Vec::new, |text| SortBy::parse_list(&text).unwrap()),
            bloom_filters,
        };
        let mut settings = self.settings();
        settings.targets.get_mut(&table()).unwrap().layout = Arc::new(layout);
        settings
    }

    /// A new run of the same pipeline.
    pub(super) async fn open(&self) -> Arc<IcebergLake> {
        IcebergLake::open(self.settings()).await.unwrap()
    }

    /// The same catalog through the iceberg crate, as another writer opens it.
    pub(super) async fn foreign(&self) -> iceberg_catalog_sql::SqlCatalog {
        SqlCatalogBuilder::default()
            .uri(format!("sqlite://{}", self.0.join("catalog.db").display()))
            .warehouse_location(format!("file://{}", self.0.join("warehouse").display()))
            .sql_bind_style(SqlBindStyle::QMark)
            .with_storage_factory(Arc::new(iceberg::io::LocalFsStorageFactory))
            .load(DEFAULT_CATALOG_NAME, HashMap::new())
            .await
            .unwrap()
    }

    pub(super) async fn foreign_table(&self) -> Table {
        let catalog = self.foreign().await;
        catalog.load_table(&iceberg::TableIdent::from_strs(["shop", "orders"]).unwrap()).await.unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn table() -> TableName {
    TableName::new("public", "orders")
}

pub(super) fn column(name: &str, ty: ColumnType, nullable: bool) -> Column {
    Column {
        id: 0,
        name: name.into(),
        ty,
        nullable,
        native: NativeType::new(1, -1, "x"),
        usage: calve_core::ColumnUse::Values,
    }
}

pub(super) fn schema() -> Arc<TableSchema> {
    schema_of(vec![column("id", ColumnType::Long, false), column("name", ColumnType::String, true)], vec![0])
}

/// The tests' table with these columns.
pub(super) fn schema_of(columns: Vec<Column>, key: Vec<usize>) -> Arc<TableSchema> {
    Arc::new(TableSchema::new(table(), 1, columns, key))
}

/// Columns without names of their own.
pub(super) fn batch_of(columns: Vec<ArrayRef>) -> RecordBatch {
    let fields = columns.iter().enumerate().map(|(n, c)| Field::new(n.to_string(), c.data_type().clone(), true));
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns).unwrap()
}

pub(super) fn at(lsn: u64) -> Position {
    Position::Postgres(Lsn(lsn))
}

/// The one load of the tests' tables.
pub(super) fn load() -> CheckpointId {
    CheckpointId(Uuid::from_u128(1))
}

pub(super) fn stamp(lsn: u64, schema: &Arc<TableSchema>) -> Stamp {
    Stamp {
        checkpoint: CheckpointId(Uuid::new_v4()),
        position: at(lsn),
        schema: Arc::clone(schema),
        source: SourceIdentity("cluster/1/db/slot".into()),
        load: load(),
        changes: 0,
    }
}

/// Stages rows of `schema()`: puts after deletes.
pub(super) async fn stage(
    lake: &IcebergLake,
    puts: &[(i64, &str)],
    deletes: &[i64],
    replace: bool,
) -> Result<StagedDelta> {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(puts.iter().map(|(id, _)| *id).collect::<Int64Array>()),
        Arc::new(puts.iter().map(|(_, name)| Some(*name)).collect::<StringArray>()),
    ];
    stage_columns(lake, &schema(), columns, deletes, replace, Onto::Table).await
}

/// Stages rows of any schema whose key is one long.
pub(super) async fn stage_columns(
    lake: &IcebergLake,
    schema: &Arc<TableSchema>,
    columns: Vec<ArrayRef>,
    deletes: &[i64],
    replace: bool,
    onto: Onto,
) -> Result<StagedDelta> {
    let layout = lake.layout_for(schema, onto).await?;
    let mut data = Vec::new();
    if columns.first().is_some_and(|c| !c.is_empty()) {
        let batch = RecordBatch::try_new(Arc::clone(&layout.arrow), columns).unwrap();
        let path = lake.naming.data_file(&layout.location);
        data.push(write(&path, &batch, DataContentType::Data, None, layout.spec.spec_id()));
    }
    let mut removed = Vec::new();
    if !deletes.is_empty() {
        let keys: ArrayRef = Arc::new(Int64Array::from(deletes.to_vec()));
        let batch = RecordBatch::try_new(Arc::clone(&layout.key_arrow), vec![keys]).unwrap();
        let path = lake.naming.delete_file(&layout.location);
        let ids = Some(layout.key_ids.clone());
        removed.push(write(&path, &batch, DataContentType::EqualityDeletes, ids, layout.spec.spec_id()));
    }
    delta::stage(&layout, replace, data, removed, &lake.naming).await
}

/// Writes a Parquet file and describes it.
pub(super) fn write(
    location: &str,
    batch: &RecordBatch,
    content: DataContentType,
    equality_ids: Option<Vec<i32>>,
    spec_id: i32,
) -> DataFile {
    let path = storage::local_path(location).unwrap();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    DataFileBuilder::default()
        .content(content)
        .file_path(location.to_owned())
        .file_format(DataFileFormat::Parquet)
        .record_count(batch.num_rows() as u64)
        .file_size_in_bytes(path.metadata().unwrap().len())
        .equality_ids(equality_ids)
        .partition_spec_id(spec_id)
        .build()
        .unwrap()
}

/// The delta that was written.
pub(super) fn staged(written: Written) -> StagedDelta {
    match written {
        Written::Delta(delta) => delta,
        Written::Stops(reason) => panic!("{reason}"),
    }
}

/// A table under test, with the version its last commit left.
pub(super) struct Orders {
    pub(super) lake: Arc<IcebergLake>,
    pub(super) version: LakeVersion,
    pub(super) lsn: u64,
}

impl Orders {
    /// Creates the table.
    pub(super) async fn create(scratch: &Scratch) -> Self {
        Self::create_in(scratch.open().await).await
    }

    pub(super) async fn create_in(lake: Arc<IcebergLake>) -> Self {
        let version = lake.create(&schema()).await.unwrap().version;
        Self { lake, version, lsn: 0 }
    }

    /// Opens the table in another run.
    pub(super) async fn reopen(&self, scratch: &Scratch) -> Self {
        let lake = scratch.open().await;
        let version = lake.load(&table()).await.unwrap().unwrap().version;
        Self { lake, version, lsn: self.lsn }
    }

    pub(super) async fn stage(&self, puts: &[(i64, &str)], deletes: &[i64]) -> StagedDelta {
        stage(&self.lake, puts, deletes, false).await.unwrap()
    }

    pub(super) async fn stage_replace(&self, puts: &[(i64, &str)]) -> StagedDelta {
        stage(&self.lake, puts, &[], true).await.unwrap()
    }

    pub(super) fn next(&mut self, deltas: Vec<StagedDelta>) -> TableCommit {
        self.lsn += 10;
        TableCommit { deltas, stamp: Some(stamp(self.lsn, &schema())), ..TableCommit::default() }
    }

    pub(super) async fn try_commit(&mut self, commit: &TableCommit) -> Result<CommitReceipt> {
        let receipt = self.lake.commit(&table(), &self.version, commit).await?;
        self.version = receipt.version.clone();
        Ok(receipt)
    }

    /// Commits these deltas as one group.
    pub(super) async fn commit(&mut self, deltas: Vec<StagedDelta>) -> TableCommit {
        let commit = self.next(deltas);
        self.try_commit(&commit).await.unwrap();
        commit
    }

    pub(super) async fn put(&mut self, puts: &[(i64, &str)], deletes: &[i64]) -> TableCommit {
        let delta = self.stage(puts, deletes).await;
        self.commit(vec![delta]).await
    }

    pub(super) async fn reload(&mut self) -> calve_core::LakeTable {
        let loaded = self.lake.load(&table()).await.unwrap().unwrap();
        self.version = loaded.version.clone();
        loaded
    }

    pub(super) async fn as_table(&self) -> Table {
        let slot = self.lake.slot(&table()).unwrap();
        let known = self.lake.read(slot).await.unwrap().unwrap();
        Table::builder()
            .file_io(self.lake.io.clone())
            .metadata(Arc::clone(&known.at.metadata))
            .metadata_location(known.at.location.clone())
            .identifier(slot.ident.clone())
            .runtime(Runtime::try_current().unwrap())
            .disable_cache()
            .build()
            .unwrap()
    }

    pub(super) async fn manifests(&self) -> Vec<ManifestFile> {
        let table = self.as_table().await;
        let snapshot = table.metadata().current_snapshot().unwrap();
        read_list(&self::table(), &self.lake.io, snapshot).await.unwrap()
    }

    /// The rows now, by the crate's scan.
    pub(super) async fn rows(&self) -> Vec<(i64, String)> {
        rows_of(&self.as_table().await, None).await
    }

    pub(super) async fn rows_at(&self, snapshot: i64) -> Vec<(i64, String)> {
        rows_of(&self.as_table().await, Some(snapshot)).await
    }
}

/// Keys and names, doubled ones and all, in order.
pub(super) async fn rows_of(table: &Table, snapshot: Option<i64>) -> Vec<(i64, String)> {
    if table.metadata().current_snapshot().is_none() {
        return Vec::new();
    }
    let mut scan = table.scan().select(["id", "name"]);
    if let Some(snapshot) = snapshot {
        scan = scan.snapshot_id(snapshot);
    }
    let batches: Vec<RecordBatch> = scan.build().unwrap().to_arrow().await.unwrap().try_collect().await.unwrap();
    let mut rows = Vec::new();
    for batch in &batches {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        let names = batch.column(1).as_string::<i32>();
        rows.extend((0..batch.num_rows()).map(|row| (ids.value(row), names.value(row).to_owned())));
    }
    rows.sort();
    rows
}

pub(super) fn owned(rows: &[(i64, &str)]) -> Vec<(i64, String)> {
    rows.iter().map(|(id, name)| (*id, (*name).to_owned())).collect()
}

/// Every file under a directory, by location.
pub(super) fn files_under(path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![path.to_owned()];
    while let Some(directory) = todo.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
            } else {
                found.push(format!("file://{}", path.display()));
            }
        }
    }
    found.sort();
    found
}

/// xorshift64*, so that a failing history can be named by its seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// Below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }
}

//! The lake as the engine sees it: tables by their source's name, each with the state that was read or written last.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use calve_core::{
    CommitReceipt, Error, ErrorKind, Lake, LakeTable, LakeVersion, Onto, Result, TableCommit, TableName, TableSchema,
};
use iceberg::io::FileIO;
use iceberg::spec::{
    FormatVersion, ManifestFile, SortOrder, TableMetadata, TableMetadataBuilder, UnboundPartitionSpec,
};
use iceberg::{NamespaceIdent, TableIdent};
use uuid::Uuid;

use crate::catalog::{Catalog, SqlCatalog, TableAt, metadata_properties};
use crate::delta::TableLayout;
use crate::naming::{FileNaming, Writer, directory_name, metadata_version};
use crate::placement::{self, StagedPlacement};
use crate::settings::{LakeSettings, SnapshotRetentionSettings, Target};
use crate::stamp::{self, Marks};
use crate::writer::Encoders;
use crate::{cleanup, schema, storage};

/// Iceberg tables on local storage, in a SQL catalog.
#[derive(Debug)]
pub struct IcebergLake {
    pub(crate) naming: Arc<FileNaming>,
    pub(crate) io: FileIO,
    pub(crate) catalog: Box<dyn Catalog>,
    pub(crate) retention: SnapshotRetentionSettings,
    pub(crate) encoders: Arc<Encoders>,
    /// `file:///...`, without a slash at the end.
    warehouse: String,
    tables: BTreeMap<TableName, TableSlot>,
}

/// One table of the lake.
#[derive(Debug)]
pub(crate) struct TableSlot {
    pub(crate) source: TableName,
    pub(crate) ident: TableIdent,
    target: Target,
    /// Held while a commit is made, so that a process never races with itself.
    pub(crate) committing: tokio::sync::Mutex<()>,
    known: Mutex<Option<Arc<KnownTable>>>,
    layout: Mutex<Option<CachedLayout>>,
}

/// The layout made last, and what it was made from.
#[derive(Debug)]
struct CachedLayout {
    shape: TableShape,
    onto: Onto,
    source: Arc<TableSchema>,
    layout: Arc<TableLayout>,
}

/// What a layout depends on in a table's metadata.
#[derive(Debug, PartialEq, Eq)]
struct TableShape {
    uuid: Uuid,
    location: String,
    schema_id: i32,
    last_column_id: i32,
    spec_id: i32,
    sort_order_id: i64,
    write_properties: BTreeMap<String, String>,
}

/// A state of a table, as it was read or written last.
#[derive(Debug)]
pub(crate) struct KnownTable {
    pub(crate) at: TableAt,
    pub(crate) marks: Marks,
    /// The manifests of the current snapshot, where they were read or written already.
    pub(crate) manifests: Option<Arc<Vec<ManifestFile>>>,
}

impl TableSlot {
    pub(crate) fn known(&self) -> Option<Arc<KnownTable>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn remember(&self, known: Option<Arc<KnownTable>>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }
}

impl KnownTable {
    /// As `load` and a commit's receipt show it.
    fn as_lake_table(&self) -> LakeTable {
        let marks = &self.marks;
        LakeTable {
            version: LakeVersion(self.at.location.clone()),
            stamp: marks.stamp.clone(),
            rolled_back: stamp::rolled_back(&self.at.metadata, marks.stamp.as_ref()),
            complete_to: marks.complete_to.clone(),
            member_of: marks.member_of.clone(),
            stopped: marks.stopped.clone(),
        }
    }
}

impl IcebergLake {
    /// Opens the lake; makes its directory and its catalog where they are missing.
    pub async fn open(settings: LakeSettings) -> Result<Arc<Self>> {
        let naming = Arc::new(FileNaming::new(&settings.pipeline, settings.run)?);
        let warehouse = prepare_directory(settings.warehouse.clone()).await?;
        if let crate::CatalogSettings::Sqlite { path } = &settings.catalog
            && let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty())
        {
            prepare_directory(parent.to_owned()).await?;
        }
        let io = storage::file_io();
        let catalog =
            SqlCatalog::open(&settings.catalog, &settings.catalog_name, io.clone(), Arc::clone(&naming)).await?;
        let tables = settings.targets.into_iter().map(|(source, target)| (source.clone(), slot(source, target)));
        Ok(Arc::new(Self {
            naming,
            io,
            catalog: Box::new(catalog),
            retention: settings.retention,
            encoders: Arc::new(Encoders::for_this_machine(settings.encoders)),
            warehouse,
            tables: tables.collect(),
        }))
    }

    /// Where the metadata file of the table lies now; None where the table does not exist.
    pub async fn metadata_location(&self, table: &TableName) -> Result<Option<String>> {
        Ok(self.read(self.slot(table)?).await?.map(|known| known.at.location.clone()))
    }

    /// Takes the table off the catalog and removes its files. Returns whether it was there. A table of another owner is
    /// refused.
    pub async fn drop_table(&self, table: &TableName) -> Result<bool> {
        let slot = self.slot(table)?;
        let _committing = slot.committing.lock().await;
        let Some(known) = self.read(slot).await? else { return Ok(false) };
        let dropped = self.catalog.drop_table(&slot.ident).await?;
        slot.remember(None);
        let location = known.at.metadata.location();
        if !location.starts_with(&format!("{}/", self.warehouse)) {
            tracing::warn!(%table, %location, "the dropped table lies outside of the lake's directory; its files stay");
            return Ok(dropped);
        }
        self.io.delete_prefix(location).await.map_err(|e| {
            crate::error::iceberg_retry(
                format!("table {table} was dropped, but its directory {location} is still there"),
                e,
            )
        })?;
        Ok(dropped)
    }

    pub(crate) fn slot(&self, table: &TableName) -> Result<&TableSlot> {
        self.tables.get(table).ok_or_else(|| {
            Error::new(ErrorKind::Bug, format!("table {table} was asked for, and the lake was opened without it"))
        })
    }

    /// Reads the table from the catalog and checks that it is this pipeline's.
    pub(crate) async fn read(&self, slot: &TableSlot) -> Result<Option<Arc<KnownTable>>> {
        let known = slot.known();
        let Some(at) = self.catalog.load(&slot.ident, known.as_ref().map(|known| &known.at)).await? else {
            slot.remember(None);
            return Ok(None);
        };
        if let Some(known) = known
            && known.at.location == at.location
        {
            return Ok(Some(known));
        }
        self.check(slot, &at.metadata)?;
        let marks = Marks::read(at.metadata.properties(), &slot.source)?;
        let known = Arc::new(KnownTable { at, marks, manifests: None });
        slot.remember(Some(Arc::clone(&known)));
        Ok(Some(known))
    }

    fn check(&self, slot: &TableSlot, metadata: &TableMetadata) -> Result<()> {
        let target = slot.ident.to_string();
        stamp::check_owner(metadata.properties(), self.naming.pipeline(), &slot.source, &target)?;
        if metadata.format_version() != FormatVersion::V2 {
            return Err(Error::new(
                ErrorKind::Config,
                format!(
                    "table {target} in the lake has Iceberg format version {}, and calve writes version 2: drop it and \
                     have {} loaded again, or choose another target",
                    metadata.format_version(),
                    slot.source
                ),
            ));
        }
        Ok(())
    }

    /// How rows of `schema` lie in its table. Where the table's present schema cannot hold them, it is the schema that their
    /// commit gives the table.
    pub(crate) async fn layout_for(&self, schema: &Arc<TableSchema>, onto: Onto) -> Result<Arc<TableLayout>> {
        let slot = self.slot(&schema.table)?;
        let known = match slot.known() {
            Some(known) => known,
            None => self.read(slot).await?.ok_or_else(|| {
                Error::new(
                    ErrorKind::Retry,
                    format!("table {} is no longer in the lake; it is created again at the next start", slot.ident),
                )
            })?,
        };
        let mut cached = slot.layout.lock().unwrap_or_else(PoisonError::into_inner);
        let shape = TableShape::of(&known.at.metadata);
        if let Some(CachedLayout { shape: of, onto: put, source, layout }) = &*cached
            && *of == shape
            && *put == onto
            && (Arc::ptr_eq(source, schema) || source == schema)
        {
            return Ok(Arc::clone(layout));
        }
        let stamped = known.marks.schema.as_deref();
        let metadata = &known.at.metadata;
        let mut layout = TableLayout::new(schema, metadata, stamped, onto, &slot.target, self.io.clone())?;
        if onto == Onto::Table && cached.is_none() {
            tell_of_unapplied(slot, schema, metadata);
        }
        if let Some(before) = cached.as_ref().filter(|cached| cached.shape.uuid == shape.uuid) {
            layout.dictionaries = Arc::clone(&before.layout.dictionaries);
        }
        let layout = Arc::new(layout);
        *cached = Some(CachedLayout { shape, onto, source: Arc::clone(schema), layout: Arc::clone(&layout) });
        Ok(layout)
    }

    /// Why the table cannot have a schema's columns beside its partition fields.
    pub(crate) async fn taken_name(&self, schema: &TableSchema) -> Result<Option<String>> {
        let slot = self.slot(&schema.table)?;
        let known = match slot.known() {
            Some(known) => Some(known),
            None => self.read(slot).await?,
        };
        Ok(known.and_then(|known| placement::taken_name(&known.at.metadata, &schema.in_lake().columns)))
    }

    async fn create_table(&self, source: &TableSchema) -> Result<LakeTable> {
        let slot = self.slot(&source.table)?;
        let _committing = slot.committing.lock().await;
        let location = self.new_location(slot).await?;
        let mut properties: HashMap<String, String> = metadata_properties().into_iter().collect();
        properties.extend(slot.target.properties.clone());
        properties.extend(stamp::owner_properties(self.naming.pipeline(), source)?);
        let refused = |e: iceberg::Error| {
            let detail = e.message().to_owned();
            Error::with_source(
                ErrorKind::Config,
                format!(
                    "table {} cannot be created in the lake: {detail}; correct its properties in the configuration",
                    slot.ident
                ),
                e,
            )
        };
        let made = TableMetadataBuilder::new(
            schema::new_schema(&source.in_lake())?,
            UnboundPartitionSpec::builder().build(),
            SortOrder::unsorted_order(),
            location,
            FormatVersion::V2,
            properties,
        )
        .and_then(TableMetadataBuilder::build)
        .map_err(refused)?
        .metadata;
        let wanted = StagedPlacement::wanted(&slot.target, source, made.current_schema(), &made)?;
        let (metadata, _) = placement::moved(&source.table, &made, None, Some(&wanted))?;
        let at = self.catalog.create(&slot.ident, metadata).await.map_err(crate::catalog::CommitError::into_inner)?;
        let marks = Marks::read(at.metadata.properties(), &slot.source)?;
        let known = Arc::new(KnownTable { at, marks, manifests: Some(Arc::default()) });
        slot.remember(Some(Arc::clone(&known)));
        Ok(known.as_lake_table())
    }

    /// A directory that no other table has files in: one that was renamed in the catalog may still live under this name.
    async fn new_location(&self, slot: &TableSlot) -> Result<String> {
        let namespace = directory_name(&slot.target.namespace);
        let table = directory_name(&slot.target.name);
        let plain = format!("{}/{namespace}/{table}", self.warehouse);
        if self.is_free(&plain).await? {
            return Ok(plain);
        }
        let suffix = Uuid::new_v4().simple().to_string();
        Ok(format!("{plain}-{}", &suffix[..8]))
    }

    /// Whether a directory holds nothing, or nothing but what a creation that ended half-way left there.
    async fn is_free(&self, directory: &str) -> Result<bool> {
        let mut free = cleanup::entry_names(&format!("{directory}/data")).await?.is_empty();
        for name in cleanup::entry_names(directory).await? {
            free &= name == "data" || name == "metadata";
        }
        for name in cleanup::entry_names(&format!("{directory}/metadata")).await? {
            free &= metadata_version(&name) == Some(0) && self.naming.writer_of(&name) != Writer::Foreign;
        }
        Ok(free)
    }
}

#[async_trait]
impl Lake for IcebergLake {
    async fn load(&self, table: &TableName) -> Result<Option<LakeTable>> {
        Ok(self.read(self.slot(table)?).await?.map(|known| known.as_lake_table()))
    }

    async fn create(&self, schema: &TableSchema) -> Result<LakeTable> {
        self.create_table(schema).await
    }

    async fn commit(&self, table: &TableName, version: &LakeVersion, commit: &TableCommit) -> Result<CommitReceipt> {
        self.commit_table(self.slot(table)?, version, commit).await
    }

    async fn unreferenced_files(&self, table: &TableName, keep: &BTreeSet<String>) -> Result<Vec<String>> {
        self.find_unreferenced(self.slot(table)?, keep).await
    }

    async fn delete_unreferenced(&self, table: &TableName, files: &[String]) -> Result<usize> {
        self.remove_unreferenced(self.slot(table)?, files).await
    }
}

impl TableShape {
    fn of(metadata: &TableMetadata) -> Self {
        let write = metadata.properties().iter().filter(|(key, _)| key.starts_with("write."));
        Self {
            uuid: metadata.uuid(),
            location: metadata.location().to_owned(),
            schema_id: metadata.current_schema_id(),
            last_column_id: metadata.last_column_id(),
            spec_id: metadata.default_partition_spec_id(),
            sort_order_id: metadata.default_sort_order_id(),
            write_properties: write.map(|(key, value)| (key.clone(), value.clone())).collect(),
        }
    }
}

/// What the configuration says of the table's layout counts when its rows are read again.
fn tell_of_unapplied(slot: &TableSlot, schema: &TableSchema, metadata: &TableMetadata) {
    // What the table as it is could not have is of no matter before that.
    let wanted = StagedPlacement::wanted(&slot.target, schema, metadata.current_schema(), metadata);
    if wanted.is_ok_and(|wanted| !wanted.is_placed(metadata)) {
        let table = &slot.source;
        tracing::warn!(%table, "its partition and sort of the configuration count when the table is read again (calve reload {table})");
    }
}

fn slot(source: TableName, target: Target) -> TableSlot {
    let ident = TableIdent::new(NamespaceIdent::new(target.namespace.clone()), target.name.clone());
    TableSlot {
        source,
        ident,
        target,
        committing: tokio::sync::Mutex::default(),
        known: Mutex::default(),
        layout: Mutex::default(),
    }
}

/// Makes a directory where it is missing and returns its location.
async fn prepare_directory(directory: PathBuf) -> Result<String> {
    let absolute = std::path::absolute(&directory).unwrap_or(directory);
    let Some(text) = absolute.to_str().map(ToOwned::to_owned) else {
        return Err(Error::new(
            ErrorKind::Config,
            format!("the lake directory {} is not valid UTF-8; choose another", absolute.display()),
        ));
    };
    let location = format!("file://{}", text.trim_end_matches('/'));
    let made = tokio::task::spawn_blocking(move || storage::make_directories(&absolute)).await;
    match made {
        Ok(Ok(())) => Ok(location),
        Ok(Err(error)) => Err(storage::file_error("create the lake directory", &text, error)),
        Err(panicked) => Err(Error::with_source(ErrorKind::Bug, "making the lake directory failed", panicked)),
    }
}

//! A staged delta in the lake's own words: manifests that hold nothing but its new files, written before the commit, and
//! what the commit must know of them.
//!
//! The entries of these manifests name no snapshot and no sequence number; both are inherited from the manifest list of
//! whichever snapshot carries them at last. So a commit that is retried on another base keeps them as they are.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::SchemaRef as ArrowSchemaRef;
use calve_core::{Error, ErrorKind, Onto, Result, StagedDelta, TableName, TableSchema};
use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFile, FieldSummary, ManifestContentType, ManifestFile, ManifestWriterBuilder,
    PartitionSpecRef, Schema, SchemaRef, TableMetadata, UNASSIGNED_SEQUENCE_NUMBER,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{iceberg_bug, iceberg_retry};
use crate::fit::{self, Fit};
use crate::naming::FileNaming;
use crate::partition::Partitioning;
use crate::placement::{self, StagedPlacement};
use crate::schema;
use crate::settings::Target;
use crate::writer::{Dictionaries, Sorting, field_id};

/// Files one manifest lists at most; about 8 MB of manifest for a table of 50 columns.
const FILES_A_MANIFEST: usize = 10_000;

/// What a writer must know of the table it writes files for.
#[derive(Clone, Debug)]
pub(crate) struct TableLayout {
    /// The source's name of the table, for messages.
    pub(crate) table: TableName,
    /// The table's directory, `file:///...`, without a slash at the end.
    pub(crate) location: String,
    /// The table's files.
    pub(crate) io: FileIO,
    /// The table's identity in the catalog.
    pub(crate) uuid: Uuid,
    /// The schema that the files are written under.
    pub(crate) schema: SchemaRef,
    /// Where the table does not have that schema yet: the id of the one it has, which the commit replaces.
    pub(crate) evolves: Option<i32>,
    /// What the table lacks of what it is to have from the load on.
    pub(crate) places: Option<StagedPlacement>,
    /// The partition spec that data files are written under.
    pub(crate) spec: PartitionSpecRef,
    /// How rows are put into its partitions.
    pub(crate) row_partitions: Partitioning,
    /// The one that files of deletes are written under: the same, where the key says in which partition a row is; else one of
    /// no fields, whose deletes reach every partition.
    pub(crate) delete_spec: Option<PartitionSpecRef>,
    /// How keys are put into its partitions.
    pub(crate) key_partitions: Partitioning,
    /// The order of the rows of a file.
    pub(crate) sorting: Sorting,
    /// Of rows: the source's columns in the source's order, then those of the table's mode, with field ids.
    pub(crate) arrow: ArrowSchemaRef,
    /// Of equality deletes: the key's columns in the key's order, with field ids.
    pub(crate) key_arrow: ArrowSchemaRef,
    /// Field ids of the key, in the key's order.
    pub(crate) key_ids: Vec<i32>,
    /// The table's own properties, such as `write.parquet.compression-codec`.
    pub(crate) properties: HashMap<String, String>,
    /// What became of the dictionaries of the table's columns so far.
    pub(crate) dictionaries: Arc<Dictionaries>,
}

impl TableLayout {
    /// How rows of `source` lie in the table that `metadata` describes. `stamped` is the source schema it recorded last, `target`
    /// what a load makes of the table.
    pub(crate) fn new(
        source: &TableSchema,
        metadata: &TableMetadata,
        stamped: Option<&TableSchema>,
        onto: Onto,
        target: &Target,
        io: FileIO,
    ) -> Result<Self> {
        placement::check_spec(&source.table, metadata)?;
        let current = metadata.current_schema();
        let (lake, stamped) = (source.in_lake(), stamped.map(TableSchema::in_lake));
        let held = placement::held_columns(metadata);
        let fit = fit::fit(&lake, current, stamped.as_deref(), metadata.last_column_id(), &held, onto)?;
        let (grown, evolves) = match fit {
            Fit::Present => (None, None),
            Fit::Evolved(schema) => (Some(*schema), Some(current.schema_id())),
        };
        let places = match onto {
            Onto::Table => None,
            Onto::Load => {
                let wanted = StagedPlacement::wanted(target, source, grown.as_ref().unwrap_or(current), metadata)?;
                Some(wanted).filter(|wanted| !wanted.is_present(metadata))
            }
        };
        // Under the numbers that all of it will have.
        let (metadata, _) = placement::moved(&source.table, metadata, grown, places.as_ref())?;
        let schema = Arc::clone(metadata.current_schema());
        let arrow = schema::arrow_schema(&lake, &schema)?;
        let (key_arrow, key_ids) = schema::arrow_key_schema(source, &schema)?;
        let spec = Arc::clone(metadata.default_partition_spec());
        let misfit = |why: String| {
            let what = format!("table {}: its partition spec {} does not fit it: {why}", source.table, spec.spec_id());
            Error::new(ErrorKind::Bug, what)
        };
        let row_ids: Vec<i32> = arrow.fields().iter().filter_map(|field| field_id(field)).collect();
        let row_partitions = Partitioning::of(&spec, &schema, &row_ids).map_err(misfit)?;
        let key_tells = spec.fields().iter().all(|by| key_ids.contains(&by.source_id));
        let (delete_spec, key_partitions) = if key_tells {
            (Some(Arc::clone(&spec)), Partitioning::of(&spec, &schema, &key_ids).map_err(misfit)?)
        } else {
            (placement::of_all_partitions(&metadata), Partitioning::default())
        };
        let sorting = Sorting::of(metadata.default_sort_order(), &row_ids);
        Ok(Self {
            table: source.table.clone(),
            location: metadata.location().to_owned(),
            io,
            uuid: metadata.uuid(),
            schema,
            evolves,
            places,
            spec,
            row_partitions,
            delete_spec,
            key_partitions,
            sorting,
            arrow,
            key_arrow,
            key_ids,
            properties: metadata.properties().clone(),
            dictionaries: Arc::default(),
        })
    }
}

/// [`StagedDelta::body`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DeltaBody {
    /// The table the files were written for; another table under the same name must not get them.
    pub(crate) table_uuid: Uuid,
    /// The schema the files have: its id in the table, or where the table lacks it, itself.
    pub(crate) schema: StagedSchema,
    /// What the table is to have from here on, where it lacked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) places: Option<StagedPlacement>,
    /// The partition spec that data files were written under.
    pub(crate) spec_id: i32,
    /// In the order they are to be listed.
    pub(crate) manifests: Vec<StagedManifest>,
    /// What the snapshot's summary says of them.
    pub(crate) added: FileTotals,
}

/// The schema that staged files have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StagedSchema {
    /// The table's own of this id.
    Id(i32),
    /// One that the commit gives to a table whose present one is `over`.
    Added {
        /// With the ids of new columns.
        schema: Box<Schema>,
        /// An id.
        over: i32,
    },
}

/// Counts of files, and of what is in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileTotals {
    /// Data files.
    pub(crate) data_files: u64,
    /// Rows in data files.
    pub(crate) records: u64,
    /// Files of equality deletes.
    pub(crate) equality_delete_files: u64,
    /// Keys in them.
    pub(crate) equality_deletes: u64,
    /// Files of position deletes; only others write these.
    pub(crate) position_delete_files: u64,
    /// Positions in them.
    pub(crate) position_deletes: u64,
    /// Bytes of all these files.
    pub(crate) bytes: u64,
}

impl FileTotals {
    /// Counts one file more.
    pub(crate) fn add(&mut self, file: &DataFile) {
        self.bytes += file.file_size_in_bytes();
        match file.content_type() {
            DataContentType::Data => {
                self.data_files += 1;
                self.records += file.record_count();
            }
            DataContentType::EqualityDeletes => {
                self.equality_delete_files += 1;
                self.equality_deletes += file.record_count();
            }
            DataContentType::PositionDeletes => {
                self.position_delete_files += 1;
                self.position_deletes += file.record_count();
            }
        }
    }

    /// Delete files of both kinds.
    pub(crate) fn delete_files(&self) -> u64 {
        self.equality_delete_files + self.position_delete_files
    }
}

/// A manifest of new files only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StagedManifest {
    /// Where it lies.
    pub(crate) path: String,
    /// Bytes.
    pub(crate) length: i64,
    /// Whether it lists delete files.
    pub(crate) deletes: bool,
    /// The partition spec they were written under; None: that of data files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) spec_id: Option<i32>,
    /// Files listed.
    pub(crate) files: u32,
    /// Rows (or deletes) in them.
    pub(crate) rows: u64,
    /// Bounds of the partition fields, one for each of the spec's.
    pub(crate) partitions: Vec<FieldSummary>,
}

impl StagedManifest {
    /// As the manifest list of `snapshot` lists it, with its sequence number resolved. `spec_id` is that of data files.
    pub(crate) fn listed(&self, spec_id: i32, snapshot_id: i64, sequence_number: i64) -> ManifestFile {
        ManifestFile {
            manifest_path: self.path.clone(),
            manifest_length: self.length,
            partition_spec_id: self.spec_id.unwrap_or(spec_id),
            content: if self.deletes { ManifestContentType::Deletes } else { ManifestContentType::Data },
            sequence_number,
            min_sequence_number: sequence_number,
            added_snapshot_id: snapshot_id,
            added_files_count: Some(self.files),
            existing_files_count: Some(0),
            deleted_files_count: Some(0),
            added_rows_count: Some(self.rows),
            existing_rows_count: Some(0),
            deleted_rows_count: Some(0),
            partitions: Some(self.partitions.clone()),
            key_metadata: None,
            first_row_id: None,
        }
    }
}

/// Reads a delta's body back, as it came out of an intent.
pub(crate) fn body(table: &TableName, delta: &StagedDelta) -> Result<DeltaBody> {
    DeltaBody::deserialize(&delta.body).map_err(|e| {
        Error::with_source(
            ErrorKind::Corrupt,
            format!(
                "table {table}: a staged checkpoint in local state cannot be read ({e}); delete the local state to have \
                 it staged again from the log"
            ),
            e,
        )
    })
}

/// Writes the manifests of a delta's files and puts the delta together. Everything is durable on return.
///
/// `data` and `deletes` are written under the layout's specs, and are durable already.
pub(crate) async fn stage(
    layout: &TableLayout,
    replace: bool,
    data: Vec<DataFile>,
    deletes: Vec<DataFile>,
    naming: &FileNaming,
) -> Result<StagedDelta> {
    let mut files: Vec<String> = data.iter().chain(&deletes).map(|f| f.file_path().to_owned()).collect();
    let (body, manifests) = write_manifests(layout, data, deletes, naming).await?;
    files.extend(manifests);
    let lengths: u64 = body.manifests.iter().map(|m| u64::try_from(m.length).unwrap_or(0)).sum();
    Ok(StagedDelta {
        replace,
        reshapes: layout.evolves.is_some() || layout.places.is_some(),
        rows: body.added.records,
        deletes: body.added.equality_deletes,
        nulled: 0,
        clamped: 0,
        changes: 0,
        bytes: body.added.bytes + lengths,
        files,
        body: serde_json::to_value(&body).map_err(|e| {
            Error::with_source(ErrorKind::Bug, format!("table {}: a staged delta has no JSON form", layout.table), e)
        })?,
    })
}

/// Writes the manifests of these files; returns what the commit needs of them, and their paths.
pub(crate) async fn write_manifests(
    layout: &TableLayout,
    data: Vec<DataFile>,
    deletes: Vec<DataFile>,
    naming: &FileNaming,
) -> Result<(DeltaBody, Vec<String>)> {
    let mut added = FileTotals::default();
    for file in data.iter().chain(&deletes) {
        added.add(file);
    }
    let mut manifests = Vec::new();
    for (files, is_deletes) in [(data, false), (deletes, true)] {
        let mut files = files.into_iter().peekable();
        while files.peek().is_some() {
            let chunk: Vec<_> = files.by_ref().take(FILES_A_MANIFEST).collect();
            manifests.push(write_manifest(layout, chunk, is_deletes, naming.manifest(&layout.location)).await?);
        }
    }
    let paths = manifests.iter().map(|m| m.path.clone()).collect();
    let schema = match layout.evolves {
        Some(over) => StagedSchema::Added { schema: Box::new((*layout.schema).clone()), over },
        None => StagedSchema::Id(layout.schema.schema_id()),
    };
    let spec_id = layout.spec.spec_id();
    let places = layout.places.clone();
    Ok((DeltaBody { table_uuid: layout.uuid, schema, places, spec_id, manifests, added }, paths))
}

async fn write_manifest(
    layout: &TableLayout,
    files: Vec<DataFile>,
    deletes: bool,
    path: String,
) -> Result<StagedManifest> {
    let failed = |e| iceberg_retry(format!("table {}: cannot write the manifest {path}", layout.table), e);
    let output = layout.io.new_output(&path).map_err(failed)?;
    let spec = if deletes { layout.delete_spec.as_ref().unwrap_or(&layout.spec) } else { &layout.spec };
    let builder = ManifestWriterBuilder::new(output, None, Arc::clone(&layout.schema), (**spec).clone());
    let mut writer = if deletes { builder.build_v2_deletes() } else { builder.build_v2_data() };
    for file in files {
        writer.add_file(file, UNASSIGNED_SEQUENCE_NUMBER).map_err(|e| {
            iceberg_bug(format!("table {}: a staged file does not belong into its manifest", layout.table), e)
        })?;
    }
    let written = writer.write_manifest_file().await.map_err(failed)?;
    Ok(StagedManifest {
        path,
        length: written.manifest_length,
        deletes,
        spec_id: Some(spec.spec_id()).filter(|id| *id != layout.spec.spec_id()),
        files: written.added_files_count.unwrap_or(0),
        rows: written.added_rows_count.unwrap_or(0),
        partitions: written.partitions.unwrap_or_default(),
    })
}

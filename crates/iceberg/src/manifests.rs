//! Manifests of a table as commits carry them from snapshot to snapshot: read, merged while they are small, and turned
//! into deletions when everything goes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use calve_core::{ErrorKind, Result, TableName};
use iceberg::io::FileIO;
use iceberg::spec::{
    DataFile, DataFileBuilder, Datum, FormatVersion, Manifest, ManifestContentType, ManifestEntryRef, ManifestFile,
    ManifestList, ManifestListWriter, ManifestWriter, ManifestWriterBuilder, PartitionSpec, Schema, SchemaRef,
    SnapshotRef, TableMetadata, Type,
};

use crate::delta::FileTotals;
use crate::error::{iceberg_bug, iceberg_corrupt, iceberg_retry};
use crate::naming::FileNaming;
use crate::partition;
use crate::schema::widens;

/// A manifest of this length is left as it is.
const FULL_BYTES: i64 = 8 << 20;
/// Files that one manifest lists at most when it is written here.
const FULL_FILES: usize = 20_000;
/// So many manifests of one tier are merged into one of the next. Each file is rewritten once a tier, so that a commit
/// costs, on average, the logarithm of the number of files; and no tier holds more manifests than this.
const FANOUT: u64 = 8;

/// Writes manifests that belong to one snapshot of one table, and remembers which files it wrote.
#[derive(Debug)]
pub(crate) struct ManifestStore<'a> {
    pub(crate) table: &'a TableName,
    pub(crate) io: &'a FileIO,
    pub(crate) naming: &'a FileNaming,
    /// The table as the commit found it.
    pub(crate) metadata: &'a TableMetadata,
    /// Files written, for removal when the commit is certainly lost.
    pub(crate) written: Vec<String>,
}

/// The manifests that a snapshot lists.
pub(crate) async fn read_list(table: &TableName, io: &FileIO, snapshot: &SnapshotRef) -> Result<Vec<ManifestFile>> {
    let path = snapshot.manifest_list();
    let failed = |e| iceberg_retry(format!("table {table}: cannot read the manifest list {path}"), e);
    let bytes = io.new_input(path).map_err(failed)?.read().await.map_err(failed)?;
    let list = ManifestList::parse_with_version(&bytes, FormatVersion::V2)
        .map_err(|e| iceberg_corrupt(format!("table {table}: the manifest list {path} cannot be read"), e))?;
    Ok(list.consume_entries().into_iter().collect())
}

/// The entries of a manifest, with sequence numbers and snapshots inherited from its list.
pub(crate) async fn read_manifest(table: &TableName, io: &FileIO, manifest: &ManifestFile) -> Result<Manifest> {
    let path = &manifest.manifest_path;
    manifest.load_manifest(io).await.map_err(|e| {
        let failed = if e.kind() == iceberg::ErrorKind::DataInvalid { iceberg_corrupt } else { iceberg_retry };
        failed(format!("table {table}: cannot read the manifest {path}"), e)
    })
}

/// Whether any file of the manifest is still part of the table.
pub(crate) fn is_live(manifest: &ManifestFile) -> bool {
    manifest.has_added_files() || manifest.has_existing_files()
}

/// Chooses manifests to merge: for each content and partition spec, those of a tier that has filled up. Tier t holds
/// manifests of `FANOUT^t` files and more.
fn due_for_merging(manifests: &[ManifestFile]) -> Vec<Vec<ManifestFile>> {
    let mut tiers: BTreeMap<(bool, i32, u32), Vec<&ManifestFile>> = BTreeMap::new();
    for manifest in manifests.iter().filter(|m| m.manifest_length < FULL_BYTES) {
        let tier = live_files(manifest).max(1).ilog(FANOUT);
        let deletes = manifest.content == ManifestContentType::Deletes;
        tiers.entry((deletes, manifest.partition_spec_id, tier)).or_default().push(manifest);
    }
    let full = tiers.into_values().filter(|tier| tier.len() as u64 >= FANOUT);
    full.map(|tier| tier.into_iter().cloned().collect()).collect()
}

fn live_files(manifest: &ManifestFile) -> u64 {
    u64::from(manifest.added_files_count.unwrap_or(0)) + u64::from(manifest.existing_files_count.unwrap_or(0))
}

/// Entries that may stand in one manifest.
#[derive(Debug)]
struct Gathered {
    content: ManifestContentType,
    spec: PartitionSpec,
    /// That the bounds are read by.
    schema: SchemaRef,
    entries: Vec<ManifestEntryRef>,
}

impl ManifestStore<'_> {
    /// Merges what is due among the manifests that `snapshot_id` takes over from its parent. `schema` is that of the snapshot.
    ///
    /// A manifest that cannot be made sense of is left as it is: merging is housekeeping, which no commit shall fail on.
    pub(crate) async fn merge(
        &mut self,
        manifests: Vec<ManifestFile>,
        schema: &SchemaRef,
        snapshot_id: i64,
        sequence_number: i64,
    ) -> Result<Vec<ManifestFile>> {
        let mut result = manifests;
        for due in due_for_merging(&result) {
            if !self.may_be_put_under(schema, &due) {
                continue;
            }
            let Some(group) = self.gather(&due, schema).await? else { continue };
            let merged = self.write_existing(group, snapshot_id, sequence_number).await?;
            result.retain(|m| !due.iter().any(|gone| gone.manifest_path == m.manifest_path));
            result.extend(merged);
        }
        Ok(result)
    }

    /// Manifests that record every file of `manifests` as deleted by `snapshot_id`, and what was in those files.
    ///
    /// The files of a manifest that cannot be made sense of are not recorded; they are no part of the table any more all the same.
    pub(crate) async fn delete_all(
        &mut self,
        manifests: &[ManifestFile],
        snapshot_id: i64,
        sequence_number: i64,
    ) -> Result<(Vec<ManifestFile>, FileTotals)> {
        let mut removed = FileTotals::default();
        let mut deleted = Vec::new();
        for manifest in manifests {
            let Some(group) = self.readable(manifest).await? else { continue };
            for chunk in group.entries.chunks(FULL_FILES) {
                let mut writer = self.writer(&group, snapshot_id)?;
                for entry in chunk {
                    removed.add(&entry.data_file);
                    let added_at = entry.sequence_number.unwrap_or(0);
                    writer
                        .add_delete_file(
                            entry.data_file.clone(),
                            added_at,
                            entry.file_sequence_number.or(Some(added_at)),
                        )
                        .map_err(|e| self.misplaced(e))?;
                }
                deleted.push(self.finish(writer, snapshot_id, sequence_number).await?);
            }
        }
        Ok((deleted, removed))
    }

    /// Writes a manifest list and returns its path.
    pub(crate) async fn write_list(
        &mut self,
        manifests: &[ManifestFile],
        snapshot_id: i64,
        parent: Option<i64>,
        sequence_number: i64,
    ) -> Result<String> {
        let path = self.naming.manifest_list(self.metadata.location());
        let table = self.table;
        let failed = |e| iceberg_retry(format!("table {table}: cannot write the manifest list {path}"), e);
        self.written.push(path.clone());
        let file = self.io.new_output(&path).map_err(failed)?.writer().await.map_err(failed)?;
        let mut writer = ManifestListWriter::v2(file, snapshot_id, parent, sequence_number);
        writer
            .add_manifests(manifests.iter().cloned())
            .map_err(|e| iceberg_bug(format!("table {table}: a manifest does not belong into its list"), e))?;
        writer.close().await.map_err(failed)?;
        Ok(path)
    }

    /// The live entries of a manifest. None where the manifest cannot be made sense of.
    async fn readable(&self, manifest: &ManifestFile) -> Result<Option<Gathered>> {
        let (entries, metadata) = match read_manifest(self.table, self.io, manifest).await {
            Ok(manifest) => manifest.into_parts(),
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                tracing::warn!(table = %self.table, %error, "a manifest is left as it is");
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        Ok(Some(Gathered {
            content: manifest.content,
            spec: metadata.partition_spec().clone(),
            schema: Arc::clone(metadata.schema()),
            entries: entries.into_iter().filter(|entry| entry.is_alive()).collect(),
        }))
    }

    /// Whether manifests of one spec can stand under a schema: the fields that an old spec is of may be gone.
    fn may_be_put_under(&self, schema: &Schema, manifests: &[ManifestFile]) -> bool {
        let spec = manifests.first().and_then(|m| self.metadata.partition_spec_by_id(m.partition_spec_id));
        spec.is_some_and(|spec| spec.partition_type(schema).is_ok())
    }

    /// The live entries of manifests of one content and one spec, with bounds as `schema` has them. None where one of them
    /// cannot be made sense of.
    async fn gather(&self, manifests: &[ManifestFile], schema: &SchemaRef) -> Result<Option<Gathered>> {
        let mut gathered: Option<Gathered> = None;
        for manifest in manifests {
            let Some(one) = self.readable(manifest).await? else { return Ok(None) };
            match &mut gathered {
                Some(gathered) => gathered.entries.extend(one.entries),
                None => gathered = Some(Gathered { schema: Arc::clone(schema), ..one }),
            }
        }
        Ok(gathered)
    }

    async fn write_existing(
        &mut self,
        group: Gathered,
        snapshot_id: i64,
        sequence_number: i64,
    ) -> Result<Vec<ManifestFile>> {
        let mut written = Vec::new();
        for chunk in group.entries.chunks(FULL_FILES) {
            let mut writer = self.writer(&group, snapshot_id)?;
            for entry in chunk {
                let added_at = entry.sequence_number.unwrap_or(0);
                writer
                    .add_existing_file(
                        self.under(&group, &entry.data_file)?,
                        entry.snapshot_id.unwrap_or(snapshot_id),
                        added_at,
                        entry.file_sequence_number.or(Some(added_at)),
                    )
                    .map_err(|e| self.misplaced(e))?;
            }
            written.push(self.finish(writer, snapshot_id, sequence_number).await?);
        }
        Ok(written)
    }

    /// A file described for its new manifest, whose schema may have wider types than the one that it was described under.
    fn under(&self, group: &Gathered, file: &DataFile) -> Result<DataFile> {
        let schema = &*group.schema;
        let fits = |bounds: &HashMap<i32, Datum>| {
            bounds.iter().all(|(id, bound)| {
                schema.field_by_id(*id).and_then(|f| f.field_type.as_primitive_type()) == Some(bound.data_type())
            })
        };
        let partition = partition::under(&group.spec, schema, file.partition());
        if partition == *file.partition() && fits(file.lower_bounds()) && fits(file.upper_bounds()) {
            return Ok(file.clone());
        }
        let mut builder = DataFileBuilder::default();
        builder
            .content(file.content_type())
            .file_path(file.file_path().to_owned())
            .file_format(file.file_format())
            .partition(partition)
            .partition_spec_id(group.spec.spec_id())
            .record_count(file.record_count())
            .file_size_in_bytes(file.file_size_in_bytes())
            .column_sizes(file.column_sizes().clone())
            .value_counts(file.value_counts().clone())
            .null_value_counts(file.null_value_counts().clone())
            .nan_value_counts(file.nan_value_counts().clone())
            .lower_bounds(bounds_under(schema, file.lower_bounds()))
            .upper_bounds(bounds_under(schema, file.upper_bounds()))
            .key_metadata(file.key_metadata().map(<[u8]>::to_vec))
            .split_offsets(file.split_offsets().map(<[i64]>::to_vec))
            .equality_ids(file.equality_ids())
            .first_row_id(file.first_row_id())
            .referenced_data_file(file.referenced_data_file())
            .content_offset(file.content_offset())
            .content_size_in_bytes(file.content_size_in_bytes());
        if let Some(order) = file.sort_order_id() {
            builder.sort_order_id(order);
        }
        builder.build().map_err(|e| {
            let text = format!("table {}: a file cannot be described anew: {e}", self.table);
            calve_core::Error::with_source(ErrorKind::Bug, text, e)
        })
    }

    fn writer(&mut self, of: &Gathered, snapshot_id: i64) -> Result<ManifestWriter> {
        let path = self.naming.manifest(self.metadata.location());
        let output = self
            .io
            .new_output(&path)
            .map_err(|e| iceberg_retry(format!("table {}: cannot write the manifest {path}", self.table), e))?;
        self.written.push(path);
        let builder = ManifestWriterBuilder::new(output, Some(snapshot_id), Arc::clone(&of.schema), of.spec.clone());
        Ok(match of.content {
            ManifestContentType::Data => builder.build_v2_data(),
            ManifestContentType::Deletes => builder.build_v2_deletes(),
        })
    }

    async fn finish(&self, writer: ManifestWriter, snapshot_id: i64, sequence_number: i64) -> Result<ManifestFile> {
        let mut manifest = writer
            .write_manifest_file()
            .await
            .map_err(|e| iceberg_retry(format!("table {}: cannot write a manifest", self.table), e))?;
        manifest.added_snapshot_id = snapshot_id;
        manifest.sequence_number = sequence_number;
        if manifest.min_sequence_number < 0 {
            manifest.min_sequence_number = sequence_number;
        }
        Ok(manifest)
    }

    fn misplaced(&self, cause: iceberg::Error) -> calve_core::Error {
        iceberg_bug(format!("table {}: a file does not belong into its manifest", self.table), cause)
    }
}

/// Bounds as a schema has them: of a type that has grown, as the wider one. A bound of what the schema does not know is left out.
fn bounds_under(schema: &Schema, bounds: &HashMap<i32, Datum>) -> HashMap<i32, Datum> {
    let under = |(id, bound): (&i32, &Datum)| {
        let to = &*schema.field_by_id(*id)?.field_type;
        if !widens(&Type::Primitive(bound.data_type().clone()), to) {
            return None;
        }
        // The shorter form of the narrower type is what the wider one may be read from (spec, "Binary single-value serialization").
        let grown = Datum::try_from_bytes(&bound.to_bytes().ok()?, to.as_primitive_type()?.clone()).ok()?;
        Some((*id, grown))
    };
    bounds.iter().filter_map(under).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: usize, files: u32, length: i64, content: ManifestContentType, spec: i32) -> ManifestFile {
        ManifestFile {
            manifest_path: name.to_string(),
            manifest_length: length,
            partition_spec_id: spec,
            content,
            sequence_number: 1,
            min_sequence_number: 1,
            added_snapshot_id: 1,
            added_files_count: Some(files),
            existing_files_count: Some(0),
            deleted_files_count: Some(0),
            added_rows_count: Some(0),
            existing_rows_count: Some(0),
            deleted_rows_count: Some(0),
            partitions: None,
            key_metadata: None,
            first_row_id: None,
        }
    }

    #[test]
    fn only_small_manifests_of_one_kind_are_merged() {
        use ManifestContentType::{Data, Deletes};
        let mut all: Vec<_> = (0..7).map(|i| manifest(i, 1, 10, Data, 0)).collect();
        assert!(due_for_merging(&all).is_empty());
        all.push(manifest(7, 1, FULL_BYTES, Data, 0));
        all.push(manifest(8, 1, 10, Deletes, 0));
        all.push(manifest(9, 1, 10, Data, 1));
        all.push(manifest(10, 9, 10, Data, 0));
        assert!(due_for_merging(&all).is_empty());
        all.push(manifest(11, 7, 10, Data, 0));
        let due = due_for_merging(&all);
        assert_eq!(due.len(), 1);
        assert_eq!(due[0].len(), 8);
    }

    /// What a merge does to counts, without files: the number of manifests and the work a commit.
    #[test]
    fn twenty_thousand_commits_keep_few_manifests() {
        use ManifestContentType::Data;
        let mut all: Vec<ManifestFile> = Vec::new();
        let (mut rewritten, mut most) = (0, 0);
        for commit in 0..20_000 {
            for due in due_for_merging(&all) {
                let files: u64 = due.iter().map(live_files).sum();
                let bytes: i64 = due.iter().map(|m| m.manifest_length).sum();
                rewritten += files;
                all.retain(|m| due.iter().all(|gone| gone.manifest_path != m.manifest_path));
                all.push(manifest(100_000 + commit, u32::try_from(files).unwrap(), bytes, Data, 0));
            }
            all.push(manifest(commit, 1, 400, Data, 0));
            most = most.max(all.len());
        }
        assert!(most <= 45, "{most} manifests at once");
        assert!(rewritten <= 20_000 * 6, "{rewritten} files rewritten");
    }
}

//! Manifests of a table as commits carry them from snapshot to snapshot: read, merged while they are small, and turned
//! into deletions when everything goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use calve_core::{Result, TableName};
use iceberg::io::FileIO;
use iceberg::spec::{
    FormatVersion, Manifest, ManifestContentType, ManifestEntryRef, ManifestFile, ManifestList, ManifestListWriter,
    ManifestMetadata, ManifestWriter, ManifestWriterBuilder, SnapshotRef,
};

use crate::delta::FileTotals;
use crate::error::{iceberg_bug, iceberg_corrupt, iceberg_retry};
use crate::naming::FileNaming;

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
    pub(crate) location: &'a str,
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
    manifest
        .load_manifest(io)
        .await
        .map_err(|e| iceberg_retry(format!("table {table}: cannot read the manifest {path}"), e))
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

/// Files of one kind that may share a manifest: it has one content, one spec, and one schema that its bounds are read by.
type Group = (bool, i32, i32);

#[derive(Debug)]
struct Gathered {
    metadata: ManifestMetadata,
    entries: Vec<ManifestEntryRef>,
}

impl ManifestStore<'_> {
    /// Merges what is due among the manifests that `snapshot_id` takes over from its parent.
    pub(crate) async fn merge(
        &mut self,
        manifests: Vec<ManifestFile>,
        snapshot_id: i64,
        sequence_number: i64,
    ) -> Result<Vec<ManifestFile>> {
        let mut result = manifests;
        for due in due_for_merging(&result) {
            let gathered = self.gather(&due).await?;
            let mut merged = Vec::new();
            for group in gathered.into_values() {
                merged.extend(self.write_existing(group, snapshot_id, sequence_number).await?);
            }
            result.retain(|m| !due.iter().any(|gone| gone.manifest_path == m.manifest_path));
            result.extend(merged);
        }
        Ok(result)
    }

    /// Manifests that record every file of `manifests` as deleted by `snapshot_id`, and what was in those files.
    pub(crate) async fn delete_all(
        &mut self,
        manifests: &[ManifestFile],
        snapshot_id: i64,
        sequence_number: i64,
    ) -> Result<(Vec<ManifestFile>, FileTotals)> {
        let mut removed = FileTotals::default();
        let mut deleted = Vec::new();
        for group in self.gather(manifests).await?.into_values() {
            for chunk in group.entries.chunks(FULL_FILES) {
                let mut writer = self.writer(&group.metadata, snapshot_id)?;
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
        let path = self.naming.manifest_list(self.location);
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

    /// The live entries of these manifests, by what may stand in one manifest.
    async fn gather(&self, manifests: &[ManifestFile]) -> Result<BTreeMap<Group, Gathered>> {
        let mut groups: BTreeMap<Group, Gathered> = BTreeMap::new();
        for manifest in manifests {
            let (entries, metadata) = read_manifest(self.table, self.io, manifest).await?.into_parts();
            let deletes = manifest.content == ManifestContentType::Deletes;
            let group = (deletes, manifest.partition_spec_id, metadata.schema_id());
            let live = entries.into_iter().filter(|entry| entry.is_alive());
            groups.entry(group).or_insert_with(|| Gathered { metadata, entries: Vec::new() }).entries.extend(live);
        }
        groups.retain(|_, gathered| !gathered.entries.is_empty());
        Ok(groups)
    }

    async fn write_existing(
        &mut self,
        group: Gathered,
        snapshot_id: i64,
        sequence_number: i64,
    ) -> Result<Vec<ManifestFile>> {
        let mut written = Vec::new();
        for chunk in group.entries.chunks(FULL_FILES) {
            let mut writer = self.writer(&group.metadata, snapshot_id)?;
            for entry in chunk {
                let added_at = entry.sequence_number.unwrap_or(0);
                writer
                    .add_existing_file(
                        entry.data_file.clone(),
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

    fn writer(&mut self, like: &ManifestMetadata, snapshot_id: i64) -> Result<ManifestWriter> {
        let path = self.naming.manifest(self.location);
        let output = self
            .io
            .new_output(&path)
            .map_err(|e| iceberg_retry(format!("table {}: cannot write the manifest {path}", self.table), e))?;
        self.written.push(path);
        let spec = like.partition_spec().clone();
        let builder = ManifestWriterBuilder::new(output, Some(snapshot_id), Arc::clone(like.schema()), spec);
        Ok(match like.content() {
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

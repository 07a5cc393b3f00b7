//! Clean-up: files of this pipeline that an earlier run left behind and that the table does not refer to.
//!
//! They come from runs that ended between writing files and committing them, between expiring snapshots and removing their
//! files, or in a commit that lost. Names tell whose they are; files of others and of this run are never touched.
//!
//! A table may have a thousand snapshots, and this runs before the first commit of every session, so what calve wrote is
//! not decoded: names of its files are looked for in the bytes of lists and manifests, which it leaves uncompressed. That can
//! only find a file to be in use that is not.

use std::collections::{BTreeSet, HashSet};
use std::io;

use calve_core::{Error, ErrorKind, Result};
use iceberg::spec::Manifest;

use crate::error::{iceberg_corrupt, iceberg_retry};
use crate::expiry::protecting;
use crate::lake::{IcebergLake, KnownTable, TableSlot};
use crate::manifests::read_list;
use crate::naming::Writer;
use crate::storage;

impl IcebergLake {
    pub(crate) async fn find_unreferenced(&self, slot: &TableSlot, keep: &BTreeSet<String>) -> Result<Vec<String>> {
        let Some(known) = self.read(slot).await? else { return Ok(Vec::new()) };
        let candidates = self.files_of_earlier_runs(known.at.metadata.location()).await?;
        let keep: HashSet<&str> = keep.iter().map(|file| name_of(file)).collect();
        let candidates = candidates.into_iter().filter(|file| !keep.contains(name_of(file))).collect();
        self.without_referenced(slot, &known, candidates).await
    }

    pub(crate) async fn remove_unreferenced(&self, slot: &TableSlot, files: &[String]) -> Result<usize> {
        let Some(known) = self.read(slot).await? else { return Ok(0) };
        let directory = format!("{}/", known.at.metadata.location());
        let ours =
            |file: &&String| file.starts_with(&directory) && self.naming.writer_of(name_of(file)) == Writer::OtherRun;
        let candidates = files.iter().filter(ours).cloned().collect();
        let unreferenced = self.without_referenced(slot, &known, candidates).await?;
        Ok(self.remove_files(slot, &unreferenced).await)
    }

    async fn without_referenced(
        &self,
        slot: &TableSlot,
        known: &KnownTable,
        mut candidates: Vec<String>,
    ) -> Result<Vec<String>> {
        if !candidates.is_empty() {
            let referenced = self.referenced(slot, known).await?;
            candidates.retain(|file| !referenced.contains(name_of(file)));
        }
        Ok(candidates)
    }

    /// Names of all files of this pipeline that any snapshot of the table refers to, and of some others.
    async fn referenced(&self, slot: &TableSlot, known: &KnownTable) -> Result<HashSet<String>> {
        let metadata = &known.at.metadata;
        let mut names: HashSet<String> = HashSet::new();
        names.insert(name_of(&known.at.location).to_owned());
        names.extend(metadata.metadata_log().iter().map(|entry| name_of(&entry.metadata_file).to_owned()));
        names.extend(metadata.statistics_iter().map(|file| name_of(&file.statistics_path).to_owned()));
        names.extend(metadata.partition_statistics_iter().map(|file| name_of(&file.statistics_path).to_owned()));

        // Manifests of others come into the table by lists of others; those are decoded.
        let mut manifests: BTreeSet<String> = BTreeSet::new();
        let decoded = protecting(metadata, &known.at, &HashSet::new());
        for snapshot in &decoded {
            let listed = read_list(&slot.source, &self.io, snapshot).await?;
            manifests.extend(listed.into_iter().map(|manifest| manifest.manifest_path));
        }
        let decoded: HashSet<i64> = decoded.iter().map(|snapshot| snapshot.snapshot_id()).collect();
        for snapshot in metadata.snapshots() {
            names.insert(name_of(snapshot.manifest_list()).to_owned());
            if decoded.contains(&snapshot.snapshot_id()) {
                continue;
            }
            let bytes = self.read_bytes(slot, snapshot.manifest_list()).await?;
            if is_uncompressed(&bytes) {
                let found = self.naming.names_in(&bytes);
                manifests.extend(found.into_iter().map(|name| format!("{}/metadata/{name}", metadata.location())));
            } else {
                let listed = read_list(&slot.source, &self.io, snapshot).await?;
                manifests.extend(listed.into_iter().map(|manifest| manifest.manifest_path));
            }
        }
        for path in manifests {
            names.insert(name_of(&path).to_owned());
            let bytes = self.read_bytes(slot, &path).await?;
            if is_uncompressed(&bytes) {
                names.extend(self.naming.names_in(&bytes));
                continue;
            }
            let manifest = Manifest::parse_avro(&bytes).map_err(|e| {
                iceberg_corrupt(format!("table {}: the manifest {path} cannot be read", slot.source), e)
            })?;
            names.extend(manifest.entries().iter().map(|entry| name_of(entry.file_path()).to_owned()));
        }
        Ok(names)
    }

    async fn read_bytes(&self, slot: &TableSlot, path: &str) -> Result<bytes::Bytes> {
        let failed = |e| iceberg_retry(format!("table {}: cannot read {path}", slot.source), e);
        self.io.new_input(path).map_err(failed)?.read().await.map_err(failed)
    }

    async fn files_of_earlier_runs(&self, location: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for directory in ["data", "metadata"] {
            let directory = format!("{location}/{directory}");
            for name in entry_names(&directory).await? {
                if self.naming.writer_of(&name) == Writer::OtherRun {
                    found.push(format!("{directory}/{name}"));
                }
            }
        }
        Ok(found)
    }
}

/// A location's last part.
fn name_of(location: &str) -> &str {
    location.rsplit('/').next().unwrap_or(location)
}

/// Whether an Avro file's blocks are plain bytes (Avro 1.11, "Object Container Files": no codec, or the codec `null`).
fn is_uncompressed(bytes: &[u8]) -> bool {
    const CODEC: &[u8] = b"avro.codec";
    const NULL: &[u8] = b"\x08null";
    match bytes.windows(CODEC.len()).position(|window| window == CODEC) {
        None => true,
        Some(at) => bytes.get(at + CODEC.len()..).is_some_and(|rest| rest.starts_with(NULL)),
    }
}

/// What lies in a directory, by name; nothing where it does not exist.
pub(crate) async fn entry_names(directory: &str) -> Result<Vec<String>> {
    let Some(path) = storage::local_path(directory) else { return Ok(Vec::new()) };
    let listed = tokio::task::spawn_blocking(move || -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            // Ours are plain; what is not text is not ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    })
    .await;
    match listed {
        Ok(Ok(names)) => Ok(names),
        Ok(Err(error)) => Err(storage::file_error("list", directory, error)),
        Err(panicked) => Err(Error::with_source(ErrorKind::Bug, format!("listing {directory} failed"), panicked)),
    }
}

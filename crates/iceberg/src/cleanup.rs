//! Clean-up: files of this pipeline that an earlier run left behind and that the table does not refer to.
//!
//! They come from runs that ended between writing files and committing them, between expiring snapshots and removing their
//! files, or in a commit that lost. Names tell whose they are; files of others and of this run are never touched.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::PathBuf;

use calve_core::{Error, ErrorKind, Result};

use crate::lake::{IcebergLake, KnownTable, TableSlot};
use crate::manifests::{read_list, read_manifest};
use crate::naming::Writer;
use crate::storage;

impl IcebergLake {
    pub(crate) async fn find_unreferenced(&self, slot: &TableSlot, keep: &BTreeSet<String>) -> Result<Vec<String>> {
        let Some(known) = self.read(slot).await? else { return Ok(Vec::new()) };
        let candidates = self.files_of_earlier_runs(known.at.metadata.location()).await?;
        let keep: HashSet<PathBuf> = keep.iter().filter_map(|file| storage::local_path(file)).collect();
        self.without_referenced(slot, &known, candidates, &keep).await
    }

    pub(crate) async fn remove_unreferenced(&self, slot: &TableSlot, files: &[String]) -> Result<usize> {
        let Some(known) = self.read(slot).await? else { return Ok(0) };
        let directory = format!("{}/", known.at.metadata.location());
        let ours = |file: &&String| {
            let name = file.rsplit('/').next().unwrap_or_default();
            file.starts_with(&directory) && self.naming.writer_of(name) == Writer::OtherRun
        };
        let candidates = files.iter().filter(ours).cloned().collect();
        let unreferenced = self.without_referenced(slot, &known, candidates, &HashSet::new()).await?;
        Ok(self.remove_files(slot, &unreferenced).await)
    }

    async fn without_referenced(
        &self,
        slot: &TableSlot,
        known: &KnownTable,
        candidates: Vec<String>,
        keep: &HashSet<PathBuf>,
    ) -> Result<Vec<String>> {
        if candidates.is_empty() {
            return Ok(candidates);
        }
        let referenced = self.referenced(slot, known).await?;
        let unused = |file: &String| {
            storage::local_path(file).is_some_and(|path| !referenced.contains(&path) && !keep.contains(&path))
        };
        Ok(candidates.into_iter().filter(unused).collect())
    }

    /// Every file that any snapshot of the table refers to, as local paths: writers of others spell locations differently.
    async fn referenced(&self, slot: &TableSlot, known: &KnownTable) -> Result<HashSet<PathBuf>> {
        let metadata = &known.at.metadata;
        let mut files: HashSet<PathBuf> = HashSet::new();
        let mut refer = |location: &str| storage::local_path(location).is_some_and(|path| files.insert(path));
        refer(&known.at.location);
        for entry in metadata.metadata_log() {
            refer(&entry.metadata_file);
        }
        for statistics in metadata.statistics_iter() {
            refer(&statistics.statistics_path);
        }
        for statistics in metadata.partition_statistics_iter() {
            refer(&statistics.statistics_path);
        }
        for snapshot in metadata.snapshots() {
            refer(snapshot.manifest_list());
            for manifest in read_list(&slot.source, &self.io, snapshot).await? {
                if !refer(&manifest.manifest_path) {
                    continue;
                }
                for entry in read_manifest(&slot.source, &self.io, &manifest).await?.entries() {
                    if entry.is_alive() {
                        refer(entry.file_path());
                    }
                }
            }
        }
        Ok(files)
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

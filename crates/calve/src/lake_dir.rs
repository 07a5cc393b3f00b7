//! The lake's directory: where a pipeline keeps its local state, and what it remembers of its last run.
//!
//! ```text
//! <into>/.calve/<pipeline>/lock           held while the pipeline runs; holds the process id
//!                          pipeline.json  what the last run was told, passwords left out
//!                          control.sock   answers status and reload while it runs
//!                          positions/     saved positions and intents
//! ```

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use calve_core::{Error, ErrorKind, Result, TableName};
use serde::{Deserialize, Serialize};

/// The layout of `pipeline.json`; another number is not read.
const RECORD_FORMAT: u32 = 1;

/// A lake's directory.
#[derive(Clone, Debug)]
pub(crate) struct LakeDir(PathBuf);

/// What the last run of a pipeline was told, so that `--into` alone is enough for other commands.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PipelineRecord {
    format: u32,
    pub(crate) pipeline: String,
    /// Options by name. Holds no password.
    pub(crate) settings: serde_json::Value,
    /// The tables that were selected, and their names in the lake.
    pub(crate) tables: Vec<RecordedTable>,
}

/// A table and its name in the lake.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RecordedTable {
    pub(crate) source: TableName,
    pub(crate) target: TableName,
}

impl PipelineRecord {
    pub(crate) fn new(pipeline: &str, settings: serde_json::Value, tables: Vec<RecordedTable>) -> Self {
        Self { format: RECORD_FORMAT, pipeline: pipeline.to_owned(), settings, tables }
    }
}

impl LakeDir {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The directory of one pipeline's state.
    pub(crate) fn pipeline(&self, name: &str) -> PipelineDir {
        PipelineDir(self.0.join(".calve").join(name))
    }

    /// Names of the pipelines that left a record here.
    pub(crate) fn pipelines(&self) -> Result<Vec<String>> {
        let directory = self.0.join(".calve");
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(&directory, &error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(&directory, &error))?;
            if entry.path().join("pipeline.json").is_file() {
                names.extend(entry.file_name().into_string());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// What a pipeline left; None where it has not run here.
    pub(crate) fn record(&self, pipeline: &str) -> Result<Option<PipelineRecord>> {
        let path = self.pipeline(pipeline).0.join("pipeline.json");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(&path, &error)),
        };
        let damaged = |what: String| {
            let message = format!("{} {what}; remove it, and give the options again", path.display());
            Error::new(ErrorKind::Corrupt, message)
        };
        let record: PipelineRecord =
            serde_json::from_str(&text).map_err(|error| damaged(format!("is not a record of a pipeline ({error})")))?;
        if record.format != RECORD_FORMAT {
            return Err(damaged(format!("is of format {}, written by another version of calve", record.format)));
        }
        Ok(Some(record))
    }
}

impl fmt::Display for LakeDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

/// The directory of one pipeline's state.
#[derive(Clone, Debug)]
pub(crate) struct PipelineDir(PathBuf);

impl PipelineDir {
    pub(crate) fn positions(&self) -> PathBuf {
        self.0.join("positions")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("control.sock")
    }

    /// The directory itself.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the directory and holds its lock until the result is dropped.
    pub(crate) fn lock(&self, pipeline: &str) -> Result<PipelineLock> {
        let unwritable = |error: &io::Error| {
            let message = format!(
                "the lake's directory {} cannot be written: {error}; make it writable for this user, or choose another with --into",
                self.0.display()
            );
            Error::new(ErrorKind::Config, message)
        };
        fs::create_dir_all(&self.0).map_err(|error| unwritable(&error))?;
        let path = self.0.join("lock");
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(|error| unwritable(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Only to be helpful: the text may be half-written.
                let _ = file.take(20).read_to_string(&mut holder);
                let holder = holder.trim();
                let process = if holder.is_empty() { String::new() } else { format!(" as process {holder}") };
                let message = format!(
                    "pipeline '{pipeline}' is already running on this lake{process}; stop it first, or give this one another --name"
                );
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            Err(fs::TryLockError::Error(error)) => return Err(unwritable(&error)),
        }
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(|error| unwritable(&error))?;
        Ok(PipelineLock { _file: file })
    }

    /// Remembers what this run was told. Replaces the record in one step.
    pub(crate) fn write_record(&self, record: &PipelineRecord) -> Result<()> {
        let path = self.0.join("pipeline.json");
        let new = self.0.join("pipeline.json.new");
        let write = || -> io::Result<()> {
            let mut file = File::create(&new)?;
            serde_json::to_writer_pretty(&mut file, record)?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.0)?.sync_all()
        };
        write().map_err(|error| Error::new(ErrorKind::Config, format!("{} cannot be written: {error}", path.display())))
    }

    /// Removes the pipeline's state; other pipelines' stays.
    pub(crate) fn remove(&self) -> Result<()> {
        match fs::remove_dir_all(&self.0) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let message = format!("the local state in {} cannot be removed: {error}", self.0.display());
                return Err(Error::new(ErrorKind::Config, message));
            }
        }
        if let Some(parent) = self.0.parent() {
            // Goes only when it is empty.
            let _ = fs::remove_dir(parent);
        }
        Ok(())
    }
}

/// Held by the process that runs the pipeline. The kernel lets go of it however the process ends.
#[derive(Debug)]
pub(crate) struct PipelineLock {
    _file: File,
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::new(ErrorKind::Config, format!("{} cannot be read: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_dir::TestDir;

    #[test]
    fn one_process_at_a_time_holds_a_pipeline() {
        let dir = TestDir::new("lock");
        let pipeline = LakeDir::new(dir.path()).pipeline("shop");
        let lock = pipeline.lock("shop").unwrap();
        let error = pipeline.lock("shop").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains(&format!("as process {}", std::process::id())), "{error}");
        drop(lock);
        pipeline.lock("shop").unwrap();
    }

    #[test]
    fn a_record_is_read_back_and_pipelines_are_found_by_it() {
        let dir = TestDir::new("record");
        let lake = LakeDir::new(dir.path());
        assert!(lake.pipelines().unwrap().is_empty());
        assert!(lake.record("shop").unwrap().is_none());
        for name in ["shop", "audit"] {
            let pipeline = lake.pipeline(name);
            let _lock = pipeline.lock(name).unwrap();
            let table = RecordedTable { source: TableName::new("public", "a.b"), target: TableName::new("raw", "ab") };
            let settings = serde_json::json!({ "namespace": "raw" });
            pipeline.write_record(&PipelineRecord::new(name, settings, vec![table])).unwrap();
        }
        assert_eq!(lake.pipelines().unwrap(), ["audit", "shop"]);
        let record = lake.record("shop").unwrap().unwrap();
        assert_eq!((record.pipeline.as_str(), record.tables.len()), ("shop", 1));
        assert_eq!(record.tables[0].source, TableName::new("public", "a.b"));
        lake.pipeline("shop").remove().unwrap();
        assert_eq!(lake.pipelines().unwrap(), ["audit"]);
    }

    #[test]
    fn a_damaged_record_says_what_to_do() {
        let dir = TestDir::new("damaged");
        let lake = LakeDir::new(dir.path());
        let pipeline = lake.pipeline("shop");
        let _lock = pipeline.lock("shop").unwrap();
        for text in ["{", r#"{"format":99,"pipeline":"shop","settings":{},"tables":[]}"#] {
            fs::write(pipeline.path().join("pipeline.json"), text).unwrap();
            let error = lake.record("shop").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains("remove it"), "{error}");
        }
    }
}

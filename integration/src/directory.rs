//! A directory that goes with the test, unless the test fails: then it stays, as evidence.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;

use crate::binary::tail;

/// A new, empty directory under the system's temporary one (`TMPDIR`).
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    keep: bool,
}

impl Directory {
    /// Makes it. The label says whose it is.
    pub fn new(label: &str) -> anyhow::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("calve-{label}-{}-{count}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path, keep: std::env::var_os("CALVE_TEST_KEEP").is_some() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The end of what the process that logged last had to say.
    fn last_log(&self) -> String {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let logs = entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "err"));
        let last = logs.max_by_key(|entry| entry.metadata().and_then(|metadata| metadata.modified()).ok());
        last.and_then(|entry| std::fs::read_to_string(entry.path()).ok()).map_or_else(String::new, |log| tail(&log))
    }

    /// Leaves it behind.
    pub fn keep(&mut self) {
        self.keep = true;
    }

    /// Removes it in the end after all, unless `CALVE_TEST_KEEP` is set.
    pub fn release(&mut self) {
        self.keep = std::env::var_os("CALVE_TEST_KEEP").is_some();
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.keep || std::thread::panicking() {
            eprintln!("kept: {}\n{}", self.path.display(), self.last_log());
            return;
        }
        // Not worth failing for: the system clears its temporary directory in time.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

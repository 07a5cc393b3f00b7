//! A directory that goes with the test, unless the test fails: then it stays, as evidence.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;

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
            eprintln!("kept: {}", self.path.display());
            return;
        }
        // Not worth failing for: the system clears its temporary directory in time.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

//! A directory for one test, removed afterwards.

use std::path::{Path, PathBuf};

/// Removes its directory when dropped.
pub(crate) struct TestDir(PathBuf);

impl TestDir {
    /// A fresh directory; `name` tells tests of one process apart.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("calve-test-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary directory can be made");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

//! Temporary directories.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A directory of its own for one caller, removed when it is dropped. A process that is killed leaves its
/// directory behind, so the name is one that no file has: process ids come again.
#[derive(Debug)]
pub struct Folder(TempDir);

impl Folder {
    /// Makes an empty directory.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    /// Returns the path of the directory.
    pub fn root(&self) -> &Path {
        self.0.path()
    }

    /// Returns the path of an entry.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }
}

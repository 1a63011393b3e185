//! Temporary directories.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A directory of its own for one caller, removed when it is dropped.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// Makes an empty directory.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("tests-fs-{}-{}", std::process::id(), NEXT.fetch_add(1, SeqCst));
        let folder = Folder(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&folder.0).unwrap();
        folder
    }

    /// Returns the path of an entry.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

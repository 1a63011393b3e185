//! Directories.

use std::ffi::OsString;
use std::fmt;
use std::fs::{FileType, Metadata};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::vec;

use sim::disk as simulated;

/// The entries of a directory.
#[derive(Debug)]
pub(crate) enum ReadDir {
    System(std::fs::ReadDir),
    Simulated(PathBuf, vec::IntoIter<OsString>),
}

pub(crate) fn read_dir(path: &Path) -> io::Result<ReadDir> {
    match simulated::read_dir(path) {
        Some(names) => Ok(ReadDir::Simulated(path.to_path_buf(), names?.into_iter())),
        None => std::fs::read_dir(path).map(ReadDir::System),
    }
}

impl ReadDir {
    pub(crate) fn next(&mut self) -> Option<io::Result<DirEntry>> {
        match self {
            ReadDir::System(entries) => Some(entries.next()?.map(DirEntry::System)),
            ReadDir::Simulated(dir, names) => Some(Ok(DirEntry::Simulated(dir.join(names.next()?)))),
        }
    }
}

/// An entry of a directory.
pub(crate) enum DirEntry {
    System(std::fs::DirEntry),
    Simulated(PathBuf),
}

impl DirEntry {
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            DirEntry::System(entry) => entry.path(),
            DirEntry::Simulated(path) => path.clone(),
        }
    }

    pub(crate) fn file_name(&self) -> OsString {
        match self {
            DirEntry::System(entry) => entry.file_name(),
            DirEntry::Simulated(path) => path.file_name().unwrap_or_default().to_os_string(),
        }
    }

    pub(crate) fn file_type(&self) -> io::Result<FileType> {
        match self {
            DirEntry::System(entry) => entry.file_type(),
            DirEntry::Simulated(_) => Ok(self.metadata()?.file_type()),
        }
    }

    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        match self {
            DirEntry::System(entry) => entry.metadata(),
            DirEntry::Simulated(path) => super::symlink_metadata(path),
        }
    }
}

impl fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirEntry::System(entry) => entry.fmt(f),
            DirEntry::Simulated(path) => f.debug_tuple("DirEntry").field(path).finish(),
        }
    }
}

/// How directories are made: for the system, and for a simulation.
#[derive(Debug)]
pub(crate) struct DirBuilder {
    system: std::fs::DirBuilder,
    recursive: bool,
    mode: u32,
}

impl DirBuilder {
    pub(crate) fn new() -> Self {
        DirBuilder { system: std::fs::DirBuilder::new(), recursive: false, mode: 0o777 }
    }

    pub(crate) fn recursive(&mut self, recursive: bool) {
        self.system.recursive(recursive);
        self.recursive = recursive;
    }

    pub(crate) fn mode(&mut self, mode: u32) {
        self.system.mode(mode);
        self.mode = mode;
    }

    pub(crate) fn create(&self, path: &Path) -> io::Result<()> {
        let made = if self.recursive {
            simulated::create_dir_all(path, self.mode)
        } else {
            simulated::create_dir(path, self.mode)
        };
        made.unwrap_or_else(|| self.system.create(path))
    }
}

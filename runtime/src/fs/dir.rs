//! Directories: their entries, and a builder for new ones.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::{FileType, Metadata, source};
use crate::bounded::bounded;

/// Returns an iterator over the entries of a directory, in no particular order. See [`std::fs::read_dir`].
///
/// # Errors
///
/// Returns the system's error.
///
/// ```
/// let mut names = runtime::fs::read_dir(".")?.flatten().map(|entry| entry.file_name());
/// assert!(names.any(|name| name == "Cargo.toml"));
/// # std::io::Result::Ok(())
/// ```
pub fn read_dir<P: AsRef<Path>>(path: P) -> io::Result<ReadDir> {
    let path = path.as_ref();
    bounded(|| source::read_dir(path)).map(ReadDir)
}

/// The iterator that [`read_dir`] returns.
///
/// ```
/// for entry in runtime::fs::read_dir(".")? {
///     println!("{}", entry?.path().display());
/// }
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct ReadDir(source::ReadDir);

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<io::Result<DirEntry>> {
        Some(bounded(|| self.0.next())?.map(DirEntry))
    }
}

/// An entry of a directory, from [`ReadDir`].
///
/// ```
/// let entry = runtime::fs::read_dir(".")?.flatten().find(|entry| entry.file_name() == "Cargo.toml").unwrap();
/// assert!(entry.file_type()?.is_file());
/// # std::io::Result::Ok(())
/// ```
pub struct DirEntry(source::DirEntry);

impl DirEntry {
    /// Returns the path: that of the directory, and the name of the entry.
    ///
    /// ```
    /// assert!(runtime::fs::read_dir("/")?.flatten().all(|entry| entry.path().starts_with("/")));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn path(&self) -> PathBuf {
        self.0.path()
    }

    /// Returns the name of the entry.
    ///
    /// ```
    /// assert!(runtime::fs::read_dir("/")?.flatten().all(|entry| !entry.file_name().is_empty()));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn file_name(&self) -> OsString {
        self.0.file_name()
    }

    /// Returns what kind of file it is, without following a symbolic link.
    ///
    /// # Errors
    ///
    /// Returns the system's error, if the system must be asked.
    ///
    /// ```
    /// assert!(runtime::fs::read_dir(".")?.flatten().any(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn file_type(&self) -> io::Result<FileType> {
        bounded(|| self.0.file_type())
    }

    /// Returns the metadata, without following a symbolic link.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// let entry = runtime::fs::read_dir(".")?.flatten().find(|entry| entry.file_name() == "Cargo.toml").unwrap();
    /// assert!(entry.metadata()?.len() > 0);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn metadata(&self) -> io::Result<Metadata> {
        bounded(|| self.0.metadata())
    }
}

impl fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The settings with which directories are made. See [`std::fs::DirBuilder`].
///
/// ```
/// let dir = std::env::temp_dir().join(format!("fs-builder-{}", std::process::id()));
/// runtime::fs::DirBuilder::new().recursive(true).create(dir.join("a/b"))?;
/// runtime::fs::remove_dir_all(dir)?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct DirBuilder(source::DirBuilder);

impl DirBuilder {
    /// Returns the default settings.
    ///
    /// ```
    /// let error = runtime::fs::DirBuilder::new().create("/").unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    /// ```
    #[allow(clippy::new_without_default)]
    pub fn new() -> DirBuilder {
        DirBuilder(source::DirBuilder::new())
    }

    /// Sets whether missing parents are made, too. The default is `false`.
    ///
    /// ```
    /// runtime::fs::DirBuilder::new().recursive(true).create("/")?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn recursive(&mut self, recursive: bool) -> &mut DirBuilder {
        self.0.recursive(recursive);
        self
    }

    /// Makes a directory.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// assert!(runtime::fs::DirBuilder::new().create("/no/such/path").is_err());
    /// ```
    pub fn create<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        let path = path.as_ref();
        bounded(|| self.0.create(path))
    }
}

#[cfg(unix)]
impl std::os::unix::fs::DirBuilderExt for DirBuilder {
    fn mode(&mut self, mode: u32) -> &mut DirBuilder {
        self.0.mode(mode);
        self
    }
}

//! Directories: their entries, and a builder for new ones.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::io;
#[cfg(unix)]
use std::os::unix::fs::DirBuilderExt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{CALL, FileType, Metadata, awaited, source};
use crate::aside::aside_async;
use crate::bounded::bounded;
use crate::sync::{LockAsync, Mutex};

/// How many entries an awaited call reads at most.
const AHEAD: usize = 32;

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
    bounded(|| source::read_dir(path)).map(ReadDir::new)
}

/// Calls [`read_dir`] in a future: see [awaited](crate::fs#awaited). [`ReadDir::next_entry_async`] awaits the
/// entries.
///
/// ```
/// # runtime::block_on(async {
/// let mut entries = runtime::fs::read_dir_async(".").await?;
/// let mut names = Vec::new();
/// while let Some(entry) = entries.next_entry_async().await? {
///     names.push(entry.file_name());
/// }
/// assert!(names.contains(&"Cargo.toml".into()));
/// # std::io::Result::Ok(())
/// # })?;
/// # std::io::Result::Ok(())
/// ```
pub async fn read_dir_async<P: AsRef<Path>>(path: P) -> io::Result<ReadDir> {
    let path = path.as_ref().to_path_buf();
    awaited(move || source::read_dir(&path)).await.map(ReadDir::new)
}

/// The iterator that [`read_dir`] returns.
///
/// ```
/// for entry in runtime::fs::read_dir(".")? {
///     println!("{}", entry?.path().display());
/// }
/// # std::io::Result::Ok(())
/// ```
pub struct ReadDir(
    /// Shared with an awaited call, which may outlive its future.
    Arc<Mutex<Entries>>,
);

/// The entries of a directory that were not returned yet.
#[derive(Debug)]
struct Entries {
    /// Read ahead by an awaited call. They come first.
    ahead: VecDeque<io::Result<source::DirEntry>>,
    rest: source::ReadDir,
}

impl ReadDir {
    fn new(rest: source::ReadDir) -> ReadDir {
        ReadDir(Arc::new(Mutex::new(Entries { ahead: VecDeque::new(), rest })))
    }

    /// Returns the next entry in a future, and `None` at the end: see [awaited](crate::fs#awaited).
    ///
    /// A call reads up to 32 entries at once. Dropping the future loses no entry.
    ///
    /// ```
    /// # runtime::block_on(async {
    /// let mut entries = runtime::fs::read_dir_async(".").await?;
    /// assert!(entries.next_entry_async().await?.is_some());
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn next_entry_async(&mut self) -> io::Result<Option<DirEntry>> {
        // The lock is taken while a call runs of which the future was dropped.
        let ahead = self.0.try_lock().and_then(|mut entries| entries.ahead.pop_front());
        let next = match ahead {
            Some(entry) => Some(entry),
            None => {
                let entries = self.0.clone();
                aside_async(CALL, move || {
                    let mut entries = entries.lock();
                    bounded(|| entries.read_ahead());
                })
                .await?;
                self.0.lock_async().await.ahead.pop_front()
            }
        };
        next.transpose().map(|entry| entry.map(DirEntry::new))
    }
}

impl Entries {
    /// Reads entries, unless some were read that are not returned yet.
    fn read_ahead(&mut self) {
        if self.ahead.is_empty() {
            let rest = &mut self.rest;
            self.ahead.extend(std::iter::from_fn(|| rest.next()).take(AHEAD));
        }
    }
}

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<io::Result<DirEntry>> {
        let mut entries = self.0.lock();
        let next = match entries.ahead.pop_front() {
            Some(entry) => entry,
            None => bounded(|| entries.rest.next())?,
        };
        Some(next.map(DirEntry::new))
    }
}

// As those of std: a panic leaves no entry half read.
impl UnwindSafe for ReadDir {}
impl RefUnwindSafe for ReadDir {}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.try_lock() {
            Some(entries) => f.debug_tuple("ReadDir").field(&entries.rest).finish(),
            None => f.debug_tuple("ReadDir").finish_non_exhaustive(),
        }
    }
}

/// An entry of a directory, from [`ReadDir`].
///
/// ```
/// let entry = runtime::fs::read_dir(".")?.flatten().find(|entry| entry.file_name() == "Cargo.toml").unwrap();
/// assert!(entry.file_type()?.is_file());
/// # std::io::Result::Ok(())
/// ```
pub struct DirEntry(
    /// Shared with awaited calls, which may outlive their futures.
    Arc<source::DirEntry>,
);

impl DirEntry {
    fn new(entry: source::DirEntry) -> DirEntry {
        DirEntry(Arc::new(entry))
    }

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

    /// Calls [`file_type`](DirEntry::file_type) in a future: see [awaited](crate::fs#awaited).
    ///
    /// ```
    /// # runtime::block_on(async {
    /// let mut entries = runtime::fs::read_dir_async(".").await?;
    /// let entry = entries.next_entry_async().await?.unwrap();
    /// assert!(entry.file_type_async().await.is_ok());
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn file_type_async(&self) -> io::Result<FileType> {
        let entry = self.0.clone();
        awaited(move || entry.file_type()).await
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

    /// Calls [`metadata`](DirEntry::metadata) in a future: see [awaited](crate::fs#awaited).
    ///
    /// ```
    /// # runtime::block_on(async {
    /// let mut entries = runtime::fs::read_dir_async(".").await?;
    /// let entry = entries.next_entry_async().await?.unwrap();
    /// assert!(entry.metadata_async().await.is_ok());
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn metadata_async(&self) -> io::Result<Metadata> {
        let entry = self.0.clone();
        awaited(move || entry.metadata()).await
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
pub struct DirBuilder {
    recursive: bool,
    #[cfg(unix)]
    mode: u32,
}

impl DirBuilder {
    /// Returns the default settings.
    ///
    /// ```
    /// let error = runtime::fs::DirBuilder::new().create("/").unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    /// ```
    #[allow(clippy::new_without_default)]
    pub fn new() -> DirBuilder {
        DirBuilder {
            recursive: false,
            #[cfg(unix)]
            mode: 0o777,
        }
    }

    /// Sets whether missing parents are made, too. The default is `false`.
    ///
    /// ```
    /// runtime::fs::DirBuilder::new().recursive(true).create("/")?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn recursive(&mut self, recursive: bool) -> &mut DirBuilder {
        self.recursive = recursive;
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
        bounded(|| self.builder().create(path))
    }

    /// Calls [`create`](DirBuilder::create) in a future: see [awaited](crate::fs#awaited).
    ///
    /// ```
    /// # runtime::block_on(async {
    /// let dir = std::env::temp_dir().join(format!("fs-builder-async-{}", std::process::id()));
    /// runtime::fs::DirBuilder::new().recursive(true).create_async(dir.join("a/b")).await?;
    /// runtime::fs::remove_dir_all_async(dir).await?;
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn create_async<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        let (builder, path) = (self.builder(), path.as_ref().to_path_buf());
        awaited(move || builder.create(&path)).await
    }

    /// Returns these settings for the system, or a simulation.
    fn builder(&self) -> source::DirBuilder {
        let mut builder = source::DirBuilder::new();
        builder.recursive(self.recursive);
        #[cfg(unix)]
        builder.mode(self.mode);
        builder
    }
}

#[cfg(unix)]
impl DirBuilderExt for DirBuilder {
    fn mode(&mut self, mode: u32) -> &mut DirBuilder {
        self.mode = mode;
        self
    }
}

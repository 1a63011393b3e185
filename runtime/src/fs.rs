//! Files and directories with the API of `std::fs`. A call does not hold up other green threads.
//!
//! The system cannot wait for files as it can for sockets. So each call runs as in
//! [`blocking`](crate::blocking): on the caller's OS thread, while other green threads run on other OS
//! threads. At most [`Builder::blocking_threads`](crate::Builder::blocking_threads) such calls run at once;
//! further ones wait in line.
//!
//! ```
//! use runtime::fs;
//! let dir = std::env::temp_dir().join(format!("fs-example-{}", std::process::id()));
//! runtime::block_on(|| {
//!     fs::create_dir_all(&dir)?;
//!     fs::write(dir.join("hello"), "world")?;
//!     assert_eq!(fs::read_to_string(dir.join("hello"))?, "world");
//!     let names: Vec<_> = fs::read_dir(&dir)?.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<_>>()?;
//!     assert_eq!(names, ["hello"]);
//!     fs::remove_dir_all(&dir)
//! })?;
//! # std::io::Result::Ok(())
//! ```
//!
//! A small read or write costs as much as in std, and some 100 ns for the announcement. `std::io::BufReader`
//! and `BufWriter` save both.
//!
//! # Errors
//!
//! Each function returns the errors of std's function of the same name.
//!
//! # Cancellation
//!
//! A call that runs is not interrupted, neither by a cancellation nor by a time-out. A cancelled green thread
//! that has to wait in line unwinds from there, and the call is not made. [`File::lock`] waits by parking,
//! and a cancellation ends it.

mod dir;
mod file;
mod file_io;
mod open_options;
mod source;

use std::io;
use std::path::{Path, PathBuf};

use crate::bounded::bounded;

pub use std::fs::{FileTimes, FileType, Metadata, Permissions, TryLockError};

pub use dir::{DirBuilder, DirEntry, ReadDir, read_dir};
pub use file::File;
pub use open_options::OpenOptions;

/// Writes functions that only call std's function of the same name.
macro_rules! as_in_std {
    ($($(#[$doc:meta])* fn $name:ident($($path:ident),+) -> $result:ty;)*) => { $(
        $(#[$doc])*
        pub fn $name<$(#[allow(non_camel_case_types)] $path: AsRef<Path>),+>($($path: $path),+) -> io::Result<$result> {
            $(let $path = $path.as_ref();)+
            bounded(|| source::$name($($path),+))
        }
    )* };
}

as_in_std! {
    /// Returns the absolute path without symbolic links. See [`std::fs::canonicalize`].
    ///
    /// ```
    /// assert_eq!(runtime::fs::canonicalize("/../")?, std::path::Path::new("/"));
    /// # std::io::Result::Ok(())
    /// ```
    fn canonicalize(path) -> PathBuf;

    /// Copies the content and the permissions of a file. Returns the number of bytes. See [`std::fs::copy`].
    ///
    /// ```
    /// let copy = std::env::temp_dir().join(format!("fs-copy-{}", std::process::id()));
    /// assert_eq!(runtime::fs::copy("Cargo.toml", &copy)?, runtime::fs::metadata("Cargo.toml")?.len());
    /// runtime::fs::remove_file(copy)?;
    /// # std::io::Result::Ok(())
    /// ```
    fn copy(from, to) -> u64;

    /// Makes a directory, whose parent must exist. See [`std::fs::create_dir`].
    ///
    /// ```
    /// let dir = std::env::temp_dir().join(format!("fs-create-dir-{}", std::process::id()));
    /// runtime::fs::create_dir(&dir)?;
    /// runtime::fs::remove_dir(dir)?;
    /// # std::io::Result::Ok(())
    /// ```
    fn create_dir(path) -> ();

    /// Makes a directory, and its parents where they are missing. See [`std::fs::create_dir_all`].
    ///
    /// ```
    /// let dir = std::env::temp_dir().join(format!("fs-create-dirs-{}", std::process::id()));
    /// runtime::fs::create_dir_all(dir.join("a/b"))?;
    /// runtime::fs::remove_dir_all(dir)?;
    /// # std::io::Result::Ok(())
    /// ```
    fn create_dir_all(path) -> ();

    /// Returns `true` if the path exists, and an error if that cannot be found out. See [`std::fs::exists`].
    ///
    /// ```
    /// assert!(runtime::fs::exists("Cargo.toml")?);
    /// # std::io::Result::Ok(())
    /// ```
    fn exists(path) -> bool;

    /// Makes a hard link at `link` to the file `original`. See [`std::fs::hard_link`].
    ///
    /// ```
    /// let dir = std::env::temp_dir();
    /// let [one, other] = ["a", "b"].map(|name| dir.join(format!("fs-link-{}-{name}", std::process::id())));
    /// runtime::fs::write(&one, "x")?;
    /// runtime::fs::hard_link(&one, &other)?;
    /// runtime::fs::remove_file(one)?;
    /// assert_eq!(runtime::fs::read(&other)?, b"x");
    /// # runtime::fs::remove_file(other)?;
    /// # std::io::Result::Ok(())
    /// ```
    fn hard_link(original, link) -> ();

    /// Returns the metadata of a file, following symbolic links. See [`std::fs::metadata`].
    ///
    /// ```
    /// assert!(runtime::fs::metadata("Cargo.toml")?.is_file());
    /// # std::io::Result::Ok(())
    /// ```
    fn metadata(path) -> Metadata;

    /// Returns the content of a file. See [`std::fs::read`].
    ///
    /// ```
    /// assert!(!runtime::fs::read("Cargo.toml")?.is_empty());
    /// # std::io::Result::Ok(())
    /// ```
    fn read(path) -> Vec<u8>;

    /// Returns the path to which a symbolic link leads. See [`std::fs::read_link`].
    ///
    /// ```
    /// let error = runtime::fs::read_link("Cargo.toml").unwrap_err();
    /// # #[cfg(unix)]
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    /// ```
    fn read_link(path) -> PathBuf;

    /// Returns the content of a file as text. See [`std::fs::read_to_string`].
    ///
    /// ```
    /// let text = runtime::spawn(|| runtime::fs::read_to_string("Cargo.toml"));
    /// assert!(text.join().unwrap()?.contains("[package]"));
    /// # std::io::Result::Ok(())
    /// ```
    fn read_to_string(path) -> String;

    /// Removes an empty directory. See [`std::fs::remove_dir`].
    ///
    /// ```
    /// let error = runtime::fs::remove_dir("/no/such/path").unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    /// ```
    fn remove_dir(path) -> ();

    /// Removes a directory with all that is in it. See [`std::fs::remove_dir_all`].
    ///
    /// ```
    /// let dir = std::env::temp_dir().join(format!("fs-remove-{}", std::process::id()));
    /// runtime::fs::create_dir_all(dir.join("a/b"))?;
    /// runtime::fs::remove_dir_all(&dir)?;
    /// assert!(!runtime::fs::exists(dir)?);
    /// # std::io::Result::Ok(())
    /// ```
    fn remove_dir_all(path) -> ();

    /// Removes a file. See [`std::fs::remove_file`].
    ///
    /// ```
    /// let error = runtime::fs::remove_file("/no/such/path").unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    /// ```
    fn remove_file(path) -> ();

    /// Renames a file or a directory. Replaces a file at `to`. See [`std::fs::rename`].
    ///
    /// ```
    /// let dir = std::env::temp_dir();
    /// let [one, other] = ["a", "b"].map(|name| dir.join(format!("fs-rename-{}-{name}", std::process::id())));
    /// runtime::fs::write(&one, "x")?;
    /// runtime::fs::rename(&one, &other)?;
    /// assert!(!runtime::fs::exists(one)?);
    /// # runtime::fs::remove_file(other)?;
    /// # std::io::Result::Ok(())
    /// ```
    fn rename(from, to) -> ();

    /// Returns the metadata of a file, without following a symbolic link. See [`std::fs::symlink_metadata`].
    ///
    /// ```
    /// assert!(!runtime::fs::symlink_metadata("Cargo.toml")?.is_symlink());
    /// # std::io::Result::Ok(())
    /// ```
    fn symlink_metadata(path) -> Metadata;
}

#[cfg(unix)]
as_in_std! {
    /// Makes a symbolic link at `link` that leads to `original`. See [`std::os::unix::fs::symlink`]. Unix
    /// only.
    ///
    /// ```
    /// let link = std::env::temp_dir().join(format!("fs-symlink-{}", std::process::id()));
    /// runtime::fs::symlink("/tmp", &link)?;
    /// assert_eq!(runtime::fs::read_link(&link)?, std::path::Path::new("/tmp"));
    /// runtime::fs::remove_file(link)?;
    /// # std::io::Result::Ok(())
    /// ```
    fn symlink(original, link) -> ();
}

/// Sets the owner and the group of a file, following symbolic links. `None` leaves it as it is. See
/// [`std::os::unix::fs::chown`]. Unix only.
///
/// In a simulation files have no owners, and it returns `Unsupported`.
///
/// ```
/// let file = std::env::temp_dir().join(format!("fs-chown-{}", std::process::id()));
/// runtime::fs::write(&file, "x")?;
/// runtime::fs::chown(&file, None, None)?;
/// # runtime::fs::remove_file(file)?;
/// # std::io::Result::Ok(())
/// ```
#[cfg(unix)]
pub fn chown<P: AsRef<Path>>(path: P, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    let path = path.as_ref();
    bounded(|| source::chown(path, uid, gid))
}

/// Sets the owner and the group of a file as [`chown`] does, but of a symbolic link itself. See
/// [`std::os::unix::fs::lchown`]. Unix only.
///
/// In a simulation files have no owners, and it returns `Unsupported`.
///
/// ```
/// let link = std::env::temp_dir().join(format!("fs-lchown-{}", std::process::id()));
/// runtime::fs::symlink("/no/such/path", &link)?;
/// runtime::fs::lchown(&link, None, None)?;
/// assert!(runtime::fs::chown(&link, None, None).is_err());
/// # runtime::fs::remove_file(link)?;
/// # std::io::Result::Ok(())
/// ```
#[cfg(unix)]
pub fn lchown<P: AsRef<Path>>(path: P, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    let path = path.as_ref();
    bounded(|| source::lchown(path, uid, gid))
}

/// Sets the owner and the group of an open file. `None` leaves it as it is. See
/// [`std::os::unix::fs::fchown`]. Unix only.
///
/// # Panics
///
/// Panics if `fd` is a simulated file, which has no descriptor.
///
/// ```
/// runtime::fs::fchown(runtime::fs::File::open("Cargo.toml")?, None, None)?;
/// # std::io::Result::Ok(())
/// ```
#[cfg(unix)]
pub fn fchown<F: std::os::fd::AsFd>(fd: F, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    let fd = fd.as_fd();
    bounded(|| std::os::unix::fs::fchown(fd, uid, gid))
}

/// Sets the permissions of a file or a directory. See [`std::fs::set_permissions`].
///
/// ```
/// let file = std::env::temp_dir().join(format!("fs-permissions-{}", std::process::id()));
/// runtime::fs::write(&file, "x")?;
/// let mut permissions = runtime::fs::metadata(&file)?.permissions();
/// permissions.set_readonly(true);
/// runtime::fs::set_permissions(&file, permissions)?;
/// assert!(runtime::fs::metadata(&file)?.permissions().readonly());
/// # runtime::fs::remove_file(file)?;
/// # std::io::Result::Ok(())
/// ```
pub fn set_permissions<P: AsRef<Path>>(path: P, perm: Permissions) -> io::Result<()> {
    let path = path.as_ref();
    bounded(|| source::set_permissions(path, perm))
}

/// Writes a file with this content. Replaces what was there. See [`std::fs::write`].
///
/// ```
/// let file = std::env::temp_dir().join(format!("fs-write-{}", std::process::id()));
/// runtime::fs::write(&file, b"hello")?;
/// assert_eq!(runtime::fs::read(&file)?, b"hello");
/// # runtime::fs::remove_file(file)?;
/// # std::io::Result::Ok(())
/// ```
pub fn write<P: AsRef<Path>, C: AsRef<[u8]>>(path: P, contents: C) -> io::Result<()> {
    let (path, contents) = (path.as_ref(), contents.as_ref());
    bounded(|| source::write(path, contents))
}

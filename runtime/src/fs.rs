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
//!
//! # Awaited
//!
//! In a future, a call parks the whole task. The function of the same name with `_async` is awaited: a green
//! thread of its own makes the call, and the other branches of the task go on. It works in any executor. On
//! a plain OS thread that green thread belongs to the default runtime. Awaited calls and calls that park wait
//! in one line for the OS threads of [`Builder::blocking_threads`](crate::Builder::blocking_threads). Paths
//! are copied, and bytes to be written, too.
//!
//! In [`block_on_local`](crate::block_on_local) on a green thread the call may take the OS thread to which
//! that green thread is bound. The future then goes on after the call.
//!
//! **Dropping the future** before its call has begun means that no call is made. A call that runs is not
//! interrupted, and its result is dropped: a file that it opens is closed.
//!
//! **Errors** are those of the call. Beyond these, it returns an error of kind `NotConnected` if the runtime
//! ends before the call is done, and that of [`thread::Builder::spawn`](crate::thread::Builder::spawn) if no
//! green thread can be started.
//!
//! A seek, or a read of 4 KiB that the system has in memory, takes 0.7 to 0.9 us when it is awaited, and 0.34
//! us in the form that parks. (The mean of 50,000, in a future that is a green thread, on two AMD EPYC
//! processors, 2026-11-30; std's calls 0.23 to 0.32, those of `tokio::fs` 16 to 19.)
//!
//! ```
//! use runtime::fs::{self, File};
//! let path = std::env::temp_dir().join(format!("fs-awaited-{}", std::process::id()));
//! runtime::block_on(async {
//!     fs::write_async(&path, "hello").await?;
//!     let file = File::open_async(&path).await?;
//!     let mut buf = [0; 8];
//!     let n = file.read_async(&mut buf).await?;
//!     assert_eq!(&buf[..n], b"hello");
//!     fs::remove_file_async(&path).await
//! })?;
//! # std::io::Result::Ok(())
//! ```

mod dir;
mod file;
mod file_io;
mod open_options;
#[cfg_attr(not(any(feature = "futures-io", feature = "tokio-io")), path = "fs/no_poll.rs")]
mod poll;
mod source;

use std::io;
use std::path::{Path, PathBuf};

use crate::bounded::{bounded, bounded_async};

pub use std::fs::{FileTimes, FileType, Metadata, Permissions, TryLockError};

pub use dir::{DirBuilder, DirEntry, ReadDir, read_dir, read_dir_async};
pub use file::File;
pub use open_options::OpenOptions;

/// The name of the green thread of an awaited call.
const CALL: &str = "call on a file";

/// Makes a call on a green thread of its own, in a future.
async fn awaited<T: Send + 'static>(call: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    bounded_async(CALL, call).await
}

/// Writes functions that only call std's function of the same name, and their awaited forms.
macro_rules! as_in_std {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($path:ident),+ $(; $($arg:ident: $type:ty),+)?) -> $result:ty;
        $(#[$example:meta])*
        async fn $name_async:ident;
    )*) => { $(
        $(#[$doc])*
        pub fn $name<$(#[allow(non_camel_case_types)] $path: AsRef<Path>),+>(
            $($path: $path,)+
            $($($arg: $type),+)?
        ) -> io::Result<$result> {
            $(let $path = $path.as_ref();)+
            bounded(|| source::$name($($path,)+ $($($arg),+)?))
        }

        #[doc = concat!("Calls [`", stringify!($name), "`] in a future: see [awaited](self#awaited).")]
        ///
        $(#[$example])*
        pub async fn $name_async<$(#[allow(non_camel_case_types)] $path: AsRef<Path>),+>(
            $($path: $path,)+
            $($($arg: $type),+)?
        ) -> io::Result<$result> {
            $(let $path = $path.as_ref().to_path_buf();)+
            awaited(move || source::$name($(&$path,)+ $($($arg),+)?)).await
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
    /// ```
    /// # runtime::block_on(async {
    /// assert_eq!(runtime::fs::canonicalize_async("/../").await?, std::path::Path::new("/"));
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn canonicalize_async;

    /// Copies the content and the permissions of a file. Returns the number of bytes. See [`std::fs::copy`].
    ///
    /// ```
    /// let copy = std::env::temp_dir().join(format!("fs-copy-{}", std::process::id()));
    /// assert_eq!(runtime::fs::copy("Cargo.toml", &copy)?, runtime::fs::metadata("Cargo.toml")?.len());
    /// runtime::fs::remove_file(copy)?;
    /// # std::io::Result::Ok(())
    /// ```
    fn copy(from, to) -> u64;
    /// ```
    /// # runtime::block_on(async {
    /// let copy = std::env::temp_dir().join(format!("fs-copy-async-{}", std::process::id()));
    /// let bytes = runtime::fs::copy_async("Cargo.toml", &copy).await?;
    /// assert_eq!(bytes, runtime::fs::metadata_async("Cargo.toml").await?.len());
    /// # runtime::fs::remove_file(copy)?;
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn copy_async;

    /// Makes a directory, whose parent must exist. See [`std::fs::create_dir`].
    ///
    /// ```
    /// let dir = std::env::temp_dir().join(format!("fs-create-dir-{}", std::process::id()));
    /// runtime::fs::create_dir(&dir)?;
    /// runtime::fs::remove_dir(dir)?;
    /// # std::io::Result::Ok(())
    /// ```
    fn create_dir(path) -> ();
    /// ```
    /// # runtime::block_on(async {
    /// let dir = std::env::temp_dir().join(format!("fs-create-dir-async-{}", std::process::id()));
    /// runtime::fs::create_dir_async(&dir).await?;
    /// runtime::fs::remove_dir_async(dir).await?;
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn create_dir_async;

    /// Makes a directory, and its parents where they are missing. See [`std::fs::create_dir_all`].
    ///
    /// ```
    /// let dir = std::env::temp_dir().join(format!("fs-create-dirs-{}", std::process::id()));
    /// runtime::fs::create_dir_all(dir.join("a/b"))?;
    /// runtime::fs::remove_dir_all(dir)?;
    /// # std::io::Result::Ok(())
    /// ```
    fn create_dir_all(path) -> ();
    /// ```
    /// # runtime::block_on(async {
    /// let dir = std::env::temp_dir().join(format!("fs-create-dirs-async-{}", std::process::id()));
    /// runtime::fs::create_dir_all_async(dir.join("a/b")).await?;
    /// runtime::fs::remove_dir_all_async(dir).await?;
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn create_dir_all_async;

    /// Returns `true` if the path exists, and an error if that cannot be found out. See [`std::fs::exists`].
    ///
    /// ```
    /// assert!(runtime::fs::exists("Cargo.toml")?);
    /// # std::io::Result::Ok(())
    /// ```
    fn exists(path) -> bool;
    /// ```
    /// # runtime::block_on(async {
    /// assert!(runtime::fs::exists_async("Cargo.toml").await?);
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn exists_async;

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
    /// ```
    /// # runtime::block_on(async {
    /// let dir = std::env::temp_dir();
    /// let names = ["link-a", "link-b"];
    /// let [one, other] = names.map(|name| dir.join(format!("fs-{name}-{}", std::process::id())));
    /// runtime::fs::write_async(&one, "x").await?;
    /// runtime::fs::hard_link_async(&one, &other).await?;
    /// assert_eq!(runtime::fs::read_async(&other).await?, b"x");
    /// # runtime::fs::remove_file(one)?;
    /// # runtime::fs::remove_file(other)?;
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn hard_link_async;

    /// Returns the metadata of a file, following symbolic links. See [`std::fs::metadata`].
    ///
    /// ```
    /// assert!(runtime::fs::metadata("Cargo.toml")?.is_file());
    /// # std::io::Result::Ok(())
    /// ```
    fn metadata(path) -> Metadata;
    /// ```
    /// # runtime::block_on(async {
    /// assert!(runtime::fs::metadata_async("Cargo.toml").await?.is_file());
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn metadata_async;

    /// Returns the content of a file. See [`std::fs::read`].
    ///
    /// ```
    /// assert!(!runtime::fs::read("Cargo.toml")?.is_empty());
    /// # std::io::Result::Ok(())
    /// ```
    fn read(path) -> Vec<u8>;
    /// ```
    /// # runtime::block_on(async {
    /// assert!(!runtime::fs::read_async("Cargo.toml").await?.is_empty());
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn read_async;

    /// Returns the path to which a symbolic link leads. See [`std::fs::read_link`].
    ///
    /// ```
    /// let error = runtime::fs::read_link("Cargo.toml").unwrap_err();
    /// # #[cfg(unix)]
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    /// ```
    fn read_link(path) -> PathBuf;
    /// ```
    /// # runtime::block_on(async {
    /// let error = runtime::fs::read_link_async("/no/such/path").await.unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn read_link_async;

    /// Returns the content of a file as text. See [`std::fs::read_to_string`].
    ///
    /// ```
    /// let text = runtime::spawn(|| runtime::fs::read_to_string("Cargo.toml"));
    /// assert!(text.join().unwrap()?.contains("[package]"));
    /// # std::io::Result::Ok(())
    /// ```
    fn read_to_string(path) -> String;
    /// ```
    /// # runtime::block_on(async {
    /// assert!(runtime::fs::read_to_string_async("Cargo.toml").await?.contains("[package]"));
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn read_to_string_async;

    /// Removes an empty directory. See [`std::fs::remove_dir`].
    ///
    /// ```
    /// let error = runtime::fs::remove_dir("/no/such/path").unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    /// ```
    fn remove_dir(path) -> ();
    /// ```
    /// # runtime::block_on(async {
    /// let error = runtime::fs::remove_dir_async("/no/such/path").await.unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn remove_dir_async;

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
    /// ```
    /// # runtime::block_on(async {
    /// let dir = std::env::temp_dir().join(format!("fs-remove-async-{}", std::process::id()));
    /// runtime::fs::create_dir_all_async(dir.join("a/b")).await?;
    /// runtime::fs::remove_dir_all_async(&dir).await?;
    /// assert!(!runtime::fs::exists_async(dir).await?);
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn remove_dir_all_async;

    /// Removes a file. See [`std::fs::remove_file`].
    ///
    /// ```
    /// let error = runtime::fs::remove_file("/no/such/path").unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    /// ```
    fn remove_file(path) -> ();
    /// ```
    /// # runtime::block_on(async {
    /// let error = runtime::fs::remove_file_async("/no/such/path").await.unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn remove_file_async;

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
    /// ```
    /// # runtime::block_on(async {
    /// let dir = std::env::temp_dir();
    /// let names = ["rename-a", "rename-b"];
    /// let [one, other] = names.map(|name| dir.join(format!("fs-{name}-{}", std::process::id())));
    /// runtime::fs::write_async(&one, "x").await?;
    /// runtime::fs::rename_async(&one, &other).await?;
    /// assert!(!runtime::fs::exists_async(one).await?);
    /// # runtime::fs::remove_file(other)?;
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn rename_async;

    /// Returns the metadata of a file, without following a symbolic link. See [`std::fs::symlink_metadata`].
    ///
    /// ```
    /// assert!(!runtime::fs::symlink_metadata("Cargo.toml")?.is_symlink());
    /// # std::io::Result::Ok(())
    /// ```
    fn symlink_metadata(path) -> Metadata;
    /// ```
    /// # runtime::block_on(async {
    /// assert!(!runtime::fs::symlink_metadata_async("Cargo.toml").await?.is_symlink());
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn symlink_metadata_async;

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
    fn set_permissions(path; perm: Permissions) -> ();
    /// ```
    /// # runtime::block_on(async {
    /// let file = std::env::temp_dir().join(format!("fs-permissions-async-{}", std::process::id()));
    /// runtime::fs::write_async(&file, "x").await?;
    /// let mut permissions = runtime::fs::metadata_async(&file).await?.permissions();
    /// permissions.set_readonly(true);
    /// runtime::fs::set_permissions_async(&file, permissions).await?;
    /// assert!(runtime::fs::metadata_async(&file).await?.permissions().readonly());
    /// # runtime::fs::remove_file(file)?;
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn set_permissions_async;
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
    /// ```
    /// # runtime::block_on(async {
    /// let link = std::env::temp_dir().join(format!("fs-symlink-async-{}", std::process::id()));
    /// runtime::fs::symlink_async("/tmp", &link).await?;
    /// assert_eq!(runtime::fs::read_link_async(&link).await?, std::path::Path::new("/tmp"));
    /// # runtime::fs::remove_file(link)?;
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn symlink_async;

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
    fn chown(path; uid: Option<u32>, gid: Option<u32>) -> ();
    /// ```
    /// # runtime::block_on(async {
    /// let file = std::env::temp_dir().join(format!("fs-chown-async-{}", std::process::id()));
    /// runtime::fs::write_async(&file, "x").await?;
    /// runtime::fs::chown_async(&file, None, None).await?;
    /// # runtime::fs::remove_file(file)?;
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn chown_async;

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
    fn lchown(path; uid: Option<u32>, gid: Option<u32>) -> ();
    /// ```
    /// # runtime::block_on(async {
    /// let link = std::env::temp_dir().join(format!("fs-lchown-async-{}", std::process::id()));
    /// runtime::fs::symlink_async("/no/such/path", &link).await?;
    /// runtime::fs::lchown_async(&link, None, None).await?;
    /// assert!(runtime::fs::chown_async(&link, None, None).await.is_err());
    /// # runtime::fs::remove_file(link)?;
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    async fn lchown_async;
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

/// Calls [`fchown`] in a future: see [awaited](self#awaited). It takes `fd`, because the call may outlive the
/// future: a [`File`], an `OwnedFd`, an `Arc` of such a value.
///
/// # Panics
///
/// Panics if `fd` is a simulated file, which has no descriptor.
///
/// ```
/// # runtime::block_on(async {
/// let file = runtime::fs::File::open_async("Cargo.toml").await?;
/// runtime::fs::fchown_async(file, None, None).await?;
/// # std::io::Result::Ok(())
/// # })?;
/// # std::io::Result::Ok(())
/// ```
#[cfg(unix)]
pub async fn fchown_async<F>(fd: F, uid: Option<u32>, gid: Option<u32>) -> io::Result<()>
where
    F: std::os::fd::AsFd + Send + 'static,
{
    awaited(move || std::os::unix::fs::fchown(fd.as_fd(), uid, gid)).await
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

/// Calls [`write()`] in a future: see [awaited](self#awaited).
///
/// ```
/// # runtime::block_on(async {
/// let file = std::env::temp_dir().join(format!("fs-write-async-{}", std::process::id()));
/// runtime::fs::write_async(&file, b"hello").await?;
/// assert_eq!(runtime::fs::read_async(&file).await?, b"hello");
/// # runtime::fs::remove_file(file)?;
/// # std::io::Result::Ok(())
/// # })?;
/// # std::io::Result::Ok(())
/// ```
pub async fn write_async<P: AsRef<Path>, C: AsRef<[u8]>>(path: P, contents: C) -> io::Result<()> {
    let (path, contents) = (path.as_ref().to_path_buf(), contents.as_ref().to_vec());
    awaited(move || source::write(&path, &contents)).await
}

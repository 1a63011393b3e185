//! `File`: an open file.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::poll::Begun;
use super::{FileTimes, Metadata, OpenOptions, Permissions, TryLockError, awaited, source};
use crate::bounded::bounded;
use crate::net::Backoff;

/// An open file, with the API of [`std::fs::File`]. `&File` reads, writes and seeks, too.
///
/// Pipes, terminals and devices work, but block an OS thread: for those, see `net::Async`.
///
/// With the features `futures-io` and `tokio-io` it has `AsyncRead`, `AsyncWrite` and `AsyncSeek` of these
/// crates, with the meaning of tokio's own file. A write is done later: `poll_flush`, and the next write,
/// return its error. Flush before you call a method of the file, or drop it to let others read: what was
/// written is never taken back, but may come later, and is lost if the runtime ends before. Bytes that were
/// read for a dropped future are for the next one.
///
/// ```
/// use runtime::fs::File;
/// use std::io::{Read, Seek, Write};
/// let path = std::env::temp_dir().join(format!("fs-file-{}", std::process::id()));
/// let mut file = File::options().read(true).write(true).create(true).open(&path)?;
/// file.write_all(b"hello")?;
/// file.rewind()?;
/// let mut text = String::new();
/// file.read_to_string(&mut text)?;
/// assert_eq!(text, "hello");
/// # runtime::fs::remove_file(path)?;
/// # std::io::Result::Ok(())
/// ```
pub struct File {
    /// Shared with awaited calls, which may outlive their futures.
    pub(super) file: Arc<source::File>,
    /// What the traits of other crates have begun.
    #[allow(dead_code, reason = "only these traits use it")]
    pub(super) begun: Begun,
}

/// Writes methods that only call std's method of the same name.
macro_rules! as_in_std {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => { $(
        $(#[$doc])*
        pub fn $name(&self, $($arg: $type),*) -> $result {
            bounded(|| self.file.$name($($arg),*))
        }
    )* };
}

/// Writes such methods, and their awaited forms.
macro_rules! also_awaited {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty;
        $(#[$example:meta])*
        async fn $name_async:ident;
    )*) => { $(
        as_in_std! { $(#[$doc])* fn $name($($arg: $type),*) -> $result; }

        #[doc = concat!("Calls [`", stringify!($name), "`](File::", stringify!($name), ") in a future: see [awaited](crate::fs#awaited).")]
        ///
        $(#[$example])*
        pub async fn $name_async(&self, $($arg: $type),*) -> $result {
            let file = self.file.clone();
            awaited(move || file.$name($($arg),*)).await
        }
    )* };
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// assert!(runtime::fs::File::open("Cargo.toml")?.metadata()?.is_file());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn open<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).open(path)
    }

    /// Calls [`open`](File::open) in a future: see [awaited](crate::fs#awaited).
    ///
    /// ```
    /// # runtime::block_on(async {
    /// let file = runtime::fs::File::open_async("Cargo.toml").await?;
    /// assert!(file.metadata_async().await?.is_file());
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn open_async<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).open_async(path).await
    }

    /// Opens a file for writing. Makes it if there is none, and removes its content if there is one.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// let path = std::env::temp_dir().join(format!("fs-file-create-{}", std::process::id()));
    /// runtime::fs::File::create(&path)?;
    /// # runtime::fs::remove_file(path)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn create<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// Calls [`create`](File::create) in a future: see [awaited](crate::fs#awaited).
    ///
    /// ```
    /// # runtime::block_on(async {
    /// let path = std::env::temp_dir().join(format!("fs-file-create-async-{}", std::process::id()));
    /// runtime::fs::File::create_async(&path).await?;
    /// # runtime::fs::remove_file(path)?;
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn create_async<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).open_async(path).await
    }

    /// Makes a file, and opens it for reading and writing.
    ///
    /// # Errors
    ///
    /// Returns the system's error: `AlreadyExists` if there is one.
    ///
    /// ```
    /// let error = runtime::fs::File::create_new("Cargo.toml").unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    /// ```
    pub fn create_new<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// Calls [`create_new`](File::create_new) in a future: see [awaited](crate::fs#awaited).
    ///
    /// ```
    /// # runtime::block_on(async {
    /// let error = runtime::fs::File::create_new_async("Cargo.toml").await.unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn create_new_async<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open_async(path).await
    }

    /// Returns settings of which all are off, as [`OpenOptions::new`] does.
    ///
    /// ```
    /// runtime::fs::File::options().append(true).open("Cargo.toml")?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    also_awaited! {
        /// Waits until the system has written the content and the metadata to the disk. See
        /// [`std::fs::File::sync_all`].
        ///
        /// ```
        /// runtime::fs::File::open("Cargo.toml")?.sync_all()?;
        /// # std::io::Result::Ok(())
        /// ```
        fn sync_all() -> io::Result<()>;
        /// ```
        /// # runtime::block_on(async {
        /// runtime::fs::File::open_async("Cargo.toml").await?.sync_all_async().await?;
        /// # std::io::Result::Ok(())
        /// # })?;
        /// # std::io::Result::Ok(())
        /// ```
        async fn sync_all_async;

        /// Waits until the system has written the content to the disk. See [`std::fs::File::sync_data`].
        ///
        /// ```
        /// runtime::fs::File::open("Cargo.toml")?.sync_data()?;
        /// # std::io::Result::Ok(())
        /// ```
        fn sync_data() -> io::Result<()>;
        /// ```
        /// # runtime::block_on(async {
        /// runtime::fs::File::open_async("Cargo.toml").await?.sync_data_async().await?;
        /// # std::io::Result::Ok(())
        /// # })?;
        /// # std::io::Result::Ok(())
        /// ```
        async fn sync_data_async;

        /// Cuts the file, or extends it with zero bytes. See [`std::fs::File::set_len`].
        ///
        /// ```
        /// assert!(runtime::fs::File::open("Cargo.toml")?.set_len(0).is_err());
        /// # std::io::Result::Ok(())
        /// ```
        fn set_len(size: u64) -> io::Result<()>;
        /// ```
        /// # runtime::block_on(async {
        /// let file = runtime::fs::File::open_async("Cargo.toml").await?;
        /// assert!(file.set_len_async(0).await.is_err());
        /// # std::io::Result::Ok(())
        /// # })?;
        /// # std::io::Result::Ok(())
        /// ```
        async fn set_len_async;

        /// Returns the metadata.
        ///
        /// ```
        /// assert!(runtime::fs::File::open("Cargo.toml")?.metadata()?.len() > 0);
        /// # std::io::Result::Ok(())
        /// ```
        fn metadata() -> io::Result<Metadata>;
        /// ```
        /// # runtime::block_on(async {
        /// let file = runtime::fs::File::open_async("Cargo.toml").await?;
        /// assert!(file.metadata_async().await?.len() > 0);
        /// # std::io::Result::Ok(())
        /// # })?;
        /// # std::io::Result::Ok(())
        /// ```
        async fn metadata_async;

        /// Sets the permissions.
        ///
        /// ```
        /// let file = runtime::fs::File::open("Cargo.toml")?;
        /// file.set_permissions(file.metadata()?.permissions())?;
        /// # std::io::Result::Ok(())
        /// ```
        fn set_permissions(perm: Permissions) -> io::Result<()>;
        /// ```
        /// # runtime::block_on(async {
        /// let file = runtime::fs::File::open_async("Cargo.toml").await?;
        /// file.set_permissions_async(file.metadata_async().await?.permissions()).await?;
        /// # std::io::Result::Ok(())
        /// # })?;
        /// # std::io::Result::Ok(())
        /// ```
        async fn set_permissions_async;

        /// Sets the times that the system keeps of the file.
        ///
        /// ```
        /// runtime::fs::File::open("Cargo.toml")?.set_times(runtime::fs::FileTimes::new())?;
        /// # std::io::Result::Ok(())
        /// ```
        fn set_times(times: FileTimes) -> io::Result<()>;
        /// ```
        /// # runtime::block_on(async {
        /// let file = runtime::fs::File::open_async("Cargo.toml").await?;
        /// file.set_times_async(runtime::fs::FileTimes::new()).await?;
        /// # std::io::Result::Ok(())
        /// # })?;
        /// # std::io::Result::Ok(())
        /// ```
        async fn set_times_async;

        /// Sets the time of the last modification.
        ///
        /// ```
        /// let file = runtime::fs::File::open("Cargo.toml")?;
        /// file.set_modified(file.metadata()?.modified()?)?;
        /// # std::io::Result::Ok(())
        /// ```
        fn set_modified(time: SystemTime) -> io::Result<()>;
        /// ```
        /// # runtime::block_on(async {
        /// let file = runtime::fs::File::open_async("Cargo.toml").await?;
        /// file.set_modified_async(file.metadata_async().await?.modified()?).await?;
        /// # std::io::Result::Ok(())
        /// # })?;
        /// # std::io::Result::Ok(())
        /// ```
        async fn set_modified_async;
    }

    as_in_std! {
        /// Takes an exclusive lock if no other handle has a lock. See [`std::fs::File::try_lock`].
        ///
        /// ```
        /// let file = runtime::fs::File::open("Cargo.toml")?;
        /// file.try_lock()?;
        /// assert!(runtime::fs::File::open("Cargo.toml")?.try_lock().is_err());
        /// # std::io::Result::Ok(())
        /// ```
        fn try_lock() -> Result<(), TryLockError>;

        /// Takes a shared lock if no other handle has an exclusive one. See
        /// [`std::fs::File::try_lock_shared`].
        ///
        /// ```
        /// # let path = std::env::temp_dir().join(format!("fs-try-shared-{}", std::process::id()));
        /// # runtime::fs::write(&path, "")?;
        /// let [one, other] = [(); 2].map(|()| runtime::fs::File::open(&path).unwrap());
        /// one.try_lock_shared()?;
        /// other.try_lock_shared()?;
        /// # runtime::fs::remove_file(path)?;
        /// # std::io::Result::Ok(())
        /// ```
        fn try_lock_shared() -> Result<(), TryLockError>;

        /// Gives the lock of this handle up. See [`std::fs::File::unlock`].
        ///
        /// ```
        /// runtime::fs::File::open("Cargo.toml")?.unlock()?;
        /// # std::io::Result::Ok(())
        /// ```
        fn unlock() -> io::Result<()>;
    }

    /// Waits for an exclusive lock of the file. See [`std::fs::File::lock`].
    ///
    /// The system reports no event for a lock that is free, so it tries again after pauses, from 20 us to 10
    /// ms.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("fs-lock-{}", std::process::id()));
    /// # runtime::fs::write(&path, "")?;
    /// let file = runtime::fs::File::open(&path)?;
    /// file.lock()?;
    /// file.unlock()?;
    /// # runtime::fs::remove_file(path)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn lock(&self) -> io::Result<()> {
        after_pauses(|| self.try_lock())
    }

    /// Waits for an exclusive lock of the file in a future, as [`lock`](File::lock) does: see
    /// [awaited](crate::fs#awaited). Dropping the future ends the wait. If the lock was taken just then, it
    /// is given up.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("fs-lock-async-{}", std::process::id()));
    /// # runtime::fs::write(&path, "")?;
    /// # runtime::block_on(async {
    /// let file = runtime::fs::File::open_async(&path).await?;
    /// file.lock_async().await?;
    /// assert!(runtime::fs::File::open_async(&path).await?.try_lock().is_err());
    /// file.unlock()
    /// # })?;
    /// # runtime::fs::remove_file(path)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn lock_async(&self) -> io::Result<()> {
        self.after_pauses_async(source::File::try_lock).await
    }

    /// Waits for a shared lock of the file, as [`lock`](File::lock) does. See [`std::fs::File::lock_shared`].
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("fs-lock-shared-{}", std::process::id()));
    /// # runtime::fs::write(&path, "")?;
    /// let [one, other] = [(); 2].map(|()| runtime::fs::File::open(&path).unwrap());
    /// one.lock_shared()?;
    /// other.lock_shared()?;
    /// # runtime::fs::remove_file(path)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn lock_shared(&self) -> io::Result<()> {
        after_pauses(|| self.try_lock_shared())
    }

    /// Waits for a shared lock of the file in a future, as [`lock_async`](File::lock_async) does.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("fs-lock-shared-async-{}", std::process::id()));
    /// # runtime::fs::write(&path, "")?;
    /// # runtime::block_on(async {
    /// let file = runtime::fs::File::open_async(&path).await?;
    /// file.lock_shared_async().await?;
    /// runtime::fs::File::open_async(&path).await?.lock_shared_async().await
    /// # })?;
    /// # runtime::fs::remove_file(path)?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn lock_shared_async(&self) -> io::Result<()> {
        self.after_pauses_async(source::File::try_lock_shared).await
    }

    /// Tries until a lock is taken, with pauses in between.
    async fn after_pauses_async(
        &self,
        try_lock: fn(&source::File) -> Result<(), TryLockError>,
    ) -> io::Result<()> {
        let mut backoff = pauses();
        loop {
            let file = self.file.clone();
            match awaited(move || Ok(try_lock(&file).map(|()| NewLock { file, is_kept: false }))).await? {
                Ok(mut lock) => {
                    lock.is_kept = true;
                    return Ok(());
                }
                Err(TryLockError::WouldBlock) => crate::time::sleep_async(backoff.step()).await,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// Returns another handle to the same open file: both have the same position.
    ///
    /// # Errors
    ///
    /// Returns the system's error if it has no descriptors left.
    ///
    /// ```
    /// let file = runtime::fs::File::open("Cargo.toml")?.try_clone()?;
    /// assert!(file.metadata()?.is_file());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn try_clone(&self) -> io::Result<File> {
        bounded(|| self.file.try_clone()).map(File::new)
    }

    /// Calls [`try_clone`](File::try_clone) in a future: see [awaited](crate::fs#awaited).
    ///
    /// ```
    /// # runtime::block_on(async {
    /// let file = runtime::fs::File::open_async("Cargo.toml").await?.try_clone_async().await?;
    /// assert!(file.metadata_async().await?.is_file());
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn try_clone_async(&self) -> io::Result<File> {
        let file = self.file.clone();
        awaited(move || file.try_clone()).await.map(File::new)
    }

    pub(super) fn new(file: source::File) -> File {
        File { file: Arc::new(file), begun: Begun::default() }
    }

    /// Returns the file under this one. If an awaited call still runs after its future was dropped, it waits
    /// for the call's end by sleeping.
    fn into_source(self) -> source::File {
        let mut backoff = pauses();
        let mut shared = self.file;
        loop {
            match Arc::try_unwrap(shared) {
                Ok(file) => return file,
                Err(in_use) => shared = in_use,
            }
            crate::sleep(backoff.step());
        }
    }
}

/// A lock that was taken for a future. The drop gives it up if that was dropped.
struct NewLock {
    file: Arc<source::File>,
    is_kept: bool,
}

impl Drop for NewLock {
    fn drop(&mut self) {
        if !self.is_kept {
            // There is no one to whom an error could be reported.
            let _ = self.file.unlock();
        }
    }
}

/// Returns the pauses of a wait of which the system reports no end.
fn pauses() -> Backoff {
    Backoff::new(Duration::from_micros(20), Duration::from_millis(10))
}

/// Tries until a lock is taken, with pauses in between.
fn after_pauses(try_lock: impl Fn() -> Result<(), TryLockError>) -> io::Result<()> {
    let mut backoff = pauses();
    loop {
        match try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => crate::sleep(backoff.step()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> File {
        File::new(source::of_std(file))
    }
}

impl From<File> for std::fs::File {
    fn from(file: File) -> std::fs::File {
        source::into_std(file.into_source())
    }
}

impl From<File> for std::process::Stdio {
    fn from(file: File) -> std::process::Stdio {
        source::into_std(file.into_source()).into()
    }
}

#[cfg(unix)]
mod unix {
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
    use std::os::unix::fs::FileExt;

    use super::*;

    impl File {
        /// Reads into `buf` from `offset` bytes after the begin of the file on, in a future: see
        /// [awaited](crate::fs#awaited). Returns the number of bytes, which is 0 at the end of the file, and for
        /// an empty `buf`. The position in the file stays. It is
        /// [`FileExt::read_at`]. Unix only.
        ///
        /// ```
        /// # runtime::block_on(async {
        /// let path = std::env::temp_dir().join(format!("fs-file-read-at-{}", std::process::id()));
        /// runtime::fs::write_async(&path, "hello").await?;
        /// let (file, mut buf) = (runtime::fs::File::open_async(&path).await?, [0; 9]);
        /// assert_eq!(file.read_at_async(&mut buf, 3).await?, 2);
        /// assert_eq!(&buf[..2], b"lo");
        /// # runtime::fs::remove_file(path)?;
        /// # std::io::Result::Ok(())
        /// # })?;
        /// # std::io::Result::Ok(())
        /// ```
        pub async fn read_at_async(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            self.read_by(buf, move |file, bytes| file.read_at(bytes, offset)).await
        }

        /// Writes the first bytes of `buf` to where `offset` bytes of the file end, in a future: see
        /// [awaited](crate::fs#awaited). Returns how many were written. The position in the file stays. It is
        /// [`FileExt::write_at`]. Unix only.
        ///
        /// ```
        /// # runtime::block_on(async {
        /// let path = std::env::temp_dir().join(format!("fs-file-write-at-{}", std::process::id()));
        /// let file = runtime::fs::File::create_async(&path).await?;
        /// assert_eq!(file.write_at_async(b"there", 6).await?, 5);
        /// assert_eq!(file.write_at_async(b"hello ", 0).await?, 6);
        /// assert_eq!(runtime::fs::read_async(&path).await?, b"hello there");
        /// # runtime::fs::remove_file(path)?;
        /// # std::io::Result::Ok(())
        /// # })?;
        /// # std::io::Result::Ok(())
        /// ```
        pub async fn write_at_async(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
            let bytes = buf.to_vec();
            self.io_async(move |file| file.write_at(&bytes, offset)).await
        }
    }

    impl FileExt for File {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            bounded(|| self.file.read_at(buf, offset))
        }

        fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
            bounded(|| self.file.write_at(buf, offset))
        }
    }

    impl AsFd for File {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.file.as_fd()
        }
    }

    impl AsRawFd for File {
        fn as_raw_fd(&self) -> RawFd {
            self.file.as_raw_fd()
        }
    }

    impl IntoRawFd for File {
        fn into_raw_fd(self) -> RawFd {
            source::into_std(self.into_source()).into_raw_fd()
        }
    }

    /// ```
    /// use std::os::fd::{FromRawFd, IntoRawFd};
    /// let raw = runtime::fs::File::open("Cargo.toml")?.into_raw_fd();
    /// // SAFETY: `into_raw_fd` has given the descriptor up, so nothing else closes it.
    /// let file = unsafe { runtime::fs::File::from_raw_fd(raw) };
    /// assert!(file.metadata()?.is_file());
    /// # std::io::Result::Ok(())
    /// ```
    #[allow(unsafe_code)]
    impl FromRawFd for File {
        unsafe fn from_raw_fd(fd: RawFd) -> File {
            // SAFETY: the caller of this function owns the open descriptor, and gives it up.
            unsafe { OwnedFd::from_raw_fd(fd) }.into()
        }
    }

    impl From<OwnedFd> for File {
        fn from(fd: OwnedFd) -> File {
            File::new(source::of_std(fd.into()))
        }
    }

    impl From<File> for OwnedFd {
        fn from(file: File) -> OwnedFd {
            source::into_std(file.into_source()).into()
        }
    }
}

//! `File`: an open file.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{FileTimes, Metadata, OpenOptions, Permissions, TryLockError, source};
use crate::bounded::bounded;
use crate::net::Backoff;

/// An open file, with the API of [`std::fs::File`]. `&File` reads, writes and seeks, too.
///
/// Pipes, terminals and devices work, but block an OS thread: for those, see `net::Async`.
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
pub struct File(pub(super) source::File);

/// Writes methods that only call std's method of the same name.
macro_rules! as_in_std {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => { $(
        $(#[$doc])*
        pub fn $name(&self, $($arg: $type),*) -> $result {
            bounded(|| self.0.$name($($arg),*))
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

    /// Returns settings of which all are off, as [`OpenOptions::new`] does.
    ///
    /// ```
    /// runtime::fs::File::options().append(true).open("Cargo.toml")?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    as_in_std! {
        /// Waits until the system has written the content and the metadata to the disk. See
        /// [`std::fs::File::sync_all`].
        ///
        /// ```
        /// runtime::fs::File::open("Cargo.toml")?.sync_all()?;
        /// # std::io::Result::Ok(())
        /// ```
        fn sync_all() -> io::Result<()>;

        /// Waits until the system has written the content to the disk. See [`std::fs::File::sync_data`].
        ///
        /// ```
        /// runtime::fs::File::open("Cargo.toml")?.sync_data()?;
        /// # std::io::Result::Ok(())
        /// ```
        fn sync_data() -> io::Result<()>;

        /// Cuts the file, or extends it with zero bytes. See [`std::fs::File::set_len`].
        ///
        /// ```
        /// assert!(runtime::fs::File::open("Cargo.toml")?.set_len(0).is_err());
        /// # std::io::Result::Ok(())
        /// ```
        fn set_len(size: u64) -> io::Result<()>;

        /// Returns the metadata.
        ///
        /// ```
        /// assert!(runtime::fs::File::open("Cargo.toml")?.metadata()?.len() > 0);
        /// # std::io::Result::Ok(())
        /// ```
        fn metadata() -> io::Result<Metadata>;

        /// Sets the permissions.
        ///
        /// ```
        /// let file = runtime::fs::File::open("Cargo.toml")?;
        /// file.set_permissions(file.metadata()?.permissions())?;
        /// # std::io::Result::Ok(())
        /// ```
        fn set_permissions(perm: Permissions) -> io::Result<()>;

        /// Sets the times that the system keeps of the file.
        ///
        /// ```
        /// runtime::fs::File::open("Cargo.toml")?.set_times(runtime::fs::FileTimes::new())?;
        /// # std::io::Result::Ok(())
        /// ```
        fn set_times(times: FileTimes) -> io::Result<()>;

        /// Sets the time of the last modification.
        ///
        /// ```
        /// let file = runtime::fs::File::open("Cargo.toml")?;
        /// file.set_modified(file.metadata()?.modified()?)?;
        /// # std::io::Result::Ok(())
        /// ```
        fn set_modified(time: SystemTime) -> io::Result<()>;

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
        bounded(|| self.0.try_clone()).map(File)
    }
}

/// Tries until a lock is taken, with pauses in between.
fn after_pauses(try_lock: impl Fn() -> Result<(), TryLockError>) -> io::Result<()> {
    let mut backoff = Backoff::new(Duration::from_micros(20), Duration::from_millis(10));
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
        self.0.fmt(f)
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> File {
        File(source::of_std(file))
    }
}

impl From<File> for std::fs::File {
    fn from(file: File) -> std::fs::File {
        source::into_std(file.0)
    }
}

impl From<File> for std::process::Stdio {
    fn from(file: File) -> std::process::Stdio {
        source::into_std(file.0).into()
    }
}

#[cfg(unix)]
mod unix {
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
    use std::os::unix::fs::FileExt;

    use super::*;

    impl FileExt for File {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            bounded(|| self.0.read_at(buf, offset))
        }

        fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
            bounded(|| self.0.write_at(buf, offset))
        }
    }

    impl AsFd for File {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    impl AsRawFd for File {
        fn as_raw_fd(&self) -> RawFd {
            self.0.as_raw_fd()
        }
    }

    impl IntoRawFd for File {
        fn into_raw_fd(self) -> RawFd {
            source::into_std(self.0).into_raw_fd()
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
            File(source::of_std(fd.into()))
        }
    }

    impl From<File> for OwnedFd {
        fn from(file: File) -> OwnedFd {
            source::into_std(file.0).into()
        }
    }
}

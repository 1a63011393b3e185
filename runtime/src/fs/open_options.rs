//! `OpenOptions`: how a file is opened.

use std::io;
use std::path::Path;

use super::{File, awaited, source};
use crate::bounded::bounded;

/// The settings with which files are opened. See [`std::fs::OpenOptions`].
///
/// ```
/// use std::io::Write;
/// let path = std::env::temp_dir().join(format!("fs-options-{}", std::process::id()));
/// for word in ["hello ", "world"] {
///     runtime::fs::OpenOptions::new().append(true).create(true).open(&path)?.write_all(word.as_bytes())?;
/// }
/// assert_eq!(runtime::fs::read_to_string(&path)?, "hello world");
/// # runtime::fs::remove_file(path)?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions(source::OpenOptions);

/// Writes the settings that are switched on and off.
macro_rules! switches {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        pub fn $name(&mut self, on: bool) -> &mut OpenOptions {
            self.0.$name(on);
            self
        }
    )* };
}

impl OpenOptions {
    /// Returns settings of which all are off.
    ///
    /// ```
    /// assert!(runtime::fs::OpenOptions::new().open("Cargo.toml").is_err());
    /// ```
    #[allow(clippy::new_without_default)]
    pub fn new() -> OpenOptions {
        OpenOptions(source::OpenOptions::new())
    }

    switches! {
        /// Sets whether the file can be read.
        ///
        /// ```
        /// runtime::fs::OpenOptions::new().read(true).open("Cargo.toml")?;
        /// # std::io::Result::Ok(())
        /// ```
        read;

        /// Sets whether the file can be written. Without other settings, a write replaces bytes of the file.
        ///
        /// ```
        /// runtime::fs::OpenOptions::new().write(true).open("Cargo.toml")?;
        /// # std::io::Result::Ok(())
        /// ```
        write;

        /// Sets whether each write goes to the end of the file.
        ///
        /// ```
        /// runtime::fs::OpenOptions::new().append(true).open("Cargo.toml")?;
        /// # std::io::Result::Ok(())
        /// ```
        append;

        /// Sets whether the content of an existing file is removed.
        ///
        /// ```
        /// let error = runtime::fs::OpenOptions::new().read(true).truncate(true).open("Cargo.toml").unwrap_err();
        /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        /// ```
        truncate;

        /// Sets whether a file is made if there is none.
        ///
        /// ```
        /// let path = std::env::temp_dir().join(format!("fs-create-{}", std::process::id()));
        /// runtime::fs::OpenOptions::new().write(true).create(true).open(&path)?;
        /// runtime::fs::remove_file(path)?;
        /// # std::io::Result::Ok(())
        /// ```
        create;

        /// Sets whether a file is made, and an existing one is an error of kind `AlreadyExists`.
        ///
        /// ```
        /// let error = runtime::fs::OpenOptions::new().write(true).create_new(true).open("Cargo.toml").unwrap_err();
        /// assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
        /// ```
        create_new;
    }

    /// Opens a file with these settings.
    ///
    /// Opening a FIFO blocks until its other end is opened. A green thread that opens the other end needs a
    /// place, too: see [`Builder::blocking_threads`](crate::Builder::blocking_threads).
    ///
    /// # Errors
    ///
    /// Returns the system's error. Returns `InvalidInput` for settings that contradict each other.
    ///
    /// ```
    /// let error = runtime::fs::OpenOptions::new().read(true).open("/no/such/path").unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    /// ```
    pub fn open<P: AsRef<Path>>(&self, path: P) -> io::Result<File> {
        let path = path.as_ref();
        bounded(|| self.0.open(path)).map(File::new)
    }

    /// Calls [`open`](OpenOptions::open) in a future: see [awaited](crate::fs#awaited).
    ///
    /// ```
    /// # runtime::block_on(async {
    /// let file = runtime::fs::OpenOptions::new().read(true).open_async("Cargo.toml").await?;
    /// assert!(file.metadata_async().await?.is_file());
    /// # std::io::Result::Ok(())
    /// # })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn open_async<P: AsRef<Path>>(&self, path: P) -> io::Result<File> {
        let (options, path) = (self.0.clone(), path.as_ref().to_path_buf());
        awaited(move || options.open(&path)).await.map(File::new)
    }
}

#[cfg(unix)]
impl std::os::unix::fs::OpenOptionsExt for OpenOptions {
    fn mode(&mut self, mode: u32) -> &mut OpenOptions {
        self.0.mode(mode);
        self
    }

    fn custom_flags(&mut self, flags: i32) -> &mut OpenOptions {
        self.0.custom_flags(flags);
        self
    }
}

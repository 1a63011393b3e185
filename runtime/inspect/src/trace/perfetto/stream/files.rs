//! The files of a stream: a new one when the last is large or old, and no more of them than wanted.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::trace::create_new;

/// When a file is complete, and how many there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) max_file_bytes: u64,
    pub(super) max_file_age: Duration,
    pub(super) keep: usize,
}

/// The files of one stream in a folder.
pub(super) struct Files {
    folder: PathBuf,
    limits: Limits,
    current: Option<Current>,
}

/// How many files this process has begun.
static BEGUN: AtomicU64 = AtomicU64::new(0);

struct Current {
    file: File,
    bytes: u64,
    since: Instant,
}

impl Files {
    /// Creates the folder, unless it is there, and the first file.
    ///
    /// # Errors
    /// Returns the errors of the file system.
    pub(super) fn create(folder: &Path, limits: Limits) -> io::Result<Files> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder).map_err(|error| with_path(folder, error))?;
        let mut files = Files { folder: folder.to_path_buf(), limits, current: None };
        files.begin()?;
        Ok(files)
    }

    /// Returns `true` if there is a file: the last write has not failed.
    pub(super) fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// Returns `true` if the file is too large or too old.
    pub(super) fn is_complete(&self) -> bool {
        let is_complete = |file: &Current| {
            file.bytes >= self.limits.max_file_bytes || file.since.elapsed() >= self.limits.max_file_age
        };
        self.current.as_ref().is_some_and(is_complete)
    }

    /// Begins a new file, and removes the oldest ones.
    ///
    /// # Errors
    /// Returns the errors of the file system. There is no file then.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.current = None;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // Relaxed: only the number counts.
        let name = name(now.as_millis(), BEGUN.fetch_add(1, Ordering::Relaxed), std::process::id());
        // With the path of the folder, so that the same error has the same text again.
        let file = create_new(&self.folder.join(&name)).map_err(|error| with_path(&self.folder, error))?;
        self.current = Some(Current { file, bytes: 0, since: Instant::now() });
        self.remove_oldest(&name).map_err(|error| with_path(&self.folder, error))
    }

    /// Writes `bytes` to the file, if there is one.
    ///
    /// # Errors
    /// Returns the errors of the file system. There is no file then.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        current.bytes += bytes.len() as u64;
        current.file.write_all(bytes).map_err(|error| {
            self.current = None;
            with_path(&self.folder, error)
        })
    }

    /// Removes files until there are as many as wanted with `current`. The files of earlier processes count.
    fn remove_oldest(&self, current: &str) -> io::Result<()> {
        let mut names = Vec::new();
        for file in fs::read_dir(&self.folder)? {
            names
                .extend(file?.file_name().into_string().ok().filter(|name| is_name(name) && name != current));
        }
        names.sort_unstable();
        for name in &names[..(names.len() + 1).saturating_sub(self.limits.keep)] {
            match fs::remove_file(self.folder.join(name)) {
                // Another process has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        Ok(())
    }
}

/// Returns the error with the path that it concerns.
fn with_path(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Returns the name of a file that a process begins at this time. The names of later files are greater.
fn name(unix_ms: u128, number: u64, process: u32) -> String {
    format!("stream-{unix_ms:013}-{number:06}-{process}.pftrace")
}

/// Returns `true` if [`name`] makes such names.
fn is_name(text: &str) -> bool {
    let Some(numbers) = text.strip_prefix("stream-").and_then(|text| text.strip_suffix(".pftrace")) else {
        return false;
    };
    let numbers: Vec<&str> = numbers.split('-').collect();
    let is_number =
        |text: &str, digits| text.len() >= digits && text.bytes().all(|byte| byte.is_ascii_digit());
    matches!(numbers[..], [ms, number, process]
        if is_number(ms, 13) && is_number(number, 6) && is_number(process, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_their_files() {
        let now = 1_764_000_000_000;
        let names = [name(9, 0, 77), name(9, 1, 77), name(now, 2, 5), name(now, 10, 5), name(now + 1, 0, 4)];
        assert!(names.is_sorted() && names.iter().all(|name| is_name(name)), "{names:?}");
        let others = [
            "stream-1-1-1.pftrace",
            "stream-0000000000001-000001-.pftrace",
            "trace.pftrace",
            "stream-.pftrace",
        ];
        assert!(!others.into_iter().any(is_name));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri isolates tests from files")]
    fn the_oldest_files_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("of/streams");
        let limits = Limits { max_file_bytes: 10, max_file_age: Duration::MAX, keep: 2 };
        let mut files = Files::create(&folder, limits).unwrap();
        let there = || {
            let names =
                fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<_> = names.collect();
            names.sort_unstable();
            names
        };
        let first = there();
        for other in ["notes.txt", "stream-.pftrace"] {
            fs::write(folder.join(other), "precious").unwrap();
        }
        files.write(&[1; 9]).unwrap();
        assert!(files.is_open() && !files.is_complete());
        files.write(&[1; 9]).unwrap();
        assert!(files.is_complete(), "it is too large");
        files.begin().unwrap();
        assert!(!files.is_complete() && there().contains(&first[0]));
        files.begin().unwrap();
        let last = there();
        assert!(!last.contains(&first[0]) && last.len() == 4, "{last:?}");
        assert!(last.contains(&"notes.txt".into()) && last.contains(&"stream-.pftrace".into()));
    }
}

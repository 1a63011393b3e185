//! The files of traces that are written by themselves: no file replaces another, and an exit leaves no half
//! file of the name. What it may leave, a part beside it, is removed with the next trace, a minute later at
//! the earliest.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Snapshot, create_new};

/// The most files of one name. The files of earlier processes count.
const NUMBERS: usize = 100;

/// A file that is written beside its place, and moved there when it is complete. It is opened once: another
/// user of the folder may put a link in its place before a second open.
pub(super) struct Part {
    file: File,
    at: PathBuf,
    place: PathBuf,
}

impl Part {
    /// Creates the file. A failure costs no snapshot.
    ///
    /// # Errors
    /// Returns the errors of the file system. `AlreadyExists`: all numbers are taken.
    pub(super) fn create(place: &Path) -> io::Result<Part> {
        if names(place).all(|name| name.exists()) {
            return Err(all_taken(place));
        }
        remove_left_parts(place);
        let at = beside(place);
        Ok(Part { file: create_new(&at)?, at, place: place.to_path_buf() })
    }

    /// Writes the trace, and moves it to the first name that is free. Returns that name.
    ///
    /// # Errors
    /// Returns the errors of the file system. `AlreadyExists`: all numbers are taken.
    pub(super) fn save(self, trace: &Snapshot) -> io::Result<PathBuf> {
        trace.write_to(self.file.try_clone()?, &self.at)?;
        let name = reserve(&self.place)?;
        fs::rename(&self.at, &name).inspect_err(|_| _ = fs::remove_file(&name))?;
        Ok(name)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // After the move there is no file of this name.
        let _ = fs::remove_file(&self.at);
    }
}

/// Returns a name beside `place`, with the same ending. It is random, because processes in two containers may
/// have one id and one folder.
fn beside(place: &Path) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!(".{:016x}-{name}", RandomState::new().hash_one(0)))
}

/// A part that was not written for so long belongs to a process that has ended.
const LEFT: Duration = Duration::from_secs(60);

/// Removes the parts of `place` that processes left when they ended in the middle of a trace.
fn remove_left_parts(place: &Path) {
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let pattern = beside(place);
    let (Some(like), Ok(files)) = (pattern.file_name().and_then(OsStr::to_str), fs::read_dir(folder)) else {
        return;
    };
    let (random, ending) = like.split_at(RANDOM);
    let is_part = |name: &str| {
        name.len() == like.len()
            && name.starts_with(&random[..1])
            && name.ends_with(ending)
            && is_hex(&name[1..RANDOM])
    };
    for file in files.flatten() {
        let is_old = || file.metadata().ok()?.modified().ok()?.elapsed().ok().map(|age| age >= LEFT);
        if file.file_name().to_str().is_some_and(is_part) && is_old() == Some(true) {
            let _ = fs::remove_file(file.path());
        }
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The bytes of the name of a part up to its random number: a dot and 16 digits.
const RANDOM: usize = 17;

/// Creates an empty file with the first name that is free, so that no other process takes this name.
fn reserve(place: &Path) -> io::Result<PathBuf> {
    for name in names(place) {
        match create_new(&name) {
            Ok(_) => return Ok(name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(all_taken(place))
}

fn all_taken(place: &Path) -> io::Error {
    let text = format!("{} and {} more of its name are there; remove some", place.display(), NUMBERS - 1);
    io::Error::new(io::ErrorKind::AlreadyExists, text)
}

fn names(place: &Path) -> impl Iterator<Item = PathBuf> {
    (1..=NUMBERS).map(|n| numbered(place, n))
}

/// Returns the name of file `n`: `trace.html`, then `trace-2.html`.
fn numbered(place: &Path, n: usize) -> PathBuf {
    if n == 1 {
        return place.to_path_buf();
    }
    let mut name = place.file_stem().unwrap_or_default().to_os_string();
    name.push(format!("-{n}"));
    if let Some(extension) = place.extension() {
        name.push(".");
        name.push(extension);
    }
    place.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_numbered_from_the_second_on() {
        let name = |n| numbered(Path::new("/tmp/a.b/trace.html"), n);
        assert_eq!(name(1), Path::new("/tmp/a.b/trace.html"));
        assert_eq!(name(2), Path::new("/tmp/a.b/trace-2.html"));
        assert_eq!(numbered(Path::new("trace"), 3), Path::new("trace-3"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri isolates tests from files")]
    fn no_file_replaces_another() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let place = folder.join("trace.html");
        fs::write(&place, "the evidence").unwrap();
        let save = || Part::create(&place).and_then(|part| part.save(&Snapshot::default()));
        assert_eq!(save().unwrap(), folder.join("trace-2.html"));
        assert_eq!(save().unwrap(), folder.join("trace-3.html"));
        assert_eq!(fs::read_to_string(&place).unwrap(), "the evidence");
        names(&place).for_each(|name| fs::write(name, "").unwrap());
        assert_eq!(save().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_dir(folder).unwrap().count(), NUMBERS, "no part is left");
    }

    /// In a folder that others may write, a part may be replaced by a link while its trace is written.
    #[test]
    #[cfg(unix)]
    #[cfg_attr(miri, ignore = "Miri isolates tests from files")]
    fn a_part_is_opened_once_and_private() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (place, victim) = (folder.join("trace.html"), folder.join("victim"));
        fs::write(&victim, "precious").unwrap();
        let part = Part::create(&place).unwrap();
        assert_eq!(fs::metadata(&part.at).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_file(&part.at).unwrap();
        symlink(&victim, &part.at).unwrap();
        let _ = part.save(&Snapshot::default());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri isolates tests from files")]
    fn parts_of_ended_processes_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let place = folder.join("trace.html");
        let old = std::time::SystemTime::now() - 2 * LEFT;
        let file = |path: PathBuf, is_old: bool| {
            let file = File::create_new(path).unwrap();
            if is_old {
                file.set_modified(old).unwrap();
            }
        };
        let (left, fresh) = (beside(&place), beside(&place));
        file(left.clone(), true);
        file(fresh.clone(), false);
        let others = [
            ".trace.html",
            "x0123456789abcdef-trace.html",
            ".0123456789abcdeg-trace.html",
            ".0123456789abcdef-other.html",
        ];
        others.iter().for_each(|name| file(folder.join(name), true));
        drop(Part::create(&place).unwrap());
        assert!(!left.exists() && fresh.exists());
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1 + others.len());
    }
}

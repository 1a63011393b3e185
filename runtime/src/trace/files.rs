//! The files of traces that are written by themselves: no file replaces another, and an exit leaves no half file.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use super::Snapshot;

/// The most files of one name. The files of earlier processes count.
const NUMBERS: usize = 100;

/// A file that is written beside its place, and moved there when it is complete.
pub(super) struct Part {
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
        let part = Part { at: beside(place), place: place.to_path_buf() };
        File::create_new(&part.at)?;
        Ok(part)
    }

    /// Writes the trace, and moves it to the first name that is free. Returns that name.
    ///
    /// # Errors
    /// Returns the errors of the file system. `AlreadyExists`: all numbers are taken.
    pub(super) fn save(self, trace: &Snapshot) -> io::Result<PathBuf> {
        trace.save(&self.at)?;
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

/// Returns a name beside `place`, with the same ending. It is random, because processes in two containers may have one id and one folder.
fn beside(place: &Path) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!(".{:016x}-{name}", RandomState::new().hash_one(0)))
}

/// Creates an empty file with the first name that is free, so that no other process takes this name.
fn reserve(place: &Path) -> io::Result<PathBuf> {
    for name in names(place) {
        match File::create_new(&name) {
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
    fn no_file_replaces_another() {
        let folder = std::env::temp_dir().join(format!("trace-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let place = folder.join("trace.html");
        fs::write(&place, "the evidence").unwrap();
        let save = || Part::create(&place).and_then(|part| part.save(&Snapshot::default()));
        assert_eq!(save().unwrap(), folder.join("trace-2.html"));
        assert_eq!(save().unwrap(), folder.join("trace-3.html"));
        assert_eq!(fs::read_to_string(&place).unwrap(), "the evidence");
        names(&place).for_each(|name| fs::write(name, "").unwrap());
        assert_eq!(save().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), NUMBERS, "no part is left");
        fs::remove_dir_all(&folder).unwrap();
    }
}

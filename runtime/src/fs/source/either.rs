//! Files of the system or of a simulation. (Feature `sim`.)
//!
//! A green thread of a simulation works on the disk of its node. A file of the system that is made one of
//! this crate stays real.

mod dir;
mod file;

use std::fs::{Metadata, Permissions};
use std::io;
use std::path::{Path, PathBuf};

use sim::disk as simulated;

pub(crate) use dir::{DirBuilder, DirEntry, ReadDir, read_dir};
pub(crate) use file::{File, OpenOptions, into_std, of_std};

/// Writes functions that both have.
macro_rules! forward {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(; $more:expr)?) -> $result:ty, or $std:path;)*) => { $(
        pub(crate) fn $name($($arg: $type),*) -> io::Result<$result> {
            simulated::$name($($arg),* $(, $more)?).unwrap_or_else(|| $std($($arg),*))
        }
    )* };
}

forward! {
    fn canonicalize(path: &Path) -> PathBuf, or std::fs::canonicalize;
    fn create_dir(path: &Path; 0o777) -> (), or std::fs::create_dir;
    fn create_dir_all(path: &Path; 0o777) -> (), or std::fs::create_dir_all;
    fn exists(path: &Path) -> bool, or std::fs::exists;
    fn hard_link(original: &Path, link: &Path) -> (), or std::fs::hard_link;
    fn metadata(path: &Path; true) -> Metadata, or std::fs::metadata;
    fn read_link(path: &Path) -> PathBuf, or std::fs::read_link;
    fn remove_dir(path: &Path) -> (), or std::fs::remove_dir;
    fn remove_dir_all(path: &Path) -> (), or std::fs::remove_dir_all;
    fn remove_file(path: &Path) -> (), or std::fs::remove_file;
    fn rename(from: &Path, to: &Path) -> (), or std::fs::rename;
    fn symlink(original: &Path, link: &Path) -> (), or std::os::unix::fs::symlink;
}

/// Writes functions that only the system has.
macro_rules! only_real {
    ($($name:ident)*) => { $(
        pub(crate) fn $name(path: &Path, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
            if sim::is_simulated() {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "simulated files have no owners"));
            }
            std::os::unix::fs::$name(path, uid, gid)
        }
    )* };
}

only_real! { chown lchown }

pub(crate) fn symlink_metadata(path: &Path) -> io::Result<Metadata> {
    simulated::metadata(path, false).unwrap_or_else(|| std::fs::symlink_metadata(path))
}

pub(crate) fn set_permissions(path: &Path, permissions: Permissions) -> io::Result<()> {
    simulated::set_permissions(path, &permissions)
        .unwrap_or_else(|| std::fs::set_permissions(path, permissions))
}

pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let Some(file) = simulated::open(path, &simulated::Flags::reading()) else { return std::fs::read(path) };
    let mut bytes = Vec::new();
    file?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(crate) fn read_to_string(path: &Path) -> io::Result<String> {
    if !sim::is_simulated() {
        return std::fs::read_to_string(path);
    }
    file::text_of(read(path)?)
}

pub(crate) fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    match simulated::open(path, &simulated::Flags::writing()) {
        Some(file) => file?.write_all(contents),
        None => std::fs::write(path, contents),
    }
}

pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<u64> {
    if !sim::is_simulated() {
        return std::fs::copy(from, to);
    }
    let permissions = metadata(from)?.permissions();
    let bytes = read(from)?;
    write(to, &bytes)?;
    set_permissions(to, permissions)?;
    Ok(bytes.len() as u64)
}

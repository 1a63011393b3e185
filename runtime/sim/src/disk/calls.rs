//! What takes the place of the functions of `std::fs` in a simulation. Each returns `None` outside of one.

use std::ffi::OsString;
use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sched::simulation;

use super::file::{File, Flags};
use super::here;
use super::metadata::{Stat, metadata_of};
use super::tree::{Disk, Kind};
use crate::errors::error;

/// Calls `f` with the disk of the caller's node, or fails as the seed decides.
fn on<T>(f: impl FnOnce(&mut Disk) -> io::Result<T>) -> Option<io::Result<T>> {
    let (disks, node) = (here()?, simulation::node());
    Some(disks.may_fail(node).and_then(|()| disks.on(node, f)))
}

pub fn open(path: &Path, flags: &Flags) -> Option<io::Result<File>> {
    Some(File::open(&here()?, simulation::node(), path, flags))
}

pub fn canonicalize(path: &Path) -> Option<io::Result<PathBuf>> {
    on(|disk| {
        let place = disk.find(path, true)?;
        place.found.ok_or_else(|| error(libc::ENOENT))?;
        Ok(disk.path_of(&place))
    })
}

pub fn create_dir(path: &Path, mode: u32) -> Option<io::Result<()>> {
    on(|disk| disk.make_dir(path, mode))
}

pub fn create_dir_all(path: &Path, mode: u32) -> Option<io::Result<()>> {
    on(|disk| disk.make_dirs(path, mode))
}

pub fn exists(path: &Path) -> Option<io::Result<bool>> {
    on(|disk| match disk.inode_at(path, true) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        found => Ok(found.is_ok()),
    })
}

pub fn hard_link(original: &Path, link: &Path) -> Option<io::Result<()>> {
    on(|disk| disk.link(original, link))
}

pub fn metadata(path: &Path, follows: bool) -> Option<io::Result<Metadata>> {
    let stat = on(|disk| {
        let inode = disk.inode_at(path, follows)?;
        Ok(Stat::of(simulation::node(), inode, disk.get(inode)))
    })?;
    Some(stat.and_then(metadata_of))
}

pub fn read_link(path: &Path) -> Option<io::Result<PathBuf>> {
    on(|disk| match &disk.get(disk.inode_at(path, false)?).kind {
        Kind::Link(target) => Ok(target.clone()),
        _ => Err(error(libc::EINVAL)),
    })
}

pub fn remove_dir(path: &Path) -> Option<io::Result<()>> {
    on(|disk| disk.remove(path, true))
}

pub fn remove_dir_all(path: &Path) -> Option<io::Result<()>> {
    on(|disk| {
        if matches!(disk.get(disk.inode_at(path, false)?).kind, Kind::Link(_)) {
            return disk.remove(path, false);
        }
        remove_inside(disk, path)
    })
}

fn remove_inside(disk: &mut Disk, path: &Path) -> io::Result<()> {
    let names: Vec<_> =
        disk.dir_at(path)?.entries.iter().map(|(name, inode)| (name.clone(), *inode)).collect();
    for (name, inode) in names {
        let inner = path.join(name);
        if disk.get(inode).is_dir() { remove_inside(disk, &inner)? } else { disk.remove(&inner, false)? }
    }
    disk.remove(path, true)
}

pub fn remove_file(path: &Path) -> Option<io::Result<()>> {
    on(|disk| disk.remove(path, false))
}

pub fn rename(from: &Path, to: &Path) -> Option<io::Result<()>> {
    on(|disk| disk.rename(from, to))
}

pub fn symlink(original: &Path, link: &Path) -> Option<io::Result<()>> {
    on(|disk| {
        let place = disk.find(link, false)?;
        disk.make(&place, Kind::Link(original.to_path_buf()), 0o777).map(drop)
    })
}

pub fn set_permissions(path: &Path, permissions: &Permissions) -> Option<io::Result<()>> {
    on(|disk| {
        let inode = disk.inode_at(path, true)?;
        disk.get_mut(inode).mode = permissions.mode() & 0o7777;
        Ok(())
    })
}

/// Returns the names in a directory.
pub fn read_dir(path: &Path) -> Option<io::Result<Vec<OsString>>> {
    on(|disk| Ok(disk.dir_at(path)?.entries.keys().cloned().collect()))
}

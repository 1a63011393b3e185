//! `Disk`: the files and directories of a node, found by their paths.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::super::network::Decisions;
use super::super::schedule::Fault;
use super::changes::{Change, Changes, Synced};
use super::content::{Content, Loss};
use super::locks::Locks;
use crate::errors::error;

/// The number of the root.
const ROOT: u64 = 1;

/// The most symbolic links in a path, as on Linux.
const MOST_LINKS: usize = 40;

/// How many files and directories a disk has before it looks for those that nothing refers to.
const FIRST_SWEEP: usize = 1000;

/// The disk of a node.
#[derive(Debug)]
pub(super) struct Disk {
    inodes: BTreeMap<u64, Inode>,
    last: u64,
    synced: Synced,
    changes: Changes,
    /// The date on the node, in ns after 1970.
    pub(super) now: u64,
    /// How often the node was killed: files that were opened before are closed.
    pub(super) epoch: u64,
    /// At how many inodes those are removed that nothing refers to.
    sweep_at: usize,
}

/// A file, a directory, a symbolic link or the name of a Unix socket.
#[derive(Debug)]
pub(super) struct Inode {
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) made: u64,
    pub(super) modified: u64,
    /// How many names it has.
    pub(super) links: u32,
    /// How many open files there are of it.
    pub(super) opened: usize,
    pub(super) locks: Locks,
}

#[derive(Debug)]
pub(super) enum Kind {
    File(Content),
    Dir(Dir),
    Link(PathBuf),
    /// What a Unix socket was bound to. The network knows which socket that is.
    Socket,
}

#[derive(Debug, Default)]
pub(super) struct Dir {
    pub(super) entries: BTreeMap<OsString, u64>,
    parent: u64,
}

/// Where a path leads.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The directory, and the name there. The root and paths that end with `..` have no name.
    dir: u64,
    name: Option<OsString>,
    /// What is there.
    pub(super) found: Option<u64>,
}

impl Inode {
    fn new(kind: Kind, mode: u32, now: u64) -> Inode {
        Inode { kind, mode, made: now, modified: now, links: 0, opened: 0, locks: Locks::default() }
    }

    pub(super) fn content(&mut self) -> io::Result<&mut Content> {
        match &mut self.kind {
            Kind::File(content) => Ok(content),
            _ => Err(error(libc::EISDIR)),
        }
    }

    /// Returns the length of a file, and 0 for others.
    fn len(&self) -> u64 {
        if let Kind::File(content) = &self.kind { content.len() as u64 } else { 0 }
    }

    fn dir(&self) -> io::Result<&Dir> {
        match &self.kind {
            Kind::Dir(dir) => Ok(dir),
            _ => Err(error(libc::ENOTDIR)),
        }
    }

    /// Counts a further name, in `dir`.
    fn add_name(&mut self, dir: u64) {
        self.links += 1;
        if let Kind::Dir(moved) = &mut self.kind {
            moved.parent = dir;
        }
    }

    pub(super) fn is_dir(&self) -> bool {
        matches!(self.kind, Kind::Dir(_))
    }
}

impl Disk {
    /// Returns a new disk, with a root and the directory for temporary files.
    pub(super) fn new(now: u64) -> Disk {
        let root = Inode::new(Kind::Dir(Dir { parent: ROOT, ..Dir::default() }), 0o755, now);
        let mut disk = Disk {
            inodes: BTreeMap::from([(ROOT, root)]),
            last: ROOT,
            synced: Synced::new(),
            changes: Changes::default(),
            now,
            epoch: 0,
            sweep_at: FIRST_SWEEP,
        };
        for dir in [Path::new("/tmp"), &std::env::temp_dir()] {
            disk.make_dirs(dir, 0o777).expect("a new disk has nothing in the way");
        }
        disk.sync_all();
        disk
    }

    pub(super) fn get(&self, inode: u64) -> &Inode {
        &self.inodes[&inode]
    }

    pub(super) fn get_mut(&mut self, inode: u64) -> &mut Inode {
        self.inodes.get_mut(&inode).expect("what is referred to is there")
    }

    /// Finds where `path` leads; its last name too, if that is a symbolic link and `follows`. A relative path
    /// begins at the root.
    pub(super) fn find(&self, path: &Path, follows: bool) -> io::Result<Place> {
        if path.as_os_str().is_empty() {
            return Err(error(libc::ENOENT));
        }
        let mut left: VecDeque<Option<OsString>> = VecDeque::new();
        let push = |left: &mut VecDeque<_>, path: &Path| {
            for part in path.components().rev() {
                match part {
                    Component::Normal(name) => left.push_front(Some(name.to_os_string())),
                    Component::ParentDir => left.push_front(None),
                    _ => {}
                }
            }
        };
        push(&mut left, path);
        let (mut dir, mut links) = (ROOT, 0);
        while let Some(part) = left.pop_front() {
            let Some(name) = part else {
                dir = self.get(dir).dir()?.parent;
                continue;
            };
            let found = self.get(dir).dir()?.entries.get(&name).copied();
            let is_last = left.is_empty();
            match found.map(|inode| (inode, &self.get(inode).kind)) {
                Some((_, Kind::Link(target))) if follows || !is_last => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(error(libc::ELOOP));
                    }
                    if target.is_absolute() {
                        dir = ROOT;
                    }
                    push(&mut left, target);
                }
                _ if is_last => return Ok(Place { dir, name: Some(name), found }),
                Some((inode, _)) => dir = inode,
                None => return Err(error(libc::ENOENT)),
            }
        }
        Ok(Place { dir, name: None, found: Some(dir) })
    }

    /// Finds what is at `path`.
    pub(super) fn inode_at(&self, path: &Path, follows: bool) -> io::Result<u64> {
        self.find(path, follows)?.found.ok_or_else(|| error(libc::ENOENT))
    }

    pub(super) fn dir_at(&self, path: &Path) -> io::Result<&Dir> {
        self.get(self.inode_at(path, true)?).dir()
    }

    /// Returns the path of a place without symbolic links.
    pub(super) fn path_of(&self, place: &Place) -> PathBuf {
        let mut names = place.name.clone().into_iter().collect::<Vec<_>>();
        let mut at = place.dir;
        while at != ROOT {
            let Kind::Dir(Dir { parent, .. }) = self.get(at).kind else { break };
            let Kind::Dir(above) = &self.get(parent).kind else { break };
            names.extend(above.entries.iter().find(|(_, inode)| **inode == at).map(|(name, _)| name.clone()));
            at = parent;
        }
        Path::new("/").join(names.into_iter().rev().collect::<PathBuf>())
    }

    /// Changes entries: what programs see changes at once.
    fn change(&mut self, inode: u64, entries: Vec<(u64, OsString, Option<u64>)>) {
        let now = self.now;
        for (dir, name, inode) in &entries {
            let above = self.get_mut(*dir);
            above.modified = now;
            let Kind::Dir(above) = &mut above.kind else { unreachable!("entries are those of directories") };
            let before = match inode {
                Some(inode) => above.entries.insert(name.clone(), *inode),
                None => above.entries.remove(name),
            };
            before.into_iter().for_each(|before| self.get_mut(before).links -= 1);
            if let Some(inode) = inode {
                self.get_mut(*inode).add_name(*dir);
            }
        }
        self.changes.add(Change { entries, inode }, &mut self.synced);
    }

    /// Makes something at a place that is free.
    pub(super) fn make(&mut self, place: &Place, kind: Kind, mode: u32) -> io::Result<u64> {
        let (Some(name), None) = (&place.name, place.found) else { return Err(error(libc::EEXIST)) };
        self.sweep();
        self.last += 1;
        let inode = self.last;
        self.inodes.insert(inode, Inode::new(kind, mode & 0o7777 & !0o022, self.now));
        self.change(inode, vec![(place.dir, name.clone(), Some(inode))]);
        Ok(inode)
    }

    pub(super) fn make_dir(&mut self, path: &Path, mode: u32) -> io::Result<()> {
        let place = self.find(path, false)?;
        self.make(&place, Kind::Dir(Dir::default()), mode).map(drop)
    }

    pub(super) fn make_dirs(&mut self, path: &Path, mode: u32) -> io::Result<()> {
        match self.make_dir(path, mode) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_dirs(path.parent().ok_or(error)?, mode)?;
                self.make_dir(path, mode)
            }
            Err(_) if self.dir_at(path).is_ok() => Ok(()),
            made => made,
        }
    }

    /// Gives a file a further name.
    pub(super) fn link(&mut self, original: &Path, link: &Path) -> io::Result<()> {
        let (inode, place) = (self.inode_at(original, false)?, self.find(link, false)?);
        if self.get(inode).is_dir() {
            return Err(error(libc::EPERM));
        }
        let (Some(name), None) = (place.name, place.found) else { return Err(error(libc::EEXIST)) };
        self.change(inode, vec![(place.dir, name, Some(inode))]);
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path, is_dir: bool) -> io::Result<()> {
        let place = self.find(path, false)?;
        let inode = place.found.ok_or_else(|| error(libc::ENOENT))?;
        match &self.get(inode).kind {
            Kind::Dir(_) if !is_dir => return Err(error(libc::EISDIR)),
            Kind::Dir(dir) if !dir.entries.is_empty() => return Err(error(libc::ENOTEMPTY)),
            Kind::File(_) | Kind::Link(_) | Kind::Socket if is_dir => return Err(error(libc::ENOTDIR)),
            _ => {}
        }
        let name = place.name.ok_or_else(|| error(libc::EBUSY))?;
        self.change(inode, vec![(place.dir, name, None)]);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.find(from, false)?, self.find(to, false)?);
        let inode = from.found.ok_or_else(|| error(libc::ENOENT))?;
        let (Some(name), Some(new_name)) = (from.name, to.name) else { return Err(error(libc::EBUSY)) };
        if to.found == Some(inode) {
            return Ok(());
        }
        let is_dir = self.get(inode).is_dir();
        if is_dir && self.is_inside(to.dir, inode) {
            return Err(error(libc::EINVAL));
        }
        match to.found.map(|there| &self.get(there).kind) {
            Some(Kind::Dir(_)) if !is_dir => return Err(error(libc::EISDIR)),
            Some(Kind::Dir(dir)) if !dir.entries.is_empty() => return Err(error(libc::ENOTEMPTY)),
            Some(Kind::File(_) | Kind::Link(_) | Kind::Socket) if is_dir => return Err(error(libc::ENOTDIR)),
            _ => {}
        }
        self.change(inode, vec![(from.dir, name, None), (to.dir, new_name, Some(inode))]);
        Ok(())
    }

    /// Returns `true` if `dir` is `above` or below it.
    fn is_inside(&self, mut dir: u64, above: u64) -> bool {
        while dir != above && dir != ROOT {
            let Kind::Dir(Dir { parent, .. }) = self.get(dir).kind else { return false };
            dir = parent;
        }
        dir == above
    }

    /// Makes sure what a sync of `inode` does.
    pub(super) fn sync(&mut self, inode: u64) {
        match &mut self.get_mut(inode).kind {
            Kind::File(content) => content.sync(),
            Kind::Dir(_) => self.changes.sync(inode, &mut self.synced),
            Kind::Link(_) | Kind::Socket => {}
        }
    }

    /// Makes nothing sure, as a sync that fails.
    pub(super) fn fail_sync(&mut self, inode: u64) {
        if let Kind::File(content) = &mut self.get_mut(inode).kind {
            content.fail_sync();
        }
    }

    /// Returns how many of `n` bytes can be written at `at` of a file, on a disk that holds `capacity` bytes.
    ///
    /// # Errors
    /// Returns `ENOSPC` if none can.
    pub(super) fn room(&self, capacity: Option<u64>, inode: u64, at: u64, n: usize) -> io::Result<usize> {
        let Some(capacity) = capacity else { return Ok(n) };
        let used: u64 = self.inodes.values().map(Inode::len).sum();
        let most = self.get(inode).len() + capacity.saturating_sub(used);
        let end = (at + n as u64).min(most);
        match usize::try_from(end.saturating_sub(at)).unwrap_or(n) {
            0 if n > 0 => Err(error(libc::ENOSPC)),
            fits => Ok(fits),
        }
    }

    fn sync_all(&mut self) {
        let inodes: Vec<u64> = self.inodes.keys().copied().collect();
        inodes.into_iter().for_each(|inode| self.sync(inode));
    }

    /// Closes all files.
    pub(super) fn close_all(&mut self) {
        self.epoch += 1;
        self.inodes.values_mut().for_each(|inode| (inode.opened, inode.locks) = (0, Locks::default()));
    }

    /// Loses what is not sure. No file is open.
    pub(super) fn cut_power(&mut self, decisions: &mut Decisions) {
        self.close_all();
        self.changes.lose(&mut self.synced, decisions);
        for inode in self.inodes.values_mut() {
            let Kind::File(content) = &mut inode.kind else { continue };
            let (option, number) =
                if content.is_dirty() { decisions.decide(Fault::Disk, &Loss::CHANCES) } else { (0, 0) };
            content.lose(Loss::of(option), &mut decisions.random(Fault::Disk, number));
        }
        self.see_synced();
        self.forget_lost();
    }

    /// Makes programs see the entries that are sure.
    fn see_synced(&mut self) {
        let mut parents = Vec::new();
        for (number, inode) in &mut self.inodes {
            inode.links = 0;
            if let Kind::Dir(dir) = &mut inode.kind {
                dir.entries = self.synced.get(number).cloned().unwrap_or_default();
                parents.extend(dir.entries.values().map(|inner| (*inner, *number)));
            }
        }
        for (inner, above) in parents {
            if let Some(inode) = self.inodes.get_mut(&inner) {
                inode.add_name(above);
            }
        }
    }

    /// Forgets what nothing refers to, if there is much.
    fn sweep(&mut self) {
        if self.inodes.len() >= self.sweep_at {
            self.forget_lost();
            self.sweep_at = (2 * self.inodes.len()).max(FIRST_SWEEP);
        }
    }

    fn forget_lost(&mut self) {
        let opened = self.inodes.iter().filter(|(_, inode)| inode.opened > 0).map(|(number, _)| *number);
        let mut left: Vec<u64> = opened.chain(self.changes.inodes()).chain([ROOT]).collect();
        let mut kept = BTreeMap::new();
        while let Some(number) = left.pop() {
            let Some(inode) = self.inodes.remove(&number) else { continue };
            if let Kind::Dir(dir) = &inode.kind {
                left.extend(dir.entries.values());
                left.extend(self.synced.get(&number).into_iter().flat_map(BTreeMap::values));
            }
            kept.insert(number, inode);
        }
        self.inodes = kept;
        self.synced.retain(|number, _| self.inodes.contains_key(number));
    }
}

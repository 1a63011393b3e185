//! `File`: an open file of a simulated disk.

use std::fmt;
use std::fs::{Metadata, Permissions, TryLockError};
use std::io::{self, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use sched::sync::Mutex;

use super::Disks;
use super::metadata::{Stat, metadata_of};
use super::tree::{Disk, Inode, Kind};
use crate::errors::{error, unsupported};

/// The longest file.
const MOST_BYTES: u64 = 1 << 30;

/// An open file. Clones share the position.
#[derive(Clone)]
pub struct File(Arc<Open>);

struct Open {
    disks: Arc<Disks>,
    node: u32,
    /// When it was opened: see `Disk::epoch`.
    epoch: u64,
    inode: u64,
    flags: Flags,
    path: PathBuf,
    position: Mutex<u64>,
}

/// What goes wrong in a read.
#[derive(Clone, Copy)]
enum ReadFault {
    Error,
    Short,
    Rot,
    BadSector,
}

/// What goes wrong in a write.
#[derive(Clone, Copy)]
enum WriteFault {
    Error,
    Short,
    Lost,
    Misdirected,
}

/// What goes wrong in a sync.
#[derive(Clone, Copy)]
enum SyncFault {
    Error,
    Lost,
}

/// How a file is opened.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub read: bool,
    pub write: bool,
    pub append: bool,
    pub truncate: bool,
    pub create: bool,
    pub create_new: bool,
    pub mode: Option<u32>,
    pub custom: i32,
}

impl Flags {
    pub fn reading() -> Flags {
        Flags { read: true, ..Flags::default() }
    }

    pub fn writing() -> Flags {
        Flags { write: true, create: true, truncate: true, ..Flags::default() }
    }

    fn writes(&self) -> bool {
        self.write || self.append
    }

    /// Returns an error for flags that contradict each other, as std does.
    fn check(&self) -> io::Result<()> {
        let truncates = self.truncate || self.create || self.create_new;
        let bad = !(self.read || self.writes())
            || (truncates && !self.writes())
            || (self.append && self.truncate && !self.create_new);
        if bad {
            return Err(error(libc::EINVAL));
        }
        if self.custom & !(libc::O_SYNC | libc::O_DSYNC | libc::O_CLOEXEC | libc::O_DIRECTORY) != 0 {
            return Err(unsupported("such flags"));
        }
        Ok(())
    }

    fn syncs_each_write(&self) -> bool {
        self.custom & (libc::O_SYNC | libc::O_DSYNC) != 0
    }
}

impl Disk {
    /// Finds or makes what `path` names. Returns its number.
    fn open(&mut self, path: &Path, flags: &Flags) -> io::Result<u64> {
        let place = self.find(path, !flags.create_new)?;
        let inode = match place.found {
            Some(_) if flags.create_new => return Err(error(libc::EEXIST)),
            Some(inode) => inode,
            None if flags.create || flags.create_new => {
                self.make(&place, Kind::File(Default::default()), flags.mode.unwrap_or(0o666))?
            }
            None => return Err(error(libc::ENOENT)),
        };
        if matches!(self.get(inode).kind, Kind::Socket) {
            return Err(error(libc::ENXIO));
        }
        let is_dir = self.get(inode).is_dir();
        if is_dir && (flags.writes() || flags.create) {
            return Err(error(libc::EISDIR));
        }
        if !is_dir && flags.custom & libc::O_DIRECTORY != 0 {
            return Err(error(libc::ENOTDIR));
        }
        if flags.truncate && !flags.create_new {
            let now = self.now;
            let file = self.get_mut(inode);
            file.modified = now;
            file.content()?.set_len(0);
        }
        self.get_mut(inode).opened += 1;
        Ok(inode)
    }
}

impl File {
    pub(super) fn open(disks: &Arc<Disks>, node: u32, path: &Path, flags: &Flags) -> io::Result<File> {
        flags.check()?;
        disks.may_fail(node)?;
        let (inode, epoch) = disks.on(node, |disk| Ok((disk.open(path, flags)?, disk.epoch)))?;
        let (disks, flags, path) = (disks.clone(), flags.clone(), path.to_path_buf());
        Ok(File(Arc::new(Open { disks, node, epoch, inode, flags, path, position: Mutex::new(0) })))
    }

    /// Calls `f` with the file, if its node was not killed since it was opened.
    fn on<T>(&self, f: impl FnOnce(&mut Disk, &Open) -> io::Result<T>) -> io::Result<T> {
        let open = &*self.0;
        open.disks.on(open.node, |disk| {
            if disk.epoch != open.epoch {
                return Err(error(libc::EBADF));
            }
            f(disk, open)
        })
    }

    fn with<T>(&self, f: impl FnOnce(&mut Inode, &Open) -> io::Result<T>) -> io::Result<T> {
        self.on(|disk, open| f(disk.get_mut(open.inode), open))
    }

    pub fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let mut position = self.0.position.lock();
        let n = self.read_at(buf, *position)?;
        *position += n as u64;
        Ok(n)
    }

    pub fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        if !self.0.flags.read {
            return Err(error(libc::EBADF));
        }
        let mut n = buf.len();
        let mut wrong = self.0.disks.wrong(self.0.node, |quality| {
            let short = if n > 1 { quality.short } else { 0.0 };
            [
                (ReadFault::Error, quality.error),
                (ReadFault::Short, short),
                (ReadFault::Rot, quality.rot),
                (ReadFault::BadSector, quality.bad_sector),
            ]
        });
        match &mut wrong {
            Some((ReadFault::Error, _)) => return Err(error(libc::EIO)),
            Some((ReadFault::Short, random)) => n = 1 + random.below(n - 1),
            _ => {}
        }
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        self.with(|inode, _| {
            let content = inode.content()?;
            match &mut wrong {
                Some((ReadFault::Rot, random)) => content.rot(at, n, random),
                Some((ReadFault::BadSector, random)) => content.spoil(at, n, random),
                _ => {}
            }
            content.read(at, &mut buf[..n]).ok_or_else(|| error(libc::EIO))
        })
    }

    /// Reads from the position to the end.
    pub fn read_to_end(&self, to: &mut Vec<u8>) -> io::Result<usize> {
        let (before, mut buf) = (to.len(), vec![0; 8192]);
        loop {
            match self.read(&mut buf)? {
                0 => return Ok(to.len() - before),
                n => to.extend_from_slice(&buf[..n]),
            }
        }
    }

    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut position = self.0.position.lock();
        let at = if self.0.flags.append { self.len()? } else { *position };
        let n = self.write_at(bytes, at)?;
        *position = at + n as u64;
        Ok(n)
    }

    pub fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.check_writes()?;
        if at.saturating_add(bytes.len() as u64) > MOST_BYTES {
            return Err(error(libc::EFBIG));
        }
        let mut n = bytes.len();
        let mut wrong = self.0.disks.wrong(self.0.node, |quality| {
            let short = if n > 1 { quality.short } else { 0.0 };
            [
                (WriteFault::Error, quality.error),
                (WriteFault::Short, short),
                (WriteFault::Lost, quality.lost_write),
                (WriteFault::Misdirected, quality.misdirected_write),
            ]
        });
        match &mut wrong {
            Some((WriteFault::Error, _)) => return Err(error(libc::EIO)),
            Some((WriteFault::Short, random)) => n = 1 + random.below(n - 1),
            _ => {}
        }
        let capacity = self.0.disks.quality(self.0.node, |quality| quality.capacity);
        self.on(|disk, open| {
            let n = disk.room(capacity, open.inode, at, n)?;
            let (now, inode) = (disk.now, disk.get_mut(open.inode));
            if n > 0 {
                inode.modified = now;
                let (content, at) = (inode.content()?, at as usize);
                match &mut wrong {
                    Some((WriteFault::Lost, _)) => content.grow(at + n),
                    Some((WriteFault::Misdirected, random)) => content.misdirect(at, &bytes[..n], random),
                    _ => content.write(at, &bytes[..n]),
                }
            }
            if open.flags.syncs_each_write() {
                disk.sync(open.inode);
            }
            Ok(n)
        })
    }

    pub fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let n = self.write(bytes)?;
            bytes = &bytes[n..];
        }
        Ok(())
    }

    fn check_writes(&self) -> io::Result<()> {
        if self.0.flags.writes() { Ok(()) } else { Err(error(libc::EBADF)) }
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|inode, _| Ok(inode.content()?.len() as u64))
    }

    pub fn seek(&self, to: SeekFrom) -> io::Result<u64> {
        let mut position = self.0.position.lock();
        let moved = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => position.checked_add_signed(by),
            SeekFrom::End(by) => self.len()?.checked_add_signed(by),
        };
        *position = moved.filter(|&at| at <= i64::MAX as u64).ok_or_else(|| error(libc::EINVAL))?;
        Ok(*position)
    }

    pub fn set_len(&self, len: u64) -> io::Result<()> {
        // As on Linux, which reports a file that is not open for writing so.
        self.check_writes().map_err(|_| error(libc::EINVAL))?;
        if len > MOST_BYTES {
            return Err(error(libc::EFBIG));
        }
        self.0.disks.may_fail(self.0.node)?;
        let capacity = self.0.disks.quality(self.0.node, |quality| quality.capacity);
        self.on(|disk, open| {
            if disk.room(capacity, open.inode, 0, len as usize)? < len as usize {
                return Err(error(libc::ENOSPC));
            }
            let (now, inode) = (disk.now, disk.get_mut(open.inode));
            inode.modified = now;
            inode.content()?.set_len(len as usize);
            Ok(())
        })
    }

    pub fn sync(&self) -> io::Result<()> {
        let wrong = self.0.disks.wrong(self.0.node, |quality| {
            [(SyncFault::Error, quality.error), (SyncFault::Lost, quality.lost_sync)]
        });
        self.on(|disk, open| match wrong {
            None => {
                disk.sync(open.inode);
                Ok(())
            }
            Some((SyncFault::Error, _)) => {
                disk.fail_sync(open.inode);
                Err(error(libc::EIO))
            }
            Some((SyncFault::Lost, _)) => Ok(()),
        })
    }

    pub fn metadata(&self) -> io::Result<Metadata> {
        let stat = self.with(|inode, open| Ok(Stat::of(open.node, open.inode, inode)))?;
        metadata_of(stat)
    }

    pub fn set_permissions(&self, permissions: &Permissions) -> io::Result<()> {
        self.with(|inode, _| {
            inode.mode = permissions.mode() & 0o7777;
            Ok(())
        })
    }

    pub fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).map_err(|_| error(libc::EINVAL))?;
        self.with(|inode, _| {
            inode.modified = since.as_nanos() as u64;
            Ok(())
        })
    }

    #[allow(clippy::unused_self)] // As the system's files have it.
    pub fn set_times(&self) -> io::Result<()> {
        Err(unsupported(
            "times that are set by `FileTimes`, whose content std does not tell: see `set_modified`",
        ))
    }

    pub fn try_lock(&self, exclusive: bool) -> Result<(), TryLockError> {
        // A clone has the same lock, so the address of what clones share is the owner.
        let owner = Arc::as_ptr(&self.0) as u64;
        let taken = self.with(|inode, _| Ok(inode.locks.take(owner, exclusive)));
        if taken.map_err(TryLockError::Error)? { Ok(()) } else { Err(TryLockError::WouldBlock) }
    }

    pub fn unlock(&self) -> io::Result<()> {
        self.with(|inode, _| {
            inode.locks.release(Arc::as_ptr(&self.0) as u64);
            Ok(())
        })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let owner = std::ptr::from_ref(self) as u64;
        self.disks.with(self.node, |disk| {
            if disk.epoch == self.epoch {
                let inode = disk.get_mut(self.inode);
                inode.opened -= 1;
                inode.locks.release(owner);
            }
        });
    }
}

// A panic leaves no half-done change: no code of the user runs under the locks.
impl UnwindSafe for File {}
impl RefUnwindSafe for File {}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Open { path, flags, .. } = &*self.0;
        f.debug_struct("File")
            .field("path", path)
            .field("read", &flags.read)
            .field("write", &flags.writes())
            .finish_non_exhaustive()
    }
}

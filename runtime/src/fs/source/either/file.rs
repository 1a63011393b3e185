//! Open files.

use std::fmt;
use std::fs::{FileTimes, Metadata, Permissions, TryLockError};
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::SystemTime;

use sim::disk as simulated;

/// A file of the system or of a simulation.
pub(crate) enum File {
    System(std::fs::File),
    Simulated(simulated::File),
}

use File::{Simulated, System};

const NO_DESCRIPTOR: &str =
    "a simulated file has no descriptor: it cannot be given to code that uses the system's files";

pub(crate) fn of_std(file: std::fs::File) -> File {
    System(file)
}

#[track_caller]
pub(crate) fn into_std(file: File) -> std::fs::File {
    match file {
        System(file) => file,
        Simulated(_) => panic!("{NO_DESCRIPTOR}"),
    }
}

/// Returns bytes as text, with the error of std for what is none.
pub(super) fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

/// Writes methods that both kinds have.
macro_rules! forward {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty, $simulated:ident($($given:expr),*);)*) => { $(
        pub(crate) fn $name(&self, $($arg: $type),*) -> $result {
            match self {
                System(file) => file.$name($($arg),*),
                Simulated(file) => file.$simulated($($given),*),
            }
        }
    )* };
}

impl File {
    forward! {
        fn sync_all() -> io::Result<()>, sync();
        fn sync_data() -> io::Result<()>, sync();
        fn set_len(size: u64) -> io::Result<()>, set_len(size);
        fn metadata() -> io::Result<Metadata>, metadata();
        fn set_permissions(permissions: Permissions) -> io::Result<()>, set_permissions(&permissions);
        fn set_modified(time: SystemTime) -> io::Result<()>, set_modified(time);
        fn set_times(times: FileTimes) -> io::Result<()>, set_times();
        fn try_lock() -> Result<(), TryLockError>, try_lock(true);
        fn try_lock_shared() -> Result<(), TryLockError>, try_lock(false);
        fn unlock() -> io::Result<()>, unlock();
        fn read_at(buf: &mut [u8], at: u64) -> io::Result<usize>, read_at(buf, at);
        fn write_at(buf: &[u8], at: u64) -> io::Result<usize>, write_at(buf, at);
    }

    pub(crate) fn try_clone(&self) -> io::Result<File> {
        match self {
            System(file) => file.try_clone().map(System),
            Simulated(file) => Ok(Simulated(file.clone())),
        }
    }

    #[track_caller]
    fn system(&self) -> &std::fs::File {
        match self {
            System(file) => file,
            Simulated(_) => panic!("{NO_DESCRIPTOR}"),
        }
    }
}

impl AsFd for File {
    #[track_caller]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.system().as_fd()
    }
}

impl AsRawFd for File {
    #[track_caller]
    fn as_raw_fd(&self) -> RawFd {
        self.system().as_raw_fd()
    }
}

impl Read for &File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            System(file) => (&mut { file }).read(buf),
            Simulated(file) => file.read(buf),
        }
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let System(file) = self else {
            let mut all = vec![0; bufs.iter().map(|buf| buf.len()).sum()];
            let n = self.read(&mut all)?;
            let mut left = &all[..n];
            for buf in bufs {
                let part = left.split_off(..buf.len().min(left.len())).unwrap_or_default();
                buf[..part.len()].copy_from_slice(part);
            }
            return Ok(n);
        };
        (&mut { file }).read_vectored(bufs)
    }

    fn read_to_end(&mut self, to: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            System(file) => (&mut { file }).read_to_end(to),
            Simulated(file) => file.read_to_end(to),
        }
    }

    fn read_to_string(&mut self, to: &mut String) -> io::Result<usize> {
        match self {
            System(file) => (&mut { file }).read_to_string(to),
            Simulated(file) => {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes)?;
                let text = text_of(bytes)?;
                to.push_str(&text);
                Ok(text.len())
            }
        }
    }
}

impl Write for &File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            System(file) => (&mut { file }).write(buf),
            Simulated(file) => file.write(buf),
        }
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            System(file) => (&mut { file }).write_vectored(bufs),
            Simulated(file) => file.write(&bufs.iter().flat_map(|buf| &**buf).copied().collect::<Vec<u8>>()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            System(file) => (&mut { file }).seek(to),
            Simulated(file) => file.seek(to),
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            System(file) => file.fmt(f),
            Simulated(file) => file.fmt(f),
        }
    }
}

/// How a file is opened: for the system, and for a simulation. std does not tell what its options are.
#[derive(Clone, Debug)]
pub(crate) struct OpenOptions {
    system: std::fs::OpenOptions,
    flags: simulated::Flags,
}

/// Writes the options that are switched on and off.
macro_rules! switches {
    ($($name:ident)*) => { $(
        pub(crate) fn $name(&mut self, on: bool) {
            self.system.$name(on);
            self.flags.$name = on;
        }
    )* };
}

impl OpenOptions {
    switches! { read write append truncate create create_new }

    pub(crate) fn new() -> Self {
        OpenOptions { system: std::fs::OpenOptions::new(), flags: simulated::Flags::default() }
    }

    pub(crate) fn mode(&mut self, mode: u32) {
        self.system.mode(mode);
        self.flags.mode = Some(mode);
    }

    pub(crate) fn custom_flags(&mut self, flags: i32) {
        self.system.custom_flags(flags);
        self.flags.custom = flags;
    }

    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        match simulated::open(path, &self.flags) {
            // std has texts of its own for options that contradict each other. The empty path opens nothing.
            Some(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => {
                self.system.open("").map(System)
            }
            Some(file) => file.map(Simulated),
            None => self.system.open(path).map(System),
        }
    }
}

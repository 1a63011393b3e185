//! `Descriptor` on Unix: a duplicate, for which the default runtime waits if the system can.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;

use crate::bounded::bounded;
use crate::default;
use crate::net::{Async, Registration, call};

/// How many bytes are written at a time. Other processes may share a pipe, so it may be in blocking mode. A
/// pipe that is ready has room for as many bytes (`PIPE_BUF`, on Linux), so the write does not block.
const AT_A_TIME: usize = 4096;

/// The error of a write to a descriptor that is not open for writing, on every Unix.
const EBADF: i32 = 9;

/// A duplicate of a standard descriptor. Its mode is not changed, because other processes may share it.
#[derive(Debug)]
pub(crate) enum Descriptor {
    /// The default runtime waits for it. That runtime lives as long as the process.
    Waits(Async<File>),
    /// The system cannot wait for it: a regular file.
    Blocks(File),
    /// The process has none. As in std, it is empty, and takes what is written.
    Nothing,
}

impl Descriptor {
    pub(crate) fn of(stream: &impl AsFd) -> Descriptor {
        let Ok(file) = crate::net::duplicate(stream).map(File::from) else { return Descriptor::Nothing };
        let other = file.try_clone();
        let waits = Async::with(file, |source, number| {
            Registration::in_runtime(default::default_sched()?, source, number)
        });
        match (waits, other) {
            (Ok(file), _) => Descriptor::Waits(file),
            (Err(_), Ok(file)) => Descriptor::Blocks(file),
            (Err(_), Err(_)) => Descriptor::Nothing,
        }
    }
}

impl Read for Descriptor {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Descriptor::Nothing => Ok(0),
            Descriptor::Blocks(file) => bounded(|| file.read(buf)),
            Descriptor::Waits(file) => loop {
                file.readable()?;
                match call(|| file.get_ref().read(buf)) {
                    // Another process that shares the descriptor was faster, and had made it non-blocking.
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    done => return done,
                }
            },
        }
    }
}

impl Write for Descriptor {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let written = match self {
            Descriptor::Nothing => Ok(buf.len()),
            Descriptor::Blocks(file) => bounded(|| file.write(buf)),
            Descriptor::Waits(file) => loop {
                file.writable()?;
                match call(|| file.get_ref().write(&buf[..buf.len().min(AT_A_TIME)])) {
                    // Another process that shares the descriptor was faster, and had made it non-blocking.
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    done => break done,
                }
            },
        };
        match written {
            Err(error) if error.raw_os_error() == Some(EBADF) => Ok(buf.len()),
            done => done,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

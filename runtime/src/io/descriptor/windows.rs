//! `Descriptor` on Windows: a stream of std, because Windows cannot wait for a console or a pipe of others.
//!
//! std decodes what comes from a console, and encodes what goes there. A stream that the process does not
//! have is empty for std, and takes what is written.

use std::io::{self, Read, Write};

use crate::bounded::bounded;

/// Each call takes the lock of std's stream, and frees it on the same OS thread.
#[derive(Debug)]
pub(crate) enum Descriptor {
    Input(io::Stdin),
    Output(io::Stdout),
    Errors(io::Stderr),
}

impl Descriptor {
    pub(crate) fn of<'a, S>(stream: &'a S) -> Descriptor
    where
        Descriptor: From<&'a S>,
    {
        stream.into()
    }
}

/// Writes the conversion of each stream of std, of which this makes another handle.
macro_rules! from_std {
    ($($std:ident $function:ident $kind:ident;)*) => { $(
        impl From<&io::$std> for Descriptor {
            fn from(_: &io::$std) -> Descriptor {
                Descriptor::$kind(io::$function())
            }
        }
    )* };
}

from_std! {
    Stdin stdin Input;
    Stdout stdout Output;
    Stderr stderr Errors;
}

impl Read for Descriptor {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Descriptor::Input(stream) => bounded(|| stream.read(buf)),
            Descriptor::Output(_) | Descriptor::Errors(_) => Ok(0),
        }
    }
}

impl Write for Descriptor {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Descriptor::Input(_) => Ok(0),
            Descriptor::Output(stream) => bounded(|| write_through(stream.lock(), buf)),
            Descriptor::Errors(stream) => bounded(|| write_through(stream.lock(), buf)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes bytes, and what std's buffer has.
fn write_through(mut stream: impl Write, buf: &[u8]) -> io::Result<usize> {
    let written = stream.write(buf)?;
    stream.flush()?;
    Ok(written)
}

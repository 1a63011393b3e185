//! The two system calls that streams are made of.
//!
//! On Linux they are made directly: the C library's `recv` and `send` are points where a thread can be cancelled, and entering and
//! leaving such a point takes two locked instructions each, three hundredths of the time of a small server.

#[cfg(target_os = "linux")]
mod calls {
    use std::io;
    use std::os::fd::AsFd;

    use rustix::net::{RecvFlags, SendFlags};

    /// Reads what there is from a stream.
    #[inline]
    pub(crate) fn receive(stream: &impl AsFd, buf: &mut [u8]) -> io::Result<usize> {
        let (got, _) = rustix::net::recv(stream, buf, RecvFlags::empty())?;
        Ok(got)
    }

    /// Writes what there is room for; without a signal if nobody reads any more.
    #[inline]
    pub(crate) fn send(stream: &impl AsFd, buf: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(stream, buf, SendFlags::NOSIGNAL)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod calls {
    use std::io::{self, Read, Write};

    /// Reads what there is from a stream.
    #[inline]
    pub(crate) fn receive<S>(mut stream: &S, buf: &mut [u8]) -> io::Result<usize>
    where
        for<'s> &'s S: Read,
    {
        stream.read(buf)
    }

    /// Writes what there is room for.
    #[inline]
    pub(crate) fn send<S>(mut stream: &S, buf: &[u8]) -> io::Result<usize>
    where
        for<'s> &'s S: Write,
    {
        stream.write(buf)
    }
}

pub(crate) use calls::{receive, send};

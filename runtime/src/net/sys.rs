//! `receive` and `send`: the system calls of streams.
//!
//! On Linux they are made without the C library. Its `recv` and `send` are points where a thread can be cancelled.
//! Entering and leaving such a point takes two locked instructions each: 3 % of the time of a small server.

#[cfg(target_os = "linux")]
mod calls {
    use std::io;
    use std::os::fd::AsFd;

    use rustix::net::{RecvFlags, SendFlags};

    /// Reads what a stream has. Never waits.
    #[inline]
    pub(crate) fn receive(stream: &impl AsFd, buf: &mut [u8]) -> io::Result<usize> {
        let (got, _) = rustix::net::recv(stream, buf, RecvFlags::empty())?;
        Ok(got)
    }

    /// Writes as much as there is room for. Never waits, and raises no signal if the peer has closed.
    #[inline]
    pub(crate) fn send(stream: &impl AsFd, buf: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(stream, buf, SendFlags::NOSIGNAL)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod calls {
    use std::io::{self, Read, Write};

    /// Reads what a stream has. Never waits.
    #[inline]
    pub(crate) fn receive<S>(mut stream: &S, buf: &mut [u8]) -> io::Result<usize>
    where
        for<'s> &'s S: Read,
    {
        stream.read(buf)
    }

    /// Writes as much as there is room for. Never waits.
    #[inline]
    pub(crate) fn send<S>(mut stream: &S, buf: &[u8]) -> io::Result<usize>
    where
        for<'s> &'s S: Write,
    {
        stream.write(buf)
    }
}

pub(crate) use calls::{receive, send};

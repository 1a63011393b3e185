//! System calls of streams and of Unix datagrams.
//!
//! On Linux those of streams are made without the C library. Its `recv` and `send` are points where a thread
//! can be cancelled. Entering and leaving such a point takes two locked instructions each: 3 % of the time of
//! a small server.

use std::io;
use std::net::SocketAddr;

#[cfg(all(target_os = "linux", not(portable)))]
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

#[cfg(not(all(target_os = "linux", not(portable))))]
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

/// Returns the sender of the next datagram, which stays. Never waits.
pub(crate) fn peek_sender(socket: &netpoll::net::UdpSocket) -> io::Result<SocketAddr> {
    let sender = socket2::SockRef::from(socket).peek_sender()?;
    // A socket of `AF_INET` has senders with addresses of that kind.
    sender.as_socket().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(unix)]
mod unix {
    use std::io;
    use std::os::fd::AsFd;
    use std::os::unix::net::SocketAddr;

    use socket2::{SockAddr, SockRef};

    /// Sets the peer of a socket for datagrams.
    pub(crate) fn connect_unix(socket: &impl AsFd, addr: &SocketAddr) -> io::Result<()> {
        SockRef::from(socket).connect(&system_address(addr)?)
    }

    /// Sends a datagram. Never waits.
    pub(crate) fn send_to_unix(socket: &impl AsFd, buf: &[u8], addr: &SocketAddr) -> io::Result<usize> {
        SockRef::from(socket).send_to(buf, &system_address(addr)?)
    }

    /// Converts std's type of address to that of socket2, which writes an abstract name with a zero byte
    /// before it.
    fn system_address(addr: &SocketAddr) -> io::Result<SockAddr> {
        if let Some(path) = addr.as_pathname() {
            return SockAddr::unix(path);
        }
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            #[cfg(target_os = "android")]
            use std::os::android::net::SocketAddrExt;
            #[cfg(target_os = "linux")]
            use std::os::linux::net::SocketAddrExt;
            use std::os::unix::ffi::OsStrExt;
            if let Some(name) = addr.as_abstract_name() {
                let name = [&[0], name].concat();
                return SockAddr::unix(std::ffi::OsStr::from_bytes(&name));
            }
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "no socket has an address without a name: give a path or an abstract name",
        ))
    }
}

#[cfg(unix)]
pub(crate) use unix::{connect_unix, send_to_unix};

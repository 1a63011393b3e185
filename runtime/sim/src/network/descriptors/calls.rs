//! The calls on addresses and connections.

use std::ffi::c_int;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::os::unix::net::SocketAddr as UnixAddr;
use std::sync::Arc;

use libc::{sockaddr, socklen_t};
use netpoll::Direction;
use sched::simulation;

use super::super::addr::Addr;
use super::super::handle::Handle;
use super::super::tcp::Phase;
use super::super::unix::Type;
use super::super::{Kind as Socket, NetworkState};
use super::description::{Description, Done, Kind};
use super::number::{number, on};
use super::open::{Limit, Open, escape, number_of};
use super::options::set_linger;
use super::{address, datagrams};
use crate::errors::error;

/// Makes a socket of the network by `make`.
fn make(
    socket: &Description,
    make: impl FnOnce(&mut NetworkState, u32) -> std::io::Result<u64>,
) -> Done<Arc<Open>> {
    let made = socket.network.with(|state| make(state, simulation::node()));
    let id = made.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
    let open = socket.set_open(Open::new(Handle { network: socket.network.clone(), id }));
    set_linger(socket, &open)?;
    Ok(open)
}

/// Returns the address that stands for any.
fn any(socket: &Description) -> SocketAddr {
    match socket.family {
        libc::AF_INET6 => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        _ => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
    }
}

/// Gives a new Unix stream an address: a path on the disk of the node, or an abstract name.
fn bind_unix(socket: &Description, to: &UnixAddr) -> Done<Arc<Open>> {
    let node = simulation::node();
    let (name, to) = socket.network.new_name(node, Type::Stream, to).map_err(|error| number_of(&error))?;
    make(socket, |state, node| {
        let id = state.listen_unix(node, name, to);
        // It listens only from `listen` on.
        state.listener(id)?.room = 0;
        Ok(id)
    })
}

/// Connects a Unix stream to the listener of an address.
fn connect_unix(socket: &Description, to: &UnixAddr) -> Done {
    let limit = socket.limit(Direction::Write, 0);
    let open = match socket.open() {
        None => {
            let node = simulation::node();
            let found = socket.network.bound_to(node, Type::Stream, to);
            let listener = found.map_err(|error| number_of(&error))?;
            make(socket, |state, node| {
                let listens = state.listener(listener).is_ok_and(|listener| listener.room > 0);
                if !listens && state.listener(listener).is_ok() {
                    return Err(error(libc::ECONNREFUSED));
                }
                state.connect_unix(node, listener)
            })?
        }
        Some(open) => match phase(&open)? {
            Some(Phase::Connecting) => open,
            Some(_) => return Err(libc::EISCONN),
            None => return Err(libc::EINVAL),
        },
    };
    connected(&open, limit)
}

/// Waits until a stream is connected.
fn connected(open: &Open, limit: Limit) -> Done {
    open.repeat(Direction::Write, limit, |state, id| {
        let stream = state.stream(id)?;
        match (stream.state, stream.error.take()) {
            (Phase::Connecting, _) => Err(std::io::ErrorKind::WouldBlock.into()),
            (Phase::Connected, _) => Ok(0),
            (Phase::Broken, number) => Err(error(number.unwrap_or(libc::ECONNABORTED))),
        }
    })
}

/// Gives a new socket an address.
fn bind_to(socket: &Description, to: SocketAddr) -> Done<Arc<Open>> {
    check_family(socket, to)?;
    match socket.kind {
        Kind::Stream => make(socket, |state, node| {
            let id = state.listen(node, to)?;
            // It listens only from `listen` on.
            state.listener(id)?.room = 0;
            Ok(id)
        }),
        Kind::Datagrams => make(socket, |state, node| state.bind_udp(node, to)),
        // Its addresses are of another type: `bind` has handled it.
        Kind::UnixDatagrams => Err(libc::EINVAL),
    }
}

/// # Errors
/// Returns `EAFNOSUPPORT` for an address that a socket of this family does not have.
fn check_family(socket: &Description, address: SocketAddr) -> Done<()> {
    let fits = address.is_ipv6() == (socket.family == libc::AF_INET6);
    if fits { Ok(()) } else { Err(libc::EAFNOSUPPORT) }
}

/// Returns the socket for datagrams, with an address of its own.
pub(super) fn bound(socket: &Description) -> Done<Arc<Open>> {
    socket.open().map_or_else(|| bind_to(socket, any(socket)), Ok)
}

/// Connects a stream.
fn connect_stream(socket: &Description, to: SocketAddr) -> Done {
    check_family(socket, to)?;
    let limit = socket.limit(Direction::Write, 0);
    let open = match socket.open() {
        None => make(socket, |state, node| state.connect(node, to))?,
        Some(open) => match phase(&open)? {
            Some(Phase::Connected) => return Err(libc::EISCONN),
            Some(Phase::Connecting) if matches!(limit, Limit::Now) => return Err(libc::EALREADY),
            Some(Phase::Connecting) => open,
            // A connection that was refused may be tried again, when its error has been seen.
            Some(Phase::Broken) => match open.take_error()? {
                0 => make(socket, |state, node| state.connect(node, to))?,
                number => return Err(number),
            },
            None => return Err(not_listening(&open)?),
        },
    };
    // The attempt goes on.
    connected(&open, limit).map_err(|number| if number == libc::EAGAIN { libc::EINPROGRESS } else { number })
}

/// Returns how far a stream is; `None` of a socket that has an address or listens.
fn phase(open: &Open) -> Done<Option<Phase>> {
    open.with_kind(|kind| {
        Ok(match kind {
            Socket::Stream(stream) => Some(stream.state),
            _ => None,
        })
    })
}

/// Returns the error number for a connect of a socket that is no stream yet.
fn not_listening(open: &Open) -> Done<c_int> {
    let listens = open.with_kind(|kind| Ok(matches!(kind, Socket::Listener(found) if found.room > 0)))?;
    if listens {
        return Ok(libc::EISCONN);
    }
    Ok(escape("a connection from a port that the program has chosen (bind before connect)", libc::EOPNOTSUPP))
}

/// `bind`.
///
/// # Safety
/// As libc's.
pub unsafe fn bind(fd: c_int, to: *const sockaddr, len: socklen_t) -> Option<isize> {
    on(fd, |socket| {
        if socket.kind == Kind::UnixDatagrams {
            // SAFETY: the caller's address.
            return datagrams::bind(socket, &unsafe { address::read_unix(to, len) }?);
        }
        if socket.open().is_some() {
            return Err(libc::EINVAL);
        }
        if socket.family == libc::AF_UNIX {
            // SAFETY: the caller's address.
            let to = unsafe { address::read_unix(to, len) }?;
            return bind_unix(socket, &to).map(|_| 0);
        }
        // SAFETY: the caller's address.
        let to = unsafe { address::read(to, len) }?;
        bind_to(socket, to).map(|_| 0)
    })
}

/// `listen`.
#[must_use]
pub fn listen(fd: c_int, backlog: c_int) -> Option<isize> {
    on(fd, |socket| {
        if socket.kind != Kind::Stream {
            return Err(libc::EOPNOTSUPP);
        }
        // As the system does, the queue has one place more.
        let room = usize::try_from(backlog).unwrap_or(usize::MAX).min(super::super::tcp::BACKLOG - 1) + 1;
        // A Unix socket gets no address by itself.
        let bound = if socket.family == libc::AF_UNIX { socket.open_or(libc::EINVAL) } else { bound(socket) };
        bound?.with_kind(|kind| match kind {
            Socket::Listener(listener) => {
                listener.room = room;
                Ok(0)
            }
            _ => Err(error(libc::EINVAL)),
        })
    })
}

/// `accept4`.
///
/// # Safety
/// As libc's.
pub unsafe fn accept4(fd: c_int, from: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> Option<isize> {
    on(fd, |socket| {
        let refused = if socket.kind == Kind::Stream { libc::EINVAL } else { libc::EOPNOTSUPP };
        let listener = socket.open_or(refused)?;
        listener.with_kind(|kind| match kind {
            Socket::Listener(listener) if listener.room > 0 => Ok(()),
            _ => Err(error(refused)),
        })?;
        let (id, peer) =
            listener.repeat(Direction::Read, socket.limit(Direction::Read, 0), NetworkState::accept)?;
        let network = socket.network.clone();
        let open = Open::new(Handle { network: network.clone(), id });
        let accepted = number(Description::new(network, socket.family, Kind::Stream, Some(open)), flags)?;
        // SAFETY: the caller's place.
        unsafe { address::write(&peer, socket.family, from, len) };
        Ok(accepted)
    })
}

/// `connect`.
///
/// # Safety
/// As libc's.
pub unsafe fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> Option<isize> {
    let unix = to;
    on(fd, |socket| {
        // SAFETY: the caller's address.
        let (family, to) = unsafe { (address::family(to, len), address::read(to, len)) };
        match (socket.kind, family) {
            (Kind::Stream, _) if socket.family == libc::AF_UNIX => {
                // SAFETY: the caller's address.
                connect_unix(socket, &unsafe { address::read_unix(unix, len) }?)
            }
            (Kind::Stream, _) => connect_stream(socket, to?),
            (Kind::Datagrams, libc::AF_UNSPEC) => {
                bound(socket)?.with(|state, id| state.udp(id).map(|udp| udp.peer = None)).map(|()| 0)
            }
            (Kind::UnixDatagrams, libc::AF_UNSPEC) => datagrams::disconnect(socket),
            (Kind::UnixDatagrams, _) => {
                // SAFETY: the caller's address.
                datagrams::connect(socket, &unsafe { address::read_unix(unix, len) }?)
            }
            (Kind::Datagrams, _) => {
                let to = to?;
                bound(socket)?.with(|state, id| state.connect_udp(id, to)).map(|()| 0)
            }
        }
    })
}

/// `shutdown`.
#[must_use]
pub fn shutdown(fd: c_int, how: c_int) -> Option<isize> {
    on(fd, |socket| {
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(libc::EINVAL),
        };
        let open = socket.open_or(libc::ENOTCONN)?;
        let is_stream = open.with_kind(|kind| Ok(matches!(kind, Socket::Stream(_))))?;
        match socket.kind {
            Kind::Stream if is_stream => open.with(|state, id| state.shutdown(id, how))?,
            Kind::UnixDatagrams => open.with(|state, id| state.shutdown_datagrams(id, how))?,
            // On Linux it wakes the threads that accept.
            Kind::Stream => return Err(escape("shutdown of a listener", libc::EINVAL)),
            Kind::Datagrams => return Err(escape("shutdown of a UDP socket", libc::ENOTCONN)),
        }
        Ok(0)
    })
}

/// `getsockname`.
///
/// # Safety
/// As libc's.
pub unsafe fn getsockname(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> Option<isize> {
    on(fd, |socket| {
        let address = match socket.open() {
            None if socket.family == libc::AF_UNIX => Addr::unnamed().map_err(|error| number_of(&error))?,
            None => Addr::Ip(any(socket)),
            Some(open) => open.with_kind(|kind| {
                Ok(match kind {
                    Socket::Listener(listener) => listener.local.clone(),
                    Socket::Stream(stream) => stream.local.clone(),
                    Socket::Udp(udp) => Addr::Ip(udp.local),
                    Socket::Datagrams(socket) => socket.local.clone(),
                    // These are no sockets, so `on` has refused the call.
                    Socket::Counter(_) | Socket::Timer(_) => return Err(error(libc::ENOTSOCK)),
                })
            })?,
        };
        // SAFETY: the caller's place.
        unsafe { address::write(&address, socket.family, to, len) };
        Ok(0)
    })
}

/// `getpeername`.
///
/// # Safety
/// As libc's.
pub unsafe fn getpeername(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> Option<isize> {
    on(fd, |socket| {
        let address = socket.open_or(libc::ENOTCONN)?.with_kind(|kind| match kind {
            Socket::Stream(stream) => {
                stream.check_connected()?;
                Ok(stream.peer.clone())
            }
            Socket::Udp(udp) => udp.peer.map(Addr::Ip).ok_or_else(|| error(libc::ENOTCONN)),
            Socket::Datagrams(socket) => socket.peer().cloned().ok_or_else(|| error(libc::ENOTCONN)),
            _ => Err(error(libc::ENOTCONN)),
        })?;
        // SAFETY: the caller's place.
        unsafe { address::write(&address, socket.family, to, len) };
        Ok(0)
    })
}

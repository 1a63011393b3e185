//! The calls that move bytes. A stream in blocking mode sends until all is sent, as in the system.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use libc::{iovec, msghdr, sockaddr, socklen_t};
use netpoll::Direction;

use super::super::addr::Addr;
use super::super::{Kind as Socket, NetworkState};
use super::address;
use super::calls::bound;
use super::description::{Description, Done, Kind};
use super::number::{on, on_any};
use super::open::{Limit, Open, escape, number_of};
use super::{datagrams, event, table};
use crate::errors::error;

/// The most bytes that one receipt takes.
const MOST: usize = 256 << 10;
/// More than a datagram has.
const DATAGRAM: usize = 64 << 10;

/// What was received.
struct Received {
    bytes: Vec<u8>,
    /// From whom a datagram came; `None` of a stream, and of a sender without an address.
    from: Option<Addr>,
}

/// Receives up to `room` bytes.
fn receive_bytes(socket: &Description, room: usize, flags: c_int) -> Done<Received> {
    if flags & libc::MSG_OOB != 0 {
        return Err(escape("urgent bytes of a socket (MSG_OOB)", libc::EINVAL));
    }
    if flags & libc::MSG_ERRQUEUE != 0 {
        return Err(libc::EAGAIN);
    }
    let limit = socket.limit(Direction::Read, flags);
    let looks = flags & libc::MSG_PEEK != 0;
    match socket.kind {
        Kind::Stream => {
            let open = stream(socket, libc::ENOTCONN)?;
            let all = flags & libc::MSG_WAITALL != 0;
            receive_stream(&open, room, limit, looks, all)
        }
        Kind::Datagrams => {
            let mut bytes = vec![0; DATAGRAM];
            let attempt = |state: &mut NetworkState, id| state.receive_udp(id, &mut bytes, looks);
            let (n, from) = bound(socket)?.repeat(Direction::Read, limit, attempt)?;
            bytes.truncate(n);
            Ok(Received { bytes, from: Some(Addr::Ip(from)) })
        }
        Kind::UnixDatagrams => {
            let (bytes, from) = datagrams::receive(socket, limit, looks)?;
            Ok(Received { bytes, from })
        }
    }
}

/// Sends all bytes. In non-blocking mode it sends as many as there is room for.
fn send(socket: &Description, bytes: &[u8], flags: c_int, to: Option<Addr>) -> Done {
    if flags & libc::MSG_OOB != 0 {
        return Err(escape("urgent bytes of a socket (MSG_OOB)", libc::EINVAL));
    }
    let limit = socket.limit(Direction::Write, flags);
    match socket.kind {
        Kind::Stream if to.is_some() && socket.open().is_some() => Err(libc::EISCONN),
        Kind::Stream => send_stream(&*stream(socket, libc::EPIPE)?, bytes, limit),
        Kind::Datagrams => {
            let to = to.map(|to| to.ip()).transpose().map_err(|error| number_of(&error))?;
            let attempt = |state: &mut NetworkState, id| state.send_udp(id, bytes, to);
            Ok(bound(socket)?.repeat(Direction::Write, limit, attempt)? as isize)
        }
        Kind::UnixDatagrams => {
            let to = to.map(|to| to.unix()).transpose().map_err(|error| number_of(&error))?;
            datagrams::send(socket, bytes, limit, to.as_ref())
        }
    }
}

/// Reads the address to which a socket is to send. Returns `None` if that is the peer's.
///
/// # Safety
/// As for `address::read`.
unsafe fn target(socket: &Description, to: *const sockaddr, len: socklen_t) -> Done<Option<Addr>> {
    let addr = match socket.kind {
        _ if to.is_null() => return Ok(None),
        // As in Linux, an address without bytes is none.
        Kind::UnixDatagrams if len == 0 => return Ok(None),
        // SAFETY: this contract.
        Kind::UnixDatagrams => Addr::Unix(unsafe { address::read_unix(to, len) }?),
        // SAFETY: this contract.
        Kind::Stream | Kind::Datagrams => Addr::Ip(unsafe { address::read(to, len) }?),
    };
    Ok(Some(addr))
}

/// Returns the stream.
///
/// # Errors
/// Returns `otherwise` if there was no connection.
fn stream(socket: &Description, otherwise: c_int) -> Done<Arc<Open>> {
    let open = socket.open_or(otherwise)?;
    open.with_kind(|kind| match kind {
        Socket::Stream(_) => Ok(()),
        _ => Err(error(otherwise)),
    })?;
    Ok(open)
}

fn receive_stream(open: &Open, room: usize, limit: Limit, looks: bool, all: bool) -> Done<Received> {
    let room = if all { room } else { room.min(MOST) };
    let mut bytes = vec![0; room];
    let mut done = 0;
    loop {
        let attempt = |state: &mut NetworkState, id| {
            // With `MSG_WAITALL` and `MSG_PEEK` the look begins anew, until enough has come.
            let from = if looks { 0 } else { done };
            let n = state.read(id, &mut bytes[from..], looks)?;
            let waits = looks && all && n < room && !state.stream(id)?.ended().0;
            if waits { Err(std::io::ErrorKind::WouldBlock.into()) } else { Ok(n) }
        };
        match open.repeat(Direction::Read, limit, attempt) {
            Ok(n) => done += n,
            // An error after a part is not reported: the next call meets it, or waits anew.
            Err(_) if done > 0 => break,
            Err(number) => return Err(number),
        }
        let is_over =
            open.with(|state, id| Ok(state.stream(id)?.ended().0 && state.stream(id)?.available() == 0));
        if !all || looks || done >= room || is_over != Ok(false) {
            break;
        }
    }
    bytes.truncate(done);
    Ok(Received { bytes, from: None })
}

fn send_stream(open: &Open, bytes: &[u8], limit: Limit) -> Done {
    let mut done = 0;
    loop {
        match open.repeat(Direction::Write, limit, |state, id| state.write(id, &bytes[done..])) {
            Ok(n) => done += n,
            // The next call meets the error.
            Err(_) if done > 0 => break,
            Err(number) => return Err(number),
        }
        if done == bytes.len() || matches!(limit, Limit::Now) {
            break;
        }
    }
    Ok(done as isize)
}

/// Returns the buffers of a list.
///
/// # Safety
/// `list` leads to the descriptions of `count` buffers.
unsafe fn buffers<'a>(list: *const iovec, count: usize) -> &'a [iovec] {
    if list.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller's list.
    unsafe { std::slice::from_raw_parts(list, count) }
}

fn total(buffers: &[iovec]) -> usize {
    buffers.iter().fold(0, |sum, buffer| sum.saturating_add(buffer.iov_len))
}

/// Copies bytes into buffers, as far as they fit. Returns how many fit.
///
/// # Safety
/// The buffers may be written.
unsafe fn scatter(bytes: &[u8], buffers: &[iovec]) -> usize {
    let mut done = 0;
    for buffer in buffers {
        let n = buffer.iov_len.min(bytes.len() - done);
        // SAFETY: the caller's buffer has `n` bytes, and so have the rest of `bytes`.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().add(done), buffer.iov_base.cast(), n) };
        done += n;
    }
    done
}

/// Returns the bytes of buffers.
///
/// # Safety
/// The buffers may be read.
unsafe fn gather(buffers: &[iovec]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(total(buffers));
    for buffer in buffers.iter().filter(|buffer| buffer.iov_len > 0) {
        // SAFETY: the caller's buffer.
        bytes
            .extend_from_slice(unsafe { std::slice::from_raw_parts(buffer.iov_base.cast(), buffer.iov_len) });
    }
    bytes
}

/// Receives into buffers.
///
/// # Safety
/// The buffers may be written, and the place for the address as `address::write` has it.
unsafe fn receive(
    socket: &Description,
    buffers: &[iovec],
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> Done<(isize, bool)> {
    let received = receive_bytes(socket, total(buffers), flags)?;
    // SAFETY: the caller's buffers.
    let fit = unsafe { scatter(&received.bytes, buffers) };
    match received.from {
        // SAFETY: the caller's place.
        Some(sender) => unsafe { address::write(&sender, socket.family, from, from_len) },
        // SAFETY: the caller's place.
        None if !from_len.is_null() => unsafe { from_len.write(0) },
        None => {}
    }
    let is_cut = fit < received.bytes.len();
    let n = if flags & libc::MSG_TRUNC != 0 { received.bytes.len() } else { fit };
    Ok((n as isize, is_cut))
}

/// `read`.
///
/// # Safety
/// As libc's.
pub unsafe fn read(fd: c_int, buf: *mut c_void, count: usize) -> Option<isize> {
    if !table::is_socket(fd) {
        // SAFETY: the caller's place.
        return on_any(fd, |of| unsafe { event::read(of, buf.cast(), count) });
    }
    // SAFETY: the caller's arguments.
    unsafe { recvfrom(fd, buf, count, 0, ptr::null_mut(), ptr::null_mut()) }
}

/// `readv`.
///
/// # Safety
/// As libc's.
pub unsafe fn readv(fd: c_int, list: *const iovec, count: c_int) -> Option<isize> {
    on(fd, |socket| {
        // SAFETY: the caller's list.
        let buffers = unsafe { buffers(list, usize::try_from(count).map_err(|_| libc::EINVAL)?) };
        // SAFETY: the caller's buffers.
        unsafe { receive(socket, buffers, 0, ptr::null_mut(), ptr::null_mut()) }.map(|(n, _)| n)
    })
}

/// `recvfrom`.
///
/// # Safety
/// As libc's.
pub unsafe fn recvfrom(
    fd: c_int,
    buf: *mut c_void,
    len: usize,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> Option<isize> {
    on(fd, |socket| {
        let buffer = [iovec { iov_base: buf, iov_len: len }];
        // SAFETY: the caller's arguments.
        unsafe { receive(socket, &buffer, flags, from, from_len) }.map(|(n, _)| n)
    })
}

/// `recvmsg`. No control data come.
///
/// # Safety
/// As libc's.
pub unsafe fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> Option<isize> {
    on(fd, |socket| {
        // SAFETY: the caller's message.
        let message = unsafe { message.as_mut() }.ok_or(libc::EFAULT)?;
        // SAFETY: the caller's list.
        let buffers = unsafe { buffers(message.msg_iov, message.msg_iovlen) };
        let from = message.msg_name.cast();
        // SAFETY: the caller's buffers, and its place for the address.
        let (n, is_cut) = unsafe { receive(socket, buffers, flags, from, &raw mut message.msg_namelen) }?;
        message.msg_controllen = 0;
        message.msg_flags = if is_cut { libc::MSG_TRUNC } else { 0 };
        Ok(n)
    })
}

/// `write`.
///
/// # Safety
/// As libc's.
pub unsafe fn write(fd: c_int, buf: *const c_void, count: usize) -> Option<isize> {
    if !table::is_socket(fd) {
        let count = if buf.is_null() { 0 } else { count };
        let from = if buf.is_null() { ptr::dangling() } else { buf.cast() };
        // SAFETY: the caller's bytes; none if the pointer is null.
        let bytes = unsafe { std::slice::from_raw_parts(from, count) };
        return on_any(fd, |of| event::write(of, bytes));
    }
    // SAFETY: the caller's arguments.
    unsafe { sendto(fd, buf, count, 0, ptr::null(), 0) }
}

/// `writev`.
///
/// # Safety
/// As libc's.
pub unsafe fn writev(fd: c_int, list: *const iovec, count: c_int) -> Option<isize> {
    on(fd, |socket| {
        // SAFETY: the caller's list.
        let buffers = unsafe { buffers(list, usize::try_from(count).map_err(|_| libc::EINVAL)?) };
        // SAFETY: the caller's buffers.
        send(socket, &unsafe { gather(buffers) }, 0, None)
    })
}

/// `sendto`.
///
/// # Safety
/// As libc's.
pub unsafe fn sendto(
    fd: c_int,
    buf: *const c_void,
    len: usize,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> Option<isize> {
    on(fd, |socket| {
        // SAFETY: the caller's address.
        let to = unsafe { target(socket, to, to_len) }?;
        // SAFETY: the caller's buffer.
        let bytes = unsafe { gather(&[iovec { iov_base: buf.cast_mut(), iov_len: len }]) };
        send(socket, &bytes, flags, to)
    })
}

/// `sendmsg`. A message with control data fails the run.
///
/// # Safety
/// As libc's.
pub unsafe fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> Option<isize> {
    on(fd, |socket| {
        // SAFETY: the caller's message.
        let message = unsafe { message.as_ref() }.ok_or(libc::EFAULT)?;
        if message.msg_controllen > 0 {
            return Err(escape("control data of a socket, such as descriptors", libc::EOPNOTSUPP));
        }
        let (to, len) = (message.msg_name.cast::<sockaddr>().cast_const(), message.msg_namelen);
        // SAFETY: the caller's address.
        let to = if len == 0 { None } else { unsafe { target(socket, to, len) }? };
        // SAFETY: the caller's list, and its buffers.
        let bytes = unsafe { gather(buffers(message.msg_iov, message.msg_iovlen)) };
        send(socket, &bytes, flags, to)
    })
}

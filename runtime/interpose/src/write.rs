//! `write`, `writev`, `pwritev2`, `send`, `sendto`, `sendmsg`. On a stream in blocking mode they return when
//! all is written.

use std::ffi::{c_int, c_void};
use std::ptr;

use libc::{iovec, msghdr, off64_t, size_t, sockaddr, socklen_t, ssize_t};

use super::fd::{self, Kind};
use super::message::{descriptors, plain, rest, total};
use super::raw::{self, call};
use super::wait::{AGAIN, Call, Direction, Waited, repeat};
use super::{begin_call, error, finish};

/// The flags of an attempt that goes on after a part was sent: an error is then not reported, so it raises no
/// signal.
const GOES_ON: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// libc's `write`; parks a green thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn write(fd: c_int, buf: *const c_void, count: size_t) -> ssize_t {
    if begin_call(fd) {
        // SAFETY: the caller's arguments.
        return unsafe { write_here(fd, buf, count) };
    }
    // SAFETY: the caller's arguments.
    finish(unsafe { call!(libc::SYS_write, fd, buf, count) })
}

/// `write` on a green thread: not inlined, so that the hook has a small frame on plain OS threads.
///
/// # Safety
/// As `write`'s.
#[inline(never)]
unsafe extern "C-unwind" fn write_here(fd: c_int, buf: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: the caller's arguments.
    let block = || unsafe { call!(libc::SYS_write, fd, buf, count) };
    finish(match fd::kind(fd) {
        // SAFETY: the caller's buffer.
        Kind::Socket => unsafe { send_all(fd, buf, count, 0, ptr::null(), 0, block) },
        kind => {
            let part = iovec { iov_base: buf.cast_mut(), iov_len: count };
            // SAFETY: the caller's buffer.
            unsafe { write_other(fd, kind, &raw const part, 1, block) }
        }
    })
}

/// libc's `writev`; parks a green thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller's arguments.
    let block = || unsafe { call!(libc::SYS_writev, fd, iov, count) };
    if !begin_call(fd) || !(1..=libc::UIO_MAXIOV).contains(&count) {
        return finish(block());
    }
    finish(match fd::kind(fd) {
        Kind::Socket => {
            // SAFETY: zero is a value of each field.
            let mut message: msghdr = unsafe { std::mem::zeroed() };
            message.msg_iov = iov.cast_mut();
            message.msg_iovlen = count as _;
            // SAFETY: the caller's buffers.
            unsafe { send_message(fd, &raw const message, 0, block) }
        }
        // SAFETY: the caller's buffers.
        kind => unsafe { write_other(fd, kind, iov, count as usize, block) },
    })
}

/// libc's `pwritev2`; parks a green thread if it writes at the present position without flags, which is
/// `writev`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn pwritev2(
    fd: c_int,
    iov: *const iovec,
    count: c_int,
    offset: off64_t,
    flags: c_int,
) -> ssize_t {
    if offset == -1 && flags == 0 {
        // SAFETY: the caller's arguments.
        return unsafe { writev(fd, iov, count) };
    }
    // SAFETY: the caller's arguments.
    finish(unsafe { call!(libc::SYS_pwritev2, fd, iov, count, offset, 0usize, flags) })
}

/// `pwritev2` by the name that C uses for wide offsets.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn pwritev64v2(
    fd: c_int,
    iov: *const iovec,
    count: c_int,
    offset: off64_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's arguments.
    unsafe { pwritev2(fd, iov, count, offset, flags) }
}

/// libc's `send`; parks a green thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the caller's arguments.
    unsafe { sendto(fd, buf, len, flags, ptr::null(), 0) }
}

/// libc's `sendto`; parks a green thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    buf: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    if flags & libc::MSG_DONTWAIT == 0 && begin_call(fd) {
        // SAFETY: the caller's arguments.
        return unsafe { send_here(fd, buf, len, flags, to, to_len) };
    }
    // SAFETY: the caller's arguments.
    finish(unsafe { call!(libc::SYS_sendto, fd, buf, len, flags, to, to_len) })
}

/// `sendto` on a green thread.
///
/// # Safety
/// As `sendto`'s.
#[inline(never)]
unsafe extern "C-unwind" fn send_here(
    fd: c_int,
    buf: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    // SAFETY: the caller's arguments.
    let block = || unsafe { call!(libc::SYS_sendto, fd, buf, len, flags, to, to_len) };
    // SAFETY: the caller's arguments.
    finish(unsafe { send_all(fd, buf, len, flags, to, to_len, block) })
}

/// libc's `sendmsg`; parks a green thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's arguments.
    let block = || unsafe { call!(libc::SYS_sendmsg, fd, message, flags) };
    let waits = flags & libc::MSG_DONTWAIT == 0 && begin_call(fd) && !message.is_null();
    // SAFETY: the caller's arguments.
    let sent = if waits { unsafe { send_message(fd, message, flags, block) } } else { block() };
    if sent >= 0 {
        // SAFETY: the kernel has read the message.
        unsafe { descriptors(message, fd::note_shared) };
    }
    finish(sent)
}

/// # Safety
/// The arguments are those of `sendto`.
#[inline]
unsafe fn send_all(
    fd: c_int,
    buf: *const c_void,
    len: usize,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
    block: impl FnOnce() -> isize,
) -> isize {
    // SAFETY: the caller's arguments.
    let attempt = || unsafe { call!(libc::SYS_sendto, fd, buf, len, flags | libc::MSG_DONTWAIT, to, to_len) };
    let more = |done: usize| {
        let (buf, nothing) = (buf.cast::<u8>().wrapping_add(done), ptr::null::<()>());
        // SAFETY: the rest of the caller's buffer.
        unsafe { call!(libc::SYS_sendto, fd, buf, len - done, flags | GOES_ON, nothing, 0) }
    };
    write_all(fd, len, attempt, more, block)
}

/// # Safety
/// The arguments are those of `sendmsg`.
unsafe fn send_message(
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
    block: impl FnOnce() -> isize,
) -> isize {
    // SAFETY: the caller's message.
    let (list, count) = unsafe { ((*message).msg_iov, (*message).msg_iovlen) };
    // SAFETY: the caller's buffers.
    let len = unsafe { total(list, count) };
    // SAFETY: the caller's arguments.
    let attempt = || unsafe { call!(libc::SYS_sendmsg, fd, message, flags | libc::MSG_DONTWAIT) };
    // The control data went with the first part.
    let more = |done: usize| {
        // SAFETY: the caller's buffers have more than `done` bytes.
        let mut buffers = unsafe { rest(list, count, done) };
        let message = plain(&mut buffers);
        // SAFETY: the buffers are the rest of the caller's.
        unsafe { call!(libc::SYS_sendmsg, fd, &raw const message, flags | GOES_ON) }
    };
    write_all(fd, len, attempt, more, block)
}

/// Writes to what is no socket.
///
/// # Safety
/// `list` points to the descriptions of `count` buffers.
unsafe fn write_other(
    fd: c_int,
    kind: Kind,
    list: *const iovec,
    count: usize,
    block: impl Fn() -> isize,
) -> isize {
    match kind {
        Kind::Pipe => {
            // SAFETY: the caller's buffers.
            let len = unsafe { total(list, count) };
            // SAFETY: the caller's buffers. The offset -1 means the present position.
            let attempt =
                || unsafe { call!(libc::SYS_pwritev2, fd, list, count, -1isize, -1isize, libc::RWF_NOWAIT) };
            let more = |done: usize| {
                // SAFETY: the caller's buffers have more than `done` bytes.
                let buffers = unsafe { rest(list, count, done) };
                let (list, count) = (buffers.as_ptr(), buffers.len());
                // SAFETY: the buffers are the rest of the caller's.
                unsafe { call!(libc::SYS_pwritev2, fd, list, count, -1isize, -1isize, libc::RWF_NOWAIT) }
            };
            write_all(fd, len, attempt, more, &block)
        }
        Kind::Other => {
            let attempt = || if raw::ready_now(fd, libc::POLLOUT) == 0 { AGAIN } else { block() };
            repeat(fd, Direction::Write, attempt, &block)
        }
        Kind::Socket | Kind::File | Kind::Unknown => block(),
    }
}

/// Writes `len` bytes by `attempt` and, after a part, by `more` with the number of bytes that are done.
/// Returns how much was written before an error, the end of the time, or, on a non-blocking descriptor, the
/// end of the room.
#[inline]
fn write_all(
    fd: c_int,
    len: usize,
    attempt: impl FnMut() -> isize,
    more: impl FnMut(usize) -> isize,
    block: impl FnOnce() -> isize,
) -> isize {
    const NOT_A_SOCKET: isize = error(libc::ENOTSOCK);
    const NOT_SO: isize = error(libc::EOPNOTSUPP);
    let mut block = Some(block);
    let mut blocks = || block.take().map_or(AGAIN, |block| block());
    match repeat(fd, Direction::Write, attempt, &mut blocks) {
        // The number has a new file. (Or the caller sends on what is no socket: the real call says so, too.)
        NOT_A_SOCKET | NOT_SO => {
            fd::ask(fd);
            blocks()
        }
        part if part > 0 && (part as usize) < len => write_rest(fd, part as usize, len, more),
        done => done,
    }
}

#[cold]
fn write_rest(fd: c_int, mut done: usize, len: usize, mut more: impl FnMut(usize) -> isize) -> isize {
    let mut call = None;
    while done < len {
        match more(done) {
            AGAIN => {
                if call.is_none() {
                    call = Call::begin(fd, Direction::Write).ok();
                }
                match call.as_ref().map(Call::wait) {
                    Some(Waited::Ready) => {}
                    _ => break,
                }
            }
            // An error: the next call meets it.
            ..=0 => break,
            part => done += part as usize,
        }
    }
    done as isize
}

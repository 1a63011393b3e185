//! `read`, `readv`, `preadv2`, `recv`, `recvfrom`, `recvmsg`.

use std::ffi::{c_int, c_void};
use std::ptr;

use libc::{iovec, msghdr, off64_t, size_t, sockaddr, socklen_t, ssize_t};

use super::fd::{self, Kind};
use super::message::{plain, rest, total};
use super::process::blocking;
use super::raw::{self, call};
use super::wait::{AGAIN, Call, Direction, Waited, repeat};
use super::{begin_call, error, finish};

/// Calls with one of these flags never wait.
const NEVER_WAITS: c_int = libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE | libc::MSG_OOB;

/// libc's `read`; parks a green thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn read(fd: c_int, buf: *mut c_void, count: size_t) -> ssize_t {
    // A read of nothing never waits, but a receipt of nothing does.
    if count > 0 && begin_call(fd) {
        // SAFETY: the caller's arguments.
        return unsafe { read_here(fd, buf, count) };
    }
    // SAFETY: the caller's arguments.
    finish(unsafe { call!(libc::SYS_read, fd, buf, count) })
}

/// `read` on a green thread: not inlined, so that the hook has a small frame on plain OS threads.
///
/// # Safety
/// As `read`'s.
#[inline(never)]
unsafe extern "C-unwind" fn read_here(fd: c_int, buf: *mut c_void, count: size_t) -> ssize_t {
    // SAFETY: the caller's arguments.
    let block = || unsafe { call!(libc::SYS_read, fd, buf, count) };
    finish(match fd::kind(fd) {
        // SAFETY: the caller's buffer.
        Kind::Socket => unsafe { receive(fd, buf, count, 0, ptr::null_mut(), ptr::null_mut(), block) },
        kind => {
            let part = iovec { iov_base: buf, iov_len: count };
            // SAFETY: the caller's buffer.
            unsafe { read_other(fd, kind, &raw const part, 1, block) }
        }
    })
}

/// libc's `readv`; parks a green thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn readv(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller's arguments.
    let block = || unsafe { call!(libc::SYS_readv, fd, iov, count) };
    // SAFETY: the caller's list, whose length was checked.
    let is_empty = || unsafe { total(iov, count as usize) == 0 };
    if !begin_call(fd) || !(1..=libc::UIO_MAXIOV).contains(&count) || is_empty() {
        return finish(block());
    }
    finish(match fd::kind(fd) {
        Kind::Socket => {
            // SAFETY: zero is a value of each field.
            let mut message: msghdr = unsafe { std::mem::zeroed() };
            message.msg_iov = iov.cast_mut();
            message.msg_iovlen = count as _;
            // SAFETY: the caller's buffers.
            let attempt = || unsafe { call!(libc::SYS_recvmsg, fd, &raw mut message, libc::MSG_DONTWAIT) };
            repeat_on_socket(fd, attempt, block)
        }
        // SAFETY: the caller's buffers.
        kind => unsafe { read_other(fd, kind, iov, count as usize, block) },
    })
}

/// libc's `preadv2`; parks a green thread if it reads at the present position without flags, which is
/// `readv`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn preadv2(
    fd: c_int,
    iov: *const iovec,
    count: c_int,
    offset: off64_t,
    flags: c_int,
) -> ssize_t {
    if offset == -1 && flags == 0 {
        // SAFETY: the caller's arguments.
        return unsafe { readv(fd, iov, count) };
    }
    // SAFETY: the caller's arguments.
    finish(unsafe { call!(libc::SYS_preadv2, fd, iov, count, offset, 0usize, flags) })
}

/// `preadv2` by the name that C uses for wide offsets.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn preadv64v2(
    fd: c_int,
    iov: *const iovec,
    count: c_int,
    offset: off64_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's arguments.
    unsafe { preadv2(fd, iov, count, offset, flags) }
}

/// libc's `recv`; parks a green thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn recv(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the caller's arguments.
    unsafe { recvfrom(fd, buf, len, flags, ptr::null_mut(), ptr::null_mut()) }
}

/// libc's `recvfrom`; parks a green thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    if flags & NEVER_WAITS == 0 && begin_call(fd) {
        // SAFETY: the caller's arguments.
        return unsafe { receive_here(fd, buf, len, flags, from, from_len) };
    }
    // SAFETY: the caller's arguments.
    finish(unsafe { call!(libc::SYS_recvfrom, fd, buf, len, flags, from, from_len) })
}

/// `recvfrom` on a green thread.
///
/// # Safety
/// As `recvfrom`'s.
#[inline(never)]
unsafe extern "C-unwind" fn receive_here(
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the caller's arguments.
    let block = || unsafe { call!(libc::SYS_recvfrom, fd, buf, len, flags, from, from_len) };
    // SAFETY: the caller's arguments.
    finish(unsafe { receive(fd, buf, len, flags, from, from_len, block) })
}

/// libc's `recvmsg`; parks a green thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's arguments.
    let block = || unsafe { call!(libc::SYS_recvmsg, fd, message, flags) };
    if flags & NEVER_WAITS != 0 || !begin_call(fd) || message.is_null() {
        return finish(block());
    }
    // SAFETY: the caller's arguments.
    let attempt = || unsafe { call!(libc::SYS_recvmsg, fd, message, flags | libc::MSG_DONTWAIT) };
    if flags & libc::MSG_WAITALL == 0 {
        return finish(repeat(fd, Direction::Read, attempt, block));
    }
    if flags & libc::MSG_PEEK != 0 {
        return finish(peek_all(fd, attempt, block));
    }
    // SAFETY: the caller's message and buffers.
    let (list, count) = unsafe { ((*message).msg_iov, (*message).msg_iovlen) };
    // SAFETY: the caller's buffers.
    let wanted = unsafe { total(list, count) };
    finish(wait_for_all(fd, wanted, attempt, block, |done| {
        // SAFETY: the caller's buffers have more than `done` bytes.
        let mut buffers = unsafe { rest(list, count, done) };
        let mut message = plain(&mut buffers);
        // SAFETY: the buffers are the rest of the caller's.
        unsafe { call!(libc::SYS_recvmsg, fd, &raw mut message, flags | libc::MSG_DONTWAIT) }
    }))
}

/// Receives from a socket.
///
/// # Safety
/// The arguments are those of `recvfrom`.
#[inline]
unsafe fn receive(
    fd: c_int,
    buf: *mut c_void,
    len: usize,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
    block: impl FnOnce() -> isize,
) -> isize {
    // The kernel changes the length of the address, and an attempt that fails must leave it.
    let attempt = || {
        // SAFETY: the caller's arguments.
        unsafe { call!(libc::SYS_recvfrom, fd, buf, len, flags | libc::MSG_DONTWAIT, from, from_len) }
    };
    if flags & libc::MSG_WAITALL == 0 {
        return repeat_on_socket(fd, attempt, block);
    }
    if flags & libc::MSG_PEEK != 0 {
        return peek_all(fd, attempt, block);
    }
    wait_for_all(fd, len, attempt, block, |done| {
        let buf = buf.cast::<u8>().wrapping_add(done);
        let nothing = ptr::null::<()>();
        // SAFETY: the rest of the caller's buffer.
        unsafe {
            call!(libc::SYS_recvfrom, fd, buf, len - done, flags | libc::MSG_DONTWAIT, nothing, nothing)
        }
    })
}

/// Repeats `attempt` as `repeat` does. If the descriptor turns out to be no socket, its number has a new
/// file: makes the real call.
#[inline]
fn repeat_on_socket(fd: c_int, attempt: impl FnMut() -> isize, block: impl FnOnce() -> isize) -> isize {
    const NOT_A_SOCKET: isize = error(libc::ENOTSOCK);
    let mut block = Some(block);
    let mut blocks = || block.take().map_or(AGAIN, |block| block());
    match repeat(fd, Direction::Read, attempt, &mut blocks) {
        NOT_A_SOCKET => {
            fd::ask(fd);
            sched::park::blocking_briefly(blocks)
        }
        done => done,
    }
}

/// `MSG_WAITALL`: receives until the `wanted` bytes have come, the stream has ended, or the time is up.
/// `more` receives what is left after the given number of bytes.
fn wait_for_all(
    fd: c_int,
    wanted: usize,
    attempt: impl FnMut() -> isize,
    block: impl FnOnce() -> isize,
    mut more: impl FnMut(usize) -> isize,
) -> isize {
    let first = repeat(fd, Direction::Read, attempt, block);
    let Ok(mut done) = usize::try_from(first) else { return first };
    // A message of another kind of socket is complete.
    let is_stream = || raw::option(fd, libc::SOL_SOCKET, libc::SO_TYPE) == Ok(libc::SOCK_STREAM);
    if done == 0 || done >= wanted || !is_stream() {
        return first;
    }
    let mut call = None;
    loop {
        match more(done) {
            AGAIN => {
                if call.is_none() {
                    call = Call::begin(fd, Direction::Read).ok();
                }
                match call.as_ref().map(Call::wait) {
                    Some(Waited::Ready) => {}
                    _ => return done as isize,
                }
            }
            // An end or an error: the next call meets it.
            ..=0 => return done as isize,
            got => done += got as usize,
        }
        if done >= wanted {
            return done as isize;
        }
    }
}

/// `MSG_WAITALL` with `MSG_PEEK`: no event tells that enough has come, so this blocks the OS thread, unless
/// the descriptor is non-blocking.
#[cold]
fn peek_all(fd: c_int, mut attempt: impl FnMut() -> isize, block: impl FnOnce() -> isize) -> isize {
    let flags = raw::flags(fd);
    if flags >= 0 && flags & libc::O_NONBLOCK as isize == 0 { blocking(block) } else { attempt() }
}

/// Reads from what is no socket.
///
/// # Safety
/// `list` points to the descriptions of `count` buffers that may be written.
unsafe fn read_other(
    fd: c_int,
    mut kind: Kind,
    list: *const iovec,
    count: usize,
    block: impl Fn() -> isize,
) -> isize {
    const NOT_SO: isize = error(libc::EOPNOTSUPP);
    if kind == Kind::Pipe {
        // SAFETY: the caller's buffers. The offset -1 means the present position.
        let attempt =
            || unsafe { call!(libc::SYS_preadv2, fd, list, count, -1isize, -1isize, libc::RWF_NOWAIT) };
        match repeat(fd, Direction::Read, attempt, &block) {
            NOT_SO => kind = fd::ask(fd),
            done => return done,
        }
    }
    if kind == Kind::Other { read_when_ready(fd, block) } else { block() }
}

/// Reads from a terminal, a timer and the like: when it is ready, the real call does not wait, unless another
/// reader takes what is there.
fn read_when_ready(fd: c_int, block: impl Fn() -> isize) -> isize {
    let attempt = || if raw::ready_now(fd, libc::POLLIN) == 0 { AGAIN } else { block() };
    repeat(fd, Direction::Read, attempt, &block)
}

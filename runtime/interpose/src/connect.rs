//! `connect`: begins the connection without waiting, and parks until it is made or refused.

use std::ffi::c_int;

use libc::{sockaddr, socklen_t};

use super::fd;
use super::process::blocking;
use super::raw::{self, call};
use super::wait::{AGAIN, Call, Direction, Waited};
use super::{begin_call, error, finish};

/// libc's `connect`; parks a green thread. The descriptor is non-blocking for the moment of the system call.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the caller's arguments.
    let block = || unsafe { call!(libc::SYS_connect, fd, address, len) };
    // SAFETY: an address that is not null begins with its family.
    let is_inet = || unsafe {
        let family = if address.is_null() { 0 } else { c_int::from((*address).sa_family) };
        family == libc::AF_INET || family == libc::AF_INET6
    };
    if !begin_call(fd) || (len as usize) < size_of::<libc::sa_family_t>() || !is_inet() {
        // A Unix socket waits for room in the listener's queue, and tells no poller: it blocks its OS thread.
        return finish(block()) as c_int;
    }
    fd::forget_wait(fd);
    finish(connect_inet(fd, block)) as c_int
}

fn connect_inet(fd: c_int, block: impl Fn() -> isize) -> isize {
    const IN_PROGRESS: isize = error(libc::EINPROGRESS);
    const ALREADY: isize = error(libc::EALREADY);
    let flags = raw::flags(fd);
    let waits = raw::option(fd, libc::SOL_SOCKET, libc::SO_TYPE) == Ok(libc::SOCK_STREAM);
    if flags < 0 || flags & libc::O_NONBLOCK as isize != 0 || !waits {
        return block();
    }
    set_flags(fd, flags | libc::O_NONBLOCK as isize);
    let begun = block();
    set_flags(fd, flags);
    if begun != IN_PROGRESS && begun != ALREADY {
        return begun;
    }
    let call = Call::begin_blocking(fd, Direction::Write);
    loop {
        match call.wait() {
            Waited::Ready if raw::ready_now(fd, libc::POLLOUT) == 0 => {}
            // The attempt is over. The same call again tells how, and does not wait.
            Waited::Ready => return block(),
            // The time of SO_SNDTIMEO is up; the attempt goes on.
            Waited::Over(AGAIN) => return IN_PROGRESS,
            Waited::Over(result) => return result,
            Waited::Blocks => return blocking(block),
        }
    }
}

fn set_flags(fd: c_int, flags: isize) {
    // SAFETY: the call takes no pointer.
    unsafe { call!(libc::SYS_fcntl, fd, libc::F_SETFL, flags) };
}

//! System calls that the hooks make, without libc: hooks never call hooks. A result below zero is an error:
//! `-errno`.

use std::ffi::c_int;
use std::ptr;

pub(super) use netpoll::raw::{call, syscall6};

/// Returns which of `events` (`POLLIN` and the like) `fd` has now; 0 for none. An error of the system counts
/// as ready: the caller's next attempt reports it. An interruption by a signal is none: the look is repeated.
pub(super) fn ready_now(fd: c_int, events: i16) -> i16 {
    let mut look = libc::pollfd { fd, events, revents: 0 };
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the count of 1 lets the call access `look` alone; it reads `none`. (A time-out of zero is not
    // written.)
    let poll = |look: &mut libc::pollfd| unsafe {
        call!(libc::SYS_ppoll, ptr::from_mut(look), 1, &raw const none, ptr::null::<()>(), 0)
    };
    match repeat_interrupted(|| poll(&mut look)) {
        ..0 => libc::POLLERR,
        _ => look.revents,
    }
}

/// Repeats a look that does not wait until no signal interrupts it. The kernel returns `EINTR` if a signal is
/// pending, also for a look. It may be a signal of the runtime, for which the caller has no use.
pub(super) fn repeat_interrupted(mut look: impl FnMut() -> isize) -> isize {
    const INTERRUPTED: isize = super::error(libc::EINTR);
    loop {
        match look() {
            INTERRUPTED => {}
            found => return found,
        }
    }
}

/// Returns an integer option of a socket.
pub(super) fn option<T: Default>(fd: c_int, level: c_int, name: c_int) -> Result<T, isize> {
    let mut value = T::default();
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the call writes at most `size` bytes into `value`, which any bits are valid for (integers,
    // `Time`).
    let result = unsafe { call!(libc::SYS_getsockopt, fd, level, name, &raw mut value, &raw mut size) };
    if result < 0 { Err(result) } else { Ok(value) }
}

/// Returns the flags of a descriptor, or an error.
pub(super) fn flags(fd: c_int) -> isize {
    // SAFETY: the call takes no pointer.
    unsafe { call!(libc::SYS_fcntl, fd, libc::F_GETFL) }
}

/// Returns the flags of a descriptor that are its own and not those of its file, or an error.
pub(super) fn descriptor_flags(fd: c_int) -> isize {
    // SAFETY: the call takes no pointer.
    unsafe { call!(libc::SYS_fcntl, fd, libc::F_GETFD) }
}

//! System calls without libc. A result below zero is an error: `-errno`.

use std::arch::asm;
use std::ffi::{c_int, c_long};

/// Makes a system call.
///
/// # Safety
/// The arguments are those that the system call `number` allows.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) unsafe fn syscall6(number: c_long, a: [usize; 6]) -> isize {
    let result;
    // SAFETY: the kernel keeps all registers but `rax`, `rcx` and `r11`; the caller answers for the arguments.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Makes a system call.
///
/// # Safety
/// The arguments are those that the system call `number` allows.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) unsafe fn syscall6(number: c_long, a: [usize; 6]) -> isize {
    let result;
    // SAFETY: the kernel keeps all registers but `x0`; the caller answers for the arguments.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a[0] as isize => result,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack),
        );
    }
    result
}

/// Makes a system call with up to six arguments, each an integer or a pointer.
macro_rules! call {
    ($number:expr $(, $arg:expr)*) => {{
        let mut args = [0usize; 6];
        let mut at = 0;
        $( args[at] = $crate::interpose::raw::Arg::word($arg); at += 1; )*
        let _ = at;
        $crate::interpose::raw::syscall6($number, args)
    }};
}
pub(super) use call;

/// An argument of a system call.
pub(super) trait Arg {
    fn word(self) -> usize;
}

macro_rules! integers {
    ($($t:ty)*) => { $( impl Arg for $t {
        #[inline(always)]
        fn word(self) -> usize { self as usize }
    } )* };
}
integers!(c_int u32 usize isize c_long u64);

impl<T> Arg for *const T {
    #[inline(always)]
    fn word(self) -> usize {
        self.expose_provenance()
    }
}

impl<T> Arg for *mut T {
    #[inline(always)]
    fn word(self) -> usize {
        self.expose_provenance()
    }
}

/// Returns which of `events` (`POLLIN` and the like) `fd` has now; 0 for none. An error of the system counts as ready: the
/// caller's next attempt reports it.
pub(super) fn ready_now(fd: c_int, events: i16) -> i16 {
    let mut look = libc::pollfd { fd, events, revents: 0 };
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the count of 1 lets the call access `look` alone; it reads `none`. (A time-out of zero is not written.)
    let ready =
        unsafe { call!(libc::SYS_ppoll, &raw mut look, 1, &raw const none, std::ptr::null::<()>(), 0) };
    if ready < 0 { libc::POLLERR } else { look.revents }
}

/// Returns an integer option of a socket.
pub(super) fn option<T: Default>(fd: c_int, level: c_int, name: c_int) -> Result<T, isize> {
    let mut value = T::default();
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the call writes at most `size` bytes into `value`, which any bits are valid for (integers, `Time`).
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

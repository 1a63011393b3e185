//! System calls without libc, for the runtime's own code. With `interpose` the program defines libc's
//! functions itself, as calls that park. With `sim` it defines them as calls that answer from a simulation. A
//! result below zero is an error: `-errno`. Signal handlers may make them.
//!
//! Where the program defines no functions of libc, a call goes by libc's `syscall`: Miri knows that, and
//! every processor has it.
//!
//! `ci/raw-calls.sh` checks that no crate of the runtime refers to a function of libc that the program
//! defines.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_long};

/// Makes a system call.
///
/// # Safety
/// The arguments are those that the system call `number` allows.
#[cfg(target_arch = "x86_64")]
#[inline]
pub unsafe fn syscall6(number: c_long, a: [usize; 6]) -> isize {
    let result;
    // SAFETY: the kernel keeps all registers but `rax`, `rcx` and `r11`; the caller answers for the
    // arguments.
    unsafe {
        std::arch::asm!(
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
pub unsafe fn syscall6(number: c_long, a: [usize; 6]) -> isize {
    let result;
    // SAFETY: the kernel keeps all registers but `x0`; the caller answers for the arguments.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a[0] as isize => result,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack),
        );
    }
    result
}

/// Sets `errno` by the result of a system call that has failed. Returns -1.
#[cfg(target_os = "linux")]
#[cold]
#[inline(never)]
pub extern "C" fn fail(result: isize) -> isize {
    // SAFETY: the address is that of this thread's `errno`.
    unsafe { *libc::__errno_location() = -result as c_int };
    -1
}

/// Makes a system call with up to six arguments, each an integer or a pointer.
#[cfg(all(
    any(feature = "foreign", feature = "sim"),
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#[doc(hidden)]
#[macro_export]
macro_rules! __raw_call {
    ($number:expr $(, $arg:expr)*) => {{
        let mut args = [0usize; 6];
        let mut at = 0;
        $( args[at] = $crate::raw::Arg::word($arg); at += 1; )*
        let _ = at;
        $crate::raw::syscall6($number, args)
    }};
}

/// Makes a system call with up to six arguments, each an integer or a pointer.
#[cfg(not(all(
    any(feature = "foreign", feature = "sim"),
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __raw_call {
    ($number:expr $(, $arg:expr)*) => {
        $crate::raw::of_libc(libc::syscall($number $(, $arg)*))
    };
}

#[doc(inline)]
pub use __raw_call as call;

/// Converts the result of libc's `syscall`. It stands in one function with that call, which is never inlined:
/// `errno` belongs to the OS thread.
#[doc(hidden)]
#[inline(always)]
pub fn of_libc(result: c_long) -> isize {
    match result {
        -1 => -(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL) as isize),
        result => result as isize,
    }
}

/// An argument of a system call.
pub trait Arg {
    /// Returns the argument as the kernel gets it.
    fn word(self) -> usize;
}

macro_rules! integers {
    ($($t:ty)*) => { $( impl Arg for $t {
        #[inline(always)]
        fn word(self) -> usize { self as usize }
    } )* };
}
integers!(c_int u32 usize isize i64 u64);

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

//! libc's `syscall`. Locks wait by `futex`; with the feature `sim`, `getrandom` and `clock_gettime` answer
//! from the simulation, too. Every other number goes to the kernel as it is. (Features `interpose` and `sim`;
//! with both, `futex` is that of `interpose`.)

#![allow(unsafe_code)]

use std::ffi::{c_int, c_long};

#[cfg(feature = "interpose")]
use crate::interpose::futex;
#[cfg(not(feature = "interpose"))]
use crate::sim::futex;

#[cfg(feature = "sim")]
use crate::sim::{clock_gettime, getrandom};
#[cfg(feature = "sim")]
const CLOCK_GETTIME: c_long = libc::SYS_clock_gettime;
#[cfg(feature = "sim")]
const GETRANDOM: c_long = libc::SYS_getrandom;

// Without simulations these stand for `futex` once more.
#[cfg(not(feature = "sim"))]
use futex as clock_gettime;
#[cfg(not(feature = "sim"))]
use futex as getrandom;
#[cfg(not(feature = "sim"))]
const CLOCK_GETTIME: c_long = libc::SYS_futex;
#[cfg(not(feature = "sim"))]
const GETRANDOM: c_long = libc::SYS_futex;

/// libc's `syscall`. It has no frame of its own, so that a call like `vfork` returns twice to its caller.
///
/// # Safety
/// As libc's.
// libc's function takes a variable number of arguments. With both conventions they are where those of a
// function of seven arguments are. The caller has not set those that the system call does not have.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    std::arch::naked_asm!(
        "cmp rdi, {futex_number}",
        "je {futex}",
        "cmp rdi, {getrandom_number}",
        "je {getrandom}",
        "cmp rdi, {clock_gettime_number}",
        "je {clock_gettime}",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 3f",
        "ret",
        "3:",
        "mov rdi, rax",
        "jmp {fail}",
        futex_number = const libc::SYS_futex,
        futex = sym futex,
        getrandom_number = const GETRANDOM,
        getrandom = sym getrandom,
        clock_gettime_number = const CLOCK_GETTIME,
        clock_gettime = sym clock_gettime,
        fail = sym fail,
    )
}

/// libc's `syscall`. It has no frame of its own, so that a call like `clone` returns twice to its caller.
///
/// # Safety
/// As libc's.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    std::arch::naked_asm!(
        "cmp x0, {futex_number}",
        "b.ne 2f",
        "b {futex}",
        "2:",
        "cmp x0, {getrandom_number}",
        "b.ne 2f",
        "b {getrandom}",
        "2:",
        "cmp x0, {clock_gettime_number}",
        "b.ne 2f",
        "b {clock_gettime}",
        "2:",
        "mov x8, x0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x5, x6",
        "svc 0",
        "cmn x0, 4095",
        "b.cs 3f",
        "ret",
        "3:",
        "b {fail}",
        futex_number = const libc::SYS_futex,
        futex = sym futex,
        getrandom_number = const GETRANDOM,
        getrandom = sym getrandom,
        clock_gettime_number = const CLOCK_GETTIME,
        clock_gettime = sym clock_gettime,
        fail = sym fail,
    )
}

/// Sets `errno` by the result of a system call that has failed. Returns -1.
#[cold]
#[inline(never)]
pub(crate) extern "C" fn fail(result: isize) -> isize {
    // SAFETY: the address is that of this thread's `errno`.
    unsafe { *libc::__errno_location() = -result as c_int };
    -1
}

/// Makes the linker take the function: it leaves out a library of which the program uses nothing.
pub(crate) fn link() {
    std::hint::black_box(syscall as *const ());
}

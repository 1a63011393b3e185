//! `syscall`, of which only `futex` is of interest: the locks of std and of parking_lot wait by it. Every other number goes to the kernel as it
//! is.
//!
//! All green threads of a simulation run on one OS thread. If one waits for a futex that another of them would wake, the OS thread waits for
//! ever. A lock that an OS thread outside of the simulation has is released soon, such as that of standard output. So a wait may last a while.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_long, c_void};
use std::mem;

use sched::simulation;

use super::clock::{self, NS_PER_S, Real};

/// For how long a green thread may wait for a futex, in real time.
const MOST_NS: u64 = 5 * NS_PER_S;

static SYSCALL: Real = Real::new(c"syscall");

type Syscall = unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;

/// libc's `syscall`. It has no frame of its own, so that a call like `vfork` returns twice to its caller.
///
/// # Safety
/// As libc's.
// libc's function takes a variable number of arguments. With both conventions they are where those of a function of seven arguments
// are. The caller has not set those that the system call does not have.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn syscall(
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
        "jne 2f",
        "jmp {futex}",
        "2:",
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
pub(super) unsafe extern "C" fn syscall(
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
        fail = sym fail,
    )
}

/// Sets `errno` by the result of a system call that has failed.
extern "C" fn fail(result: isize) -> c_long {
    // SAFETY: the place of this thread's `errno`.
    unsafe { *libc::__errno_location() = -result as c_int };
    -1
}

/// `syscall(SYS_futex, ..)`.
///
/// # Safety
/// As that of the system call. Arguments that the operation does not have may be anything.
unsafe extern "C" fn futex(
    number: c_long,
    address: usize,
    operation: usize,
    value: usize,
    time: usize,
    address2: usize,
    value3: usize,
) -> c_long {
    // SAFETY: libc's function of this name takes these arguments.
    let system = unsafe { mem::transmute::<*mut c_void, Syscall>(SYSCALL.get()) };
    let flags = (libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as usize;
    let waits = [libc::FUTEX_WAIT as usize, libc::FUTEX_WAIT_BITSET as usize].contains(&(operation & !flags));
    if !waits || !simulation::is_user_code() {
        // SAFETY: the arguments are the caller's.
        return unsafe { system(number, address, operation, value, time, address2, value3) };
    }
    let until = clock::monotonic() + MOST_NS;
    let until = libc::timespec {
        tv_sec: (until / NS_PER_S) as libc::time_t,
        tv_nsec: (until % NS_PER_S) as libc::c_long,
    };
    let operation = libc::FUTEX_WAIT_BITSET as usize | (operation & libc::FUTEX_PRIVATE_FLAG as usize);
    // SAFETY: the word is the caller's, and the time lives until the call returns.
    let result = unsafe {
        system(number, address, operation, value, (&raw const until) as usize, 0, u32::MAX as usize)
    };
    // SAFETY: the place of this thread's `errno`.
    if result == -1 && unsafe { *libc::__errno_location() } == libc::ETIMEDOUT {
        give_up();
    }
    result
}

/// Ends the process: the code that waits cannot unwind, and no other green thread can run.
#[cold]
fn give_up() -> ! {
    let stack = std::backtrace::Backtrace::force_capture();
    eprintln!(
        "runtime: a simulation cannot go on: a green thread waits for a futex, such as that of std::sync::Mutex, and no OS thread has \
         woken it within {} s. In a simulation use the locks and channels of the runtime.\n{stack}",
        MOST_NS / NS_PER_S
    );
    std::process::abort();
}

/// Makes the linker take the function: see `clock::link`.
pub(super) fn link() {
    std::hint::black_box(syscall as *const ());
}

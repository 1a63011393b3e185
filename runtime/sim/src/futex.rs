//! `futex`, as libc's `syscall` makes it (`syscall.rs` of `monochrome`): the locks of std and of parking_lot
//! wait by it.
//!
//! All green threads of a simulation run on one OS thread. If one waits for a futex that another of them
//! would wake, the OS thread waits for ever. A lock that an OS thread outside of the simulation has is
//! released soon, such as that of standard output. So a wait may last a while: a backtrace of a debug build
//! is printed under that lock, and takes seconds on a loaded machine.

#![allow(unsafe_code)]

use std::ffi::{c_long, c_void};
use std::mem;

use sched::{Real, simulation};

use super::clock::{self, NS_PER_S};

/// For how long a green thread may wait for a futex, in real time.
const MOST_NS: u64 = 15 * NS_PER_S;

static SYSCALL: Real = Real::new(c"syscall");

type Syscall = unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;

/// `syscall(SYS_futex, ..)`.
///
/// # Safety
/// As that of the system call. Arguments that the operation does not have may be anything.
pub unsafe extern "C" fn futex(
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
    sched::write_message(format_args!(
        "runtime: a simulation cannot go on: a green thread waits for a futex, such as that of std::sync::Mutex, and no OS thread has \
         woken it within {} s. In a simulation use the locks and channels of the runtime.\n{stack}",
        MOST_NS / NS_PER_S
    ));
    std::process::abort();
}

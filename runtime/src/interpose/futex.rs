//! `futex`, as libc's `syscall` makes it (`crate::syscall`): std's locks wait by it.
//!
//! std waits by `FUTEX_WAIT_BITSET` with an absolute time of the monotonic clock, and wakes by `FUTEX_WAKE`;
//! both are private to the process. Other operations on the same words are not expected. `parking_lot` waits
//! by `FUTEX_WAIT`: its waiters are the kernel's, because its state belongs to the OS thread.

use std::ffi::{c_int, c_long};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use libc::timespec;
use sched::std_word::{self as word, WordWait};
use timers::clock;

use super::poll::duration;
use super::raw::syscall6;
use super::{error, finish};

const WAIT: c_int = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
const WAKE: c_int = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
const WAKE_BITSET: c_int = libc::FUTEX_WAKE_BITSET | libc::FUTEX_PRIVATE_FLAG;

/// `syscall(SYS_futex, ..)`.
///
/// # Safety
/// As that of the system call. Arguments that the operation does not have may be anything.
pub(crate) unsafe extern "C" fn futex(
    number: c_long,
    address: usize,
    operation: usize,
    value: usize,
    time: usize,
    address2: usize,
    value3: usize,
) -> c_long {
    // SAFETY: the caller's arguments.
    let system = |value| unsafe { syscall6(number, [address, operation, value, time, address2, value3]) };
    let bits = value3 as u32;
    let result = match operation as c_int {
        WAIT if bits == u32::MAX => {
            // SAFETY: the caller's word and time.
            match unsafe { wait(address, value as u32, time) } {
                WordWait::Woken => 0,
                WordWait::TimedOut => error(libc::ETIMEDOUT),
                WordWait::Changed => error(libc::EAGAIN),
                WordWait::System => system(value),
            }
        }
        // Green threads wait with all bits. What is no number of waiters, the kernel judges.
        WAKE => wake(address, value, system),
        WAKE_BITSET if bits != 0 => wake(address, value, system),
        _ => system(value),
    };
    finish(result) as c_long
}

fn wake(address: usize, most: usize, system: impl Fn(usize) -> isize) -> isize {
    match usize::try_from(most as c_int) {
        Ok(most) if most > 0 => word::wake(address, most, system),
        _ => system(most),
    }
}

/// Waits for the word as far as the kernel need not. A word or a time that is none is the kernel's to judge.
///
/// # Safety
/// `address` and `time` are those of `FUTEX_WAIT_BITSET`.
unsafe fn wait(address: usize, expected: u32, time: usize) -> WordWait {
    let word = std::ptr::with_exposed_provenance_mut::<u32>(address);
    if word.is_null() || !word.is_aligned() {
        return WordWait::System;
    }
    // SAFETY: the caller's pointer.
    let until = match unsafe { std::ptr::with_exposed_provenance::<timespec>(time).as_ref() } {
        None => clock::NEVER,
        Some(time) => match duration(time) {
            Some(time) => until(time),
            None => return WordWait::System,
        },
    };
    // SAFETY: the caller's word, which it keeps while it waits. Other threads change it by atomic operations
    // only.
    word::wait(unsafe { AtomicU32::from_ptr(word) }, expected, until)
}

/// Returns the time `time` of the system's monotonic clock on the runtime's clock, or a little later.
fn until(time: Duration) -> u64 {
    let now = super::sleep::now(libc::CLOCK_MONOTONIC);
    clock::after(time.saturating_sub(now))
}

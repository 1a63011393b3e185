//! `futex`, as libc's `syscall` makes it (`syscall.rs` of `monochrome`): std's locks wait by it.
//!
//! std waits by `FUTEX_WAIT_BITSET` with an absolute time of the monotonic clock, and wakes by `FUTEX_WAKE`;
//! both are private to the process. Other operations on the same words are not expected.
//!
//! `parking_lot` waits by `FUTEX_WAIT`, with a span of time. What it knows of a waiter is in thread-locals.
//! So such a wait parks only a closure with thread-locals of its own; else the kernel has the waiter. The
//! runtime's own locks are those of `parking_lot`, too: a wait for one is always the kernel's.

use std::ffi::{c_int, c_long};
use std::time::Duration;

use libc::timespec;
use sched::foreign;
use timers::clock;
use waits::std_word::{self as word, WordWait};

use super::poll::{duration, timespec_of};
use super::raw::{call, syscall6};
use super::sync::atomic::{AtomicU32, Ordering, fence};
use super::{error, finish, is_cancelled};

const WAIT: c_int = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
const PLAIN_WAIT: c_int = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
const WAKE: c_int = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
const WAKE_BITSET: c_int = libc::FUTEX_WAKE_BITSET | libc::FUTEX_PRIVATE_FLAG;

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
    // SAFETY: the caller's arguments.
    let system = |value| unsafe { syscall6(number, [address, operation, value, time, address2, value3]) };
    let bits = value3 as u32;
    let result = match operation as c_int {
        WAIT if bits == u32::MAX => {
            // SAFETY: the caller's word and time.
            unsafe { wait(address, value as u32, time, until) }.unwrap_or_else(|| system(value))
        }
        PLAIN_WAIT if foreign::is_thread_of_its_own() => {
            // SAFETY: the caller's word and time.
            unsafe { wait(address, value as u32, time, clock::after) }.unwrap_or_else(|| system(value))
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

/// Waits for the word and returns the result of the call, or returns `None` where the kernel is to wait. A
/// word or a time that is none is the kernel's to judge. `until` converts the time to the runtime's clock.
///
/// # Safety
/// `address` and `time` are those of the system call.
unsafe fn wait(
    address: usize,
    expected: u32,
    time: usize,
    until: impl FnOnce(Duration) -> u64,
) -> Option<isize> {
    let word = std::ptr::with_exposed_provenance_mut::<u32>(address);
    if word.is_null() || !word.is_aligned() {
        return None;
    }
    // SAFETY: the caller's pointer.
    let until = match unsafe { std::ptr::with_exposed_provenance::<timespec>(time).as_ref() } {
        None => clock::NEVER,
        Some(time) => until(duration(time)?),
    };
    // SAFETY: the caller's word, which it keeps while it waits. Other threads change it by atomic operations
    // only.
    match word::wait(unsafe { AtomicU32::from_ptr(word) }, expected, until) {
        WordWait::Woken => Some(0),
        WordWait::TimedOut => Some(error(libc::ETIMEDOUT)),
        WordWait::Changed => Some(error(libc::EAGAIN)),
        WordWait::System => None,
    }
}

/// How a wait for a word has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// By a wake-up, because the word has changed, or without a cause.
    Over,
    /// The time was up first.
    TimedOut,
}

/// Parks while `word` is `expected`, until a wake-up or until `until` on the runtime's clock. Returns `None`
/// where the caller cannot park. Leaves `errno` alone. *Runs on: any thread.*
pub(super) fn park_while(word: &AtomicU32, expected: u32, until: u64) -> Option<Wait> {
    of_word(word::wait(word, expected, until))
}

/// As [`park_while`], but waits in the kernel where the caller cannot park.
pub(super) fn wait_while(word: &AtomicU32, expected: u32, until: u64) -> Wait {
    if let Some(waited) = park_while(word, expected, until) {
        return waited;
    }
    let left = Duration::from_nanos(until.saturating_sub(clock::now()));
    let time = (until != clock::NEVER).then(|| timespec_of(left));
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the kernel reads the word and the time.
    match unsafe { call!(libc::SYS_futex, word.as_ptr(), PLAIN_WAIT, expected, time) } {
        TIMED_OUT => Wait::TimedOut,
        _ => Wait::Over,
    }
}

/// As [`wait_while`]. A cancellation of the caller ends the wait, too.
pub(super) fn wait_while_or_cancel(word: &AtomicU32, expected: u32, until: u64) -> Wait {
    park_while_or_cancel(word, expected, until).unwrap_or_else(|| wait_while(word, expected, until))
}

/// As [`park_while`]. A cancellation of the caller ends the wait, too.
pub(super) fn park_while_or_cancel(word: &AtomicU32, expected: u32, until: u64) -> Option<Wait> {
    if sched::park::is_interrupted() {
        // Acquire: pairs with the canceller, which asks before it ends waits. So its request is seen.
        fence(Ordering::Acquire);
        // A thread that was cancelled by other means than pthread's would find each of its waits ended.
        return if is_cancelled() { Some(Wait::Over) } else { park_while(word, expected, until) };
    }
    of_word(word::wait_or_cancel(word, expected, until))
}

fn of_word(wait: WordWait) -> Option<Wait> {
    match wait {
        WordWait::Woken | WordWait::Changed => Some(Wait::Over),
        WordWait::TimedOut => Some(Wait::TimedOut),
        WordWait::System => None,
    }
}

const TIMED_OUT: isize = error(libc::ETIMEDOUT);

/// Wakes up to `most` threads that wait for the word at `address`, which may be gone. Leaves `errno` alone.
/// *Runs on: any thread.*
pub(super) fn wake_at(address: usize, most: c_int) {
    let most = usize::try_from(most).unwrap_or_default();
    word::wake(address, most, |most| wake_in_kernel(address, most));
}

/// Wakes up to `most` of the kernel's waiters for the word at `address`, which may be gone. Returns how many,
/// or an error below zero. *Runs on: any thread, also in a signal handler.*
pub(super) fn wake_in_kernel(address: usize, most: usize) -> isize {
    // SAFETY: the kernel uses the address alone.
    unsafe { call!(libc::SYS_futex, address, WAKE, most) }
}

/// Wakes one of the kernel's waiters for the word at `address`, in any process. *Runs on: any thread, also in
/// a signal handler.*
pub(super) fn wake_shared(address: usize) {
    // SAFETY: the kernel uses the address alone.
    unsafe { call!(libc::SYS_futex, address, libc::FUTEX_WAKE, 1) };
}

/// Wakes up to `most` green threads that wait for the word at `address`, which may be gone. *Runs on: any
/// thread.*
pub(super) fn wake_green(address: usize, most: usize) {
    word::wake(address, most, |_| 0);
}

/// Returns the time `time` of the system's monotonic clock on the runtime's clock, or a little later.
fn until(time: Duration) -> u64 {
    let now = super::sleep::now(libc::CLOCK_MONOTONIC);
    clock::after(time.saturating_sub(now))
}

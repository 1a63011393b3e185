//! `pthread_cond_wait`, `pthread_cond_timedwait`, `pthread_cond_clockwait`, `pthread_cond_signal`,
//! `pthread_cond_broadcast`, `pthread_cond_destroy`, of green threads and of OS threads.
//!
//! glibc's own wait releases the mutex inside, where no green thread that waits for the mutex would be woken.
//! So these functions are whole. They use the bytes of glibc's condition variable, of which all are zero
//! before its first wait: the first word is a count of signals here. The clock, and whether processes share
//! it, stay where glibc has them, so `pthread_cond_init` is glibc's. So does the count of waiters, for which
//! `pthread_cond_destroy` waits.
//!
//! ```text
//!   the waiter, with the mutex                    the signaller
//!   count itself
//!   read the number of signals                    the number + 1
//!   release the mutex                             any counted? wake one, or all, that wait for the number
//!   wait while the number is what it was
//!   count itself no more; wake the destroyer      the destroyer: wait until none is counted
//!   take the mutex
//! ```
//!
//! - *No wake-up is lost.* Either the signaller sees the count, or the waiter sees the new number (SeqCst,
//!   all). A signal before the waiter has read the number came before the wait.
//! - *A signal wakes a waiter that began before it.* The table is in order of arrival, and a waiter that has
//!   not come there sees the new number.
//! - *A waiter that is cancelled takes no signal*: it wakes the next waiter.
//! - *The bytes outlive their use.* A waiter uses them while it is counted only.

use std::ffi::c_int;

use libc::{clockid_t, pthread_cond_t, pthread_mutex_t, timespec};
use timers::clock;

use super::super::real;
use super::{are_ours, mutex, until};
use crate::futex::{self, Wait};
use crate::sync::atomic::{AtomicU32, Ordering::SeqCst};
use crate::sync::broken;
use crate::{cancellation_point, is_cancelled};

#[cfg(all(test, loom))]
mod models;

type One = unsafe extern "C-unwind" fn(*mut pthread_cond_t) -> c_int;

real! {
    pthread_cond_wait: unsafe extern "C" fn(*mut pthread_cond_t, *mut pthread_mutex_t) -> c_int;
    pthread_cond_timedwait: unsafe extern "C" fn(
        *mut pthread_cond_t, *mut pthread_mutex_t, *const timespec,
    ) -> c_int;
    pthread_cond_clockwait: unsafe extern "C" fn(
        *mut pthread_cond_t, *mut pthread_mutex_t, clockid_t, *const timespec,
    ) -> c_int;
    pthread_cond_signal: One;
    pthread_cond_broadcast: One;
    pthread_cond_destroy: One;
}

/// The words of a condition variable.
#[repr(C)]
struct Words {
    signals: AtomicU32,
    rest: [AtomicU32; 8],
    /// The flags below, and the number of waiters above them.
    waiters: AtomicU32,
}

const SHARED: u32 = 1;
const MONOTONIC: u32 = 2;
/// A thread waits in `pthread_cond_destroy`.
const DESTROYED: u32 = 4;
/// One waiter.
const WAITER: u32 = 8;

/// Returns the words, if the condition variable is not glibc's whole.
///
/// # Safety
/// `condition` is one, and is used only as long as it is.
unsafe fn ours<'c>(condition: *mut pthread_cond_t) -> Option<&'c Words> {
    // SAFETY: a condition variable has 48 bytes, which change by atomic operations only.
    let words = unsafe { &*condition.cast::<Words>() };
    (are_ours() && words.waiters.load(SeqCst) & SHARED == 0).then_some(words)
}

/// libc's `pthread_cond_wait`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        match ours(condition) {
            Some(words) => wait_until(words, mutex, clock::NEVER),
            None => pthread_cond_wait()(condition, mutex),
        }
    }
}

/// libc's `pthread_cond_timedwait`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn timed_wait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        let Some(words) = ours(condition) else { return pthread_cond_timedwait()(condition, mutex, time) };
        let is_monotonic = words.waiters.load(SeqCst) & MONOTONIC != 0;
        wait_for(words, mutex, if is_monotonic { libc::CLOCK_MONOTONIC } else { libc::CLOCK_REALTIME }, time)
    }
}

/// libc's `pthread_cond_clockwait`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn clock_wait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        match ours(condition) {
            Some(words) => wait_for(words, mutex, clock, time),
            None => pthread_cond_clockwait()(condition, mutex, clock, time),
        }
    }
}

/// libc's `pthread_cond_signal`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn signal(condition: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's argument.
    unsafe { ours(condition).map_or_else(|| pthread_cond_signal()(condition), |words| wake(words, 1)) }
}

/// libc's `pthread_cond_broadcast`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn broadcast(condition: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's argument.
    unsafe {
        ours(condition).map_or_else(|| pthread_cond_broadcast()(condition), |words| wake(words, c_int::MAX))
    }
}

fn wake(words: &Words, most: c_int) -> c_int {
    if !broken!("condition_wakes_before_the_number") {
        words.signals.fetch_add(1, SeqCst);
    }
    if words.waiters.load(SeqCst) >= WAITER {
        futex::wake_at(words.signals.as_ptr().expose_provenance(), most);
    }
    if broken!("condition_wakes_before_the_number") {
        words.signals.fetch_add(1, SeqCst);
    }
    0
}

/// libc's `pthread_cond_destroy`: waits for waiters that have been woken.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn destroy(condition: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's argument.
    let Some(words) = (unsafe { ours(condition) }) else {
        // SAFETY: as above.
        return unsafe { pthread_cond_destroy()(condition) };
    };
    let mut waiters = words.waiters.fetch_or(DESTROYED, SeqCst) | DESTROYED;
    while waiters >= WAITER && !broken!("condition_goes_under_its_waiters") {
        futex::wait_while(&words.waiters, waiters, clock::NEVER);
        waiters = words.waiters.load(SeqCst);
    }
    0
}

/// # Safety
/// The mutex and the time are those of `pthread_cond_clockwait`.
unsafe fn wait_for(
    words: &Words,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: this contract.
    unsafe {
        match until(clock, time) {
            Some(until) => wait_until(words, mutex, until),
            None => libc::EINVAL,
        }
    }
}

/// # Safety
/// The caller has the mutex.
unsafe fn wait_until(words: &Words, mutex: *mut pthread_mutex_t, until: u64) -> c_int {
    cancellation_point();
    if !broken!("condition_waiter_counts_late") {
        words.waiters.fetch_add(WAITER, SeqCst);
    }
    let mut seen = words.signals.load(SeqCst);
    // SAFETY: this contract.
    let unlocked = unsafe { mutex::unlock(mutex) };
    if broken!("condition_waiter_counts_late") {
        words.waiters.fetch_add(WAITER, SeqCst);
    }
    if broken!("condition_reads_after_the_unlock") {
        seen = words.signals.load(SeqCst);
    }
    let waited =
        if unlocked == 0 { futex::wait_while_or_cancel(&words.signals, seen, until) } else { Wait::Over };
    let signals = words.signals.as_ptr().expose_provenance();
    let address = &raw const words.waiters;
    if words.waiters.fetch_sub(WAITER, SeqCst) & !(SHARED | MONOTONIC) == WAITER | DESTROYED {
        // The destroyer may have seen the count, and freed the bytes: only the address is used.
        futex::wake_at(address.expose_provenance(), c_int::MAX);
    }
    if broken!("condition_is_used_uncounted") {
        words.signals.load(SeqCst);
    }
    if unlocked != 0 {
        return unlocked;
    }
    // SAFETY: the caller's mutex.
    let locked = unsafe { mutex::lock(mutex) };
    if is_cancelled() {
        // A signal may have ended this wait, and is for the next waiter, which may also wake without a cause.
        // The bytes may be gone: only the address is used.
        if !broken!("condition_cancelled_takes_the_signal") {
            futex::wake_at(signals, 1);
        }
        // Handlers run with the mutex.
        cancellation_point();
    }
    match locked {
        0 if waited == Wait::TimedOut => libc::ETIMEDOUT,
        result => result,
    }
}

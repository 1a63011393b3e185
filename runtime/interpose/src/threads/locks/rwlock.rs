//! `pthread_rwlock_rdlock`, `pthread_rwlock_wrlock`, both with a time, and `pthread_rwlock_unlock`: a green
//! thread that waits for a read-write lock of C parks.
//!
//! glibc's functions that do not wait take the lock, and its unlock releases it. How it keeps its state is
//! left to glibc. So a waiter has a word of this file's instead, which counts unlocks of all locks with the
//! same remainder of the address:
//!
//! ```text
//!   the waiter                                    the unlocker
//!   count itself
//!   read the word                                 glibc's unlock
//!   try the lock: taken? leave                    any counted? the word + 1, and wake all that wait for it
//!   wait in the table while the word is that
//!   try again
//! ```
//!
//! *No wake-up is lost.* Either the unlocker sees the count, and then the waiter sees the new word or is
//! woken. Or it does not, and then its unlock came before the waiter's try (SeqCst, and glibc's unlock, which
//! is locked on x86-64).
//!
//! Locks that prefer writers are glibc's whole, because glibc does not know a waiter of this file's. Locks
//! that processes share are glibc's, too.

use std::ffi::c_int;

use libc::{clockid_t, pthread_rwlock_t, timespec};
use sched::foreign;
use timers::clock;

use super::super::real;
use super::mutex::own_number;
use super::{are_ours, until};
use crate::futex::{self, Wait};
use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use crate::sync::{broken, statics};

#[cfg(all(test, loom))]
pub(super) mod models;

type Lock = unsafe extern "C" fn(*mut pthread_rwlock_t) -> c_int;
type TimedLock = unsafe extern "C" fn(*mut pthread_rwlock_t, *const timespec) -> c_int;
type ClockLock = unsafe extern "C" fn(*mut pthread_rwlock_t, clockid_t, *const timespec) -> c_int;

real! {
    pthread_rwlock_rdlock: Lock;
    pthread_rwlock_tryrdlock: Lock;
    pthread_rwlock_timedrdlock: TimedLock;
    pthread_rwlock_clockrdlock: ClockLock;
    pthread_rwlock_wrlock: Lock;
    pthread_rwlock_trywrlock: Lock;
    pthread_rwlock_timedwrlock: TimedLock;
    pthread_rwlock_clockwrlock: ClockLock;
    pthread_rwlock_unlock: Lock;
}

/// Words of 0: in a model they are no constants.
macro_rules! new_words {
    () => {{
        #[cfg(loom)]
        {
            [(); REMAINDERS].map(|()| AtomicU32::new(0))
        }
        #[cfg(not(loom))]
        {
            [const { AtomicU32::new(0) }; REMAINDERS]
        }
    }};
}

/// The words of a read-write lock that matter here.
#[repr(C)]
struct Words {
    state: [AtomicU32; 6],
    /// The thread that has it for writing.
    writer: AtomicU32,
    shared: AtomicU32,
    rest: [AtomicU32; 4],
    preference: AtomicU32,
}

/// glibc's name of a lock that prefers writers.
const PREFERS_WRITERS: u32 = 2;

/// The number of words below. One in models: locks meet in it.
const REMAINDERS: usize = if cfg!(loom) { 1 } else { 64 };

statics! {
    /// The green threads that wait for a read-write lock, or are about to.
    static WAITERS: AtomicUsize = AtomicUsize::new(0);
    /// The words for which they wait.
    static UNLOCKS: [AtomicU32; REMAINDERS] = new_words!();
}

/// Returns the word for a lock.
fn unlocks_of(lock: *mut pthread_rwlock_t) -> &'static AtomicU32 {
    &UNLOCKS[lock.expose_provenance() / size_of::<pthread_rwlock_t>() % UNLOCKS.len()]
}

/// libc's `pthread_rwlock_rdlock`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn read(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's lock.
    unsafe {
        lock_or(lock, pthread_rwlock_tryrdlock(), || Some(clock::NEVER), || pthread_rwlock_rdlock()(lock))
    }
}

/// libc's `pthread_rwlock_wrlock`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn write(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller's lock.
    unsafe {
        lock_or(lock, pthread_rwlock_trywrlock(), || Some(clock::NEVER), || pthread_rwlock_wrlock()(lock))
    }
}

/// libc's `pthread_rwlock_timedrdlock`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn timed_read(lock: *mut pthread_rwlock_t, time: *const timespec) -> c_int {
    // SAFETY: the caller's lock and time.
    unsafe {
        let whole = || pthread_rwlock_timedrdlock()(lock, time);
        lock_or(lock, pthread_rwlock_tryrdlock(), || until(libc::CLOCK_REALTIME, time), whole)
    }
}

/// libc's `pthread_rwlock_timedwrlock`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn timed_write(lock: *mut pthread_rwlock_t, time: *const timespec) -> c_int {
    // SAFETY: the caller's lock and time.
    unsafe {
        let whole = || pthread_rwlock_timedwrlock()(lock, time);
        lock_or(lock, pthread_rwlock_trywrlock(), || until(libc::CLOCK_REALTIME, time), whole)
    }
}

/// libc's `pthread_rwlock_clockrdlock`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn clock_read(
    lock: *mut pthread_rwlock_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller's lock and time.
    unsafe {
        let whole = || pthread_rwlock_clockrdlock()(lock, clock, time);
        lock_or(lock, pthread_rwlock_tryrdlock(), || until(clock, time), whole)
    }
}

/// libc's `pthread_rwlock_clockwrlock`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn clock_write(
    lock: *mut pthread_rwlock_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller's lock and time.
    unsafe {
        let whole = || pthread_rwlock_clockwrlock()(lock, clock, time);
        lock_or(lock, pthread_rwlock_trywrlock(), || until(clock, time), whole)
    }
}

/// libc's `pthread_rwlock_unlock`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn unlock_rwlock(lock: *mut pthread_rwlock_t) -> c_int {
    if broken!("rwlock_rises_before_the_unlock") {
        unlocks_of(lock).fetch_add(1, SeqCst);
    }
    let looks_early = broken!("rwlock_looks_before_the_unlock") && WAITERS.load(SeqCst) == 0;
    // SAFETY: the caller's lock.
    let result = unsafe { pthread_rwlock_unlock()(lock) };
    if broken!("rwlock_looks_at_the_freed") {
        // SAFETY: none; the lock may be gone.
        unsafe { (*lock.cast::<Words>()).shared.load(SeqCst) };
    }
    // SeqCst, both: the partner is `lock_or`; see the file's head. The lock may be gone: its address counts.
    if !looks_early && WAITERS.load(SeqCst) > 0 {
        let unlocks = unlocks_of(lock);
        if !broken!("rwlock_rises_before_the_unlock") {
            unlocks.fetch_add(1, SeqCst);
        }
        let most = if broken!("rwlock_wakes_one") { 1 } else { usize::MAX };
        futex::wake_green(unlocks.as_ptr().expose_provenance(), most);
    }
    result
}

/// Takes the lock by `attempt`, and parks where a green thread must wait. `whole` is libc's whole call, and
/// `until` returns `None` for a time that is none.
///
/// # Safety
/// The lock is one, and `attempt` is glibc's function that takes it without a wait.
unsafe fn lock_or(
    lock: *mut pthread_rwlock_t,
    attempt: Lock,
    until: impl FnOnce() -> Option<u64>,
    whole: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: glibc's lock begins with these words, which change by atomic operations only.
    let words = unsafe { &*lock.cast::<Words>() };
    let is_plain = words.shared.load(SeqCst) == 0 && words.preference.load(SeqCst) != PREFERS_WRITERS;
    if !are_ours() || !is_plain || !foreign::is_thread_of_its_own() {
        return whole();
    }
    // SAFETY: this contract.
    match unsafe { attempt(lock) } {
        libc::EBUSY if words.writer.load(SeqCst) == own_number() => libc::EDEADLK,
        libc::EBUSY => {
            let Some(until) = until() else { return whole() };
            // SeqCst, both: the partner is `unlock_rwlock`; see the file's head.
            WAITERS.fetch_add(1, SeqCst);
            // SAFETY: this contract.
            let result = unsafe { wait_for(lock, attempt, until) };
            WAITERS.fetch_sub(1, SeqCst);
            result.unwrap_or_else(whole)
        }
        result => result,
    }
}

/// Waits for the lock and takes it, or returns an error. Returns `None` where the caller cannot park. *Runs
/// on: a green thread, in user code, which is counted.*
///
/// # Safety
/// As for `lock_or`.
#[cold]
unsafe fn wait_for(lock: *mut pthread_rwlock_t, attempt: Lock, until: u64) -> Option<c_int> {
    let unlocks = unlocks_of(lock);
    loop {
        let mut seen = unlocks.load(SeqCst);
        // SAFETY: this contract.
        match unsafe { attempt(lock) } {
            libc::EBUSY => {}
            result => return Some(result),
        }
        if broken!("rwlock_reads_after_the_try") {
            seen = unlocks.load(SeqCst);
        }
        if futex::park_while(unlocks, seen, until)? == Wait::TimedOut {
            return Some(libc::ETIMEDOUT);
        }
    }
}

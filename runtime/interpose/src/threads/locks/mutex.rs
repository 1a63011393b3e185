//! `pthread_mutex_lock`, `pthread_mutex_timedlock`, `pthread_mutex_clocklock`, `pthread_mutex_unlock`: a
//! green thread that waits for a mutex of C parks.
//!
//! The words are glibc's, and glibc's own functions take and release the lock. So mutexes may be initialised
//! in any way, of each kind, and glibc's `pthread_mutex_trylock` is used as it is. Only the wait of a green
//! thread is here:
//!
//! ```text
//!   the waiter                                    the unlocker
//!   count itself
//!   try the lock: taken? leave                    glibc's unlock: the word = 0;
//!   read the word; it is 0: try again               was it 2? wake one of the kernel's waiters
//!   wait in the table while the word is that      any counted? wake one in the table
//!   try again
//! ```
//!
//! - *No wake-up is lost.* If the waiter finds its word unchanged in the table, the unlocker's 0 comes later.
//!   So the unlocker sees the count, which the waiter has raised before, and finds the waiter in the table.
//!   (The order is SeqCst; glibc's exchange is locked on x86-64.) Else the waiter tries again.
//! - *The kernel's waiters have the word 2*, which is theirs alone. An unlock wakes one of each kind, so none
//!   takes the wake-up of the other kind.
//! - *The mutex may be gone* once it is unlocked: the unlocker uses the address alone.
//!
//! Mutexes that are robust, with priority inheritance or a ceiling, or shared by processes, are glibc's
//! whole.

use std::ffi::c_int;

use libc::{clockid_t, pthread_mutex_t, timespec};
use sched::foreign;
use timers::clock;

use super::super::real;
use super::{are_ours, until};
use crate::futex::{self, Wait};
use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use crate::sync::{broken, statics};

#[cfg(all(test, loom))]
pub(super) mod models;

type Lock = unsafe extern "C" fn(*mut pthread_mutex_t) -> c_int;

real! {
    pthread_mutex_lock: Lock;
    pthread_mutex_trylock: Lock;
    pthread_mutex_unlock: Lock;
    pthread_mutex_timedlock: unsafe extern "C" fn(*mut pthread_mutex_t, *const timespec) -> c_int;
    pthread_mutex_clocklock: unsafe extern "C" fn(*mut pthread_mutex_t, clockid_t, *const timespec) -> c_int;
}

/// The words of a mutex that glibc's headers show.
#[repr(C)]
struct Words {
    /// 0: free; 1: taken; 2: taken, and a thread may wait.
    lock: AtomicU32,
    count: AtomicU32,
    owner: AtomicU32,
    users: AtomicU32,
    kind: AtomicU32,
}

/// Kinds that lock by the word `lock` alone have no other bits than these two: plain, recursive,
/// error-checking, adaptive.
const PLAIN_KINDS: u32 = 3;
/// A kind that was asked for by name has this bit, and so have mutexes of C11: the lock is never elided.
const NOT_ELIDED: u32 = 512;
const ERROR_CHECKING: u32 = 2;

statics! {
    /// The green threads that wait for a mutex, or are about to.
    static WAITERS: AtomicUsize = AtomicUsize::new(0);
}

/// libc's `pthread_mutex_lock`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's mutex.
    unsafe { lock_or(mutex, || clock::NEVER, || pthread_mutex_lock()(mutex)) }
}

/// libc's `pthread_mutex_timedlock`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn timed_lock(mutex: *mut pthread_mutex_t, time: *const timespec) -> c_int {
    // SAFETY: the caller's mutex and time.
    unsafe {
        match until(libc::CLOCK_REALTIME, time) {
            Some(until) => lock_or(mutex, || until, || pthread_mutex_timedlock()(mutex, time)),
            None => pthread_mutex_timedlock()(mutex, time),
        }
    }
}

/// libc's `pthread_mutex_clocklock`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn clock_lock(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller's mutex and time.
    unsafe {
        match until(clock, time) {
            Some(until) => lock_or(mutex, || until, || pthread_mutex_clocklock()(mutex, clock, time)),
            None => pthread_mutex_clocklock()(mutex, clock, time),
        }
    }
}

/// libc's `pthread_mutex_unlock`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn unlock(mutex: *mut pthread_mutex_t) -> c_int {
    let looks_early = broken!("mutex_looks_before_the_unlock") && WAITERS.load(SeqCst) == 0;
    // SAFETY: the caller's mutex.
    let result = unsafe { pthread_mutex_unlock()(mutex) };
    if broken!("mutex_looks_at_the_freed") {
        // SAFETY: none; the mutex may be gone.
        unsafe { (*mutex.cast::<Words>()).kind.load(SeqCst) };
    }
    // SeqCst: the partner is the count in `lock_or`; see the file's head.
    if !looks_early && WAITERS.load(SeqCst) > 0 {
        // `lock` is the first word.
        futex::wake_green(mutex.expose_provenance(), 1);
    }
    result
}

/// Takes the lock, and parks where a green thread must wait. `whole` is libc's whole call.
///
/// # Safety
/// The mutex is one.
unsafe fn lock_or(
    mutex: *mut pthread_mutex_t,
    until: impl FnOnce() -> u64,
    whole: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: glibc's mutex begins with these words, which change by atomic operations only.
    let words = unsafe { &*mutex.cast::<Words>() };
    if !are_ours() || words.kind.load(SeqCst) & !(PLAIN_KINDS | NOT_ELIDED) != 0 {
        return whole();
    }
    // SAFETY: this contract.
    match unsafe { pthread_mutex_trylock()(mutex) } {
        libc::EBUSY if foreign::is_thread_of_its_own() && !is_own_error(words) => {
            // SeqCst, both: the partner is `unlock`; see the file's head.
            WAITERS.fetch_add(1, SeqCst);
            // SAFETY: this contract.
            let result = unsafe { wait_for(mutex, words, until()) };
            WAITERS.fetch_sub(1, SeqCst);
            result.unwrap_or_else(whole)
        }
        libc::EBUSY => whole(),
        result => result,
    }
}

/// Returns `true` if the caller has this mutex already, which checks for that.
fn is_own_error(words: &Words) -> bool {
    words.kind.load(SeqCst) & PLAIN_KINDS == ERROR_CHECKING && words.owner.load(SeqCst) == own_number()
}

/// Waits for the lock and takes it, or returns an error. Returns `None` where the caller cannot park. *Runs
/// on: a green thread, in user code, which is counted.*
///
/// # Safety
/// The mutex is one, and these are its words.
#[cold]
unsafe fn wait_for(mutex: *mut pthread_mutex_t, words: &Words, until: u64) -> Option<c_int> {
    loop {
        // SAFETY: this contract.
        match unsafe { pthread_mutex_trylock()(mutex) } {
            libc::EBUSY => {}
            result => return Some(result),
        }
        let seen = words.lock.load(SeqCst);
        let waits = seen != 0 || broken!("mutex_waits_while_it_is_free");
        if waits && futex::park_while(&words.lock, seen, until)? == Wait::TimedOut {
            return Some(libc::ETIMEDOUT);
        }
    }
}

/// Returns the number by which glibc names the caller as the owner of a lock: a mutex that the caller takes
/// has it.
#[cfg(not(loom))]
#[cold]
pub(super) fn own_number() -> u32 {
    let mut own = libc::PTHREAD_MUTEX_INITIALIZER;
    // SAFETY: the mutex is this function's, and free.
    unsafe {
        pthread_mutex_trylock()(&mut own);
        let number = (*(&raw const own).cast::<Words>()).owner.load(SeqCst);
        pthread_mutex_unlock()(&mut own);
        number
    }
}

#[cfg(loom)]
pub(super) use crate::models::waits::own_number;

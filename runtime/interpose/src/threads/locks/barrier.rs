//! `pthread_barrier_init`, `pthread_barrier_wait` and `pthread_barrier_destroy`: a green thread that waits
//! for others parks.
//!
//! glibc's wait sleeps inside, so these functions are whole. `pthread_barrier_init` of glibc checks the
//! number and the attributes, and its words `count` and `shared` stay; the others have another use here.
//!
//! ```text
//!   a thread                                      the destroyer
//!   the users + 1
//!   arrivals + 1, or 0 and the next round,        the users, and the mark of a destroyer
//!     if that makes the number full, in one step  wait until there are no users
//!   the last one: the opened rounds + 1,
//!     wake all
//!   others: wait until their round is opened
//!   the users - 1; wake the destroyer
//! ```
//!
//! - *A thread of the next round does not wait in the last one.* The step of the arrival also says the round,
//!   and rounds are full in order. Two rounds may be opened in either order. Not more are opened than are
//!   full, so a thread may wait longer, but not less.
//! - *The words outlive their use.* A thread uses them while it is among the users only.

use std::ffi::{c_int, c_uint};

use libc::{pthread_barrier_t, pthread_barrierattr_t};
use timers::clock;

use super::super::real;
use super::are_ours;
use crate::futex;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use crate::sync::broken;

#[cfg(all(test, loom))]
mod models;

real! {
    pthread_barrier_init: unsafe extern "C" fn(
        *mut pthread_barrier_t, *const pthread_barrierattr_t, c_uint,
    ) -> c_int;
    pthread_barrier_wait: unsafe extern "C" fn(*mut pthread_barrier_t) -> c_int;
    pthread_barrier_destroy: unsafe extern "C" fn(*mut pthread_barrier_t) -> c_int;
}

/// The words of a barrier.
#[repr(C)]
struct Words {
    /// The arrivals of the round in the lower half, the number of the round in the upper one.
    arrivals: AtomicU64,
    count: AtomicU32,
    /// 0 if the barrier belongs to this process.
    shared: AtomicU32,
    /// The number of rounds that are opened.
    opened: AtomicU32,
    /// The threads in `pthread_barrier_wait`, and the flag below.
    users: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Words>() <= size_of::<pthread_barrier_t>());

/// A thread waits in `pthread_barrier_destroy`.
const DESTROYED: u32 = 1 << 31;

/// Returns the words, if the barrier is not glibc's whole.
///
/// # Safety
/// The barrier is one, and is used only as long as it is.
unsafe fn ours<'b>(barrier: *mut pthread_barrier_t) -> Option<&'b Words> {
    // SAFETY: a barrier has 32 bytes, which change by atomic operations only.
    let words = unsafe { &*barrier.cast::<Words>() };
    (are_ours() && words.shared.load(SeqCst) == 0).then_some(words)
}

/// libc's `pthread_barrier_init`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn init_barrier(
    barrier: *mut pthread_barrier_t,
    attributes: *const pthread_barrierattr_t,
    count: c_uint,
) -> c_int {
    // SAFETY: the caller's arguments.
    let result = unsafe { pthread_barrier_init()(barrier, attributes, count) };
    if result == 0 {
        // SAFETY: glibc has made a barrier, with zeroes in the words that it has a use for.
        if let Some(words) = unsafe { ours(barrier) } {
            words.users.store(0, SeqCst);
        }
    }
    result
}

/// libc's `pthread_barrier_wait`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn wait_barrier(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller's barrier.
    let Some(words) = (unsafe { ours(barrier) }) else {
        // SAFETY: as above.
        return unsafe { pthread_barrier_wait()(barrier) };
    };
    words.users.fetch_add(1, SeqCst);
    let is_last = words.arrive();
    let address = words.users.as_ptr().expose_provenance();
    if words.users.fetch_sub(1, SeqCst) == DESTROYED | 1 {
        // The destroyer may have seen that, and freed the bytes: only the address is used.
        futex::wake_at(address, c_int::MAX);
    }
    if broken!("barrier_is_used_uncounted") {
        words.users.load(SeqCst);
    }
    if is_last { libc::PTHREAD_BARRIER_SERIAL_THREAD } else { 0 }
}

/// libc's `pthread_barrier_destroy`: waits for the threads that have been let go.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn destroy_barrier(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller's barrier.
    let Some(words) = (unsafe { ours(barrier) }) else {
        // SAFETY: as above.
        return unsafe { pthread_barrier_destroy()(barrier) };
    };
    let mut users = words.users.fetch_or(DESTROYED, SeqCst) | DESTROYED;
    while users != DESTROYED && !broken!("barrier_goes_under_its_users") {
        futex::wait_while(&words.users, users, clock::NEVER);
        users = words.users.load(SeqCst);
    }
    0
}

impl Words {
    /// Waits until the round of the caller is full. Returns `true` if the caller has made it full.
    fn arrive(&self) -> bool {
        let count = self.count.load(SeqCst);
        let next = |word: u64| {
            let (arrivals, round) = split(word);
            Some(if arrivals + 1 == count { join(0, round.wrapping_add(1)) } else { word + 1 })
        };
        let before = self.arrivals.fetch_update(SeqCst, SeqCst, next);
        let (arrivals, mut round) = split(before.unwrap_or_else(|word| word));
        if arrivals + 1 == count {
            if !broken!("barrier_wakes_before_it_opens") {
                self.opened.fetch_add(1, SeqCst);
            }
            futex::wake_at(self.opened.as_ptr().expose_provenance(), c_int::MAX);
            if broken!("barrier_wakes_before_it_opens") {
                self.opened.fetch_add(1, SeqCst);
            }
            return true;
        }
        if broken!("barrier_reads_the_round_late") {
            round = self.opened.load(SeqCst);
        }
        loop {
            let opened = self.opened.load(SeqCst);
            // The numbers start again at 0.
            if opened.wrapping_sub(round).cast_signed() > 0 {
                return false;
            }
            futex::wait_while(&self.opened, opened, clock::NEVER);
        }
    }
}

fn split(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

fn join(arrivals: u32, round: u32) -> u64 {
    u64::from(round) << 32 | u64::from(arrivals)
}

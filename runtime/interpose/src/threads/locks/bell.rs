//! The bell: by it a signal handler wakes the green threads that wait for a semaphore.
//!
//! The handler cannot wake them itself, because the thread that it interrupts may have a lock of the table.
//! So an OS thread of the runtime's does. It starts at the first wait of a green thread for a semaphore.
//!
//! ```text
//!   the waiter                      the handler                        the thread of the bell
//!   note the semaphore
//!   count itself in it              raise the value                    read the number of rings
//!   the value is 0: park            any counted? the rings + 1,        each semaphore that is noted and
//!                                     wake the thread of the bell        has a value: wake as many
//!                                                                      wait while the number is what it was
//! ```
//!
//! - *No ring is lost.* The number of rings is read before the semaphores are looked at.
//! - *A semaphore that is noted exists*, because its waiter has not returned. The thread of the bell reads it
//!   under the lock of the notes, and uses the address alone afterwards.
//! - *The value may be another waiter's* before the woken one comes, which then waits again.
//!
//! Rejected: *the handler leaves the addresses in an array*. The array may be full. *A hook of `sigaction`
//! that notes where a handler begins and ends*: handlers are installed by other ways, too.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::c_int;
use std::ptr;
use std::sync::OnceLock;
use std::thread::Builder;

use sched::starting;
use sched::sync::Mutex;
use timers::clock;

use crate::futex;
use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use crate::sync::{broken, statics};

#[cfg(all(test, loom))]
pub(super) mod models;

statics! {
    /// The green threads that wait for a semaphore, or are about to.
    static LISTENERS: AtomicUsize = AtomicUsize::new(0);
    /// How often the bell was rung.
    static RINGS: AtomicU32 = AtomicU32::new(0);
    /// The number of waiters by the address of the value that they wait for.
    static NOTES: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());
}

/// Returns `true` if a green thread may wait for a semaphore.
#[inline]
pub(super) fn has_listeners() -> bool {
    // SeqCst: the partner is `Listener::begin`, before the waiter counts itself in its semaphore.
    LISTENERS.load(SeqCst) > 0
}

/// Lets the thread of the bell wake the waiters for each semaphore that has a value. *Runs on: any thread,
/// also in a signal handler.*
pub(super) fn ring() {
    if has_listeners() {
        RINGS.fetch_add(1, SeqCst);
        futex::wake_in_kernel(RINGS.as_ptr().expose_provenance(), 1);
    }
}

/// A waiter that the bell can wake.
pub(super) struct Listener {
    address: usize,
}

impl Listener {
    /// Notes a waiter for `value`. Returns `None` if there is no thread of the bell.
    ///
    /// # Safety
    /// `value` exists until the listener is dropped.
    pub(super) unsafe fn begin(value: &AtomicU32) -> Option<Listener> {
        if !has_thread() {
            return None;
        }
        let address = value.as_ptr().expose_provenance();
        LISTENERS.fetch_add(1, SeqCst);
        *NOTES.lock().entry(address).or_default() += 1;
        Some(Listener { address })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut notes = NOTES.lock();
        if let Entry::Occupied(mut waiters) = notes.entry(self.address) {
            *waiters.get_mut() -= 1;
            if *waiters.get() == 0 {
                waiters.remove();
            }
        }
        drop(notes);
        LISTENERS.fetch_sub(1, SeqCst);
    }
}

/// Returns `true` if the thread of the bell runs. The first call starts it.
fn has_thread() -> bool {
    static STARTED: OnceLock<bool> = OnceLock::new();
    *STARTED.get_or_init(|| {
        starting::start(Builder::new().name("semaphores".into()), || answer(|| false)).is_ok()
    })
}

/// Answers rings until `is_over`, which is never so outside of models. *Runs on: the thread of the bell.*
fn answer(is_over: impl Fn() -> bool) {
    let mut raised = Vec::new();
    loop {
        let mut rings = RINGS.load(SeqCst);
        find_raised(&mut raised);
        if broken!("bell_reads_the_rings_late") {
            rings = RINGS.load(SeqCst);
        }
        for (address, value) in raised.drain(..) {
            futex::wake_at(address, c_int::try_from(value).unwrap_or(c_int::MAX));
        }
        if is_over() {
            return;
        }
        futex::wait_while(&RINGS, rings, clock::NEVER);
    }
}

/// Appends the semaphores that have a value, and their values.
fn find_raised(raised: &mut Vec<(usize, u32)>) {
    let notes = NOTES.lock();
    if broken!("bell_looks_without_the_lock") {
        let copy = notes.clone();
        drop(notes);
        return look_at(&copy, raised);
    }
    look_at(&notes, raised);
}

/// As `find_raised`. *Runs on: the holder of the lock of the notes.*
fn look_at(notes: &BTreeMap<usize, usize>, raised: &mut Vec<(usize, u32)>) {
    for &address in notes.keys() {
        // SAFETY: the value exists as long as it is noted, which the lock keeps so. It changes by atomic
        // operations only.
        let value = unsafe { AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(address)).load(SeqCst) };
        if value > 0 {
            raised.push((address, value));
        }
    }
}

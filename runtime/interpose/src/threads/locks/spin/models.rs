//! Models of the spin locks, with a stand-in of glibc's attempt.

use std::ffi::c_int;
use std::sync::Arc;

use libc::pthread_spinlock_t;
use loom::thread;

use super::spin_lock;
use crate::models::helpers::{Guarded, Reached, explore};
use crate::models::waits::{Kind, be};
use crate::sync::atomic::{AtomicU32, Ordering};

/// Returns the stand-in of glibc's function `name`.
pub(in super::super) fn glibc(name: &str) -> Option<*const ()> {
    Some(match name {
        "pthread_spin_trylock" => try_lock as *const (),
        "pthread_spin_lock" => spin as *const (),
        _ => return None,
    })
}

/// The values of a lock.
const FREE: u32 = 1;
const TAKEN: u32 = 0;

unsafe fn word<'w>(lock: *mut pthread_spinlock_t) -> &'w AtomicU32 {
    // SAFETY: locks of models are these words.
    unsafe { &*lock.cast_const().cast() }
}

unsafe extern "C" fn try_lock(lock: *mut pthread_spinlock_t) -> c_int {
    // Acquire: pairs with the Release of the unlock.
    // SAFETY: the caller's lock.
    let before = unsafe { word(lock) }.swap(TAKEN, Ordering::Acquire);
    if before == FREE { 0 } else { libc::EBUSY }
}

/// glibc's whole function: an OS thread spins.
unsafe extern "C" fn spin(lock: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: the caller's lock.
    while unsafe { try_lock(lock) } != 0 {
        thread::yield_now();
    }
    0
}

/// A lock, and what it guards.
struct Modelled {
    word: AtomicU32,
    guarded: Guarded,
}

impl Modelled {
    /// Adds 1 under the lock. Returns the sum.
    fn add(&self) -> usize {
        // SAFETY: the lock is one, and lives.
        assert_eq!(unsafe { spin_lock((&raw const self.word).cast_mut().cast()) }, 0);
        self.guarded.add();
        let sum = self.guarded.get();
        // Release: pairs with the Acquire of the next attempt.
        self.word.swap(FREE, Ordering::Release);
        sum
    }
}

/// A green thread, with another one or an OS thread: one at a time has the lock, and one that spins lets its
/// holder run.
#[test]
fn one_thread_has_the_lock() {
    static FIRST: Reached = Reached::new();
    static LAST: Reached = Reached::new();
    for kind in [Kind::Green, Kind::Os] {
        explore(2, move || {
            let lock = Arc::new(Modelled { word: AtomicU32::new(FREE), guarded: Guarded::default() });
            let others = lock.clone();
            let other = thread::spawn(move || {
                be(kind);
                others.add()
            });
            let sums = (lock.add(), other.join().unwrap());
            assert!(sums == (1, 2) || sums == (2, 1));
            FIRST.note(sums.0 == 1);
            LAST.note(sums.0 == 2);
        });
    }
    FIRST.assert();
    LAST.assert();
}

//! Models of the mutexes, with a stand-in of glibc's functions for those of the plain kind.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use libc::pthread_mutex_t;
use loom::thread;

use super::{Words, clock, lock, lock_or, unlock};
use crate::futex;
use crate::models::helpers::{Guarded, Reached, explore, explore_lives};
use crate::models::waits::{Kind, be};
use crate::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Returns the stand-in of glibc's function `name`.
pub(in super::super) fn glibc(name: &str) -> Option<*const ()> {
    Some(match name {
        "pthread_mutex_trylock" => try_lock as *const (),
        "pthread_mutex_lock" => lock_whole as *const (),
        "pthread_mutex_unlock" => unlock_word as *const (),
        _ => return None,
    })
}

unsafe fn words<'w>(mutex: *mut pthread_mutex_t) -> &'w Words {
    // SAFETY: mutexes of models are these words.
    unsafe { &*mutex.cast::<Words>() }
}

/// SeqCst, here and below: glibc's instructions are locked on x86-64.
unsafe extern "C" fn try_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's mutex.
    let taken = unsafe { words(mutex) }.lock.compare_exchange(0, 1, SeqCst, SeqCst);
    if taken.is_ok() { 0 } else { libc::EBUSY }
}

unsafe extern "C" fn lock_whole(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's mutex.
    unsafe {
        if try_lock(mutex) != 0 {
            while words(mutex).lock.swap(2, SeqCst) != 0 {
                futex::wait_while(&words(mutex).lock, 2, clock::NEVER);
            }
        }
    }
    0
}

unsafe extern "C" fn unlock_word(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's mutex.
    let lock = unsafe { &words(mutex).lock };
    let address = lock.as_ptr().expose_provenance();
    if lock.swap(0, SeqCst) == 2 {
        futex::wake_in_kernel(address, 1);
    }
    0
}

/// A mutex, and what it guards.
#[derive(Default)]
pub(in super::super) struct Modelled {
    words: Words,
    pub(in super::super) guarded: Guarded,
}

impl Default for Words {
    fn default() -> Words {
        let [lock, count, owner, users, kind] = [(); 5].map(|()| AtomicU32::new(0));
        Words { lock, count, owner, users, kind }
    }
}

impl Modelled {
    pub(in super::super) fn pointer(&self) -> *mut pthread_mutex_t {
        ptr::from_ref(&self.words).cast_mut().cast()
    }

    pub(in super::super) fn lock(&self) {
        // SAFETY: the mutex is one, and lives.
        assert_eq!(unsafe { lock(self.pointer()) }, 0);
    }

    /// Takes the lock, or returns `false` if the time, which is always up, lets it not.
    fn lock_in_time(&self) -> bool {
        // SAFETY: as above.
        match unsafe { lock_or(self.pointer(), || clock::NOW, || unreachable!("a green thread parks")) } {
            0 => true,
            result => {
                assert_eq!(result, libc::ETIMEDOUT);
                false
            }
        }
    }

    pub(in super::super) fn unlock(&self) {
        // SAFETY: as above, and the caller has the lock.
        assert_eq!(unsafe { unlock(self.pointer()) }, 0);
    }

    /// Takes the lock once.
    fn visit(&self) {
        self.lock();
        self.guarded.add();
        self.unlock();
    }

    /// Frees the mutex.
    pub(in super::super) fn go(&self) {
        self.words.lock.go();
        self.words.kind.go();
    }
}

/// Green threads exclude each other, and none waits for ever.
#[test]
fn green_threads_exclude_each_other() {
    explore(2, || {
        let mutex = Arc::<Modelled>::default();
        let others = [(); 2].map(|()| {
            let mutex = mutex.clone();
            thread::spawn(move || mutex.visit())
        });
        mutex.visit();
        for other in others {
            other.join().unwrap();
        }
        mutex.lock();
        assert_eq!(mutex.guarded.get(), 3);
    });
}

/// A green thread and an OS thread wait for one holder: neither takes the other's wake-up.
#[test]
fn a_green_thread_and_an_os_thread_wait() {
    explore(3, || {
        let mutex = Arc::<Modelled>::default();
        mutex.lock();
        let others = [Kind::Green, Kind::Os].map(|kind| {
            let mutex = mutex.clone();
            thread::spawn(move || {
                be(kind);
                mutex.visit();
            })
        });
        mutex.guarded.add();
        mutex.unlock();
        for other in others {
            other.join().unwrap();
        }
        mutex.lock();
        assert_eq!(mutex.guarded.get(), 3);
    });
}

/// A waiter that times out takes no wake-up with it: the other one gets the lock.
#[test]
fn a_waiter_without_time_takes_no_wake_up() {
    static TIMED_OUT: Reached = Reached::new();
    static IN_TIME: Reached = Reached::new();
    explore(3, || {
        let mutex = Arc::<Modelled>::default();
        mutex.lock();
        let [hasty, patient] = [mutex.clone(), mutex.clone()];
        let hasty = thread::spawn(move || {
            let has_it = hasty.lock_in_time();
            if has_it {
                hasty.guarded.add();
                hasty.unlock();
            }
            TIMED_OUT.note(!has_it);
            IN_TIME.note(has_it);
        });
        let patient = thread::spawn(move || patient.visit());
        mutex.unlock();
        hasty.join().unwrap();
        patient.join().unwrap();
    });
    TIMED_OUT.assert();
    IN_TIME.assert();
}

/// The last user of a mutex frees it as soon as it has had the lock: the unlock of before uses it no more.
#[test]
fn a_mutex_may_go_once_it_is_unlocked() {
    explore_lives(3, || {
        let mutex = Arc::<Modelled>::default();
        mutex.lock();
        let last = mutex.clone();
        let last = thread::spawn(move || {
            last.visit();
            last.go();
        });
        mutex.unlock();
        last.join().unwrap();
    });
}

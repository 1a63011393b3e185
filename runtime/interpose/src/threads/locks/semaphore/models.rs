//! Models of the semaphores and of the bell, with a stand-in of glibc's wait.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use libc::sem_t;
use loom::thread;

use super::super::bell::models::Bell;
use super::{WAITER, Words, clock, post, take_or, wait_semaphore};
use crate::futex;
use crate::models::helpers::{Reached, explore, explore_lives};
use crate::models::waits::{Kind, be};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use crate::threads::record::models::Thread;

/// Returns the stand-in of glibc's function `name`.
pub(in super::super) fn glibc(name: &str) -> Option<*const ()> {
    (name == "sem_wait").then_some(wait_whole as *const ())
}

/// The wait of an OS thread: it counts itself, as glibc's does.
unsafe extern "C" fn wait_whole(semaphore: *mut sem_t) -> c_int {
    // SAFETY: semaphores of models are these words.
    let words = unsafe { &*semaphore.cast::<Words>() };
    words.data.fetch_add(WAITER, SeqCst);
    while !words.take(WAITER) {
        futex::wait_while(words.value(), 0, clock::NEVER);
    }
    0
}

impl Words {
    fn new() -> Arc<Words> {
        Arc::new(Words { data: AtomicU64::new(0), shared: AtomicU32::new(0) })
    }

    fn pointer(&self) -> *mut sem_t {
        ptr::from_ref(self).cast_mut().cast()
    }

    fn wait(&self) {
        // SAFETY: the semaphore is one, and lives.
        assert_eq!(unsafe { wait_semaphore(self.pointer()) }, 0);
    }

    /// Takes 1 of the value, or returns `false` if the time, which is always up, lets it not.
    fn wait_in_time(&self) -> bool {
        // SAFETY: as above.
        unsafe { take_or(self.pointer(), || clock::NOW, || unreachable!("a green thread parks")) == 0 }
    }

    fn post(&self) {
        // SAFETY: as above.
        assert_eq!(unsafe { post(self.pointer()) }, 0);
    }

    /// Frees the semaphore.
    fn go(&self) {
        self.data.go();
        self.shared.go();
    }
}

/// A green thread and an OS thread wait, and each gets one of two posts.
#[test]
fn each_post_lets_a_waiter_go_on() {
    explore(2, || {
        let words = Words::new();
        let waiters = [Kind::Green, Kind::Os].map(|kind| {
            let words = words.clone();
            thread::spawn(move || {
                be(kind);
                words.wait();
            })
        });
        words.post();
        words.post();
        for waiter in waiters {
            waiter.join().unwrap();
        }
        assert_eq!(words.data.load(SeqCst), 0, "no value and no waiter is left");
    });
}

/// A signal handler posts, and the bell wakes a green thread.
#[test]
fn a_handler_lets_a_green_thread_go_on() {
    explore(3, || {
        let words = Words::new();
        let bell = Bell::start();
        let waiter = words.clone();
        let waiter = thread::spawn(move || waiter.wait());
        be(Kind::Handler);
        words.post();
        waiter.join().unwrap();
        bell.stop();
    });
}

/// A waiter that times out takes no value, or all of its post.
#[test]
fn a_waiter_without_time_takes_no_wake_up() {
    static TIMED_OUT: Reached = Reached::new();
    static IN_TIME: Reached = Reached::new();
    explore(2, || {
        let words = Words::new();
        let [hasty, patient] = [words.clone(), words.clone()];
        let hasty = thread::spawn(move || {
            let has_it = hasty.wait_in_time();
            if has_it {
                hasty.post();
            }
            TIMED_OUT.note(!has_it);
            IN_TIME.note(has_it);
        });
        let patient = thread::spawn(move || patient.wait());
        words.post();
        hasty.join().unwrap();
        patient.join().unwrap();
        assert_eq!(words.data.load(SeqCst), 0);
    });
    TIMED_OUT.assert();
    IN_TIME.assert();
}

/// A waiter that is cancelled takes no wake-up with it: the other one gets the value.
#[test]
fn a_cancelled_waiter_takes_no_wake_up() {
    static CANCELLED: Reached = Reached::new();
    static DONE: Reached = Reached::new();
    explore(3, || {
        let words = Words::new();
        let thread = Thread::new();
        let [cancelled, patient] = [words.clone(), words.clone()];
        let its = thread.clone();
        let cancelled = thread::spawn(move || {
            let has_it = its.run(|| cancelled.wait()).is_some();
            if has_it {
                cancelled.post();
            }
            CANCELLED.note(!has_it);
            DONE.note(has_it);
        });
        let patient = thread::spawn(move || patient.wait());
        words.post();
        thread.cancel();
        cancelled.join().unwrap();
        patient.join().unwrap();
        assert_eq!(words.data.load(SeqCst), 0);
    });
    CANCELLED.assert();
    DONE.assert();
}

/// The waiter frees the semaphore as soon as it has got its value: the poster uses it no more.
#[test]
fn a_semaphore_may_go_once_it_is_raised() {
    for kind in [Kind::Green, Kind::Os] {
        explore_lives(3, move || {
            let words = Words::new();
            let waiter = words.clone();
            let waiter = thread::spawn(move || {
                be(kind);
                waiter.wait();
                waiter.go();
            });
            words.post();
            waiter.join().unwrap();
        });
    }
}

/// As before, and a signal handler posts: the thread of the bell uses the semaphore no more, either.
#[test]
fn the_bell_uses_no_semaphore_that_is_gone() {
    explore_lives(3, || {
        let words = Words::new();
        let bell = Bell::start();
        let waiter = words.clone();
        let waiter = thread::spawn(move || {
            waiter.wait();
            waiter.go();
        });
        be(Kind::Handler);
        words.post();
        waiter.join().unwrap();
        bell.stop();
    });
}

//! Models of the condition variables, with the mutexes that ship.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use libc::pthread_cond_t;
use loom::thread;

use super::super::mutex::models::Modelled;
use super::{Words, broadcast, clock, destroy, signal, wait_until};
use crate::models::helpers::{Reached, explore, explore_lives};
use crate::models::waits::{Kind, be};
use crate::sync::atomic::{AtomicU32, Ordering::SeqCst};
use crate::threads::record::models::Thread;

/// A condition variable and its mutex, which guards a number.
struct World {
    words: Words,
    mutex: Modelled,
}

impl World {
    fn new() -> Arc<World> {
        let words = || AtomicU32::new(0);
        let words = Words { signals: words(), rest: [(); 8].map(|()| words()), waiters: words() };
        Arc::new(World { words, mutex: Modelled::default() })
    }

    fn condition(&self) -> *mut pthread_cond_t {
        ptr::from_ref(&self.words).cast_mut().cast()
    }

    /// Waits until the guarded number is at least `number`.
    fn await_number(&self, number: usize) {
        self.mutex.lock();
        while self.mutex.guarded.get() < number {
            assert_eq!(self.wait(clock::NEVER), 0);
        }
        self.mutex.unlock();
    }

    /// Waits once. *Runs on: a thread with the mutex.*
    fn wait(&self, until: u64) -> c_int {
        // SAFETY: the caller has the mutex.
        unsafe { wait_until(&self.words, self.mutex.pointer(), until) }
    }

    /// Adds 1 to the number.
    fn add(&self) {
        self.mutex.lock();
        self.mutex.guarded.add();
        self.mutex.unlock();
    }

    fn signal(&self) {
        // SAFETY: the condition variable is one, and lives.
        assert_eq!(unsafe { signal(self.condition()) }, 0);
    }

    fn broadcast(&self) {
        // SAFETY: as above.
        assert_eq!(unsafe { broadcast(self.condition()) }, 0);
    }

    /// Destroys the condition variable, and frees it.
    fn destroy(&self) {
        // SAFETY: as above; no thread begins a wait.
        assert_eq!(unsafe { destroy(self.condition()) }, 0);
        self.words.signals.go();
        self.words.waiters.go();
    }
}

/// A signal after the unlock reaches the waiter, which is before, in or after its own unlock.
#[test]
fn a_signal_is_not_lost() {
    for kind in [Kind::Green, Kind::Os] {
        explore(3, move || {
            let world = World::new();
            let waiter = world.clone();
            let waiter = thread::spawn(move || {
                be(kind);
                waiter.await_number(1);
            });
            world.add();
            world.signal();
            waiter.join().unwrap();
        });
    }
}

/// A broadcast reaches a green thread and an OS thread.
#[test]
fn a_broadcast_reaches_all() {
    explore(2, || {
        let world = World::new();
        let waiters = [Kind::Green, Kind::Os].map(|kind| {
            let waiter = world.clone();
            thread::spawn(move || {
                be(kind);
                waiter.await_number(1);
            })
        });
        world.add();
        world.broadcast();
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

/// Two numbers, two signals and two waiters, of which each takes a number.
#[test]
fn each_signal_wakes_a_waiter() {
    explore(2, || {
        let world = World::new();
        let taken = Arc::new(AtomicU32::new(0));
        let waiters = [(); 2].map(|()| {
            let (world, taken) = (world.clone(), taken.clone());
            thread::spawn(move || {
                world.mutex.lock();
                while world.mutex.guarded.get() == taken.load(SeqCst) as usize {
                    world.wait(clock::NEVER);
                }
                taken.fetch_add(1, SeqCst);
                world.mutex.unlock();
            })
        });
        for _ in 0..2 {
            world.add();
            world.signal();
        }
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

/// A waiter that times out has the mutex again, and takes no signal of another one.
#[test]
fn a_waiter_without_time_takes_no_signal() {
    static TIMED_OUT: Reached = Reached::new();
    static WOKEN: Reached = Reached::new();
    explore(2, || {
        let world = World::new();
        let [hasty, patient] = [world.clone(), world.clone()];
        let hasty = thread::spawn(move || {
            hasty.mutex.lock();
            let result = if hasty.mutex.guarded.get() == 0 { Some(hasty.wait(clock::NOW)) } else { None };
            // A signal that this one has got is for the other one, too.
            hasty.mutex.unlock();
            if result == Some(0) {
                hasty.signal();
            }
            TIMED_OUT.note(result == Some(libc::ETIMEDOUT));
            WOKEN.note(result == Some(0));
        });
        let patient = thread::spawn(move || patient.await_number(1));
        world.add();
        world.signal();
        hasty.join().unwrap();
        patient.join().unwrap();
    });
    TIMED_OUT.assert();
    WOKEN.assert();
}

/// A waiter that is cancelled takes no signal with it: the other one gets it.
#[test]
fn a_cancelled_waiter_takes_no_signal() {
    static CANCELLED: Reached = Reached::new();
    static DONE: Reached = Reached::new();
    explore(2, || {
        let world = World::new();
        let thread = Thread::new();
        let [cancelled, patient] = [world.clone(), world.clone()];
        let its = thread.clone();
        let cancelled = thread::spawn(move || {
            let is_done = its.run(|| cancelled.await_number(1)).is_some();
            if is_done {
                cancelled.signal();
            } else {
                // The handlers of a cancelled thread run with the mutex.
                cancelled.mutex.guarded.get();
                cancelled.mutex.unlock();
            }
            CANCELLED.note(!is_done);
            DONE.note(is_done);
        });
        let patient = thread::spawn(move || patient.await_number(1));
        world.add();
        world.signal();
        thread.cancel();
        cancelled.join().unwrap();
        patient.join().unwrap();
    });
    CANCELLED.assert();
    DONE.assert();
}

/// The thread that has woken the last waiter destroys the condition variable, and frees it.
#[test]
fn a_condition_variable_may_go_after_its_broadcast() {
    static WAITED: Reached = Reached::new();
    explore_lives(3, || {
        let world = World::new();
        let waiter = world.clone();
        let waiter = thread::spawn(move || {
            waiter.mutex.lock();
            if waiter.mutex.guarded.get() == 0 {
                waiter.mutex.guarded.add();
                // No wait ends without a wake-up here.
                assert_eq!(waiter.wait(clock::NEVER), 0);
                WAITED.note(true);
            }
            waiter.mutex.unlock();
        });
        world.mutex.lock();
        world.mutex.guarded.add();
        world.broadcast();
        world.mutex.unlock();
        world.destroy();
        waiter.join().unwrap();
    });
    WAITED.assert();
}

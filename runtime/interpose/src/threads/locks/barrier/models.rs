//! Models of the barriers.

use std::ptr;
use std::sync::Arc;

use libc::pthread_barrier_t;
use loom::thread;

use super::{Words, destroy_barrier, wait_barrier};
use crate::models::helpers::{Guarded, Reached, explore, explore_lives};
use crate::models::waits::{Kind, be};
use crate::sync::atomic::{AtomicU32, AtomicU64};

/// A barrier, and what it keeps apart: by turns one thread writes alone, and all read.
struct World {
    words: Words,
    kept: Guarded,
}

impl World {
    fn new(count: u32) -> Arc<World> {
        let [shared, opened, users] = [(); 3].map(|()| AtomicU32::new(0));
        let words =
            Words { arrivals: AtomicU64::new(0), count: AtomicU32::new(count), shared, opened, users };
        Arc::new(World { words, kept: Guarded::default() })
    }

    fn barrier(&self) -> *mut pthread_barrier_t {
        ptr::from_ref(&self.words).cast_mut().cast()
    }

    /// Waits, and returns `true` in one thread of the round.
    fn wait(&self) -> bool {
        // SAFETY: the barrier is one, and lives.
        match unsafe { wait_barrier(self.barrier()) } {
            0 => false,
            result => {
                assert_eq!(result, libc::PTHREAD_BARRIER_SERIAL_THREAD);
                true
            }
        }
    }

    /// Destroys the barrier, and frees it.
    fn destroy(&self) {
        // SAFETY: as above; no thread begins a wait.
        assert_eq!(unsafe { destroy_barrier(self.barrier()) }, 0);
        self.words.arrivals.go();
        self.words.opened.go();
        self.words.users.go();
    }
}

/// Three threads, of which one is an OS thread: all go on, one of them is the last, and what was before the
/// barrier is seen after it.
#[test]
fn all_go_on_together() {
    explore(2, || {
        let world = World::new(3);
        let others = [Kind::Green, Kind::Os].map(|kind| {
            let world = world.clone();
            thread::spawn(move || {
                be(kind);
                let is_last = world.wait();
                assert_eq!(world.kept.get(), 1);
                is_last
            })
        });
        world.kept.add();
        let mut last = u32::from(world.wait());
        for other in others {
            last += u32::from(other.join().unwrap());
        }
        assert_eq!(last, 1);
    });
}

/// Three rounds of two threads, which write by turns: a thread of one round does not pass the next.
#[test]
fn rounds_do_not_mix() {
    static BOTH: [Reached; 2] = [Reached::new(), Reached::new()];
    explore(3, || {
        let world = World::new(2);
        let other = world.clone();
        let other = thread::spawn(move || {
            other.kept.add();
            other.wait();
            assert_eq!(other.kept.get(), 1);
            other.wait();
            other.wait();
            assert_eq!(other.kept.get(), 2);
        });
        let is_last = world.wait();
        assert_eq!(world.kept.get(), 1);
        world.wait();
        world.kept.add();
        world.wait();
        assert_eq!(world.kept.get(), 2);
        other.join().unwrap();
        BOTH[usize::from(is_last)].note(true);
    });
    BOTH.iter().for_each(Reached::assert);
}

/// A thread that has passed the barrier destroys it and frees it, while others still leave it.
#[test]
fn a_barrier_may_go_once_it_is_passed() {
    static BOTH: [Reached; 2] = [Reached::new(), Reached::new()];
    explore_lives(3, || {
        let world = World::new(2);
        let other = world.clone();
        let other = thread::spawn(move || other.wait());
        let is_last = world.wait();
        world.destroy();
        assert_ne!(other.join().unwrap(), is_last);
        BOTH[usize::from(is_last)].note(true);
    });
    BOTH.iter().for_each(Reached::assert);
}

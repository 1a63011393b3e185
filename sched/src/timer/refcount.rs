//! Reference counts of a thing with two parts. Users keep its contents and its memory; owners keep its memory
//! only.
//!
//! ```text
//!   a user leaves                                an owner leaves
//!   users - 1: was it the last?                  owners - 1: was it the last?
//!     drop the contents                            free the memory
//!     give up the users' share of the memory
//! ```
//!
//! All users together count as one owner.
//!
//! Contents that were dropped do not come back. So an owner may become a user only while another user is
//! certain to exist. For the function of a timer, the state of the timer makes that certain:
//!
//! ```text
//!   the holder of the heap's lock takes the timer   the handle is dropped
//!   timer -> Running                                stop the timer: wait while it is Running
//!   users + 1, for the run                          leave, as a user
//!   Running -> NoStatus
//! ```
//!
//! A timer that is taken was not stopped. So its handle has not left, and cannot leave before the new user is
//! counted.

use crate::sync::{
    atomic::{AtomicUsize, Ordering},
    broken,
};

/// The two counts. The file's head explains their protocol.
#[derive(Debug)]
pub(crate) struct Keepers {
    users: AtomicUsize,
    /// The users together count as one.
    owners: AtomicUsize,
}

impl Keepers {
    /// Starts with one user, and `others` owners beside the users.
    pub(crate) fn new(others: usize) -> Self {
        Keepers { users: AtomicUsize::new(1), owners: AtomicUsize::new(1 + others) }
    }

    /// Adds an owner. *Runs on: an owner.*
    pub(crate) fn retain(&self) {
        // Relaxed: the caller's own count keeps the memory alive.
        self.owners.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes an owner. Returns `true` if it was the last: the caller must free the memory.
    #[must_use]
    pub(crate) fn release(&self) -> bool {
        // Release: what this owner did comes before the end. Acquire: the last owner sees all of it. The two
        // pair with each other. An owner that finds itself alone stays alone, and so needs no exchange.
        let (look, end) = match broken!("keepers_release_relaxed") {
            true => (Ordering::Relaxed, Ordering::Relaxed),
            false => (Ordering::Acquire, Ordering::AcqRel),
        };
        self.owners.load(look) == 1 || self.owners.fetch_sub(1, end) == 1
    }

    /// Adds a user. *Runs on: an owner, while another user is certain to exist.*
    pub(crate) fn join(&self) {
        // Relaxed: the caller holds a reference that keeps another user alive. That reference orders this
        // increment before that user's decrement.
        let users = self.users.fetch_add(1, Ordering::Relaxed);
        debug_assert!(users > 0, "the contents are gone");
    }

    /// Removes a user. Returns `true` if it was the last: the caller must drop the contents and then
    /// `release` the users' share.
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        // Release: what this user did comes before the end. Acquire: the last user sees all of it. The two
        // pair with each other. A user that finds itself alone stays alone: an owner joins only while there
        // is another user, and the handle, which is that user, has stopped the timer before it leaves.
        let (look, end) = match broken!("keepers_leave_relaxed") {
            true => (Ordering::Relaxed, Ordering::Relaxed),
            false => (Ordering::Acquire, Ordering::AcqRel),
        };
        self.users.load(look) == 1 || self.users.fetch_sub(1, end) == 1
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::Keepers;
    use crate::sync::broken;
    use crate::sync::models::{Turns, explore};
    use loom::{cell::UnsafeCell, sync::Arc, thread};
    use timers::{Handle, Heaps, Timer};

    struct Thing {
        timer: Timer,
        keepers: Keepers,
        contents: UnsafeCell<bool>,
        room: UnsafeCell<bool>,
        /// How often a run used the contents.
        runs: std::sync::atomic::AtomicUsize,
    }

    impl Thing {
        fn new() -> Arc<Thing> {
            Arc::new(Thing {
                timer: Timer::new(),
                // One other owner: the entry in the heap.
                keepers: Keepers::new(1),
                contents: UnsafeCell::new(true),
                room: UnsafeCell::new(true),
                runs: std::sync::atomic::AtomicUsize::new(0),
            })
        }

        fn leave(&self) {
            // SAFETY: a user may read the contents; loom checks that no thread writes.
            self.contents.with(|contents| {
                assert!(unsafe { *contents }, "the contents were used after they were dropped")
            });
            if self.keepers.leave() {
                // SAFETY: the last user has the contents alone; loom checks that.
                self.contents.with_mut(|contents| unsafe { *contents = false });
                self.release();
            }
        }

        fn release(&self) {
            // SAFETY: an owner may read the memory; loom checks that no thread writes.
            self.room.with(|room| assert!(unsafe { *room }, "the memory was used after it was freed"));
            if self.keepers.release() {
                // SAFETY: the last owner has the memory alone; loom checks that.
                self.room.with_mut(|room| assert!(std::mem::replace(unsafe { &mut *room }, false)));
            }
        }

        fn is_gone(&self) -> bool {
            // SAFETY: all threads have ended; loom checks that.
            !self.contents.with(|contents| unsafe { *contents }) && !self.room.with(|room| unsafe { *room })
        }
    }

    /// An entry in a heap, which is an owner.
    struct Entry(Arc<Thing>);

    impl Clone for Entry {
        fn clone(&self) -> Self {
            self.0.keepers.retain();
            Entry(self.0.clone())
        }
    }

    impl Drop for Entry {
        fn drop(&mut self) {
            self.0.release();
        }
    }

    impl Handle for Entry {
        fn timer(&self) -> &Timer {
            &self.0.timer
        }

        fn taken(&self) {
            if !broken!("keepers_join_when_fired") {
                self.0.keepers.join();
            }
        }
    }

    /// Does what an M does with a timer that fires: runs the function, and leaves as a user.
    fn fire(entry: Entry) {
        if broken!("keepers_join_when_fired") {
            entry.0.keepers.join();
        }
        entry.0.runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        entry.0.leave();
    }

    /// The handle stops the timer and leaves while two threads look for due timers. The timer was stopped or
    /// the function runs. The contents are dropped once and the memory is freed once.
    #[test]
    fn stopped_or_run_then_dropped_once_and_freed_once() {
        explore(2, || {
            let heaps = Arc::new(Heaps::new(1));
            heaps.open(0);
            let turns = Arc::new(Turns::default());
            let thing = Thing::new();
            heaps.add(0, Entry(thing.clone()), 10, 0, 0);
            let checking = [true, false].map(|own| {
                let (heaps, turns) = (heaps.clone(), turns.clone());
                thread::spawn(move || {
                    turns.take();
                    heaps.check(0, 10, own, &mut |entry, _, _| fire(entry));
                })
            });
            turns.take();
            let stopped = heaps.delete(&thing.timer);
            thing.leave();
            checking.into_iter().for_each(|check| check.join().unwrap());
            let runs = thing.runs.load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!(runs, usize::from(!stopped), "stopped: {stopped}");
            drop(heaps);
            assert!(thing.is_gone());
        });
    }

    /// Two owners and the last user leave at the same time.
    #[test]
    fn freed_once_by_the_last_owner() {
        explore(3, || {
            let thing = Thing::new();
            thing.keepers.retain();
            let owners = [0, 1].map(|_| {
                let thing = thing.clone();
                thread::spawn(move || thing.release())
            });
            thing.leave();
            owners.into_iter().for_each(|owner| owner.join().unwrap());
            assert!(thing.is_gone());
        });
    }

    /// Two runs and the handle leave at the same time.
    #[test]
    fn dropped_once_by_the_last_user() {
        explore(3, || {
            let thing = Thing::new();
            let users = [0, 1].map(|_| {
                thing.keepers.join();
                let thing = thing.clone();
                thread::spawn(move || thing.leave())
            });
            thing.leave();
            users.into_iter().for_each(|user| user.join().unwrap());
            thing.release();
            assert!(thing.is_gone());
        });
    }
}

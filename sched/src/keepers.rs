//! Reference counts of a thing in two parts: its users keep both parts, other owners only the memory.
//!
//! ```text
//!   a user leaves                                an owner leaves
//!   users - 1: was it the last?                  owners - 1: was it the last?
//!     drop the contents                            free the memory
//!     leave as the owner that the users are
//! ```
//!
//! The contents, once dropped, do not come back. So an owner becomes a user only while another user is certain to be
//! there. For the function of a timer the timer's state makes it certain:
//!
//! ```text
//!   the lock's holder takes the timer            the handle goes
//!   -> Running                                   stop the timer: it waits while the timer is Running
//!   a user more, for the run                     the handle leaves, as a user
//!   Running -> NoStatus
//! ```
//!
//! A timer that is taken was not stopped, so its handle has not left, and cannot leave before the new user is counted.

use crate::sync::{
    atomic::{AtomicUsize, Ordering},
    broken,
};

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Keepers {
    users: AtomicUsize,
    /// The users are one.
    owners: AtomicUsize,
}

impl Keepers {
    /// One user, and so many owners beside the users.
    pub(crate) fn new(others: usize) -> Self {
        Keepers { users: AtomicUsize::new(1), owners: AtomicUsize::new(1 + others) }
    }

    /// One owner more. *Runs on: an owner.*
    pub(crate) fn retain(&self) {
        // Relaxed: an owner is made by an owner.
        self.owners.fetch_add(1, Ordering::Relaxed);
    }

    /// An owner leaves; `true`: the last one, so the room is to be freed.
    #[must_use]
    pub(crate) fn release(&self) -> bool {
        let order = if broken!("keepers_release_relaxed") { Ordering::Relaxed } else { Ordering::AcqRel };
        // Release: what this owner did comes before the end; Acquire: the last one sees it all.
        self.owners.fetch_sub(1, order) == 1
    }

    /// An owner becomes a user. *Runs on: an owner, while another user is certain to be there.*
    pub(crate) fn join(&self) {
        // Relaxed: what makes the other user stay orders this before that user's `leave`.
        let users = self.users.fetch_add(1, Ordering::Relaxed);
        debug_assert!(users > 0, "the contents are gone");
    }

    /// A user leaves; `true`: the last one, so the contents are to be dropped, and then the owner that they were leaves.
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        let order = if broken!("keepers_leave_relaxed") { Ordering::Relaxed } else { Ordering::AcqRel };
        // As in `release`.
        self.users.fetch_sub(1, order) == 1
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::Keepers;
    use crate::models::{Turns, explore};
    use crate::sync::broken;
    use loom::{cell::UnsafeCell, sync::Arc, thread};
    use timers::{Handle, Heaps, Timer};

    struct Thing {
        timer: Timer,
        keepers: Keepers,
        contents: UnsafeCell<bool>,
        room: UnsafeCell<bool>,
        /// How often the contents were used by a run.
        runs: std::sync::atomic::AtomicUsize,
    }

    impl Thing {
        fn new() -> Arc<Thing> {
            Arc::new(Thing {
                timer: Timer::new(),
                // The entry in the heap.
                keepers: Keepers::new(1),
                contents: UnsafeCell::new(true),
                room: UnsafeCell::new(true),
                runs: std::sync::atomic::AtomicUsize::new(0),
            })
        }

        fn leave(&self) {
            // SAFETY: the protocol gives each cell its users; loom checks it.
            self.contents.with(|contents| assert!(unsafe { *contents }, "used after it was dropped"));
            if self.keepers.leave() {
                // SAFETY: the last user has the contents alone; loom checks it.
                self.contents.with_mut(|contents| unsafe { *contents = false });
                self.release();
            }
        }

        fn release(&self) {
            // SAFETY: an owner keeps the room, and the last owner has it alone; loom checks it.
            self.room.with(|room| assert!(unsafe { *room }, "used after it was freed"));
            if self.keepers.release() {
                // SAFETY: the last owner has the room alone; loom checks it.
                self.room.with_mut(|room| assert!(std::mem::replace(unsafe { &mut *room }, false)));
            }
        }

        fn is_gone(&self) -> bool {
            // SAFETY: all threads are done; loom checks it.
            !self.contents.with(|contents| unsafe { *contents }) && !self.room.with(|room| unsafe { *room })
        }
    }

    /// An entry in a heap: an owner.
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

    /// What an M does with a timer that fires: runs the function, and leaves.
    fn fire(entry: Entry) {
        if broken!("keepers_join_when_fired") {
            entry.0.keepers.join();
        }
        entry.0.runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        entry.0.leave();
    }

    /// The handle stops the timer and goes while two threads look for timers that are due: either the timer was stopped,
    /// or the function runs, and it is dropped once and freed once.
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

//! A foreign descriptor that stands registered at the shared station: a count of its events, beside the list
//! of its waiters. By that count a wait needs no system call.
//!
//! ```text
//!   the waiter                                      the poller
//!   1  read the count of events                     1  the system reports a change
//!   2  attempt -> would block                       2  lock the list
//!   3  lock the list                                3  add one to the count, take the waiters
//!   4  the count is unchanged -> add the waiter     4  unlock
//!      changed -> try again
//! ```
//!
//! Either the waiter finds the count changed, or the poller finds the waiter. A registration that begins or
//! ends changes the count, too.

use std::fmt;

use crate::sync::{AtomicU64, Mutex, Ordering, broken};

/// Set while the descriptor is registered.
const STANDS: u64 = 1;
const EVENT: u64 = 2;

/// The count of events before an attempt on a foreign descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen(u64);

/// One foreign descriptor, with the list `L` of its waiters. The count changes under the lock of the list.
pub(crate) struct Standing<L> {
    count: AtomicU64,
    pub(crate) list: Mutex<L>,
}

impl<L> Standing<L> {
    pub(crate) fn new(list: L) -> Standing<L> {
        Standing { count: AtomicU64::new(0), list: Mutex::new(list) }
    }

    /// Returns the count of events, for a wait after an attempt that follows; `None` if the descriptor does
    /// not stand registered. *Runs on: any thread.*
    #[inline]
    pub(crate) fn seen(&self) -> Option<Seen> {
        // Acquire: keeps the attempt behind this load. An old count costs another attempt; a count newer than
        // the attempt would lose an event.
        let count = self.count.load(Ordering::Acquire);
        (count & STANDS != 0).then_some(Seen(count))
    }

    /// Adds a waiter by `add`, unless something has happened since `seen`: then returns `false`. *Runs on:
    /// any thread.*
    pub(crate) fn wait(&self, seen: Seen, add: impl FnOnce(&mut L)) -> bool {
        let seen = if broken!("netpoll_standing_looks_late") { Seen(self.count()) } else { seen };
        let mut list = self.list.lock();
        let is_unchanged = Seen(self.count()) == seen;
        if is_unchanged {
            add(&mut list);
        }
        is_unchanged
    }

    /// Counts an event. *Runs on: the holder of the list, who then takes the waiters.*
    pub(crate) fn event(&self) {
        if !broken!("netpoll_standing_event_is_not_counted") {
            self.set(self.count() + EVENT);
        }
    }

    /// Notes that the descriptor is registered from now on. *Runs on: the holder of the list.*
    pub(crate) fn begin(&self) {
        self.set((self.count() + EVENT) | STANDS);
    }

    /// Notes that the descriptor is not registered any more. *Runs on: the holder of the list.*
    pub(crate) fn end(&self) {
        if !broken!("netpoll_standing_end_is_not_noted") {
            self.set((self.count() + EVENT) & !STANDS);
        }
    }

    /// Returns `true` if the descriptor is registered. *Runs on: the holder of the list.*
    pub(crate) fn stands(&self) -> bool {
        self.count() & STANDS != 0
    }

    fn count(&self) -> u64 {
        // Relaxed, here and below: the lock orders the changes.
        self.count.load(Ordering::Relaxed)
    }

    fn set(&self, count: u64) {
        self.count.store(count, Ordering::Relaxed);
    }
}

impl<L> fmt::Debug for Standing<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standing").field("count", &self.count).finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    /// The descriptor of a model: what its file has, and the number of waiters.
    struct World {
        bytes: AtomicUsize,
        place: Standing<usize>,
    }

    fn world() -> Arc<World> {
        let place = Standing::new(0);
        {
            let _list = place.list.lock();
            place.begin();
        }
        Arc::new(World { bytes: AtomicUsize::new(0), place })
    }

    impl World {
        /// Attempts, and waits if there is nothing.
        fn attempt_and_wait(&self) -> Attempted {
            let Some(seen) = self.place.seen() else { return Attempted::Arms };
            if self.bytes.load(Ordering::SeqCst) > 0 {
                return Attempted::Done;
            }
            if self.place.wait(seen, |waiters| *waiters += 1) { Attempted::Waits } else { Attempted::Again }
        }
    }

    #[derive(Debug, PartialEq)]
    enum Attempted {
        Done,
        Again,
        Waits,
        /// The wait arms the descriptor, which makes the system look at it.
        Arms,
    }

    #[test]
    fn an_event_after_the_attempt_is_not_missed() {
        loom::model(|| {
            let world = world();
            let poller = thread::spawn({
                let world = Arc::clone(&world);
                move || {
                    world.bytes.store(1, Ordering::SeqCst);
                    let mut waiters = world.place.list.lock();
                    world.place.event();
                    std::mem::take(&mut *waiters)
                }
            });
            let attempted = world.attempt_and_wait();
            let woken = poller.join().unwrap();
            assert_eq!(woken, usize::from(attempted == Attempted::Waits), "{attempted:?}");
        });
    }

    /// The file is closed, and its number has a new one. A waiter of the old file is found by the closer; one
    /// of the new file has not seen the old count.
    #[test]
    fn no_waiter_trusts_a_registration_that_has_ended() {
        loom::model(|| {
            let world = world();
            let closer = thread::spawn({
                let world = Arc::clone(&world);
                move || {
                    let mut waiters = world.place.list.lock();
                    world.place.end();
                    std::mem::take(&mut *waiters)
                }
            });
            let attempted = world.attempt_and_wait();
            let woken = closer.join().unwrap();
            assert_eq!(woken, usize::from(attempted == Attempted::Waits), "{attempted:?}");
            assert_eq!(world.attempt_and_wait(), Attempted::Arms);
        });
    }
}

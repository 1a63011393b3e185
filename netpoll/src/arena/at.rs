//! With which poller the source of a slot is registered, and who may move it.
//!
//! One thread at a time moves a source: it takes the word, and gives it back with the poller that has the
//! source now. A thread that finds it taken leaves the source to the other. The owner of the descriptor
//! takes it only when no other thread can move the source any more.

use crate::sync::{AtomicU32, Ordering, broken};

/// The poller of a source: `SHARED`, or that of place i with the number i + 1.
pub(crate) struct At {
    /// `MOVING` while a thread moves the source.
    poller: AtomicU32,
    /// How often a thread was about to wait for it. Relaxed: of two waits at once one may be missed.
    waits: AtomicU32,
}

/// The poller that all threads share.
pub(crate) const SHARED: usize = 0;

const MOVING: u32 = u32::MAX;
/// After so many waits for a source it is time to ask where its packets come.
const WAITS: u32 = 32;

impl At {
    pub(crate) fn new() -> At {
        At { poller: AtomicU32::new(SHARED as u32), waits: AtomicU32::new(0) }
    }

    /// Begins with the shared poller. *Runs on: the next owner.*
    pub(super) fn reset(&self) {
        self.poller.store(SHARED as u32, Ordering::Relaxed);
        self.waits.store(0, Ordering::Relaxed);
    }

    /// Counts a wait. Returns `true` each `WAITS` times. `index` is that of the slot: both sides of a
    /// connection would else ask at the same time, and change places.
    #[inline]
    pub(crate) fn counts_wait(&self, index: usize) -> bool {
        let waits = self.waits.load(Ordering::Relaxed).wrapping_add(1);
        self.waits.store(waits, Ordering::Relaxed);
        waits.wrapping_add((index as u32).wrapping_mul(7)).is_multiple_of(WAITS)
    }

    /// Returns the poller of the source; `None` while a thread moves it. The answer may be stale at once.
    pub(crate) fn poller(&self) -> Option<usize> {
        Some(self.poller.load(Ordering::Relaxed))
            .filter(|poller| *poller != MOVING)
            .map(|poller| poller as usize)
    }

    /// Takes the right to move the source, and returns its poller; `None` if another thread moves it. *Runs
    /// on: any thread that keeps the owner.*
    pub(crate) fn take(&self) -> Option<usize> {
        let poller = self.poller.load(Ordering::Relaxed);
        if poller == MOVING && !broken!("netpoll_two_move") {
            return None;
        }
        // Acquire: the partner is `give_back`. The last move has been made.
        let taken = self.poller.compare_exchange(poller, MOVING, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|poller| poller as usize)
    }

    /// Gives the right back, with the poller that has the source now. *Runs on: the thread that has the
    /// right.*
    pub(crate) fn give_back(&self, poller: usize) {
        // Release: the partner is `take`.
        self.poller.store(poller as u32, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::Cell;
    use loom::sync::Arc;
    use loom::thread;

    struct World {
        at: At,
        /// Where the source is. Only a thread with the right may touch it, which loom checks.
        source: Cell<usize>,
    }

    // SAFETY: as `source` says; loom reports an access that another one may meet.
    #[allow(unsafe_code)]
    unsafe impl Sync for World {}

    #[test]
    fn one_thread_at_a_time_moves_a_source() {
        loom::model(|| {
            let world = Arc::new(World { at: At::new(), source: Cell::new(0) });
            let movers = [1, 2].map(|to| {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let Some(from) = world.at.take() else { return };
                    assert_eq!(world.source.replace(to), from);
                    world.at.give_back(to);
                })
            });
            movers.into_iter().for_each(|mover| mover.join().unwrap());
            assert_eq!(world.at.take(), Some(world.source.get()), "no thread moves it any more");
        });
    }
}

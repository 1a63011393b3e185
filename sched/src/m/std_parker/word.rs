//! The word of std's `thread::park`, as the M changes it between the Gs that run on its thread: the protocol
//! of `m/std_parker.rs`.

use crate::sync::{
    atomic::{AtomicU32, Ordering},
    broken,
};

/// The values of the word. [`PARKED`] is one less than [`EMPTY`].
pub(crate) const EMPTY: u32 = 0;
pub(crate) const PARKED: u32 = u32::MAX;
pub(crate) const NOTIFIED: u32 = 1;

/// A G is about to run, while others are parked: it finds the word as if it were alone.
pub(super) fn enter(word: &AtomicU32) {
    if !broken!("parker_entered_as_parked") {
        // Relaxed: nothing is published. A token stays there; its giver has woken all parked Gs.
        let _ = word.compare_exchange(PARKED, EMPTY, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// A G has stopped, and Gs are parked: from here on an `unpark` is seen. Returns `true` if one came while the
/// G ran: the caller then wakes all parked Gs.
#[must_use]
pub(super) fn leave(word: &AtomicU32) -> bool {
    if broken!("parker_left_as_empty") {
        return word.load(Ordering::Acquire) == NOTIFIED;
    }
    // AcqRel: takes a token, and what was done before it, to the Gs that are woken with it.
    word.swap(PARKED, Ordering::AcqRel) == NOTIFIED && !broken!("parker_left_without_a_look")
}

/// A G that was parked goes on: gives std's code the token for which it waits.
pub(super) fn go_on(word: &AtomicU32) {
    // Acquire: sees what the caller of `unpark` did before; pairs with its Release exchange, which std's own
    // exchange does not see any more.
    word.swap(NOTIFIED, Ordering::Acquire);
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::Mutex;
    use crate::sync::models::{Reached, explore};
    use loom::sync::Arc;
    use loom::thread;

    /// A thread's word, and the Gs that are parked there, by number.
    struct World {
        word: AtomicU32,
        parked: Mutex<Vec<usize>>,
    }

    impl World {
        fn new() -> Arc<World> {
            Arc::new(World { word: AtomicU32::new(EMPTY), parked: Mutex::new(Vec::new()) })
        }

        /// As std's `park`, up to its wait. Returns `true` if G `g` waits.
        fn parks(&self, g: usize) -> bool {
            let before = self.word.fetch_sub(1, Ordering::Acquire);
            assert!(before <= NOTIFIED, "std would spin");
            if before == NOTIFIED {
                return false;
            }
            // As `TABLE.wait`.
            let mut parked = self.parked.lock();
            let waits = self.word.load(Ordering::Relaxed) == PARKED;
            if waits {
                parked.push(g);
            }
            waits
        }

        fn wake_all(&self) {
            self.parked.lock().clear();
        }

        /// As std's `unpark`.
        fn unpark(&self) {
            if self.word.swap(NOTIFIED, Ordering::Release) == PARKED {
                self.wake_all();
            }
        }

        /// The M is between two Gs.
        fn left(&self) {
            if leave(&self.word) {
                self.wake_all();
            }
        }

        /// The wait of G `g` has ended, and `g` leaves std's `park`.
        fn goes_on(&self) {
            go_on(&self.word);
            let taken = self.word.compare_exchange(NOTIFIED, EMPTY, Ordering::Acquire, Ordering::Acquire);
            assert!(taken.is_ok(), "no token for `park`");
        }
    }

    /// G 0 parks, G 1 runs on the thread, and perhaps parks, too. An `unpark` comes at any time, and wakes G
    /// 0, unless G 1 takes it.
    #[test]
    fn an_unpark_wakes_all_that_are_parked() {
        static DIRECT: Reached = Reached::new();
        static WHILE_ONE_RUNS: Reached = Reached::new();
        for second_parks in [false, true] {
            explore(3, move || {
                let world = World::new();
                let unparker = thread::spawn({
                    let world = world.clone();
                    move || world.unpark()
                });
                if !world.parks(0) {
                    return unparker.join().unwrap();
                }
                world.left();
                let woken = || !world.parked.lock().contains(&0);
                DIRECT.note(woken());
                let before = woken();
                enter(&world.word);
                // The second takes a token that came in between, which was for either.
                let took = second_parks && !world.parks(1);
                if !took {
                    world.left();
                    WHILE_ONE_RUNS.note(!before && woken());
                }
                unparker.join().unwrap();
                if !took {
                    assert!(woken(), "an unpark was lost");
                    enter(&world.word);
                    world.goes_on();
                }
            });
        }
        DIRECT.assert();
        WHILE_ONE_RUNS.assert();
    }
}

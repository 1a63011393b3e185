//! The word by which a note knows how its thread sleeps: on a futex, or at the M's station. At a station an
//! event of a descriptor ends the sleep, too.
//!
//! ```text
//!   the thread                                  the waker
//!   EMPTY -> how it sleeps; was WOKEN? return   publish the wake-up; swap in WOKEN
//!   sleep in that way                           the word said how the thread sleeps? wake it in that way
//!   swap in EMPTY
//! ```
//!
//! A futex sleeps only while the word still says so, and a station keeps a wake-up for the next sleep. So the
//! waker may come between the thread's two steps. A wake-up that a station has kept for too long ends a later
//! sleep without a cause.

use crate::sync::{
    atomic::{AtomicU32, Ordering},
    broken,
};

const EMPTY: u32 = 0;
const WOKEN: u32 = 1;

/// How a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Sleep {
    Futex = 2,
    #[cfg_attr(not(feature = "interpose"), allow(dead_code, reason = "only foreign code waits at stations"))]
    Station = 3,
}

/// The word: how the thread sleeps, or that it was woken.
#[derive(Debug)]
pub(super) struct Word(AtomicU32);

impl Word {
    #[cfg(not(loom))]
    pub(super) const fn new() -> Self {
        Word(AtomicU32::new(EMPTY))
    }

    /// Sleeps by `sleep`, unless a wake-up is kept. `sleep` gets the word and the value that it has until a
    /// waker comes. *Runs on: the thread.*
    pub(super) fn sleep(&self, how: Sleep, sleep: impl FnOnce(&AtomicU32, u32)) {
        let says = if broken!("note_station_as_futex") { Sleep::Futex } else { how } as u32;
        // Acquire, here and below: pairs with the Release in `wake`. The note's own word orders what the
        // waker hands over, too.
        if self.0.compare_exchange(EMPTY, says, Ordering::Acquire, Ordering::Acquire).is_ok() {
            sleep(&self.0, says);
        }
        self.0.swap(EMPTY, Ordering::Acquire);
    }

    /// Wakes the thread, or keeps the wake-up for its next sleep. *Runs on: any thread.*
    pub(super) fn wake(&self, futex: impl FnOnce(&AtomicU32), station: impl FnOnce()) {
        // Release: pairs with `sleep`; a thread that reads WOKEN has what the waker published before.
        // Acquire: the waker uses the station that the thread has made before it slept there.
        match self.0.swap(WOKEN, Ordering::AcqRel) {
            futex_word if futex_word == Sleep::Futex as u32 => futex(&self.0),
            at_station if at_station == Sleep::Station as u32 => station(),
            _ => {}
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::models::{Reached, explore};
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    struct World {
        word: Word,
        /// As `Note::woken`.
        woken: AtomicU32,
        /// As the kernel: its list of sleepers has one lock.
        kernel: Mutex<Kernel>,
        changed: Condvar,
    }

    #[derive(Default)]
    struct Kernel {
        futex_wakes: u32,
        /// True while the station has a wake-up that no sleep has seen.
        event: bool,
    }

    impl World {
        fn new() -> Arc<World> {
            Arc::new(World {
                word: Word(AtomicU32::new(EMPTY)),
                woken: AtomicU32::new(0),
                kernel: Mutex::new(Kernel::default()),
                changed: Condvar::new(),
            })
        }

        /// As `Note::wake`.
        fn wake(&self) {
            if self.woken.swap(1, Ordering::AcqRel) == 0 {
                self.word.wake(
                    |_| self.change(|kernel| kernel.futex_wakes += 1),
                    || self.change(|kernel| kernel.event = true),
                );
            }
        }

        fn change(&self, change: impl FnOnce(&mut Kernel)) {
            change(&mut self.kernel.lock().unwrap());
            self.changed.notify_all();
        }

        /// As `Note::sleep`, and as a sleep at the station until the note was woken.
        fn sleep(&self, how: Sleep) {
            while self.woken.swap(0, Ordering::Acquire) == 0 {
                self.word.sleep(how, |word, says| match how {
                    Sleep::Futex => self.sleep_on_futex(word, says),
                    Sleep::Station => self.sleep_at_station(),
                });
            }
        }

        fn sleep_on_futex(&self, word: &AtomicU32, says: u32) {
            let mut kernel = self.kernel.lock().unwrap();
            let before = kernel.futex_wakes;
            // The kernel reads the word under the lock of its list.
            while word.fetch_or(0, Ordering::SeqCst) == says && kernel.futex_wakes == before {
                kernel = self.changed.wait(kernel).unwrap();
            }
        }

        fn sleep_at_station(&self) {
            let mut kernel = self.kernel.lock().unwrap();
            while !std::mem::take(&mut kernel.event) {
                kernel = self.changed.wait(kernel).unwrap();
            }
        }
    }

    /// A thread sleeps twice, and is woken each time, however the waker comes between its steps. A lost
    /// wake-up is a deadlock here.
    #[test]
    fn a_wake_up_ends_the_sleep_of_its_kind() {
        static SLEPT: Reached = Reached::new();
        for kinds in [[Sleep::Futex, Sleep::Station], [Sleep::Station, Sleep::Futex], [Sleep::Station; 2]] {
            explore(3, move || {
                let world = World::new();
                for how in kinds {
                    let waker = world.clone();
                    let waker = thread::spawn(move || waker.wake());
                    world.sleep(how);
                    waker.join().unwrap();
                }
                SLEPT.note(world.word.0.load(Ordering::Relaxed) == EMPTY);
            });
        }
        SLEPT.assert();
    }
}

//! Waits of a simulation for words that a thread outside of it may change.
//!
//! The lock of standard error is such a word: another simulation of the same process may have it, for seconds
//! if it prints a backtrace. So before the simulated clock moves, or a deadlock is reported, the M waits a
//! moment in real time. Only a word in static memory counts: others are the program's own. (Feature `sim`.)

use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::sys::segment::segment_around;

/// How long one look waits.
const LOOK: Duration = Duration::from_micros(100);
/// The looks before the simulated clock moves.
const BEFORE_A_TIMER: u32 = 20;
/// The looks before a deadlock is reported: at least ten seconds.
const BEFORE_A_DEADLOCK: u32 = 100_000;

/// What a simulated scheduler knows of these waits.
// Relaxed, throughout: one M runs all Gs of a simulation.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    /// The Gs that wait for static words.
    waiting: AtomicU32,
    /// The looks since a G was ready.
    looks: AtomicU32,
}

impl Outside {
    /// A G begins to wait for a static word.
    pub(crate) fn begin(&self) {
        self.waiting.store(self.waiting.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// A G no longer waits for one.
    pub(crate) fn end(&self) {
        self.waiting.store(self.waiting.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// A G is ready.
    pub(crate) fn has_woken(&self) {
        self.looks.store(0, Ordering::Relaxed);
    }

    /// Returns `true` if a G waits for a static word.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Waits a moment and returns `true` if a thread outside may soon wake a G. `timed`: a timer is armed.
    /// *Runs on: the M, while no G is ready.*
    pub(crate) fn may_wake(&self, timed: bool) -> bool {
        let most = if timed { BEFORE_A_TIMER } else { BEFORE_A_DEADLOCK };
        if !self.is_waited_for() || self.looks.load(Ordering::Relaxed) >= most {
            return false;
        }
        self.looks.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(LOOK);
        true
    }
}

/// Returns `true` if the address lies in the static memory of the program, or of the library that this
/// function is in.
pub(crate) fn is_static(address: usize) -> bool {
    static HERE: AtomicU32 = AtomicU32::new(0);
    static MEMORY: OnceLock<Range<usize>> = OnceLock::new();
    MEMORY.get_or_init(|| segment_around(ptr::from_ref(&HERE).addr())).contains(&address)
}

#[cfg(all(test, target_os = "linux", not(any(portable, miri))))]
mod tests {
    use super::*;

    #[test]
    fn static_words_are_recognised() {
        static WORD: AtomicU32 = AtomicU32::new(0);
        static OTHER: AtomicU32 = AtomicU32::new(1);
        let (on_heap, on_stack) = (Box::new(AtomicU32::new(0)), AtomicU32::new(0));
        let is = |word: &AtomicU32| is_static(ptr::from_ref(word).addr());
        assert_eq!([is(&WORD), is(&OTHER), is(&on_heap), is(&on_stack)], [true, true, false, false]);
    }
}

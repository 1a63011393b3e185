//! Waits of a simulation for words that a thread outside of it may change.
//!
//! The lock of standard error is such a word: another simulation of the same process may have it, for seconds
//! if it prints a backtrace. So before the simulated clock moves, or a deadlock is reported, the M waits a
//! moment in real time. Only a word in static memory counts: others are the program's own. (Feature `sim`.)
//!
//! std takes a lock in static memory where each thread begins and ends. A wait for that lock would be a step
//! of the run, which a replay does not have. So a G looks at the word for a moment before it waits.
//!
//! The holder of such a lock may have lost its processor for long, so the first look at a word takes up to a
//! tenth of a second. A word that stays as it is for so long is most likely a lock that another G of the same
//! simulation holds, which cannot run during the look. From then on a look at this word is short.

#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use crate::sys;
use crate::sys::segment::segment_around;

/// How long one look waits.
const LOOK: Duration = Duration::from_micros(100);
/// The looks before the simulated clock moves.
const BEFORE_A_TIMER: u32 = 20;
/// For how long a G looks before it waits: the holder of a lock may have lost its processor.
const MOMENT_NS: u64 = 100_000_000;
/// The same for a word that has stayed as it was for such a moment, and how often it looks at least.
const SHORT_MOMENT_NS: u64 = 300_000;
const LEAST_LOOKS: u32 = 20;
/// The words at which a look is short.
static OWN: OwnWords<64> = OwnWords::new();
/// The looks before a deadlock is reported: at least ten seconds.
const BEFORE_A_DEADLOCK: u32 = 100_000;
/// The same while a waiting G panics: at least ten minutes. std holds a lock while it calls the panic hook. A
/// G that is left behind there would keep that lock, and the next call of `panic::take_hook` would hang.
const BEFORE_A_DEADLOCK_IN_A_PANIC: u32 = 60 * BEFORE_A_DEADLOCK;

/// What a simulated scheduler knows of these waits.
// Relaxed, throughout: one M runs all Gs of a simulation. The thread that ends it reads `panicking` after
// that M has counted its P as idle, by SeqCst.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    /// The Gs that wait for static words.
    waiting: AtomicU32,
    /// How many of these panic.
    panicking: AtomicU32,
    /// The looks since a G was ready.
    looks: AtomicU32,
}

impl Outside {
    /// A G begins to wait for a static word. `panics`: while it panics.
    pub(crate) fn begin(&self, panics: bool) {
        self.waiting.store(self.waiting.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.panicking.store(self.panicking.load(Ordering::Relaxed) + u32::from(panics), Ordering::Relaxed);
    }

    /// A G no longer waits for one. `panics`: as at [`Outside::begin`].
    pub(crate) fn end(&self, panics: bool) {
        self.waiting.store(self.waiting.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        self.panicking.store(self.panicking.load(Ordering::Relaxed) - u32::from(panics), Ordering::Relaxed);
    }

    /// A G is ready.
    pub(crate) fn has_woken(&self) {
        self.looks.store(0, Ordering::Relaxed);
    }

    /// Returns `true` if a G that panics waits for a static word.
    pub(crate) fn panics(&self) -> bool {
        self.panicking.load(Ordering::Relaxed) > 0
    }

    /// Returns `true` if a G waits for a static word.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Waits a moment and returns `true` if a thread outside may soon wake a G. `timed`: a timer is armed.
    /// *Runs on: the M, while no G is ready.*
    pub(crate) fn may_wake(&self, timed: bool) -> bool {
        let most = match timed {
            true => BEFORE_A_TIMER,
            false if self.panics() => BEFORE_A_DEADLOCK_IN_A_PANIC,
            false => BEFORE_A_DEADLOCK,
        };
        if !self.is_waited_for() || self.looks.load(Ordering::Relaxed) >= most {
            return false;
        }
        self.looks.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(LOOK);
        true
    }
}

/// The addresses of words that no thread outside changed for a long moment. Once there is no more room, each
/// look is short.
struct OwnWords<const N: usize>([AtomicUsize; N]);

// Relaxed, throughout: the addresses are hints, and nothing is read through them.
impl<const N: usize> OwnWords<N> {
    const fn new() -> Self {
        OwnWords([const { AtomicUsize::new(0) }; N])
    }

    fn add(&self, address: usize) {
        let is_added = |entry: &AtomicUsize| {
            let had = entry.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed);
            had.is_ok() || had == Err(address)
        };
        let _full = !self.0.iter().any(is_added);
    }

    /// Returns for how long a G looks at the word at `address`.
    fn moment_ns(&self, address: usize) -> u64 {
        for entry in &self.0 {
            match entry.load(Ordering::Relaxed) {
                0 => return MOMENT_NS,
                own if own == address => return SHORT_MOMENT_NS,
                _ => {}
            }
        }
        SHORT_MOMENT_NS
    }
}

/// Returns `true` if another OS thread changes `word` from `expected` within a moment of real time.
pub(crate) fn changes_soon(word: &AtomicU32, expected: u32) -> bool {
    // Acquire: the caller may take this look for its own. Pairs with the release of a lock by its holder.
    let has_changed = || word.load(Ordering::Acquire) != expected;
    let address = ptr::from_ref(word).addr();
    let (moment, start, mut looks) = (OWN.moment_ns(address), real_time(), 0);
    while !has_changed() {
        if looks >= LEAST_LOOKS && real_time() - start > moment {
            OWN.add(address);
            return false;
        }
        sys::yield_thread();
        looks += 1;
    }
    true
}

/// Returns the real time in nanoseconds.
fn real_time() -> u64 {
    // By a system call: libc's function is that of the simulation, which only Linux has.
    #[cfg_attr(any(portable, not(target_os = "linux")), allow(unused_mut))]
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[cfg(all(target_os = "linux", not(portable)))]
    // SAFETY: the call writes `time`.
    unsafe {
        netpoll::raw::call!(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut time)
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns `true` if the address lies in the static memory of the program, or of the library that this
/// function is in.
///
/// Each thread that comes first looks the memory up, and finds the same. A `OnceLock` would wait for the
/// first of them by a futex, and the caught call of that futex would ask this function again.
pub(crate) fn is_static(address: usize) -> bool {
    static START: AtomicUsize = AtomicUsize::new(0);
    /// 0 before the first question.
    static END: AtomicUsize = AtomicUsize::new(0);
    // Acquire: pairs with the Release below, so the start is that of this end.
    let end = END.load(Ordering::Acquire);
    if end != 0 {
        return (START.load(Ordering::Relaxed)..end).contains(&address);
    }
    let memory = segment_around(ptr::from_ref(&END).addr());
    START.store(memory.start, Ordering::Relaxed);
    // Release: pairs with the Acquire above.
    END.store(memory.end, Ordering::Release);
    memory.contains(&address)
}

#[cfg(all(test, target_os = "linux", not(any(portable, miri))))]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_another_thread_changes_is_seen() {
        let word = AtomicU32::new(1);
        assert!(changes_soon(&word, 0), "it differs already");
        let takes = || {
            let start = real_time();
            assert!(!changes_soon(&word, 1));
            real_time() - start
        };
        assert!(takes() > MOMENT_NS);
        // The word is known now. On a loaded machine a look may take as long as the first.
        assert!((0..100).any(|_| takes() < MOMENT_NS), "each look at a known word is long");
        // The other thread changes the word within the moment, unless the machine has no processor for it.
        let is_seen = |_| {
            let word = AtomicU32::new(1);
            std::thread::scope(|scope| {
                scope.spawn(|| word.store(0, Ordering::Release));
                changes_soon(&word, 1)
            })
        };
        assert!((0..100).any(is_seen));
    }

    #[test]
    fn a_word_is_remembered_while_there_is_room() {
        let words = OwnWords::<2>::new();
        assert_eq!(words.moment_ns(8), MOMENT_NS);
        words.add(8);
        words.add(8);
        assert_eq!([8, 16].map(|address| words.moment_ns(address)), [SHORT_MOMENT_NS, MOMENT_NS]);
        words.add(16);
        words.add(24);
        assert_eq!([8, 16, 24].map(|address| words.moment_ns(address)), [SHORT_MOMENT_NS; 3]);
    }

    #[test]
    fn static_words_are_recognised() {
        static WORD: AtomicU32 = AtomicU32::new(0);
        static OTHER: AtomicU32 = AtomicU32::new(1);
        let (on_heap, on_stack) = (Box::new(AtomicU32::new(0)), AtomicU32::new(0));
        let is = |word: &AtomicU32| is_static(ptr::from_ref(word).addr());
        assert_eq!([is(&WORD), is(&OTHER), is(&on_heap), is(&on_stack)], [true, true, false, false]);
    }
}

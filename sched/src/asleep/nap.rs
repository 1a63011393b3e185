//! The sleep of an M, as the flight recorder sees it: it needs no event of its own.
//!
//! An M that finds no work gives its P up, which is the event `Idle` of that P, and sleeps from then on. When
//! it takes a P, the event `Take` says how the M has slept since that `Idle`. An event next to a sleep costs
//! several times as much as others, because code and data are cold there.
//!
//! ```text
//!            the M                                    the reader
//!   sleeps   write `Idle`                             load the nap of each M      (Acquire)
//!            store the nap         (Release)          read the rings of all Ps
//!   wakes    write `Take`, with the nap               a nap is that of an M, or that of a `Take`
//!            clear the nap         (Release)
//! ```
//!
//! If the reader finds a nap cleared, it finds its `Take`. So it misses no sleep that had begun when it began
//! to read.
//!
//! Only an M that sleeps again before it has taken a P, or that ends, writes events for its sleep
//! (`notes/outside.rs`).

use super::rest::SleepKind;
use crate::p::event::Kind;
use crate::sync::{
    atomic::{AtomicU64, Ordering},
    broken,
};

impl SleepKind {
    /// Returns the event with which such a sleep begins.
    pub(crate) fn begins(self) -> Kind {
        match self {
            SleepKind::Parked | SleepKind::Reserved => Kind::MPark,
            SleepKind::Polls => Kind::NetBlock,
        }
    }

    /// Returns the event with which such a sleep ends.
    pub(crate) fn ends(self) -> Kind {
        match self {
            SleepKind::Parked | SleepKind::Reserved => Kind::MWake,
            SleepKind::Polls => Kind::NetReturn,
        }
    }
}

/// How an M sleeps, and since which `Idle`. Fits into the number of an event.
///
/// ```text
///   the lower bits of the stamp of `Idle`, 0 if the sleep did not begin there 46 | how 2
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Word(u64);

const HOW_BITS: u32 = 2;
const MASK: u64 = u64::MAX >> 16;

impl Word {
    /// Returns the word of an M that sleeps like this since the `Idle` with this stamp.
    pub(crate) fn since(stamp: u64, how: SleepKind) -> Word {
        Word((stamp << HOW_BITS | how as u64) & MASK)
    }

    pub(crate) fn of_number(number: u64) -> Word {
        Word(number)
    }

    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// Returns the stamp of the `Idle`, which is before `near`; `None` if the sleep did not begin there.
    pub(crate) fn stamp(self, near: u64) -> Option<u64> {
        let lower = self.0 >> HOW_BITS;
        // The counter may have gone back, because the machine was suspended.
        if lower == 0 { None } else { near.checked_sub(near.wrapping_sub(lower) & (MASK >> HOW_BITS)) }
    }

    /// Returns how the M sleeps; `None` if it does not.
    pub(crate) fn how(self) -> Option<SleepKind> {
        match self.0 & ((1 << HOW_BITS) - 1) {
            1 => Some(SleepKind::Parked),
            2 => Some(SleepKind::Polls),
            _ => None,
        }
    }
}

/// When and how the M sleeps, in one record for the flight recorder.
#[derive(Debug)]
pub(crate) struct Nap {
    word: AtomicU64,
    /// The stamp of the `Idle` after which no P was taken and no nap has begun; 0 if there is none.
    // Relaxed, in all accesses: only the M's own thread uses it.
    idle_at: AtomicU64,
}

impl Nap {
    pub(crate) fn new() -> Nap {
        Nap { word: AtomicU64::new(0), idle_at: AtomicU64::new(0) }
    }

    /// Notes that the M gives its P up, and the stamp of that event; 0 if it was not recorded.
    pub(crate) fn idles(&self, at: u64) {
        self.idle_at.store(at, Ordering::Relaxed);
    }

    /// Begins a nap. Returns `true` if its begin needs no event.
    pub(crate) fn begin(&self, how: SleepKind) -> bool {
        let at = self.idle_at.load(Ordering::Relaxed);
        self.idle_at.store(0, Ordering::Relaxed);
        // Release: pairs with the Acquire in `word`.
        self.word.store(Word::since(at, how).number(), Ordering::Release);
        at != 0
    }

    /// Ends the nap. `write` writes the event that has the word. That word says `None` if there was no nap.
    pub(crate) fn end(&self, write: impl FnOnce(Word)) {
        // Relaxed: only this thread stores it.
        let word = Word(self.word.load(Ordering::Relaxed));
        if broken!("nap_cleared_before_its_event") {
            self.word.store(0, Ordering::Release);
        }
        write(word);
        self.idle_at.store(0, Ordering::Relaxed);
        // Release: pairs with the Acquire in `word`. The caller of `word` then sees that event.
        let order = if broken!("nap_cleared_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        self.word.store(0, order);
    }

    /// Returns how the M sleeps. *Runs on: any thread.*
    pub(crate) fn word(&self) -> Word {
        // Acquire: pairs with the Release in `begin` and in `end`.
        Word(self.word.load(Ordering::Acquire))
    }
}

/// Reads the naps of all Ms, and then the rings.
pub(crate) fn read<N, R>(naps: impl FnOnce() -> N, rings: impl FnOnce() -> R) -> (N, R) {
    if broken!("nap_read_after_the_rings") {
        let rings = rings();
        return (naps(), rings);
    }
    let naps = naps();
    (naps, rings())
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::p::event::{kind, pack, rest};
    use crate::p::ring::Ring;
    use crate::sync::models::{Reached, Turns};
    use loom::sync::Arc;
    use loom::thread;

    struct World {
        nap: Nap,
        ring: Ring,
        turns: Turns,
        /// How many naps have begun.
        begun: AtomicU64,
    }

    // SAFETY: only the thread that is the M uses the cell in `nap`.
    unsafe impl Sync for World {}

    impl World {
        /// Idles at the stamp, sleeps, and takes the P again.
        fn sleeps(&self, at: u64) {
            self.ring.push(pack(Kind::Idle, at, 0, 0));
            self.nap.idles(at);
            assert!(self.nap.begin(SleepKind::Parked));
            self.begun.fetch_add(1, Ordering::AcqRel);
            self.turns.take();
            self.nap.end(|word| self.ring.push(pack(Kind::Take, at + 1, word.number(), 0)));
            self.turns.take();
        }
    }

    #[test]
    fn a_nap_is_found_in_its_m_or_in_its_event() {
        static ASLEEP: Reached = Reached::new();
        static WOKEN: Reached = Reached::new();
        loom::model(|| {
            let world = Arc::new(World {
                nap: Nap::new(),
                ring: Ring::new(8),
                turns: Turns::default(),
                begun: AtomicU64::new(0),
            });
            let m = world.clone();
            let m = thread::spawn(move || [10, 20].into_iter().for_each(|at| m.sleeps(at)));
            world.turns.take();
            let begun = world.begun.fetch_add(0, Ordering::AcqRel);
            let (word, events) = read(|| world.nap.word(), || world.ring.read(0).events);
            let taken = events.iter().filter(|event| kind(**event) == Kind::Take);
            let mut naps: Vec<Word> = taken.map(|event| Word::of_number(rest(*event).0)).collect();
            ASLEEP
                .note(naps.len() == 1 && word.how().is_some() && word == Word::since(20, SleepKind::Parked));
            WOKEN.note(naps.len() == 1 && word.how().is_none());
            naps.extend(word.how().map(|_| word));
            for at in (1..=begun).map(|nap| 10 * nap) {
                assert!(naps.contains(&Word::since(at, SleepKind::Parked)), "a nap was missed");
            }
            for nap in naps {
                let begins = |event: &&[u64; 2]| {
                    kind(**event) == Kind::Idle && Word::since(event[0] >> 8, SleepKind::Parked) == nap
                };
                assert!(events.iter().any(|event| begins(&event)), "a nap without its begin");
            }
            m.join().unwrap();
        });
        ASLEEP.assert();
        WOKEN.assert();
    }
}

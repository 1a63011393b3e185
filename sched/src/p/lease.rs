//! The lent P: one word that says who may touch what belongs to a P.
//!
//! The M that runs a G's code lends its P; every entry from that code into the runtime takes it back; sysmon
//! may take a P that has stayed lent, unchanged, for too long. All three are one transition of one word:
//!
//! ```text
//!            the M                                    sysmon
//!   lend     store  tick+1 | Lent       (Release)
//!   enter    CAS    that word -> Held   (Acquire)     look    load the word, twice, a threshold apart
//!                                                     retake  CAS that word -> Held   (Acquire)
//! ```
//!
//! Exactly one CAS on a lent word succeeds, and its winner owns the P. The tick only grows, so a word seen twice
//! has not been entered in between, and an M that comes back late can never take a P that is in a later stretch.
//! What was rejected: a state and a tick in two words (a returning M takes back a later stretch), and a lock.

use crate::sync::{
    atomic::{AtomicU64, Ordering},
    broken,
};

const STATE: u64 = 0b11;
const IDLE: u64 = 0;
const HELD: u64 = 1;
const LENT: u64 = 2;
const LENT_BLOCKING: u64 = 3;
const TICK: u32 = 2;

/// What a look at a P shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// In the idle list; nobody's.
    Idle,
    /// An M in the runtime holds it.
    Held,
    /// Its M runs a G's code.
    Lent,
    /// Its M runs a G's code that said it would block.
    LentBlocking,
}

/// A word as seen at one moment. Two equal ones mean that nothing happened between the two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen(u64);

impl Seen {
    /// A word of that state, for tests of what is decided by looks.
    pub fn example(state: State) -> Seen {
        Seen(match state {
            State::Idle => IDLE,
            State::Held => HELD,
            State::Lent => LENT,
            State::LentBlocking => LENT_BLOCKING,
        })
    }

    /// What the P was at that moment.
    pub fn state(self) -> State {
        match self.0 & STATE {
            IDLE => State::Idle,
            HELD => State::Held,
            LENT => State::Lent,
            _ => State::LentBlocking,
        }
    }
}

/// The exact word an M lent its P with; it alone takes that P back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lent(u64);

/// The word of one P. It stands on a cache line of its own: sysmon reads it while its M writes it.
#[derive(Debug)]
pub(crate) struct Lease {
    word: AtomicU64,
}

impl Lease {
    /// An idle P.
    pub(crate) fn new() -> Self {
        Lease { word: AtomicU64::new(IDLE) }
    }

    /// Lends the P to the code that is about to run. *Runs on: the holder.*
    #[inline]
    pub(crate) fn lend(&self) -> Lent {
        self.lend_as(LENT)
    }

    /// Lends it to code that said it will block. *Runs on: the holder.*
    #[inline]
    pub(crate) fn lend_blocking(&self) -> Lent {
        self.lend_as(LENT_BLOCKING)
    }

    #[inline]
    fn lend_as(&self, state: u64) -> Lent {
        // Relaxed: only the holder writes a Held word, and that is us.
        let tick = self.word.load(Ordering::Relaxed) >> TICK;
        let word = (tick + 1) << TICK | state;
        // Release: pairs with the Acquire of whoever takes the P next (`take_back` or `retake`), which must see all
        // that this holder did to the queues, the pools and the counters.
        let order = if broken!("lease_lend_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        self.word.store(word, order);
        Lent(word)
    }

    /// Takes the P back on entry; `false` if sysmon has taken it meanwhile. *Runs on: the M that lent it.*
    #[inline]
    pub(crate) fn take_back(&self, lent: Lent) -> bool {
        if broken!("lease_take_back_unchecked") {
            self.word.store(lent.0 & !STATE | HELD, Ordering::Relaxed);
            return true;
        }
        self.win(lent.0)
    }

    /// Takes a P that has stayed lent since `seen`; `true` makes the caller its holder. *Runs on: sysmon.*
    pub(crate) fn retake(&self, seen: Seen) -> bool {
        matches!(seen.state(), State::Lent | State::LentBlocking) && self.win(seen.0)
    }

    #[inline]
    fn win(&self, lent: u64) -> bool {
        // Acquire: pairs with the Release of `lend`. Failure needs no order: a loser touches nothing of the P.
        self.word.compare_exchange(lent, lent & !STATE | HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// *Runs on: any thread.*
    pub(crate) fn look(&self) -> Seen {
        // Relaxed: a look only says when to try; `retake` decides.
        Seen(self.word.load(Ordering::Relaxed))
    }

    /// Held -> Idle. *Runs on: the holder, under the lock of the idle list.*
    pub(crate) fn set_idle(&self) {
        // Relaxed on both: the idle list's lock orders everything about an idle P.
        let word = self.word.load(Ordering::Relaxed);
        debug_assert_eq!(word & STATE, HELD, "only a held P can go idle");
        self.word.store(word & !STATE | IDLE, Ordering::Relaxed);
    }

    /// Idle -> Held. *Runs on: whoever has just taken the P out of the idle list, under its lock.*
    pub(crate) fn set_held(&self) {
        // Relaxed on both: as in `set_idle`.
        let word = self.word.load(Ordering::Relaxed);
        debug_assert_eq!(word & STATE, IDLE, "only an idle P can be taken from the list");
        self.word.store(word & !STATE | HELD, Ordering::Relaxed);
    }

    /// How often the P was lent: the scheduler's progress, as sysmon sees it.
    #[cfg(not(loom))]
    pub(crate) fn tick(&self) -> u64 {
        self.word.load(Ordering::Relaxed) >> TICK
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::{cell::UnsafeCell, sync::Arc, thread};

    /// What belongs to the P: loom reports two Ms that touch it unordered.
    struct Owned {
        lease: Lease,
        queue: UnsafeCell<u32>,
    }

    fn touch(p: &Owned) {
        // SAFETY: the caller holds the P; loom checks it.
        p.queue.with_mut(|q| unsafe { *q += 1 });
    }

    #[test]
    fn an_m_and_sysmon_never_both_hold_the_p() {
        loom::model(|| {
            let p = Arc::new(Owned { lease: Lease::new(), queue: UnsafeCell::new(0) });
            p.lease.set_held();
            let (m, monitor) = (p.clone(), p.clone());
            // The M: two stretches of user code, with work on the P between them.
            let m = thread::spawn(move || {
                for _ in 0..2 {
                    touch(&m);
                    let lent = m.lease.lend();
                    if !m.lease.take_back(lent) {
                        return false;
                    }
                }
                touch(&m);
                true
            });
            let monitor = thread::spawn(move || {
                let seen = monitor.lease.look();
                let won = monitor.lease.retake(seen);
                if won {
                    touch(&monitor);
                }
                won
            });
            let (kept, taken) = (m.join().unwrap(), monitor.join().unwrap());
            assert!(kept != taken, "exactly one of the two ends as the holder");
        });
    }

    #[test]
    fn a_late_m_cannot_take_back_a_later_stretch() {
        loom::model(|| {
            let p = Arc::new(Owned { lease: Lease::new(), queue: UnsafeCell::new(0) });
            p.lease.set_held();
            let first = p.lease.lend();
            let other = p.clone();
            // Sysmon takes the P for a second M, which lends it again.
            let other = thread::spawn(move || {
                let seen = other.lease.look();
                if !other.lease.retake(seen) {
                    return None;
                }
                touch(&other);
                let lent = other.lease.lend();
                let mine = other.lease.take_back(lent);
                if mine {
                    touch(&other);
                }
                Some(mine)
            });
            let back = p.lease.take_back(first);
            if back {
                touch(&p);
            }
            match other.join().unwrap() {
                None => assert!(back),
                Some(second_kept) => assert!(!back && second_kept),
            }
        });
    }
}

//! The lent P: one word that says who may touch what belongs to a P.
//!
//! The M that runs a G's code lends its P; every entry from that code into the runtime takes it back; sysmon
//! may take a P that has stayed lent, unchanged, for too long. There are two forms. The portable one is one
//! compare-and-swap of the word by each of the two:
//!
//! ```text
//!            the M                                    sysmon
//!   lend     store  tick+1 | Lent       (Release)
//!   enter    CAS    that word -> Held   (Acquire)     look    load the word, twice, a threshold apart
//!                                                     retake  CAS that word -> Held   (Acquire)
//!   leave    the word says Asked? give the P up       ask     set the bit Asked
//!            else lend
//! ```
//!
//! Exactly one CAS on a lent word succeeds, and its winner owns the P. The tick only grows, so a word seen twice
//! has not been entered in between, and an M that comes back late can never take a P that is in a later stretch.
//!
//! Entries are many and retakes are few, so where the system has a barrier that one thread can impose on all others
//! of the process (`membarrier`), the M gets by with plain stores and loads, and sysmon pays:
//!
//! ```text
//!            the M                                    sysmon
//!   lend     the word and its own copy = tick+1
//!   enter    its own copy = 0                         retake  CAS that word -> the same, claimed
//!            (the barrier, when sysmon imposes it)            impose the barrier
//!            the word is still that? the P is kept            the M's copy is still that word?
//!            claimed: CAS back; done? it is kept                yes: CAS claimed -> Held, tick+1; done? it is taken
//!            else it is lost                                    no:  CAS claimed -> back
//! ```
//!
//! Either the M's 0 is seen by sysmon, or the claim is seen by the M; then both swap the claimed word, and one succeeds.
//! In this form the word of a P whose M is in the runtime stays what it was lent by. Words of different Ps differ, so
//! the copy of an M that has another P by now never looks like the one that is meant.
//!
//! **Asking.** A retake needs a word that stands still, and code that enters the runtime often changes its word each time.
//! So sysmon also sets a bit in the word, whatever the tick. The M meets the bit where it reads the word anyway: on entry,
//! where the word then differs from the M's own, and on leaving. Only leaving acts on it, where the runtime holds no lock.
//! A plain store may overwrite a bit that was set a moment before; sysmon asks again at its next look.
//!
//! What was rejected: a state and a tick in two words (a returning M takes back a later stretch), and a lock.

use crate::sync::{
    atomic::{AtomicU64, Ordering},
    broken, full_fence,
};
#[cfg(not(loom))]
use crate::sys::barrier;

const STATE: u64 = 0b11;
const IDLE: u64 = 0;
const HELD: u64 = 1;
const LENT: u64 = 2;
/// Sysmon is about to take it.
const CLAIMED: u64 = 0b100;
/// Sysmon asks the M to give it up.
const ASKED: u64 = 0b1000;
const INDEX: u32 = 4;
const TICK: u32 = 14;
/// So many Ps have words of their own.
const MAX_INDEX: usize = 1 << (TICK - INDEX);

/// What a look at a P shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// In the idle list; nobody's.
    Idle,
    /// An M in the runtime holds it.
    Held,
    /// Its M runs a G's code.
    Lent,
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
        })
    }

    /// A word of that state after `n` stretches, for the same tests.
    pub fn nth_example(state: State, n: u64) -> Seen {
        Seen(Seen::example(state).0 | n << TICK)
    }

    /// What the P was at that moment.
    pub fn state(self) -> State {
        match self.0 & STATE {
            IDLE => State::Idle,
            HELD => State::Held,
            _ => State::Lent,
        }
    }
}

/// The exact word an M lent its P with; it alone takes that P back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lent(u64);

/// What an M shows of itself: the word by which it has lent its P, or 0 while it is in the runtime.
#[derive(Debug)]
pub(crate) struct Lender(AtomicU64);

impl Lender {
    pub(crate) fn new() -> Self {
        Lender(AtomicU64::new(0))
    }
}

/// The word of one P. It stands on a cache line of its own: sysmon reads it while its M writes it.
#[derive(Debug)]
pub(crate) struct Lease {
    word: AtomicU64,
    /// The second form.
    light: bool,
}

impl Lease {
    /// An idle P of that index; `light`: with the second form.
    pub(crate) fn new(index: usize, light: bool) -> Self {
        assert!(index < MAX_INDEX);
        Lease { word: AtomicU64::new((index as u64) << INDEX | IDLE), light }
    }

    /// Lends the P to the code that is about to run. What sysmon has asked before this is forgotten: another G runs from now
    /// on. *Runs on: the holder, which is `m`.*
    #[inline]
    pub(crate) fn lend(&self, m: &Lender) -> Lent {
        // Relaxed: as in `lend_unless_asked`.
        self.lend_after(self.word.load(Ordering::Relaxed), m)
    }

    /// Lends the P to the code that is about to go on. `None` if sysmon has asked for the P: the caller still holds it, and
    /// gives it up. *Runs on: the holder, which is `m`.*
    #[inline]
    pub(crate) fn lend_unless_asked(&self, m: &Lender) -> Option<Lent> {
        // Relaxed: only the holder changes a word that is not lent, but for the bits that sysmon sets. A claim is of a
        // stretch that is over: the store overwrites it, and sysmon finds out. A request says nothing but itself.
        let last = self.word.load(Ordering::Relaxed);
        if last & ASKED != 0 && !broken!("lease_leave_unasked") {
            return None;
        }
        Some(self.lend_after(last, m))
    }

    #[inline]
    fn lend_after(&self, last: u64, m: &Lender) -> Lent {
        debug_assert!(self.light || last & STATE == HELD, "only the holder lends: {last:#x}");
        let last = last & !(STATE | CLAIMED | ASKED);
        let tick = if broken!("lease_lend_same_tick") { 0 } else { 1 << TICK };
        let word = last.wrapping_add(tick) | LENT;
        // Release: pairs with the Acquire of whoever takes the P next (`take_back` or `retake`), which must see all
        // that this holder did to the queues, the pools and the counters.
        let order = if broken!("lease_lend_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        self.overwrite(word, order);
        if self.light {
            // Likewise: sysmon takes the P by what it reads here.
            m.0.store(word, order);
        }
        Lent(word)
    }

    /// Takes the P back on entry, or calls `lost` if sysmon has taken it meanwhile: the M then has no P. *Runs on: the M that
    /// lent it, which is `m`.*
    #[inline]
    pub(crate) fn enter(&self, lent: Lent, m: &Lender, lost: impl FnOnce()) {
        if !self.take_back(lent, m) && !broken!("lease_lost_is_used") {
            lost();
        }
    }

    /// Takes the P back on entry; `false` if sysmon has taken it meanwhile. *Runs on: the M that lent it, which is `m`.*
    #[inline]
    pub(crate) fn take_back(&self, lent: Lent, m: &Lender) -> bool {
        if broken!("lease_take_back_unchecked") {
            self.word.store(lent.0 & !STATE | HELD, Ordering::Relaxed);
            return true;
        }
        if !self.light {
            return self.win(lent.0) || self.win_asked(lent);
        }
        // Relaxed on both: between them stands the barrier that sysmon imposes in `retake`; the compiler must not turn
        // them round. Nothing is to be acquired: nobody but this M has had the P.
        m.0.store(0, Ordering::Relaxed);
        if !broken!("lease_light_no_barrier") {
            imposed_barrier();
        }
        self.word.load(Ordering::Relaxed) == lent.0 || self.take_back_changed(lent)
    }

    /// The word is not what the P was lent by: it is claimed, asked for, or lost.
    #[cold]
    fn take_back_changed(&self, lent: Lent) -> bool {
        // Relaxed: as above. Sysmon may be swapping the same word: it takes the P, or has just put back what was there.
        let claimed = lent.0 | CLAIMED;
        match self.word.compare_exchange(claimed, lent.0, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            // A request does not take the P: the word has kept its tick, and the M that leaves sees the bit.
            Err(now) if broken!("lease_asked_is_lost") => now == lent.0,
            Err(now) => now & !ASKED == lent.0,
        }
    }

    /// As `win`, when sysmon has asked for the P: the bit stays for the way out.
    #[cold]
    fn win_asked(&self, lent: Lent) -> bool {
        let (asked, held) = (lent.0 | ASKED, lent.0 & !STATE | HELD | ASKED);
        // Acquire: as in `win`.
        !broken!("lease_asked_is_lost")
            && self.word.compare_exchange(asked, held, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Asks the M that has the P to give it up when it next leaves the runtime. The request may be lost, and is to be made
    /// again; it may meet another holder, which gives the P up for nothing. *Runs on: sysmon.*
    pub(crate) fn ask(&self) {
        // Relaxed: the bit says nothing but itself. As a read-modify-write it leaves the holder's Release in force.
        self.word.fetch_or(ASKED, Ordering::Relaxed);
    }

    /// Takes a P that has stayed lent since `seen`; `true` makes the caller its holder. `holder` gives the M that holds or
    /// has lent it, as of when it is called. *Runs on: sysmon, one at a time.*
    pub(crate) fn retake<'m>(&self, seen: Seen, holder: impl Fn() -> Option<&'m Lender>) -> bool {
        let seen = if broken!("lease_retake_any_tick") { self.look(&holder) } else { seen };
        if seen.state() != State::Lent {
            return false;
        }
        if broken!("lease_retake_load_store") && self.look(&holder) == seen {
            self.word.store(seen.0 & !STATE | HELD, Ordering::Relaxed);
            return true;
        }
        // Relaxed: the swaps below decide. Only sysmon asks, so the bit cannot come between.
        let asked = self.word.load(Ordering::Relaxed) & ASKED;
        if self.light { self.retake_light(seen.0, asked, holder) } else { self.win(seen.0 | asked) }
    }

    fn retake_light<'m>(&self, lent: u64, asked: u64, holder: impl Fn() -> Option<&'m Lender>) -> bool {
        let claimed = lent | CLAIMED;
        // Acquire: who lent it; pairs with the Release of `lend`, which comes after the M has said that it holds the P.
        if self.word.compare_exchange(lent | asked, claimed, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        let imposed = impose_barrier();
        // Acquire: pairs with the Release of `lend`: what the M did with the P.
        let copy = |m: &Lender| {
            m.0.load(if broken!("lease_win_relaxed") { Ordering::Relaxed } else { Ordering::Acquire })
        };
        let still = imposed && (holder().is_some_and(|m| copy(m) == lent) || broken!("lease_light_no_copy"));
        let next = if still { (lent & !STATE).wrapping_add(1 << TICK) | HELD } else { lent };
        if broken!("lease_light_store") {
            self.word.store(next, Ordering::Relaxed);
            return still;
        }
        // Relaxed: as above. The M may be taking it back; one of the two succeeds.
        let swapped = self.word.compare_exchange(claimed, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        swapped && still
    }

    #[inline]
    fn win(&self, lent: u64) -> bool {
        // Acquire: pairs with the Release of `lend`. Failure needs no order: a loser touches nothing of the P.
        let order = if broken!("lease_win_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
        self.word.compare_exchange(lent, lent & !(STATE | ASKED) | HELD, order, Ordering::Relaxed).is_ok()
    }

    /// `holder` as for `retake`. *Runs on: any thread.*
    pub(crate) fn look<'m>(&self, holder: impl Fn() -> Option<&'m Lender>) -> Seen {
        // Relaxed: a look only says when to try; `retake` decides.
        let word = self.word.load(Ordering::Relaxed) & !(CLAIMED | ASKED);
        let lent = word & STATE == LENT;
        let in_runtime = || holder().is_none_or(|m| m.0.load(Ordering::Relaxed) != word);
        Seen(if self.light && lent && in_runtime() { word & !STATE | HELD } else { word })
    }

    /// Held -> Idle. *Runs on: the holder, under the lock of the idle list.*
    pub(crate) fn set_idle(&self) {
        self.set(IDLE);
    }

    /// Idle -> Held. *Runs on: whoever has just taken the P out of the idle list, under its lock.*
    pub(crate) fn set_held(&self) {
        debug_assert_eq!(
            self.word.load(Ordering::Relaxed) & STATE,
            IDLE,
            "only an idle P can be taken from the list"
        );
        self.set(HELD);
    }

    fn set(&self, state: u64) {
        // Relaxed on both: the idle list's lock orders everything about an idle P.
        let word = self.word.load(Ordering::Relaxed);
        self.overwrite(word & !(STATE | CLAIMED | ASKED) | state, Ordering::Relaxed);
    }

    /// A plain store. *Runs on: the holder.*
    #[inline]
    fn overwrite(&self, word: u64, order: Ordering) {
        #[cfg(not(loom))]
        self.word.store(word, order);
        // loom lets sysmon's swap succeed on a word that was read and then overwritten here, which no machine does; not so
        // if it was swapped.
        #[cfg(loom)]
        self.word.swap(word, order);
    }

    /// How often the P was lent: the scheduler's progress, as sysmon sees it.
    #[cfg(not(loom))]
    pub(crate) fn tick(&self) -> u64 {
        self.word.load(Ordering::Relaxed) >> TICK
    }
}

/// The M's half of the barrier: where sysmon's half takes effect. It costs nothing, and keeps the compiler in order.
#[inline]
fn imposed_barrier() {
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    // loom knows no barrier that one thread imposes on another; a fence on both sides does what it does.
    #[cfg(loom)]
    full_fence();
}

/// Sysmon's half: every other thread of the process has gone through a full fence when this returns `true`.
fn impose_barrier() -> bool {
    full_fence();
    #[cfg(not(loom))]
    return barrier::impose();
    #[cfg(loom)]
    true
}

#[cfg(all(test, loom))]
mod models;

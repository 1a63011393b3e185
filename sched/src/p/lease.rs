//! The lease of one P: a word that decides which thread may touch the state of that P.
//!
//! An M that runs a G's code lends its P. Every entry from that code into the runtime takes the P back.
//! Sysmon may retake a P that has stayed lent, unchanged, for too long. The protocol has two forms. In the
//! portable form the M and sysmon each perform one compare-and-swap of the word:
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
//! Exactly one CAS of a lent word succeeds, and the thread that performed this CAS owns the P. The tick only
//! grows. So if two looks find the same word, the M has not entered the runtime in between. An M that returns
//! late can never take a P that is in a later stretch.
//!
//! Entries are many and retakes are few. The light form is used where the system lets one thread impose a
//! barrier on all other threads of the process (`membarrier`). There the M needs only plain stores and loads,
//! and sysmon pays for the barrier:
//!
//! ```text
//!            the M                                    sysmon
//!   lend     the word and its own copy = tick+1
//!   enter    its own copy = 0                         retake  CAS that word -> the same, claimed
//!            (the barrier, when sysmon imposes it)            impose the barrier
//!            the word is still that? the P is kept            the M's copy is still that word?
//!            claimed: CAS back; done? the P is kept             yes: CAS claimed -> Held, tick+1; done? sysmon has the P
//!            else the P is lost                                 no:  CAS claimed -> back
//! ```
//!
//! Either sysmon sees the M's 0, or the M sees the claim. If both happen, both swap the claimed word and one
//! swap succeeds. In the light form the word of a P keeps its lent value while the M is in the runtime. Words
//! of different Ps differ, so the copy of an M that has another P by now never equals the word that sysmon
//! looks for.
//!
//! **Asking.** A retake needs a word that does not change, but code that enters the runtime often changes its
//! word each time. So sysmon also sets the bit Asked, whatever the tick. The M meets the bit where it reads
//! the word anyway: on entry, where the word then differs from the M's own, and on leaving. Only leaving acts
//! on the bit, because the runtime holds no lock there. A plain store of the M may overwrite a bit that was
//! just set; sysmon asks again at its next look.
//!
//! Rejected: state and tick in two words, because a returning M could take back a later stretch; and a lock.

use crate::sync::{
    atomic::{AtomicU64, Ordering},
    broken, impose_barrier, imposed_barrier,
};

const STATE: u64 = 0b11;
const IDLE: u64 = 0;
const HELD: u64 = 1;
const LENT: u64 = 2;
/// The bit that sysmon sets, in the light form, while it tries to take the P.
const CLAIMED: u64 = 0b100;
/// The bit by which sysmon asks the M to give the P up.
const ASKED: u64 = 0b1000;
const INDEX: u32 = 4;
const TICK: u32 = 16;
/// The number of indices that a word can hold: the most Ps that a runtime can have.
pub(crate) const MAX_INDEX: usize = 1 << (TICK - INDEX);

/// The state of a P.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// In the idle list; no thread holds it.
    Idle,
    /// Held by an M that is in the runtime.
    Held,
    /// Lent by an M that runs a G's code.
    Lent,
}

/// The word of a P at one moment. Two equal values mean that the P was neither lent nor taken between the two
/// looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen(u64);

impl Seen {
    /// Returns a word of that state, for tests of decisions that depend on looks.
    pub fn example(state: State) -> Seen {
        Seen(match state {
            State::Idle => IDLE,
            State::Held => HELD,
            State::Lent => LENT,
        })
    }

    /// Returns a word of that state with tick `n`, for the same tests.
    pub fn nth_example(state: State, n: u64) -> Seen {
        Seen(Seen::example(state).0 | n << TICK)
    }

    /// Returns the state of the P at that moment.
    pub fn state(self) -> State {
        match self.0 & STATE {
            IDLE => State::Idle,
            HELD => State::Held,
            _ => State::Lent,
        }
    }
}

/// The exact word by which an M lent its P. Only this word takes that P back on entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lent(u64);

/// The part of an M that sysmon reads: the word by which the M has lent its P. It is 0 while the M is in the
/// runtime.
#[derive(Debug)]
pub(crate) struct Lender(AtomicU64);

impl Lender {
    pub(crate) fn new() -> Self {
        Lender(AtomicU64::new(0))
    }

    /// Returns `true` if the M has lent its P by the word `seen`, and has not entered the runtime since. In
    /// the portable form it returns `false`. *Runs on: any thread.*
    pub(crate) fn has_lent(&self, seen: Seen) -> bool {
        self.0.load(Ordering::Relaxed) == seen.0
    }
}

/// The lease of one P. `P` gives it a cache line of its own, because sysmon reads the word while the M writes
/// it.
#[derive(Debug)]
pub(crate) struct Lease {
    word: AtomicU64,
    /// True in the light form.
    light: bool,
}

impl Lease {
    /// Makes the lease of an idle P with that index; `light` chooses the light form.
    pub(crate) fn new(index: usize, light: bool) -> Self {
        assert!(index < MAX_INDEX);
        Lease { word: AtomicU64::new((index as u64) << INDEX | IDLE), light }
    }

    /// Lends the P to a G that is about to run. Clears an earlier request of sysmon, which concerned the G
    /// that ran before. *Runs on: the holder, which is `m`.*
    #[inline]
    pub(crate) fn lend(&self, m: &Lender) -> Lent {
        // Relaxed: as in `lend_unless_asked`.
        self.lend_after(self.word.load(Ordering::Relaxed), m)
    }

    /// Lends the P to the G that called into the runtime. Returns `None` if sysmon has asked for the P: the
    /// caller then still holds the P and gives it up. *Runs on: the holder, which is `m`.*
    #[inline]
    pub(crate) fn lend_unless_asked(&self, m: &Lender) -> Option<Lent> {
        // Relaxed: while the word is not lent, only the holder changes it, except for the bits of sysmon. A
        // claim found here is of an earlier stretch: the store overwrites it, and sysmon's CAS then fails. A
        // request carries no other data.
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
        // Release: pairs with the Acquire of the next holder (`take_back` or `retake`). The next holder must
        // see all that this holder did to the queues, the pools and the counters.
        let order = if broken!("lease_lend_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        self.overwrite(word, order);
        if self.light {
            // Release: pairs with the Acquire load of this copy in `retake_light`.
            m.0.store(word, order);
        }
        Lent(word)
    }

    /// Takes the P back on entry. Calls `lost` if sysmon has taken the P since it was lent. The M then has no
    /// P. *Runs on: the M that lent the P, which is `m`.*
    #[inline]
    pub(crate) fn enter(&self, lent: Lent, m: &Lender, lost: impl FnOnce()) {
        if !self.take_back(lent, m) && !broken!("lease_lost_is_used") {
            lost();
        }
    }

    /// Takes the P back on entry. Returns `false` if sysmon has taken the P. *Runs on: the M that lent the P,
    /// which is `m`.*
    #[inline]
    pub(crate) fn take_back(&self, lent: Lent, m: &Lender) -> bool {
        if broken!("lease_take_back_unchecked") {
            self.word.store(lent.0 & !STATE | HELD, Ordering::Relaxed);
            return true;
        }
        if !self.light {
            return self.win(lent.0) || self.win_asked(lent);
        }
        // Relaxed on both: the barrier that sysmon imposes in `retake_light` orders them, and
        // `imposed_barrier` keeps the compiler from reordering them. There is nothing to acquire: if the P is
        // kept, only this M has held it.
        m.0.store(0, Ordering::Relaxed);
        if !broken!("lease_light_no_barrier") {
            imposed_barrier();
        }
        self.word.load(Ordering::Relaxed) == lent.0 || self.take_back_changed(lent)
    }

    /// Takes the P back if the word has changed: it is claimed, asked for, or lost.
    #[cold]
    fn take_back_changed(&self, lent: Lent) -> bool {
        // Relaxed: as in `take_back`. Sysmon may be swapping the same word: it takes the P, or has just
        // restored the word.
        let claimed = lent.0 | CLAIMED;
        match self.word.compare_exchange(claimed, lent.0, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            // A request does not take the P: the tick is the same, and the M reads the bit when it leaves.
            Err(now) if broken!("lease_asked_is_lost") => now == lent.0,
            Err(now) => now & !ASKED == lent.0,
        }
    }

    /// As `win`, for a word that carries the bit Asked. The bit stays set for the way out.
    #[cold]
    fn win_asked(&self, lent: Lent) -> bool {
        let (asked, held) = (lent.0 | ASKED, lent.0 & !STATE | HELD | ASKED);
        // Acquire: as in `win`.
        !broken!("lease_asked_is_lost")
            && self.word.compare_exchange(asked, held, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Returns `true` if `m` runs user code and sysmon has taken this P, which `m` had lent. In the portable
    /// form it returns `false`. *Runs on: the M that lent the P, also in a signal handler.*
    pub(crate) fn is_lost(&self, m: &Lender) -> bool {
        // Relaxed on both: this thread itself wrote the copy, and a word that is read too late is that of a P
        // not yet taken. A claim does not take the P yet.
        let lent = m.0.load(Ordering::Relaxed);
        let bits = if broken!("lease_claimed_is_lost") { ASKED } else { CLAIMED | ASKED };
        lent != 0 && self.word.load(Ordering::Relaxed) & !bits != lent
    }

    /// Asks the M that has the P to give it up when that M next leaves the runtime. A store of the M may
    /// overwrite the request; sysmon then repeats it. If the P has another holder by then, that holder gives
    /// it up without need. *Runs on: sysmon.*
    pub(crate) fn ask(&self) {
        // Relaxed: the bit carries no other data. As a read-modify-write it continues the release sequence of
        // the holder's store.
        self.word.fetch_or(ASKED, Ordering::Relaxed);
    }

    /// Takes the P if it has stayed lent since `seen`; returns `true` if so, and the caller is then the
    /// holder. `holder` returns the M that holds or has lent the P at the time of the call. *Runs on: sysmon,
    /// one thread at a time.*
    pub(crate) fn retake<'m>(&self, seen: Seen, holder: impl Fn() -> Option<&'m Lender>) -> bool {
        let seen = if broken!("lease_retake_any_tick") { self.look(&holder) } else { seen };
        if seen.state() != State::Lent {
            return false;
        }
        if broken!("lease_retake_load_store") && self.look(&holder) == seen {
            self.word.store(seen.0 & !STATE | HELD, Ordering::Relaxed);
            return true;
        }
        // Relaxed: the CAS below decides. Only sysmon sets the bit, so no other thread sets it in between.
        let asked = self.word.load(Ordering::Relaxed) & ASKED;
        if self.light { self.retake_light(seen.0, asked, holder) } else { self.win(seen.0 | asked) }
    }

    fn retake_light<'m>(&self, lent: u64, asked: u64, holder: impl Fn() -> Option<&'m Lender>) -> bool {
        let claimed = lent | CLAIMED;
        // Acquire: pairs with the Release of `lend`, which follows `M::acquire`: so `holder` finds the M that
        // lent the P.
        if self.word.compare_exchange(lent | asked, claimed, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        let imposed = impose_barrier();
        // Acquire: pairs with the Release of this copy in `lend_after`: sysmon sees what the M did with the
        // P.
        let copy = |m: &Lender| {
            m.0.load(if broken!("lease_win_relaxed") { Ordering::Relaxed } else { Ordering::Acquire })
        };
        let still = imposed && (holder().is_some_and(|m| copy(m) == lent) || broken!("lease_light_no_copy"));
        let next = if still { (lent & !STATE).wrapping_add(1 << TICK) | HELD } else { lent };
        if broken!("lease_light_store") {
            self.word.store(next, Ordering::Relaxed);
            return still;
        }
        // Relaxed: the load of the copy has acquired. The M may be swapping the claimed word back; one of the
        // two succeeds.
        let swapped = self.word.compare_exchange(claimed, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        swapped && still
    }

    #[inline]
    fn win(&self, lent: u64) -> bool {
        // Acquire: pairs with the Release of `lend_after`. A failure needs no order: the loser touches
        // nothing of the P.
        let order = if broken!("lease_win_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
        self.word.compare_exchange(lent, lent & !(STATE | ASKED) | HELD, order, Ordering::Relaxed).is_ok()
    }

    /// Returns the word at this moment. In the light form the state is Held, not Lent, if the M's copy shows
    /// that the M is in the runtime. `holder` is the same as in `retake`. *Runs on: any thread.*
    pub(crate) fn look<'m>(&self, holder: impl Fn() -> Option<&'m Lender>) -> Seen {
        // Relaxed: a look only says when a retake is worth trying; `retake` decides.
        let word = self.word.load(Ordering::Relaxed) & !(CLAIMED | ASKED);
        let lent = word & STATE == LENT;
        let in_runtime = || holder().is_none_or(|m| m.0.load(Ordering::Relaxed) != word);
        Seen(if self.light && lent && in_runtime() { word & !STATE | HELD } else { word })
    }

    /// Held -> Idle. *Runs on: the holder, under the lock of the idle list.*
    pub(crate) fn set_idle(&self) {
        self.set(IDLE);
    }

    /// Idle -> Held. *Runs on: a thread that takes the P out of the idle list, under the lock of that list.*
    pub(crate) fn set_held(&self) {
        debug_assert_eq!(
            self.word.load(Ordering::Relaxed) & STATE,
            IDLE,
            "only an idle P can be taken from the list"
        );
        self.set(HELD);
    }

    fn set(&self, state: u64) {
        // Relaxed on both: the lock of the idle list orders all accesses to an idle P.
        let word = self.word.load(Ordering::Relaxed);
        self.overwrite(word & !(STATE | CLAIMED | ASKED) | state, Ordering::Relaxed);
    }

    /// Stores the word. *Runs on: the holder.*
    #[inline]
    fn overwrite(&self, word: u64, order: Ordering) {
        #[cfg(not(loom))]
        self.word.store(word, order);
        // With a plain store, loom would let sysmon's CAS succeed on the value that this store overwrites; no
        // machine does that. With a swap, loom does not.
        #[cfg(loom)]
        self.word.swap(word, order);
    }

    /// Returns how often the P was lent: sysmon's measure of the scheduler's progress.
    #[cfg(not(loom))]
    pub(crate) fn tick(&self) -> u64 {
        self.word.load(Ordering::Relaxed) >> TICK
    }
}

#[cfg(all(test, loom))]
mod models;

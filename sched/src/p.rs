//! A P: the right to run Gs, and the state that the holder of this right uses.
//!
//! Any thread may touch the fields of [`P`]: they are atomic, or synchronise themselves. The fields of
//! [`Own`] belong to the thread that holds the P. A [`Held`] is the proof that this thread holds the P, and
//! the only way to reach `Own`. The lease (`p/lease.rs`) decides which thread holds the P.

#![allow(unsafe_code)]

mod busy;
pub(crate) mod closing;
pub(crate) mod counters;
pub(crate) mod event;
pub(crate) mod gate;
pub(crate) mod histogram;
pub(crate) mod lease;
pub(crate) mod locked_queue;
pub(crate) mod measured;
mod next_slot;
pub(crate) mod recorder;
pub(crate) mod ring;
pub(crate) mod run_queue;
pub(crate) mod sampler;
mod steal_queue;

use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use timers::Timer;

use crate::stack::pool::CorosOfP;
use busy::Busy;
use counters::Counters;
use gate::Gate;
use lease::Lease;
use measured::Measured;
use recorder::Recorder;
use run_queue::RunQueue;
use sampler::Sampler;

/// One P: the part that any thread may touch. The rest is behind [`Held`].
// In the order of the declaration, so that the index, which thieves read, lies apart from all that the holder
// writes.
#[repr(C)]
pub(crate) struct P {
    pub(crate) index: usize,
    pub(crate) lease: CachePadded<Lease>,
    /// The M that holds or has lent this P. Sysmon reads it.
    holder: AtomicPtr<Holder>,
    pub(crate) queue: RunQueue,
    pub(crate) counters: Counters,
    pub(crate) measured: Measured,
    /// The flight recorder. Only the holder records.
    pub(crate) recorder: Recorder,
    /// Counts the rounds of the holder, for everything that happens every so many rounds.
    /// The holder writes, sysmon reads.
    rounds: AtomicU32,
    /// For how long the G had kept the lent P when sysmon asked for the P, in ns.
    away_ns: AtomicU64,
    /// How long the P was in use, as far as sysmon saw.
    pub(crate) busy: Busy,
    own: Own,
}

/// In one round of this many the global queue and the network come first (Go: `schedtick % 61`), or earlier
/// (`poll_now`).
pub(crate) const GLOBAL_FIRST: u32 = 61;

/// In `Own::alerts`: an M left the netpoller or a promise to look, so perhaps no M watches the timers of any
/// P and the network. See `poll::ensure_watcher`.
const UNCOVERED: u8 = 1;
/// In `Own::alerts`: the flight recorder is on, as far as this P has noticed.
const RECORDS: u8 = 2;

/// In `Own::alerts`: perhaps no M watches the first timer of this P, because a G has just added that timer.
const ADDED: u8 = 4;

/// The part of a P that only its holder touches.
pub(crate) struct Own {
    /// Picks from the run-next slot since a queue last had its turn.
    pub(crate) slice: Cell<u32>,
    /// The next round in which the global queue and the network come first.
    looks_in: Cell<u32>,
    coros: CorosOfP,
    pub(crate) gate: Gate,
    /// Chooses the wake-ups that are measured.
    pub(crate) sampler: Sampler,
    /// What the M must do before it runs a G: a set of [`UNCOVERED`], [`ADDED`] and [`RECORDS`]. One look
    /// serves all.
    alerts: Cell<u8>,
    /// The state of the generator behind `random_below`.
    seed: Cell<u64>,
}

// SAFETY: `own` and the holder's side of `queue` are reached only through a `Held`. A `Held` exists only on
// the thread that holds the P; the Release and Acquire of `lease` order one holder after the other. All other
// fields, and the length of `own.coros`, are atomic.
unsafe impl Sync for P {}
// SAFETY: no field belongs to a particular thread; see `Sync` above for what orders the holders.
unsafe impl Send for P {}

impl P {
    /// `light` is for the lease.
    pub(crate) fn new(index: usize, light: bool, sampler: Sampler) -> Self {
        P {
            index,
            lease: CachePadded::new(Lease::new(index, light)),
            holder: AtomicPtr::new(std::ptr::null_mut()),
            queue: RunQueue::new(),
            counters: Counters::default(),
            measured: Measured::default(),
            recorder: Recorder::new(),
            // The first round is 0.
            rounds: AtomicU32::new(u32::MAX),
            away_ns: AtomicU64::new(0),
            busy: Busy::default(),
            own: Own {
                slice: Cell::new(0),
                // The first round.
                looks_in: Cell::new(0),
                coros: CorosOfP::new(),
                gate: Gate::new(),
                sampler,
                alerts: Cell::new(0),
                seed: Cell::new(index as u64),
            },
        }
    }

    /// Returns the list of idle coroutines of a P that no M uses any more.
    pub(crate) fn coros_mut(&mut self) -> &CorosOfP {
        &self.own.coros
    }

    /// Returns about how many coroutines lie in the P's pool. *Runs on: any thread.*
    pub(crate) fn stacks_at_hand(&self) -> usize {
        self.own.coros.len()
    }

    /// Asks the G that runs on the P to give it up when the G next leaves the runtime. The G has kept the P
    /// for `away_ns`. *Runs on: sysmon.*
    pub(crate) fn ask(&self, away_ns: u64) {
        self.away_ns.store(away_ns, Ordering::Relaxed);
        self.lease.ask();
    }

    /// Returns for how long the G had kept the P at the last `ask`, in ns.
    pub(crate) fn away_ns(&self) -> u64 {
        self.away_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Notes the M that holds this P. *Runs on: that M.*
    #[inline]
    pub(crate) fn set_holder(&self, m: *const Holder) {
        // Release: pairs with `holder_ptr`; sysmon then sees the initialised M.
        self.holder.store(m.cast_mut(), Ordering::Release);
    }

    /// Returns the M that held or had lent the P a moment ago. *Runs on: any thread.*
    pub(crate) fn holder_ptr(&self) -> *const Holder {
        // Acquire: pairs with `set_holder`.
        self.holder.load(Ordering::Acquire)
    }
}

/// An M, as a type that only `m.rs` can look into.
pub(crate) struct Holder(());

/// Proves that this thread holds the P, and gives access to its [`Own`].
#[derive(Clone, Copy)]
pub(crate) struct Held<'p> {
    p: &'p P,
    /// Keeps the value from being sent to another thread.
    _here: std::marker::PhantomData<*const ()>,
}

impl<'p> Held<'p> {
    /// # Safety
    /// One of two conditions holds while the value is used. Either the lease of `p` says Held and this thread
    /// holds `p`. Or `p` is in the idle list and this thread has the lock of that list, so that no other
    /// thread can take `p`.
    #[inline]
    pub(crate) unsafe fn new(p: &'p P) -> Self {
        Held { p, _here: std::marker::PhantomData }
    }

    /// Returns the P's list of idle coroutines.
    #[inline]
    pub(crate) fn coros(self) -> &'p CorosOfP {
        &self.p.own.coros
    }

    #[inline]
    pub(crate) fn own(self) -> &'p Own {
        &self.p.own
    }

    /// Returns the number of the last round.
    #[inline]
    pub(crate) fn round(self) -> u32 {
        // Relaxed: only the holder writes.
        self.p.rounds.load(Ordering::Relaxed)
    }

    /// Counts a round and returns its number.
    #[inline]
    pub(crate) fn next_round(self) -> u32 {
        let round = self.round().wrapping_add(1);
        self.p.rounds.store(round, Ordering::Relaxed);
        round
    }

    /// Returns `true` if the global queue and the network come first in this round.
    #[inline]
    pub(crate) fn looks_in(self, round: u32) -> bool {
        round == self.own().looks_in.get()
    }

    /// Lets the global queue and the network come first so many rounds after this one, at least one.
    pub(crate) fn looks_after(self, rounds: u32) {
        self.own().looks_in.set(self.round().wrapping_add(rounds));
    }

    #[inline]
    pub(crate) fn p(self) -> &'p P {
        self.p
    }

    /// Notes that the holder has added `timer`, which may be the first of its heap. The holder looks at its
    /// timers soon, or calls `ensure_watcher` before it runs another G.
    #[inline]
    pub(crate) fn notes_first_timer(self, timer: &Timer) {
        // The timer may lie in the heap of another P, on which its G parked before.
        self.own().set_alert(if timer.owner() == self.index { ADDED } else { UNCOVERED });
    }
}

impl std::ops::Deref for Held<'_> {
    type Target = P;

    #[inline]
    fn deref(&self) -> &P {
        self.p
    }
}

impl Own {
    /// Returns `true` if `lacks_watcher` or `records` does.
    #[inline]
    pub(crate) fn is_alert(&self) -> bool {
        self.alerts.get() != 0
    }

    /// Returns `true` if perhaps no M watches the timers of this P, or of any P.
    #[inline]
    pub(crate) fn lacks_watcher(&self) -> bool {
        self.alerts.get() & (UNCOVERED | ADDED) != 0
    }

    /// Returns `true` if perhaps no M watches the timers of any P.
    pub(crate) fn is_uncovered(&self) -> bool {
        self.alerts.get() & UNCOVERED != 0
    }

    /// Notes that perhaps no M watches the timers of any P.
    #[inline]
    pub(crate) fn set_uncovered(&self) {
        self.set_alert(UNCOVERED);
    }

    #[inline]
    fn set_alert(&self, alert: u8) {
        self.alerts.set(self.alerts.get() | alert);
    }

    /// Undoes `set_uncovered` and `Held::notes_first_timer`.
    pub(crate) fn set_covered(&self) {
        self.alerts.set(self.alerts.get() & !(UNCOVERED | ADDED));
    }

    /// Returns `true` if the flight recorder is on, as far as this P has noticed.
    #[inline(always)]
    pub(crate) fn records(&self) -> bool {
        self.alerts.get() & RECORDS != 0
    }

    #[inline]
    pub(crate) fn set_records(&self, records: bool) {
        if records != self.records() {
            self.change_records();
        }
    }

    #[cold]
    #[inline(never)]
    fn change_records(&self) {
        self.alerts.set(self.alerts.get() ^ RECORDS);
        self.sampler.look_at_each(self.records());
    }

    /// Returns a pseudo-random number below `n`, to spread thieves over their victims.
    pub(crate) fn random_below(&self, n: usize) -> usize {
        let mut random = fastrand::Rng::with_seed(self.seed.get());
        let number = random.usize(..n);
        self.seed.set(random.get_seed());
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{apart, lines};

    /// A G that has parked on another P has its timer in the heap of that P. `ensure_watcher` looks there
    /// only if all Ps are uncovered.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no processor's counter")]
    fn a_first_timer_in_the_heap_of_another_p_uncovers_all() {
        let timer = Timer::new();
        for index in 0..2 {
            let p = P::new(index, false, Sampler::new(false, false));
            p.lease.set_held();
            // SAFETY: the lease says Held, and no other thread has the P.
            let held = unsafe { Held::new(&p) };
            held.notes_first_timer(&timer);
            assert!(held.own().lacks_watcher());
            assert_eq!(held.own().is_uncovered(), timer.owner() != index);
        }
    }

    #[test]
    fn the_holder_writes_apart_from_what_thieves_and_sysmon_read() {
        let read = [lines!(P, index), lines!(P, lease)];
        let written = [
            lines!(P, queue),
            lines!(P, counters),
            lines!(P, measured),
            lines!(P, recorder),
            lines!(P, rounds),
            lines!(P, own),
        ];
        assert!(apart(&read[0], &read[1]));
        for (i, written) in written.iter().enumerate() {
            assert!(read.iter().all(|read| apart(read, written)), "{i}: {written:?}, {read:?}");
        }
    }
}

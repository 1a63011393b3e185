//! A P: the right to run Gs, and all that goes with it.

#![allow(unsafe_code)]

pub(crate) mod counters;
pub(crate) mod gate;
pub(crate) mod lease;
pub(crate) mod run_queue;

use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::coros::CoroList;
use crate::m::M;
use counters::Counters;
use gate::Gate;
use lease::{Lease, Lender, Seen};
use run_queue::RunQueue;

/// One P. What others may touch stands here; the rest is behind [`Held`].
pub(crate) struct P {
    pub(crate) index: usize,
    pub(crate) lease: CachePadded<Lease>,
    /// The M that holds or lent it, for sysmon's eyes.
    pub(crate) holder: AtomicPtr<M>,
    pub(crate) queue: RunQueue,
    pub(crate) counters: Counters,
    /// Looks for a G, for all that happens every so often; written by the holder, read by sysmon.
    rounds: AtomicU32,
    /// For how long its G had been away when sysmon asked for it, in ns.
    pub(crate) away_ns: AtomicU64,
    own: Own,
}

/// What only the holder touches.
pub(crate) struct Own {
    /// Picks from the run-next slot since a queue had its turn.
    pub(crate) slice: Cell<u32>,
    pub(crate) coros: CoroList,
    pub(crate) gate: Gate,
    /// A timer was added, or an M left the netpoller: perhaps no M blocks there. See `poll::cover`.
    pub(crate) uncovered: Cell<bool>,
    random: Cell<u32>,
}

// SAFETY: `own` and the holder's side of `queue` are reached only through a `Held`, which exists only on the thread
// that holds the P (see `lease`, whose Release and Acquire order one holder after the other); the rest, and the length of
// `own.coros`, is atomic.
unsafe impl Sync for P {}
// SAFETY: likewise; nothing in it belongs to a thread.
unsafe impl Send for P {}

impl P {
    pub(crate) fn new(index: usize, light: bool) -> Self {
        P {
            index,
            lease: CachePadded::new(Lease::new(index, light)),
            holder: AtomicPtr::new(std::ptr::null_mut()),
            queue: RunQueue::new(),
            counters: Counters::default(),
            rounds: AtomicU32::new(0),
            away_ns: AtomicU64::new(0),
            own: Own {
                slice: Cell::new(0),
                coros: CoroList::new(),
                gate: Gate::new(),
                uncovered: Cell::new(false),
                random: Cell::new(0x9E37_79B9 ^ (index as u32 + 1)),
            },
        }
    }

    /// How many coroutines it has at hand, roughly. *Runs on: any thread.*
    pub(crate) fn stacks_at_hand(&self) -> usize {
        self.own.coros.len()
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// *Runs on: any thread.*
    pub(crate) fn look(&self) -> Seen {
        self.lease.look(|| self.lender())
    }

    /// Takes it, if it has stayed lent since `seen`; see [`Lease::retake`]. *Runs on: sysmon.*
    pub(crate) fn retake(&self, seen: Seen) -> bool {
        self.lease.retake(seen, || self.lender())
    }

    fn lender(&self) -> Option<&Lender> {
        self.holder().map(|m| &m.lender)
    }

    /// The M that holds or lent it, as of a moment ago.
    pub(crate) fn holder(&self) -> Option<&M> {
        // Acquire: pairs with the Release in `M::acquire`. SAFETY: Ms live as long as their runtime, as Ps do.
        unsafe { self.holder.load(Ordering::Acquire).as_ref() }
    }
}

/// Evidence that this thread holds the P, and so may touch what is its own.
#[derive(Clone, Copy)]
pub(crate) struct Held<'p> {
    p: &'p P,
    /// Not for other threads.
    _here: std::marker::PhantomData<*const ()>,
}

impl<'p> Held<'p> {
    /// # Safety
    /// The lease of `p` says Held, and it is this thread that holds it, for as long as the value is used; or `p` is in
    /// the idle list, whose lock this thread has: nobody can take it meanwhile.
    #[inline]
    pub(crate) unsafe fn new(p: &'p P) -> Self {
        Held { p, _here: std::marker::PhantomData }
    }

    #[inline]
    pub(crate) fn own(self) -> &'p Own {
        &self.p.own
    }

    /// The next round's number.
    #[inline]
    pub(crate) fn next_round(self) -> u32 {
        // Relaxed: only the holder writes.
        let round = self.p.rounds.load(Ordering::Relaxed).wrapping_add(1);
        self.p.rounds.store(round, Ordering::Relaxed);
        round
    }

    #[inline]
    pub(crate) fn p(self) -> &'p P {
        self.p
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
    /// A number below `n`, good enough to spread thieves (xorshift32).
    pub(crate) fn random_below(&self, n: usize) -> usize {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.random.set(x);
        x as usize % n
    }
}

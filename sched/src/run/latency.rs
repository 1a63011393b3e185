//! Scheduling latency: how long a G that can run waits for a P. Measured are the wake-ups that the sampler of
//! the P chooses.
//!
//! ```text
//!   the waker                                   the M that runs the G
//!   sampler of its P: look at this wake-up?     is the binding of the G special? (it is asked anyway)
//!   if so: is it a sample?
//!   stamp    time -> table, sample -> binding   run_sampled    latency = now - time
//!   put the G into a run queue                                 run the G; how long does it run?
//! ```
//!
//! A sampled G is also timed from its resume to its next stop. So the samples tell how long polls of futures
//! and slices of closures take, and which spawn places they belong to.
//!
//! The time lies in a table of the runtime and not in the G, which has no room for it. A G finds its place by
//! its index. If another G has that place, the next wake-up is the sample instead.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use timers::clock;

use crate::g::GRef;
use crate::m::OwnM;
use crate::p::Held;
use crate::p::event::{By, Stopped};
use crate::p::measured::Measured;
use crate::run::places::Places;
use crate::run::sched::Sched;
use crate::watch::spawn_stacks::Spawns;

/// How many samples can be on their way at a time.
const STAMPS: usize = 1024;
/// The same if all wake-ups are measured. Indices of Gs are dense, so up to so many Gs do not share a place.
const STAMPS_FOR_ALL: usize = 1 << 16;
/// Of the wake-ups by threads without a P, one in so many is a sample, as a power of two.
const OUTSIDE: u8 = 3;

/// When the G with this index became ready.
#[derive(Default)]
struct Stamp {
    /// 0 for none.
    index: AtomicU32,
    ns: AtomicU64,
}

/// The latencies of one runtime, by place, and what its reader needs.
pub(crate) struct Latency {
    stamps: Box<[Stamp]>,
    all: bool,
    /// Counts the wake-ups by threads without a P.
    outside: AtomicU32,
    /// What Gs did that had no P any more when it was over.
    pub(crate) without_p: Measured,
    pub(crate) places: Places,
}

impl Latency {
    pub(crate) fn new(all: bool) -> Self {
        let stamps = if all { STAMPS_FOR_ALL } else { STAMPS };
        Latency {
            stamps: (0..stamps).map(|_| Stamp::default()).collect(),
            all,
            outside: AtomicU32::new(0),
            without_p: Measured::default(),
            places: Places::default(),
        }
    }

    fn stamp_of(&self, g: GRef) -> &Stamp {
        &self.stamps[g.index() as usize % self.stamps.len()]
    }

    /// Notes that `g` is ready since `now`. Returns `false` if another G has its place in the table. *Runs
    /// on: the thread that makes `g` runnable.*
    fn put(&self, g: GRef, now: u64) -> bool {
        let stamp = self.stamp_of(g);
        // Acquire: pairs with the Release in `take`, so that the G before has read its time.
        if stamp.index.compare_exchange(0, g.index(), Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        // Relaxed: the run queue publishes it to the M that runs `g`.
        stamp.ns.store(now, Ordering::Relaxed);
        true
    }

    /// Returns since when `g` was ready. *Runs on: the M that runs `g`, whose wake-up is a sample.*
    fn take(&self, g: GRef) -> u64 {
        let stamp = self.stamp_of(g);
        debug_assert_eq!(stamp.index.load(Ordering::Relaxed), g.index());
        let ns = stamp.ns.load(Ordering::Relaxed);
        // Release: pairs with the Acquire in `put`.
        stamp.index.store(0, Ordering::Release);
        ns
    }

    /// Stamps `g`, which becomes ready now, if the wake-up by this thread without a P is a sample. *Runs on:
    /// the thread that makes `g` runnable.*
    pub(crate) fn stamp_outside(&self, g: GRef) {
        // Relaxed: a count.
        let n = self.outside.fetch_add(1, Ordering::Relaxed);
        let weight = if self.all { 0 } else { OUTSIDE };
        if n.is_multiple_of(1 << weight) && self.put(g, clock::now()) {
            g.binding.set_sample(weight);
        }
    }
}

/// Looks at the wake-up of `g`, because the sampler of this P says so: measures and records it. *Runs on: the
/// waker, which holds the P and then puts `g` into a run queue.*
// Without the `Sched`, which the callers would have to keep in a register for this call.
#[cold]
#[inline(never)]
pub(crate) fn look_at_wake_up(held: Held<'_>, g: GRef) {
    stamp_if_sample(held, g);
    held.readies(g, By::Caller);
}

/// As `look_at_wake_up`, for one of many Gs that are made ready at one moment.
#[inline(never)]
pub(crate) fn look_at_one_of_many(held: Held<'_>, g: GRef, by: By) {
    stamp_if_sample(held, g);
    held.readies_one_of_many(g, by);
}

#[inline(always)]
fn stamp_if_sample(held: Held<'_>, g: GRef) {
    if held.own().sampler.ends_at_sample() {
        sched_of(held).stamp(held, g);
    }
}

/// As `look_at_wake_up`, for a new G. *Runs on: the spawner, which holds the P.*
#[cold]
#[inline(never)]
pub(crate) fn look_at_spawn(held: Held<'_>, g: GRef) {
    let sched = sched_of(held);
    sched.keep_spawn_stack(g);
    if held.own().sampler.ends_at_sample() {
        sched.stamp(held, g);
        if let Some(weight) = g.binding.sample() {
            sched.latency.places.spawned(g.place(), 1 << weight);
        }
    }
    held.spawns(g);
}

fn sched_of(held: Held<'_>) -> &Sched {
    held.p().holder().expect("an M holds the P").sched()
}

impl Sched {
    /// Keeps the stack of the caller with `g`, if it is asked for. *Runs on: the spawner, before an M can see
    /// `g` in a queue.*
    pub(crate) fn keep_spawn_stack(&self, g: GRef) {
        if let Some(stack) = self.spawns.as_ref().and_then(Spawns::stack) {
            g.origin.keep_stack(stack);
        }
    }

    /// As `look_at_wake_up`, for a G that has stopped on `m` and yields. Records its stop.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_at_yield(&self, m: OwnM<'_>, held: Held<'_>, g: GRef) {
        if held.own().sampler.ends_at_sample() {
            self.stamp(held, g);
        }
        if m.own().records.get() {
            m.record_stop(held, Stopped::Yield);
        }
    }

    /// Makes the wake-up of `g` a sample, as the sampler has said.
    #[cold]
    #[inline(never)]
    fn stamp(&self, held: Held<'_>, g: GRef) {
        let now = clock::now();
        let weight = held.own().sampler.take(now);
        if self.latency.put(g, now) {
            g.binding.set_sample(weight);
        } else {
            held.own().sampler.retry(weight);
        }
    }

    /// Runs `g`, whose wake-up is a sample of this weight, until it stops. *Runs on: `m`, which has the P
    /// `held`.*
    pub(crate) fn run_sampled(&self, m: OwnM<'_>, held: Held<'_>, g: GRef, weight: u8) {
        let (weight, began) = (1 << weight, clock::now());
        let waited = began.saturating_sub(self.latency.take(g));
        held.measured.latency.add(waited, weight);
        self.judge_wake(g, waited);
        let (polls, place) = (g.polls(), g.place());
        let Some(stop) = self.resume::<true>(m, held, g) else { return };
        let ran = clock::now().saturating_sub(began);
        self.ran(m, polls, ran, weight);
        self.latency.places.ran(place, waited, ran, weight);
        if self.stopped(m, g, stop) {
            self.run(m, g);
        }
    }

    /// Records a slice of a closure or a poll of a future.
    fn ran(&self, m: OwnM<'_>, polls: bool, ran: u64, weight: u64) {
        match m.held() {
            Some(held) => held.measured.runs(polls).add(ran, weight),
            None => self.latency.without_p.runs(polls).add_shared(ran, weight),
        }
    }
}

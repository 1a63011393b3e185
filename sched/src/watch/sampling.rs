//! Measured wake-ups: what the events do when the sampler of the P chooses one (`notes/latency.rs`), and the
//! run of its G.

use timers::clock;

use crate::g::GRef;
use crate::m::OwnM;
use crate::notes::latency::SampledRun;
use crate::p::Held;
use crate::p::event::{By, Stopped};
use crate::run::sched::Sched;

/// Looks at the wake-up of `g`, because the sampler of this P says so: measures and records it.
// Without the `Sched`, which the callers would have to keep in a register for this call.
#[cold]
#[inline(never)]
pub(super) fn look_at_wake_up(held: Held<'_>, g: GRef) {
    stamp_if_sample(held, g);
    held.readies(g, By::Caller);
}

#[inline(never)]
pub(super) fn look_at_one_of_many(held: Held<'_>, g: GRef, by: By) {
    stamp_if_sample(held, g);
    held.readies_one_of_many(g, by);
}

#[inline(always)]
fn stamp_if_sample(held: Held<'_>, g: GRef) {
    if held.own().sampler.ends_at_sample() {
        sched_of(held).stamp(held, g);
    }
}

#[cold]
#[inline(never)]
pub(super) fn look_at_spawn(held: Held<'_>, g: GRef) {
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

/// Wake-ups that are samples.
impl Sched {
    /// `g` is about to run after a wake-up that is a sample of this weight.
    pub(crate) fn on_sample_runs(&self, held: Held<'_>, g: GRef, weight: u8) -> SampledRun {
        let (weight, began) = (1 << weight, clock::now());
        let waited = began.saturating_sub(self.latency.take(g));
        held.measured.latency.add(waited, weight);
        self.judge_wake(g, waited);
        SampledRun { began, waited, weight, polls: g.polls(), place: g.place() }
    }

    /// The G of the sample has stopped. The G may have ended.
    pub(crate) fn on_sample_stops(&self, m: OwnM<'_>, sample: &SampledRun) {
        let &SampledRun { began, waited, weight, polls, place } = sample;
        let ran = clock::now().saturating_sub(began);
        match m.held() {
            Some(held) => held.measured.runs(polls).add(ran, weight),
            None => self.latency.without_p.runs(polls).add_shared(ran, weight),
        }
        self.latency.places.ran(place, waited, ran, weight);
    }

    #[cold]
    #[inline(never)]
    pub(super) fn look_at_yield(&self, m: OwnM<'_>, held: Held<'_>, g: GRef) {
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
}

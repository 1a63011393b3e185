//! Measured wake-ups: what the events do when the sampler of the P chooses one (`notes/latency.rs`), and the
//! run of its G.

use std::time::Duration;

use timers::clock;

use crate::g::GRef;
use crate::m::OwnM;
use crate::notes::events::{Events, OfM};
use crate::notes::hogs::Noted;
use crate::notes::latency::SampledRun;
use crate::p::Held;
use crate::p::event::{By, Stopped};

/// Looks at the wake-up of `g`, because the sampler of this P says so: measures and records it.
// Without the `Events`, which the callers would have to keep in a register for this call.
#[cold]
#[inline(never)]
pub(super) fn look_at_wake_up(held: Held<'_>, g: GRef, events: OfM) {
    stamp_if_sample(held, g, events);
    held.readies(g, By::Caller);
}

#[inline(never)]
pub(super) fn look_at_one_of_many(held: Held<'_>, g: GRef, by: By, events: OfM) {
    stamp_if_sample(held, g, events);
    held.readies_one_of_many(g, by);
}

#[inline(always)]
fn stamp_if_sample(held: Held<'_>, g: GRef, events: OfM) {
    if held.own().sampler.ends_at_sample() {
        of_p(held, events).stamp(held, g);
    }
}

#[cold]
#[inline(never)]
pub(super) fn look_at_spawn(held: Held<'_>, g: GRef, events: OfM) {
    let events = of_p(held, events);
    events.keep_spawn_stack(g);
    if held.own().sampler.ends_at_sample() {
        events.stamp(held, g);
        if let Some(weight) = g.binding.sample() {
            events.latency.places.spawned(g.place(), 1 << weight);
        }
    }
    held.spawns(g);
}

fn of_p(held: Held<'_>, events: OfM) -> &Events {
    events(held.p().holder().expect("an M holds the P"))
}

/// Wake-ups that are samples.
impl Events {
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

    /// Leaves the reader a note that `g` ran `waited` ns after it could have, if that is too late. *Runs on:
    /// the M that runs `g`.*
    fn judge_wake(&self, g: GRef, waited: u64) {
        let Some(bound) = self.late_wake else { return };
        let late = Duration::from_nanos(waited);
        if late >= bound
            && let Some(notes) = &self.hogs
        {
            notes.note(&|| Noted::Late {
                id: g.id(),
                name: g.name().map(Into::into),
                place: g.place(),
                late,
            });
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

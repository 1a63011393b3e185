//! Measured wake-ups: what the events do when the sampler of the P chooses one (`notes/latency.rs`), and the
//! run of its G.

use std::time::Duration;

use timers::clock;

use crate::g::GRef;
use crate::m::OwnM;
use crate::notes::events::Events;
use crate::notes::hogs::Noted;
use crate::p::Held;
use crate::p::event::{By, Stopped};

/// Wake-ups that are samples.
impl Events {
    /// `g` runs after a wake-up that is a sample of this weight. `run` runs it until it stops, and returns
    /// `None` if it has not run. Returns what `run` returns.
    pub(crate) fn on_sampled_run<T>(
        &self,
        m: OwnM<'_>,
        held: Held<'_>,
        g: GRef,
        weight: u8,
        run: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        let (weight, began) = (1 << weight, clock::now());
        let waited = began.saturating_sub(self.latency.take(g));
        held.measured.latency.add(waited, weight);
        self.judge_wake(g, waited);
        // The G may have ended when it has stopped.
        let (polls, place) = (g.polls(), g.place());
        let stop = run()?;
        let ran = clock::now().saturating_sub(began);
        match m.held() {
            Some(held) => held.measured.runs(polls).add(ran, weight),
            None => self.latency.without_p.runs(polls).add_shared(ran, weight),
        }
        self.latency.places.ran(place, waited, ran, weight);
        Some(stop)
    }

    /// Looks at the wake-up of `g`, because the sampler of this P says so: measures and records it.
    #[cold]
    #[inline(never)]
    pub(super) fn look_at_wake_up(&self, held: Held<'_>, g: GRef, by: By) {
        if held.own().sampler.ends_at_sample() {
            self.stamp(held, g);
        }
        match by {
            By::Caller | By::Scheduler => held.readies(g, by),
            By::Timer | By::Network => held.readies_in_moment(g, by),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn look_at_spawn(&self, held: Held<'_>, g: GRef) {
        self.keep_spawn_stack(g);
        if held.own().sampler.ends_at_sample() {
            self.stamp(held, g);
            if let Some(weight) = g.binding.sample() {
                self.latency.places.spawned(g.place(), 1 << weight);
            }
        }
        held.spawns(g);
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

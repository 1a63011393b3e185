//! The main loop of an M: finds a G, runs it until it stops, and acts on the reason. Also fires the timers of
//! a P.

#![allow(unsafe_code)]

use std::ptr;

use crate::g::own::OwnG;
use crate::g::payload::Stop;
use crate::g::wait::Cancel;
use crate::g::why::Why;
use crate::g::{GRef, Status};
use crate::m::OwnM;
use crate::m::release::release;
use crate::notes::events::{At, Left, Stops, on_delay};
use crate::p::{GLOBAL_FIRST, Held};
use crate::run::boundary;
use crate::run::sched::Sched;
use crate::stack::coro::Coro;
use crate::sync::imposed_barrier;

impl Sched {
    /// Runs Gs until the M is to end. *Runs on: `m`, on its own stack.*
    pub(crate) fn run_m(&self, m: OwnM<'_>) {
        while let Some(g) = self.chosen_g(m).or_else(|| self.find_runnable(m)) {
            self.run(m, g);
        }
    }

    /// Takes the next G from the queues of this P, from the M's own queue, or from the global queue. Fires
    /// due timers first.
    #[inline]
    pub(crate) fn next_g(&self, m: OwnM<'_>, held: Held<'_>) -> Option<GRef> {
        let own = held.own();
        let round = held.next_round();
        if held.looks_in(round) {
            held.looks_after(GLOBAL_FIRST);
            self.publish_handed(held);
            self.open_to_thieves(held);
            self.take_turns(m);
            self.poll_now(m, held, true);
            on_delay(At::P(held));
            self.poll_station(m);
            if self.coros.shortage.anyone_waits() {
                self.share_stacks(held);
            }
            if let Some(g) = self.global.pop() {
                return Some(g);
            }
        }
        self.run_own_timers(held);
        let mut slice = own.slice.get();
        let g = if m.home.is_empty() {
            held.queue.pop(round, &mut slice)
        } else {
            self.publish_handed(held);
            pop_also_home(m, held, round, &mut slice)
        };
        own.slice.set(slice);
        g.or_else(|| {
            on_delay(At::P(held));
            self.global.pop_batch(self.procs(), |g| held.queue.put_woken(g))
        })
    }

    /// Shows the G that was handed to this P to other Ms, because this M may run another G first, or gives
    /// the P up.
    #[inline]
    pub(crate) fn publish_handed(&self, held: Held<'_>) {
        if held.queue.publish_handed() {
            self.wake_for_one(held);
        }
    }

    /// Lets thieves take the G in the slot of this P, once there are other Ps (`p/next_slot.rs`).
    #[inline]
    fn open_to_thieves(&self, held: Held<'_>) {
        if !held.queue.is_open() && self.procs() > 1 && held.queue.open() {
            self.wake_for_one(held);
        }
    }

    /// Runs `g` until it parks, yields, waits for a poll or ends. *Runs on: `m`, with a P.*
    #[inline(always)]
    pub(crate) fn run(&self, m: OwnM<'_>, g: GRef) {
        if self.config.own_locals {
            return self.run_with_locals(m, g);
        }
        loop {
            let Some(held) = self.may_run(m, g) else { return };
            let Some(stop) = self.resume_g::<false>(m, held, g) else { return };
            if !self.stopped(m, g, stop) {
                return;
            }
        }
    }

    /// Returns the P of `m` if `m` is to run `g`. The status of `g` is then that it runs. *Runs on: `m`, with
    /// a P.*
    #[inline(always)]
    pub(crate) fn may_run<'m>(&self, m: OwnM<'m>, g: GRef) -> Option<Held<'m>> {
        let Some(held) = m.held() else {
            // The wait of `g` was decided before its commit, and sysmon has taken the P.
            self.queue_without_p(m, g);
            return None;
        };
        g.set_status(Status::Running);
        // A dumper may watch `g` from here on: `g/binding.rs`.
        imposed_barrier();
        if g.binding.is_special() && self.is_done_with(m, held, g) {
            return None;
        }
        Some(held)
    }

    /// Resumes `g` and returns why it stopped; `None` if `g` waits for a stack instead. The status of `g` is
    /// that it runs. `MAY_OWN` is false where no green thread has thread-locals of its own.
    #[inline(always)]
    pub(crate) fn resume_g<const MAY_OWN: bool>(&self, m: OwnM<'_>, held: Held<'_>, g: GRef) -> Option<Stop> {
        if !self.prepare(m, held, g) {
            return None;
        }
        // SAFETY: `g` came out of a run queue, so only this M uses it, and it has a coroutine.
        let resume = || unsafe {
            if MAY_OWN {
                Coro::resume(ptr::from_ref(m.shared()).expose_provenance(), || m.homes.is_any(), g)
            } else {
                Coro::switch_to(g)
            }
        };
        #[cfg(feature = "other-budget")]
        let stop = crate::run::other_budget::apart(resume);
        #[cfg(not(feature = "other-budget"))]
        let stop = resume();
        m.set_running(None);
        Some(stop)
    }

    /// Gives `g` what it needs to run. Its status is that it runs. Returns `false` if `g` waits for a stack
    /// instead.
    #[inline(always)]
    pub(crate) fn prepare(&self, m: OwnM<'_>, held: Held<'_>, g: GRef) -> bool {
        if g.coro().is_null() {
            match self.coros.take(held.coros()) {
                Ok(coro) => g.set_coro(coro),
                Err(error) => {
                    g.set_status(Status::Runnable);
                    self.wait_for_a_stack(held, g, &error);
                    return false;
                }
            }
        }
        if held.own().is_alert() {
            self.before_run(m, held, g);
        }
        m.set_running(Some(g));
        if self.config.strict && !g.binding.is_home() {
            // SAFETY: `g` came out of a run queue, so only this M uses it, and it has a coroutine.
            unsafe { g.settle(m) };
        }
        boundary::lend(m, held);
        true
    }

    /// Acts on the stop of `g`. Returns `true` if `m` must run `g` on. *Runs on: `m`, which has resumed `g`.*
    #[inline(always)]
    pub(crate) fn stopped(&self, m: OwnM<'_>, g: GRef, stop: Stop) -> bool {
        match stop {
            Stop::Park => {
                self.events.on_stop(m, g, Stops::Parks);
                if !self.commit(m, g) {
                    self.events.on_goes_on(m, g);
                    return true;
                }
            }
            Stop::Yield => self.yielded(m, g),
            Stop::Pending => self.pending(m, g),
            Stop::Done => self.ended(m, g),
        }
        false
    }

    /// If `g` waits in place on another M, passes the P on and returns `true`. If the wake-up of `g` is a
    /// sample, runs `g` and returns `true`. Returns `false` if `m` is to run `g`.
    #[cold]
    fn is_done_with(&self, m: OwnM<'_>, held: Held<'_>, g: GRef) -> bool {
        g.binding.end_watch();
        let sample = g.binding.take_sample();
        if self.gave_p_to_its_m(m, held, g) {
            debug_assert!(sample.is_none(), "a G that waits in place was not woken");
            return true;
        }
        sample.inspect(|&weight| self.run_sampled(m, held, g, weight)).is_some()
    }

    /// Runs `g` until it stops. Its wake-up is a sample of this weight.
    fn run_sampled(&self, m: OwnM<'_>, held: Held<'_>, g: GRef, weight: u8) {
        let run = || self.resume_g::<true>(m, held, g);
        let Some(stop) = self.events.on_sampled_run(m, held, g, weight, run) else { return };
        if self.stopped(m, g, stop) {
            self.run(m, g);
        }
    }

    /// Does what the P's alerts ask for before `g` runs.
    #[cold]
    #[inline(never)]
    fn before_run(&self, m: OwnM<'_>, held: Held<'_>, g: GRef) {
        if held.own().lacks_watcher() {
            self.ensure_watcher(held);
        }
        m.on_run(held, g);
    }

    /// Passes the P on if `g` waits in place on another M. Then that M gets the P, `m` has no P, and the
    /// result is `true`. Returns `false` if `m` is to run `g`.
    fn gave_p_to_its_m(&self, m: OwnM<'_>, held: Held<'_>, g: GRef) -> bool {
        let Some(waiting) = g.waits_in_place(m) else {
            if g.binding.is_blocking() {
                self.lends_to_block(held);
            }
            return false;
        };
        debug_assert!(!m.own().spinning.get(), "the promise to look for work would be lost");
        let p = held.index;
        held.on_p_left(Left::HandedOff);
        m.give_up(held);
        waiting.sleep.hand(p);
        true
    }

    /// Queues `g`, which can run, on an M that has lost its P.
    pub(crate) fn queue_without_p(&self, m: OwnM<'_>, g: GRef) {
        if g.binding.is_home() {
            m.home.push(g);
        } else {
            self.make_work(|| self.global.push(g));
        }
    }

    /// Commits the wait of `g`, which is off its stack: from here on a waker may make it runnable. Returns
    /// `false` if the wait is decided already, so that `m` must run `g` on.
    #[inline]
    fn commit(&self, m: OwnM<'_>, g: GRef) -> bool {
        if let Some(held) = m.held() {
            held.counters.parks.one();
        }
        g.set_status(Status::Waiting);
        g.set_waits_since(self.sysmon.about_now());
        g.wait.commit()
    }

    #[inline(always)]
    fn yielded(&self, m: OwnM<'_>, g: GRef) {
        g.set_status(Status::Runnable);
        match m.held() {
            Some(held) => {
                held.counters.yields.one();
                self.events.on_stop(m, g, Stops::Yields(Some(held)));
                if g.binding.is_home() {
                    m.home.push(g);
                } else {
                    held.queue.put_fresh(g);
                }
            }
            None => {
                self.events.on_stop(m, g, Stops::Yields(None));
                self.queue_without_p(m, g);
            }
        }
    }

    /// Parks `g` between two polls of its future: gives its stack back first, then commits the wait.
    fn pending(&self, m: OwnM<'_>, g: GRef) {
        self.events.on_stop(m, g, Stops::Pends);
        self.polled(m);
        // A stack of another size stays with `g`: the next poll needs it, and the default size may be too
        // small.
        if !Coro::has_own_size(g) {
            self.give_coro(m, g);
        }
        let number = g.wait.arm(Cancel::Ends);
        g.set_waits_for(Why::Future, std::ptr::null());
        if !(g.wakes.park(number) && self.commit(m, g)) {
            self.events.on_goes_on(m, g);
            self.yielded(m, g);
        }
    }

    /// Counts a poll. It is not counted if sysmon has taken the P. *Runs on: `m`, in the runtime.*
    pub(crate) fn polled(&self, m: OwnM<'_>) {
        if let Some(held) = m.held() {
            held.counters.polls.one();
        }
    }

    fn ended(&self, m: OwnM<'_>, g: GRef) {
        self.events.on_stop(m, g, Stops::Ends);
        self.give_coro(m, g);
        g.set_status(Status::Dead);
        match m.held() {
            Some(held) => held.counters.ended.one_release(),
            None => self.closing.ended_without_p(),
        }
        release(g);
    }

    #[inline]
    fn give_coro(&self, m: OwnM<'_>, g: GRef) {
        // SAFETY: `g` has stopped for good on this M, which gives it back below.
        unsafe { OwnG::new(g) }.unsettle();
        let coro = g.take_coro();
        if !self.coros.shortage.anyone_waits()
            && let Some(held) = m.held()
        {
            return self.coros.give(Some(held.coros()), coro);
        }
        self.give_to_all(m.held(), coro);
    }
}

/// Takes a G bound to this M and a G that may run anywhere by turns.
#[cold]
fn pop_also_home(m: OwnM<'_>, held: Held<'_>, round: u32, slice: &mut u32) -> Option<GRef> {
    let elsewhere = if round.is_multiple_of(2) { held.queue.pop(round / 2, slice) } else { None };
    elsewhere.or_else(|| {
        on_delay(At::P(held));
        m.home.pop()
    })
}

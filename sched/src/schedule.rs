//! The loop of an M: find a G, run it until it stops, act on why.

#![allow(unsafe_code)]

use timers::{Checked, clock};

use crate::g::coro::{Coro, Stop};
use crate::g::list::GList;
use crate::g::wait::Cancel;
use crate::g::why::Why;
use crate::g::{GRef, Status};
use crate::lend;
use crate::m::M;
use crate::p::Held;
use crate::p::gate::Reading;
use crate::sched::Sched;
use crate::timer::Fired;
use crate::wake;

/// Every so many rounds the global queue and the network come first (Go: `schedtick % 61`).
const GLOBAL_FIRST: u32 = 61;

impl Sched {
    /// The life of an M. *Runs on: `m`, on its own stack.*
    pub(crate) fn run_m(&self, m: &M) {
        while let Some(g) = self.find_runnable(m) {
            self.run(m, g);
        }
    }

    /// The next G from what is at hand: the queues of this P, the global one, the network.
    #[inline]
    pub(crate) fn next_g(&self, m: &M, held: Held<'_>) -> Option<GRef> {
        let own = held.own();
        let round = held.next_round();
        if round.is_multiple_of(GLOBAL_FIRST) {
            self.poll_now(m, held);
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
            pop_also_home(m, held, round, &mut slice)
        };
        own.slice.set(slice);
        g.or_else(|| self.global.pop_batch(self.procs(), |g| held.queue.put_woken(g)))
    }

    /// Fires what is due on this P, and reads the clock only when something may be.
    #[inline]
    fn run_own_timers(&self, held: Held<'_>) {
        let next = self.heaps.earliest(held.index);
        if next != clock::NEVER && !held.own().gate.is_shut(next) {
            self.check_own_timers(held);
        }
    }

    #[inline(never)]
    fn check_own_timers(&self, held: Held<'_>) {
        let now = Reading::now();
        self.watch.it_is(now.ns);
        let mut woken = GList::new();
        let checked = self.fire_timers(held, held.index, now.ns, &mut woken);
        if checked.more {
            // The next portion comes with the next round.
            held.own().gate.open();
        } else {
            held.own().gate.shut(now, checked.next);
        }
        self.ready_all(held, woken);
    }

    /// Fires what is due in the heap of P `of` and collects the Gs to be run.
    pub(crate) fn fire_timers(&self, held: Held<'_>, of: usize, now: u64, woken: &mut GList) -> Checked {
        let mut fired = 0;
        let checked = self.heaps.check(of, now, of == held.index, &mut |timer, seq, _now| {
            fired += 1;
            match timer.fire(seq) {
                Fired::Nobody => {}
                Fired::G(g) => woken.push(g),
                Fired::Waker(waker) => {
                    if let Some(g) = self.g_that_calls(waker) {
                        woken.push(g);
                    }
                }
                Fired::Func(user) => {
                    if let Some(g) = self.g_that_runs(held, user) {
                        woken.push(g);
                    }
                }
            }
        });
        if fired > 0 {
            held.counters.timers_fired.add(fired);
            if of != held.index {
                held.counters.timers_stolen.add(fired);
            }
        }
        checked
    }

    /// Runs `g` until it stops for good reason. *Runs on: `m`, with a P.*
    fn run(&self, m: &M, g: GRef) {
        loop {
            let Some(held) = m.held() else {
                // Decided before it had parked, but its P is gone.
                return self.queue_without_p(m, g);
            };
            if held.own().uncovered.get() {
                self.cover(held);
            }
            if Coro::is_special(g) && self.passed_on(m, held, g) {
                return;
            }
            if g.coro.get().is_null() {
                match self.coros.take(held) {
                    Ok(coro) => g.coro.set(coro),
                    Err(error) => return self.wait_for_a_stack(held, g, &error),
                }
            }
            g.set_status(Status::Running);
            m.set_running(Some(g));
            if self.config.strict && !Coro::is_home(g) {
                // SAFETY: `g` came out of a run queue, so it is ours alone, and it has a coroutine.
                unsafe { Coro::settle(g, m) };
            }
            lend::lend(m, held);
            // SAFETY: as above.
            let stop = unsafe { Coro::resume(g) };
            m.set_running(None);
            match stop {
                Stop::Park => {
                    if self.commit(m, g) {
                        return;
                    }
                }
                Stop::Yield => return self.yielded(m, g),
                Stop::Pending => return self.pending(m, g),
                Stop::Done => return self.ended(m, g),
            }
        }
    }

    /// If it is the turn of a G that waits in place, its M gets the P, and this is `true`: `m` has no P any more. `false`: `m`
    /// is to run `g`. *Runs on: `m`.*
    #[cold]
    fn passed_on(&self, m: &M, held: Held<'_>, g: GRef) -> bool {
        let Some(waiting) = Coro::waits_in_place(g, m) else {
            if Coro::is_blocking(g) {
                self.blocking_begins(held);
            }
            return false;
        };
        debug_assert!(!m.spinning.get(), "the promise to look for work would be lost");
        let p = held.index;
        m.let_go();
        self.hand_to(waiting, p, false);
        true
    }

    /// `g` is to go on, but its M has no P any more.
    fn queue_without_p(&self, m: &M, g: GRef) {
        if Coro::is_home(g) {
            m.home.push(g);
        } else {
            self.make_work(|| self.global.push(g));
        }
    }

    /// `g` is off its stack: it may be woken from here on. `false`: it was, already.
    #[inline]
    fn commit(&self, m: &M, g: GRef) -> bool {
        if let Some(held) = m.held() {
            held.counters.parks.one();
        }
        g.set_status(Status::Waiting);
        g.set_waits_since(self.watch.about_now());
        g.wait.commit()
    }

    fn yielded(&self, m: &M, g: GRef) {
        g.set_status(Status::Runnable);
        match m.held() {
            Some(held) => {
                held.counters.yields.one();
                if Coro::is_home(g) {
                    m.home.push(g);
                } else {
                    held.queue.put_fresh(g);
                }
            }
            None => self.queue_without_p(m, g),
        }
    }

    /// The future of `g` waits: its stack goes to others, and then it may be woken.
    fn pending(&self, m: &M, g: GRef) {
        // One of its own size it keeps: the next poll needs it again, and a smaller one would not do.
        if !Coro::is_odd(g) {
            self.give_coro(m, g);
        }
        let number = g.wait.arm(Cancel::Ends);
        g.set_waits_for(Why::Future);
        if !(g.wakes.park(number) && self.commit(m, g)) {
            self.yielded(m, g);
        }
    }

    fn ended(&self, m: &M, g: GRef) {
        self.give_coro(m, g);
        g.set_status(Status::Dead);
        match m.held() {
            Some(held) => held.counters.ended.one_release(),
            None => self.closing.ended_without_p(),
        }
        wake::release(g);
    }

    #[inline]
    fn give_coro(&self, m: &M, g: GRef) {
        Coro::unsettle(g);
        let coro = g.coro.replace(std::ptr::null_mut());
        if !self.coros.shortage.anyone_waits()
            && let Some(held) = m.held()
        {
            return self.coros.give(Some(held), coro);
        }
        self.give_to_all(m.held(), coro);
    }
}

/// By turns a G that is bound to this M, and one that may run anywhere.
#[cold]
fn pop_also_home(m: &M, held: Held<'_>, round: u32, slice: &mut u32) -> Option<GRef> {
    let elsewhere = if round.is_multiple_of(2) { held.queue.pop(round / 2, slice) } else { None };
    elsewhere.or_else(|| m.home.pop())
}

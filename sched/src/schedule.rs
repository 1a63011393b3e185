//! The loop of an M: find a G, run it until it stops, act on why.

#![allow(unsafe_code)]

use std::io;
use std::time::Duration;

use timers::clock;

use crate::g::coro::{Coro, Stop};
use crate::g::list::GList;
use crate::g::wait::Cancel;
use crate::g::{GRef, Status};
use crate::lend;
use crate::m::M;
use crate::p::Held;
use crate::sched::Sched;
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
            if let Some(g) = self.global.pop() {
                return Some(g);
            }
        }
        self.run_own_timers(held);
        let mut slice = own.slice.get();
        let g = held.queue.pop(round, &mut slice);
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
        let now = clock::now();
        let mut woken = GList::new();
        let next = self.fire_timers(held, held.index, now, &mut woken);
        held.own().gate.shut(now, next);
        self.ready_all(held, woken);
    }

    /// Fires what is due in the heap of P `of`, collects whom it wakes, and gives the heap's next time.
    pub(crate) fn fire_timers(&self, held: Held<'_>, of: usize, now: u64, woken: &mut GList) -> u64 {
        let mut fired = 0;
        let checked = self.heaps.check(of, now, of == held.index, &mut |timer, seq, _now| {
            fired += 1;
            if let Some(g) = timer.fire(seq) {
                woken.push(g);
            }
        });
        if fired > 0 {
            held.counters.timers_fired.add(fired);
            if of != held.index {
                held.counters.timers_stolen.add(fired);
            }
        }
        checked.next
    }

    /// Runs `g` until it stops for good reason. *Runs on: `m`, with a P.*
    fn run(&self, m: &M, g: GRef) {
        loop {
            let Some(held) = m.held() else {
                // Decided before it had parked, but its P is gone.
                self.global.push(g);
                return self.work_was_made();
            };
            if held.own().uncovered.get() {
                self.cover(held);
            }
            if g.coro.get().is_null() {
                match self.coros.take(held) {
                    Ok(coro) => g.coro.set(coro),
                    Err(error) => return self.wait_for_a_stack(held, g, &error),
                }
            }
            g.set_status(Status::Running);
            m.set_running(Some(g));
            lend::lend(m, held);
            // SAFETY: `g` came out of a run queue, so it is ours alone, and it has a coroutine.
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
                Stop::Lost => {
                    self.global.push(g);
                    return self.work_was_made();
                }
            }
        }
    }

    /// `g` is off its stack: it may be woken from here on. `false`: it was, already.
    #[inline]
    fn commit(&self, m: &M, g: GRef) -> bool {
        if let Some(held) = m.held() {
            held.counters.parks.one();
        }
        g.set_status(Status::Waiting);
        g.wait.commit()
    }

    fn yielded(&self, m: &M, g: GRef) {
        g.set_status(Status::Runnable);
        match m.held() {
            Some(held) => {
                held.counters.yields.one();
                held.queue.put_fresh(g);
            }
            None => {
                self.global.push(g);
                self.work_was_made();
            }
        }
    }

    /// The future of `g` waits: its stack goes to others, and then it may be woken.
    fn pending(&self, m: &M, g: GRef) {
        self.give_coro(m, g);
        let number = g.wait.arm(Cancel::Ends);
        if !(g.wakes.park(number) && self.commit(m, g)) {
            self.yielded(m, g);
        }
    }

    fn ended(&self, m: &M, g: GRef) {
        self.give_coro(m, g);
        g.set_status(Status::Dead);
        match m.held() {
            Some(held) => held.counters.ended.one(),
            None => drop(self.ended.fetch_add(1, std::sync::atomic::Ordering::Relaxed)),
        }
        wake::release(g);
    }

    #[inline]
    fn give_coro(&self, m: &M, g: GRef) {
        let coro = g.coro.replace(std::ptr::null_mut());
        self.coros.give(m.held(), coro);
    }

    /// There is no memory for another stack: `g` waits for one that others give back.
    #[cold]
    fn wait_for_a_stack(&self, held: Held<'_>, g: GRef, error: &io::Error) {
        self.report_once(&format!("no stack for another green thread, it waits until others end: {error}"));
        let alone = held.queue.is_empty();
        held.queue.put_fresh(g);
        if alone {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

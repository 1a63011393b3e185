//! The end of a runtime: its green threads are cancelled and unwind, then its Ms end and are joined.

use std::ptr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use timers::clock;

use crate::g::wait::Decision;
use crate::g::{GRef, table};
use crate::sched::Sched;
use crate::wake;

impl Sched {
    /// True for the one caller that is to shut the runtime down.
    pub fn begin_closing(&self) -> bool {
        // SeqCst: a spawn looks at this after its G is in the table; `shut_down` looks at the table after this.
        !self.closing.swap(true, Ordering::SeqCst)
    }

    /// After `begin_closing`: cancels all green threads, waits for them to end, ends the Ms and joins them. `false`: the
    /// time was up first; what still runs is left to itself. *Runs on: a thread that is no M of this runtime.*
    pub fn shut_down(&self, time: Option<Duration>) -> bool {
        // A time beyond the clock's range is no limit.
        let deadline = time.and_then(|time| Instant::now().checked_add(time));
        let ended = self.cancel_until_sealed(deadline);
        // Also when the time was up: nobody will run what comes now.
        self.sealed.store(true, Ordering::SeqCst);
        self.set_exiting();
        self.close_netpoll();
        self.wake_all_ms();
        if ended {
            let joins = std::mem::take(&mut self.ms.lock().joins);
            for join in joins {
                // A panic on an M's own stack was reported when it happened.
                let _ = join.join();
            }
            self.wake_futures_elsewhere();
        }
        ended
    }

    /// A future that was moved to another runtime may still have its timer in this one: it is woken, and arms another.
    fn wake_futures_elsewhere(&self) {
        for p in self.ps() {
            self.heaps.check(p.index, clock::NEVER, false, &mut |timer, seq, _now| {
                // No green thread is left to be made runnable.
                let _ = timer.fire(seq);
            });
        }
    }

    /// Until no green thread is left, and none can come from outside. (One of this runtime's own could spawn more only
    /// while it lives, and is counted itself.)
    fn cancel_until_sealed(&self, deadline: Option<Instant>) -> bool {
        loop {
            if !self.cancel_until_all_ended(deadline) {
                return false;
            }
            // SeqCst: sealed first, then the look at the count; who spawns from outside does the reverse.
            self.sealed.store(true, Ordering::SeqCst);
            if self.live() == 0 {
                return true;
            }
            self.sealed.store(false, Ordering::SeqCst);
        }
    }

    /// Green threads may be spawned and may swallow their cancellation meanwhile, so it is said again and again.
    fn cancel_until_all_ended(&self, deadline: Option<Instant>) -> bool {
        let mut pause = Duration::from_micros(20);
        while self.live() > 0 {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return false;
            }
            table::all().filter(|g| self.owns(g)).for_each(|g| self.cancel(g));
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
        true
    }

    fn owns(&self, g: GRef) -> bool {
        ptr::eq(g.owner(), self) && !g.life.is_done()
    }

    /// How many green threads have begun and not ended.
    pub(crate) fn live(&self) -> u64 {
        // The ended first: one that begins and ends in between is then counted too high, never too low.
        let ended =
            self.ended.load(Ordering::SeqCst) + self.ps().map(|p| p.counters.ended.get()).sum::<u64>();
        let spawned =
            self.spawned.load(Ordering::SeqCst) + self.ps().map(|p| p.counters.spawned.get()).sum::<u64>();
        spawned.saturating_sub(ended)
    }

    fn wake_all_ms(&self) {
        self.netpoll.break_poll();
        crate::sync::full_fence();
        for m in self.idle.unpark_all() {
            m.m().note.wake();
        }
        self.watch.wake();
    }

    fn cancel(&self, g: GRef) {
        // A reference first: it may end, and its place be taken by another's, while we look.
        if !g.life.try_retain() {
            return;
        }
        if self.owns(g) && g.wait.cancel() == Decision::Parked {
            wake::ready(g);
        }
        wake::release(g);
    }
}

//! The end of a runtime: its green threads are cancelled and unwind, then its Ms end and are joined.

use std::ptr;
use std::time::{Duration, Instant};

use timers::clock;

use crate::contain::contain;
use crate::g::wait::{Cancel, Decision};
use crate::g::{GRef, table};
use crate::p::counters::Counters;
use crate::park::Waiting;
use crate::sched::Sched;
use crate::timer::{Fired, TimerRef};
use crate::{park, wake};

impl Sched {
    /// True for the one caller that is to shut the runtime down.
    pub fn begin_closing(&self) -> bool {
        self.closing.begin()
    }

    /// True once the runtime is being shut down.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_closing()
    }

    /// True when Ms are to end; see `Closing::is_exiting`.
    #[inline]
    pub(crate) fn is_exiting(&self) -> bool {
        self.closing.is_exiting()
    }

    /// After `begin_closing`: cancels all green threads and waits for them to end; then `end_threads` is to be called.
    /// `false`: the time was up first, or the caller was cancelled; all are cancelled, the machine still runs, and somebody
    /// is to call this again. *Runs on: whoever is no green thread of this runtime; with no time to wait, any thread.*
    pub fn cancel_all(&self, time: Option<Duration>) -> bool {
        // A time beyond the clock's range is no limit.
        let deadline = time.and_then(|time| Instant::now().checked_add(time));
        self.cancel_until_sealed(deadline)
    }

    /// Ends the Ms and joins them, which blocks for a moment. *Runs on: a thread that is no M of this runtime, after
    /// `cancel_all`.*
    pub fn end_threads(&self) {
        self.closing.exit(|| {
            self.close_netpoll();
            self.wake_all_ms();
        });
        let joins = self.ms.lock().take_joins();
        for join in joins {
            // A panic on an M's own stack was reported when it happened.
            let _ = join.join();
        }
        self.call_late_wakers();
        self.wake_futures_elsewhere();
    }

    /// A future that was moved to another runtime may still have its timer in this one: it is woken, and arms another.
    fn wake_futures_elsewhere(&self) {
        for p in self.ps() {
            let mut fire = |timer: TimerRef, seq, _now| {
                // No green thread is left to be made runnable.
                match timer.fire(seq) {
                    Fired::Waker(waker) => wake::call(waker),
                    // The function does not run any more; the last user drops it.
                    Fired::Func(user) => _ = contain(|| drop(user)),
                    Fired::Nobody | Fired::G(_) => {}
                }
            };
            while self.heaps.check(p.index, clock::NEVER, false, &mut fire).more {}
        }
    }

    /// Until no green thread is left, and none can come from outside. (One of this runtime's own could spawn more only
    /// while it lives, and is counted itself.)
    fn cancel_until_sealed(&self, deadline: Option<Instant>) -> bool {
        loop {
            if !self.cancel_until_all_ended(deadline) {
                return false;
            }
            if self.closing.seal_if_empty(|| self.counters()) {
                return true;
            }
        }
    }

    /// Green threads may be spawned and may swallow their cancellation meanwhile, so it is said again and again.
    fn cancel_until_all_ended(&self, deadline: Option<Instant>) -> bool {
        let start = Instant::now();
        while self.closing.live(|| self.counters()) > 0 {
            table::all().filter(|g| self.owns(g)).for_each(|g| self.cancel(g));
            self.call_late_wakers();
            let now = Instant::now();
            let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(now));
            // Two green threads may each shut down the other's runtime: cancelled, they wait no longer.
            if left.is_zero() || park::is_interrupted() {
                return false;
            }
            // The longer it has lasted, the less a little more counts, and the more do many looks.
            let pause = ((now - start) / 64).clamp(Duration::from_micros(20), Duration::from_secs(1));
            pause_for(pause.min(left));
        }
        true
    }

    fn owns(&self, g: GRef) -> bool {
        ptr::eq(g.owner(), self) && !g.life.is_done()
    }

    fn counters(&self) -> impl Iterator<Item = &Counters> {
        self.ps().map(|p| &p.counters)
    }

    /// *Runs on: the thread that shuts down, in `Closing::exit`.*
    fn wake_all_ms(&self) {
        self.netpoll.break_poll();
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

/// A green thread of another runtime parks: in strict mode those that end may wait for others of its OS thread. A plain
/// thread may be in the destructors of its thread-locals, where it cannot park any more.
fn pause_for(time: Duration) {
    if park::on_green_thread() {
        Waiting::begin(Cancel::Waits).park_until_ns(clock::after(time));
    } else {
        std::thread::sleep(time);
    }
}

//! How `Sched` ends: its Gs are cancelled and unwind, then its Ms end and are joined. `p/closing.rs` has
//! the protocol.

use std::time::{Duration, Instant};

use timers::clock;

use crate::api::park;
use crate::api::park::Waiting;
use crate::g::wait::{Cancel, Decision};
use crate::g::{GRef, table};
use crate::m::release::release;
use crate::p::counters::Counters;
use crate::run::sched::Sched;
use crate::run::wake;
use crate::sys::catch_panic::call_waker;
use crate::timer::entry::{Fired, TimerRef};

/// How many looks at all Gs the closer makes before it sleeps between them.
const QUICK_LOOKS: u32 = 8;

impl Sched {
    /// Begins the end of the runtime. Returns `true` to the first caller only, which must shut the runtime
    /// down.
    pub fn begin_closing(&self) -> bool {
        self.closing.begin()
    }

    /// Returns `true` once the runtime is closing.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_closing()
    }

    /// Returns `true` when Ms are to end; see `Closing::is_exiting`.
    #[inline]
    pub(crate) fn is_exiting(&self) -> bool {
        self.closing.is_exiting()
    }

    /// Cancels all Gs and waits until they have ended. Call it after `begin_closing`; call `end_threads`
    /// afterwards.
    ///
    /// Returns `false` if `time` ran out or the caller was cancelled. All Gs are cancelled then, the Ms still
    /// run, and this must be called again. *Runs on: a thread that is no G of this runtime; any thread if
    /// `time` is zero.*
    pub fn cancel_all(&self, time: Option<Duration>) -> bool {
        // A time that exceeds the range of the clock means no limit.
        let deadline = time.and_then(|time| Instant::now().checked_add(time));
        self.cancel_until_sealed(deadline)
    }

    /// Ends the Ms and joins them, which blocks for a short time. *Runs on: a thread that is no M of this
    /// runtime, after `cancel_all`.*
    pub fn end_threads(&self) {
        self.closing.exit(|| {
            self.close_netpoll();
            self.wake_all_ms();
        });
        let joins = self.threads.lock().take_joins();
        self.template.end();
        for join in joins {
            // A panic on an M's own stack was reported when it happened.
            let _ = join.join();
        }
        self.late.run();
        self.wake_futures_elsewhere();
    }

    /// Wakes futures that were moved to another runtime, but have timers in this one: each arms a new timer
    /// there.
    fn wake_futures_elsewhere(&self) {
        for heap in 0..self.heaps.opened_heaps() {
            let mut fire = |timer: TimerRef, seq, _now| {
                // No G is left that could be made runnable.
                match timer.fire(seq) {
                    Fired::Waker(waker) => call_waker(waker),
                    // The function runs no more; the last user drops it.
                    Fired::Func(user) => drop(user),
                    Fired::Nothing | Fired::G(_) => {}
                }
            };
            while self.heaps.check(heap, clock::NEVER, false, &mut fire).more {}
        }
    }

    /// Cancels all Gs until none lives and the runtime is sealed. Returns `false` if the deadline came first.
    /// (A G of this runtime can spawn another only while it lives, and it is counted itself.)
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

    /// Cancels all Gs until none lives; repeats this, because new Gs may be spawned and a G may swallow its
    /// cancellation.
    fn cancel_until_all_ended(&self, deadline: Option<Instant>) -> bool {
        let start = Instant::now();
        let mut looks = 0;
        while self.closing.live(|| self.counters()) > 0 {
            table::all().filter(|g| self.owns(g)).for_each(|g| self.cancel(g));
            self.late.run();
            let now = Instant::now();
            let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(now));
            // Two Gs may each shut down the other's runtime. Once cancelled, they must not wait for each
            // other.
            if left.is_zero() || park::is_interrupted() {
                return false;
            }
            looks += 1;
            if looks <= QUICK_LOOKS && !park::on_green_thread() {
                // Often the last Gs are about to end, and their M needs this very processor.
                crate::sys::yield_thread();
                continue;
            }
            // The pause grows with the time that has passed, because each look at all Gs has its price.
            let pause = ((now - start) / 64).clamp(Duration::from_micros(20), Duration::from_secs(1));
            pause_for(pause.min(left));
        }
        true
    }

    pub(crate) fn counters(&self) -> impl Iterator<Item = &Counters> {
        self.ps().map(|p| &p.counters)
    }

    /// Wakes every M and sysmon. *Runs on: the closer, in `Closing::exit`.*
    fn wake_all_ms(&self) {
        self.netpoll.break_poll();
        for m in self.idle.unpark_all() {
            m.m().sleep.note.wake();
        }
        self.sysmon.wake();
    }

    fn cancel(&self, g: GRef) {
        // A reference first: without it the G may end and its place in the table go to another G during the
        // look.
        if !g.life.try_retain() {
            return;
        }
        if self.owns(g) && g.wait.cancel() == Decision::Parked {
            wake::ready(g);
        }
        release(g);
    }
}

/// Pauses the closer. A G of another runtime parks: in strict mode the Gs that end may wait for its OS
/// thread. A plain OS thread sleeps: it may be running destructors of its thread-locals, where it can no
/// longer park.
fn pause_for(time: Duration) {
    if park::on_green_thread() {
        Waiting::begin(Cancel::Waits).park_until_ns(clock::after(time));
    } else {
        std::thread::sleep(time);
    }
}

//! Sleeping, for green threads and for futures.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use timers::clock;

use crate::g::wait::Cancel;
use crate::g::why::Why;
use crate::g::{GRef, Ticket};
use crate::lend::{self, Entered, enter};
use crate::park::{self, Waiting};
use crate::sched::Sched;
use crate::timer::{Alarm, FOR_FUTURE, TimerRef, Whom};
use crate::wake;

/// Sleeps until `when` on the runtime's clock, which no timer beats: never less. NEVER sleeps until cancelled.
#[inline(always)]
fn sleep_until_ns(when: u64) {
    Waiting::begin_for(Why::Sleep, Cancel::Ends).park_until_ns(when);
    park::unwind_if_cancelled();
}

/// Sleeps for at least that long.
#[inline(always)]
pub fn sleep(time: Duration) {
    park::unwind_if_cancelled();
    if time > Duration::ZERO {
        sleep_until_ns(clock::after(time));
    }
}

/// Sleeps at least until then; returns at once if it is past.
pub fn sleep_until(deadline: Instant) {
    park::unwind_if_cancelled();
    if deadline > Instant::now() {
        sleep_until_ns(clock::at(deadline));
    }
}

/// Stops a G's own timer. *Runs on: the G.*
pub(crate) fn delete_timer(g: GRef) {
    if let Some(entered) = enter() {
        entered.m().sched().heaps.delete(&g.timer);
    }
}

/// Parks like `park_green_until`, when the G's own timer is a future's.
#[cold]
pub(crate) fn park_with_alarm(g: GRef, number: u32, when: u64) {
    let alarm = Alarm::new(Whom::Wait(Ticket { g, number }));
    if let Some(entered) = enter() {
        arm(&entered, &TimerRef::of_alarm(alarm.clone()), when, 0);
    }
    lend::park_until(g, number, when);
    if let Some(entered) = enter() {
        entered.m().sched().heaps.delete(&alarm.timer);
    }
}

/// Arms a timer by code that goes on running.
fn arm(entered: &Entered, timer: &TimerRef, when: u64, seq: u64) {
    let sched = entered.m().sched();
    let heap = entered.held().map_or(0, |held| held.index);
    if let Some(when) = sched.heaps.modify(heap, timer, when, 0, seq).wake_for {
        sched.timer_was_added(when);
    }
}

/// A future that is ready at a point in time, never before.
///
/// Polled by the green thread that runs it, it uses that thread's own timer; a second one at the same time, or one
/// polled by anything else, gets a timer of its own.
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    when: u64,
    timer: Owner,
    /// The runtime whose clock wakes it when no green thread polls it.
    sched: fn() -> Arc<Sched>,
}

enum Owner {
    Nobody,
    /// It has this G's own timer.
    G(GRef),
    Alarm(Arc<Alarm>, Arc<Sched>),
}

// SAFETY: a G is `Sync`; what the future does with its timer, any thread may do.
#[allow(unsafe_code)]
unsafe impl Send for Sleep {}

impl std::fmt::Debug for Sleep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sleep").field("when_ns", &self.when).finish_non_exhaustive()
    }
}

impl Sleep {
    /// Ready after `time` from now. `sched` gives the runtime whose clock to use outside of any.
    pub fn new(time: Duration, sched: fn() -> Arc<Sched>) -> Sleep {
        Sleep { when: clock::after(time), timer: Owner::Nobody, sched }
    }

    fn arm_own(&mut self, g: GRef) -> bool {
        if g.timer_lent.load(Ordering::Acquire) {
            return false;
        }
        let Some(entered) = enter() else { return false };
        g.timer_lent.store(true, Ordering::Relaxed);
        // The future may be moved away and outlive what runs it now.
        g.life.retain();
        self.timer = Owner::G(g);
        let sched = entered.m().sched();
        let held = entered.held();
        let heap = held.map_or(0, |held| held.index);
        let modified = sched.heaps.modify(heap, &TimerRef::of_g(g), self.when, 0, FOR_FUTURE);
        match (modified.wake_for, held) {
            (None, _) => {}
            // The poll is likely to end here; if not, `cover` comes after the next one.
            (Some(_), Some(held)) => held.own().uncovered.set(true),
            (Some(when), None) => sched.timer_was_added(when),
        }
        true
    }

    fn arm_alarm(&mut self, cx: &Context<'_>) {
        if let Owner::Alarm(alarm, sched) = &self.timer
            && serves_here(sched)
            && alarm.follow(cx.waker())
        {
            return;
        }
        // None yet; or it has fired (and it was not time, for this runtime); or its runtime is another's now, or ends.
        // The clone first: if it panics, an earlier waker stays where it is.
        let alarm = Alarm::new(Whom::Waker(cx.waker().clone()));
        self.disarm();
        let timer = TimerRef::of_alarm(alarm.clone());
        let sched = match enter() {
            Some(entered) if !entered.m().sched().is_closing() => {
                arm(&entered, &timer, self.when, 0);
                entered.m().sched().arc()
            }
            entered => {
                drop(entered);
                crate::fork::check_or_panic();
                let sched = (self.sched)();
                if let Some(when) = sched.heaps.modify(0, &timer, self.when, 0, 0).wake_for {
                    sched.timer_was_added(when);
                }
                sched
            }
        };
        self.timer = Owner::Alarm(alarm, sched);
    }

    fn disarm(&mut self) {
        match std::mem::replace(&mut self.timer, Owner::Nobody) {
            Owner::Nobody => {}
            Owner::G(g) => {
                // A future that was moved away leaves the timer alone: its G may be gone from its runtime, and a
                // wake-up for nothing harms no future.
                if lend::current_g().is_some_and(|current| std::ptr::eq(current, g)) {
                    delete_timer(g);
                }
                // Release: the timer is free again; pairs with the Acquire of whoever looks.
                g.timer_lent.store(false, Ordering::Release);
                wake::release(g);
            }
            // Its runtime's threads may hold any lock, and are not here.
            owner if crate::fork::is_forked() => std::mem::forget(owner),
            Owner::Alarm(alarm, sched) => {
                sched.heaps.delete(&alarm.timer);
                // Here, not when the heap lets go of the alarm: dropping a waker is user code.
                drop(alarm.take());
            }
        }
    }
}

/// True if timers of that runtime still fire, and it is the caller's, or the caller has none.
fn serves_here(sched: &Arc<Sched>) -> bool {
    let same = enter().is_none_or(|entered| std::ptr::eq(entered.m().sched, Arc::as_ptr(sched)));
    same && !sched.is_closing()
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if clock::now() >= self.when {
            self.disarm();
            return Poll::Ready(());
        }
        let own = lend::current_g().filter(|&g| wake::is_waker_of(cx.waker(), g));
        match self.timer {
            Owner::G(has) if own.is_some_and(|g| std::ptr::eq(has, g)) => return Poll::Pending,
            Owner::Nobody => {
                if let Some(g) = own
                    && self.arm_own(g)
                {
                    return Poll::Pending;
                }
            }
            Owner::G(_) | Owner::Alarm(..) => {}
        }
        self.arm_alarm(cx);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.disarm();
    }
}

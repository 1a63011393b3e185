//! Sleeping: parking until a point in time for green and plain threads, and the `Sleep` future.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use timers::clock;

use crate::api::park::{self, Waiting};
use crate::g::own::OwnG;
use crate::g::wait::Cancel;
use crate::g::why::Why;
use crate::g::{GRef, Ticket};
use crate::m::M;
use crate::m::current::current_g;
use crate::m::kept::Kept;
use crate::m::release::release;
use crate::run::boundary::{self, Entered, enter};
use crate::run::sched::Sched;
use crate::run::wake;
use crate::sync::unpaused;
use crate::timer::entry::{Alarm, FOR_FUTURE, Target, TimerRef};

/// Sleeps until `when` on the runtime's clock; `NEVER` sleeps until a cancellation. No timer fires early on
/// that clock, so the sleep is never shorter.
#[inline(always)]
fn sleep_until_ns(when: u64) {
    Waiting::begin_for(Why::Sleep, Cancel::Ends).park_until_ns(when);
    park::unwind_if_cancelled();
}

/// Sleeps for at least `time`.
#[inline(always)]
pub fn sleep(time: Duration) {
    park::unwind_if_cancelled();
    if time > Duration::ZERO {
        sleep_until_ns(clock::after(time));
    }
}

/// Sleeps at least until `deadline`. Returns at once if it is past.
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

/// Does what `park_green_until` does while the G's own timer is lent to a future.
#[cold]
pub(crate) fn park_with_alarm(g: OwnG, number: u32, when: u64) {
    let alarm = Alarm::new(Target::Wait(Ticket { g: g.shared(), number }));
    if let Some(entered) = enter() {
        arm(&entered, &TimerRef::of_alarm(alarm.clone()), when, 0);
    }
    boundary::park_until(g, number, when);
    if let Some(entered) = enter() {
        entered.m().sched().heaps.delete(&alarm.timer);
    }
}

/// Arms a timer, and reports it to the scheduler at once, because the caller goes on running.
fn arm(entered: &Entered, timer: &TimerRef, when: u64, seq: u64) {
    let sched = entered.m().sched();
    let held = entered.held();
    sched.events.on_timer_armed(held, current_g().map_or(0, |g| g.id()), false);
    let heap = sched.heap_for(held);
    if let Some(when) = sched.set_timer(heap, timer, when, seq).wake_for {
        sched.timer_was_added(when);
    }
}

/// A future that is ready at a point in time, never before. A `Sleep` that its green thread polls directly
/// uses that thread's own timer. A second `Sleep` at the same time gets an alarm, and so does a `Sleep` that
/// another waker drives.
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    when: u64,
    timer: Owner,
    /// Returns the runtime to use when no green thread polls the future.
    sched: fn() -> Arc<Sched>,
}

enum Owner {
    Unarmed,
    /// The future has this G's own timer.
    G(GRef),
    Alarm(Arc<Alarm>, Kept<Sched>),
}

// SAFETY: a G is `Sync`, and any thread may do what the future does with its timer.
#[allow(unsafe_code)]
unsafe impl Send for Sleep {}

impl std::fmt::Debug for Sleep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sleep").field("when_ns", &self.when).finish_non_exhaustive()
    }
}

impl Sleep {
    /// Makes a future that is ready `time` from now. `sched` returns the runtime to use outside of any
    /// runtime.
    pub fn new(time: Duration, sched: fn() -> Arc<Sched>) -> Sleep {
        Sleep { when: clock::after(time), timer: Owner::Unarmed, sched }
    }

    /// Makes a future that is ready at `deadline`. `sched` as in `new`.
    pub fn until(deadline: Instant, sched: fn() -> Arc<Sched>) -> Sleep {
        Sleep { when: clock::at(deadline), timer: Owner::Unarmed, sched }
    }

    /// Returns the point in time.
    pub fn deadline(&self) -> Instant {
        clock::instant(self.when)
    }

    /// Returns `true` if the point in time has passed.
    pub fn is_past(&self) -> bool {
        clock::now() >= self.when
    }

    /// Sets another point in time. If the last poll was pending, the waker of that poll is woken at the new
    /// point, or at once: then its next poll arms a timer for the new point.
    pub fn reset(&mut self, deadline: Instant) {
        self.when = clock::at(deadline);
        match &self.timer {
            Owner::Unarmed => {}
            &Owner::G(g) => {
                let is_own = current_g().is_some_and(|current| current.is(g));
                if !is_own {
                    // The G may be on its way to park for the old point. The future still counts it, so it is
                    // not another task's yet.
                    wake::borrowed_waker(g).wake_by_ref();
                }
                self.disarm();
                if is_own && !self.arm_own(g) {
                    wake::borrowed_waker(g).wake_by_ref();
                }
            }
            // As in `disarm`. The next poll makes an alarm in the child's runtime.
            Owner::Alarm(..) if crate::sys::fork::is_forked() => {}
            // An alarm that fires at this moment has woken its waker. The next poll makes a new alarm.
            Owner::Alarm(alarm, sched) => {
                let timer = TimerRef::of_alarm(alarm.clone());
                let heap = sched.heap_for(None);
                if let Some(when) = unpaused(|| sched.set_timer(heap, &timer, self.when, 0)).wake_for {
                    sched.timer_was_added(when);
                }
            }
        }
    }

    fn arm_own(&mut self, g: GRef) -> bool {
        if g.timer_lent.load(Ordering::Acquire) {
            return false;
        }
        // This wait clones no waker.
        g.on_awaited(M::events);
        let Some(entered) = enter() else { return false };
        g.timer_lent.store(true, Ordering::Relaxed);
        // The future may be moved to another thread and outlive this G's task.
        g.life.retain();
        self.timer = Owner::G(g);
        let sched = entered.m().sched();
        let held = entered.held();
        sched.events.on_timer_armed(held, g.id(), false);
        let heap = sched.heap_for(held);
        let modified = sched.set_timer(heap, &TimerRef::borrow_g(g), self.when, FOR_FUTURE);
        match (modified.wake_for, held) {
            (None, _) => {}
            // The poll is likely to end here. If not, `ensure_watcher` is called after the next one.
            (Some(_), Some(held)) => held.notes_first_timer(&g.timer),
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
        // There is no alarm yet; or it has fired too early for this runtime; or its runtime is not the
        // caller's, or closes. Clone the waker first: if that panics, an earlier alarm stays as it is.
        let alarm = Alarm::new(Target::Waker(cx.waker().clone()));
        self.disarm();
        let timer = TimerRef::of_alarm(alarm.clone());
        let sched = match enter() {
            Some(entered) if !entered.m().sched().is_closing() => {
                arm(&entered, &timer, self.when, 0);
                entered.m().keep()
            }
            entered => {
                drop(entered);
                crate::sys::fork::check_or_panic();
                let sched = (self.sched)();
                if let Some(when) = unpaused(|| sched.heaps.modify(0, &timer, self.when, 0, 0)).wake_for {
                    sched.timer_was_added(when);
                }
                Kept::Alone(sched)
            }
        };
        self.timer = Owner::Alarm(alarm, sched);
    }

    fn disarm(&mut self) {
        match std::mem::replace(&mut self.timer, Owner::Unarmed) {
            Owner::Unarmed => {}
            Owner::G(g) => {
                // A future that was moved away leaves the timer armed: its G may have left the runtime, and a
                // wake-up without cause harms no future.
                if current_g().is_some_and(|current| current.is(g)) {
                    delete_timer(g);
                }
                // Release: the timer is free again. Pairs with the Acquire load of `timer_lent` in `arm_own`
                // and `park_green_until`.
                g.timer_lent.store(false, Ordering::Release);
                release(g);
            }
            // In a forked child, threads that do not exist here may hold any lock of the runtime.
            owner if crate::sys::fork::is_forked() => std::mem::forget(owner),
            Owner::Alarm(alarm, sched) => {
                unpaused(|| sched.heaps.delete(&alarm.timer));
                // Dropped here and not by the heap: dropping a waker is user code.
                drop(alarm.take());
            }
        }
    }
}

/// Returns `true` if timers of `sched` still fire, and the caller runs in `sched` or in no runtime.
fn serves_here(sched: &Sched) -> bool {
    let same = enter().is_none_or(|entered| std::ptr::eq(entered.m().runtime, sched.as_runtime()));
    same && !sched.is_closing()
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if clock::now() >= self.when {
            self.disarm();
            return Poll::Ready(());
        }
        let own = current_g().map(OwnG::shared).filter(|g| wake::is_waker_of(cx.waker(), g));
        match self.timer {
            Owner::G(has) if own.is_some_and(|g| std::ptr::eq(has, g)) => return Poll::Pending,
            Owner::Unarmed => {
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

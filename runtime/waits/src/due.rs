//! A point in time that can be awaited, stopped and moved, alone or as a series of ticks. Under `Timer`,
//! `Ticker` and the channels of time.
//!
//! A `Due` has no timer in a heap. A point that has passed stays there to be taken. A waiter sleeps until the
//! point by its own timer, so a point without waiters costs nothing. Go's channel timers are lazy in the same
//! way since 1.23.
//!
//! ```text
//!   the taker                                 the mover (stops the point or moves it)
//!   lock                                      lock
//!   due? take it, and set the next of a       replace the old point by the new point
//!     period; unlock; done                    earlier than the old point? all waiters leave the queue
//!   enter the queue                           unlock
//!   unlock                                    wake those waiters: they look again
//!   sleep until it is due, and look again     the old point had not been taken? it was pending
//! ```
//!
//! - *Each point is either taken, or pending when it is replaced*, never both: both happen under the same
//!   lock. After a point was replaced, no taker takes it. (A channel with a buffer has two more states to
//!   handle. In one a value was sent and not received, and in the other a value is just being sent. See Go's
//!   issues 69312 and 80760.)
//! - *No waiter sleeps too long*: a queued waiter sleeps at most until the point that is set.

#![cfg_attr(not(loom), allow(unsafe_code))]

use std::time::{Duration, Instant};

use sched::park::Waiting;
use sched::sync::broken;
use sched::{Cancel, Outcome, Why};

use crate::queue::{self, Lock, Node, Queue, WaitFuture, Wakes};

/// The next point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// No point: it was taken or stopped.
    Nothing,
    /// A point beyond the clock's range. Such a point never comes, but is pending.
    Never,
    /// This point.
    At(Instant),
}

/// The point of a period that follows a point that was taken late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// The first point on the grid that is not due: the missed points are left out.
    Skip,
    /// The next point on the grid, also if it is due: no point is left out.
    Burst,
    /// One period after the taking, if the point was missed by more than [`SLACK`]. This begins a new grid.
    Delay,
}

/// A point that is taken so much later is not missed: every taker is a little late, and the grid would drift.
pub const SLACK: Duration = Duration::from_millis(5);

/// A point in time, or a series of points. The file's head explains the protocol. `P` is the payload of
/// waiters.
#[derive(Debug)]
pub struct Due<P>(Lock<DueState<P>>);

/// What the lock guards.
#[derive(Debug)]
pub struct DueState<P> {
    next: Next,
    /// The time from a point to the next point; `None` for a single point.
    period: Option<Duration>,
    missed: Missed,
    waiters: Queue<P>,
}

fn waiters<P>(state: &mut DueState<P>) -> &mut Queue<P> {
    &mut state.waiters
}

impl Next {
    /// Returns the point `instant`; `Never` if there is no instant.
    pub fn at(instant: Option<Instant>) -> Next {
        instant.map_or(Next::Never, Next::At)
    }

    /// Returns the point `time` after `instant`; `Never` if that is beyond the clock's range.
    pub fn after(instant: Instant, time: Duration) -> Next {
        Next::at(instant.checked_add(time))
    }

    /// Returns the instant of a point that comes.
    pub fn instant(self) -> Option<Instant> {
        if let Next::At(instant) = self { Some(instant) } else { None }
    }

    fn due(self, now: Instant) -> Option<Instant> {
        self.instant().filter(|&instant| instant <= now)
    }

    /// Returns `true` if this point precedes `other`: a waiter that sleeps until `other` would wake too late.
    fn is_before(self, other: Next) -> bool {
        match (self, other) {
            (Next::At(instant), Next::At(other)) => instant < other,
            (Next::At(_), Next::Never | Next::Nothing) => true,
            (Next::Never | Next::Nothing, _) => false,
        }
    }
}

impl<P> Due<P> {
    /// Makes a `Due` with the point `next`, followed by others if there is a period.
    pub fn new(next: Next, period: Option<Duration>) -> Self {
        Due(Lock::new(DueState { next, period, missed: Missed::Skip, waiters: Queue::new() }))
    }

    /// Returns the next point, as of a moment ago.
    pub fn next(&self) -> Next {
        self.0.lock().next
    }

    /// Takes the point if it is due at `now`, and sets the next point of a period. Returns the point that was
    /// taken.
    pub fn take(&self, now: Instant) -> Option<Instant> {
        if broken!("due_taken_in_two_steps") {
            let due = self.0.lock().next.due(now)?;
            self.0.lock().next = Next::Nothing;
            return Some(due);
        }
        self.0.lock().take(now)
    }

    /// Replaces the point by `next`, followed by others if there is a period. Returns `true` if the old point
    /// was pending: no caller takes it any more.
    pub fn set(&self, next: Next, period: Option<Duration>) -> bool {
        debug_assert!(next != Next::Nothing || period.is_none(), "a stopped point has no period");
        let early = broken!("due_set_in_two_steps").then(|| self.next());
        let mut state = self.0.lock();
        let last = std::mem::replace(&mut state.next, next);
        let last = early.unwrap_or(last);
        state.period = period;
        let mut wakes = Wakes::default();
        if next.is_before(last) && !broken!("due_moved_wakes_nobody") {
            wakes.extend(std::iter::from_fn(|| state.waiters.wake_first(|_| ())));
        }
        debug_assert!(
            !next.is_before(last) || state.waiters.is_empty() || broken!("due_moved_wakes_nobody"),
            "a waiter would sleep beyond the point"
        );
        drop(state);
        drop(wakes);
        last != Next::Nothing
    }

    /// Returns which point follows a point that was taken late.
    pub fn missed(&self) -> Missed {
        self.0.lock().missed
    }

    /// Sets which point follows a point that was taken late, from the next taking on.
    pub fn set_missed(&self, missed: Missed) {
        self.0.lock().missed = missed;
    }

    /// Sleeps until the point, an earlier point that is set during the sleep, or `deadline`. Returns `Woken`
    /// if the point was due or an earlier point was set, and `TimedOut` if the point or `deadline` has come.
    /// In both cases the caller looks again. After `Cancelled`, the caller calls `unwind_if_cancelled`.
    pub fn wait(&self, now: Instant, deadline: Option<Instant>, payload: P) -> Outcome {
        // Read before the lock, the point could be moved while this waiter is not yet in the queue.
        let early = broken!("due_looked_at_too_early").then(|| self.next());
        let state = self.0.lock();
        let next = early.unwrap_or(state.next);
        if next.due(now).is_some() {
            return Outcome::Woken;
        }
        let until = earlier(next.instant(), deadline);
        match queue::wait(state, waiters, Waiting::begin_for(Why::Time, Cancel::Ends), until, payload) {
            Ok(_) => Outcome::Woken,
            Err(ended) => ended.outcome,
        }
    }

    /// Enters the queue of the waiters that are woken when an earlier point is set. Returns `false` if the
    /// point is due.
    ///
    /// # Safety
    /// The node is in no queue. The node stays alive and in place until its wait was decided as woken with
    /// its case, or `leave` was called for it.
    pub unsafe fn enter(&self, now: Instant, node: &Node<P>) -> bool {
        let mut state = self.0.lock();
        if state.next.due(now).is_some() {
            return false;
        }
        // SAFETY: the queue is under its lock. The caller keeps the node alive and in place, by this
        // function's contract.
        unsafe { state.waiters.push_back(node) };
        true
    }

    /// Leaves the queue.
    ///
    /// # Safety
    /// The node was given to `enter` of this `Due`, and is in no other queue.
    pub unsafe fn leave(&self, node: &Node<P>) {
        // SAFETY: the queue is under its lock, and the node is in this queue or none, by this function's
        // contract.
        unsafe { self.0.lock().waiters.remove(node) };
    }
}

/// Waiting in futures.
impl<P> Due<P> {
    /// Returns a wait that is granted when a point is set that is earlier than the point at `take_or_enter`.
    pub fn moved(&self) -> WaitFuture<'_, DueState<P>, P, ()> {
        WaitFuture::new(&self.0, waiters, ())
    }

    /// Takes the point if it is due; else enters the queue with `moved`.
    ///
    /// # Errors
    /// Returns the point to wait for if it is not due.
    pub fn take_or_enter<'d>(
        &'d self,
        now: Instant,
        moved: std::pin::Pin<&mut WaitFuture<'d, DueState<P>, P, ()>>,
        waker: std::task::Waker,
        payload: P,
    ) -> Result<Instant, Next> {
        let mut state = self.0.lock();
        state.take(now).ok_or_else(|| {
            let next = state.next;
            moved.enter(state, waker, payload);
            next
        })
    }
}

impl<P> DueState<P> {
    fn take(&mut self, now: Instant) -> Option<Instant> {
        let due = self.next.due(now)?;
        self.next = self.period.map_or(Next::Nothing, |period| match self.missed {
            Missed::Skip => tick_after(due, period, now),
            Missed::Delay if now.saturating_duration_since(due) > SLACK => Next::after(now, period),
            Missed::Burst | Missed::Delay => Next::after(due, period),
        });
        debug_assert!(
            self.period.is_some_and(|period| period.is_zero())
                || self.missed != Missed::Skip
                || self.next.due(now).is_none(),
            "the next point of a period lies after now, if missed points are left out"
        );
        Some(due)
    }
}

/// Returns the first point on the grid of `due` that lies after `now`. A late taker misses points, and the
/// grid stays.
fn tick_after(due: Instant, period: Duration, now: Instant) -> Next {
    if period.is_zero() {
        return Next::At(now);
    }
    let missed = now.saturating_duration_since(due).as_nanos() / period.as_nanos();
    // Beyond the clock's range the point never comes.
    let wait = period.as_nanos().checked_mul(missed + 1).and_then(|wait| u64::try_from(wait).ok());
    wait.map_or(Next::Never, |wait| Next::after(due, Duration::from_nanos(wait)))
}

/// Returns the earlier of two points in time. `None` never comes.
pub fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn ticks_stay_on_their_grid() {
        let start = Instant::now();
        let after = |late| tick_after(start, ms(10), start + late).instant().unwrap() - start;
        assert_eq!(after(ms(0)), ms(10));
        assert_eq!(after(ms(9)), ms(10));
        assert_eq!(after(ms(10)), ms(20), "a tick that is due now is not the next one");
        assert_eq!(after(ms(35)), ms(40));
        assert_eq!(tick_after(start, Duration::ZERO, start + ms(3)), Next::At(start + ms(3)));
        assert_eq!(tick_after(start, Duration::MAX, start), Next::Never);
        let nanosecond = Duration::from_nanos(1);
        assert_eq!(
            tick_after(start, nanosecond, start + ms(60_000)),
            Next::At(start + ms(60_000) + nanosecond)
        );
    }

    #[test]
    fn each_point_is_taken_or_pending() {
        let start = Instant::now();
        let due = Due::<()>::new(Next::At(start + ms(10)), None);
        assert_eq!(due.take(start), None);
        assert_eq!(due.take(start + ms(15)), Some(start + ms(10)));
        assert_eq!(due.take(start + ms(15)), None);
        assert!(!due.set(Next::At(start), None), "a point that was taken is not pending");
        assert!(due.set(Next::Never, None), "a due point that was not taken is pending");
        assert!(due.set(Next::Nothing, None), "a point that never comes is pending");
        assert!(!due.set(Next::Nothing, None));
    }

    #[test]
    fn with_a_period_a_point_follows_each_taken_point() {
        let start = Instant::now();
        let due = Due::<()>::new(Next::At(start + ms(10)), Some(ms(10)));
        assert_eq!(due.take(start + ms(35)), Some(start + ms(10)), "a late taker finds one missed point");
        assert_eq!(due.take(start + ms(35)), None);
        assert_eq!(due.take(start + ms(40)), Some(start + ms(40)));
        assert!(due.set(Next::At(start + ms(41)), Some(ms(1))));
        assert_eq!(due.take(start + ms(41)), Some(start + ms(41)));
        assert_eq!(due.next(), Next::At(start + ms(42)));
        assert!(due.set(Next::Nothing, None));
        assert_eq!(due.take(start + ms(100)), None);
    }

    #[test]
    fn points_that_were_missed() {
        let start = Instant::now();
        let late = |missed| {
            let due = Due::<()>::new(Next::At(start + ms(10)), Some(ms(10)));
            due.set_missed(missed);
            assert_eq!(due.take(start + ms(14)), Some(start + ms(10)), "a little late is not missed");
            assert_eq!(due.take(start + ms(47)), Some(start + ms(20)));
            due
        };
        assert_eq!(late(Missed::Skip).next(), Next::At(start + ms(50)));
        assert_eq!(late(Missed::Delay).next(), Next::At(start + ms(57)));
        let burst = late(Missed::Burst);
        assert_eq!(burst.take(start + ms(47)), Some(start + ms(30)));
        assert_eq!(burst.take(start + ms(47)), Some(start + ms(40)));
        assert_eq!((burst.take(start + ms(47)), burst.next()), (None, Next::At(start + ms(50))));
    }

    #[test]
    fn a_mover_wakes_waiters_that_would_be_late() {
        let due = Due::<()>::new(Next::Never, None);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| due.wait(Instant::now(), None, ()));
            while due.0.lock().waiters.is_empty() {
                std::thread::yield_now();
            }
            let soon = Instant::now() + ms(100);
            assert!(due.set(Next::At(soon), None));
            assert_eq!(waiter.join().unwrap(), Outcome::Woken);
            assert_eq!(due.wait(Instant::now(), None, ()), Outcome::TimedOut);
            assert_eq!(due.take(Instant::now()), Some(soon));
        });
    }
}

#[cfg(all(test, loom))]
mod models;

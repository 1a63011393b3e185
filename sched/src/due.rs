//! Points in time that come one after another, and that may be stopped or moved while somebody waits for them: under the
//! channels of time, `Timer` and `Ticker`.
//!
//! No timer of a heap belongs to it. A point that has passed is there to be taken; who waits for one sleeps until then, by
//! its own timer, so one that nobody waits for costs nothing. Go's channel timers are lazy likewise since 1.23.
//!
//! ```text
//!   who takes                                 who stops it, or moves it
//!   lock                                      lock
//!   due? take it, and set the next of a       put the new point in the place of the old one
//!     period; unlock; done                    earlier than the old one? all leave the queue
//!   enter the queue                           unlock
//!   unlock                                    wake them: they look again
//!   sleep until it is due, and look again     the old one had not been taken? it was pending
//! ```
//!
//! - *Each point is either taken or pending when it is replaced*, never both, for both happen under the one lock; and
//!   after it was replaced nobody takes the old one. (A channel with a buffer of one has the sent but unreceived value, and
//!   the value that is just being sent, to look after: Go's issues 69312 and 80760.)
//! - *Nobody oversleeps*: who is in the queue sleeps no longer than until the point that is set.

#![cfg_attr(not(loom), allow(unsafe_code))]

use std::time::{Duration, Instant};

use crate::g::wait::{Cancel, Outcome};
use crate::g::why::Why;
use crate::queue::{self, Lock, Node, Queue};
use crate::sync::broken;

#[cfg(loom)]
use crate::queue::modelled::Waiting;
#[cfg(not(loom))]
use crate::{
    park::Waiting,
    queue::{WaitFuture, Wakes},
};
#[cfg(loom)]
type Wakes = Vec<crate::queue::Wake>;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: it was taken, or stopped.
    Nothing,
    /// A point beyond the clock's range. It never comes, but it is pending.
    Never,
    /// This point.
    At(Instant),
}

/// See the file's head. `P` is what waiters wait with.
#[derive(Debug)]
pub struct Due<P>(Lock<State<P>>);

/// What the lock guards.
#[derive(Debug)]
pub struct State<P> {
    next: Next,
    /// How long after one the next one comes, if another one does.
    period: Option<Duration>,
    waiters: Queue<P>,
}

fn waiters<P>(state: &mut State<P>) -> &mut Queue<P> {
    &mut state.waiters
}

impl Next {
    /// The point, or beyond the clock's range.
    pub fn at(instant: Option<Instant>) -> Next {
        instant.map_or(Next::Never, Next::At)
    }

    /// So long after `instant`.
    pub fn after(instant: Instant, time: Duration) -> Next {
        Next::at(instant.checked_add(time))
    }

    /// The point in time, if it is one that comes.
    pub fn instant(self) -> Option<Instant> {
        if let Next::At(instant) = self { Some(instant) } else { None }
    }

    fn due(self, now: Instant) -> Option<Instant> {
        self.instant().filter(|&instant| instant <= now)
    }

    /// Whether who sleeps until `other` would come too late for it.
    fn is_before(self, other: Next) -> bool {
        match (self, other) {
            (Next::At(instant), Next::At(other)) => instant < other,
            (Next::At(_), Next::Never | Next::Nothing) => true,
            (Next::Never | Next::Nothing, _) => false,
        }
    }
}

impl<P> Due<P> {
    /// That point, and with a period others after it.
    pub fn new(next: Next, period: Option<Duration>) -> Self {
        Due(Lock::new(State { next, period, waiters: Queue::new() }))
    }

    /// What comes next, as of a moment ago.
    pub fn next(&self) -> Next {
        self.0.lock().next
    }

    /// Takes the point that has come, if one has.
    pub fn take(&self, now: Instant) -> Option<Instant> {
        if broken!("due_taken_in_two_steps") {
            let due = self.0.lock().next.due(now)?;
            self.0.lock().next = Next::Nothing;
            return Some(due);
        }
        self.0.lock().take(now)
    }

    /// Replaces the point by `next`, and with a period by others after it. Returns `true` if the old point was pending: no
    /// caller takes it any more.
    pub fn set(&self, next: Next, period: Option<Duration>) -> bool {
        debug_assert!(next != Next::Nothing || period.is_none(), "what is stopped has no period");
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

    /// Sleeps until it is worth looking again, or `deadline`. After `Cancelled` call `unwind_if_cancelled`.
    pub fn wait(&self, now: Instant, deadline: Option<Instant>, payload: P) -> Outcome {
        // Looked at before the lock it could be moved, its mover finding nobody in the queue.
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

    /// Enters the queue of those who are to look again when an earlier point is set; `false` if one has come.
    ///
    /// # Safety
    /// As for `Queue::push_back`, with `leave` for `remove`.
    pub unsafe fn enter(&self, now: Instant, node: &Node<P>) -> bool {
        let mut state = self.0.lock();
        if state.next.due(now).is_some() {
            return false;
        }
        // SAFETY: under the lock; the rest is this function's contract.
        unsafe { state.waiters.push_back(node) };
        true
    }

    /// Leaves it.
    ///
    /// # Safety
    /// The node was given to `enter` of this one, and to nobody else.
    pub unsafe fn leave(&self, node: &Node<P>) {
        // SAFETY: under the lock; the rest is this function's contract.
        unsafe { self.0.lock().waiters.remove(node) };
    }
}

/// The futures.
#[cfg(not(loom))]
impl<P> Due<P> {
    /// A wait that is granted when an earlier point is set than it was when `enter_future` was called.
    pub fn moved(&self) -> WaitFuture<'_, State<P>, P, ()> {
        WaitFuture::new(&self.0, waiters, ())
    }

    /// Takes the point that has come, or has the wait enter the queue.
    ///
    /// # Errors
    /// None has come: the one to wait for.
    pub fn take_or_enter<'d>(
        &'d self,
        now: Instant,
        moved: std::pin::Pin<&mut WaitFuture<'d, State<P>, P, ()>>,
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

impl<P> State<P> {
    fn take(&mut self, now: Instant) -> Option<Instant> {
        let due = self.next.due(now)?;
        self.next = self.period.map_or(Next::Nothing, |period| tick_after(due, period, now));
        debug_assert!(
            self.period.is_some_and(|period| period.is_zero()) || self.next.due(now).is_none(),
            "a tick that was missed comes again"
        );
        Some(due)
    }
}

/// The first point on the grid of `due` that lies after `now`: who is late misses some, and the grid stays.
fn tick_after(due: Instant, period: Duration, now: Instant) -> Next {
    if period.is_zero() {
        return Next::At(now);
    }
    let missed = now.saturating_duration_since(due).as_nanos() / period.as_nanos();
    // Beyond the clock's range it never comes.
    let wait = period.as_nanos().checked_mul(missed + 1).and_then(|wait| u64::try_from(wait).ok());
    wait.map_or(Next::Never, |wait| Next::after(due, Duration::from_nanos(wait)))
}

/// The earlier of two points in time, of which `None` never comes.
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
        assert!(!due.set(Next::At(start), None), "it was taken");
        assert!(due.set(Next::Never, None), "one that has come and was not taken is pending");
        assert!(due.set(Next::Nothing, None), "one that never comes is pending");
        assert!(!due.set(Next::Nothing, None));
    }

    #[test]
    fn with_a_period_one_follows_the_other() {
        let start = Instant::now();
        let due = Due::<()>::new(Next::At(start + ms(10)), Some(ms(10)));
        assert_eq!(due.take(start + ms(35)), Some(start + ms(10)), "one waits for the late");
        assert_eq!(due.take(start + ms(35)), None);
        assert_eq!(due.take(start + ms(40)), Some(start + ms(40)));
        assert!(due.set(Next::At(start + ms(41)), Some(ms(1))));
        assert_eq!(due.take(start + ms(41)), Some(start + ms(41)));
        assert_eq!(due.next(), Next::At(start + ms(42)));
        assert!(due.set(Next::Nothing, None));
        assert_eq!(due.take(start + ms(100)), None);
    }

    #[test]
    fn a_mover_wakes_those_who_would_be_late() {
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

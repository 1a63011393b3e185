//! Channels whose messages are points in time: they come into being when they are received, so nobody sends them, and while
//! nobody waits no timer runs. Those of a `Timer` and a `Ticker` can be stopped and started again.

#![allow(unsafe_code)]

#[cfg(not(loom))]
use std::pin::{Pin, pin};
#[cfg(not(loom))]
use std::task::Poll;
use std::time::{Duration, Instant};

use sched::due::{Due, Next};
use sched::queue::Node;
use sched::{Outcome, park};

use super::error::{RecvTimeoutError, TryRecvError};
use super::receiver::{Flavor, Receiver};
use super::waiters::{Wanted, is_past};
#[cfg(not(loom))]
use crate::time::{Sleep, sleep_async};

/// [`after`](super::after), [`at`](super::at), [`tick`](super::tick), and the channel of a [`Timer`](crate::time::Timer) or
/// [`Ticker`](crate::time::Ticker). `T` is `Instant`.
pub(super) struct Timed<T>(Due<Wanted<T>>);

impl<T> Timed<T> {
    /// One message, then; with a period, one each period from then on.
    pub(super) fn new(first: Option<Instant>, period: Option<Duration>) -> Self {
        Timed(Due::new(Next::at(first), period))
    }

    /// When the next message is due; `None`: never.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.next().instant()
    }

    pub(super) fn is_ready(&self) -> bool {
        is_past(self.due())
    }

    pub(super) fn try_recv(&self) -> Result<Instant, TryRecvError> {
        self.0.take(Instant::now()).ok_or(TryRecvError::Empty)
    }

    pub(super) fn recv(&self, deadline: Option<Instant>) -> Result<Instant, RecvTimeoutError> {
        loop {
            let now = Instant::now();
            if let Some(due) = self.0.take(now) {
                return Ok(due);
            }
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Err(RecvTimeoutError::Timeout);
            }
            // Whoever else waits may get the message; then there is another one to wait for, or none.
            if self.0.wait(now, deadline, Wanted::message()) == Outcome::Cancelled {
                park::unwind_if_cancelled();
            }
        }
    }

    #[cfg(not(loom))]
    pub(super) async fn recv_async(&self) -> Instant {
        let mut moved = pin!(self.0.moved());
        let mut sleep: Option<Sleep> = None;
        std::future::poll_fn(|cx| {
            loop {
                if moved.is_waiting() && moved.as_mut().poll_granted(cx).is_pending() {
                    match sleep.as_mut().map(|sleep| Pin::new(sleep).poll(cx)) {
                        None | Some(Poll::Pending) => return Poll::Pending,
                        // If it was moved at this very moment: that is seen below.
                        Some(Poll::Ready(())) => drop(moved.as_mut().leave()),
                    }
                }
                let (now, waker) = (Instant::now(), cx.waker().clone());
                match self.0.take_or_enter(now, moved.as_mut(), waker, Wanted::message()) {
                    Ok(due) => return Poll::Ready(due),
                    Err(next) => {
                        let left = next.instant().map(|next| next.saturating_duration_since(now));
                        sleep = left.map(sleep_async);
                    }
                }
            }
        })
        .await
    }

    /// As for `Buffered::enter_recv`: it then looks again when `due` may have become earlier.
    ///
    /// # Safety
    /// As for `Queue::push_back`, with `leave_recv` for `remove`.
    pub(super) unsafe fn enter_recv(&self, node: &Node<Wanted<T>>) -> bool {
        // SAFETY: by this function's contract.
        unsafe { self.0.enter(Instant::now(), node) }
    }

    /// # Safety
    /// The node was given to `enter_recv` of this channel, and to nobody else.
    pub(super) unsafe fn leave_recv(&self, node: &Node<Wanted<T>>) {
        // SAFETY: by this function's contract.
        unsafe { self.0.leave(node) };
    }
}

/// What a `Timer` and a `Ticker` do with theirs.
impl Receiver<Instant> {
    /// A message so long from now, and with a period others after it.
    pub(crate) fn of_timer(time: Duration, period: Option<Duration>) -> Self {
        Receiver::timed(Instant::now().checked_add(time), period)
    }

    /// Starts it anew; `true` if a message was pending, which now is received by nobody.
    pub(crate) fn restart(&self, time: Duration, period: Option<Duration>) -> bool {
        self.timing().set(Next::after(Instant::now(), time), period)
    }

    /// Stops it, likewise.
    pub(crate) fn stop(&self) -> bool {
        self.timing().set(Next::Nothing, None)
    }

    fn timing(&self) -> &Due<Wanted<Instant>> {
        match &self.0 {
            Flavor::Timed(timed, _) => &timed.0,
            _ => unreachable!("a timer's channel is one of time"),
        }
    }
}

/// Sleeps until then, or until cancelled.
pub(super) fn sleep_until(when: Option<Instant>) {
    #[cfg(not(loom))]
    match when {
        Some(when) => sched::time::sleep_until(when),
        None => sched::time::sleep(Duration::MAX),
    }
    #[cfg(loom)]
    unreachable!("no model sleeps until {when:?}");
}

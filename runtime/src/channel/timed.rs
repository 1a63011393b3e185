//! Channels whose messages are moments: the channels of `after`, `at` and `tick`, and of `Timer` and
//! `Ticker`.
//!
//! A message exists from the moment at which it is due, without a sender. No timer runs while no receiver
//! waits. The channels of a `Timer` and a `Ticker` can be stopped and started again.

#![allow(unsafe_code)]

#[cfg(not(loom))]
use std::pin::{Pin, pin};
#[cfg(not(loom))]
use std::task::Poll;
use std::time::{Duration, Instant};

use sched::{Outcome, park};
use waits::due::{Due, Missed, Next};
use waits::queue::Node;

use super::error::{RecvTimeoutError, TryRecvError};
use super::receiver::{Flavor, Receiver};
use super::waiters::{Wanted, is_past};
#[cfg(not(loom))]
use crate::default::sched_of_plain_thread_or_panic;

/// The state of such a channel. `T` is always `Instant`.
pub(super) struct Timed<T>(Due<Wanted<T>>);

impl<T> Timed<T> {
    /// Returns a channel whose first message is due at `first`. With a `period`, one more is due after each.
    pub(super) fn new(first: Option<Instant>, period: Option<Duration>) -> Self {
        Timed(Due::new(Next::at(first), period))
    }

    /// Returns the moment at which the next message is due, or `None` if none will be.
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
            // Another receiver may take the message first. Then this one waits for the next message, or for
            // ever.
            if self.0.wait(now, deadline, Wanted::message()) == Outcome::Cancelled {
                park::unwind_if_cancelled();
            }
        }
    }

    #[cfg(not(loom))]
    pub(super) async fn recv_async(&self) -> Instant {
        let mut moved = pin!(self.0.moved());
        let mut sleep: Option<sched::sleep::Sleep> = None;
        sched::budget::poll_fn(|cx| {
            loop {
                if moved.is_waiting() && moved.as_mut().poll_granted(cx).is_pending() {
                    match sleep.as_mut().map(|sleep| Pin::new(sleep).poll(cx)) {
                        None | Some(Poll::Pending) => return Poll::Pending,
                        // The due time was changed at this moment. The loop sees the change.
                        Some(Poll::Ready(())) => drop(moved.as_mut().leave()),
                    }
                }
                let (now, waker) = (Instant::now(), cx.waker().clone());
                match self.0.take_or_enter(now, moved.as_mut(), waker, Wanted::message()) {
                    Ok(due) => return Poll::Ready(due),
                    Err(next) => {
                        let left = next.instant().map(|next| next.saturating_duration_since(now));
                        sleep =
                            left.map(|left| sched::sleep::Sleep::new(left, sched_of_plain_thread_or_panic));
                    }
                }
            }
        })
        .await
    }

    /// Enters `node` into the queue of receivers, as `Buffered::enter_recv` does. Its waiter is woken when
    /// `due` may have become earlier.
    ///
    /// # Safety
    /// The contract of `Queue::push_back` holds, with `leave_recv` in the place of `remove`.
    pub(super) unsafe fn enter_recv(&self, node: &Node<Wanted<T>>) -> bool {
        // SAFETY: the caller keeps the contract of `enter_recv`, which is that of `Due::enter`.
        unsafe { self.0.enter(Instant::now(), node) }
    }

    /// # Safety
    /// The node was entered by `enter_recv` of this channel and has not left since.
    pub(super) unsafe fn leave_recv(&self, node: &Node<Wanted<T>>) {
        // SAFETY: the caller keeps the contract of `leave_recv`, which is that of `Due::leave`.
        unsafe { self.0.leave(node) };
    }
}

/// The operations of `Timer` and `Ticker` on their channels.
impl Receiver<Instant> {
    /// Returns a channel whose first message is due `time` from now, with a `period` another after each.
    pub(crate) fn of_timer(time: Duration, period: Option<Duration>) -> Self {
        Receiver::timed(Instant::now().checked_add(time), period)
    }

    /// Sets the first message to `time` from now. Returns `true` if a message was pending; that message is
    /// dropped.
    pub(crate) fn restart(&self, time: Duration, period: Option<Duration>) -> bool {
        self.timing().set(Next::after(Instant::now(), time), period)
    }

    /// Returns a channel with a message at `first`, and another after each `period`.
    pub(crate) fn of_moments(first: Option<Instant>, period: Duration) -> Self {
        Receiver::timed(first, Some(period))
    }

    /// Sets the next message to `next`, with another after each `period`. `None` means never.
    pub(crate) fn set_moment(&self, next: Option<Instant>, period: Duration) {
        self.timing().set(Next::at(next), Some(period));
    }

    /// Returns the moment at which the next message is due, or `None` if none will be.
    pub(crate) fn next_moment(&self) -> Option<Instant> {
        self.timing().next().instant()
    }

    /// Stops the channel. Returns `true` if a message was pending; that message is dropped.
    pub(crate) fn stop(&self) -> bool {
        self.timing().set(Next::Nothing, None)
    }

    /// Returns which message follows a message that was received late.
    pub(crate) fn missed(&self) -> Missed {
        self.timing().missed()
    }

    /// Sets which message follows a message that was received late.
    pub(crate) fn set_missed(&self, missed: Missed) {
        self.timing().set_missed(missed);
    }

    fn timing(&self) -> &Due<Wanted<Instant>> {
        match &self.0 {
            Flavor::Timed(timed, _) => &timed.0,
            _ => unreachable!("the channel of a timer is a timed channel"),
        }
    }
}

/// Sleeps until `when`, or for ever if it is `None`. A cancelled green thread unwinds.
pub(super) fn sleep_until(when: Option<Instant>) {
    #[cfg(not(loom))]
    match when {
        Some(when) => sched::sleep::sleep_until(when),
        None => sched::sleep::sleep(Duration::MAX),
    }
    #[cfg(loom)]
    unreachable!("no model sleeps until {when:?}");
}

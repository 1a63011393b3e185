//! `Notify`: wakes one waiter or all, parked or awaiting. The API is that of tokio.

#![allow(unsafe_code)]

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use sched::Cancel;
use sched::budget;
use sched::park::{Waiting, unwind_if_cancelled};
use sched::queue::{Guard, Lock, PassOn, Queue, WaitFuture, Wakes, wait};

/// A notification that wakes one waiter or all. A notification for one is kept if no thread waits.
///
/// It has the API of `tokio::sync::Notify`. [`notify_one`](Self::notify_one) wakes one waiter. If none waits,
/// the notification is kept for the next to come; one is kept, however often it is called.
/// [`notify_waiters`](Self::notify_waiters) wakes all waiters and keeps nothing. [`notified`](Self::notified)
/// parks its caller; [`notified_async`](Self::notified_async) is awaited.
///
/// # Cancellation
///
/// A green thread that is cancelled while it waits, or whose [`timeout`](crate::time::timeout) is over,
/// unwinds and takes no notification. A future that is dropped passes its notification on.
///
/// ```
/// use runtime::sync::Notify;
///
/// static READY: Notify = Notify::const_new();
///
/// let waits = runtime::spawn(|| READY.notified());
/// READY.notify_one();
/// waits.join().unwrap();
/// ```
pub struct Notify {
    state: Lock<NotifyState>,
}

struct NotifyState {
    /// A notification is kept, which no waiter has taken.
    kept: bool,
    /// The number of calls of `notify_waiters`.
    rounds: usize,
    queue: Queue<Notification>,
}

/// The notification that a waiter was given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notification {
    Nothing,
    /// By `notify_one`. It is passed on if its waiter does not take it.
    Single,
    ForAll,
}

fn queue(state: &mut NotifyState) -> &mut Queue<Notification> {
    &mut state.queue
}

fn notify_one(mut state: Guard<'_, NotifyState>) {
    let wake = state.queue.wake_first(|told| *told = Notification::Single);
    if wake.is_none() {
        state.kept = true;
    }
    drop(state);
    drop(wake);
}

/// Passes on the notification of a future that was dropped, if it was meant for one waiter.
struct PassToNext;

impl PassOn<NotifyState, Notification> for PassToNext {
    fn regrant(&mut self, state: Guard<'_, NotifyState>, told: Notification) {
        if told == Notification::Single {
            notify_one(state);
        }
    }
}

impl Notify {
    /// Returns a `Notify` without a notification.
    ///
    /// ```
    /// let notify = runtime::sync::Notify::new();
    /// notify.notify_one();
    /// notify.notified();
    /// ```
    pub fn new() -> Notify {
        Notify::const_new()
    }

    /// Returns a `Notify` without a notification, for statics.
    ///
    /// ```
    /// static READY: runtime::sync::Notify = runtime::sync::Notify::const_new();
    /// READY.notify_waiters();
    /// ```
    pub const fn const_new() -> Notify {
        Notify { state: Lock::new(NotifyState { kept: false, rounds: 0, queue: Queue::new() }) }
    }

    /// Waits for a notification. Returns at once, and takes it, if one is kept.
    ///
    /// ```
    /// let notify = runtime::sync::Notify::new();
    /// runtime::scope(|s| {
    ///     s.spawn(|| notify.notified());
    ///     notify.notify_one();
    /// });
    /// ```
    pub fn notified(&self) {
        crate::point();
        loop {
            let mut state = self.state.lock();
            if std::mem::take(&mut state.kept) {
                return;
            }
            match wait(
                state,
                queue,
                Waiting::begin_for(sched::Why::Notification, Cancel::Ends),
                None,
                Notification::Nothing,
            ) {
                Ok(_) => return,
                Err(ended) => drop(ended.guard),
            }
            unwind_if_cancelled();
        }
    }

    /// Returns a future that waits for a notification.
    ///
    /// [`notify_waiters`](Self::notify_waiters) notifies it from this call on.
    /// [`notify_one`](Self::notify_one) notifies it from its first poll on, or from
    /// [`enable`](Notified::enable) on.
    ///
    /// ```
    /// let notify = runtime::sync::Notify::new();
    /// let notified = notify.notified_async();
    /// notify.notify_waiters();
    /// runtime::block_on(notified);
    /// ```
    pub fn notified_async(&self) -> Notified<'_> {
        let rounds = self.state.lock().rounds;
        Notified {
            notify: self,
            rounds,
            is_over: false,
            waits: WaitFuture::new(&self.state, queue, PassToNext),
        }
    }

    /// Notifies the waiter that has waited longest, or keeps the notification for the next one to come.
    ///
    /// ```
    /// let notify = runtime::sync::Notify::new();
    /// notify.notify_one();
    /// notify.notify_one();
    /// // One notification is kept, not two.
    /// notify.notified();
    /// assert!(runtime::time::timeout(std::time::Duration::from_millis(1), || notify.notified()).is_err());
    /// ```
    pub fn notify_one(&self) {
        crate::point_in_drop();
        notify_one(self.state.lock());
    }

    /// Notifies all that wait now. Keeps nothing.
    ///
    /// ```
    /// let notify = runtime::sync::Notify::new();
    /// let (a, b) = (notify.notified_async(), notify.notified_async());
    /// notify.notify_waiters();
    /// runtime::block_on(async { (a.await, b.await) });
    /// ```
    pub fn notify_waiters(&self) {
        crate::point_in_drop();
        let mut state = self.state.lock();
        state.rounds = state.rounds.wrapping_add(1);
        let mut wakes = Wakes::new();
        while let Some(wake) = state.queue.wake_first(|told| *told = Notification::ForAll) {
            wakes.add(wake);
        }
        drop(state);
        drop(wakes);
    }
}

impl Default for Notify {
    fn default() -> Notify {
        Notify::new()
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notify").finish_non_exhaustive()
    }
}

/// The future that [`Notify::notified_async`] returns.
#[must_use = "futures do nothing unless polled"]
pub struct Notified<'n> {
    notify: &'n Notify,
    /// The value of `rounds` when the future was made.
    rounds: usize,
    is_over: bool,
    /// Pinned with the future.
    waits: WaitFuture<'n, NotifyState, Notification, PassToNext>,
}

impl Notified<'_> {
    /// Enters the queue now, without a poll. Returns `true` if a notification has come already; the next poll
    /// is then ready.
    ///
    /// ```
    /// use std::pin::pin;
    ///
    /// let notify = runtime::sync::Notify::new();
    /// let mut first = pin!(notify.notified_async());
    /// assert!(!first.as_mut().enable());
    /// notify.notify_one();
    /// // The notification goes to the future in the queue.
    /// assert!(!pin!(notify.notified_async()).enable());
    /// runtime::block_on(async { first.await });
    /// ```
    pub fn enable(self: Pin<&mut Self>) -> bool {
        self.look(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn look(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: no field is moved out of the future, and `waits` is used pinned only.
        let this = unsafe { self.get_unchecked_mut() };
        if this.is_over {
            return Poll::Ready(());
        }
        // SAFETY: `waits` is pinned because this future is.
        let mut waits = unsafe { Pin::new_unchecked(&mut this.waits) };
        if waits.is_waiting() {
            let told = waits.as_mut().poll_granted(cx);
            this.is_over = told.is_ready();
            return told.map(drop);
        }
        let waker = cx.waker().clone();
        let mut state = this.notify.state.lock();
        if state.rounds != this.rounds || std::mem::take(&mut state.kept) {
            this.is_over = true;
            return Poll::Ready(());
        }
        waits.enter(state, waker, Notification::Nothing);
        Poll::Pending
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        budget::poll(cx, |cx| self.look(cx))
    }
}

impl fmt::Debug for Notified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notified").finish_non_exhaustive()
    }
}

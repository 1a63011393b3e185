//! The futures that wait for a notification.

#![allow(unsafe_code)]

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use sched::budget;
use waits::queue::{Guard, PassOn, WaitFuture};

use super::{Notification, Notify, NotifyState, notify, queue};

/// Passes on the notification of a future that was dropped, if it was meant for one waiter.
struct PassToNext;

impl PassOn<NotifyState, Notification> for PassToNext {
    fn regrant(&mut self, state: Guard<'_, NotifyState>, told: Notification) {
        if let Notification::Single(whom) = told {
            notify(state, whom);
        }
    }
}

/// The wait of a future for one notification.
struct Awaited<'n> {
    /// The value of `rounds` when the future was made.
    rounds: usize,
    is_over: bool,
    /// Pinned with the future.
    waits: WaitFuture<'n, NotifyState, Notification, PassToNext>,
}

impl<'n> Awaited<'n> {
    fn new(notify: &'n Notify) -> Self {
        let rounds = notify.state.lock().rounds;
        Awaited { rounds, is_over: false, waits: WaitFuture::new(&notify.state, queue, PassToNext) }
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
        let mut state = waits.lock().lock();
        if state.rounds != this.rounds || std::mem::take(&mut state.kept) {
            this.is_over = true;
            return Poll::Ready(());
        }
        waits.enter(state, waker, Notification::Nothing);
        Poll::Pending
    }
}

/// The future that [`Notify::notified_async`] returns.
#[must_use = "futures do nothing unless polled"]
pub struct Notified<'n>(Awaited<'n>);

impl<'n> Notified<'n> {
    pub(super) fn new(notify: &'n Notify) -> Self {
        Notified(Awaited::new(notify))
    }

    fn awaited(self: Pin<&mut Self>) -> Pin<&mut Awaited<'n>> {
        // SAFETY: the field is pinned with this future: nothing moves it out, and this type has no `Drop`.
        unsafe { self.map_unchecked_mut(|this| &mut this.0) }
    }
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
        self.awaited().look(&mut Context::from_waker(Waker::noop())).is_ready()
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        budget::poll(cx, |cx| self.awaited().look(cx))
    }
}

impl fmt::Debug for Notified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notified").finish_non_exhaustive()
    }
}

/// The future that [`Notify::notified_owned`] returns. It keeps its [`Notify`] alive.
#[must_use = "futures do nothing unless polled"]
pub struct OwnedNotified {
    /// Refers to the lock in `_notify`. Pinned with this future, and dropped before `_notify`.
    awaited: Awaited<'static>,
    _notify: Arc<Notify>,
}

impl OwnedNotified {
    pub(super) fn new(notify: Arc<Notify>) -> Self {
        // SAFETY: the value in the `Arc` does not move, and this future keeps the `Arc` until `awaited` is
        // dropped: fields are dropped in the order of their declaration. No reference of this lifetime leaves
        // this type, because `awaited` is private and gives none away.
        let lasting: &'static Notify = unsafe { &*Arc::as_ptr(&notify) };
        OwnedNotified { awaited: Awaited::new(lasting), _notify: notify }
    }

    fn awaited(self: Pin<&mut Self>) -> Pin<&mut Awaited<'static>> {
        // SAFETY: the field is pinned with this future: nothing moves it out, and this type has no `Drop`.
        unsafe { self.map_unchecked_mut(|this| &mut this.awaited) }
    }

    /// Enters the queue now, as [`Notified::enable`] does. Returns `true` if a notification has come already;
    /// the next poll is then ready.
    ///
    /// ```
    /// use std::{pin::pin, sync::Arc};
    ///
    /// let notify = Arc::new(runtime::sync::Notify::new());
    /// let mut waits = pin!(notify.clone().notified_owned());
    /// assert!(!waits.as_mut().enable());
    /// notify.notify_one();
    /// runtime::block_on(async { waits.await });
    /// ```
    pub fn enable(self: Pin<&mut Self>) -> bool {
        self.awaited().look(&mut Context::from_waker(Waker::noop())).is_ready()
    }
}

impl Future for OwnedNotified {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        budget::poll(cx, |cx| self.awaited().look(cx))
    }
}

impl fmt::Debug for OwnedNotified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedNotified").finish_non_exhaustive()
    }
}

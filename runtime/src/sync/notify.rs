//! `Notify`, with tokio's API without the `.await`s.

#![allow(unsafe_code)]

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use sched::Cancel;
use sched::park::{Waiting, unwind_if_cancelled};
use sched::queue::{Guard, Lock, PassOn, Queue, WaitFuture, Wakes, wait};

/// Lets others know that something has happened; one that nobody waits for is kept.
///
/// It is tokio's `Notify`. [`notify_one`](Self::notify_one) wakes one waiter, or is kept for the next one to come: one
/// only, however often it is called. [`notify_waiters`](Self::notify_waiters) wakes all who wait, and is not kept.
/// `notified` parks its caller; `notified_async` is awaited instead.
///
/// # Cancellation
///
/// A green thread that is cancelled while it waits, or whose [`timeout`](crate::time::timeout) runs out, unwinds; it has
/// taken no notification. A future that is dropped passes on what it was given.
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
    state: Lock<State>,
}

struct State {
    /// A notification that nobody has taken.
    kept: bool,
    /// How often all were notified.
    rounds: usize,
    queue: Queue<Told>,
}

/// What a waiter was told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    /// By `notify_one`: it is to be passed on if it is not wanted.
    Alone,
    WithAll,
}

fn queue(state: &mut State) -> &mut Queue<Told> {
    &mut state.queue
}

fn notify_one(mut state: Guard<'_, State>) {
    let wake = state.queue.wake_first(|told| *told = Told::Alone);
    if wake.is_none() {
        state.kept = true;
    }
    drop(state);
    drop(wake);
}

/// What a future was told and did not hear goes to the next, if it was meant for one.
struct ToTheNext;

impl PassOn<State, Told> for ToTheNext {
    fn pass_on(&mut self, state: Guard<'_, State>, told: Told) {
        if told == Told::Alone {
            notify_one(state);
        }
    }
}

impl Notify {
    /// One that nobody was notified by.
    ///
    /// ```
    /// let notify = runtime::sync::Notify::new();
    /// notify.notify_one();
    /// notify.notified();
    /// ```
    pub fn new() -> Notify {
        Notify::const_new()
    }

    /// [`new`](Self::new) for statics.
    ///
    /// ```
    /// static READY: runtime::sync::Notify = runtime::sync::Notify::const_new();
    /// READY.notify_waiters();
    /// ```
    pub const fn const_new() -> Notify {
        Notify { state: Lock::new(State { kept: false, rounds: 0, queue: Queue::new() }) }
    }

    /// Waits to be notified; returns at once if a notification was kept, and takes that.
    ///
    /// ```
    /// let notify = runtime::sync::Notify::new();
    /// runtime::scope(|s| {
    ///     s.spawn(|| notify.notified());
    ///     notify.notify_one();
    /// });
    /// ```
    pub fn notified(&self) {
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
                Told::Nothing,
            ) {
                Ok(_) => return,
                Err(ended) => drop(ended.guard),
            }
            unwind_if_cancelled();
        }
    }

    /// [`notified`](Self::notified) for futures. From this call on it is notified by
    /// [`notify_waiters`](Self::notify_waiters), and from when it is first polled, or [enabled](Notified::enable), it is in
    /// the queue for [`notify_one`](Self::notify_one).
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
            waits: WaitFuture::new(&self.state, queue, ToTheNext),
        }
    }

    /// Notifies the one that has waited longest, or keeps it for the next one to come.
    ///
    /// ```
    /// let notify = runtime::sync::Notify::new();
    /// notify.notify_one();
    /// notify.notify_one();
    /// // One is kept, not two.
    /// notify.notified();
    /// assert!(runtime::time::timeout(std::time::Duration::from_millis(1), || notify.notified()).is_err());
    /// ```
    pub fn notify_one(&self) {
        notify_one(self.state.lock());
    }

    /// Notifies all who wait now. Nothing is kept.
    ///
    /// ```
    /// let notify = runtime::sync::Notify::new();
    /// let (a, b) = (notify.notified_async(), notify.notified_async());
    /// notify.notify_waiters();
    /// runtime::block_on(async { (a.await, b.await) });
    /// ```
    pub fn notify_waiters(&self) {
        let mut state = self.state.lock();
        state.rounds = state.rounds.wrapping_add(1);
        let mut wakes = Wakes::new();
        while let Some(wake) = state.queue.wake_first(|told| *told = Told::WithAll) {
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

/// The future of [`Notify::notified_async`].
#[must_use = "futures do nothing unless polled"]
pub struct Notified<'n> {
    notify: &'n Notify,
    /// As of when it was made.
    rounds: usize,
    is_over: bool,
    /// Pinned with the future.
    waits: WaitFuture<'n, State, Told, ToTheNext>,
}

impl Notified<'_> {
    /// Enters the queue now, without a poll; whether it has been notified already: then the next poll says so.
    ///
    /// ```
    /// use std::pin::pin;
    ///
    /// let notify = runtime::sync::Notify::new();
    /// let mut first = pin!(notify.notified_async());
    /// assert!(!first.as_mut().enable());
    /// notify.notify_one();
    /// // The notification is for the one in the queue.
    /// assert!(!pin!(notify.notified_async()).enable());
    /// runtime::block_on(async { first.await });
    /// ```
    pub fn enable(self: Pin<&mut Self>) -> bool {
        self.look(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn look(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: nothing is moved out of it, and `waits` is used pinned only.
        let this = unsafe { self.get_unchecked_mut() };
        if this.is_over {
            return Poll::Ready(());
        }
        // SAFETY: it is pinned with this future.
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
        waits.enter(state, waker, Told::Nothing);
        Poll::Pending
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.look(cx)
    }
}

impl fmt::Debug for Notified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notified").finish_non_exhaustive()
    }
}

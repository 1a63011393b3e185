//! `Notify`: wakes one waiter or all, parked or awaiting. The API is that of tokio.

mod notified;

use std::fmt;
use std::sync::Arc;

use sched::Cancel;
use sched::park::{Waiting, unwind_if_cancelled};
use waits::queue::{Guard, Lock, Queue, Wakes, wait};

pub use notified::{Notified, OwnedNotified};

/// A notification that wakes one waiter or all. A notification for one is kept if no thread waits.
///
/// It has the API of `tokio::sync::Notify`. [`notify_one`](Self::notify_one) wakes one waiter. If none waits,
/// the notification is kept for the next to come; one is kept, however often it is called.
/// [`notify_last`](Self::notify_last) is the same for the waiter that came last.
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
    /// By `notify_one` or `notify_last`. It is passed on if its waiter does not take it.
    Single(Whom),
    ForAll,
}

/// Which of the waiters gets a notification for one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    /// The waiter that has waited longest.
    First,
    /// The waiter that came last.
    Last,
}

fn queue(state: &mut NotifyState) -> &mut Queue<Notification> {
    &mut state.queue
}

/// Notifies one waiter, or keeps the notification.
fn notify(mut state: Guard<'_, NotifyState>, whom: Whom) {
    let grant = |told: &mut Notification| *told = Notification::Single(whom);
    let wake = match whom {
        Whom::First => state.queue.wake_first(grant),
        Whom::Last => state.queue.wake_last(grant),
    };
    if wake.is_none() {
        state.kept = true;
    }
    drop(state);
    drop(wake);
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
        Notified::new(self)
    }

    /// Returns a future that waits for a notification, as [`notified_async`](Self::notified_async) does, and
    /// keeps its `Notify` alive. So a task that outlives the caller can await the future.
    ///
    /// ```
    /// use std::sync::Arc;
    /// let notify = Arc::new(runtime::sync::Notify::new());
    /// let waits = runtime::spawn(notify.clone().notified_owned());
    /// notify.notify_one();
    /// waits.join().unwrap();
    /// ```
    pub fn notified_owned(self: Arc<Self>) -> OwnedNotified {
        OwnedNotified::new(self)
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
        notify(self.state.lock(), Whom::First);
    }

    /// Notifies the waiter that came last, or keeps the notification for the next one to come.
    ///
    /// A pool of workers that wait in this way wakes the one that was busy most recently, so the others stay
    /// idle.
    ///
    /// ```
    /// use std::pin::pin;
    /// let notify = runtime::sync::Notify::new();
    /// let (mut first, mut second) = (pin!(notify.notified_async()), pin!(notify.notified_async()));
    /// assert!(!first.as_mut().enable() && !second.as_mut().enable());
    /// notify.notify_last();
    /// runtime::block_on(async { second.await });
    /// ```
    pub fn notify_last(&self) {
        crate::point_in_drop();
        notify(self.state.lock(), Whom::Last);
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

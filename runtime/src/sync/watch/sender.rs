//! `Sender`: replaces or changes the value, and tells the receivers.

use std::fmt;
use std::sync::Arc;

use sched::Why;
use waits::queue::{Lock, Queue};

use super::error::SendError;
use super::{Receiver, Ref, Shared, WatchState, closings};
use crate::sync::RwLock;
use crate::sync::wait::{all, wait_for, wait_for_async};

/// The sending side of a [`channel`](super::channel). Clones send to the same receivers.
///
/// When all of them are dropped, receivers get an error once they have seen the last value.
///
/// ```
/// let (sender, receiver) = runtime::sync::watch::channel(0);
/// let other = sender.clone();
/// other.send_modify(|count| *count += 1);
/// assert_eq!(*receiver.borrow(), 1);
/// ```
pub struct Sender<T>(Arc<Shared<T>>);

impl<T> Sender<T> {
    /// Returns a channel with the value `init` and without receivers.
    ///
    /// ```
    /// let sender = runtime::sync::watch::Sender::new(1);
    /// assert_eq!(sender.receiver_count(), 0);
    /// ```
    pub fn new(init: T) -> Sender<T> {
        let state = WatchState {
            version: 0,
            senders: 1,
            receivers: 0,
            changes: Queue::new(),
            closings: Queue::new(),
        };
        Sender(Arc::new(Shared { value: RwLock::new(init), state: Lock::new(state) }))
    }

    /// Replaces the value and tells the receivers. Waits while others borrow or change the value.
    ///
    /// # Errors
    ///
    /// Returns `value` if there is no receiver. The value of the channel is then unchanged.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// assert_eq!(*receiver.borrow(), 2);
    /// ```
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        crate::point();
        if self.is_closed() {
            return Err(SendError(value));
        }
        self.send_replace(value);
        Ok(())
    }

    /// Replaces the value and tells the receivers, if there are any. Returns the old value. Waits while
    /// others borrow or change the value.
    ///
    /// ```
    /// let sender = runtime::sync::watch::Sender::new(1);
    /// assert_eq!((sender.send_replace(2), sender.send_replace(3)), (1, 2));
    /// ```
    pub fn send_replace(&self, mut value: T) -> T {
        crate::point();
        self.send_modify(|old| std::mem::swap(old, &mut value));
        value
    }

    /// Changes the value in place and tells the receivers, if there are any. Waits while others borrow or
    /// change the value.
    ///
    /// # Panics
    ///
    /// Panics if `modify` panics. The receivers are not told then.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::watch::channel(vec![1]);
    /// sender.send_modify(|list| list.push(2));
    /// assert_eq!(*receiver.borrow(), [1, 2]);
    /// ```
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Changes the value in place, and tells the receivers if `modify` returns `true`. Returns what `modify`
    /// returned. Waits while others borrow or change the value.
    ///
    /// # Panics
    ///
    /// Panics if `modify` panics. The receivers are not told then.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::watch::channel(5);
    /// let raise = |to| sender.send_if_modified(|most| to > *most && { *most = to; true });
    /// assert!(!raise(4) && !receiver.has_changed().unwrap());
    /// assert!(raise(6) && receiver.has_changed().unwrap());
    /// ```
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        crate::point();
        let mut value = self.0.value.write();
        let is_modified = modify(&mut value);
        let wakes = is_modified.then(|| self.0.announce());
        drop(value);
        drop(wakes);
        is_modified
    }

    /// Borrows the value. Waits while a sender changes it. See [Guards](super#guards).
    ///
    /// ```
    /// assert_eq!(*runtime::sync::watch::Sender::new(1).borrow(), 1);
    /// ```
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref { value: self.0.value.read(), has_changed: false }
    }

    /// Returns a new receiver. The present value counts as seen by it.
    ///
    /// ```
    /// let sender = runtime::sync::watch::Sender::new(1);
    /// let receiver = sender.subscribe();
    /// assert_eq!(*receiver.borrow(), 1);
    /// ```
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver::new(&self.0)
    }

    /// Returns the number of receivers.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::watch::channel(1);
    /// let _other = receiver.clone();
    /// assert_eq!(sender.receiver_count(), 2);
    /// ```
    pub fn receiver_count(&self) -> usize {
        self.0.state.lock().receivers
    }

    /// Returns the number of senders.
    ///
    /// ```
    /// let (sender, _receiver) = runtime::sync::watch::channel(1);
    /// assert_eq!(sender.clone().sender_count(), 2);
    /// ```
    pub fn sender_count(&self) -> usize {
        self.0.state.lock().senders
    }

    /// Returns `true` if there is no receiver. [`subscribe`](Self::subscribe) makes one again.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::watch::channel(1);
    /// assert!(!sender.is_closed());
    /// drop(receiver);
    /// assert!(sender.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.receiver_count() == 0
    }

    /// Waits until there is no receiver.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::watch::channel(1);
    /// runtime::spawn(move || drop(receiver));
    /// sender.closed();
    /// ```
    pub fn closed(&self) {
        wait_for(&self.0.state, closings, Why::Notification, None, |state| {
            (state.receivers == 0).then_some(())
        });
    }

    /// Waits until there is no receiver, in a future.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::watch::channel(1);
    /// runtime::spawn(move || drop(receiver));
    /// runtime::block_on(sender.closed_async());
    /// ```
    pub async fn closed_async(&self) {
        wait_for_async(&self.0.state, closings, |state| (state.receivers == 0).then_some(())).await;
    }

    /// Returns `true` if both handles belong to the same channel.
    ///
    /// ```
    /// let (sender, _receiver) = runtime::sync::watch::channel(1);
    /// assert!(sender.same_channel(&sender.clone()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        self.0.same(&other.0)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.state.lock().senders += 1;
        Sender(Arc::clone(&self.0))
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Sender::new(T::default())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.senders -= 1;
        let wakes = (state.senders == 0).then(|| all(&mut state.changes));
        drop(state);
        drop(wakes);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("receiver_count", &self.receiver_count()).finish_non_exhaustive()
    }
}

impl<T> std::panic::UnwindSafe for Sender<T> {}
impl<T> std::panic::RefUnwindSafe for Sender<T> {}

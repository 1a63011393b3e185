//! `Sender`: sends values to all receivers.

use std::fmt;
use std::sync::Arc;

use sched::Why;
use waits::queue::{Lock, Queue};

use super::error::SendError;
use super::ring::Ring;
use super::{BroadcastState, Receiver, Shared, WeakSender, closings};
use crate::sync::wait::{all, wait_for, wait_for_async};

/// The sending side of a [`channel`](super::channel). Clones send to the same receivers.
///
/// When all of them are dropped, receivers get an error once they have received all values.
///
/// ```
/// let (sender, mut receiver) = runtime::sync::broadcast::channel(8);
/// let other = sender.clone();
/// runtime::spawn(move || other.send(1));
/// assert_eq!(receiver.recv(), Ok(1));
/// ```
pub struct Sender<T>(pub(super) Shared<T>);

impl<T> Sender<T> {
    /// Returns a channel that keeps `capacity` values, without receivers.
    ///
    /// # Panics
    ///
    /// Panics if `capacity` is 0, or so large that no address space could have room.
    ///
    /// ```
    /// let sender = runtime::sync::broadcast::Sender::<i32>::new(8);
    /// assert_eq!(sender.receiver_count(), 0);
    /// ```
    #[track_caller]
    pub fn new(capacity: usize) -> Sender<T> {
        assert!(capacity > 0, "broadcast channel capacity cannot be zero");
        let ring = Ring::new(capacity);
        let (values, closings) = (Queue::new(), Queue::new());
        let state = BroadcastState { ring, senders: 1, weak_senders: 0, receivers: 0, values, closings };
        Sender(Arc::new(Lock::new(state)))
    }

    /// Sends the value to all receivers. Returns their number. Never waits: if the channel is full, its
    /// oldest value is dropped.
    ///
    /// # Errors
    ///
    /// Returns the value if there is no receiver. A later send may succeed, because
    /// [`subscribe`](Self::subscribe) makes one.
    ///
    /// ```
    /// let (sender, mut receiver) = runtime::sync::broadcast::channel(8);
    /// assert_eq!(sender.send("value").unwrap(), 1);
    /// assert_eq!(receiver.recv(), Ok("value"));
    /// ```
    pub fn send(&self, value: T) -> Result<usize, SendError<T>> {
        crate::point();
        let value = Arc::new(value);
        let mut state = self.0.lock();
        let receivers = state.receivers;
        if receivers == 0 {
            drop(state);
            return Err(SendError(Arc::into_inner(value).expect("the value was not shared")));
        }
        let replaced = state.ring.push(value, receivers);
        let wakes = all(&mut state.values);
        drop(state);
        drop(wakes);
        drop(replaced);
        Ok(receivers)
    }

    /// Returns a new receiver. It gets the values that are sent from now on.
    ///
    /// ```
    /// let (sender, _receiver) = runtime::sync::broadcast::channel(8);
    /// sender.send(1).unwrap();
    /// let mut late = sender.subscribe();
    /// sender.send(2).unwrap();
    /// assert_eq!(late.recv(), Ok(2));
    /// ```
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver::new(&self.0)
    }

    /// Returns the number of values that some receiver has not received.
    ///
    /// ```
    /// let (sender, mut receiver) = runtime::sync::broadcast::channel(8);
    /// sender.send(1).unwrap();
    /// assert_eq!(sender.len(), 1);
    /// receiver.recv().unwrap();
    /// assert_eq!(sender.len(), 0);
    /// ```
    pub fn len(&self) -> usize {
        self.0.lock().ring.len()
    }

    /// Returns `true` if all receivers have received all values.
    ///
    /// ```
    /// assert!(runtime::sync::broadcast::Sender::<i32>::new(8).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of receivers.
    ///
    /// ```
    /// let (sender, _receiver) = runtime::sync::broadcast::channel::<i32>(8);
    /// let _other = sender.subscribe();
    /// assert_eq!(sender.receiver_count(), 2);
    /// ```
    pub fn receiver_count(&self) -> usize {
        self.0.lock().receivers
    }

    /// Returns the number of senders.
    ///
    /// ```
    /// let (sender, _receiver) = runtime::sync::broadcast::channel::<i32>(8);
    /// assert_eq!(sender.clone().strong_count(), 2);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.0.lock().senders
    }

    /// Returns the number of [weak senders](WeakSender).
    ///
    /// ```
    /// let (sender, _receiver) = runtime::sync::broadcast::channel::<i32>(8);
    /// let _weak = sender.downgrade();
    /// assert_eq!((sender.strong_count(), sender.weak_count()), (1, 1));
    /// ```
    pub fn weak_count(&self) -> usize {
        self.0.lock().weak_senders
    }

    /// Returns a handle that does not keep the channel open: once all senders are gone, receivers get an
    /// error, however many weak senders there are. Never waits.
    ///
    /// ```
    /// let (sender, mut receiver) = runtime::sync::broadcast::channel(8);
    /// let weak = sender.downgrade();
    /// weak.upgrade().unwrap().send(1).unwrap();
    /// drop(sender);
    /// assert!(weak.upgrade().is_none());
    /// assert_eq!(receiver.recv(), Ok(1));
    /// assert!(receiver.recv().is_err());
    /// ```
    #[must_use = "dropping a weak sender has no effect"]
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender::new(&self.0)
    }

    /// Waits until there is no receiver.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::broadcast::channel::<i32>(8);
    /// runtime::spawn(move || drop(receiver));
    /// sender.closed();
    /// ```
    pub fn closed(&self) {
        wait_for(&self.0, closings, Why::Notification, None, |state| (state.receivers == 0).then_some(()));
    }

    /// Waits until there is no receiver, in a future.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::broadcast::channel::<i32>(8);
    /// runtime::spawn(move || drop(receiver));
    /// runtime::block_on(sender.closed_async());
    /// ```
    pub async fn closed_async(&self) {
        wait_for_async(&self.0, closings, |state| (state.receivers == 0).then_some(())).await;
    }

    /// Returns `true` if both handles belong to the same channel.
    ///
    /// ```
    /// let (sender, _receiver) = runtime::sync::broadcast::channel::<i32>(8);
    /// assert!(sender.same_channel(&sender.clone()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.senders -= 1;
        let wakes = (state.senders == 0).then(|| all(&mut state.values));
        drop(state);
        drop(wakes);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("receiver_count", &self.receiver_count()).finish_non_exhaustive()
    }
}

//! `Receiver`: receives the values that were sent since it was made.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sched::Why;

use super::error::{RecvError, RecvTimeoutError, TryRecvError};
use super::ring::Found;
use super::{BroadcastState, Shared, values};
use crate::sync::wait::{all, wait_for, wait_for_async};

/// A receiving side of a [`channel`](super::channel). [`Sender::subscribe`](super::Sender::subscribe) and
/// [`resubscribe`](Self::resubscribe) make more.
///
/// ```
/// let (sender, mut receiver) = runtime::sync::broadcast::channel(8);
/// sender.send(1).unwrap();
/// assert_eq!(receiver.recv(), Ok(1));
/// ```
pub struct Receiver<T> {
    shared: Shared<T>,
    /// The number of the next value that this receives.
    next: u64,
}

/// What a receive takes: a value that others may still share.
type Received<T> = Result<Arc<T>, RecvError>;

/// Receives the value at `next`. Returns `None` if it may still come.
fn receive<T>(state: &mut BroadcastState<T>, next: &mut u64) -> Option<Received<T>> {
    match state.ring.receive(next) {
        Found::Value(value) => Some(Ok(value)),
        Found::Lagged(missed) => Some(Err(RecvError::Lagged(missed))),
        Found::Nothing => (state.senders == 0).then_some(Err(RecvError::Closed)),
    }
}

impl<T> Receiver<T> {
    pub(super) fn new(shared: &Shared<T>) -> Self {
        let mut state = shared.lock();
        state.receivers += 1;
        Receiver { shared: Arc::clone(shared), next: state.ring.next() }
    }

    /// Returns the number of values that this receiver has not received, including overwritten ones.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::broadcast::channel(8);
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        (self.shared.lock().ring.next() - self.next) as usize
    }

    /// Returns `true` if this receiver has received all values.
    ///
    /// ```
    /// let (_sender, receiver) = runtime::sync::broadcast::channel::<i32>(8);
    /// assert!(receiver.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns `true` if all senders are gone. Values may still wait.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::broadcast::channel::<i32>(8);
    /// drop(sender);
    /// assert!(receiver.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.shared.lock().senders == 0
    }

    /// Returns the number of senders.
    ///
    /// ```
    /// let (_sender, receiver) = runtime::sync::broadcast::channel::<i32>(8);
    /// assert_eq!(receiver.sender_strong_count(), 1);
    /// ```
    pub fn sender_strong_count(&self) -> usize {
        self.shared.lock().senders
    }

    /// Returns the number of [weak senders](super::WeakSender).
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::broadcast::channel::<i32>(8);
    /// let _weak = sender.downgrade();
    /// assert_eq!(receiver.sender_weak_count(), 1);
    /// ```
    pub fn sender_weak_count(&self) -> usize {
        self.shared.lock().weak_senders
    }

    /// Returns a new receiver of the same channel. It gets the values that are sent from now on, and none of
    /// those that wait for this receiver.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::broadcast::channel(8);
    /// sender.send(1).unwrap();
    /// let mut other = receiver.resubscribe();
    /// sender.send(2).unwrap();
    /// assert_eq!(other.recv(), Ok(2));
    /// ```
    pub fn resubscribe(&self) -> Self {
        Receiver::new(&self.shared)
    }

    /// Returns `true` if both handles belong to the same channel.
    ///
    /// ```
    /// let (_sender, receiver) = runtime::sync::broadcast::channel::<i32>(8);
    /// assert!(receiver.same_channel(&receiver.resubscribe()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl<T: Clone> Receiver<T> {
    /// Receives the next value. Waits until there is one.
    ///
    /// # Errors
    ///
    /// Returns `Lagged` if this receiver missed values; the next call gets the oldest that is left. Returns
    /// `Closed` if it has received all values and all senders are gone.
    ///
    /// # Panics
    ///
    /// Panics if the `clone` of `T` panics. The value counts as received then.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. It has received nothing.
    ///
    /// ```
    /// let (sender, mut receiver) = runtime::sync::broadcast::channel(8);
    /// runtime::spawn(move || (0..3).for_each(|n| assert!(sender.send(n).is_ok())));
    /// let mut sum = 0;
    /// while let Ok(n) = receiver.recv() {
    ///     sum += n;
    /// }
    /// assert_eq!(sum, 3);
    /// ```
    pub fn recv(&mut self) -> Result<T, RecvError> {
        crate::point();
        let received = self.recv_until(None).expect("a wait without a deadline ends with a result");
        received.map(Arc::unwrap_or_clone)
    }

    /// Receives the next value, and waits at most for `timeout`. A time beyond the clock's range means for
    /// ever.
    ///
    /// # Errors
    ///
    /// Returns `Timeout` if the time was up, and the errors of [`recv`](Self::recv).
    ///
    /// # Panics
    ///
    /// Panics if the `clone` of `T` panics. The value counts as received then.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. It has received nothing.
    ///
    /// ```
    /// let (sender, mut receiver) = runtime::sync::broadcast::channel(8);
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.recv_timeout(std::time::Duration::from_secs(1)), Ok(1));
    /// ```
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        crate::point();
        match self.recv_until(Instant::now().checked_add(timeout)) {
            Some(received) => Ok(received.map(Arc::unwrap_or_clone)?),
            None => Err(RecvTimeoutError::Timeout),
        }
    }

    fn recv_until(&mut self, deadline: Option<Instant>) -> Option<Received<T>> {
        let Receiver { shared, next } = self;
        wait_for(shared, values, Why::Receive, deadline, |state| receive(state, next))
    }

    /// Receives the next value in a future. A future that is dropped before it is ready has received nothing.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`recv`](Self::recv).
    ///
    /// # Panics
    ///
    /// Panics if the `clone` of `T` panics. The value counts as received then.
    ///
    /// ```
    /// let (sender, mut receiver) = runtime::sync::broadcast::channel(8);
    /// runtime::spawn(move || sender.send(1));
    /// assert_eq!(runtime::block_on(receiver.recv_async()), Ok(1));
    /// ```
    pub async fn recv_async(&mut self) -> Result<T, RecvError> {
        let Receiver { shared, next } = self;
        let received = wait_for_async(shared, values, |state| receive(state, next)).await;
        received.map(Arc::unwrap_or_clone)
    }

    /// Receives the next value without waiting.
    ///
    /// # Errors
    ///
    /// Returns `Empty` if all values were received and more may come, and the errors of [`recv`](Self::recv).
    ///
    /// # Panics
    ///
    /// Panics if the `clone` of `T` panics. The value counts as received then.
    ///
    /// ```
    /// let (sender, mut receiver) = runtime::sync::broadcast::channel(8);
    /// assert!(receiver.try_recv().is_err());
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// ```
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        crate::point();
        let received = receive(&mut self.shared.lock(), &mut self.next);
        Ok(received.ok_or(TryRecvError::Empty)?.map(Arc::unwrap_or_clone)?)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.receivers -= 1;
        let end = state.ring.next();
        let wakes = (state.receivers == 0).then(|| all(&mut state.closings));
        drop(state);
        // The values before `end` count this receiver. Each of them is dropped outside of the lock.
        while self.next < end {
            let unreceived = self.shared.lock().ring.receive(&mut self.next);
            drop(unreceived);
        }
        // The last step: a waker that looks at the channel finds it empty.
        drop(wakes);
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("len", &self.len()).finish_non_exhaustive()
    }
}

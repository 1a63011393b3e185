//! `Receiver`: looks at the value, and waits for values that it has not seen.

use std::fmt;
use std::sync::Arc;

use sched::Why;

use super::error::RecvError;
use super::{Ref, Shared, WatchState, changes};
use crate::sync::wait::{all, wait_for, wait_for_async};

/// The receiving side of a [`channel`](super::channel). Each clone has its own mark of what it has seen.
///
/// ```
/// let (sender, mut receiver) = runtime::sync::watch::channel(1);
/// let unseen = receiver.clone();
/// sender.send(2).unwrap();
/// receiver.changed().unwrap();
/// assert!(!receiver.has_changed().unwrap() && unseen.has_changed().unwrap());
/// ```
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The version of the value that counts as seen.
    seen: u64,
}

/// Returns the version if it is another than `seen`, an error if no further one will come, and `None` if it
/// may come.
fn change(state: &WatchState, seen: u64) -> Option<Result<u64, RecvError>> {
    if state.version != seen {
        return Some(Ok(state.version));
    }
    (state.senders == 0).then_some(Err(RecvError(())))
}

impl<T> Receiver<T> {
    pub(super) fn new(shared: &Arc<Shared<T>>) -> Self {
        let mut state = shared.state.lock();
        state.receivers += 1;
        Receiver { shared: Arc::clone(shared), seen: state.version }
    }

    /// Borrows the value, which does not count as seen by this. Waits while a sender changes the value. See
    /// [Guards](super#guards).
    ///
    /// ```
    /// let (_sender, receiver) = runtime::sync::watch::channel(1);
    /// assert_eq!(*receiver.borrow(), 1);
    /// ```
    pub fn borrow(&self) -> Ref<'_, T> {
        crate::point();
        self.shared.borrow(self.seen).0
    }

    /// Borrows the value, and marks it as seen. Waits while a sender changes the value. See
    /// [Guards](super#guards).
    ///
    /// ```
    /// let (sender, mut receiver) = runtime::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// assert_eq!(*receiver.borrow_and_update(), 2);
    /// assert!(!receiver.has_changed().unwrap());
    /// ```
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        crate::point();
        let (value, version) = self.shared.borrow(self.seen);
        self.seen = version;
        value
    }

    /// Returns `true` if the value has not been seen by this receiver.
    ///
    /// # Errors
    ///
    /// Returns an error if all senders are gone, also if their last value has not been seen.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// assert_eq!(receiver.has_changed(), Ok(true));
    /// ```
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        crate::point();
        let state = self.shared.state.lock();
        if state.senders == 0 { Err(RecvError(())) } else { Ok(state.version != self.seen) }
    }

    /// Returns `true` if all senders are gone.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::watch::channel(1);
    /// drop(sender);
    /// assert!(receiver.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.shared.state.lock().senders == 0
    }

    /// Marks the value as not seen.
    ///
    /// ```
    /// let (_sender, mut receiver) = runtime::sync::watch::channel(1);
    /// receiver.mark_changed();
    /// assert_eq!(receiver.changed(), Ok(()));
    /// ```
    pub fn mark_changed(&mut self) {
        self.seen = self.seen.wrapping_sub(1);
    }

    /// Marks the value as seen.
    ///
    /// ```
    /// let (sender, mut receiver) = runtime::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// receiver.mark_unchanged();
    /// assert_eq!(receiver.has_changed(), Ok(false));
    /// ```
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.state.lock().version;
    }

    /// Waits until the value is one that was not seen, and marks it as seen.
    ///
    /// # Errors
    ///
    /// Returns an error if the value was seen and all senders are gone.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. It has marked nothing.
    ///
    /// ```
    /// let (sender, mut receiver) = runtime::sync::watch::channel(1);
    /// runtime::spawn(move || sender.send(2).unwrap());
    /// assert_eq!(receiver.changed(), Ok(()));
    /// assert_eq!(*receiver.borrow(), 2);
    /// assert!(receiver.changed().is_err());
    /// ```
    pub fn changed(&mut self) -> Result<(), RecvError> {
        crate::point();
        self.seen = wait_for_change(&self.shared, self.seen)?;
        Ok(())
    }

    /// Waits until the value is one that was not seen, in a future, and marks it as seen. A future that is
    /// dropped before it is ready has marked nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the value was seen and all senders are gone.
    ///
    /// ```
    /// let (sender, mut receiver) = runtime::sync::watch::channel(1);
    /// runtime::spawn(move || sender.send(2).unwrap());
    /// runtime::block_on(async {
    ///     assert_eq!(receiver.changed_async().await, Ok(()));
    ///     assert_eq!(*receiver.borrow(), 2);
    /// });
    /// ```
    pub async fn changed_async(&mut self) -> Result<(), RecvError> {
        self.seen = wait_for_change_async(&self.shared, self.seen).await?;
        Ok(())
    }

    /// Waits until `wanted` accepts the value, marks the value as seen, and borrows it. `wanted` sees the
    /// present value first, seen or not. It runs under the read lock of the value. See
    /// [Guards](super#guards).
    ///
    /// # Errors
    ///
    /// Returns an error if `wanted` does not accept the value and all senders are gone.
    ///
    /// # Panics
    ///
    /// Panics if `wanted` panics.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// let (sender, mut receiver) = runtime::sync::watch::channel(0);
    /// runtime::spawn(move || (1..=10).for_each(|n| sender.send(n).unwrap()));
    /// assert!(*receiver.wait_for(|n| *n >= 5).unwrap() >= 5);
    /// ```
    pub fn wait_for(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Result<Ref<'_, T>, RecvError> {
        crate::point();
        let Receiver { shared, seen } = self;
        loop {
            if let Some(value) = shared.borrow_if(seen, &mut wanted) {
                return Ok(value);
            }
            // The next round sees the change: it does not count as seen before.
            wait_for_change(shared, *seen)?;
        }
    }

    /// Waits until `wanted` accepts the value, in a future; else as [`wait_for`](Self::wait_for).
    ///
    /// # Errors
    ///
    /// Returns an error if `wanted` does not accept the value and all senders are gone.
    ///
    /// # Panics
    ///
    /// Panics if `wanted` panics.
    ///
    /// ```
    /// let (sender, mut receiver) = runtime::sync::watch::channel(0);
    /// runtime::spawn(move || (1..=10).for_each(|n| sender.send(n).unwrap()));
    /// runtime::block_on(async {
    ///     assert!(*receiver.wait_for_async(|n| *n >= 5).await.unwrap() >= 5);
    /// });
    /// ```
    pub async fn wait_for_async(
        &mut self,
        mut wanted: impl FnMut(&T) -> bool,
    ) -> Result<Ref<'_, T>, RecvError> {
        let Receiver { shared, seen } = self;
        // The value may be accepted at once, each time.
        sched::budget::consume().await;
        loop {
            if let Some(value) = shared.borrow_if(seen, &mut wanted) {
                return Ok(value);
            }
            wait_for_change_async(shared, *seen).await?;
        }
    }

    /// Returns `true` if both handles belong to the same channel.
    ///
    /// ```
    /// let (_sender, receiver) = runtime::sync::watch::channel(1);
    /// assert!(receiver.same_channel(&receiver.clone()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        self.shared.same(&other.shared)
    }
}

impl<T> Shared<T> {
    /// Marks the value as seen. Returns it if `wanted` accepts it.
    fn borrow_if(&self, seen: &mut u64, wanted: &mut impl FnMut(&T) -> bool) -> Option<Ref<'_, T>> {
        let (value, version) = self.borrow(*seen);
        *seen = version;
        wanted(&value).then_some(value)
    }
}

/// Waits until the version is another than `seen`. Returns that version.
fn wait_for_change<T>(shared: &Shared<T>, seen: u64) -> Result<u64, RecvError> {
    wait_for(&shared.state, changes, Why::Receive, None, |state| change(state, seen))
        .expect("a wait without a deadline ends with a change")
}

async fn wait_for_change_async<T>(shared: &Shared<T>, seen: u64) -> Result<u64, RecvError> {
    wait_for_async(&shared.state, changes, |state| change(state, seen)).await
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.state.lock().receivers += 1;
        Receiver { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.receivers -= 1;
        let wakes = (state.receivers == 0).then(|| all(&mut state.closings));
        drop(state);
        drop(wakes);
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("is_closed", &self.is_closed()).finish_non_exhaustive()
    }
}

impl<T> std::panic::UnwindSafe for Receiver<T> {}
impl<T> std::panic::RefUnwindSafe for Receiver<T> {}

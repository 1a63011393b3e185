//! `WeakSender`: a handle that makes senders, and does not keep the channel open.

use std::fmt;
use std::sync::Arc;

use super::{Sender, Shared};

/// A handle that [`Sender::downgrade`] returns. It becomes a [`Sender`] again while another sender lives.
///
/// It keeps the memory of the channel, but not the channel open. A part of a program that may want to send
/// later can keep one, and receivers still see the end of all senders.
///
/// ```
/// let (sender, mut receiver) = runtime::sync::broadcast::channel::<i32>(8);
/// let weak = sender.downgrade();
/// runtime::spawn(move || drop(sender));
/// // The receiver sees the end, although `weak` lives.
/// assert!(receiver.recv().is_err());
/// assert!(weak.upgrade().is_none());
/// ```
pub struct WeakSender<T>(Shared<T>);

impl<T> WeakSender<T> {
    pub(super) fn new(shared: &Shared<T>) -> Self {
        shared.lock().weak_senders += 1;
        WeakSender(Arc::clone(shared))
    }

    /// Returns a sender, or `None` if all senders are gone. Never waits.
    ///
    /// ```
    /// let (sender, _receiver) = runtime::sync::broadcast::channel(8);
    /// let weak = sender.downgrade();
    /// assert_eq!(weak.upgrade().unwrap().send(1).unwrap(), 1);
    /// ```
    #[must_use]
    pub fn upgrade(&self) -> Option<Sender<T>> {
        let mut state = self.0.lock();
        if state.senders == 0 {
            return None;
        }
        state.senders += 1;
        Some(Sender(Arc::clone(&self.0)))
    }

    /// Returns the number of senders.
    ///
    /// ```
    /// let (sender, _receiver) = runtime::sync::broadcast::channel::<i32>(8);
    /// assert_eq!(sender.downgrade().strong_count(), 1);
    /// ```
    pub fn strong_count(&self) -> usize {
        self.0.lock().senders
    }

    /// Returns the number of weak senders.
    ///
    /// ```
    /// let (sender, _receiver) = runtime::sync::broadcast::channel::<i32>(8);
    /// let weak = sender.downgrade();
    /// let _other = weak.clone();
    /// assert_eq!(weak.weak_count(), 2);
    /// ```
    pub fn weak_count(&self) -> usize {
        self.0.lock().weak_senders
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        WeakSender::new(&self.0)
    }
}

impl<T> Drop for WeakSender<T> {
    fn drop(&mut self) {
        self.0.lock().weak_senders -= 1;
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakSender").field("strong_count", &self.strong_count()).finish_non_exhaustive()
    }
}

//! Channels with the API of `std::sync::mpsc`: many senders, one receiver. They are built on
//! [`crate::channel`].
//!
//! ```
//! use runtime::sync::mpsc::channel;
//!
//! let (sender, receiver) = channel();
//! for i in 0..4 {
//!     let sender = sender.clone();
//!     runtime::spawn(move || sender.send(i).unwrap());
//! }
//! drop(sender);
//! assert_eq!(receiver.iter().sum::<i32>(), 6);
//! ```
//!
//! A call that has to wait parks a green thread, or blocks a plain OS thread.
//!
//! # Cancellation
//!
//! A green thread that is cancelled while it waits, or whose [`timeout`](crate::time::timeout) is over,
//! unwinds. A message that was on its way to it goes to the next receive.

mod iter;

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

pub use iter::{IntoIter, Iter, TryIter};

use crate::channel;

/// Returns a channel with room for any number of messages.
///
/// ```
/// let (sender, receiver) = runtime::sync::mpsc::channel();
/// sender.send(1).unwrap();
/// assert_eq!(receiver.recv(), Ok(1));
/// ```
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = channel::unbounded();
    (Sender(sender), Receiver::new(receiver))
}

/// Returns a channel with room for `bound` messages. With 0, each send waits until its message is received.
///
/// ```
/// let (sender, receiver) = runtime::sync::mpsc::sync_channel(0);
/// runtime::spawn(move || sender.send(1).unwrap());
/// assert_eq!(receiver.recv(), Ok(1));
/// ```
#[must_use]
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    let (sender, receiver) = channel::bounded(bound);
    (SyncSender(sender), Receiver::new(receiver))
}

/// The sending side of a [`channel()`]. Clones send into the same channel.
///
/// ```
/// let (sender, receiver) = runtime::sync::mpsc::channel();
/// let other = sender.clone();
/// other.send("a").unwrap();
/// sender.send("b").unwrap();
/// assert_eq!(receiver.try_iter().collect::<String>(), "ab");
/// ```
pub struct Sender<T>(channel::Sender<T>);

impl<T> Sender<T> {
    /// Sends a message. Never waits.
    ///
    /// # Errors
    ///
    /// Returns the message if the receiver is gone.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::mpsc::channel();
    /// drop(receiver);
    /// assert_eq!(sender.send(1).unwrap_err().0, 1);
    /// ```
    pub fn send(&self, t: T) -> Result<(), SendError<T>> {
        self.0.send(t).map_err(|error| SendError(error.0))
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender(self.0.clone())
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

/// The sending side of a [`sync_channel`]. Clones send into the same channel.
///
/// ```
/// let (sender, receiver) = runtime::sync::mpsc::sync_channel(1);
/// sender.send(1).unwrap();
/// assert!(sender.try_send(2).is_err());
/// assert_eq!(receiver.recv(), Ok(1));
/// ```
pub struct SyncSender<T>(channel::Sender<T>);

impl<T> SyncSender<T> {
    /// Sends a message. Waits until there is room.
    ///
    /// # Errors
    ///
    /// Returns the message if the receiver is gone.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::mpsc::sync_channel(2);
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.recv(), Ok(1));
    /// ```
    pub fn send(&self, t: T) -> Result<(), SendError<T>> {
        self.0.send(t).map_err(|error| SendError(error.0))
    }

    /// Sends a message without waiting.
    ///
    /// # Errors
    ///
    /// Returns the message if there is no room, or if the receiver is gone.
    ///
    /// ```
    /// use runtime::sync::mpsc::{TrySendError, sync_channel};
    /// let (sender, receiver) = sync_channel(0);
    /// assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
    /// drop(receiver);
    /// assert_eq!(sender.try_send(1), Err(TrySendError::Disconnected(1)));
    /// ```
    pub fn try_send(&self, t: T) -> Result<(), TrySendError<T>> {
        self.0.try_send(t).map_err(|error| match error {
            channel::TrySendError::Full(t) => TrySendError::Full(t),
            channel::TrySendError::Disconnected(t) => TrySendError::Disconnected(t),
        })
    }
}

impl<T> Clone for SyncSender<T> {
    fn clone(&self) -> SyncSender<T> {
        SyncSender(self.0.clone())
    }
}

impl<T> fmt::Debug for SyncSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncSender").finish_non_exhaustive()
    }
}

/// The receiving side of a channel. It may be sent to another thread, but not shared.
///
/// ```
/// let (sender, receiver) = runtime::sync::mpsc::channel();
/// let other = runtime::spawn(move || receiver.recv());
/// sender.send(1).unwrap();
/// assert_eq!(other.join().unwrap(), Ok(1));
/// ```
///
/// ```compile_fail
/// let (_sender, receiver) = runtime::sync::mpsc::channel::<u32>();
/// runtime::scope(|s| drop(s.spawn(|| receiver.recv())));
/// ```
pub struct Receiver<T> {
    receiver: channel::Receiver<T>,
    /// `Send` but not `Sync`, as in std.
    _not_sync: PhantomData<Cell<()>>,
}

// As in std.
impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> Receiver<T> {
    fn new(receiver: channel::Receiver<T>) -> Self {
        Receiver { receiver, _not_sync: PhantomData }
    }

    /// Receives a message without waiting.
    ///
    /// # Errors
    ///
    /// Returns an error if the channel has no message; it says whether all senders are gone.
    ///
    /// ```
    /// use runtime::sync::mpsc::{TryRecvError, channel};
    /// let (sender, receiver) = channel::<u32>();
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    /// drop(sender);
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
    /// ```
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.receiver.try_recv().map_err(|error| match error {
            channel::TryRecvError::Empty => TryRecvError::Empty,
            channel::TryRecvError::Disconnected => TryRecvError::Disconnected,
        })
    }

    /// Receives a message. Waits until there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the channel has no message and all senders are gone.
    ///
    /// ```
    /// use runtime::sync::mpsc::{RecvError, channel};
    /// let (sender, receiver) = channel::<u32>();
    /// drop(sender);
    /// assert_eq!(receiver.recv(), Err(RecvError));
    /// ```
    pub fn recv(&self) -> Result<T, RecvError> {
        self.receiver.recv().map_err(|channel::RecvError| RecvError)
    }

    /// Receives a message, and waits at most for `timeout`.
    ///
    /// # Errors
    ///
    /// Returns an error if the time was up, or if the channel has no message and all senders are gone.
    ///
    /// ```
    /// use runtime::sync::mpsc::{RecvTimeoutError, channel};
    /// let (_sender, receiver) = channel::<u32>();
    /// let time = std::time::Duration::from_millis(1);
    /// assert_eq!(receiver.recv_timeout(time), Err(RecvTimeoutError::Timeout));
    /// ```
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.receiver.recv_timeout(timeout).map_err(|error| match error {
            channel::RecvTimeoutError::Timeout => RecvTimeoutError::Timeout,
            channel::RecvTimeoutError::Disconnected => RecvTimeoutError::Disconnected,
        })
    }

    /// Returns an iterator over the messages. It waits for each, and ends when all senders are gone.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::mpsc::channel();
    /// runtime::spawn(move || (0..3).for_each(|i| sender.send(i).unwrap()));
    /// assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 1, 2]);
    /// ```
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// Returns an iterator over the messages that are in the channel. It never waits.
    ///
    /// ```
    /// let (sender, receiver) = runtime::sync::mpsc::channel();
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.try_iter().count(), 1);
    /// ```
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

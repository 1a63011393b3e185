//! `Sender`: the sending handle of a channel.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

use super::buffer::{Chain, Ring};
use super::buffered::Buffered;
use super::error::{SendError, SendTimeoutError, TrySendError};
use super::rendezvous::Rendezvous;
use super::shared::{Handle, Sending};

/// The sending side of a channel.
///
/// Clones send into the same channel. When all of them are dropped, receivers get the messages that are left,
/// and then an error.
///
/// ```
/// let (s1, r) = runtime::channel::unbounded();
/// let s2 = s1.clone();
/// runtime::spawn(move || s1.send(1).unwrap());
/// runtime::spawn(move || s2.send(2).unwrap());
/// assert_eq!(r.iter().sum::<i32>(), 3);
/// ```
pub struct Sender<T>(pub(super) Flavor<T>);

pub(super) enum Flavor<T> {
    Bounded(Handle<Buffered<T, Ring<T>>, Sending>),
    Unbounded(Handle<Buffered<T, Chain<T>>, Sending>),
    Rendezvous(Handle<Rendezvous<T>, Sending>),
}

/// Matches on the kind of channel, with the same code for each kind. With `at_point`, after a point of
/// choice; channels with room make their own.
macro_rules! each {
    (at_point, $sender:expr, $channel:ident => $do:expr) => {
        match &$sender.0 {
            Flavor::Bounded($channel) => $do,
            Flavor::Unbounded($channel) => $do,
            Flavor::Rendezvous($channel) => {
                crate::point();
                $do
            }
        }
    };
    ($sender:expr, $channel:ident => $do:expr) => {
        match &$sender.0 {
            Flavor::Bounded($channel) => $do,
            Flavor::Unbounded($channel) => $do,
            Flavor::Rendezvous($channel) => $do,
        }
    };
}

impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}

impl<T> Sender<T> {
    /// Sends `msg` without waiting.
    ///
    /// On a channel of capacity 0 it succeeds only if a receiver waits.
    ///
    /// # Errors
    ///
    /// Returns the message if there is no room, or if all receivers are gone.
    ///
    /// ```
    /// use runtime::channel::{TrySendError, bounded};
    /// let (s, _r) = bounded(1);
    /// assert_eq!(s.try_send(1), Ok(()));
    /// assert_eq!(s.try_send(2), Err(TrySendError::Full(2)));
    /// ```
    #[inline]
    pub fn try_send(&self, msg: T) -> Result<(), TrySendError<T>> {
        each!(at_point, self, channel => channel.try_send(msg))
    }

    /// Sends `msg`. Waits until there is room; on a channel of capacity 0, until a receiver takes the
    /// message.
    ///
    /// # Errors
    ///
    /// Returns the message if all receivers are gone.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here, and the message is dropped.
    ///
    /// ```
    /// let (s, r) = runtime::channel::bounded(0);
    /// let sender = runtime::spawn(move || s.send("hello"));
    /// assert_eq!(r.recv(), Ok("hello"));
    /// assert_eq!(sender.join().unwrap(), Ok(()));
    /// ```
    // Inlined for the reason that `Receiver::recv` gives.
    #[inline(always)]
    pub fn send(&self, msg: T) -> Result<(), SendError<T>> {
        each!(at_point, self, channel => channel.send(msg, None))
            .map_err(|error| SendError(error.into_inner()))
    }

    /// Sends `msg`, and waits at most for `timeout`. A time beyond the clock's range means for ever.
    ///
    /// # Errors
    ///
    /// Returns the message if the time was up, or if all receivers are gone.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here, and the message is dropped.
    ///
    /// ```
    /// use runtime::channel::{SendTimeoutError, bounded};
    /// let (s, _r) = bounded(0);
    /// assert_eq!(s.send_timeout(1, std::time::Duration::from_millis(1)), Err(SendTimeoutError::Timeout(1)));
    /// ```
    pub fn send_timeout(&self, msg: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        match Instant::now().checked_add(timeout) {
            Some(deadline) => self.send_deadline(msg, deadline),
            None => Ok(self.send(msg)?),
        }
    }

    /// Sends `msg`, and waits at most until `deadline`.
    ///
    /// # Errors
    ///
    /// Returns the message if the time was up, or if all receivers are gone.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here, and the message is dropped.
    ///
    /// ```
    /// use std::time::Instant;
    /// let (s, _r) = runtime::channel::bounded(1);
    /// assert!(s.send_deadline(1, Instant::now()).is_ok(), "there is room, so the send need not wait");
    /// assert!(s.send_deadline(2, Instant::now()).unwrap_err().is_timeout());
    /// ```
    pub fn send_deadline(&self, msg: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        each!(at_point, self, channel => channel.send(msg, Some(deadline)))
    }

    /// Sends `msg` in a future, which waits until there is room.
    ///
    /// If the future is dropped before it is ready, the message is dropped, or it has been sent.
    ///
    /// # Errors
    ///
    /// Returns the message if all receivers are gone.
    ///
    /// ```
    /// let (s, r) = runtime::channel::bounded(0);
    /// runtime::spawn(async move { s.send_async(42).await.unwrap() });
    /// assert_eq!(r.recv(), Ok(42));
    /// ```
    #[cfg(not(loom))]
    pub async fn send_async(&self, msg: T) -> Result<(), SendError<T>> {
        each!(self, channel => channel.send_async(msg).await)
    }

    /// Returns `true` if the channel has no message. A channel of capacity 0 is always empty.
    ///
    /// ```
    /// let (s, _r) = runtime::channel::unbounded();
    /// assert!(s.is_empty());
    /// s.send(1).unwrap();
    /// assert!(!s.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        crate::point();
        each!(self, channel => channel.len()) == 0
    }

    /// Returns `true` if the channel has no room. A channel of capacity 0 is always full.
    ///
    /// ```
    /// let (s, _r) = runtime::channel::bounded(1);
    /// assert!(!s.is_full());
    /// s.send(1).unwrap();
    /// assert!(s.is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        crate::point();
        each!(self, channel => channel.is_full())
    }

    /// Returns the number of messages in the channel.
    ///
    /// ```
    /// let (s, _r) = runtime::channel::unbounded();
    /// s.send(1).unwrap();
    /// assert_eq!(s.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        crate::point();
        each!(self, channel => channel.len())
    }

    /// Returns the number of messages for which the channel has room, or `None` if any number has room.
    ///
    /// ```
    /// use runtime::channel::{bounded, unbounded};
    /// assert_eq!(unbounded::<i32>().0.capacity(), None);
    /// assert_eq!(bounded::<i32>(5).0.capacity(), Some(5));
    /// assert_eq!(bounded::<i32>(0).0.capacity(), Some(0));
    /// ```
    pub fn capacity(&self) -> Option<usize> {
        match &self.0 {
            Flavor::Bounded(channel) => Some(channel.capacity()),
            Flavor::Unbounded(_) => None,
            Flavor::Rendezvous(_) => Some(0),
        }
    }

    /// Returns `true` if both handles send into the same channel.
    ///
    /// ```
    /// let (s, _r) = runtime::channel::unbounded::<i32>();
    /// assert!(s.same_channel(&s.clone()));
    /// assert!(!s.same_channel(&runtime::channel::unbounded().0));
    /// ```
    pub fn same_channel(&self, other: &Sender<T>) -> bool {
        match (&self.0, &other.0) {
            (Flavor::Bounded(a), Flavor::Bounded(b)) => a.same(b),
            (Flavor::Unbounded(a), Flavor::Unbounded(b)) => a.same(b),
            (Flavor::Rendezvous(a), Flavor::Rendezvous(b)) => a.same(b),
            _ => false,
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender(match &self.0 {
            Flavor::Bounded(channel) => Flavor::Bounded(channel.clone()),
            Flavor::Unbounded(channel) => Flavor::Unbounded(channel.clone()),
            Flavor::Rendezvous(channel) => Flavor::Rendezvous(channel.clone()),
        })
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Sender { .. }")
    }
}

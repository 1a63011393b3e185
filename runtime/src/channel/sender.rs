//! The sending handle.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

use super::buffer::{Chain, Ring};
use super::buffered::Buffered;
use super::error::{SendError, SendTimeoutError, TrySendError};
use super::rendezvous::Rendezvous;
use super::shared::{Handle, Sending};

/// The sending side of a channel. Clones send into the same channel; when all are gone, receivers get what is left and
/// then hear that the channel is disconnected.
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

/// Does the same with each kind of channel.
macro_rules! each {
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
    /// Sends without waiting.
    ///
    /// On a channel of capacity 0 it succeeds only if somebody waits to receive.
    ///
    /// # Errors
    ///
    /// There is no room, or all receivers are gone; with the message.
    ///
    /// ```
    /// use runtime::channel::{TrySendError, bounded};
    /// let (s, _r) = bounded(1);
    /// assert_eq!(s.try_send(1), Ok(()));
    /// assert_eq!(s.try_send(2), Err(TrySendError::Full(2)));
    /// ```
    #[inline]
    pub fn try_send(&self, msg: T) -> Result<(), TrySendError<T>> {
        each!(self, channel => channel.try_send(msg))
    }

    /// Sends, and waits until there is room; on a channel of capacity 0, until somebody receives.
    ///
    /// # Errors
    ///
    /// All receivers are gone; with the message.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread unwinds from here if it has to wait; the message is dropped.
    ///
    /// ```
    /// let (s, r) = runtime::channel::bounded(0);
    /// let sender = runtime::spawn(move || s.send("hello"));
    /// assert_eq!(r.recv(), Ok("hello"));
    /// assert_eq!(sender.join().unwrap(), Ok(()));
    /// ```
    // As `Receiver::recv`.
    #[inline(always)]
    pub fn send(&self, msg: T) -> Result<(), SendError<T>> {
        each!(self, channel => channel.send(msg, None)).map_err(|error| SendError(error.into_inner()))
    }

    /// [`send`](Sender::send) that waits no longer than that.
    ///
    /// # Errors
    ///
    /// The time was up, or all receivers are gone; with the message.
    ///
    /// # Cancellation
    ///
    /// As for [`send`](Sender::send).
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

    /// [`send`](Sender::send) that waits no longer than until then.
    ///
    /// # Errors
    ///
    /// The time was up, or all receivers are gone; with the message.
    ///
    /// # Cancellation
    ///
    /// As for [`send`](Sender::send).
    ///
    /// ```
    /// use std::time::Instant;
    /// let (s, _r) = runtime::channel::bounded(1);
    /// assert!(s.send_deadline(1, Instant::now()).is_ok(), "there is room, so it need not wait");
    /// assert!(s.send_deadline(2, Instant::now()).unwrap_err().is_timeout());
    /// ```
    pub fn send_deadline(&self, msg: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        each!(self, channel => channel.send(msg, Some(deadline)))
    }

    /// [`send`](Sender::send) for futures.
    ///
    /// A future that is dropped before it is ready has sent nothing, or has sent the message: never both.
    ///
    /// # Errors
    ///
    /// All receivers are gone; with the message.
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

    /// Whether there is no message. A channel of capacity 0 is always empty.
    ///
    /// ```
    /// let (s, _r) = runtime::channel::unbounded();
    /// assert!(s.is_empty());
    /// s.send(1).unwrap();
    /// assert!(!s.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        each!(self, channel => channel.len()) == 0
    }

    /// Whether there is no room. A channel of capacity 0 is always full.
    ///
    /// ```
    /// let (s, _r) = runtime::channel::bounded(1);
    /// assert!(!s.is_full());
    /// s.send(1).unwrap();
    /// assert!(s.is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        each!(self, channel => channel.is_full())
    }

    /// How many messages are in the channel.
    ///
    /// ```
    /// let (s, _r) = runtime::channel::unbounded();
    /// s.send(1).unwrap();
    /// assert_eq!(s.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        each!(self, channel => channel.len())
    }

    /// For how many messages there is room; `None` for any number.
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

    /// Whether both send into the same channel.
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

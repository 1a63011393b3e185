//! `Receiver`: the receiving handle of a channel, and its iterators.

use std::fmt;
use std::iter::FusedIterator;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
#[cfg(not(loom))]
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::buffer::{Chain, Ring};
use super::buffered::Buffered;
use super::error::{RecvError, RecvTimeoutError, TryRecvError};
#[cfg(not(loom))]
use super::polled::Polled;
use super::rendezvous::Rendezvous;
use super::shared::{Handle, Receiving};
use super::timed::{self, Timed};

/// The receiving side of a channel.
///
/// Clones receive from the same channel, and each message goes to one of them. When all of them are dropped,
/// senders get an error.
///
/// ```
/// let (s, r) = runtime::channel::unbounded();
/// runtime::spawn(move || (0..3).for_each(|i| s.send(i).unwrap()));
/// assert_eq!(r.recv(), Ok(0));
/// assert_eq!(r.iter().collect::<Vec<_>>(), [1, 2]);
/// ```
pub struct Receiver<T>(pub(super) Flavor<T>, #[cfg(not(loom))] pub(super) Polled<T>);

pub(super) enum Flavor<T> {
    Bounded(Handle<Buffered<T, Ring<T>>, Receiving>),
    Unbounded(Handle<Buffered<T, Chain<T>>, Receiving>),
    Rendezvous(Handle<Rendezvous<T>, Receiving>),
    /// `T` is `Instant`; the function turns one into the other.
    Timed(Arc<Timed<T>>, fn(Instant) -> T),
    Never,
}

impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

impl Receiver<Instant> {
    pub(super) fn timed(first: Option<Instant>, period: Option<Duration>) -> Self {
        Receiver::of(Flavor::Timed(Arc::new(Timed::new(first, period)), |instant| instant))
    }
}

impl<T> Receiver<T> {
    pub(super) const fn of(flavor: Flavor<T>) -> Self {
        Receiver(
            flavor,
            #[cfg(not(loom))]
            Polled::<T>::new(),
        )
    }

    /// Receives a message without waiting.
    ///
    /// On a channel of capacity 0 it succeeds only if a sender waits. (If that sender is a `select!`, this
    /// waits until the message has been evaluated.)
    ///
    /// # Errors
    ///
    /// Returns an error if the channel has no message; it says whether all senders are gone.
    ///
    /// ```
    /// use runtime::channel::{TryRecvError, unbounded};
    /// let (s, r) = unbounded();
    /// assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
    /// s.send(1).unwrap();
    /// assert_eq!(r.try_recv(), Ok(1));
    /// ```
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        match &self.0 {
            // Channels with room make their own points of choice.
            Flavor::Bounded(channel) => channel.try_recv(),
            Flavor::Unbounded(channel) => channel.try_recv(),
            Flavor::Rendezvous(channel) => {
                crate::point();
                channel.try_recv()
            }
            Flavor::Timed(timed, message) => {
                crate::point();
                timed.try_recv().map(message)
            }
            Flavor::Never => {
                crate::point();
                Err(TryRecvError::Empty)
            }
        }
    }

    /// Receives a message. Waits until there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the channel has no message and all senders are gone.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. No message is lost.
    ///
    /// ```
    /// use runtime::channel::{RecvError, unbounded};
    /// let (s, r) = unbounded();
    /// runtime::spawn(move || s.send(5));
    /// assert_eq!(r.recv(), Ok(5));
    /// assert_eq!(r.recv(), Err(RecvError));
    /// ```
    // Inlined for the reason that `sched::park::yield_now` gives. The functions called here are out of line,
    // but for the switch.
    #[inline(always)]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.recv_until(None).map_err(|_| RecvError)
    }

    /// Receives a message, and waits at most for `timeout`. A time beyond the clock's range means for ever.
    ///
    /// # Errors
    ///
    /// Returns an error if the time was up, or if the channel has no message and all senders are gone.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. No message is lost.
    ///
    /// ```
    /// use runtime::channel::{RecvTimeoutError, unbounded};
    /// let (_s, r) = unbounded::<i32>();
    /// assert_eq!(r.recv_timeout(std::time::Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
    /// ```
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        // A time beyond the clock's range means for ever.
        self.recv_until(Instant::now().checked_add(timeout))
    }

    /// Receives a message, and waits at most until `deadline`.
    ///
    /// # Errors
    ///
    /// Returns an error if the time was up, or if the channel has no message and all senders are gone.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. No message is lost.
    ///
    /// ```
    /// use std::time::Instant;
    /// let (s, r) = runtime::channel::unbounded();
    /// s.send(1).unwrap();
    /// assert_eq!(r.recv_deadline(Instant::now()), Ok(1));
    /// assert!(r.recv_deadline(Instant::now()).unwrap_err().is_timeout());
    /// ```
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.recv_until(Some(deadline))
    }

    #[inline(always)]
    fn recv_until(&self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        match &self.0 {
            // Channels with room make their own points of choice.
            Flavor::Bounded(channel) => channel.recv(deadline),
            Flavor::Unbounded(channel) => channel.recv(deadline),
            Flavor::Rendezvous(channel) => {
                crate::point();
                channel.recv(deadline)
            }
            Flavor::Timed(timed, message) => {
                crate::point();
                timed.recv(deadline).map(message)
            }
            Flavor::Never => {
                crate::point();
                timed::sleep_until(deadline);
                Err(RecvTimeoutError::Timeout)
            }
        }
    }

    /// Receives a message in a future, which waits until there is one.
    ///
    /// If the future is dropped before it is ready, no message is lost.
    ///
    /// # Errors
    ///
    /// Returns an error if the channel has no message and all senders are gone.
    ///
    /// ```
    /// let (s, r) = runtime::channel::unbounded();
    /// let sum = runtime::spawn(async move {
    ///     let mut sum = 0;
    ///     while let Ok(n) = r.recv_async().await {
    ///         sum += n;
    ///     }
    ///     sum
    /// });
    /// (1..=4).for_each(|n| s.send(n).unwrap());
    /// drop(s);
    /// assert_eq!(sum.join().unwrap(), 10);
    /// ```
    #[cfg(not(loom))]
    pub async fn recv_async(&self) -> Result<T, RecvError> {
        match &self.0 {
            Flavor::Bounded(channel) => channel.recv_async().await,
            Flavor::Unbounded(channel) => channel.recv_async().await,
            Flavor::Rendezvous(channel) => channel.recv_async().await,
            Flavor::Timed(timed, message) => Ok(message(timed.recv_async().await)),
            Flavor::Never => std::future::pending().await,
        }
    }

    /// Polls for what [`recv`](Receiver::recv) returns, for futures that are written by hand. If there is no
    /// message, it wakes the task of `cx` later, and returns `Pending`.
    ///
    /// Only the task that was polled last is woken. A wait lasts from a pending poll to the next poll. The
    /// message that ends it is that of the next poll. If this receiver is dropped first, other receivers get
    /// that message. During the wait, other calls of this receiver act as those of a clone: they receive
    /// later messages.
    ///
    /// # Errors
    ///
    /// Returns an error if the channel has no message and all senders are gone.
    ///
    /// ```
    /// use runtime::channel::unbounded;
    /// use std::future::poll_fn;
    /// let (s, mut r) = unbounded();
    /// runtime::spawn(move || s.send(7).unwrap());
    /// assert_eq!(runtime::block_on(poll_fn(|cx| r.poll_recv(cx))), Ok(7));
    /// assert!(runtime::block_on(poll_fn(|cx| r.poll_recv(cx))).is_err());
    /// ```
    #[cfg(not(loom))]
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, RecvError>>
    where
        T: Send + 'static,
    {
        sched::budget::poll(cx, |cx| {
            let waits = match self.1.take() {
                Some(waits) => waits,
                None => match self.try_recv() {
                    Ok(message) => return Poll::Ready(Ok(message)),
                    Err(TryRecvError::Disconnected) => return Poll::Ready(Err(RecvError)),
                    Err(TryRecvError::Empty) => {
                        let receiver = self.clone();
                        Box::pin(async move { receiver.recv_async().await })
                    }
                },
            };
            self.1.poll(waits, cx)
        })
    }

    /// Returns `true` if the channel has no message. A channel of capacity 0 is always empty.
    ///
    /// ```
    /// let (s, r) = runtime::channel::unbounded();
    /// assert!(r.is_empty());
    /// s.send(1).unwrap();
    /// assert!(!r.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        crate::point();
        self.len() == 0
    }

    /// Returns `true` if the channel has no room. A channel of capacity 0 is always full.
    ///
    /// ```
    /// let (s, r) = runtime::channel::bounded(1);
    /// assert!(!r.is_full());
    /// s.send(1).unwrap();
    /// assert!(r.is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        crate::point();
        match &self.0 {
            Flavor::Bounded(channel) => channel.is_full(),
            Flavor::Unbounded(channel) => channel.is_full(),
            Flavor::Rendezvous(channel) => channel.is_full(),
            Flavor::Timed(timed, _) => timed.is_ready(),
            Flavor::Never => true,
        }
    }

    /// Returns the number of messages in the channel.
    ///
    /// ```
    /// let (s, r) = runtime::channel::unbounded();
    /// s.send(1).unwrap();
    /// assert_eq!(r.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        crate::point();
        match &self.0 {
            Flavor::Bounded(channel) => channel.len(),
            Flavor::Unbounded(channel) => channel.len(),
            Flavor::Rendezvous(channel) => channel.len(),
            Flavor::Timed(timed, _) => usize::from(timed.is_ready()),
            Flavor::Never => 0,
        }
    }

    /// Returns the number of messages for which the channel has room, or `None` if any number has room.
    ///
    /// ```
    /// use runtime::channel::{after, bounded, unbounded};
    /// assert_eq!(unbounded::<i32>().1.capacity(), None);
    /// assert_eq!(bounded::<i32>(5).1.capacity(), Some(5));
    /// assert_eq!(after(std::time::Duration::ZERO).capacity(), Some(1));
    /// ```
    pub fn capacity(&self) -> Option<usize> {
        match &self.0 {
            Flavor::Bounded(channel) => Some(channel.capacity()),
            Flavor::Unbounded(_) => None,
            Flavor::Timed(..) => Some(1),
            Flavor::Rendezvous(_) | Flavor::Never => Some(0),
        }
    }

    /// Returns `true` if both handles receive from the same channel. All channels of
    /// [`never`](super::never()) count as one.
    ///
    /// ```
    /// let (_s, r) = runtime::channel::unbounded::<i32>();
    /// assert!(r.same_channel(&r.clone()));
    /// assert!(!r.same_channel(&runtime::channel::never()));
    /// ```
    pub fn same_channel(&self, other: &Receiver<T>) -> bool {
        match (&self.0, &other.0) {
            (Flavor::Bounded(a), Flavor::Bounded(b)) => a.same(b),
            (Flavor::Unbounded(a), Flavor::Unbounded(b)) => a.same(b),
            (Flavor::Rendezvous(a), Flavor::Rendezvous(b)) => a.same(b),
            (Flavor::Timed(a, _), Flavor::Timed(b, _)) => Arc::ptr_eq(a, b),
            (Flavor::Never, Flavor::Never) => true,
            _ => false,
        }
    }

    /// Returns an iterator over the messages. It waits for each, and ends when the channel is empty and
    /// disconnected.
    ///
    /// ```
    /// let (s, r) = runtime::channel::unbounded();
    /// runtime::spawn(move || (0..3).for_each(|i| s.send(i).unwrap()));
    /// assert_eq!(r.iter().collect::<Vec<_>>(), [0, 1, 2]);
    /// ```
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// Returns an iterator over the messages that are in the channel. It never waits.
    ///
    /// ```
    /// let (s, r) = runtime::channel::unbounded();
    /// (0..3).for_each(|i| s.send(i).unwrap());
    /// assert_eq!(r.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
    /// ```
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Receiver::of(match &self.0 {
            Flavor::Bounded(channel) => Flavor::Bounded(channel.clone()),
            Flavor::Unbounded(channel) => Flavor::Unbounded(channel.clone()),
            Flavor::Rendezvous(channel) => Flavor::Rendezvous(channel.clone()),
            Flavor::Timed(timed, message) => Flavor::Timed(Arc::clone(timed), *message),
            Flavor::Never => Flavor::Never,
        })
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Receiver { .. }")
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}

/// The iterator that [`Receiver::iter`] returns.
///
/// ```
/// let (s, r) = runtime::channel::unbounded();
/// s.send(1).unwrap();
/// let mut messages: runtime::channel::Iter<'_, i32> = r.iter();
/// assert_eq!(messages.next(), Some(1));
/// ```
pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// The iterator that [`Receiver::try_iter`] returns.
///
/// ```
/// let (_s, r) = runtime::channel::unbounded::<i32>();
/// let mut messages: runtime::channel::TryIter<'_, i32> = r.try_iter();
/// assert_eq!(messages.next(), None);
/// ```
pub struct TryIter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// The iterator that [`Receiver::into_iter`] returns. It owns the receiver.
///
/// ```
/// let (s, r) = runtime::channel::unbounded();
/// s.send(1).unwrap();
/// drop(s);
/// let messages: runtime::channel::IntoIter<i32> = r.into_iter();
/// assert_eq!(messages.count(), 1);
/// ```
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> FusedIterator for Iter<'_, T> {}
impl<T> FusedIterator for IntoIter<T> {}

impl<T> fmt::Debug for Iter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Iter { .. }")
    }
}

impl<T> fmt::Debug for TryIter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("TryIter { .. }")
    }
}

impl<T> fmt::Debug for IntoIter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("IntoIter { .. }")
    }
}

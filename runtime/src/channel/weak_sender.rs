//! `WeakSender`: a handle that makes senders, and does not keep the channel open.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use super::buffer::{Chain, Ring};
use super::buffered::Buffered;
use super::receiver::{Flavor as Receives, Receiver};
use super::rendezvous::Rendezvous;
use super::sender::{Flavor, Sender};
use super::shared::{Sending, Weak};

/// A handle that [`Sender::downgrade`] returns. It becomes a [`Sender`] again while another sender lives.
///
/// It keeps the memory of the channel, but not the channel open. A part of a program that may want to send
/// later can keep one, and receivers still see the end of all senders. So a worker ends that puts further
/// work into its own channel.
///
/// ```
/// let (s, r) = runtime::channel::unbounded();
/// let weak = s.downgrade();
/// let worker = runtime::spawn(move || {
///     r.iter().inspect(|&n: &i32| match weak.upgrade() {
///         Some(s) if n > 1 => s.send(n - 1).unwrap(),
///         _ => {}
///     })
///     .count()
/// });
/// s.send(3).unwrap();
/// drop(s);
/// assert!(worker.join().unwrap() >= 1);
/// ```
pub struct WeakSender<T>(Of<T>);

/// By the kind of channel.
enum Of<T> {
    Bounded(Weak<Buffered<T, Ring<T>>>),
    Unbounded(Weak<Buffered<T, Chain<T>>>),
    Rendezvous(Weak<Rendezvous<T>>),
}

macro_rules! each {
    ($weak:expr, $channel:ident => $do:expr) => {
        match &$weak.0 {
            Of::Bounded($channel) => $do,
            Of::Unbounded($channel) => $do,
            Of::Rendezvous($channel) => $do,
        }
    };
}

impl<T> UnwindSafe for WeakSender<T> {}
impl<T> RefUnwindSafe for WeakSender<T> {}

impl<T> Sender<T> {
    /// Returns a handle that does not keep the channel open. Never waits.
    ///
    /// ```
    /// let (s, r) = runtime::channel::unbounded::<i32>();
    /// let weak = s.downgrade();
    /// weak.upgrade().unwrap().send(1).unwrap();
    /// drop(s);
    /// assert!(weak.upgrade().is_none());
    /// assert_eq!(r.iter().collect::<Vec<_>>(), [1]);
    /// ```
    #[must_use = "a weak sender does nothing by itself"]
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender(match &self.0 {
            Flavor::Bounded(channel) => Of::Bounded(channel.downgrade()),
            Flavor::Unbounded(channel) => Of::Unbounded(channel.downgrade()),
            Flavor::Rendezvous(channel) => Of::Rendezvous(channel.downgrade()),
        })
    }

    /// Returns the number of senders. It may be out of date on return.
    ///
    /// ```
    /// let (s, _r) = runtime::channel::unbounded::<i32>();
    /// let _other = s.clone();
    /// assert_eq!(s.strong_count(), 2);
    /// ```
    pub fn strong_count(&self) -> usize {
        crate::point();
        match &self.0 {
            Flavor::Bounded(channel) => channel.count(),
            Flavor::Unbounded(channel) => channel.count(),
            Flavor::Rendezvous(channel) => channel.count(),
        }
    }

    /// Returns the number of weak senders. It may be out of date on return.
    ///
    /// ```
    /// let (s, _r) = runtime::channel::unbounded::<i32>();
    /// let _weak = s.downgrade();
    /// assert_eq!(s.weak_count(), 1);
    /// ```
    pub fn weak_count(&self) -> usize {
        crate::point();
        match &self.0 {
            Flavor::Bounded(channel) => channel.weak_count(),
            Flavor::Unbounded(channel) => channel.weak_count(),
            Flavor::Rendezvous(channel) => channel.weak_count(),
        }
    }
}

impl<T> Receiver<T> {
    /// Returns the number of senders. It may be out of date on return. A channel that never had senders, such
    /// as that of [`after`](super::after), has 0.
    ///
    /// ```
    /// let (s, r) = runtime::channel::unbounded::<i32>();
    /// let _other = s.clone();
    /// assert_eq!(r.sender_strong_count(), 2);
    /// ```
    pub fn sender_strong_count(&self) -> usize {
        crate::point();
        match &self.0 {
            Receives::Bounded(channel) => channel.count_of::<Sending>(),
            Receives::Unbounded(channel) => channel.count_of::<Sending>(),
            Receives::Rendezvous(channel) => channel.count_of::<Sending>(),
            Receives::Timed(..) | Receives::Never => 0,
        }
    }

    /// Returns the number of weak senders. It may be out of date on return.
    ///
    /// ```
    /// let (s, r) = runtime::channel::unbounded::<i32>();
    /// let _weak = s.downgrade();
    /// assert_eq!(r.sender_weak_count(), 1);
    /// ```
    pub fn sender_weak_count(&self) -> usize {
        crate::point();
        match &self.0 {
            Receives::Bounded(channel) => channel.weak_count(),
            Receives::Unbounded(channel) => channel.weak_count(),
            Receives::Rendezvous(channel) => channel.weak_count(),
            Receives::Timed(..) | Receives::Never => 0,
        }
    }
}

impl<T> WeakSender<T> {
    /// Returns a sender, or `None` if all senders are gone. Never waits.
    ///
    /// A channel without receivers has senders: these fail to send.
    ///
    /// ```
    /// let (s, r) = runtime::channel::bounded(1);
    /// let weak = s.downgrade();
    /// assert_eq!(weak.upgrade().unwrap().send(1), Ok(()));
    /// drop(s);
    /// assert!(weak.upgrade().is_none());
    /// assert_eq!(r.recv(), Ok(1));
    /// ```
    #[must_use]
    pub fn upgrade(&self) -> Option<Sender<T>> {
        crate::point();
        Some(Sender(match &self.0 {
            Of::Bounded(channel) => Flavor::Bounded(channel.upgrade::<Sending>()?),
            Of::Unbounded(channel) => Flavor::Unbounded(channel.upgrade::<Sending>()?),
            Of::Rendezvous(channel) => Flavor::Rendezvous(channel.upgrade::<Sending>()?),
        }))
    }

    /// Returns the number of senders. It may be out of date on return.
    ///
    /// ```
    /// let (s, _r) = runtime::channel::unbounded::<i32>();
    /// let weak = s.downgrade();
    /// assert_eq!(weak.strong_count(), 1);
    /// drop(s);
    /// assert_eq!(weak.strong_count(), 0);
    /// ```
    pub fn strong_count(&self) -> usize {
        crate::point();
        each!(self, channel => channel.count::<Sending>())
    }

    /// Returns the number of weak senders. It may be out of date on return.
    ///
    /// ```
    /// let (s, _r) = runtime::channel::unbounded::<i32>();
    /// let weak = s.downgrade();
    /// let _other = weak.clone();
    /// assert_eq!(weak.weak_count(), 2);
    /// ```
    pub fn weak_count(&self) -> usize {
        crate::point();
        each!(self, channel => channel.weak_count())
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        WeakSender(match &self.0 {
            Of::Bounded(channel) => Of::Bounded(channel.clone()),
            Of::Unbounded(channel) => Of::Unbounded(channel.clone()),
            Of::Rendezvous(channel) => Of::Rendezvous(channel.clone()),
        })
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("WeakSender { .. }")
    }
}

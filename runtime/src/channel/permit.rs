//! `Permit`: room in a channel that is reserved for one message.

use std::fmt;
use std::mem::ManuallyDrop;

use super::buffered::BegunSend;
use super::error::{SendError, TrySendError};
use super::sender::{Flavor, Sender};

/// Room for one message, which [`Sender::reserve`] and its kin return.
///
/// No other sender can use the room. The drop of a permit gives its room to the next sender that waits. A
/// permit that is forgotten (`std::mem::forget`) keeps its room as long as the channel lasts.
///
/// ```
/// use runtime::channel::{Permit, TrySendError, bounded};
/// let (s, r) = bounded(1);
/// let permit: Permit<'_, i32> = s.reserve().unwrap();
/// assert_eq!(s.try_send(1), Err(TrySendError::Full(1)));
/// permit.send(2);
/// assert_eq!(r.recv(), Ok(2));
/// ```
#[must_use = "the drop of a permit gives its room back"]
pub struct Permit<'a, T> {
    /// The channel has reserved room for this permit, which `send` or `drop` ends.
    sender: &'a Sender<T>,
}

/// Matches on the kinds of channel that have room.
macro_rules! with_room {
    ($sender:expr, $channel:ident => $do:expr) => {
        match &$sender.0 {
            Flavor::Bounded($channel) => $do,
            Flavor::Unbounded($channel) => $do,
            Flavor::Rendezvous(_) => panic!("a channel of capacity 0 has no room to reserve"),
        }
    };
}

impl<T> Sender<T> {
    /// Reserves room for one message without waiting.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no room, or if all receivers are gone.
    ///
    /// # Panics
    ///
    /// Panics if the channel has capacity 0: it has no room, because each message meets a receiver.
    ///
    /// ```
    /// use runtime::channel::{TrySendError, bounded};
    /// let (s, r) = bounded(1);
    /// let permit = s.try_reserve().unwrap();
    /// assert_eq!(s.try_reserve().unwrap_err(), TrySendError::Full(()));
    /// permit.send(1);
    /// assert_eq!(r.recv(), Ok(1));
    /// ```
    pub fn try_reserve(&self) -> Result<Permit<'_, T>, TrySendError<()>> {
        crate::point();
        match with_room!(self, channel => channel.begin_send()) {
            Some(begun_send) => Ok(self.permit(&begun_send)?),
            None => Err(TrySendError::Full(())),
        }
    }

    /// Reserves room for one message. Waits until there is room.
    ///
    /// A message that is made after this call is made only when it can be sent.
    ///
    /// # Errors
    ///
    /// Returns an error if all receivers are gone.
    ///
    /// # Panics
    ///
    /// Panics if the channel has capacity 0: it has no room, because each message meets a receiver.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here, and reserves nothing.
    ///
    /// ```
    /// let (s, r) = runtime::channel::bounded(1);
    /// runtime::spawn(move || {
    ///     for n in 0..3 {
    ///         let permit = s.reserve().unwrap();
    ///         permit.send(n);
    ///     }
    /// });
    /// assert_eq!(r.iter().collect::<Vec<_>>(), [0, 1, 2]);
    /// ```
    pub fn reserve(&self) -> Result<Permit<'_, T>, SendError<()>> {
        crate::point();
        self.permit(&with_room!(self, channel => channel.reserve()))
    }

    /// Reserves room for one message in a future, which waits until there is room.
    ///
    /// If the future is dropped before it is ready, nothing is reserved.
    ///
    /// # Errors
    ///
    /// Returns an error if all receivers are gone.
    ///
    /// # Panics
    ///
    /// The future panics if the channel has capacity 0: it has no room, because each message meets a
    /// receiver.
    ///
    /// ```
    /// let (s, r) = runtime::channel::bounded(1);
    /// runtime::spawn(async move { s.reserve_async().await.unwrap().send(42) });
    /// assert_eq!(r.recv(), Ok(42));
    /// ```
    #[cfg(not(loom))]
    pub async fn reserve_async(&self) -> Result<Permit<'_, T>, SendError<()>> {
        self.permit(&with_room!(self, channel => channel.reserve_async().await))
    }

    /// Returns the permit for room that was just reserved.
    fn permit(&self, begun_send: &BegunSend) -> Result<Permit<'_, T>, SendError<()>> {
        match begun_send {
            BegunSend::Room => Ok(Permit { sender: self }),
            BegunSend::Disconnected => Err(SendError(())),
        }
    }
}

impl<'a, T> Permit<'a, T> {
    /// Returns the permit for room that an `OwnedPermit` has reserved, and gives up.
    pub(super) fn of(sender: &'a Sender<T>) -> Self {
        Permit { sender }
    }

    /// Leaves the room reserved, for an `OwnedPermit`.
    pub(super) fn keep_room(self) {
        std::mem::forget(self);
    }

    /// Sends `msg` into the reserved room. Never waits. The message is dropped if all receivers are gone.
    ///
    /// ```
    /// let (s, r) = runtime::channel::bounded(1);
    /// s.reserve().unwrap().send(1);
    /// assert_eq!(r.recv(), Ok(1));
    /// ```
    pub fn send(self, msg: T) {
        // The room goes to the message, so the permit must not give it back.
        let sender = ManuallyDrop::new(self).sender;
        drop(with_room!(sender, channel => channel.finish_send(BegunSend::Room, msg)));
    }
}

impl<T> Drop for Permit<'_, T> {
    fn drop(&mut self) {
        crate::point_in_drop();
        with_room!(self.sender, channel => channel.abandon_send(BegunSend::Room));
    }
}

impl<T> fmt::Debug for Permit<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Permit { .. }")
    }
}

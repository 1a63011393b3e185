//! `OwnedPermit`: a permit that has its sender.

use std::fmt;

use super::error::{SendError, TrySendError};
use super::permit::Permit;
use super::sender::Sender;

/// Room for one message, with the sender that has reserved it. [`Sender::reserve_owned`] and its kin return
/// it.
///
/// It is as a [`Permit`], and can be moved to another thread or kept in a struct, because it borrows nothing.
///
/// ```
/// use runtime::channel::{OwnedPermit, bounded};
/// let (s, r) = bounded(1);
/// let permit: OwnedPermit<i32> = s.reserve_owned().unwrap();
/// runtime::spawn(move || permit.send(2));
/// assert_eq!(r.recv(), Ok(2));
/// ```
#[must_use = "the drop of a permit gives its room back"]
pub struct OwnedPermit<T> {
    /// `None` once `send` or `release` has it. Until then the channel has reserved room for this permit.
    sender: Option<Sender<T>>,
}

impl<T> Sender<T> {
    /// Reserves room for one message without waiting, for a permit that has this sender.
    ///
    /// # Errors
    ///
    /// Returns the sender if there is no room, or if all receivers are gone.
    ///
    /// # Panics
    ///
    /// Panics if the channel has capacity 0: it has no room, because each message meets a receiver.
    ///
    /// ```
    /// use runtime::channel::{TrySendError, bounded};
    /// let (s, r) = bounded(1);
    /// let permit = s.clone().try_reserve_owned().unwrap();
    /// let full = s.try_reserve_owned().unwrap_err();
    /// assert!(matches!(full, TrySendError::Full(_)));
    /// let s = permit.send(1);
    /// assert!(s.same_channel(&full.into_inner()));
    /// assert_eq!(r.recv(), Ok(1));
    /// ```
    pub fn try_reserve_owned(self) -> Result<OwnedPermit<T>, TrySendError<Self>> {
        match self.try_reserve().map(Permit::keep_room) {
            Ok(()) => Ok(OwnedPermit { sender: Some(self) }),
            Err(TrySendError::Full(())) => Err(TrySendError::Full(self)),
            Err(TrySendError::Disconnected(())) => Err(TrySendError::Disconnected(self)),
        }
    }

    /// Reserves room for one message, for a permit that has this sender. Waits until there is room.
    ///
    /// # Errors
    ///
    /// Returns an error if all receivers are gone. The sender is dropped.
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
    /// runtime::spawn(move || s.reserve_owned().unwrap().send(1));
    /// assert_eq!(r.recv(), Ok(1));
    /// ```
    pub fn reserve_owned(self) -> Result<OwnedPermit<T>, SendError<()>> {
        self.reserve()?.keep_room();
        Ok(OwnedPermit { sender: Some(self) })
    }

    /// Reserves room for one message in a future, for a permit that has this sender. The future waits until
    /// there is room.
    ///
    /// If the future is dropped before it is ready, nothing is reserved, and the sender is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if all receivers are gone. The sender is dropped.
    ///
    /// # Panics
    ///
    /// The future panics if the channel has capacity 0: it has no room, because each message meets a
    /// receiver.
    ///
    /// ```
    /// let (s, r) = runtime::channel::bounded(1);
    /// runtime::spawn(async move { s.reserve_owned_async().await.unwrap().send(42) });
    /// assert_eq!(r.recv(), Ok(42));
    /// ```
    #[cfg(not(loom))]
    pub async fn reserve_owned_async(self) -> Result<OwnedPermit<T>, SendError<()>> {
        self.reserve_async().await?.keep_room();
        Ok(OwnedPermit { sender: Some(self) })
    }
}

impl<T> OwnedPermit<T> {
    /// Sends `msg` into the reserved room, and returns the sender. Never waits. The message is dropped if all
    /// receivers are gone.
    ///
    /// ```
    /// let (s, r) = runtime::channel::bounded(1);
    /// let s = s.reserve_owned().unwrap().send(1);
    /// assert_eq!(r.recv(), Ok(1));
    /// assert_eq!(s.reserve_owned().unwrap().send(2).len(), 1);
    /// ```
    #[allow(clippy::must_use_candidate, reason = "often only the message matters")]
    pub fn send(self, msg: T) -> Sender<T> {
        let sender = self.into_sender();
        Permit::of(&sender).send(msg);
        sender
    }

    /// Gives the room back, and returns the sender. Never waits.
    ///
    /// ```
    /// let (s, _r) = runtime::channel::bounded(1);
    /// let s = s.reserve_owned().unwrap().release();
    /// assert_eq!(s.try_send(1), Ok(()));
    /// ```
    #[must_use = "the permit may be dropped instead"]
    pub fn release(self) -> Sender<T> {
        let sender = self.into_sender();
        drop(Permit::of(&sender));
        sender
    }

    /// Returns the sender, without giving the room back.
    fn into_sender(mut self) -> Sender<T> {
        self.sender.take().expect("a permit has its sender until its end")
    }
}

impl<T> Drop for OwnedPermit<T> {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take() {
            drop(Permit::of(&sender));
        }
    }
}

impl<T> fmt::Debug for OwnedPermit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("OwnedPermit { .. }")
    }
}

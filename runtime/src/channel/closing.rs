//! The end of a channel from the receiving side: `Receiver::close`, and what senders see of it.
//!
//! A channel is closed by its last receiver, or by `close`. `Receiver::disconnect` ends the `done` channel of
//! a context, which has capacity 0 and never carries a message.

use super::receiver::{Flavor, Receiver};
use super::sender::{Flavor as Sends, Sender};
use super::shared::Disconnect;

impl<T> Receiver<T> {
    /// Closes the channel for senders: each further send fails, and so do the sends that wait. The messages
    /// that are in the channel can still be received, and those for which a [`Permit`](super::Permit) has
    /// reserved room. After the last of them, receives fail.
    ///
    /// So a receiver can end without losing a message. Later calls have no effect, and neither has a call on
    /// a channel that has no senders, such as that of [`after`](super::after).
    ///
    /// ```
    /// use runtime::channel::{RecvError, SendError, bounded};
    /// let (s, r) = bounded(2);
    /// s.send(1).unwrap();
    /// let permit = s.reserve().unwrap();
    /// r.close();
    /// assert_eq!(s.send(2), Err(SendError(2)));
    /// permit.send(3);
    /// assert_eq!((r.recv(), r.recv(), r.recv()), (Ok(1), Ok(3), Err(RecvError)));
    /// ```
    pub fn close(&self) {
        crate::point();
        match &self.0 {
            Flavor::Bounded(channel) => channel.end_sending(),
            Flavor::Unbounded(channel) => channel.end_sending(),
            Flavor::Rendezvous(channel) => channel.end_sending(),
            Flavor::Timed(..) | Flavor::Never => {}
        }
    }

    /// Returns `true` if the channel is closed or all senders are gone. There may be messages to receive. A
    /// channel that never had senders, such as that of [`after`](super::after), is not closed.
    ///
    /// ```
    /// let (s, r) = runtime::channel::unbounded();
    /// s.send(1).unwrap();
    /// assert!(!r.is_closed());
    /// drop(s);
    /// assert!(r.is_closed());
    /// assert_eq!(r.recv(), Ok(1));
    /// ```
    pub fn is_closed(&self) -> bool {
        crate::point();
        match &self.0 {
            Flavor::Bounded(channel) => channel.is_closed(),
            Flavor::Unbounded(channel) => channel.is_closed(),
            Flavor::Rendezvous(channel) => channel.is_closed(),
            Flavor::Timed(..) | Flavor::Never => false,
        }
    }
}

impl Receiver<()> {
    /// Disconnects a channel of capacity 0 whose sender is kept. Later calls do nothing.
    pub(crate) fn disconnect(&self) {
        match &self.0 {
            Flavor::Rendezvous(channel) => channel.senders_gone(),
            _ => unreachable!("the channel has capacity 0"),
        }
    }
}

/// Matches on the kind of channel, with the same code for each kind.
macro_rules! each {
    ($sender:expr, $channel:ident => $do:expr) => {
        match &$sender.0 {
            Sends::Bounded($channel) => $do,
            Sends::Unbounded($channel) => $do,
            Sends::Rendezvous($channel) => $do,
        }
    };
}

impl<T> Sender<T> {
    /// Returns `true` if all receivers are gone or one of them has [closed](Receiver::close) the channel. A
    /// send then fails.
    ///
    /// ```
    /// let (s, r) = runtime::channel::unbounded::<i32>();
    /// assert!(!s.is_closed());
    /// drop(r);
    /// assert!(s.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        crate::point();
        each!(self, channel => channel.is_closed())
    }

    /// Waits until all receivers are gone or one of them has [closed](Receiver::close) the channel: no
    /// message is wanted any more.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here.
    ///
    /// ```
    /// let (s, r) = runtime::channel::unbounded::<i32>();
    /// runtime::spawn(move || drop(r));
    /// s.closed();
    /// assert!(s.send(1).is_err());
    /// ```
    pub fn closed(&self) {
        crate::point();
        each!(self, channel => channel.wait_closed());
    }

    /// Waits as [`closed`](Sender::closed) does, in a future. The future may be dropped at any time.
    ///
    /// ```
    /// let (s, r) = runtime::channel::unbounded::<i32>();
    /// runtime::spawn(move || drop(r));
    /// runtime::block_on(s.closed_async());
    /// ```
    #[cfg(not(loom))]
    pub async fn closed_async(&self) {
        each!(self, channel => channel.wait_closed_async().await);
    }
}

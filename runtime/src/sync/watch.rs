//! `watch`: a value that changes, and receivers that see its latest state. The API is that of tokio.
//!
//! Receivers see the latest value, and not each value: a value that is replaced before a receiver looks is
//! never seen.
//!
//! ```
//! use runtime::sync::watch;
//!
//! let (sender, mut receiver) = watch::channel("starting");
//! let sees = runtime::spawn(move || {
//!     while *receiver.borrow_and_update() != "ready" {
//!         receiver.changed().unwrap();
//!     }
//! });
//! sender.send("ready").unwrap();
//! sees.join().unwrap();
//! ```
//!
//! [`Receiver::changed`] and [`Receiver::wait_for`] park a green thread and block a plain OS thread.
//! [`changed_async`](Receiver::changed_async) and [`wait_for_async`](Receiver::wait_for_async) are awaited.
//!
//! # Guards
//!
//! A [`Ref`] keeps a read lock on the value. While it exists, senders wait, and so do receivers that come
//! after a waiting sender. The lock is an [`RwLock`] of this crate, so these green threads park, and no OS
//! thread is blocked. Still, do not keep a `Ref` across a call that parks or across an `.await`: all users of
//! the channel would wait as long. A thread that keeps a `Ref` and borrows again waits for ever if a sender
//! came in between. Clone the value where it is needed for longer.
//!
//! # Cancellation and time-outs
//!
//! A green thread that is cancelled while it waits here, or whose [`timeout`](crate::time::timeout) is over,
//! unwinds. The change for which it waited stays unseen, and its next wait returns at once. The same holds
//! for a future that is dropped. A sender that unwinds while it waits for the value has changed nothing.

mod receiver;
mod sender;

pub mod error;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use waits::queue::{Lock, Queue, Wakes};

use super::wait::all;
use super::{RwLock, RwLockReadGuard};

pub use receiver::Receiver;
pub use sender::Sender;

/// Returns a channel with the value `init`, which counts as seen.
///
/// ```
/// let (sender, mut receiver) = runtime::sync::watch::channel(1);
/// assert!(!receiver.has_changed().unwrap());
/// sender.send(2).unwrap();
/// assert!(receiver.has_changed().unwrap());
/// assert_eq!(*receiver.borrow_and_update(), 2);
/// ```
pub fn channel<T>(init: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(init);
    let receiver = sender.subscribe();
    (sender, receiver)
}

/// What all handles share. Lock order: `value`, then `state`.
struct Shared<T> {
    value: RwLock<T>,
    state: Lock<WatchState>,
}

struct WatchState {
    /// The number of the value. It changes while the write lock of the value is held.
    version: u64,
    senders: usize,
    receivers: usize,
    /// Receivers that wait for a change.
    changes: Queue<()>,
    /// Senders that wait for the end of all receivers.
    closings: Queue<()>,
}

fn changes(state: &mut WatchState) -> &mut Queue<()> {
    &mut state.changes
}

fn closings(state: &mut WatchState) -> &mut Queue<()> {
    &mut state.closings
}

impl<T> Shared<T> {
    /// Returns the value, and tells whether it is newer than `seen`.
    fn borrow(&self, seen: u64) -> (Ref<'_, T>, u64) {
        let value = self.value.read();
        let version = self.state.lock().version;
        (Ref { value, has_changed: version != seen }, version)
    }

    /// Announces a change. Drop the result after the write lock of the value is released. *Runs on: the
    /// holder of that lock.*
    fn announce(&self) -> Wakes {
        let mut state = self.state.lock();
        state.version += 1;
        all(&mut state.changes)
    }

    fn same(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        Arc::ptr_eq(self, other)
    }
}

/// A borrow of the value. It keeps a read lock: see [Guards](self#guards).
///
/// ```
/// let (_sender, receiver) = runtime::sync::watch::channel(String::from("text"));
/// assert_eq!(receiver.borrow().len(), 4);
/// ```
#[must_use]
pub struct Ref<'a, T> {
    value: RwLockReadGuard<'a, T>,
    has_changed: bool,
}

impl<T> Ref<'_, T> {
    /// Returns `true` if the value had not been seen by the receiver that borrowed it. For a sender it is
    /// `false`.
    ///
    /// ```
    /// let (sender, mut receiver) = runtime::sync::watch::channel(1);
    /// sender.send(2).unwrap();
    /// assert!(receiver.borrow_and_update().has_changed());
    /// assert!(!receiver.borrow().has_changed());
    /// ```
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ref").field("value", &**self).field("has_changed", &self.has_changed).finish()
    }
}

//! `broadcast`: a channel in which each receiver gets each value. The API is that of tokio.
//!
//! ```
//! use runtime::sync::broadcast;
//!
//! let (sender, mut one) = broadcast::channel(16);
//! let mut two = sender.subscribe();
//! assert_eq!(sender.send("to both").unwrap(), 2);
//! assert_eq!((one.recv(), two.recv()), (Ok("to both"), Ok("to both")));
//! ```
//!
//! # Receivers that lag
//!
//! A send never waits. The channel keeps `capacity` values; a further one replaces the oldest. A receiver
//! that has not received that one gets [`RecvError::Lagged`](error::RecvError::Lagged) with the number of
//! values that it missed. Its next receive returns the oldest value that is left. (In tokio the capacity is
//! rounded up to a power of two. Here it is exact.)
//!
//! ```
//! use runtime::sync::broadcast::{self, error::RecvError};
//!
//! let (sender, mut receiver) = broadcast::channel(2);
//! for n in 1..=5 {
//!     sender.send(n).unwrap();
//! }
//! assert_eq!(receiver.recv(), Err(RecvError::Lagged(3)));
//! assert_eq!((receiver.recv(), receiver.recv()), (Ok(4), Ok(5)));
//! ```
//!
//! # Values
//!
//! Each receiver gets a clone of the value, and the last of them the value itself. Clones are made outside of
//! any lock: a `clone` may take its time, park or panic. So `T` must be `Send + Sync` if handles are to move
//! between threads. (tokio needs only `Send` and clones under a lock.) A value is dropped when its last
//! receiver has it or is dropped.
//!
//! # Cancellation and time-outs
//!
//! A green thread that is cancelled while it waits here, or whose [`timeout`](crate::time::timeout) is over,
//! unwinds and has received nothing. Its next receive gets the value. The same holds for a future that is
//! dropped.

mod receiver;
mod ring;
mod sender;
mod weak_sender;

pub mod error;

use std::sync::Arc;

use waits::queue::{Lock, Queue};

use ring::Ring;

pub use receiver::Receiver;
pub use sender::Sender;
pub use weak_sender::WeakSender;

/// Returns a channel that keeps `capacity` values for receivers that are behind.
///
/// # Panics
///
/// Panics if `capacity` is 0, or so large that no address space could have room.
///
/// ```
/// let (sender, mut receiver) = runtime::sync::broadcast::channel(8);
/// sender.send(1).unwrap();
/// assert_eq!(receiver.recv(), Ok(1));
/// ```
#[track_caller]
pub fn channel<T: Clone>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(capacity);
    let receiver = sender.subscribe();
    (sender, receiver)
}

type Shared<T> = Arc<Lock<BroadcastState<T>>>;

struct BroadcastState<T> {
    ring: Ring<Arc<T>>,
    senders: usize,
    /// The number of handles that do not keep the channel open for values.
    weak_senders: usize,
    receivers: usize,
    /// Receivers that wait for a value.
    values: Queue<()>,
    /// Senders that wait for the end of all receivers.
    closings: Queue<()>,
}

fn values<T>(state: &mut BroadcastState<T>) -> &mut Queue<()> {
    &mut state.values
}

fn closings<T>(state: &mut BroadcastState<T>) -> &mut Queue<()> {
    &mut state.closings
}

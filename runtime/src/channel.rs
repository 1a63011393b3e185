//! Channels and `select!` with the API of `crossbeam_channel`, for green threads, plain OS threads and
//! futures.
//!
//! ```
//! use runtime::channel::{bounded, unbounded};
//! use runtime::select;
//!
//! let (jobs, todo) = bounded(10);
//! let (results, done) = unbounded();
//! for _ in 0..4 {
//!     let (todo, results) = (todo.clone(), results.clone());
//!     runtime::spawn(move || todo.iter().for_each(|n: u64| results.send(n * n).unwrap()));
//! }
//! drop(results);
//! runtime::spawn(move || (1..=100).for_each(|n| jobs.send(n).unwrap()));
//! assert_eq!(done.iter().sum::<u64>(), 338_350);
//! ```
//!
//! A channel passes messages from any number of senders to any number of receivers, first in, first out. Each
//! message goes to one receiver.
//!
//! | function | channel |
//! | --- | --- |
//! | [`bounded`] | has room for a number of messages. With `bounded(0)` each send meets a receive |
//! | [`unbounded`] | has room for any number of messages |
//! | [`after`], [`at`] | gives one message at a moment |
//! | [`tick`] | gives a message at regular times |
//! | [`never`](never()) | never gives a message |
//!
//! [`Select`] waits for the first of several operations. [`select!`](crate::select) also waits for whatever
//! else a thread can wait for: the end of a thread, a connection, a permit, a future.
//!
//! When all handles of one side are gone, the channel is *disconnected*. Sends then fail at once; receives
//! fail when the channel is empty. [`Receiver::close`] does the same while both sides have handles.
//!
//! A call that has to wait parks a green thread, blocks a plain OS thread, or returns `Pending` in a future
//! (`send_async`, `recv_async`). All three kinds may wait at the same channel. Waiting allocates nothing.
//!
//! # Cancellation and time-outs
//!
//! A green thread unwinds if it is cancelled while it waits here, or if its [`timeout`](crate::time::timeout)
//! is over. A sender then drops its message. A receiver loses no message: one that was on its way goes to the
//! next receiver. An operation that need not wait is done, also by a cancelled green thread.
//!
//! # Messages that are not received
//!
//! The drop of the last receiver drops the messages that are in the channel. If the destructor of such a
//! message panics, that panic goes on in the thread that drops the receiver, as with the channels of std. The
//! messages behind it are then not dropped.

mod buffer;
mod buffered;
mod case;
mod closing;
mod closings;
mod error;
mod many;
mod model;
mod owned_permit;
mod permit;
#[cfg(not(loom))]
mod polled;
mod promise;
mod receiver;
mod rendezvous;
mod select;
mod sender;
mod shared;
mod slot;
mod timed;
mod waiters;
mod weak_sender;

use std::time::{Duration, Instant};

#[cfg(not(loom))]
pub use crate::{select, select_biased};
pub use error::{
    ReadyTimeoutError, RecvError, RecvTimeoutError, SelectTimeoutError, SendError, SendTimeoutError,
    TryReadyError, TryRecvError, TrySelectError, TrySendError,
};
pub use owned_permit::OwnedPermit;
pub use permit::Permit;
pub use receiver::{IntoIter, Iter, Receiver, TryIter};
#[cfg(feature = "sim")]
#[allow(unused_imports, reason = "not used where simulations do not work")]
pub(crate) use select::set_seed;
pub use select::{Select, SelectedOperation};
pub use sender::Sender;
pub use weak_sender::WeakSender;

/// For the macros only.
#[doc(hidden)]
pub mod internal {
    pub use super::case::{Case, SelectHandle};
    #[cfg(not(loom))]
    pub use super::select::event::Event;
    pub use super::select::{select, select_timeout, try_select};
}

use buffer::{Chain, Ring};
use buffered::Buffered;
use rendezvous::Rendezvous;
use {receiver::Flavor as Receives, sender::Flavor as Sends};

/// Returns a channel with room for any number of messages. Sending never waits.
///
/// ```
/// let (s, r) = runtime::channel::unbounded();
/// (0..1000).for_each(|i| s.send(i).unwrap());
/// drop(s);
/// assert_eq!(r.iter().count(), 1000);
/// ```
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    let (s, r) = shared::new(Buffered::new(Chain::new()));
    (Sender(Sends::Unbounded(s)), Receiver::of(Receives::Unbounded(r)))
}

/// Returns a channel with room for `cap` messages. With 0, each send waits until it meets a receive.
///
/// # Panics
///
/// Panics if there is no memory for `cap` messages.
///
/// ```
/// let (s, r) = runtime::channel::bounded(1);
/// s.send(1).unwrap();
/// runtime::spawn(move || s.send(2).unwrap());
/// assert_eq!((r.recv(), r.recv()), (Ok(1), Ok(2)));
/// ```
pub fn bounded<T>(cap: usize) -> (Sender<T>, Receiver<T>) {
    if cap == 0 {
        let (s, r) = shared::new(Rendezvous::new());
        return (Sender(Sends::Rendezvous(s)), Receiver::of(Receives::Rendezvous(r)));
    }
    let (s, r) = shared::new(Buffered::new(Ring::new(cap)));
    (Sender(Sends::Bounded(s)), Receiver::of(Receives::Bounded(r)))
}

/// Returns a channel that gives one message `duration` from now: the moment at which it was due. A duration
/// beyond the clock's range means never.
///
/// No timer runs while no receiver waits, so dropping the channel costs nothing.
///
/// ```
/// use runtime::{channel, select};
/// use std::time::Duration;
/// let (_s, r) = channel::unbounded::<i32>();
/// select! {
///     recv(r) -> _ => unreachable!(),
///     recv(channel::after(Duration::from_millis(5))) -> due => assert!(due.unwrap() <= std::time::Instant::now()),
/// }
/// ```
pub fn after(duration: Duration) -> Receiver<Instant> {
    Receiver::timed(Instant::now().checked_add(duration), None)
}

/// Returns a channel that gives one message at `when`. The message is `when`.
///
/// ```
/// use std::time::{Duration, Instant};
/// let when = Instant::now() + Duration::from_millis(5);
/// assert_eq!(runtime::channel::at(when).recv(), Ok(when));
/// ```
pub fn at(when: Instant) -> Receiver<Instant> {
    Receiver::timed(Some(when), None)
}

/// Returns a channel that gives a message after each `duration`: the moment at which it was due.
///
/// All messages are due at multiples of `duration` after this call. If the receiver is late, one message
/// waits, and further ones are left out. With a duration of zero, each receive gets a message at once. A
/// duration beyond the clock's range means never.
///
/// ```
/// use std::time::{Duration, Instant};
/// let start = Instant::now();
/// let ticks = runtime::channel::tick(Duration::from_millis(5));
/// assert!(ticks.recv().unwrap() >= start + Duration::from_millis(5));
/// assert!(ticks.recv().unwrap() >= start + Duration::from_millis(10));
/// ```
pub fn tick(duration: Duration) -> Receiver<Instant> {
    Receiver::timed(Instant::now().checked_add(duration), Some(duration))
}

/// Returns a channel that never gives a message: for a case of a `select!` that may be absent.
///
/// ```
/// use runtime::channel::{Receiver, never};
/// use runtime::select;
/// let maybe: Option<Receiver<i32>> = None;
/// select! {
///     recv(maybe.as_ref().unwrap_or(&never())) -> _ => unreachable!(),
///     default => {}
/// }
/// ```
pub const fn never<T>() -> Receiver<T> {
    Receiver::of(Receives::Never)
}

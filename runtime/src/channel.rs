//! Channels and `select!`, as `crossbeam_channel` has them, for green threads, plain OS threads and futures.
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
//! Messages go from many senders to many receivers, each to one of them, first in, first out. A channel has room for some
//! messages ([`bounded`]), any number ([`unbounded`]), or none (`bounded(0)`: each send meets a receive). When all handles
//! of one side are gone it is disconnected: sends fail at once, receives when it is empty. [`after`], [`at`] and [`tick`]
//! give channels of points in time, [`never`](never()) one on which nothing comes. [`select!`](crate::select) and [`Select`]
//! wait for the first of several operations.
//!
//! Whoever must wait is parked: a green thread, a plain OS thread, or a future (`send_async`, `recv_async`); they all may be
//! at the same channel. Waiting allocates nothing. A message is given directly to a receiver that waits.
//!
//! A wait ends by cancellation and by [`timeout`](crate::time::timeout): the thread unwinds, its message is dropped if it
//! was sending, and no message that was for it is lost.
//!
//! # How it is made
//!
//! `buffered.rs` has the channels with room, over the two buffers of `buffer.rs`; `rendezvous.rs` those without; `timed.rs`
//! those of time. Each moves messages under a small lock, and keeps who waits in wait queues (`sched::queue`); what
//! they wait with is in `waiters.rs`. `select.rs` waits in several queues at once, by what `case.rs` knows of each
//! operation; `promise.rs` is for the message of a select that is computed only when it was chosen.

mod buffer;
mod buffered;
mod case;
mod closing;
mod error;
mod macros;
mod model;
mod place;
mod promise;
mod receiver;
mod rendezvous;
mod select;
mod sender;
mod shared;
mod timed;
mod waiters;

use std::time::{Duration, Instant};

pub use crate::{select, select_biased};
pub use error::{
    ReadyTimeoutError, RecvError, RecvTimeoutError, SelectTimeoutError, SendError, SendTimeoutError,
    TryReadyError, TryRecvError, TrySelectError, TrySendError,
};
pub use receiver::{IntoIter, Iter, Receiver, TryIter};
pub use select::{Select, SelectedOperation};
pub use sender::Sender;

/// For the macros.
#[doc(hidden)]
pub mod internal {
    pub use super::case::{Case, SelectHandle};
    pub use super::select::{select, select_timeout, try_select};
}

use buffer::{Chain, Ring};
use buffered::Buffered;
use rendezvous::Rendezvous;
use {receiver::Flavor as Receives, sender::Flavor as Sends};

/// A channel with room for any number of messages: sending never waits.
///
/// ```
/// let (s, r) = runtime::channel::unbounded();
/// (0..1000).for_each(|i| s.send(i).unwrap());
/// drop(s);
/// assert_eq!(r.iter().count(), 1000);
/// ```
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    let (s, r) = shared::new(Buffered::new(Chain::new()));
    (Sender(Sends::Unbounded(s)), Receiver(Receives::Unbounded(r)))
}

/// A channel with room for `cap` messages; with 0, each send meets a receive.
///
/// # Panics
///
/// If there is no memory for that many.
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
        return (Sender(Sends::Rendezvous(s)), Receiver(Receives::Rendezvous(r)));
    }
    let (s, r) = shared::new(Buffered::new(Ring::new(cap)));
    (Sender(Sends::Bounded(s)), Receiver(Receives::Bounded(r)))
}

/// One message, `duration` from now: the point in time at which it was due. Beyond the clock's range it never comes.
///
/// No timer runs while nobody waits for it, so it costs nothing to drop.
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

/// One message, at that point in time, which it is.
///
/// ```
/// use std::time::{Duration, Instant};
/// let when = Instant::now() + Duration::from_millis(5);
/// assert_eq!(runtime::channel::at(when).recv(), Ok(when));
/// ```
pub fn at(when: Instant) -> Receiver<Instant> {
    Receiver::timed(Some(when), None)
}

/// A message each `duration`, the first after one `duration`: the point in time at which it was due.
///
/// A receiver that is late misses ticks (at most one waits for it), but they stay on their grid. A duration of zero gives a
/// message whenever one is received; one beyond the clock's range never.
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

/// A channel on which nothing ever comes: for a case of a `select!` that may be missing.
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
    Receiver(Receives::Never)
}

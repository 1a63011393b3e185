//! Sleeping, for green threads, plain threads and futures.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

pub use std::time::{Duration, Instant};

use crate::builder;

/// Sleeps for at least `time`, and usually a few tens of microseconds more.
///
/// It parks a green thread, and is `std::thread::sleep` on a plain OS thread. Zero returns at once (it is no
/// yield); a time beyond the clock's range means for ever.
///
/// # Cancellation
///
/// A cancelled green thread unwinds from here with [`thread::Cancelled`](crate::thread::Cancelled).
///
/// ```
/// use std::time::{Duration, Instant};
/// let start = Instant::now();
/// runtime::spawn(|| runtime::sleep(Duration::from_millis(5))).join().unwrap();
/// assert!(start.elapsed() >= Duration::from_millis(5));
/// ```
pub fn sleep(time: Duration) {
    sched::time::sleep(time);
}

/// Sleeps at least until `deadline`; returns at once if that is past. Otherwise like [`sleep`].
///
/// ```
/// use std::time::{Duration, Instant};
/// let deadline = Instant::now() + Duration::from_millis(5);
/// runtime::block_on(|| runtime::sleep_until(deadline));
/// assert!(Instant::now() >= deadline);
/// ```
pub fn sleep_until(deadline: Instant) {
    sched::time::sleep_until(deadline);
}

/// [`sleep`] for futures: ready after at least `time`, counted from this call.
///
/// It works in any executor. Dropping it takes its timer away.
///
/// ```
/// use std::time::{Duration, Instant};
/// let start = Instant::now();
/// runtime::block_on(async { runtime::time::sleep_async(Duration::from_millis(5)).await });
/// assert!(start.elapsed() >= Duration::from_millis(5));
/// ```
pub fn sleep_async(time: Duration) -> Sleep {
    Sleep(sched::time::Sleep::new(time, || Arc::clone(builder::default_sched())))
}

/// The future of [`sleep_async`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Sleep(sched::time::Sleep);

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}

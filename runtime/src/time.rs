//! Sleeping, time-outs, timers and tickers, for green threads, plain threads and futures.
//!
//! ```
//! use runtime::time::{Duration, Ticker, Timer};
//! use runtime::select;
//!
//! // A watchdog for what should beat.
//! let (beat, dog) = (Ticker::new(Duration::from_millis(2)), Timer::new(Duration::from_secs(10)));
//! for _ in 0..3 {
//!     select! {
//!         recv(beat.channel()) -> _ => assert!(dog.reset(Duration::from_secs(10))),
//!         recv(dog.channel()) -> _ => panic!("no beat for ten seconds"),
//!     }
//! }
//! assert!(dog.stop());
//! ```

mod ticker;
mod timer;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

pub use crate::channel::{after, at};
pub use std::time::{Duration, Instant};
pub use ticker::{Ticker, tick};
pub use timer::{Timer, after_func};

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
#[inline(always)]
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
/// It works in any executor, with any waker. Dropping it takes its timer away; once ready it stays ready.
///
/// # Panics
///
/// When it is polled outside of any runtime and the default one cannot be started (see [`block_on`](crate::block_on)).
///
/// ```
/// use std::time::{Duration, Instant};
/// let start = Instant::now();
/// runtime::block_on(async { runtime::time::sleep_async(Duration::from_millis(5)).await });
/// assert!(start.elapsed() >= Duration::from_millis(5));
/// ```
pub fn sleep_async(time: Duration) -> Sleep {
    Sleep(sched::time::Sleep::new(time, || Arc::clone(builder::default_sched_or_panic())))
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

/// Runs `f` on the calling thread, and ends it when it waits beyond `time` from now: the parking call in progress
/// unwinds to here, and so does every later one. Destructors run, and no panic message is printed.
///
/// What `f` does without parking is not interrupted: if it returns late, its value counts. Time-outs nest; the one that
/// runs out first ends what is inside it. It works on green threads and on plain OS threads, where only what this
/// runtime parks can be ended. In a destructor that runs while its thread unwinds it ends nothing, for nothing may unwind there:
/// `f` is waited for. Which calls it ends is said at [`JoinHandle::cancel`](crate::JoinHandle::cancel).
///
/// # Errors
///
/// [`Elapsed`]: the time was up before `f` had returned.
///
/// # Cancellation
///
/// A cancelled green thread unwinds through here.
///
/// ```
/// use runtime::time::{Duration, sleep, timeout};
/// runtime::block_on(|| {
///     assert!(timeout(Duration::from_millis(5), || sleep(Duration::from_secs(3600))).is_err());
///     assert_eq!(timeout(Duration::from_secs(3600), || 42), Ok(42));
/// });
/// ```
pub fn timeout<T>(time: Duration, f: impl FnOnce() -> T) -> Result<T, Elapsed> {
    sched::park::timeout(time, f).ok_or(Elapsed)
}

/// [`timeout`] for futures: drops `future` if it is not ready in time, counted from this call.
///
/// ```
/// use runtime::time::{Duration, sleep_async, timeout_async};
/// let (late, early) = runtime::block_on(async {
///     let late = timeout_async(Duration::from_millis(5), sleep_async(Duration::from_secs(3600))).await;
///     (late, timeout_async(Duration::from_secs(3600), async { 42 }).await)
/// });
/// assert!(late.is_err());
/// assert_eq!(early, Ok(42));
/// ```
pub fn timeout_async<F: IntoFuture>(
    time: Duration,
    future: F,
) -> impl Future<Output = Result<F::Output, Elapsed>> {
    let mut time = sleep_async(time);
    let future = future.into_future();
    async move {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|cx| {
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(value));
            }
            Pin::new(&mut time).poll(cx).map(|()| Err(Elapsed))
        })
        .await
    }
}

/// The time of a [`timeout`] was up.
///
/// ```
/// assert_eq!(runtime::time::Elapsed.to_string(), "the time was up");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the time was up")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for std::io::Error {
    fn from(_: Elapsed) -> Self {
        std::io::ErrorKind::TimedOut.into()
    }
}

//! Sleeping, time-outs, timers and tickers.
//!
//! | | on green threads and plain OS threads | in futures |
//! | --- | --- | --- |
//! | wait for a time | [`sleep()`], [`sleep_until`] | [`sleep_async`], [`sleep_until_async`] |
//! | wait for a time that is set again | [`Timer`] | [`Sleep::reset`] |
//! | limit a wait | [`timeout`], [`timeout_at`] | [`timeout_async`], [`timeout_at_async`] |
//! | one message at a time, which can be stopped and set again | [`Timer`], [`after`], [`at`] | [`Timer::fired_async`] |
//! | messages at regular times | [`Ticker`], [`tick`] | [`Ticker::tick_async`] |
//! | regular times, for one waiter | [`Interval::tick`] | [`Interval::tick_async`] |
//! | values, each at its time | [`DelayQueue::next_expired`] | [`DelayQueue::next_expired_async`] |
//! | run a function at a time | [`after_func`] | |
//!
//! ```
//! use runtime::time::{Duration, Ticker, Timer};
//! use runtime::select;
//!
//! // A watchdog: it panics if ten seconds pass without a beat.
//! let (beat, dog) = (Ticker::new(Duration::from_millis(2)), Timer::new(Duration::from_secs(10)));
//! for _ in 0..3 {
//!     select! {
//!         recv(beat.channel()) -> _ => assert!(dog.reset(Duration::from_secs(10))),
//!         recv(dog.channel()) -> _ => panic!("no beat for ten seconds"),
//!     }
//! }
//! assert!(dog.stop());
//! ```

pub mod delay_queue;
mod interval;
mod sleep;
mod ticker;
mod timer;

use std::pin::Pin;

pub use crate::channel::{after, at};
pub use delay_queue::DelayQueue;
pub use interval::{Interval, interval, interval_at};
/// The error of [`timeout`] and [`timeout_async`]: the time was up.
///
/// It is also the payload with which a wait inside of [`timeout`] unwinds when the time is up. Code that
/// catches unwinding sees it: see [cancellation](crate::docs::cancellation#code-that-catches-unwinding). It
/// becomes an [`std::io::Error`] of kind `TimedOut`.
///
/// ```
/// assert_eq!(runtime::time::Elapsed.to_string(), "the time was up");
/// ```
#[doc(inline)]
pub use sched::park::Elapsed;
pub use sleep::{Sleep, sleep_async, sleep_until_async};
pub use std::time::{Duration, Instant, SystemTime, SystemTimeError, UNIX_EPOCH};
pub use ticker::{MissedTickBehavior, Ticker, tick};
pub use timer::{Timer, after_func};

use sched::budget;

/// Waits for at least `time`, usually a few tens of microseconds longer. Zero returns at once; a time beyond
/// the clock's range means for ever.
///
/// It parks a green thread. On a plain OS thread it is `std::thread::sleep`.
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
    sched::sleep::sleep(time);
}

/// Waits at least until `deadline`. Returns at once if `deadline` is in the past.
///
/// It parks a green thread. On a plain OS thread it blocks that OS thread.
///
/// # Cancellation
///
/// A cancelled green thread unwinds from here with [`thread::Cancelled`](crate::thread::Cancelled).
///
/// ```
/// use std::time::{Duration, Instant};
/// let deadline = Instant::now() + Duration::from_millis(5);
/// runtime::block_on(|| runtime::sleep_until(deadline));
/// assert!(Instant::now() >= deadline);
/// ```
pub fn sleep_until(deadline: Instant) {
    sched::sleep::sleep_until(deadline);
}

/// Runs `f` on the calling thread for at most `time`. Returns the value of `f`, or an error if `f` waited
/// beyond `time`.
///
/// When `time` is over, the call in which `f` waits unwinds to here, and so does every later call in `f` that
/// waits. Destructors run, and no panic message is printed. The page on
/// [cancellation](crate::docs::cancellation#which-calls-it-ends) lists which calls unwind.
///
/// Code in `f` that does not park is not interrupted: if `f` returns late, its value is returned. Time-outs
/// nest, and each ends what is inside of it. In a destructor that runs while its thread unwinds, a time-out
/// ends nothing, and this waits for `f`.
///
/// It works on green threads and plain OS threads. On a plain OS thread only calls of this crate are ended.
///
/// # Errors
///
/// Returns [`Elapsed`] if the time was up before `f` returned.
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

/// Runs `f` on the calling thread at most until `deadline`, as [`timeout`] does for a duration. Returns the
/// value of `f`, or an error if `f` waited beyond `deadline`.
///
/// If `deadline` is in the past, `f` still runs, and its first call that waits unwinds to here.
///
/// # Errors
///
/// Returns [`Elapsed`] if `deadline` came before `f` returned.
///
/// # Cancellation
///
/// A cancelled green thread unwinds through here.
///
/// ```
/// use runtime::time::{Duration, Instant, sleep, timeout_at};
/// let deadline = Instant::now() + Duration::from_millis(5);
/// // Both calls together end by the deadline.
/// let first = timeout_at(deadline, || sleep(Duration::from_millis(1)));
/// let second = timeout_at(deadline, || sleep(Duration::from_secs(3600)));
/// assert!(second.is_err());
/// # drop(first);
/// ```
pub fn timeout_at<T>(deadline: Instant, f: impl FnOnce() -> T) -> Result<T, Elapsed> {
    timeout(deadline.saturating_duration_since(Instant::now()), f)
}

/// Returns a future with the output of `future`, or [`Elapsed`] if `future` is not ready within `time`,
/// counted from this call.
///
/// `future` is then dropped with the returned future. It works in any executor, with any waker. A `future`
/// whose awaited calls are always ready is ended, too: see [turns](crate::docs::calling#turns).
///
/// # Panics
///
/// Panics if it is polled outside of any runtime and the default runtime cannot be started: see
/// [`block_on`](crate::block_on).
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
    within(sleep_async(time), future)
}

/// Returns a future with the output of `future`, or [`Elapsed`] if `future` is not ready by `deadline`, as
/// [`timeout_async`] does for a duration.
///
/// If `deadline` is in the past, `future` is still polled once.
///
/// # Panics
///
/// Panics if it is polled outside of any runtime and the default runtime cannot be started: see
/// [`block_on`](crate::block_on).
///
/// ```
/// use runtime::time::{Duration, Instant, sleep_async, timeout_at_async};
/// let deadline = Instant::now() + Duration::from_millis(5);
/// let late = timeout_at_async(deadline, sleep_async(Duration::from_secs(3600)));
/// assert!(runtime::block_on(late).is_err());
/// assert_eq!(runtime::block_on(timeout_at_async(deadline, async { 42 })), Ok(42));
/// ```
pub fn timeout_at_async<F: IntoFuture>(
    deadline: Instant,
    future: F,
) -> impl Future<Output = Result<F::Output, Elapsed>> {
    within(sleep_until_async(deadline), future)
}

fn within<F: IntoFuture>(mut time: Sleep, future: F) -> impl Future<Output = Result<F::Output, Elapsed>> {
    let future = future.into_future();
    async move {
        let mut future = std::pin::pin!(future);
        let limited = std::future::poll_fn(|cx| budget::poll_until(cx, future.as_mut(), Pin::new(&mut time)));
        limited.await.map_err(|()| Elapsed)
    }
}

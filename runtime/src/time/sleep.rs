//! `Sleep`: a point in time as a future.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use sched::budget;

use crate::default::sched_of_plain_thread_or_panic;

/// Returns a future that is ready after at least `time`, counted from this call.
///
/// It works in any executor, with any waker. Dropping it removes its timer. Once ready it stays ready, until
/// it is [reset](Sleep::reset).
///
/// # Panics
///
/// Panics if it is polled outside of any runtime and the default runtime cannot be started: see
/// [`block_on`](crate::block_on).
///
/// ```
/// use std::time::{Duration, Instant};
/// let start = Instant::now();
/// runtime::block_on(async { runtime::time::sleep_async(Duration::from_millis(5)).await });
/// assert!(start.elapsed() >= Duration::from_millis(5));
/// ```
pub fn sleep_async(time: Duration) -> Sleep {
    Sleep(sched::sleep::Sleep::new(time, sched_of_plain_thread_or_panic))
}

/// Returns a future that is ready at `deadline`, or at once if that is in the past.
///
/// It works in any executor, with any waker. Dropping it removes its timer. Once ready it stays ready, until
/// it is [reset](Sleep::reset).
///
/// # Panics
///
/// Panics if it is polled outside of any runtime and the default runtime cannot be started: see
/// [`block_on`](crate::block_on).
///
/// ```
/// use runtime::time::{Duration, Instant, sleep_until_async};
/// let deadline = Instant::now() + Duration::from_millis(5);
/// runtime::block_on(sleep_until_async(deadline));
/// assert!(Instant::now() >= deadline);
/// ```
pub fn sleep_until_async(deadline: Instant) -> Sleep {
    Sleep(sched::sleep::Sleep::until(deadline, sched_of_plain_thread_or_panic))
}

/// The future that [`sleep_async`] and [`sleep_until_async`] return. The names are those of tokio.
///
/// It is `Unpin`, so `&mut sleep` is a future, too. A limit for idle time is one `Sleep` that is
/// [reset](Self::reset) at each sign of life:
///
/// ```
/// use runtime::time::{Duration, Instant, sleep_async};
/// runtime::block_on(async {
///     let mut idle = sleep_async(Duration::from_millis(5));
///     for _ in 0..3 {
///         // Something has come.
///         idle.reset(Instant::now() + Duration::from_millis(5));
///     }
///     idle.await;
/// });
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Sleep(sched::sleep::Sleep);

impl Sleep {
    /// Returns the point in time at which the future is ready. A time beyond the clock's range, which means
    /// for ever, has a point in the far future.
    ///
    /// ```
    /// use runtime::time::{Duration, Instant, sleep_until_async};
    /// let deadline = Instant::now() + Duration::from_secs(1);
    /// assert_eq!(sleep_until_async(deadline).deadline(), deadline);
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.0.deadline()
    }

    /// Returns `true` if the point in time has passed. A poll is then ready.
    ///
    /// ```
    /// use runtime::time::{Duration, sleep_async};
    /// let mut sleep = sleep_async(Duration::from_millis(100));
    /// assert!(!sleep.is_elapsed());
    /// runtime::block_on(&mut sleep);
    /// assert!(sleep.is_elapsed());
    /// ```
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.0.is_past()
    }

    /// Sets the point in time, before or after the old point has passed. A future that was ready waits again.
    ///
    /// A task that awaits the future sleeps until the new point, also if another task calls this. That task
    /// may be polled once at the moment of the call. Never waits.
    ///
    /// ```
    /// use runtime::time::{Duration, Instant, sleep_async};
    /// let mut sleep = sleep_async(Duration::from_secs(3600));
    /// let start = Instant::now();
    /// sleep.reset(start + Duration::from_millis(2));
    /// runtime::block_on(&mut sleep);
    /// // Once more.
    /// sleep.reset(start + Duration::from_millis(4));
    /// runtime::block_on(sleep);
    /// assert!(start.elapsed() >= Duration::from_millis(4));
    /// ```
    pub fn reset(&mut self, deadline: Instant) {
        self.0.reset(deadline);
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        budget::poll(cx, |cx| Pin::new(&mut self.0).poll(cx))
    }
}

impl std::panic::UnwindSafe for Sleep {}
impl std::panic::RefUnwindSafe for Sleep {}

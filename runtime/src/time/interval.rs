//! `Interval`: regular points in time for one waiter.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::ticker::{MissedTickBehavior, Ticker};
use super::{Sleep, sleep_async, sleep_until_async};

/// Returns an [`Interval`]. Its first tick is due now, and each further tick one `period` later.
///
/// # Panics
///
/// Panics if `period` is zero.
///
/// ```
/// use runtime::time::{Duration, Instant, interval};
/// let (start, period) = (Instant::now(), Duration::from_millis(2));
/// let mut interval = interval(period);
/// interval.tick();
/// interval.tick();
/// assert!(start.elapsed() >= period);
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(Instant::now(), period)
}

/// Returns an [`Interval`]. Its first tick is due at `start`, and each further tick one `period` later.
///
/// # Panics
///
/// Panics if `period` is zero.
///
/// ```
/// use runtime::time::{Duration, Instant, interval_at};
/// let start = Instant::now() + Duration::from_millis(2);
/// let mut interval = interval_at(start, Duration::from_secs(1));
/// assert_eq!(interval.tick(), start);
/// ```
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(!period.is_zero(), "`period` must be non-zero.");
    let ticker = Ticker::starting_at(start, period);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Burst);
    Interval { ticker, period, sleep: None }
}

/// Regular points in time, which one owner waits for. The names and the defaults are those of tokio.
///
/// It differs from a [`Ticker`] in three ways. The first tick is due at once. Missed ticks
/// come in a burst by default. Its methods take `&mut self`, because it has no channel.
///
/// [`tick`](Self::tick) parks its caller; [`tick_async`](Self::tick_async) is awaited. An interval does not
/// drift. It belongs to no runtime and has no timer while no caller waits.
///
/// ```
/// use runtime::time::{Duration, Instant, interval};
/// let (start, period) = (Instant::now(), Duration::from_millis(2));
/// runtime::block_on(async {
///     let mut interval = interval(period);
///     for k in 0..3 {
///         assert!(interval.tick_async().await >= start + k * period);
///     }
/// });
/// ```
pub struct Interval {
    ticker: Ticker,
    period: Duration,
    /// The wait of `poll_tick`.
    sleep: Option<Sleep>,
}

impl Interval {
    /// Waits for the next tick. Returns the moment at which it was due.
    ///
    /// It parks a green thread. On a plain OS thread it blocks that OS thread.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. No tick is lost.
    ///
    /// ```
    /// use runtime::time::{Duration, Instant, interval};
    /// let before = Instant::now();
    /// assert!(interval(Duration::from_secs(1)).tick() >= before);
    /// ```
    pub fn tick(&mut self) -> Instant {
        self.ticker.channel().recv().expect("a ticker's channel is never disconnected")
    }

    /// Waits for the next tick in a future. Returns the moment at which it was due.
    ///
    /// If the future is dropped before it is ready, no tick is lost.
    ///
    /// # Panics
    ///
    /// Panics if it is polled outside of any runtime and the default runtime cannot be started: see
    /// [`block_on`](crate::block_on).
    ///
    /// ```
    /// use runtime::time::{Duration, Instant, interval};
    /// let before = Instant::now();
    /// assert!(runtime::block_on(interval(Duration::from_secs(1)).tick_async()) >= before);
    /// ```
    pub async fn tick_async(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick, for futures that are written by hand. If it is pending, the waker of `cx` is
    /// woken when the tick is due. Only the waker of the last call is woken.
    ///
    /// # Panics
    ///
    /// Panics if it is called outside of any runtime and the default runtime cannot be started: see
    /// [`block_on`](crate::block_on).
    ///
    /// ```
    /// use runtime::time::{Duration, interval};
    /// use std::future::poll_fn;
    /// let mut interval = interval(Duration::from_secs(1));
    /// runtime::block_on(poll_fn(|cx| interval.poll_tick(cx)));
    /// ```
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        loop {
            if let Ok(due) = self.ticker.channel().try_recv() {
                self.sleep = None;
                return Poll::Ready(due);
            }
            // No other thread has the ticker, so its next moment stays.
            let sleep = self.sleep.get_or_insert_with(|| match self.ticker.next() {
                Some(next) => sleep_until_async(next),
                None => sleep_async(Duration::MAX),
            });
            if Pin::new(sleep).poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.sleep = None;
        }
    }

    /// Sets the next tick to one period from now.
    ///
    /// ```
    /// use runtime::time::{Duration, Instant, interval};
    /// let (start, period) = (Instant::now(), Duration::from_millis(2));
    /// let mut interval = interval(period);
    /// interval.reset();
    /// assert!(interval.tick() >= start + period);
    /// ```
    pub fn reset(&mut self) {
        self.set_next(Instant::now().checked_add(self.period));
    }

    /// Sets the next tick to now.
    ///
    /// ```
    /// use runtime::time::{Duration, Instant, interval_at};
    /// let late = Instant::now() + Duration::from_secs(3600);
    /// let mut interval = interval_at(late, Duration::from_secs(3600));
    /// interval.reset_immediately();
    /// assert!(interval.tick() < late);
    /// ```
    pub fn reset_immediately(&mut self) {
        self.set_next(Some(Instant::now()));
    }

    /// Sets the next tick to `after` from now. A time beyond the clock's range means never.
    ///
    /// ```
    /// use runtime::time::{Duration, Instant, interval};
    /// let start = Instant::now();
    /// let mut interval = interval(Duration::from_secs(3600));
    /// interval.reset_after(Duration::from_millis(2));
    /// assert!(interval.tick() >= start + Duration::from_millis(2));
    /// ```
    pub fn reset_after(&mut self, after: Duration) {
        self.set_next(Instant::now().checked_add(after));
    }

    /// Sets the next tick to `deadline`. A moment in the past is due at once.
    ///
    /// ```
    /// use runtime::time::{Duration, Instant, interval};
    /// let mut interval = interval(Duration::from_secs(3600));
    /// let deadline = Instant::now() + Duration::from_millis(2);
    /// interval.reset_at(deadline);
    /// assert_eq!(interval.tick(), deadline);
    /// ```
    pub fn reset_at(&mut self, deadline: Instant) {
        self.set_next(Some(deadline));
    }

    fn set_next(&mut self, next: Option<Instant>) {
        self.ticker.set_next(next, self.period);
        // A task that polled before is woken at the new moment.
        match (&mut self.sleep, next) {
            (Some(sleep), Some(next)) => sleep.reset(next),
            (sleep, _) => *sleep = None,
        }
    }

    /// Returns the period.
    ///
    /// ```
    /// use runtime::time::{Duration, interval};
    /// assert_eq!(interval(Duration::from_secs(1)).period(), Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Returns what follows a tick that was received late. It is `Burst` unless it was set.
    ///
    /// ```
    /// use runtime::time::{Duration, MissedTickBehavior, interval};
    /// assert_eq!(interval(Duration::from_secs(1)).missed_tick_behavior(), MissedTickBehavior::Burst);
    /// ```
    #[must_use]
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.ticker.missed_tick_behavior()
    }

    /// Sets what follows a tick that was received late, from the next tick on.
    ///
    /// ```
    /// use runtime::time::{Duration, MissedTickBehavior, interval};
    /// let mut interval = interval(Duration::from_secs(1));
    /// interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    /// assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Skip);
    /// ```
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.ticker.set_missed_tick_behavior(behavior);
    }
}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("period", &self.period)
            .field("missed_tick_behavior", &self.missed_tick_behavior())
            .finish_non_exhaustive()
    }
}

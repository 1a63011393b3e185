//! Moments that come again and again.

use std::fmt;
use std::time::{Duration, Instant};

use crate::channel::{Receiver, never};

/// Moments that come again and again: messages on a channel, each the moment at which it was due.
///
/// It does not drift: all ticks are at `start + k * period`, however late they are received. For a receiver that is slow
/// one tick waits, and those that come meanwhile are left out.
///
/// **Dropping a ticker stops it.** It has no place in any heap and belongs to no runtime: who receives sleeps until the next
/// tick.
///
/// ```
/// use runtime::time::{Duration, Instant, Ticker};
/// let (start, period) = (Instant::now(), Duration::from_millis(2));
/// let ticker = Ticker::new(period);
/// for (k, tick) in (1..).zip(ticker.channel().iter().take(3)) {
///     assert!(tick >= start + k * period);
/// }
/// ```
#[must_use = "dropping a ticker stops it"]
pub struct Ticker(Receiver<Instant>);

impl Ticker {
    /// The first tick comes after one period. One beyond the clock's range means never.
    ///
    /// # Panics
    ///
    /// If the period is zero.
    ///
    /// ```should_panic
    /// runtime::time::Ticker::new(std::time::Duration::ZERO);
    /// ```
    #[track_caller]
    pub fn new(period: Duration) -> Ticker {
        Ticker(Receiver::of_timer(positive(period, "Ticker::new"), Some(period)))
    }

    /// Stops it: no tick comes any more, not even one that was waiting. Who waits for one goes on waiting, for
    /// [`reset`](Ticker::reset) may start it again.
    ///
    /// ```
    /// use runtime::time::{Duration, Ticker};
    /// let ticker = Ticker::new(Duration::from_nanos(1));
    /// ticker.stop();
    /// assert!(ticker.channel().try_recv().is_err());
    /// ```
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Starts it anew with that period: the next tick comes after one of it, and none of before.
    ///
    /// # Panics
    ///
    /// If the period is zero.
    ///
    /// ```
    /// use runtime::time::{Duration, Instant, Ticker};
    /// let ticker = Ticker::new(Duration::from_secs(3600));
    /// let start = Instant::now();
    /// ticker.reset(Duration::from_millis(2));
    /// assert!(ticker.channel().recv().unwrap() >= start + Duration::from_millis(2));
    /// ```
    #[track_caller]
    pub fn reset(&self, period: Duration) {
        self.0.restart(positive(period, "Ticker::reset"), Some(period));
    }

    /// Where the ticks come. Clones of it get none any more when the ticker is dropped.
    ///
    /// ```
    /// use runtime::time::{Duration, Ticker};
    /// assert!(Ticker::new(Duration::from_secs(3600)).channel().try_recv().is_err());
    /// ```
    pub fn channel(&self) -> &Receiver<Instant> {
        &self.0
    }

    /// The next tick, for futures: `ticker.channel().recv_async()`.
    ///
    /// ```
    /// use runtime::time::{Duration, Instant, Ticker};
    /// let (start, period) = (Instant::now(), Duration::from_millis(2));
    /// let ticker = Ticker::new(period);
    /// assert!(runtime::block_on(ticker.tick_async()) >= start + period);
    /// ```
    pub async fn tick_async(&self) -> Instant {
        self.0.recv_async().await.expect("a ticker's channel is never disconnected")
    }
}

#[track_caller]
fn positive(period: Duration, call: &str) -> Duration {
    assert!(!period.is_zero(), "non-positive interval for {call}");
    period
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl fmt::Debug for Ticker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticker").finish_non_exhaustive()
    }
}

/// A channel of ticks for those who never stop it: it costs nothing to drop. As in Go, and other than
/// [`channel::tick`](crate::channel::tick), a period of zero gives no ticks at all.
///
/// ```
/// use runtime::time::{Duration, Instant, tick};
/// let (start, period) = (Instant::now(), Duration::from_millis(2));
/// assert!(tick(period).recv().unwrap() >= start + period);
/// assert!(tick(Duration::ZERO).try_recv().is_err());
/// ```
pub fn tick(period: Duration) -> Receiver<Instant> {
    if period.is_zero() { never() } else { crate::channel::tick(period) }
}

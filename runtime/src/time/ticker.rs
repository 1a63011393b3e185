//! `Ticker`: messages on a channel at regular times.

use std::fmt;
use std::time::{Duration, Instant};

use waits::due::Missed;

use crate::channel::{Receiver, never};

/// A channel that receives a message at regular times. The message is the moment at which it was due.
///
/// A ticker does not drift: tick number `k` is due at `start + k * period`, however late the ones before were
/// received. If the receiver is slow, one tick waits in the channel, and further ticks are left out.
/// [`set_missed_tick_behavior`](Ticker::set_missed_tick_behavior) selects another behavior.
///
/// **Dropping a ticker stops it.** A ticker belongs to no runtime and has no entry in a timer heap, because
/// the receiver itself sleeps until the next tick.
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
    /// Returns a ticker whose first tick is due after one `period`. A period beyond the clock's range means
    /// never.
    ///
    /// # Panics
    ///
    /// Panics if `period` is zero.
    ///
    /// ```should_panic
    /// runtime::time::Ticker::new(std::time::Duration::ZERO);
    /// ```
    #[track_caller]
    pub fn new(period: Duration) -> Ticker {
        Ticker(Receiver::of_timer(positive(period, "Ticker::new"), Some(period)))
    }

    /// Returns a ticker with the first tick at `first`. The caller has seen that `period` is not zero.
    pub(super) fn starting_at(first: Instant, period: Duration) -> Ticker {
        Ticker(Receiver::of_moments(Some(first), period))
    }

    /// Sets the next tick to `next`, or to never.
    pub(super) fn set_next(&self, next: Option<Instant>, period: Duration) {
        self.0.set_moment(next, period);
    }

    /// Returns the moment of the next tick, or `None` if none will come.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.next_moment()
    }

    /// Stops the ticker: no further tick can be received, not even one that waits in the channel.
    ///
    /// A thread that waits for a tick goes on waiting, because [`reset`](Ticker::reset) may start the ticker
    /// again.
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

    /// Starts the ticker again with `period`: the next tick is due after one period from now. Earlier ticks
    /// are dropped.
    ///
    /// # Panics
    ///
    /// Panics if `period` is zero.
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

    /// Sets what follows a tick that was received late, from the next receive on. [`stop`](Ticker::stop) and
    /// [`reset`](Ticker::reset) keep it.
    ///
    /// ```
    /// use runtime::time::{Duration, Instant, MissedTickBehavior, Ticker};
    /// let (start, period) = (Instant::now(), Duration::from_millis(2));
    /// let ticker = Ticker::new(period);
    /// ticker.set_missed_tick_behavior(MissedTickBehavior::Burst);
    /// runtime::sleep(5 * period);
    /// // No tick is left out.
    /// assert!(ticker.channel().try_iter().count() >= 5);
    /// ```
    pub fn set_missed_tick_behavior(&self, behavior: MissedTickBehavior) {
        self.0.set_missed(match behavior {
            MissedTickBehavior::Burst => Missed::Burst,
            MissedTickBehavior::Delay => Missed::Delay,
            MissedTickBehavior::Skip => Missed::Skip,
        });
    }

    /// Returns what follows a tick that was received late.
    ///
    /// ```
    /// use runtime::time::{Duration, MissedTickBehavior, Ticker};
    /// let ticker = Ticker::new(Duration::from_secs(1));
    /// assert_eq!(ticker.missed_tick_behavior(), MissedTickBehavior::Skip);
    /// ```
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        match self.0.missed() {
            Missed::Burst => MissedTickBehavior::Burst,
            Missed::Delay => MissedTickBehavior::Delay,
            Missed::Skip => MissedTickBehavior::Skip,
        }
    }

    /// Returns the channel of the ticks. Its clones receive nothing more when the ticker is dropped.
    ///
    /// ```
    /// use runtime::time::{Duration, Ticker};
    /// assert!(Ticker::new(Duration::from_secs(3600)).channel().try_recv().is_err());
    /// ```
    pub fn channel(&self) -> &Receiver<Instant> {
        &self.0
    }

    /// Waits for the next tick in a future, as `ticker.channel().recv_async()` does, and returns the moment
    /// at which it was due.
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

/// What follows a tick of a [`Ticker`] that was received late. The names are those of tokio; the default is
/// Go's.
///
/// With a period of 50 ms, a receiver that comes 160 ms late for a tick at 0 ms gets these ticks next:
///
/// | | due at |
/// | --- | --- |
/// | `Burst` | 50, 100, 150 ms, all at once; then 200, 250 ms |
/// | `Delay` | 210, 260 ms |
/// | `Skip` | 200, 250 ms |
///
/// ```
/// assert_eq!(runtime::time::MissedTickBehavior::default(), runtime::time::MissedTickBehavior::Skip);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTickBehavior {
    /// No tick is left out: those that are due are received one after another without waiting.
    Burst,
    /// The next tick is due one period after the late receive. A tick that is received up to 5 ms late is not
    /// late.
    Delay,
    /// Ticks that were missed are left out; the next is due at its whole period.
    #[default]
    Skip,
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

/// Returns a channel that receives a message after each `period` and is never stopped. Dropping the channel
/// frees all of it.
///
/// A period of zero gives no ticks at all, as in Go. (`channel::tick`, from crossbeam, gives a tick at each
/// receive.)
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

//! One moment in the future: a message on a channel, or a function that is run.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sched::AfterFunc;

use crate::builder;
use crate::channel::{Receiver, never};

/// One moment in the future, which can be stopped and set again: a message on a channel ([`new`](Timer::new)), or a function
/// that is run ([`after_func`](Timer::after_func)).
///
/// It may be used from green threads, plain OS threads and futures alike, from several at once too. A time beyond the
/// clock's range means never; zero means at once.
///
/// **Dropping a timer stops it.** Nothing of it is left behind then, but perhaps the memory of one with a function, for a
/// while: an entry in its runtime's heap is taken out when the scheduler comes by.
///
/// [`stop`](Timer::stop) and [`reset`](Timer::reset) are exact. When they have returned, nobody receives the old value any
/// more, and exactly one of two things holds: they returned `true`, or the value was received (the function was started).
///
/// ```
/// use runtime::time::{Duration, Timer};
/// use runtime::{channel, select};
///
/// let (answers, answer) = channel::bounded(1);
/// runtime::spawn(move || answers.send(42));
/// let patience = Timer::new(Duration::from_secs(10));
/// select! {
///     recv(answer) -> n => assert_eq!(n, Ok(42)),
///     recv(patience.channel()) -> _ => panic!("no answer for ten seconds"),
/// }
/// ```
#[must_use = "dropping a timer stops it"]
pub struct Timer(Kind);

enum Kind {
    Message(Receiver<Instant>),
    Function(AfterFunc),
}

static NEVER: Receiver<Instant> = never();

impl Timer {
    /// One that gives a message on its channel, `time` from now: the moment at which it was due.
    ///
    /// It has no place in any heap: who receives sleeps until then. So making, resetting and stopping one costs next to
    /// nothing, and it belongs to no runtime.
    ///
    /// ```
    /// use runtime::time::{Duration, Instant, Timer};
    /// let start = Instant::now();
    /// let timer = Timer::new(Duration::from_millis(5));
    /// assert!(timer.channel().recv().unwrap() >= start + Duration::from_millis(5));
    /// ```
    pub fn new(time: Duration) -> Timer {
        Timer(Kind::Message(Receiver::of_timer(time, None)))
    }

    /// One that has `f` run, `time` from now, by a green thread of its own. If it is [`reset`](Timer::reset), `f` runs
    /// again, and beside itself if it has not ended.
    ///
    /// The green thread is one of the runtime that this is called in, or of the default one on a plain OS thread. When that
    /// runtime ends, the timer is stopped, and `f` is not run any more. `f` is dropped with the timer, or when it has ended if it runs then; its
    /// destructor runs outside the scheduler. A panic in `f` ends its green thread, with the usual message.
    ///
    /// # Panics
    ///
    /// When the default runtime is needed and cannot be started, and in a [forked child](crate#after-fork).
    ///
    /// ```
    /// use runtime::channel;
    /// use runtime::time::{Duration, Timer};
    /// let (s, r) = channel::unbounded();
    /// let timer = Timer::after_func(Duration::from_millis(1), move || s.send("fired").unwrap());
    /// assert_eq!(r.recv(), Ok("fired"));
    /// timer.reset(Duration::ZERO);
    /// assert_eq!(r.recv(), Ok("fired"));
    /// ```
    #[track_caller]
    pub fn after_func(time: Duration, f: impl Fn() + Send + Sync + 'static) -> Timer {
        let default = || Arc::clone(builder::default_sched_or_panic());
        Timer(Kind::Function(AfterFunc::new(time, f, default)))
    }

    /// Stops it; `true` if it was pending: set, and neither received nor (with a function) started. A value that had come
    /// but was not received is gone.
    ///
    /// It does not wait for a function that runs.
    ///
    /// ```
    /// use runtime::time::{Duration, Timer};
    /// let timer = Timer::new(Duration::ZERO);
    /// assert!(timer.stop(), "nobody has received it");
    /// assert!(timer.channel().try_recv().is_err());
    /// assert!(!timer.stop(), "it was stopped before");
    /// ```
    pub fn stop(&self) -> bool {
        match &self.0 {
            Kind::Message(channel) => channel.stop(),
            Kind::Function(function) => function.stop(),
        }
    }

    /// Sets it to `time` from now, whether it was pending or not; `true` if it was, as for [`stop`](Timer::stop).
    ///
    /// # Panics
    ///
    /// One with a function, in a [forked child](crate#after-fork).
    ///
    /// ```
    /// use runtime::time::{Duration, Instant, Timer};
    /// let timer = Timer::new(Duration::from_secs(3600));
    /// let start = Instant::now();
    /// assert!(timer.reset(Duration::from_millis(5)));
    /// assert!(timer.channel().recv().unwrap() >= start + Duration::from_millis(5));
    /// assert!(!timer.reset(Duration::from_secs(3600)), "it had been received");
    /// ```
    pub fn reset(&self, time: Duration) -> bool {
        match &self.0 {
            Kind::Message(channel) => channel.restart(time, None),
            Kind::Function(function) => function.reset(time),
        }
    }

    /// Where its message comes; if it has a function, nothing does. Clones of it get nothing any more when the timer is
    /// dropped.
    ///
    /// ```
    /// use runtime::time::{Duration, Timer};
    /// let timer = Timer::new(Duration::from_secs(3600));
    /// assert!(timer.channel().try_recv().is_err());
    /// ```
    pub fn channel(&self) -> &Receiver<Instant> {
        match &self.0 {
            Kind::Message(channel) => channel,
            Kind::Function(_) => &NEVER,
        }
    }

    /// Its message, for futures: `timer.channel().recv_async()`.
    ///
    /// ```
    /// use runtime::time::{Duration, Instant, Timer};
    /// let start = Instant::now();
    /// let due = runtime::block_on(async { Timer::new(Duration::from_millis(5)).fired_async().await });
    /// assert!(due >= start + Duration::from_millis(5));
    /// ```
    pub async fn fired_async(&self) -> Instant {
        self.channel().recv_async().await.expect("a timer's channel is never disconnected")
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Kind::Message(channel) = &self.0 {
            channel.stop();
        }
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").finish_non_exhaustive()
    }
}

/// [`Timer::after_func`]: has `f` run, `time` from now, by a green thread of its own.
///
/// ```
/// use runtime::time::{Duration, after_func};
/// let forget = after_func(Duration::from_secs(3600), || println!("an hour is over"));
/// assert!(forget.stop());
/// ```
#[track_caller]
pub fn after_func(time: Duration, f: impl Fn() + Send + Sync + 'static) -> Timer {
    Timer::after_func(time, f)
}

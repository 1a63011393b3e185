//! `Timer` and `after_func`: one moment in the future, at which a message comes or a function runs.

use std::fmt;
use std::time::{Duration, Instant};

use sched::AfterFunc;

use crate::channel::{Receiver, never};
use crate::default;

/// One moment in the future, which can be stopped and set again. At that moment a message can be received
/// ([`new`](Timer::new)), or a function runs ([`after_func`](Timer::after_func)).
///
/// A timer may be used from green threads, plain OS threads and futures, and by several of them at once. A
/// time beyond the clock's range means never; zero means at once.
///
/// **Dropping a timer stops it.** The memory of a timer with a function may be kept for a while, until the
/// scheduler removes its entry from a timer heap.
///
/// [`stop`](Timer::stop) and [`reset`](Timer::reset) are exact. Once they have returned, the old message is
/// never received, and the old function call never starts. If they returned `false`, it was received or
/// started before, or the timer was not set.
///
/// The channel of a timer that is due has the length 1 until the message is received, and the capacity 1. (In
/// Go both are 0 since 1.23. `stop` and `reset` take the message back in both.)
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
    /// Returns a timer that is due `time` from now. Its message, on its [`channel`](Timer::channel), is the
    /// moment at which it was due.
    ///
    /// Making, resetting and stopping such a timer costs next to nothing, and it belongs to no runtime: the
    /// receiver itself sleeps until the moment.
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

    /// Returns a timer that starts a green thread for `f`, `time` from now.
    ///
    /// After a [`reset`](Timer::reset) `f` runs once more. That call runs beside an earlier one that has not
    /// ended. A panic in `f` ends its green thread, with the usual message.
    ///
    /// The green thread belongs to the runtime of the caller; on a plain OS thread it belongs to the default
    /// runtime. When that runtime ends, the timer is stopped.
    ///
    /// `f` is dropped with the timer, or at the end of its last call if that is later. Its destructor runs
    /// where it may call anything.
    ///
    /// # Panics
    ///
    /// Panics if the default runtime is needed and cannot be started, and in a [forked
    /// child](crate::docs::fork).
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
        Timer(Kind::Function(AfterFunc::new(time, f, default::sched_of_plain_thread_or_panic)))
    }

    /// Stops the timer. Returns `true` if it was pending: set, with a message not received or a function not
    /// started.
    ///
    /// A message that was due but not received is dropped. A function call that has started goes on; `stop`
    /// does not wait for it.
    ///
    /// ```
    /// use runtime::time::{Duration, Timer};
    /// let timer = Timer::new(Duration::ZERO);
    /// assert!(timer.stop(), "its message was not received");
    /// assert!(timer.channel().try_recv().is_err());
    /// assert!(!timer.stop(), "the timer was stopped before");
    /// ```
    pub fn stop(&self) -> bool {
        match &self.0 {
            Kind::Message(channel) => channel.stop(),
            Kind::Function(function) => function.stop(),
        }
    }

    /// Sets the timer to `time` from now. Returns `true` if it was pending, as [`stop`](Timer::stop) does.
    ///
    /// # Panics
    ///
    /// Panics for a timer with a function in a [forked child](crate::docs::fork).
    ///
    /// ```
    /// use runtime::time::{Duration, Instant, Timer};
    /// let timer = Timer::new(Duration::from_secs(3600));
    /// let start = Instant::now();
    /// assert!(timer.reset(Duration::from_millis(5)));
    /// assert!(timer.channel().recv().unwrap() >= start + Duration::from_millis(5));
    /// assert!(!timer.reset(Duration::from_secs(3600)), "the message had been received");
    /// ```
    pub fn reset(&self, time: Duration) -> bool {
        match &self.0 {
            Kind::Message(channel) => channel.restart(time, None),
            Kind::Function(function) => function.reset(time),
        }
    }

    /// Returns the channel of the timer's message. A timer with a function sends no messages. Clones of the
    /// channel receive nothing more when the timer is dropped.
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

    /// Waits for the timer's message in a future, as `timer.channel().recv_async()` does, and returns the
    /// moment at which it was due.
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

/// Starts a green thread for `f`, `time` from now, unless the returned timer is stopped or dropped before:
/// [`Timer::after_func`].
///
/// # Panics
///
/// Panics if the default runtime is needed and cannot be started, and in a [forked child](crate::docs::fork).
///
/// ```
/// use runtime::time::{Duration, after_func};
/// let timer = after_func(Duration::from_secs(3600), || println!("an hour is over"));
/// assert!(timer.stop());
/// ```
#[track_caller]
pub fn after_func(time: Duration, f: impl Fn() + Send + Sync + 'static) -> Timer {
    Timer::after_func(time, f)
}

impl std::panic::UnwindSafe for Timer {}
impl std::panic::RefUnwindSafe for Timer {}

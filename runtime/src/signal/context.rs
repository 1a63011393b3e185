//! `notify_context`: a context that a signal cancels, as Go's `signal.NotifyContext`.

use std::error::Error;
use std::fmt;
use std::io;

use super::{Signals, notify};
use crate::context::{CancelOnDrop, Context};
use crate::select;

/// Returns a context that is over when one of these signals comes, when `parent` is over, or when the
/// returned [`NotifyContext`] is dropped.
///
/// Until that drop the signals do not have their default effects, as with [`notify`]. So a program that wants
/// a second ctrl-c to end it drops the value as soon as the context is over.
///
/// [`Context::cause`] is a [`Received`] if a signal came. A green thread of the caller's runtime waits for
/// the signals. When that runtime ends, the context is cancelled.
///
/// # Errors
///
/// Returns the errors of [`notify`].
///
/// # Panics
///
/// Panics if a green thread cannot be started: see [`runtime::spawn`](crate::spawn()).
///
/// ```
/// use runtime::context::Context;
/// use runtime::signal::{self, Received, SIGUSR1};
///
/// let (context, stop) = signal::notify_context(&Context::background(), &[SIGUSR1])?;
/// let server = runtime::spawn(move || {
///     // Every wait in it ends when the signal comes.
///     let ended = context.run(|| runtime::sleep(std::time::Duration::from_secs(3600)));
///     assert!(ended.is_err());
///     context.cause().unwrap().downcast_ref().copied()
/// });
/// signal_hook::low_level::raise(SIGUSR1)?;
/// assert_eq!(server.join().unwrap().map(Received::signal), Some(SIGUSR1));
/// drop(stop);
/// # std::io::Result::Ok(())
/// ```
pub fn notify_context(parent: &Context, signals: &[i32]) -> io::Result<(Context, NotifyContext)> {
    let signals = notify(signals)?;
    let (stopped, cancel) = parent.with_cancel();
    let (context, received) = stopped.with_cancel_cause();
    let (channel, done) = (signals.channel().clone(), context.done().clone());
    crate::spawn(move || {
        select! {
            // The channel is disconnected by the drop of `signals`, which also cancels `stopped`.
            recv(channel) -> signal => signal.into_iter().for_each(|signal| received.cancel(Received(signal))),
            recv(done) -> _ => {}
        }
    });
    Ok((context, NotifyContext { _cancel: cancel, _signals: signals }))
}

/// Keeps the signals of a context. Dropping it cancels the context, and ends the receiving. It is the `stop`
/// of Go. [`notify_context`] returns it.
///
/// ```
/// use runtime::context::{Context, ContextError};
/// use runtime::signal::{notify_context, SIGUSR2};
/// let (context, stop) = notify_context(&Context::background(), &[SIGUSR2])?;
/// assert_eq!(context.err(), None);
/// drop(stop);
/// assert_eq!(context.err(), Some(ContextError::Canceled));
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
#[must_use = "dropping it cancels the context"]
pub struct NotifyContext {
    _cancel: CancelOnDrop,
    _signals: Signals,
}

/// The cause of a context that a signal has cancelled. See [`notify_context`].
///
/// ```
/// use runtime::{context::Context, signal};
/// let (context, _stop) = signal::notify_context(&Context::background(), &[signal::SIGUSR2])?;
/// signal_hook::low_level::raise(signal::SIGUSR2)?;
/// assert!(context.done().recv().is_err());
/// assert!(context.cause().unwrap().to_string().ends_with("was received"));
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Received(i32);

impl Received {
    /// Returns the number of the signal.
    ///
    /// ```
    /// let signal = |cause: runtime::signal::Received| cause.signal();
    /// # let _ = signal;
    /// ```
    pub fn signal(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "signal {} was received", self.0)
    }
}

impl Error for Received {}

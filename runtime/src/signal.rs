//! Signals of the system as messages on a channel, as Go's `os/signal` has them.
//!
//! ```no_run
//! use runtime::signal::{self, SIGINT, SIGTERM};
//!
//! let signals = signal::notify(&[SIGINT, SIGTERM])?;
//! # let work: runtime::JoinHandle<()> = runtime::spawn(|| ());
//! match signals.recv().expect("the runtime has not ended") {
//!     SIGINT => println!("interrupted"),
//!     _ => println!("terminated"),
//! }
//! work.cancel();
//! # std::io::Result::Ok(())
//! ```
//!
//! On Unix it uses the crate `signal-hook`. Other users of that crate in the process are not disturbed. What
//! handlers of your own may do is on the page on [signals](crate::docs::signals).
//!
//! Windows has three signals, which are events of the console: `SIGINT` is ctrl-c, `SIGBREAK` is ctrl-break,
//! and `SIGTERM` is the end of the console, of the session or of the system. After `SIGTERM` the process has
//! some seconds until the system ends it. This part has run under wine, not on Windows.

mod context;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::JoinHandle;
use crate::channel::{Receiver, Sender, bounded};

#[cfg(unix)]
use unix::{FORBIDDEN, SignalInterest, Wakes, new_wakes};
#[cfg(windows)]
use windows::{FORBIDDEN, SignalInterest, Wakes, new_wakes};

pub use context::{NotifyContext, Received, notify_context};
#[cfg(unix)]
pub use signal_hook::consts::signal::*;
#[cfg(unix)]
pub(crate) use unix::wake_for_ever;
#[cfg(windows)]
pub use windows::{SIGBREAK, SIGINT, SIGTERM};

/// Returns a channel that receives the numbers of these signals, until the returned value is dropped.
///
/// While such a value exists, the signal does not have its default effect, which ends the process for most
/// signals. When the last one is dropped, the default effect is back.
///
/// Several calls may name the same signal: each gets it. A signal that comes again before its message was
/// received gives one message, because the system keeps no count. Real-time signals (`libc::SIGRTMIN()` and
/// above) are merged as well, and their values are lost. A green thread of the caller's runtime passes the
/// signals on. When that runtime ends, the channel is disconnected.
///
/// # Errors
///
/// - `InvalidInput`: no signals were given, or one that cannot be received. These are `SIGKILL`, `SIGSTOP`,
///   `SIGSEGV`, `SIGILL`, `SIGFPE`, a number that is no signal, and one that the C library keeps for itself.
/// - `Unsupported`: this is a [forked child](crate::docs::fork).
/// - Another kind: the system's error, if it has no descriptors left.
///
/// ```
/// use runtime::signal::{self, SIGUSR1};
///
/// let (one, another) = (signal::notify(&[SIGUSR1])?, signal::notify(&[SIGUSR1])?);
/// signal_hook::low_level::raise(SIGUSR1)?;
/// assert_eq!((one.recv(), another.recv()), (Ok(SIGUSR1), Ok(SIGUSR1)));
/// assert!(signal::notify(&[signal::SIGKILL]).is_err());
/// # std::io::Result::Ok(())
/// ```
pub fn notify(signals: &[i32]) -> io::Result<Signals> {
    if signals.is_empty() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "no signals were given: name at least one"));
    }
    if let Some(signal) = signals.iter().find(|signal| FORBIDDEN.contains(signal)) {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            format!("signal {signal} cannot be received: it is reserved by the system or the language"),
        ));
    }
    let (wakes, wake) = new_wakes()?;
    let mut wanted = Vec::new();
    for &signal in signals {
        wanted.push(SignalInterest::new(signal, &wake)?);
    }
    let flags = wanted.iter().map(|wanted| (wanted.signal, wanted.came.clone())).collect();
    let (sender, receiver) = bounded(1);
    let passes_on = crate::thread::Builder::new()
        .name("signals".into())
        .spawn(move || drop(deliver(wakes, flags, &sender)))?;
    Ok(Signals { receiver, passes_on, _wanted: wanted })
}

/// Waits for the next `SIGINT`, which ctrl-c sends.
///
/// # Errors
///
/// Returns the errors of [`notify`].
///
/// # Cancellation
///
/// A cancelled green thread unwinds from here.
///
/// ```no_run
/// let server = runtime::spawn(|| runtime::sleep(std::time::Duration::MAX));
/// runtime::signal::ctrl_c()?;
/// server.cancel();
/// # std::io::Result::Ok(())
/// ```
pub fn ctrl_c() -> io::Result<()> {
    notify(&[SIGINT])?.recv().map(drop).map_err(|_| runtime_has_ended())
}

/// Waits for the next `SIGINT`, as [`ctrl_c`] does, in a future, with any executor.
///
/// A signal counts from this call on, before the first poll. Dropping the future ends the receiving.
///
/// # Errors
///
/// The future returns the errors of [`notify`].
///
/// ```no_run
/// use runtime::time::{Duration, timeout_async};
/// runtime::block_on(async {
///     match timeout_async(Duration::from_secs(60), runtime::signal::ctrl_c_async()).await {
///         Ok(pressed) => pressed.inspect(|()| println!("goodbye")),
///         Err(_) => Ok(println!("a minute without ctrl-c")),
///     }
/// })?;
/// # std::io::Result::Ok(())
/// ```
pub fn ctrl_c_async() -> impl Future<Output = io::Result<()>> + Send {
    let signals = notify(&[SIGINT]);
    async move { signals?.recv_async().await.map(drop).map_err(|_| runtime_has_ended()) }
}

fn runtime_has_ended() -> io::Error {
    io::Error::new(ErrorKind::NotConnected, "the runtime that waits for signals has ended")
}

/// A channel of signal numbers: it dereferences to a [`Receiver`]. Dropping it ends the receiving.
///
/// ```
/// use runtime::signal::{self, SIGUSR2};
/// use std::time::Duration;
///
/// let signals = signal::notify(&[SIGUSR2])?;
/// assert!(signals.try_recv().is_err());
/// signal_hook::low_level::raise(SIGUSR2)?;
/// runtime::select! {
///     recv(signals.channel()) -> signal => assert_eq!(signal, Ok(SIGUSR2)),
///     default(Duration::from_secs(60)) => panic!("the signal did not come"),
/// }
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
#[must_use = "dropping it ends the subscription"]
pub struct Signals {
    receiver: Receiver<i32>,
    passes_on: JoinHandle<()>,
    _wanted: Vec<SignalInterest>,
}

impl Signals {
    /// Returns the channel, for `select!`. A clone of the channel is disconnected when this value is dropped.
    ///
    /// ```
    /// let signals = runtime::signal::notify(&[runtime::signal::SIGUSR2])?;
    /// assert!(signals.channel().is_empty());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn channel(&self) -> &Receiver<i32> {
        &self.receiver
    }
}

impl Deref for Signals {
    type Target = Receiver<i32>;

    fn deref(&self) -> &Receiver<i32> {
        &self.receiver
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.passes_on.cancel();
    }
}

/// Passes signals on. Each signal has a flag, which its handler sets. Then the handler sends a wake-up.
fn deliver(mut wakes: Wakes, flags: Vec<(i32, Arc<AtomicBool>)>, sender: &Sender<i32>) -> io::Result<()> {
    // What has come here was sent after the signal's flag was set, and the flags are read after this. The end
    // of the wake-ups means that no signal is wanted any more.
    while wakes.come()? {
        for (signal, came) in &flags {
            // SeqCst, as the handler stores the flag.
            if came.swap(false, Ordering::SeqCst) && sender.send(*signal).is_err() {
                break;
            }
        }
    }
    Ok(())
}

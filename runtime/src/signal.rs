//! Signals of the system as messages on a channel (Go: `os/signal`), on the crate `signal-hook`.
//!
//! ```no_run
//! use runtime::signal::{self, SIGINT, SIGTERM};
//!
//! let signals = signal::notify(&[SIGINT, SIGTERM])?;
//! # let work: runtime::JoinHandle<()> = runtime::spawn(|| ());
//! match signals.recv().expect("its runtime goes on") {
//!     SIGINT => println!("interrupted"),
//!     _ => println!("to be ended"),
//! }
//! work.cancel();
//! # std::io::Result::Ok(())
//! ```
//!
//! Other users of `signal-hook` in the process are not disturbed. Unix only.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, ErrorKind, Read};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use signal_hook::consts::FORBIDDEN;
use signal_hook::{SigId, flag, low_level};

use crate::JoinHandle;
use crate::channel::{Receiver, Sender, bounded};
use crate::net::unix::UnixStream;

pub use signal_hook::consts::signal::*;

/// Has these signals come as messages, from now on until what this gives is dropped. While anybody wants a signal it does not
/// do what it does by default (most end the process); when nobody wants it any more, it does again.
///
/// Several may want the same signal: each gets it. A signal that comes again before its message was received is one message,
/// as the system itself keeps no count. A green thread of the caller's runtime passes the signals on; when that runtime ends,
/// the channel is disconnected.
///
/// # Errors
///
/// `InvalidInput`: no signals were given, or one that cannot be had (`SIGKILL`, `SIGSTOP`, `SIGSEGV`, `SIGILL`, `SIGFPE`,
/// or a number that is none). Otherwise what the system says when it has no descriptors left. `Unsupported` in a [forked
/// child](crate#after-fork).
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
        return Err(io::Error::new(ErrorKind::InvalidInput, "no signals: name those that are wanted"));
    }
    if let Some(signal) = signals.iter().find(|signal| FORBIDDEN.contains(signal)) {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            format!("signal {signal} cannot be had: the system or the language keeps it for itself"),
        ));
    }
    let (wakes, wake) = UnixStream::pair()?;
    let wake = std::os::unix::net::UnixStream::from(wake);
    let mut wanted = Vec::new();
    for &signal in signals {
        wanted.push(Wanted::new(signal, &wake)?);
    }
    let flags = wanted.iter().map(|wanted| (wanted.signal, wanted.came.clone())).collect();
    let (sender, receiver) = bounded(1);
    let passes_on = crate::thread::Builder::new()
        .name("signals".into())
        .spawn(move || drop(pass_on(&wakes, flags, &sender)))?;
    Ok(Signals { receiver, passes_on, _wanted: wanted })
}

/// Waits for the next `SIGINT`, which is what ctrl-c sends.
///
/// # Errors
///
/// As for [`notify`].
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
    let gone = |_| io::Error::new(ErrorKind::NotConnected, "the runtime has ended that waits for signals");
    notify(&[SIGINT])?.recv().map(drop).map_err(gone)
}

/// The signals that somebody wants, on a channel: it is a [`Receiver`] of their numbers. Dropping it ends the interest.
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
///     default(Duration::from_secs(60)) => panic!("it does not come"),
/// }
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Signals {
    receiver: Receiver<i32>,
    passes_on: JoinHandle<()>,
    _wanted: Vec<Wanted>,
}

impl Signals {
    /// The channel, for `select!`. A clone of it goes on when this is dropped, and then is disconnected.
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

/// A flag for each signal, and one socket to which its handler writes: it does nothing that is not allowed in a handler.
fn pass_on(
    mut wakes: &UnixStream,
    flags: Vec<(i32, Arc<AtomicBool>)>,
    sender: &Sender<i32>,
) -> io::Result<()> {
    let mut bytes = [0; 64];
    // What is read here was written after its flag was set: the look at the flags comes after. The end: nobody wants any.
    while wakes.read(&mut bytes)? > 0 {
        for (signal, came) in &flags {
            // SeqCst as signal-hook sets it.
            if came.swap(false, Ordering::SeqCst) && sender.send(*signal).is_err() {
                break;
            }
        }
    }
    Ok(())
}

/// The interest of one in one signal.
#[derive(Debug)]
struct Wanted {
    signal: i32,
    came: Arc<AtomicBool>,
    /// In the order in which the handler does them: the flag, then the wake-up.
    actions: Vec<SigId>,
}

impl Wanted {
    fn new(signal: i32, wake: &std::os::unix::net::UnixStream) -> io::Result<Wanted> {
        let came = Arc::new(AtomicBool::new(false));
        begin_interest(signal)?;
        // From here on its drop ends the interest.
        let mut wanted = Wanted { signal, came: came.clone(), actions: Vec::new() };
        wanted.actions.push(flag::register(signal, came)?);
        wanted.actions.push(low_level::pipe::register(signal, wake.try_clone()?)?);
        Ok(wanted)
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        if sched::fork::is_forked() {
            // Whoever had the locks may not be here.
            return;
        }
        for action in self.actions.drain(..) {
            low_level::unregister(action);
        }
        end_interest(self.signal);
    }
}

/// How many want a signal, and whether nobody does: then its handler does what the system would do by default. (Once
/// `signal-hook` has a signal it keeps it.)
struct Interest {
    count: usize,
    nobody: Arc<AtomicBool>,
}

static INTERESTS: Mutex<Option<HashMap<i32, Interest>>> = Mutex::new(None);

fn begin_interest(signal: i32) -> io::Result<()> {
    let mut interests = INTERESTS.lock();
    let interest = match interests.get_or_insert_default().entry(signal) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(new) => {
            let nobody = Arc::new(AtomicBool::new(false));
            flag::register_conditional_default(signal, nobody.clone()).map_err(|error| {
                io::Error::new(ErrorKind::InvalidInput, format!("signal {signal}: {error}"))
            })?;
            new.insert(Interest { count: 0, nobody })
        }
    };
    interest.count += 1;
    interest.nobody.store(false, Ordering::SeqCst);
    Ok(())
}

fn end_interest(signal: i32) {
    let mut interests = INTERESTS.lock();
    if let Some(interest) = interests.as_mut().and_then(|interests| interests.get_mut(&signal)) {
        interest.count -= 1;
        interest.nobody.store(interest.count == 0, Ordering::SeqCst);
    }
}

//! Signals of Unix, by the crate `signal-hook`. All handlers of one user write to one socket: a write is
//! async-signal-safe.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sched::sync::Mutex;
use signal_hook::{SigId, flag, low_level};

use crate::net::unix::UnixStream;

pub(super) use signal_hook::consts::FORBIDDEN;

/// The end at which the wake-ups of one user's handlers come.
pub(super) struct Wakes(UnixStream);

/// Returns both ends of a line of wake-ups.
pub(super) fn new_wakes() -> io::Result<(Wakes, StdStream)> {
    UnixStream::pair_with_std().map(|(wakes, wake)| (Wakes(wakes), wake))
}

impl Wakes {
    /// Waits for a wake-up. Returns `false` if none can come any more.
    pub(super) fn come(&mut self) -> io::Result<bool> {
        Ok((&self.0).read(&mut [0; 64])? > 0)
    }
}

/// One user's interest in one signal.
#[derive(Debug)]
pub(super) struct SignalInterest {
    pub(super) signal: i32,
    pub(super) came: Arc<AtomicBool>,
    /// In the order in which the handler performs them: the flag, then the wake-up.
    actions: Vec<SigId>,
}

impl SignalInterest {
    pub(super) fn new(signal: i32, wake: &StdStream) -> io::Result<SignalInterest> {
        let came = Arc::new(AtomicBool::new(false));
        begin_interest(signal)?;
        // From here on, dropping `wanted` ends the interest.
        let mut wanted = SignalInterest { signal, came: came.clone(), actions: Vec::new() };
        wanted.actions.push(flag::register(signal, came)?);
        wanted.actions.push(low_level::pipe::register(signal, wake.try_clone()?)?);
        Ok(wanted)
    }
}

impl Drop for SignalInterest {
    fn drop(&mut self) {
        if sched::fork::is_forked() {
            // In a forked child another thread may have held these locks, and is not here.
            return;
        }
        for action in self.actions.drain(..) {
            low_level::unregister(action);
        }
        end_interest(self.signal);
    }
}

/// Lets `signal` write a byte to `wake` from now on.
pub(crate) fn wake_for_ever(signal: i32, wake: StdStream) -> io::Result<()> {
    begin_interest(signal)?;
    low_level::pipe::register(signal, wake).map(drop).inspect_err(|_| end_interest(signal))
}

/// The number of users of a signal, and a flag for "none", with which the handler performs the default
/// effect. (Once `signal-hook` handles a signal, it keeps its handler.)
struct SignalUsers {
    count: usize,
    unwanted: Arc<AtomicBool>,
}

static INTERESTS: Mutex<Option<HashMap<i32, SignalUsers>>> = Mutex::new(None);

fn begin_interest(signal: i32) -> io::Result<()> {
    let mut interests = INTERESTS.lock();
    let interest = match interests.get_or_insert_default().entry(signal) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(new) => {
            let unwanted = Arc::new(AtomicBool::new(false));
            register_default(signal, unwanted.clone()).map_err(|error| {
                io::Error::new(ErrorKind::InvalidInput, format!("signal {signal}: {error}"))
            })?;
            new.insert(SignalUsers { count: 0, unwanted })
        }
    };
    interest.count += 1;
    interest.unwanted.store(false, Ordering::SeqCst);
    Ok(())
}

/// Gives the signal its default effect while it is unwanted. `signal-hook` does so for the signals of its
/// table alone: real-time signals and some of Linux's own are not in it.
#[allow(unsafe_code)]
fn register_default(signal: i32, unwanted: Arc<AtomicBool>) -> io::Result<()> {
    let action = move || {
        // SeqCst: with the stores in `begin_interest` and `end_interest`, as signal-hook's flags.
        if unwanted.load(Ordering::SeqCst) && low_level::emulate_default_handler(signal).is_err() {
            sched::default_effect::perform(signal);
        }
    };
    // SAFETY: the action only calls functions that are async-signal-safe: both functions promise that.
    unsafe { low_level::register(signal, action) }.map(drop)
}

fn end_interest(signal: i32) {
    let mut interests = INTERESTS.lock();
    if let Some(interest) = interests.as_mut().and_then(|interests| interests.get_mut(&signal)) {
        interest.count -= 1;
        interest.unwanted.store(interest.count == 0, Ordering::SeqCst);
    }
}

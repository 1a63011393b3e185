//! Systems with a poller that takes the time-out itself: kqueue, to the nanosecond.

use std::io;
use std::time::Duration;

use mio::Token;

use super::selector::{Registry, Waker};

/// The longest time-out that a wait gets: Darwin refuses those of more than 100,000,000 s. The wait then ends
/// early, which it may.
const LONGEST: Duration = Duration::from_secs(1_000_000);

/// The alarm of these systems does nothing: the wait's own time-out is precise enough.
pub(crate) struct Alarm;

impl Alarm {
    pub(crate) fn new(_registry: &Registry, _token: Token, _waker: &Waker) -> Alarm {
        Alarm
    }

    /// Returns the time-out that the wait itself needs.
    pub(crate) fn set(&mut self, _until: u64, timeout: Duration) -> Option<Duration> {
        Some(timeout.min(LONGEST))
    }

    pub(crate) fn rang(&mut self) {}
}

/// Explains why the system refused a source, and what to do, where that is known.
pub(crate) fn explain(refusal: io::Error) -> io::Error {
    refusal
}

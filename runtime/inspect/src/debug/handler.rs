//! The answers without a server: a program has them behind a server and a log-in of its own.

use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::thread;

use sched::Sched;
use waits::locks::Tracking;

use super::answer::{Answer, answer};
use super::request::Request;
use super::rooms::Rooms;
use crate::stacks::apart;

/// What the answers are made of.
pub(super) struct Source {
    /// The runtime that gives the metrics.
    pub(super) sched: Weak<Sched>,
    pub(super) rooms: Arc<Rooms>,
}

impl Source {
    pub(super) fn new(sched: &Arc<Sched>) -> Source {
        Source { sched: Arc::downgrade(sched), rooms: Arc::default() }
    }
}

/// Answers requests that the program has received.
pub struct Handler {
    source: Source,
    _tracking: Tracking,
}

impl Handler {
    /// Returns a handler. `sched` gives the metrics.
    pub fn new(sched: &Arc<Sched>) -> Handler {
        // The page shows who holds which lock.
        Handler { source: Source::new(sched), _tracking: Tracking::begin() }
    }

    /// Answers a request. *Runs on: any thread, which waits as in `blocking`.*
    ///
    /// # Errors
    /// Returns the error of the fork check, and the system's if no thread can be started.
    pub fn answer(&self, method: &str, target: &str) -> io::Result<Answer> {
        sched::fork::check()?;
        let request = match Request::of(method, target) {
            Ok(request) => request,
            Err(refusal) => return Ok(refusal.into()),
        };
        let wait = |time| {
            sched::at_rest(|| thread::sleep(time));
            true
        };
        apart::call("debug-answer", || Ok(answer(&request, &self.source, &wait)))
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").finish_non_exhaustive()
    }
}

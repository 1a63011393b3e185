//! `Reporter`: the way of an event from a thread of the system's pool to the poller.
//!
//! mio keeps its completion port to itself, so what the system ends in the background ends at the pool.

use std::fmt;
use std::sync::Arc;

use crate::waiter::Direction;

/// Reports the events of a registered source that the system does not report to the poller. From
/// [`PollDesc::reporter`](crate::PollDesc::reporter).
#[derive(Clone)]
pub struct Reporter(Arc<dyn Fn(Direction) + Send + Sync>);

impl Reporter {
    pub(crate) fn new(report: impl Fn(Direction) + Send + Sync + 'static) -> Reporter {
        Reporter(Arc::new(report))
    }

    /// Wakes the waiters of that direction at the next poll. After the end of the source's descriptor it does
    /// nothing. It runs no code of the waiters. *Runs on: any thread.*
    pub fn report(&self, direction: Direction) {
        (self.0)(direction);
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").finish_non_exhaustive()
    }
}

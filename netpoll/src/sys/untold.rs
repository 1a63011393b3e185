//! Windows: events that the system does not report. The poller delivers them between those of the system.

use parking_lot::Mutex;

use crate::arena::{SlotToken, What};

/// Events that were not delivered yet. The lock is the last that its holder takes.
#[derive(Default)]
pub(crate) struct Untold(Mutex<Vec<(SlotToken, What)>>);

impl Untold {
    /// Adds an event. The caller then breaks the poll. *Runs on: any thread.*
    pub(crate) fn push(&self, token: SlotToken, what: What) {
        self.0.lock().push((token, what));
    }

    /// Takes all events. *Runs on: the poller.*
    pub(crate) fn take(&self) -> Vec<(SlotToken, What)> {
        std::mem::take(&mut self.0.lock())
    }
}

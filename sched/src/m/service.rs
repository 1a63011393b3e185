//! Service threads: plain OS threads of the runtime's own, which wait for notes and then call functions of
//! the user's.
//!
//! A service thread that waits is counted as parked, so it hides no deadlock of all green threads. The
//! function that the thread calls may wake a green thread. So the waker counts the service thread as woken,
//! before that thread can see the note. A service thread that counted itself would be taken for asleep until
//! the system lets it run.

use crate::m::activity::PARKS;

/// Whether a service thread is counted as parked. This state lies under the lock under which the thread looks
/// for notes.
#[derive(Debug, Default)]
pub struct ServiceThread {
    is_asleep: bool,
}

impl ServiceThread {
    /// Returns the state of a thread that is not counted.
    pub const fn new() -> ServiceThread {
        ServiceThread { is_asleep: false }
    }

    /// Counts the thread as parked. *Runs on: the service thread, which has found no note and only waits from
    /// here on.*
    pub fn count_asleep(&mut self) {
        if !std::mem::replace(&mut self.is_asleep, true) {
            PARKS.begin();
        }
    }

    /// Counts the thread as woken. *Runs on: its waker, or the service thread if its time is up.*
    pub fn count_awake(&mut self) {
        if std::mem::replace(&mut self.is_asleep, false) {
            PARKS.end();
        }
    }

    /// Returns `true` if the thread is counted as parked.
    pub fn is_asleep(&self) -> bool {
        self.is_asleep
    }
}

//! The time by `Instant`.

use std::time::Instant;

/// The beginning of the timers' clock.
pub(super) struct Beginning(Instant);

impl Beginning {
    pub(super) fn new() -> Beginning {
        Beginning(Instant::now())
    }

    pub(super) fn instant(&self) -> Instant {
        self.0
    }

    /// Returns how long ago this was, in ns.
    #[inline]
    pub(super) fn elapsed(&self) -> u64 {
        super::in_nanos(self.0.elapsed())
    }
}

//! How long a P was in use: a sum of times between sysmon's looks. The time between two looks counts if the
//! first look saw the P in use.

use std::sync::atomic::{AtomicU64, Ordering};

/// The sum of the times for which the P was in use.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    ns: AtomicU64,
    /// When sysmon last saw the P in use; 0 if it saw the P idle.
    since: AtomicU64,
}

impl Busy {
    /// Notes whether the P is in use. *Runs on: sysmon.*
    pub(crate) fn look(&self, in_use: bool, now: u64) {
        // Relaxed, here and below: only sysmon writes, and readers need no order.
        let since = self.since.load(Ordering::Relaxed);
        if since != 0 {
            let ns = self.ns.load(Ordering::Relaxed) + now.saturating_sub(since);
            self.ns.store(ns, Ordering::Relaxed);
        }
        self.since.store(if in_use { now } else { 0 }, Ordering::Relaxed);
    }

    /// Returns for how long the P was in use. *Runs on: any thread.*
    pub(crate) fn ns(&self) -> u64 {
        self.ns.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::Busy;

    #[test]
    fn time_counts_from_a_look_that_sees_the_p_in_use() {
        let busy = Busy::default();
        for (in_use, now) in
            [(false, 10), (true, 100), (true, 130), (false, 150), (false, 1000), (true, 1010)]
        {
            busy.look(in_use, now);
        }
        assert_eq!(busy.ns(), 50);
        busy.look(false, 1011);
        assert_eq!(busy.ns(), 51);
    }
}

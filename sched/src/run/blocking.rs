//! What sysmon learns of a P that is lent to a G in `blocking`.

use crate::p::Held;
use crate::run::sched::Sched;

impl Sched {
    /// Says to sysmon that the P is about to be lent to a G in `blocking`. Sysmon looks soon if work waits
    /// for a P, and later work wakes it. *Runs on: the holder of the P.*
    pub(crate) fn lends_to_block(&self, held: Held<'_>) {
        if self.arm_sysmon_for_work(held) {
            self.sysmon.blocking_with_work();
        }
    }

    /// Arms sysmon, which later work then wakes. Returns whether work waits for the P already. *Runs on: the
    /// holder of the P, which lends it to a G in `blocking` or gives it up.*
    pub(crate) fn arm_sysmon_for_work(&self, held: Held<'_>) -> bool {
        self.sysmon.blocking_begins(|| {
            let work_waits = !held.queue.is_empty() || !self.global.is_empty() || self.idle.any_wanting();
            work_waits && self.idle.idle_ps() == 0
        })
    }
}

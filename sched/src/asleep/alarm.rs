//! The alarm: one parked M wakes itself for the next timer, while another M blocks in the netpoller for
//! longer.
//!
//! Without it, an M that runs a ticker would write to the netpoller each time it goes to sleep, so that the M
//! there wakes up, learns of the earlier timer and blocks anew. At the tick that M would fire the timer, and
//! wake the first one to block in the netpoller. That is three switches of threads a tick, and the alarm is
//! one.
//!
//! ```text
//!   a thread with a timer for `when`              the M
//!   make the timer visible                        set     if no M has the alarm; park until then
//!   full fence, if the alarm seems to be enough   clear   full fence, and then
//!   serves: set for `when` or earlier?                    look at all timers, or see that a thread does
//!   not? wake the netpoller by `when`
//! ```
//!
//! The M may be woken before its time. Then it has the same duty: it looks, or leaves its timers to the
//! netpoller.

use crossbeam_utils::CachePadded;

use crate::sync::{
    atomic::{AtomicU64, Ordering},
    broken, full_fence,
};

/// The time while no M has the alarm.
const NONE: u64 = 0;

/// The time for which an M has set the alarm.
// Threads that add timers read it, so it has a cache line of its own.
#[derive(Debug)]
pub(crate) struct Alarm(CachePadded<AtomicU64>);

impl Alarm {
    pub(crate) fn new() -> Alarm {
        Alarm(CachePadded::new(AtomicU64::new(NONE)))
    }

    /// Sets the alarm for `until`. Returns `false` if another M has it. *Runs on: an M that then parks until
    /// that time at most.*
    #[must_use]
    pub(crate) fn set(&self, until: u64) -> bool {
        // Relaxed: the caller's timers are visible by the fence of `serves`, or the other side breaks the
        // netpoller.
        self.0.compare_exchange(NONE, until.max(NONE + 1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Returns `true` if an M looks at the timers by `when`. The caller has made a timer for `when` visible.
    /// *Runs on: any thread.*
    pub(crate) fn serves(&self, when: u64) -> bool {
        if !self.is_set_by(when) {
            return false;
        }
        if broken!("alarm_asker_no_fence") {
            return true;
        }
        // Pairs with the fence in `clear`: either this thread sees that the alarm is over, or the M sees its
        // timer.
        full_fence();
        self.is_set_by(when)
    }

    fn is_set_by(&self, when: u64) -> bool {
        let until = self.0.load(Ordering::Relaxed);
        until != NONE && until <= when
    }

    /// Gives the alarm up. The caller then looks at all timers. *Runs on: the M that has set it.*
    pub(crate) fn clear(&self) {
        self.0.store(NONE, Ordering::Relaxed);
        // Pairs with the fence in `serves`.
        if !broken!("alarm_clear_no_fence") {
            full_fence();
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::models::Reached;
    use loom::sync::Arc;
    use loom::thread;

    const UNTIL: u64 = 100;

    /// A timer for the time of the alarm comes while the M wakes up. Either the M sees it, or its maker wakes
    /// the netpoller.
    #[test]
    fn a_timer_that_relies_on_the_alarm_is_seen() {
        static RELIED: Reached = Reached::new();
        static BROKE: Reached = Reached::new();
        loom::model(|| {
            let world = Arc::new((Alarm::new(), AtomicU64::new(0)));
            assert!(world.0.set(UNTIL));
            let maker = world.clone();
            let maker = thread::spawn(move || {
                maker.1.store(UNTIL, Ordering::Relaxed);
                maker.0.serves(UNTIL)
            });
            world.0.clear();
            let seen = world.1.load(Ordering::Relaxed) == UNTIL;
            let relied = maker.join().unwrap();
            assert!(seen || !relied, "no thread looks at this timer");
            RELIED.note(relied);
            BROKE.note(!relied);
        });
        RELIED.assert();
        BROKE.assert();
    }

    /// Two Ms go to sleep: one has the alarm.
    #[test]
    fn one_m_has_the_alarm() {
        loom::model(|| {
            let alarm = Arc::new(Alarm::new());
            let other = alarm.clone();
            let other = thread::spawn(move || other.set(UNTIL));
            let has = alarm.set(UNTIL + 1);
            assert!(has != other.join().unwrap());
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_serves_its_time_and_later_ones() {
        let alarm = Alarm::new();
        assert!(!alarm.serves(u64::MAX));
        assert!(alarm.set(100) && !alarm.set(50));
        assert_eq!([99, 100, 101].map(|when| alarm.serves(when)), [false, true, true]);
        alarm.clear();
        assert!(!alarm.serves(100) && alarm.set(0), "a time in the past is a time");
        assert!(alarm.serves(1));
    }
}

//! What a heap entry points at, in one word: a G's own timer, or one that stands by itself.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;
use timers::{Handle, Timer};

use crate::g::wait::{Decision, Outcome};
use crate::g::{G, GRef};
use crate::wake;

/// A timer that is no G's own.
pub(crate) struct Alarm {
    pub(crate) timer: Timer,
    /// Whom it wakes, while it is armed.
    pub(crate) waker: Mutex<Option<Waker>>,
}

/// A counted reference to a G or (the low bit says which) to an [`Alarm`]. So a G whose timer still lies in a heap,
/// stopped long ago, is not used again: its next runtime would not be the one that this heap belongs to.
pub(crate) struct TimerRef(usize);

const ALARM: usize = 1;

/// In the number that comes back when a G's own timer fires: it is lent to a future, whose waker is meant.
pub(crate) const FOR_FUTURE: u64 = 1 << 63;

enum What<'t> {
    G(GRef),
    Alarm(&'t Alarm),
}

impl TimerRef {
    #[inline]
    pub(crate) fn of_g(g: GRef) -> Self {
        g.life.retain();
        TimerRef(std::ptr::from_ref(g).expose_provenance())
    }

    pub(crate) fn of_alarm(alarm: Arc<Alarm>) -> Self {
        TimerRef(Arc::into_raw(alarm).expose_provenance() | ALARM)
    }

    #[inline]
    fn what(&self) -> What<'_> {
        let address = self.0 & !ALARM;
        if self.0 & ALARM == 0 {
            // SAFETY: `of_g` made it, and Gs are never freed.
            What::G(unsafe { &*std::ptr::with_exposed_provenance::<G>(address) })
        } else {
            // SAFETY: `of_alarm` made it, and this reference counts.
            What::Alarm(unsafe { &*std::ptr::with_exposed_provenance::<Alarm>(address) })
        }
    }

    /// It has fired. A G to be put into a run queue comes back; the waker of an alarm is called here.
    /// *Runs on: an M, on its own stack, no lock held.*
    #[inline]
    pub(crate) fn fire(self, seq: u64) -> Option<GRef> {
        match self.what() {
            What::G(g) if seq & FOR_FUTURE == 0 => {
                let parked = g.wait.decide(seq as u32, Outcome::TimedOut) == Decision::Parked;
                (parked && !wake::is_elsewhere(g)).then_some(g)
            }
            What::G(g) => {
                let number = g.wakes.unpark()?;
                let parked = g.wait.decide(number, Outcome::Woken) == Decision::Parked;
                (parked && !wake::is_elsewhere(g)).then_some(g)
            }
            What::Alarm(alarm) => {
                let waker = alarm.waker.lock().take();
                if let Some(waker) = waker {
                    wake::call(waker);
                }
                None
            }
        }
    }
}

impl Handle for TimerRef {
    #[inline]
    fn timer(&self) -> &Timer {
        match self.what() {
            What::G(g) => &g.timer,
            What::Alarm(alarm) => &alarm.timer,
        }
    }
}

impl Clone for TimerRef {
    fn clone(&self) -> Self {
        match self.what() {
            What::G(g) => g.life.retain(),
            // SAFETY: `of_alarm` made it from an `Arc`, of which this reference counts as one.
            What::Alarm(alarm) => unsafe { Arc::increment_strong_count(alarm) },
        }
        TimerRef(self.0)
    }
}

impl Drop for TimerRef {
    #[inline]
    fn drop(&mut self) {
        match self.what() {
            What::G(g) => wake::release(g),
            // SAFETY: likewise.
            What::Alarm(alarm) => unsafe { Arc::decrement_strong_count(alarm) },
        }
    }
}

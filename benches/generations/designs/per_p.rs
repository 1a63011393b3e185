//! This runtime's design, through its public API only: a heap in each P, and the scheduler itself fires the
//! timers.

use std::task::Waker;
use std::time::Duration;

use runtime::time::{Timer, after_func};

use super::Timers;

pub(crate) struct PerP;

impl Timers for PerP {
    type Timer = Timer;

    fn add(&self, after: Duration, callback: &Waker) -> Timer {
        let callback = callback.clone();
        after_func(after, move || callback.wake_by_ref())
    }

    fn cancel(&self, timer: Timer) {
        drop(timer);
    }

    /// The timer keeps the callback with which it was created. The workloads always pass that same callback.
    fn reset(&self, timer: &mut Timer, after: Duration, _callback: &Waker) {
        timer.reset(after);
    }

    fn sleep(&self, time: Duration) {
        runtime::sleep(time);
    }
}

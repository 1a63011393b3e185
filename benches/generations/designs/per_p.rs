//! The product: a heap in each P, fired by the scheduler itself. The plain public API, and nothing else.

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

    /// Its callback is that which it was made with: the workloads reset a timer with its own.
    fn reset(&self, timer: &mut Timer, after: Duration, _callback: &Waker) {
        timer.reset(after);
    }

    fn sleep(&self, time: Duration) {
        runtime::sleep(time);
    }
}

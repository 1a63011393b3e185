//! Timers that never fire. Each stands for the time-out of a wait that ends before, and is cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::{Moment, Start, on_tasks};
use crate::designs::Timers;
use crate::measure::Figures;

/// Long enough that no timer comes due before its cancellation.
const TIME: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Fired(AtomicU64);

impl Wake for Fired {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

pub(super) fn run<T: Timers>(timers: &Arc<T>, tasks: usize, n: usize) -> Figures {
    let fired: Vec<Arc<Fired>> = (0..tasks).map(|_| Arc::default()).collect();
    let start = Start::of(tasks);
    let figures = on_tasks(tasks, n, |task| {
        let (timers, start) = (Arc::clone(timers), Arc::clone(&start));
        let callback = Waker::from(Arc::clone(&fired[task]));
        move || {
            start.wait();
            let begin = Moment::now();
            for _ in 0..n {
                timers.cancel(timers.add(TIME, &callback));
            }
            (begin, Moment::now())
        }
    });

    timers.sleep(TIME + Duration::from_millis(20));
    let fired: u64 = fired.iter().map(|fired| fired.0.load(Ordering::Relaxed)).sum();
    assert_eq!(fired, 0, "cancelled timers fired");
    figures
}

//! An idle process. All its timers are far away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::designs::Timers;
use crate::measure::{Figures, Span};

const HOUR: Duration = Duration::from_secs(3600);
/// Time for the runtime to come to rest after the last green thread has gone to sleep.
const SETTLE: Duration = Duration::from_millis(100);

pub(super) fn run<T: Timers>(timers: &Arc<T>, sleepers: usize, time: Duration) -> Figures {
    let (begun, woken) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..sleepers {
        let (timers, begun, woken) = (Arc::clone(timers), Arc::clone(&begun), Arc::clone(&woken));
        runtime::spawn(move || {
            begun.fetch_add(1, Ordering::Relaxed);
            timers.sleep(HOUR);
            woken.fetch_add(1, Ordering::Relaxed);
        });
    }
    while begun.load(Ordering::Relaxed) < sleepers {
        timers.sleep(Duration::from_millis(1));
    }
    timers.sleep(SETTLE);
    let span = Span::begin();
    timers.sleep(time);
    let spent = span.end();
    assert_eq!(woken.load(Ordering::Relaxed), 0, "a sleep of an hour ended early");
    // The end of the runtime cancels the sleepers.
    spent.totals()
}

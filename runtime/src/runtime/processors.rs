//! The number of processors that the process may use: the default number of Ps, and its changes.

use std::thread as os;

use sched::{MAX_PROCS, processors_in_set};

/// Returns the default number of Ps: on Linux the processors in the caller's set, or the CPU quota of the
/// cgroup if that is less.
pub(super) fn available() -> usize {
    // On a machine for more than 1,024 processors std does not know the set.
    allowed(os::available_parallelism().map_or(1, usize::from), processors_in_set())
}

fn allowed(processors: usize, in_set: usize) -> usize {
    processors.min(in_set).min(MAX_PROCS)
}

/// Returns what [`available`] returns, for a runtime that had a number before. Returns `None` if the system
/// does not say whether there is a quota.
pub(super) fn available_now() -> Option<usize> {
    // std takes a quota that it cannot read for none. So a process without a free descriptor would suddenly
    // have a P for each processor.
    let before = quota_can_be_read();
    let n = available();
    (before && quota_can_be_read()).then_some(n)
}

/// Returns `true` if the files that name the quota can be read: there is `/proc`, and a descriptor is free.
/// std opens one file at a time.
#[cfg(target_os = "linux")]
fn quota_can_be_read() -> bool {
    // `read` opens and closes within std; a `File` here would call `close`, which programs may replace.
    std::fs::read("/proc/self/cgroup").is_ok()
}

/// Other systems have no quota.
#[cfg(not(target_os = "linux"))]
fn quota_can_be_read() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_allowed_on_the_largest_machine() {
        assert_eq!(allowed(5000, 5000), MAX_PROCS);
        assert_eq!(allowed(5000, usize::MAX), MAX_PROCS);
        assert_eq!((allowed(5000, 3), allowed(2, 5000)), (3, 2));
    }
}

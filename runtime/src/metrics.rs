//! Counters and gauges of the scheduler: what a runtime has done, and what it has at this moment.
//!
//! [`snapshot`] reads those of the caller's runtime, [`Handle::metrics`](crate::Handle::metrics) those of any
//! runtime. [`prometheus()`] writes a snapshot as Prometheus reads it. With `RUNTIME_SCHEDTRACE=1000` in the environment each
//! runtime prints a line about itself every second: see [settings](crate::docs::settings#a-trace-of-the-scheduler). The [glossary](crate::docs::glossary) explains steals, hand-offs and rescues.

mod prometheus;

pub use prometheus::prometheus;
use sched::Sched;
#[doc(inline)]
pub use sched::{Proc, Rescue, Snapshot};

use crate::runtime::started_sched;

/// Returns all counters and gauges of the caller's runtime. On a plain OS thread it is the default runtime.
///
/// The time it takes does not grow with the number of green threads: about 1 us with two Ps and a million green
/// threads.
///
/// # Panics
///
/// Panics in a [forked child](crate::docs::fork), and on a plain OS thread if the default runtime cannot be started.
///
/// ```
/// runtime::block_on(|| {
///     runtime::spawn(|| ()).join().unwrap();
///     let now = runtime::metrics::snapshot();
///     assert!(now.spawned >= 2 && now.running >= 1);
/// });
/// ```
pub fn snapshot() -> Snapshot {
    crate::Handle::current().metrics()
}

/// Returns the number of green threads of the caller's runtime that have not ended: Go's `NumGoroutine`.
///
/// On a plain OS thread it is the number of the default runtime, which is 0 before the first use. The count includes green
/// threads that this crate starts for itself, for example to call a waker for a timer. Other threads spawn and end
/// meanwhile, so the number may be high by those.
///
/// It adds up two counters of each P, and visits no green thread. It may be called on any thread.
///
/// ```
/// runtime::block_on(|| {
///     let before = runtime::num_green_threads();
///     let sleepers: Vec<_> = (0..10).map(|_| runtime::spawn(runtime::thread::park)).collect();
///     assert_eq!(runtime::num_green_threads(), before + 10);
///     sleepers.iter().for_each(|sleeper| sleeper.thread().unpark());
///     sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
/// });
/// ```
pub fn num_green_threads() -> usize {
    Sched::current().as_ref().or_else(|| started_sched()).map_or(0, |sched| sched.living())
}

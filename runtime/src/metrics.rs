//! Counters and gauges of the scheduler: what a runtime has done, and what it has at this moment.
//!
//! [`snapshot`] reads those of the caller's runtime, [`Handle::metrics`](crate::Handle::metrics) those of any
//! runtime. [`prometheus()`] writes a snapshot as Prometheus reads it. With `RUNTIME_SCHEDTRACE=1000` in the
//! environment each runtime prints a line about itself every second: see
//! [settings](crate::docs::settings#a-trace-of-the-scheduler). The [glossary](crate::docs::glossary) explains
//! steals, hand-offs and rescues.

use std::sync::Arc;

use inspect::metrics as inspected;
#[doc(inline)]
pub use inspect::metrics::{AtPlace, Histogram, Hog, HogPlace, LateWake, Proc, Rescue, Snapshot, prometheus};
use sched::Sched;

use crate::default::{current_sched, started_sched};

/// Returns all counters and gauges of the caller's runtime. On a plain OS thread it is the default runtime.
///
/// The time it takes does not grow with the number of green threads: some microseconds with two Ps and a
/// million green threads.
///
/// # Panics
///
/// Panics in a [forked child](crate::docs::fork), and on a plain OS thread if the default runtime cannot be
/// started.
///
/// ```
/// runtime::block_on(|| {
///     runtime::spawn(|| ()).join().unwrap();
///     let now = runtime::metrics::snapshot();
///     assert!(now.spawned >= 2 && now.running >= 1);
/// });
/// ```
pub fn snapshot() -> Snapshot {
    inspected::of(&current())
}

/// Returns the scheduler of the caller's runtime. Panics if the default runtime cannot be started.
pub(crate) fn current() -> Arc<Sched> {
    current_sched().unwrap_or_else(|error| panic!("{error}"))
}

/// Returns what the green threads of the caller's runtime do, by the place at which they were spawned, the
/// places that ran longest first.
///
/// The numbers of green threads that live are exact, and reading them visits every green thread of the
/// process: about 10 ms with a million. The other figures are estimates from samples of the wake-ups, the
/// samples of [`Snapshot::latency`]. With [`Builder::measure_all`](crate::Builder::measure_all) they count
/// every run.
///
/// # Panics
///
/// Panics in a [forked child](crate::docs::fork), and on a plain OS thread if the default runtime cannot be
/// started.
///
/// ```
/// runtime::block_on(|| {
///     let line = line!() + 1;
///     let parked: Vec<_> = (0..10).map(|_| runtime::spawn(runtime::thread::park)).collect();
///     let places = runtime::metrics::by_place();
///     let here = places.iter().find(|at| at.place.is_some_and(|place| place.line() == line));
///     assert_eq!(here.unwrap().alive, 10);
///     parked.iter().for_each(|thread| thread.cancel());
/// });
/// ```
pub fn by_place() -> Vec<AtPlace> {
    inspected::by_place(&current())
}

/// Returns the hogs of the caller's runtime by spawn place, the most frequent first. An entry says how often
/// the [monitor thread](crate::docs::glossary#sysmon) took a P from green threads that kept it, and where
/// they were.
///
/// Each rescue is counted. `stack` is where one of these green threads was when it was interrupted for a
/// look. It needs the feature `dump-stacks`, on Linux on x86-64 and 64-bit Arm. In a second there is one look
/// for each place, and ten in all. The look is a signal, `SIGURG`. It goes only to green threads that
/// compute, and to none if the program has an action of its own for that signal.
///
/// [`Builder::on_hog`](crate::Builder::on_hog) reports hogs at once.
///
/// # Panics
///
/// Panics on a plain OS thread if the default runtime cannot be started.
///
/// ```
/// runtime::block_on(|| {
///     for hog in runtime::metrics::hogs() {
///         println!("{:?}: {} times, last in {:?}", hog.place, hog.computing, hog.stack.first());
///     }
/// });
/// ```
pub fn hogs() -> Vec<HogPlace> {
    inspected::hogs_of(&current())
}

/// Returns the number of green threads of the caller's runtime that have not ended: Go's `NumGoroutine`.
///
/// On a plain OS thread it is the number of the default runtime, which is 0 before the first use. The count
/// includes green threads that this crate starts for itself, for example to call a waker for a timer. Other
/// threads spawn and end during the call, so the number may be high by those.
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
    started_sched().map_or(0, |sched| sched.living())
}

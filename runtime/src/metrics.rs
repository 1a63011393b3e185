//! Counters and gauges of the scheduler: what a runtime has done, and what it has at this moment.
//!
//! [`snapshot`] reads those of the caller's runtime, [`Handle::metrics`](crate::Handle::metrics) those of any
//! runtime. The [glossary](crate::docs::glossary) explains steals, hand-offs and rescues.

#[doc(inline)]
pub use sched::{Rescue, Snapshot};

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

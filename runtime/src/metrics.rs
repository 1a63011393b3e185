//! What the scheduler has done and has: counters and gauges.

pub use sched::{Rescue, Snapshot};

/// All counters and gauges of the caller's runtime (on a plain OS thread: the default one).
///
/// It adds up what each P and each OS thread has counted, however many green threads there are. With two Ps and a million green
/// threads it took 1 us.
///
/// # Panics
///
/// On a plain OS thread when the default runtime cannot be started; in a [forked child](crate#after-fork).
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

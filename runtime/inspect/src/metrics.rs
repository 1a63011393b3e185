//! Counters and gauges of the scheduler, and green threads that kept their P too long.

pub(crate) mod hogs;
mod notes;
mod places;
mod prometheus;

use std::sync::Arc;

#[doc(hidden)]
pub use hogs::{Calls, Reader, hogs_of, start_reader};
pub use hogs::{Hog, HogPlace, LateWake};
#[doc(hidden)]
pub use notes::Notes;
pub use places::AtPlace;
#[doc(hidden)]
pub use places::by_place;
pub use prometheus::prometheus;
use sched::Sched;
#[doc(inline)]
pub use sched::{Histogram, Proc, Rescue, Snapshot};

/// Returns the snapshot of a runtime.
#[doc(hidden)]
pub fn of(sched: &Arc<Sched>) -> Snapshot {
    let mut now = sched.metrics();
    now.blocking_queue = crate::host::waiting(sched);
    now
}

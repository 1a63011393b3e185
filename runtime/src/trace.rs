//! The flight recorder: records what the scheduler does in the last moments, cheaply enough to leave it on.
//!
//! Each P has a ring of small events, of which the newest stay. There are events for spawns, starts, parks
//! with their reason, wake-ups with their waker, steals, hand-offs, preemptions, timers, the network, and OS
//! threads. [`start`] starts a recording in all runtimes of the process, and [`snapshot`] reads it while they
//! go on. The page about [traces](crate::docs::trace) shows how to find something, and what it costs. It also
//! shows how a panic, a hog or a late timer writes a file by itself, and how `stream` writes all events into
//! files (feature `perfetto`).
//!
//! ```
//! use runtime::trace::{self, What};
//!
//! runtime::block_on(|| {
//!     trace::start();
//!     runtime::spawn(|| runtime::yield_now()).join().unwrap();
//!     let recorded = trace::snapshot();
//!     assert!(recorded.events().iter().any(|event| matches!(event.what, What::Yields { .. })));
//!     # trace::stop();
//! });
//! ```
//!
//! # Your own events
//!
//! [`task`], [`region`] and [`log`] are those of Go's `runtime/trace`. They write into the ring of the P, so
//! they stand between the events of the scheduler. A trace then says which request waited for which lock.
//!
//! ```
//! use runtime::trace::{self, What};
//!
//! runtime::block_on(|| {
//!     trace::start();
//!     trace::task("order", || {
//!         trace::log("id", 17);
//!         runtime::spawn(|| trace::region("db", || runtime::yield_now())).join().unwrap();
//!     });
//!     let all = trace::snapshot();
//!     let region = all.events().iter().find(|event| matches!(event.what, What::RegionBegins { .. }));
//!     assert!(region.unwrap().task.is_some()); // Also in the green thread that the task has spawned.
//!     # trace::stop();
//! });
//! ```
//!
//! While no recording is on, each of them costs a load and a branch. The feature `perfetto` shows tasks and
//! regions as slices, in a track for each green thread; a page in HTML shows their begins and ends. With the
//! feature `tracing`, spans of [`tracing::Following`](crate::docs::trace#spans-of-tracing) are regions, too.

#[cfg(feature = "perfetto")]
#[doc(inline)]
pub use inspect::trace::perfetto::stream::{Stream, StreamBuilder, stream};
#[doc(inline)]
pub use inspect::trace::{
    Cause, Event, Snapshot, Text, What, is_on, log, region, snapshot, start, start_with, stop, task,
};

//! The flight recorder: records what the scheduler does in the last moments, cheaply enough to leave it on.
//!
//! Each P has a ring of small events, of which the newest stay. There are events for spawns, starts, parks
//! with their reason, wake-ups with their waker, steals, hand-offs, preemptions, timers, the network, and OS
//! threads. [`start`] starts a recording in all runtimes of the process, and [`snapshot`] reads it while they
//! go on. The page about [traces](crate::docs::trace) shows how to find something, and what it costs. It also
//! shows how a panic, a hog or a late timer writes a file by itself.
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

#[doc(inline)]
pub use inspect::trace::{Cause, Event, Snapshot, What, is_on, snapshot, start, start_with, stop};

//! What the events leave for the watchers, and what those ask for: counts of wake-ups and rescues, notes for
//! the reader of hogs, events of threads without a P. No file here knows `Sched`. The events write
//! (`watch/events.rs`), and the watchers read.

pub(crate) mod await_stacks;
pub(crate) mod capture;
pub(crate) mod hogs;
pub(crate) mod latency;
pub(crate) mod outside;
pub(crate) mod places;
pub(crate) mod rescue;
pub(crate) mod spawn_stacks;

//! The events of the core (`events.rs`), and what they leave for the watchers: counts of wake-ups and
//! rescues, notes for the reader of hogs, events of threads without a P. No file here knows `Sched`. The
//! watchers in `watch/` and in `runtime/inspect` read.

pub(crate) mod await_stacks;
pub(crate) mod capture;
pub(crate) mod events;
pub(crate) mod hogs;
pub(crate) mod latency;
pub(crate) mod outside;
pub(crate) mod places;
pub(crate) mod recording;
pub(crate) mod rescue;
mod sampling;
pub(crate) mod spawn_stacks;
pub(crate) mod texts;

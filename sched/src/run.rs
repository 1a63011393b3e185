//! Running Gs: choosing the next one, running it until it stops, waking waiters, and the Ms and Ps that this
//! takes.

mod blocking;
pub(crate) mod boundary;
pub(crate) mod case_waker;
pub(crate) mod contexts;
pub(crate) mod crowd;
mod find;
pub(crate) mod kept;
pub mod net_wakers;
#[cfg(feature = "other-budget")]
pub(crate) mod other_budget;
pub(crate) mod outside_words;
mod poll;
pub(crate) mod rescue;
pub(crate) mod reserved;
mod resize;
pub(crate) mod roaming;
mod run_loop;
pub(crate) mod sched;
mod simulated;
pub(crate) mod simulation;
mod stack_supply;
mod start;
#[cfg(all(feature = "interpose", target_os = "linux"))]
mod station;
#[cfg(not(all(feature = "interpose", target_os = "linux")))]
#[path = "run/no_station.rs"]
mod station;
pub(crate) mod task;
pub(crate) mod threads;
pub(crate) mod wake;
mod wake_latency;
mod with_locals;

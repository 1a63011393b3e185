//! The scheduler: green threads (G) on OS threads (M) that need the right to run them (P).
// The models may touch raw cells; loom checks them.
#![cfg_attr(not(loom), deny(unsafe_code))]

#[cfg(not(loom))]
mod coros;
#[cfg(not(loom))]
pub mod drive;
#[cfg(not(loom))]
mod find;
#[cfg(not(loom))]
mod g;
#[cfg(not(loom))]
mod global_queue;
#[cfg_attr(loom, allow(dead_code))]
mod idle;
#[cfg(not(loom))]
mod ids;
#[cfg(not(loom))]
mod join;
#[cfg(not(loom))]
mod lend;
#[cfg(not(loom))]
mod m;
#[cfg(not(loom))]
mod metrics;
#[cfg(not(loom))]
mod monitor;
#[cfg(not(loom))]
mod outside;
#[cfg(not(loom))]
mod p;
#[cfg(not(loom))]
pub mod park;
#[cfg(not(loom))]
mod poll;
#[cfg(not(loom))]
mod rescue;
#[cfg(not(loom))]
mod sched;
#[cfg(not(loom))]
mod schedule;
#[cfg(not(loom))]
mod shutdown;
#[cfg(not(loom))]
pub mod spawn;
#[cfg(not(loom))]
mod stack;
#[cfg_attr(loom, allow(dead_code))]
mod sync;
#[cfg(not(loom))]
mod sys;
#[cfg(not(loom))]
mod threads;
#[cfg(not(loom))]
pub mod time;
#[cfg(not(loom))]
mod timer;
#[cfg(not(loom))]
mod wake;

/// Under loom only the protocol files are built.
#[cfg(loom)]
#[allow(dead_code)]
mod g {
    pub(crate) mod life;
    pub(crate) mod token;
    pub(crate) mod wait;
}
#[cfg(loom)]
#[allow(dead_code)]
mod p {
    pub(crate) mod lease;
}

#[cfg(not(loom))]
pub use {
    g::task::Cancelled,
    g::wait::{Cancel, Outcome},
    g::{Status, Ticket},
    join::{GHandle, Join},
    metrics::Snapshot,
    monitor::{Look, Monitor, OVERDUE_NS},
    p::lease::{Seen, State},
    rescue::Rescue,
    sched::{Config, MAX_PROCS, Sched},
    sys::Doing,
    wake::wake,
};

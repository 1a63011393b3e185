//! What looks at the scheduler from outside: sysmon, the metrics, the dump.

pub(crate) mod await_stacks;
pub(crate) mod by_place;
mod capture;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, portable))
))]
pub(crate) mod debugger;
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, portable))
)))]
#[path = "watch/no_debugger.rs"]
pub(crate) mod debugger;
pub(crate) mod dump;
pub(crate) mod events;
pub(crate) mod hogs;
pub(crate) mod latency;
#[cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(any(asan, portable))
    )),
    path = "watch/no_memory.rs"
)]
pub mod memory;
pub(crate) mod metrics;
pub(crate) mod monitor;
pub(crate) mod outside;
pub(crate) mod places;
mod plan;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, portable))
))]
pub(crate) mod profile;
mod ready;
pub mod recorder;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, portable))
))]
mod samples;
mod sampling;
pub(crate) mod spawn_stacks;
pub(crate) mod sysmon;

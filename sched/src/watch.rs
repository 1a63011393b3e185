//! What looks at the scheduler from outside.

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
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, portable))
))]
pub mod interrupted;
pub(crate) mod living;
pub(crate) mod look;
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
mod ready;
pub mod recorder;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, portable))
))]
mod samples;
mod stacks_of_hogs;
pub mod user_events;

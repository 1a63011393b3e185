//! Stacks: copies of them as addresses, and addresses as frames with names. Dumps, hogs, traces and profiles
//! show them.

pub mod frame;
pub mod kept;
pub mod place;
#[cfg(all(
    feature = "dump-stacks",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub mod walk;
#[cfg(not(all(
    feature = "dump-stacks",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
#[path = "stacks/no_walk.rs"]
pub mod walk;

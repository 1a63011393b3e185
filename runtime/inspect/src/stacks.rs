//! Stacks: copies of them as addresses, and addresses as frames with names. Dumps, hogs, traces and profiles
//! show them.

pub(crate) mod apart;
pub(crate) mod folded;
pub(crate) mod frame;
pub(crate) mod kept;
pub(crate) mod place;
#[cfg(all(
    feature = "dump-stacks",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub(crate) mod walk;
#[cfg(not(all(
    feature = "dump-stacks",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
#[path = "stacks/no_walk.rs"]
pub(crate) mod walk;

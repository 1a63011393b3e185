//! `source`: the files under those of this module. They are those of the system. With the feature `sim` they
//! may be simulated.

#[cfg(all(
    feature = "sim",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod either;
#[cfg(not(all(
    feature = "sim",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
mod system;

#[cfg(all(
    feature = "sim",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub(crate) use either::*;
#[cfg(not(all(
    feature = "sim",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
pub(crate) use system::*;

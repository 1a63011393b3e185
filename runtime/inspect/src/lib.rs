//! What looks at green threads: dumps, metrics, hogs, traces, profiles and the debug page. The crate
//! `monochrome` re-exports what users see, and its pages say how to use it.
//!
//! ```text
//!   debug ──> profile ──> dump ──> metrics ──> stacks    copies of stacks as addresses, frames with names
//!     └──> trace                      └──────> host      what is asked of `monochrome`
//! ```
//!
//! What the documentation hides here is for `monochrome` alone.

#![deny(unsafe_code)]
#![warn(missing_debug_implementations)]
// Each item of the documentation names the feature that it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "debug")]
#[doc(hidden)]
pub mod debug;
pub mod dump;
#[doc(hidden)]
pub mod host;
pub mod metrics;
#[cfg(all(
    feature = "debug",
    not(any(asan, portable)),
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub mod profile;
mod stacks;
pub mod trace;

#[doc(hidden)]
pub use stacks::walk::take_of_spawner;

//! The root of the crate `runtime/models`: the channels of the runtime alone, for loom models
//! (`ci/models.sh`).
//!
//! Channels use the wait queue of `waits` alone, and `sched` has a stand-in for what that queue needs of it
//! under loom. The rest of the runtime needs the operating system. This crate is empty in every other build.

#![cfg(loom)]
#![deny(unsafe_code)]
#![allow(dead_code, missing_docs, unreachable_pub, unused_imports)]

pub mod channel;

/// Nothing: the models make their own choices.
pub(crate) fn point() {}

/// As [`point`].
pub(crate) fn point_in_drop() {}

/// Returns `false`.
pub(crate) fn in_simulation() -> bool {
    false
}

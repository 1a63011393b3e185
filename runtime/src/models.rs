//! The channels of the runtime, and nothing else of it, as loom runs them: see `ci/models.sh`.
//!
//! Channels stand on the wait queue of `sched` alone, for which that crate has a stand-in; the rest of the runtime is
//! operating system. This is the root of a crate of its own (`runtime/models/Cargo.toml`), empty in every other build.

#![cfg(loom)]
#![deny(unsafe_code)]
#![allow(dead_code, missing_docs, unreachable_pub, unused_imports)]

pub mod channel;

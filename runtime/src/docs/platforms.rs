//! Platforms: where this crate is run and how often, where it is only compiled, and what differs.
//!
//! # What is run
//!
#![doc = include_str!("platforms.md")]
//!
//! A test that is left out on a platform has the reason in its source (`ignore`), and CI prints both. Each
//! platform has a script: `ci/elsewhere.sh` for musl, 32 bits and `--cfg portable`, `ci/aarch64.sh`,
//! `ci/cross.sh` for what is compiled.
//!
//! It needs `std`, and Rust 1.95: `lock_api` and `parking_lot`, of which [`sync`](crate::sync) has types,
//! need that version.
//!
//! # What differs
//!
#![doc = include_str!("platforms_differ.md")]
//!
//! # What a sandbox or an older kernel refuses
//!
//! The runtime needs few calls of Linux. It works without the others, whether they fail with `ENOSYS`, as in
//! an older kernel, or with `EPERM`, as in a container. Tests run a program of all the basics without these
//! calls (`tests/tests/system/refused.rs`), on Linux 6.18, and check its results. What a refusal costs is
//! known from the code, not measured.
//!
#![doc = include_str!("platforms_refused.md")]
//!
//! For thread-locals of green threads, [`moving`](super::moving) names what they need.
//!
//! More on these: [`blocking`](super::blocking) on green threads that compute or block, and on their turns;
//! [`deadlock`](super::deadlock); [`stacks`](super::stacks); [`moving`](super::moving) on thread-locals;
//! [`interpose`](super::interpose); [`dumps`](super::dumps).

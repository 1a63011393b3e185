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
//! More on these: [`blocking`](super::blocking) on green threads that compute or block, and on their turns;
//! [`deadlock`](super::deadlock); [`stacks`](super::stacks); [`moving`](super::moving) on thread-locals;
//! [`interpose`](super::interpose); [`dumps`](super::dumps).

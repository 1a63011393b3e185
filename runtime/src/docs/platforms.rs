//! Platforms: where this crate is run and how often, where it is only compiled, and what differs.
//!
//! # What is run
//!
#![doc = include_str!("platforms.md")]
//!
//! A test that is left out on a platform has the reason in its source (`ignore`), and CI prints both. Each
//! platform has a script: `ci/elsewhere.sh` for musl, 32 bits, `--cfg portable` and the model of kqueue,
//! `ci/aarch64.sh`, `ci/kernels.sh`, `ci/cross.sh` for what is compiled.
//!
//! It needs `std`, and Rust 1.95: `lock_api` and `parking_lot`, of which [`sync`](crate::sync) has types,
//! need that version.
//!
//! # What stands in for macOS and FreeBSD
//!
#![doc = include_str!("platforms_stand_ins.md")]
//!
//! mio's selector hides the calls of kqueue, but not what kqueue reports. The model
//! (`netpoll/src/sys/kqueue_model.rs`) stands in the place of that selector, over epoll. In it each direction
//! of a descriptor has its own events and its own end, and both may come in two batches. A second
//! registration replaces the first, a regular file is ready, and a time-out beyond 100,000,000 s is an error.
//! A child of `fork` has no kqueue, and what the program has shut is reported.
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
//! A processor that is plugged out or in changes the number of Ps, as a changed set does. The set also counts
//! on a machine for more than 1,024 processors, where std's `available_parallelism` does not know it. Both
//! were run in qemu, the latter on a kernel that could have 1,500 processors and has two.
//!
//! Linux 5.4, 5.10, 5.15, 6.1 and 6.12 are booted by `ci/kernels.sh`, last on 2026-11-30. 28,000 green
//! threads slept at once there with the default of 65,530 mappings. Of 40,000 those beyond some 30,700 wait
//! for stacks. After the kernel has refused the first stack, a spawn is refused, as
//! [`stacks`](super::stacks) says.
//!
#![doc = include_str!("platforms_refused.md")]
//!
//! For thread-locals of green threads, [`moving`](super::moving) names what they need.
//!
//! More on these: [`blocking`](super::blocking) on green threads that compute or block, and on their turns;
//! [`deadlock`](super::deadlock); [`stacks`](super::stacks); [`moving`](super::moving) on thread-locals;
//! [`interpose`](super::interpose); [`dumps`](super::dumps).

//! Simulations: a seeded scheduler, a network, disks and a clock, in which a program runs deterministically.
//! The crate `monochrome` has them as its module `sim`: its page says what users see. On other systems than
//! Linux with glibc, on x86-64 and 64-bit Arm, this crate is empty.
//!
//! ```text
//!   settings ──> simulate ──> explore ──> run ──> host: a runtime of `monochrome` with one P
//!                                                    │ asks `sched::simulation`
//!                            world <─────────────────┘ choices, time, random numbers, how the run ended
//!                              ├─ strategy, schedule: which green thread runs next, and the record of it
//!                              ├─ network, node, net: machines and the packets between them
//!                              ├─ disk, fs: their files
//!                              └─ faults: what goes wrong by itself
//! ```
//!
//! - `host.rs`: what simulations ask of `monochrome`.
//! - `parts.rs`: how code of a simulation finds its network and its disks.
//! - `clock.rs`, `escapes.rs`, `futex.rs`, `by_number.rs`, `disk/metadata.rs`: functions of libc. A program
//!   with the line `runtime::sim!()` gives them libc's names (`hooks.rs` and `syscall.rs` of `monochrome`).
//! - `network.rs`, `disk.rs`: the sockets and files on which `net` and `fs` of `monochrome` work in a
//!   simulation.
//!
//! Without the feature `simulate` the crate is empty, too. What the documentation hides here is for
//! `monochrome` alone.

#![cfg(all(
    feature = "simulate",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#![deny(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod atomic;
#[doc(hidden)]
pub mod by_number;
#[doc(hidden)]
pub mod clock;
#[doc(hidden)]
pub mod disk;
mod disk_quality;
mod errors;
#[doc(hidden)]
pub mod escapes;
mod explore;
mod faults;
pub mod fs;
#[doc(hidden)]
pub mod futex;
#[doc(hidden)]
pub mod host;
pub mod linear;
pub mod net;
#[doc(hidden)]
pub mod network;
mod node;
mod parts;
mod quality;
mod random;
mod report;
mod run;
mod schedule;
mod settings;
mod simulate;
mod start;
mod strategy;
mod world;

use schedule::Fault;

pub use escapes::real::real;
pub use faults::Faults;
pub use faults::heal::{heal, settle};
pub use node::{Node, node};
pub use report::{Failure, Report};
#[doc(hidden)]
pub use run::PATIENCE;
pub use schedule::{ParseScheduleError, Schedule};
#[doc(hidden)]
pub use settings::Settings;
pub use strategy::Strategy;

/// Returns `true` on a green thread of a simulation.
///
/// ```
/// # runtime::sim!();
/// assert!(!runtime::sim::is_simulated());
/// assert!(runtime::sim::run(0, runtime::sim::is_simulated));
/// ```
#[must_use]
pub fn is_simulated() -> bool {
    sched::simulation::is_here()
}

/// Returns a random number that depends on the seed of the simulation around the caller.
///
/// # Panics
///
/// Panics outside of a simulation.
///
/// ```
/// # runtime::sim!();
/// let two = || (runtime::sim::random(), runtime::sim::random());
/// assert_eq!(runtime::sim::run(3, two), runtime::sim::run(3, two));
/// ```
#[must_use]
#[track_caller]
pub fn random() -> u64 {
    sched::simulation::with(|by| by.random())
        .expect("sim::random must be called by the code of a simulation: see runtime::sim::run")
}

/// A point of choice, as every operation of this crate is one: the simulation may let another green thread
/// run here. It does nothing outside of a simulation.
///
/// ```
/// # runtime::sim!();
/// runtime::sim::point();
/// ```
pub fn point() {
    sched::simulation::point();
}

/// Returns `true` with the given probability, as the seed decides: something goes wrong here that the
/// simulation does not know of, such as a call of a service that is refused. Such a fault is part of the
/// [`Schedule`]: a replay makes it again, and a schedule is made shorter by leaving out the faults that a
/// failure does not need. Returns `false` outside of a simulation, so that a program may keep the call.
///
/// ```
/// # runtime::sim!();
/// fn charge() -> Result<(), &'static str> {
///     if runtime::sim::fault(0.2) { Err("the bank is closed") } else { Ok(()) }
/// }
/// let failure = runtime::sim::Builder::new().try_explore(10, || {
///     let refused = (0..10).filter(|_| charge().is_err()).count();
///     assert!(refused == 0, "{refused} calls were refused");
/// });
/// let failure = failure.unwrap_err();
/// assert!(failure.message().contains("1 calls"));
/// assert_eq!(failure.schedule().len(), 1);
/// assert_eq!(charge(), Ok(()));
/// ```
#[must_use]
pub fn fault(probability: f64) -> bool {
    network::here().is_some_and(|network| {
        network.with(|state| !state.healed && state.decisions.decide(Fault::Program, &[probability]).0 > 0)
    })
}

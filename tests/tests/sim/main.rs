//! Simulations.

mod attribute;
mod basics;
mod bugs;
mod clocks;
mod deadlocks;
mod escapes;
mod experiment;
mod exploring;
mod faults;
mod fs;
mod fs_async;
mod fs_bugs;
mod fs_decay;
mod linear;
mod memory;
mod net;
mod net_bugs;
mod primitives;
mod settle;
mod unix;
mod waits;

runtime::sim!();

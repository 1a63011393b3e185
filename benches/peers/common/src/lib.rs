//! What the Rust programs of the comparison share, so that they differ in their runtime alone: the command line, the
//! one line of JSON, percentiles, the process's figures, and the loads that the workloads are defined by.
//!
//! Each program is `bench WORKLOAD [--key value ...]`. The workloads and their rules stand in `benches/peers/README.md`. A
//! result that is wrong is a panic, and a panic anywhere ends the process (see [`args::Args::from_command_line`]).
//!
//! Unix only, as the workloads are: they read the limits and the processor time of their process.

pub mod args;
pub mod client;
pub mod countdown;
pub mod hogs;
pub mod http;
pub mod load;
pub mod primes;
pub mod process;
pub mod report;
pub mod samples;

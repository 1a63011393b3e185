//! The code that the Rust programs of the comparison share, so that these programs differ only in their
//! runtime. It has the command line, the line of JSON, percentiles, figures of the process, and the loads
//! that define the workloads.
//!
//! Each program is `bench WORKLOAD [--key value ...]`. `benches/peers/README.md` defines the workloads and
//! their rules. A wrong result is a panic. A panic on any thread ends the process (see
//! [`args::Args::from_command_line`]).
//!
//! The crate and the workloads are for Unix only, because they read the limits and the processor time of
//! their process.

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

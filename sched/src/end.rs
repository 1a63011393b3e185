//! Ends: of a runtime, and of a program in which all threads wait for each other.

pub(crate) mod deadlock;
pub(crate) mod report;
mod shutdown;
pub(crate) mod simulated;

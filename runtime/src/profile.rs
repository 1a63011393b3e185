//! CPU profiles: what the process computes, by green thread and function. It needs the feature `debug`, on
//! Linux on x86-64 and 64-bit Arm.
//!
//! [`cpu`] takes 100 samples for each second of CPU time. A sample has the stack of the OS thread that runs
//! at that moment. It also has the id, name and spawn place of the green thread on it. The stack of a green
//! thread ends at its entry.
//!
//! The samples come by the signal SIGPROF. Its handler stays installed from the first profile on. System
//! calls that the signal interrupts are restarted, except for calls that always return early, such as
//! `nanosleep`.
//!
//! The timer of a profile outlives an `exec`, and the handler does not. A process that replaces itself by
//! another program during a profile is ended by SIGPROF, so it waits for the end of the profile first.
//! Children are not affected: a fork has no timer.

#[doc(inline)]
pub use inspect::profile::{Profile, cpu};

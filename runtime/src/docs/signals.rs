//! Signals: what a signal handler may do on the runtime's threads, and which faults the runtime handles
//! itself.
//!
//! To wait for signals, use [`signal::notify`](crate::signal::notify). Handlers of your own work on the
//! runtime's OS threads as on any others. No call of this crate fails because of a signal, and none returns
//! early because of one.
//!
//! - A handler may do only what is async-signal-safe. That excludes every call of this crate. A handler may
//!   write to a pipe. It may post a semaphore of C, also where [a green thread
//!   waits](super::threads#locks-of-c) for it.
//! - A handler with `SA_ONSTACK` runs on the alternate stack that each OS thread of the runtime has.
//! - A handler without `SA_ONSTACK` runs on the stack of the green thread that it interrupts. That stack must
//!   have room for the handler and for what the kernel puts there: 1 to 12 KiB, by the processor
//!   (`getauxval(AT_MINSIGSTKSZ)`). Stacks of the usual size have that room; a stack of one page has not.
//! - While many green threads compute, the runtime handles `SIGURG` on Linux, unless the program has an
//!   action of its own. See [paused green threads](super::blocking#paused-green-threads).
//! - The runtime handles `SIGSEGV` and `SIGBUS` from the moment the first runtime is made, so that a [stack
//!   overflow](super::stacks#size-cost-and-overflow) names its green thread. Every other fault goes to the
//!   handler that was installed before. A handler that is installed later replaces the runtime's. Overflows
//!   are still reported if the new handler passes faults on to the old handler.

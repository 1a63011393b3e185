//! What the hooks ask of the crate that has the runtimes, which lies above this one.

use std::io;
use std::sync::{Arc, OnceLock};

use sched::Sched;

/// The functions of that crate.
#[derive(Debug)]
pub struct Host {
    /// Starts the default runtime, with stacks of this many bytes, in a program of which all threads are
    /// green threads. Returns `false` if they are to be OS threads.
    pub start_for_threads: fn(usize) -> io::Result<bool>,
    /// Returns the scheduler of the default runtime, and starts that runtime if need be.
    pub default_sched: fn() -> io::Result<&'static Arc<Sched>>,
    /// Calls a function that blocks, without the P of the calling green thread. Waits first for a place among
    /// the calls of its runtime that block. Returns `false`, and calls nothing, if the wait for a place is
    /// interrupted.
    pub in_line: fn(&Sched, &mut dyn FnMut()) -> bool,
}

static HOST: OnceLock<&'static Host> = OnceLock::new();

/// Says who has the runtimes. The first call counts. *Runs on: the maker of a runtime, or the process's first
/// OS thread.*
pub fn set(host: &'static Host) {
    let _ = HOST.set(host);
}

/// *Runs on: a green thread, or after `set`.*
pub(crate) fn host() -> &'static Host {
    HOST.get().expect("set before the first green thread")
}

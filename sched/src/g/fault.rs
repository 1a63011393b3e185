//! Who overflowed its stack: what the fault handler asks, on the thread that faulted.

#![allow(unsafe_code)]

use super::coro::Coro;
use crate::m::current::current;
use crate::stack::overflow::{self, Overflowed};

/// Has overflows of green threads' stacks reported by name. Once per process.
pub(crate) fn watch() {
    overflow::set_lookup(look_up);
    overflow::install();
}

/// *Runs on: the thread that faulted, in a signal handler: it allocates nothing and takes no lock.*
fn look_up(address: usize) -> Option<Overflowed> {
    // SAFETY: an M outlives its thread's stay in it.
    let g = unsafe { current().as_ref()? }.running()?;
    // SAFETY: it runs on this thread.
    let stack_bytes = unsafe { Coro::overflowed(g, address)? };
    // SAFETY: a running G keeps its name, and the process ends before it does.
    let name = unsafe { std::mem::transmute::<&str, &'static str>(g.name().unwrap_or_default()) };
    let place = g.place()?;
    Some(Overflowed { name, id: g.id(), file: place.file(), line: place.line(), stack_bytes })
}

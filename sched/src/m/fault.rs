//! The report of a stack overflow: finds the G that overflowed its stack. The fault handler calls this on the
//! faulting thread.

#![allow(unsafe_code)]

use super::current::current;
use crate::stack::coro::Coro;
use crate::stack::overflow::{self, Overflowed};

/// Installs the handler that reports overflows of green threads' stacks by name. Once per process.
pub(crate) fn watch() {
    overflow::set_lookup(look_up);
    overflow::install();
}

/// Returns the running G's particulars if `address` lies in the guard of its stack. *Runs on: the thread that
/// faulted, in a signal handler: it allocates nothing and takes no lock.*
fn look_up(address: usize) -> Option<Overflowed> {
    // SAFETY: `current` is null or this thread's M, which outlives the thread's stay in it.
    let g = unsafe { current().as_ref()? }.running_or_hooked()?;
    // SAFETY: the G runs on this thread, as its M says.
    let stack_bytes = unsafe { Coro::overflowed(g, address)? };
    // SAFETY: a running G keeps its name, and the process ends before the G does.
    let name = unsafe { std::mem::transmute::<&str, &'static str>(g.name().unwrap_or_default()) };
    let place = g.place()?;
    Some(Overflowed { name, id: g.id(), file: place.file(), line: place.line(), stack_bytes })
}

//! `start`: the green threads that a simulation starts itself: main functions of nodes, and faults.

#![allow(unsafe_code)]

use std::io;
use std::panic::Location;
use std::sync::Arc;

use sched::spawn::{Spec, Where, closure};
use sched::{Join, Sched};

/// Starts a green thread in the runtime of the caller, which is the code of a simulation.
///
/// # Panics
/// Panics if there is no memory for it, and outside of the runtime.
#[track_caller]
pub(super) fn start<T, F>(name: Option<String>, work: F) -> Join<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let spec = Spec { name: name.map(String::into_boxed_str), stack_bytes: None, place: Location::caller() };
    // SAFETY: `F` and `T` are `'static`, so they borrow nothing that could end before the green thread.
    let started = unsafe { closure(Where::Here(no_default), spec, work, ()) };
    started.unwrap_or_else(|error| panic!("cannot spawn a green thread: {error}"))
}

/// A plain OS thread has no simulation, and so no runtime for these green threads.
fn no_default() -> io::Result<Arc<Sched>> {
    Err(io::Error::other("the caller is not the code of a simulation"))
}

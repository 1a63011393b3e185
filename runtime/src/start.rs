//! Starting green threads: the one place where `spawn` in all its forms comes down to the scheduler.

#![allow(unsafe_code)]

use std::io;
use std::panic::{Location, resume_unwind};
use std::sync::Arc;

use sched::Sched;
use sched::spawn::{Spec, Where};

use crate::entry::Entry;
use crate::thread::JoinHandle;

/// Spawns what may live for ever.
pub(crate) fn spawn<M, E>(at: Where<'_>, spec: Spec, task: E) -> io::Result<JoinHandle<E::Output>>
where
    E: Entry<M> + Send + 'static,
    E::Output: Send + 'static,
{
    // SAFETY: it borrows nothing that could end.
    unsafe { task.start(at, spec, ()) }.map(JoinHandle)
}

/// Runs `main` as a green thread of that runtime and waits for its end, whatever comes.
pub(crate) fn block_on<M, E>(sched: &Arc<Sched>, place: &'static Location<'static>, main: E) -> E::Output
where
    E: Entry<M> + Send,
    E::Output: Send,
{
    // SAFETY: `join_surely` below does not return, nor unwind, before the green thread has ended and dropped what it
    // borrowed; nothing in between can unwind.
    let join = unsafe { main.start(Where::In(sched), Spec::at(place), ()) };
    or_panic(join).join_surely().unwrap_or_else(|panic| resume_unwind(panic))
}

/// What cannot be started ends in a panic of the caller, with the reason.
pub(crate) fn or_panic<T>(started: io::Result<T>) -> T {
    started.unwrap_or_else(|error| panic!("cannot spawn a green thread: {error}"))
}

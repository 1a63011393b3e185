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
    let mut waits = sched.in_block_on();
    // SAFETY: `join_surely` below does not return, nor unwind, before the green thread has ended and dropped what it
    // borrowed; nothing in between can unwind.
    let join = unsafe { main.start(Where::In(sched), Spec::at(place), ()) };
    let join = or_panic(join);
    waits.waits_for(join.thread());
    let result = join.join_surely();
    match (waits.over(), result) {
        // It was cancelled, and what it made of that does not count: nobody could have gone on.
        (Some(report), result) if !is_panic(&result) => panic!("{}\n\n{report}", sched::DEADLOCK),
        (_, result) => result.unwrap_or_else(|panic| resume_unwind(panic)),
    }
}

/// Whether it ended by a panic of its own.
fn is_panic<T>(result: &std::thread::Result<T>) -> bool {
    result.as_ref().is_err_and(|payload| !payload.is::<sched::Cancelled>())
}

/// What cannot be started ends in a panic of the caller, with the reason.
pub(crate) fn or_panic<T>(started: io::Result<T>) -> T {
    started.unwrap_or_else(|error| panic!("cannot spawn a green thread: {error}"))
}

//! Starting green threads for `spawn` and `block_on`: the one place that passes a closure or a future to the
//! scheduler.

#![allow(unsafe_code)]

use std::io;
use std::panic::{Location, resume_unwind};
use std::sync::Arc;

use sched::spawn::{Spec, Where};
use sched::{After, Join, Sched};

use super::entry::Entry;
use crate::default::Entered;
use crate::thread::JoinHandle;
use inspect::trace::trigger;

/// Starts a green thread with a closure or future that borrows nothing.
pub(crate) fn spawn<M, E>(at: Where<'_>, spec: Spec, task: E) -> io::Result<JoinHandle<E::Output>>
where
    E: Entry<M> + Send + 'static,
    E::Output: Send + 'static,
{
    spawn_then(at, spec, task, ()).map(JoinHandle)
}

/// Starts a green thread as [`spawn`] does. `after` is called when the green thread has ended.
pub(crate) fn spawn_then<M, E>(
    at: Where<'_>,
    spec: Spec,
    task: E,
    after: impl After + Send + 'static,
) -> io::Result<Join<E::Output>>
where
    E: Entry<M> + Send + 'static,
    E::Output: Send + 'static,
{
    // SAFETY: `E: 'static`, so the task borrows nothing that could end before the green thread.
    unsafe { task.start(at, spec, after) }
}

/// Runs `main` as a green thread of `sched` and blocks the caller until it has ended. Returns the value of
/// `main`.
pub(crate) fn block_on<M, E>(sched: &Arc<Sched>, place: &'static Location<'static>, main: E) -> E::Output
where
    E: Entry<M> + Send,
    E::Output: Send,
{
    // SAFETY: the wait goes on until the end of the green thread.
    match unsafe { block_on_unless(sched, place, main, || true) } {
        Ok(value) => value,
        Err(NoValue::Cancelled(report)) => panic!("{}\n\n{report}", sched::DEADLOCK),
        Err(NoValue::Left) => unreachable!("the green thread has ended"),
    }
}

/// Why a main function has no value.
pub(crate) enum NoValue {
    /// It was left as it is.
    Left,
    /// The runtime has cancelled it, because of a deadlock or because its simulation has failed. A value that
    /// it returned nevertheless does not count.
    Cancelled(Arc<str>),
}

/// As [`block_on`]. `await_end` waits for the end of the green thread. If it returns `false`, the green
/// thread is left as it is.
///
/// # Safety
/// If `await_end` returns `false`, the green thread never runs again.
pub(crate) unsafe fn block_on_unless<M, E>(
    sched: &Arc<Sched>,
    place: &'static Location<'static>,
    main: E,
    await_end: impl FnOnce() -> bool,
) -> Result<E::Output, NoValue>
where
    E: Entry<M> + Send,
    E::Output: Send,
{
    let mut waits = sched.in_block_on();
    // SAFETY: `main` and its result may borrow from the caller. `join_surely` below neither returns nor
    // unwinds before the green thread has ended and dropped what it borrowed. No call between here and there
    // can unwind. A green thread that is left never runs again (this contract), and its stack stays.
    let join = unsafe { main.start(Where::In(sched), Spec::at(place), ()) };
    let join = or_panic(join);
    waits.waits_for(join.thread().identity());
    if !await_end() {
        std::mem::forget(join);
        return Err(NoValue::Left);
    }
    let result = join.join_surely();
    let report = waits.over();
    // The process may end next.
    trigger::wait_until_written();
    match (report, result) {
        (Some(report), result) if !is_panic(&result) => {
            sched::drop_contained(result);
            Err(NoValue::Cancelled(report))
        }
        (_, result) => Ok(result.unwrap_or_else(|panic| resume_unwind(panic))),
    }
}

/// Runs a future that need not be `Send` on the calling thread.
pub(crate) fn block_on_local<F: Future>(future: F) -> F::Output {
    let _written = trigger::WaitsUntilWritten;
    #[cfg(feature = "tokio")]
    let _context = if sched::park::on_green_thread() { None } else { crate::tokio::enter() };
    sched::block_on::block_on_local(future)
}

/// As `block_on_local`. What the future spawns belongs to the runtime of `sched`.
#[track_caller]
pub(crate) fn block_on_local_in<F: Future>(sched: &Arc<Sched>, future: F) -> F::Output {
    let entered = match Sched::current() {
        None => Some(Entered::enter(sched)),
        Some(own) if Arc::ptr_eq(&own, sched) => None,
        Some(_) => panic!("block_on_local on a green thread of another runtime"),
    };
    let output = block_on_local(future);
    drop(entered);
    output
}

/// Returns `true` if the green thread ended by a panic and not by a cancellation.
fn is_panic<T>(result: &std::thread::Result<T>) -> bool {
    result.as_ref().is_err_and(|payload| !payload.is::<sched::Cancelled>())
}

/// Returns the handle. Panics with the reason if the green thread could not be started.
pub(crate) fn or_panic<T>(started: io::Result<T>) -> T {
    started.unwrap_or_else(|error| panic!("cannot spawn a green thread: {error}"))
}

//! `aside`: calls that block, on a green thread of their own. So a cancellation or a time-out ends the
//! caller's wait, and a future can await them.

use std::any::Any;
use std::io;
use std::panic::resume_unwind;

use sched::{GHandle, fork};

use crate::spawn::start::or_panic;
use crate::thread::{Builder, Cancelled, JoinHandle};

/// Runs `f`, which may block, on a new green thread of the caller's runtime, named `name`, and waits for its
/// result. Panics as `f` does.
///
/// If the wait is ended by a cancellation or a time-out, the caller unwinds, and the new green thread is
/// cancelled. `f` then goes on until it parks or returns.
///
/// # Errors
/// Returns an error if the green thread cannot be started, or ends without a result because its runtime ends.
pub(crate) fn aside<T: Send + 'static>(name: &str, f: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    if fork::is_forked() {
        return Ok(f());
    }
    let (thread, _cancel) = start(name, f)?;
    thread.join().map_err(|payload| ended(name, payload))
}

/// Runs `f` as [`aside`] does, in a future. Dropping the future cancels the new green thread.
///
/// # Errors
/// Returns the errors of [`aside`].
pub(crate) async fn aside_async<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    if fork::is_forked() {
        return Ok(f());
    }
    let (thread, _cancel) = start(name, f)?;
    thread.await.map_err(|payload| ended(name, payload))
}

/// Runs `f` in `blocking` on a new green thread, in a future. Dropping the future cancels that green thread.
/// Panics if the green thread cannot be started, and as `f` does.
pub(crate) async fn blocking_async<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (thread, _cancel) = or_panic(start("blocking", move || crate::blocking(f)));
    thread.await.unwrap_or_else(|panic| resume_unwind(panic))
}

fn start<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> io::Result<(JoinHandle<T>, CancelOnDrop)> {
    let thread = Builder::new().name(name.into()).spawn(f)?;
    let cancel = CancelOnDrop(thread.0.thread().clone());
    Ok((thread, cancel))
}

/// Returns the error for a green thread that was cancelled, and passes on any other panic.
pub(crate) fn ended(name: &str, payload: Box<dyn Any + Send>) -> io::Error {
    if !payload.is::<Cancelled>() {
        resume_unwind(payload);
    }
    io::Error::new(io::ErrorKind::NotConnected, format!("the runtime has ended before the {name} was done"))
}

/// Cancels a green thread when it is dropped. A green thread that has ended is not affected.
struct CancelOnDrop(GHandle);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

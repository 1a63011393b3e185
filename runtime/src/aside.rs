//! `aside`: calls that block, on a green thread of their own, so that a cancellation or a time-out ends the caller's wait.

use std::io;

use sched::{GHandle, fork};

use crate::thread::Builder;

/// Runs `f`, which may block, on a new green thread of the caller's runtime, named `name`, and waits for its result.
///
/// If the wait is ended by a cancellation or a time-out, the caller unwinds, and the new green thread is cancelled. `f` then
/// goes on until it parks or returns.
///
/// # Errors
/// Returns an error if the green thread cannot be started, or ends without a result because its runtime ends.
pub(crate) fn aside<T: Send + 'static>(name: &str, f: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    if fork::is_forked() {
        return Ok(f());
    }
    let thread = Builder::new().name(name.into()).spawn(f)?;
    let _cancel = CancelOnDrop(thread.0.thread().clone());
    let text = || format!("the runtime has ended before the {name} was done");
    thread.join().map_err(|_| io::Error::new(io::ErrorKind::NotConnected, text()))
}

/// Cancels a green thread when it is dropped. A green thread that has ended is not affected.
struct CancelOnDrop(GHandle);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

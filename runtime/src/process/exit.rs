//! Waiting until a child process has exited. The caller then takes the exit status.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::io;
use std::process::{Child, ExitStatus};

#[cfg(unix)]
use unix as sys;
#[cfg(windows)]
use windows as sys;

pub(super) use sys::take_aside;

/// Waits until `child` has exited. Parks the caller. Returns the exit status.
pub(super) fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    if let Some(status) = child.try_wait()? {
        return Ok(status);
    }
    if sched::fork::is_forked() {
        return child.wait();
    }
    sys::wait(child)
}

/// Waits as `wait` does, in a future.
pub(super) async fn wait_async(child: &mut Child) -> io::Result<ExitStatus> {
    // The child may have exited already.
    sched::budget::consume().await;
    if let Some(status) = child.try_wait()? {
        return Ok(status);
    }
    if sched::fork::is_forked() {
        return child.wait();
    }
    sys::wait_async(child).await
}

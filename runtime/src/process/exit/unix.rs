//! Waiting for a child on Unix.
//!
//! On Linux the caller waits for a pidfd, which is readable when the child has exited. Elsewhere it waits for
//! `SIGCHLD`.

use std::io;
use std::process::{Child, ExitStatus};

use crate::channel::RecvError;

/// Waits until `child`, which goes on, has exited. Parks the caller. Returns the exit status.
pub(super) fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    #[cfg(all(target_os = "linux", not(portable)))]
    if let Some(exit) = linux::pidfd(child) {
        crate::net::Async::new(exit)?.readable()?;
        // Does not block: the descriptor is readable only when the status can be taken.
        return child.wait();
    }
    wait_for_signals(child)
}

/// Waits as `wait` does, in a future.
pub(super) async fn wait_async(child: &mut Child) -> io::Result<ExitStatus> {
    #[cfg(all(target_os = "linux", not(portable)))]
    if let Some(exit) = linux::pidfd(child) {
        crate::net::Async::new(exit)?.readable_async().await?;
        return child.wait();
    }
    let signals = crate::signal::notify(&[crate::signal::SIGCHLD])?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        signals.recv_async().await.map_err(ended)?;
    }
}

/// Takes the exit status of a child that goes on, on a green thread of its own, so that no zombie is left. If
/// no green thread can be started, or the runtime ends, the process remains a zombie after its exit, as in
/// std.
pub(in crate::process) fn take_aside(mut child: Child) {
    let waits = crate::thread::Builder::new().name("dropped child".into());
    drop(waits.spawn(move || super::wait(&mut child).map(drop)));
}

/// Waits as `wait` does: looks after each `SIGCHLD`.
fn wait_for_signals(child: &mut Child) -> io::Result<ExitStatus> {
    let signals = crate::signal::notify(&[crate::signal::SIGCHLD])?;
    loop {
        // An exit after this look sends a signal to `signals`.
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        signals.recv().map_err(ended)?;
    }
}

fn ended(_: RecvError) -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the runtime in which the child was waited for has ended")
}

#[cfg(all(target_os = "linux", not(portable)))]
mod linux {
    use std::os::fd::OwnedFd;
    use std::process::Child;

    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    /// Returns a descriptor that is readable when `child` has exited. Returns `None` if the system has no
    /// such descriptors, or none left. The id is the child's, because its exit status was not taken.
    pub(super) fn pidfd(child: &Child) -> Option<OwnedFd> {
        pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use crate::time::timeout;

    #[test]
    fn signals_end_waits_where_there_are_no_pidfds() {
        let waits = (0..10).map(|code| {
            crate::spawn(move || {
                let mut child =
                    Command::new("sh").args(["-c", &format!("sleep 0.01; exit {code}")]).spawn().unwrap();
                assert_eq!(wait_for_signals(&mut child).unwrap().code(), Some(code));
                // The status is taken.
                assert_eq!(wait_for_signals(&mut child).unwrap().code(), Some(code));
            })
        });
        waits.collect::<Vec<_>>().into_iter().for_each(|wait| wait.join().unwrap());

        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(timeout(Duration::from_millis(5), || wait_for_signals(&mut child)).is_err());
        child.kill().unwrap();
        assert!(!wait_for_signals(&mut child).unwrap().success());
    }
}

//! Waiting for a child on Windows: a thread of the system's pool waits for many children, and reports an exit
//! to the poller of the waiter's runtime.

use std::io::{self, ErrorKind};
use std::os::windows::io::AsHandle;
use std::process::{Child, ExitStatus};

use netpoll::Direction;

use crate::net::Socket;
use crate::net::call;
use crate::net::pipes::Exit;

/// Waits until `child`, which goes on, has exited. Parks the caller. Returns the exit status.
pub(super) fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    exit_of(child)?.run(Direction::Read, |_| status(child))
}

/// Waits as `wait` does, in a future.
pub(super) async fn wait_async(child: &mut Child) -> io::Result<ExitStatus> {
    exit_of(child)?.run_async(Direction::Read, |_| status(child)).await
}

/// Does nothing: Windows keeps no process for its parent.
pub(in crate::process) fn take_aside(child: Child) {
    drop(child);
}

/// Returns what reports the exit. It has a handle of its own, because the user may drop the child first.
fn exit_of(child: &Child) -> io::Result<Socket<Exit>> {
    Socket::new(Exit::new(call(|| child.as_handle().try_clone_to_owned())?))
}

fn status(child: &mut Child) -> io::Result<ExitStatus> {
    child.try_wait()?.ok_or_else(|| ErrorKind::WouldBlock.into())
}

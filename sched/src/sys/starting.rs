//! Starting the OS threads of the runtime's own. In a program with `runtime::interpose!(threads)` the hook of
//! `pthread_create` makes a green thread of what user code starts. The runtime starts its threads in user
//! code, too: when a runtime is built, or at the first use of signals. The mark in this file keeps them OS
//! threads.

use std::cell::Cell;
use std::io;
use std::thread::{Builder, JoinHandle};

thread_local! {
    /// True while the runtime starts an OS thread here.
    static STARTS: Cell<bool> = const { Cell::new(false) };
}

/// Starts an OS thread that runs `run`, also in user code of a green thread.
///
/// # Errors
/// Returns the errors of std.
pub fn start<T: Send + 'static>(
    builder: Builder,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    own(|| builder.spawn(run))
}

/// Calls `f`, which starts OS threads of the runtime's own by other means. `f` neither parks nor unwinds.
pub fn own<R>(f: impl FnOnce() -> R) -> R {
    // The mark stays true if one start is made within another one.
    let before = mark(true);
    let result = f();
    mark(before);
    result
}

/// Returns `true` if the runtime starts an OS thread of its own here. *Runs on: the hook of
/// `pthread_create`.*
pub fn starts_own() -> bool {
    read()
}

/// Never inlined, as `read`: the starter may be on another OS thread at each start.
#[inline(never)]
fn mark(starts: bool) -> bool {
    STARTS.replace(starts)
}

#[inline(never)]
fn read() -> bool {
    STARTS.get()
}

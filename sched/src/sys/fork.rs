//! What a forked child of the process may do: it has only the thread that forked, so no M, no sysmon and no
//! waker.
//!
//! ```text
//!   the parent                          its child
//!   fork ──────────────────────────────> forked = true; the thread is no M any more
//!                                        calls that need no scheduler work as on a plain OS thread
//!                                        calls that start a green thread or wait for one are refused
//!                                        a green thread that ends in the child aborts the child
//! ```
//!
//! The thread-local that names the M is cleared in the child. Every fast path then takes the child for a
//! plain OS thread at no cost, and only slow paths ask [`is_forked`]. A thread that does not exist in the
//! child may have held a lock of the runtime during the fork. So every function that a child can call asks
//! before it takes such a lock.
//!
//! Rejected:
//!
//! - *Scheduling in the child.* Every runnable G would run a second time. The child would also re-arm the
//!   timer and the poller that it shares with its parent.
//! - *Taking all locks before each fork.* Every `Command` that the parent starts would take them too.

#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

const TEXT: &str =
    "this process was forked from one that runs green threads, and has none of its threads: exec first";

static FORKED: AtomicBool = AtomicBool::new(false);

/// True if children may have been made without the functions of `pthread_atfork`, so that this module does
/// not know of them. Each code that sees such a call writes it, and it never becomes false.
pub static UNSEEN: AtomicBool = AtomicBool::new(false);

/// Returns `true` if this process is a forked child.
#[inline]
pub fn is_forked() -> bool {
    // Relaxed: written while the process has only one thread.
    FORKED.load(Ordering::Relaxed)
}

/// Refuses a call that a forked child cannot perform.
///
/// # Errors
/// Fails if this process is a forked child.
pub fn check() -> io::Result<()> {
    if is_forked() { Err(io::Error::new(io::ErrorKind::Unsupported, TEXT)) } else { Ok(()) }
}

/// As [`check`], for callers that cannot return an error: panics if this process is a forked child.
#[track_caller]
pub fn check_or_panic() {
    if is_forked() {
        panic!("{TEXT}");
    }
}

/// What a fork calls on the thread that forks.
#[derive(Clone, Copy)]
#[cfg_attr(not(unix), allow(dead_code))]
pub(crate) struct AtFork {
    /// Before the fork.
    pub(crate) before: extern "C" fn(),
    /// After it, in the parent.
    pub(crate) in_parent: extern "C" fn(),
    /// After it, in the child. It calls [`begin_child`].
    pub(crate) in_child: extern "C" fn(),
}

/// Makes each later fork of this process call these functions. Only the first call registers its own. *Runs
/// on: the maker of a runtime.*
///
/// # Errors
/// Fails if the system cannot register them.
pub(crate) fn watch(at_fork: AtFork) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::sync::OnceLock;
        static WATCHED: OnceLock<libc::c_int> = OnceLock::new();
        let AtFork { before, in_parent, in_child } = at_fork;
        // SAFETY: the functions of `supply/start.rs` may run at a fork: they write atomics and thread-locals
        // without a destructor, and set the base of thread-locals.
        let error = *WATCHED
            .get_or_init(|| unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) });
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
    }
    #[cfg(not(unix))]
    let _ = at_fork;
    Ok(())
}

/// Marks this process as a forked child. *Runs on: the only thread of a child that was just forked.*
pub(crate) fn begin_child() {
    FORKED.store(true, Ordering::Relaxed);
}

/// Aborts the process if it is a forked child that would wait for a thread that does not exist there, and may
/// not unwind.
pub fn check_or_abort() {
    if is_forked() {
        abort(
            "runtime: a lock is to be taken again in a process that was forked, and the thread that holds it does not exist there\n",
        );
    }
}

/// Aborts a forked child in which the green thread has come to the end of its task: there is no M to return
/// to.
#[cold]
pub(crate) fn nowhere_to_go() -> ! {
    abort(
        "runtime: a green thread has ended in a process that was forked from it: there is no scheduler to return to; let \
         such a child exec or _exit\n",
    )
}

#[cold]
fn abort(text: &str) -> ! {
    // Not through std's lock of stderr, which a thread that does not exist here may have held.
    #[cfg(unix)]
    let _ = crate::sys::write(libc::STDERR_FILENO, text.as_bytes());
    #[cfg(not(unix))]
    eprint!("{text}");
    std::process::abort()
}

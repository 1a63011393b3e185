//! A child made by `fork`: it has the one thread that forked, so no M, no sysmon, and nobody to wake anyone.
//!
//! ```text
//!   the parent                          its child
//!   fork ──────────────────────────────> forked = true; the thread is no M any more
//!                                        what needs no scheduler goes on as on a plain OS thread
//!                                        what would start, or wait for, a green thread is refused
//!                                        a green thread that comes to its end there aborts the child
//! ```
//!
//! The thread-local that names the M is cleared, so every fast path takes the child for a plain OS thread at no cost, and
//! only slow paths ask [`is_forked`]. A lock of the runtime's may have been held by a thread that is not there any more,
//! so whoever can be called in a child asks before it takes one.
//!
//! Rejected: to go on scheduling in the child. It would run every runnable green thread a second time, and re-arm the
//! timer and the poller that it shares with its parent. Locks taken before each fork: they would be taken in the parent
//! too, by every `Command` that is started.

#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

const TEXT: &str =
    "this process was forked from one that runs green threads, and has none of its threads: exec first";

static FORKED: AtomicBool = AtomicBool::new(false);

/// Whether this process is such a child.
#[inline]
pub fn is_forked() -> bool {
    // Relaxed: written while the process has one thread.
    FORKED.load(Ordering::Relaxed)
}

/// Refuses what a child cannot do.
///
/// # Errors
/// This process is such a child.
pub fn check() -> io::Result<()> {
    if is_forked() { Err(io::Error::new(io::ErrorKind::Unsupported, TEXT)) } else { Ok(()) }
}

/// Likewise, for those who cannot give an error.
#[track_caller]
pub fn check_or_panic() {
    if is_forked() {
        panic!("{TEXT}");
    }
}

/// Sees to it that children know what they are. *Runs on: whoever makes a runtime.*
pub(crate) fn watch() -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::sync::OnceLock;
        static WATCHED: OnceLock<libc::c_int> = OnceLock::new();
        // SAFETY: `begins` may run in a child: it writes an atomic and a thread-local without a destructor.
        let error = *WATCHED.get_or_init(|| unsafe { libc::pthread_atfork(None, None, Some(begins)) });
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
    }
    Ok(())
}

/// *Runs on: the one thread of a child that was just forked.*
#[cfg(unix)]
extern "C" fn begins() {
    FORKED.store(true, Ordering::Relaxed);
    crate::m::current::set(std::ptr::null());
}

/// Ends a child that would have to wait for somebody who is not there, and may not unwind.
pub(crate) fn check_or_abort() {
    if is_forked() {
        abort(
            "runtime: a lock is to be taken again in a process that was forked, and who has it is not there\n",
        );
    }
}

/// A green thread has come to the end of its task, and its M is not to be found: this is a child.
#[cold]
pub(crate) fn nowhere_to_go() -> ! {
    abort(
        "runtime: a green thread has ended in a process that was forked from it: there is no scheduler to go back to; let \
         such a child exec or _exit\n",
    )
}

#[cold]
fn abort(text: &str) -> ! {
    // Past std's lock of stderr, which may be held by a thread that is not here.
    #[cfg(unix)]
    // SAFETY: it reads the text that it is given.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    #[cfg(not(unix))]
    eprint!("{text}");
    std::process::abort()
}

//! The end of a runtime: the ending thread waits for it, or leaves the rest to a background thread.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use sched::{Sched, starting};

use inspect::trace::trigger;

/// Cancels all green threads of a runtime, waits for their end, and joins its OS threads. Returns `true` if
/// all have ended.
///
/// Returns `false` if `time` was over first, or if the caller is one of those green threads. A background
/// thread then does the rest.
pub(super) fn end(sched: &Arc<Sched>, monitor: Option<JoinHandle<()>>, time: Option<Duration>) -> bool {
    if sched::fork::is_forked() {
        // A forked child: the parent's OS threads are not in this process and cannot be joined.
        std::mem::forget(monitor);
        return false;
    }
    let own = Sched::current().is_some_and(|current| Arc::ptr_eq(&current, sched));
    let time = if own { Some(Duration::ZERO) } else { time };
    let ended = sched.cancel_all(time);
    match ended {
        // Joining blocks this OS thread for a moment. `blocking` lets other green threads run during that
        // moment.
        true => crate::blocking(|| end_threads(sched, monitor)),
        false => end_in_background(sched, monitor),
    }
    // The process may end next.
    trigger::wait_until_written();
    ended
}

fn end_threads(sched: &Sched, monitor: Option<JoinHandle<()>>) {
    sched.end_threads();
    // A panic of sysmon was printed when it happened.
    let _ = monitor.map(JoinHandle::join);
}

fn end_in_background(sched: &Arc<Sched>, monitor: Option<JoinHandle<()>>) {
    let name = format!("{}-end", sched.config().thread_name);
    let sched = Arc::clone(sched);
    let rest = move || {
        sched.cancel_all(None);
        end_threads(&sched, monitor);
    };
    if let Err(error) = starting::start(Builder::new().name(name), rest) {
        sched::write_message(format_args!(
            "runtime: no thread to wait for the end of a runtime: {error}. Its threads stay."
        ));
    }
}

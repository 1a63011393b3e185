//! The end of a runtime: whoever ends it waits, or a thread of its own does.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use sched::Sched;

/// Cancels all green threads of a runtime, waits for their end and joins its threads. `false`: the time was up first, or
/// the caller is one of those green threads, for whose end it cannot wait; the rest then happens in the background.
pub(crate) fn end(sched: &Arc<Sched>, monitor: Option<JoinHandle<()>>, time: Option<Duration>) -> bool {
    if sched::fork::is_forked() {
        // Its threads are not here, and will not end.
        std::mem::forget(monitor);
        return false;
    }
    let own = Sched::current().is_some_and(|current| Arc::ptr_eq(&current, sched));
    let time = if own { Some(Duration::ZERO) } else { time };
    let ended = sched.cancel_all(time);
    match ended {
        // Blocks an OS thread for a moment; nobody else is to wait for that.
        true => crate::blocking(|| end_threads(sched, monitor)),
        false => end_in_background(sched, monitor),
    }
    ended
}

fn end_threads(sched: &Sched, monitor: Option<JoinHandle<()>>) {
    sched.end_threads();
    // A panic of sysmon's was reported when it happened.
    let _ = monitor.map(JoinHandle::join);
}

fn end_in_background(sched: &Arc<Sched>, monitor: Option<JoinHandle<()>>) {
    let name = format!("{}-end", sched.config().thread_name);
    let sched = Arc::clone(sched);
    let rest = move || {
        sched.cancel_all(None);
        end_threads(&sched, monitor);
    };
    if let Err(error) = Builder::new().name(name).spawn(rest) {
        eprintln!("runtime: no thread to wait for the end of a runtime: {error}. Its threads stay.");
    }
}

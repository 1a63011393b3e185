//! The trace of the scheduler: a thread that prints a line about its runtime in intervals. Go: `schedtrace`.
//!
//! It has a thread of its own, because sysmon sleeps while all is idle, and must not wait for a slow stderr.

use std::fmt::Write as _;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread as os;
use std::time::{Duration, Instant};

use sched::{Sched, Snapshot, starting};

use super::environment;

/// The thread that prints. The drop ends it.
#[derive(Debug)]
pub(super) struct Trace {
    /// Ends the thread when it is dropped.
    alive: Option<mpsc::Sender<()>>,
    thread: Option<os::JoinHandle<()>>,
}

/// What to print, and how often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    interval: Duration,
    detail: bool,
}

/// Returns what the environment asks for.
///
/// # Errors
/// Returns an error if a variable has a value that is not allowed.
pub(super) fn wanted() -> io::Result<Option<Wanted>> {
    let detail = environment::number("RUNTIME_SCHEDDETAIL", 0..=1)? == Some(1);
    let millis = environment::number("RUNTIME_SCHEDTRACE", 1..=86_400_000)?;
    Ok(millis.map(|millis| Wanted { interval: Duration::from_millis(millis as u64), detail }))
}

/// Starts the thread.
pub(super) fn start(sched: &Arc<Sched>, wanted: Wanted) -> io::Result<Trace> {
    let (alive, ended) = mpsc::channel();
    let name = sched.config().thread_name.clone();
    let sched = Arc::downgrade(sched);
    let prints = move || print_until(&ended, &sched, wanted);
    let thread = starting::start(os::Builder::new().name(format!("{name}-trace")), prints)?;
    Ok(Trace { alive: Some(alive), thread: Some(thread) })
}

impl Drop for Trace {
    fn drop(&mut self) {
        if sched::fork::is_forked() {
            // The thread is not in this process. It may have held a lock of the channel at the fork.
            std::mem::forget((self.alive.take(), self.thread.take()));
            return;
        }
        drop(self.alive.take());
        // A panic of the thread was printed when it happened.
        let _ = self.thread.take().map(|thread| crate::blocking(|| thread.join()));
    }
}

fn print_until(ended: &mpsc::Receiver<()>, sched: &Weak<Sched>, wanted: Wanted) {
    let start = Instant::now();
    while ended.recv_timeout(wanted.interval) == Err(RecvTimeoutError::Timeout) {
        let Some(sched) = sched.upgrade() else { return };
        let now = inspect::metrics::of(&sched);
        let mut text = summary(&sched.config().thread_name, start.elapsed(), &now);
        if wanted.detail {
            detail(&mut text, &now);
        }
        // If stderr is closed, the trace has no reader.
        let _ = io::Write::write_all(&mut io::stderr().lock(), text.as_bytes());
    }
}

fn summary(name: &str, since: Duration, now: &Snapshot) -> String {
    format!(
        "SCHED {}ms: {} procs={} idleprocs={} threads={} spinningthreads={} idlethreads={} running={} \
         runnable={} waiting={} timers={} runqueue={} {:?}\n",
        since.as_millis(),
        name.escape_debug(),
        now.procs,
        now.idle_procs,
        now.threads,
        now.spinning_threads,
        now.idle_threads,
        now.running,
        now.runnable,
        now.waiting,
        now.timers_pending,
        now.global_queue,
        now.local_queues,
    )
}

fn detail(text: &mut String, now: &Snapshot) {
    for (index, p) in now.by_proc.iter().enumerate() {
        let retired = if index < now.procs { "" } else { " retired" };
        let line = writeln!(
            text,
            "  P{index}:{retired} runqueue={} timers={} spawned={} ended={} parks={} yields={} steals={} fired={} netwakeups={}",
            p.queue,
            p.timers_pending,
            p.spawned,
            p.ended,
            p.parks,
            p.yields,
            p.steals,
            p.timers_fired,
            p.net_wakeups,
        );
        line.expect("a string takes any text");
    }
    let mut dump = Vec::new();
    if inspect::dump::dump(&mut dump).is_ok() {
        String::from_utf8_lossy(&dump).lines().for_each(|line| text.extend(["  ", line, "\n"]));
    }
}

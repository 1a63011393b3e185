//! The workloads. Each is written once, generic over the design.

mod churn;
mod idle;
mod reset;
mod sleepers;
mod ticker;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use driver::spread::grouped;
use peer_common::process::Usage;

use crate::designs::{Design, ManyHeaps, OneHeap, PerP, Timers, Wheel};
use crate::measure::Figures;

/// One workload with its size.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Workload {
    /// `n` green threads sleep once, for `time`.
    Sleepers { n: usize, time: Duration },
    /// Each task creates a timer of a second and cancels that timer, `n` times.
    Churn { tasks: usize, n: usize },
    /// The tasks share out `live` timers. Each task resets its own timers to random times, `n` times.
    Reset { tasks: usize, live: usize, n: usize },
    /// One green thread sleeps 1 ms in a loop, beside `busy` green threads that compute and yield.
    Ticker { busy: usize, time: Duration },
    /// `sleepers` green threads sleep for an hour. Nothing else runs.
    Idle { sleepers: usize, time: Duration },
}

impl Workload {
    /// Returns the workload's name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::Sleepers { .. } => "sleepers",
            Workload::Churn { .. } => "churn",
            Workload::Reset { .. } => "reset",
            Workload::Ticker { .. } => "ticker",
            Workload::Idle { .. } => "idle",
        }
    }

    /// Returns a description for the page and the plot.
    pub(crate) fn title(self) -> String {
        match self {
            Workload::Sleepers { n, time } => format!("{} sleep {} ms", grouped(n), time.as_millis()),
            Workload::Churn { tasks, .. } => format!("create and cancel, {}", counted(tasks, "task")),
            Workload::Reset { tasks, live, .. } => {
                format!("reset one of {}, {}", grouped(live), counted(tasks, "task"))
            }
            Workload::Ticker { busy: 0, .. } => "a 1 ms ticker alone".into(),
            Workload::Ticker { busy, .. } => format!("a 1 ms ticker beside {busy} that compute and yield"),
            Workload::Idle { sleepers, time } => {
                format!("{} sleep an hour, for {} s", grouped(sleepers), time.as_secs_f64())
            }
        }
    }

    /// Returns the names of the figures that the plot shows.
    pub(crate) fn plotted(self) -> &'static [&'static str] {
        match self {
            Workload::Sleepers { .. } => &["mean, ms", "p99, ms", "wall, ms", "voluntary switches a timer"],
            Workload::Churn { .. } | Workload::Reset { .. } => &["ns an operation and task"],
            Workload::Ticker { busy: 0, .. } => {
                &["late p50, µs", "late p99, µs", "CPU, µs a timer", "voluntary switches a timer"]
            }
            Workload::Ticker { .. } => {
                &["late p50, µs", "late p99, µs", "voluntary switches a timer", "hand-offs a timer"]
            }
            Workload::Idle { .. } => &["CPU, ms", "voluntary switches"],
        }
    }

    /// Runs the workload over a design, in a new runtime. Panics if a result is wrong.
    pub(crate) fn run(self, design: Design, procs: usize) -> Figures {
        match design {
            Design::OneHeap => self.run_over(OneHeap::new(), procs),
            Design::ManyHeaps => self.run_over(ManyHeaps::new(procs), procs),
            Design::Wheel => self.run_over(Wheel::new(), procs),
            Design::PerP => self.run_over(PerP, procs),
        }
    }

    fn run_over<T: Timers>(self, timers: T, procs: usize) -> Figures {
        let timers = Arc::new(timers);
        let runtime = runtime::Builder::new().procs(procs).build().expect("a runtime");
        let figures = runtime.block_on(|| match self {
            Workload::Sleepers { n, time } => sleepers::run(&timers, n, time),
            Workload::Churn { tasks, n } => churn::run(&timers, tasks, n),
            Workload::Reset { tasks, live, n } => reset::run(&timers, tasks, live, n),
            Workload::Ticker { busy, time } => ticker::run(&timers, busy, time),
            Workload::Idle { sleepers, time } => idle::run(&timers, sleepers, time),
        });
        timers.end();
        figures
    }
}

/// Lets tasks begin at the same moment, on different Ps.
struct Start {
    tasks: usize,
    here: AtomicUsize,
}

impl Start {
    fn of(tasks: usize) -> Arc<Start> {
        Arc::new(Start { tasks, here: AtomicUsize::new(0) })
    }

    /// Waits until all tasks have called this method. The wait does not yield, so that all tasks can arrive
    /// only if they run on different Ps.
    fn wait(&self) {
        let start = Instant::now();
        self.here.fetch_add(1, Ordering::AcqRel);
        while self.here.load(Ordering::Acquire) < self.tasks {
            assert!(start.elapsed() < Duration::from_secs(60), "the tasks do not run at the same moment");
            std::hint::spin_loop();
        }
    }
}

/// The time and the resource usage at the begin or end of a task's measured operations.
struct Moment {
    at: Instant,
    usage: Usage,
}

impl Moment {
    fn now() -> Moment {
        Moment { at: Instant::now(), usage: Usage::now() }
    }
}

/// Runs `task` in `tasks` green threads, each with `n` operations. Returns the cost from the begin of the
/// first task to the end of the last task.
fn on_tasks<F>(tasks: usize, n: usize, task: impl Fn(usize) -> F) -> Figures
where
    F: FnOnce() -> (Moment, Moment) + Send + 'static,
{
    let handles: Vec<_> = (0..tasks).map(|i| runtime::spawn(task(i))).collect();
    let (begins, ends): (Vec<_>, Vec<_>) =
        handles.into_iter().map(|handle| handle.join().expect("the task does not panic")).unzip();
    let first = begins.into_iter().min_by_key(|moment| moment.at).expect("there are tasks");
    let last = ends.into_iter().max_by_key(|moment| moment.at).expect("there are tasks");
    let used = last.usage - first.usage;
    Figures(vec![
        // Two tasks on two Ps that do not disturb each other need as long as one task.
        ("ns an operation and task", (last.at - first.at).as_nanos() as f64 / n as f64),
        ("CPU, ns an operation", used.cpu.as_nanos() as f64 / (tasks * n) as f64),
        ("voluntary switches", used.voluntary as f64),
        ("involuntary switches", used.involuntary as f64),
    ])
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;

//! Traces that are written by themselves: when a green thread panics, keeps its P, or a timer is late.
//!
//! A plain OS thread writes the file, because a trigger is pulled on sysmon, on an M's own stack, or in a
//! panicking green thread. The thread takes its snapshot at once, so the rings still have what came before.

use std::io;
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use sched::recorder::{self, Trigger};
use sched::starting;
use sched::sync::{Condvar, Mutex};
use sched::write_message;

use super::files::Part;
use super::{check_format, snapshot};

/// How many files a process writes at most for panics, and how many for hogs and late timers together.
const FILES: usize = 10;
/// The least time between two files of the same budget.
const BETWEEN: Duration = Duration::from_secs(1);
/// How long the end of a `block_on` or of a runtime waits for a file. A file takes some hundredths of a
/// second, and over half a second in a debug build on a busy machine.
const BOUND: Duration = Duration::from_secs(10);

/// What pulls the trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triggers {
    panic: bool,
    hog: bool,
    late: Option<Duration>,
}

/// The values of `RUNTIME_TRACE_ON`.
pub const EXPECTED: &str = "a list of panic, hog and late=10ms (us, ms or s), separated by commas,";

impl Default for Triggers {
    fn default() -> Self {
        Triggers { panic: true, hog: true, late: Some(Duration::from_millis(100)) }
    }
}

impl Triggers {
    /// Reads a list such as `panic,late=10ms`. Returns `None` if it is none.
    pub fn parse(list: &str) -> Option<Triggers> {
        let mut triggers = Triggers { panic: false, hog: false, late: None };
        for item in list.split(',').map(str::trim) {
            match item {
                "panic" => triggers.panic = true,
                "hog" => triggers.hog = true,
                item => triggers.late = Some(parse_time(item.strip_prefix("late=")?)?),
            }
        }
        Some(triggers)
    }
}

fn parse_time(text: &str) -> Option<Duration> {
    let units = [("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let (number, unit) = units.iter().find_map(|(name, ns)| Some((text.strip_suffix(name)?, *ns)))?;
    number.trim_end().parse::<u64>().ok()?.checked_mul(unit).map(Duration::from_nanos)
}

/// What the writer has to do. Its lock is held for a moment only.
static PULLED: Mutex<Pulled> =
    Mutex::new(Pulled { triggers: None, panic: false, other: None, writes: false, given_up: false });
/// Notified at each change of [`PULLED`].
static CHANGED: Condvar = Condvar::new();
/// Whether [`Pulled::is_pending`], for a look without the lock.
static PENDING: AtomicBool = AtomicBool::new(false);

struct Pulled {
    /// What pulls the trigger, once the writer has started.
    triggers: Option<Triggers>,
    /// A panic has pulled it. One trace shows all panics until its snapshot.
    panic: bool,
    /// A hog or a late timer has pulled it.
    other: Option<Trigger>,
    /// The writer is at work.
    writes: bool,
    /// A caller has waited in vain for the trace that the writer is at.
    given_up: bool,
}

impl Pulled {
    fn is_pending(&self) -> bool {
        !self.given_up && (self.panic || self.other.is_some() || self.writes)
    }

    fn take(&mut self) -> Option<Trigger> {
        if std::mem::take(&mut self.panic) { Some(Trigger::Panic) } else { self.other.take() }
    }
}

/// Starts a recording, and writes a trace to `path` whenever one of `triggers` is pulled.
pub fn write_to(path: &Path, triggers: Triggers) -> io::Result<()> {
    check_format(path)?;
    super::start_with(super::EVENTS)?;
    let mut pulled = PULLED.lock();
    if pulled.triggers.is_none() {
        let path = path.to_path_buf();
        starting::start(thread::Builder::new().name("traces".into()), move || write_all(&path))?;
        recorder::set_triggered(pull);
        recorder::set_late_bound(triggers.late.map_or(u64::MAX, |late| late.as_nanos() as u64));
        pulled.triggers = Some(triggers);
    }
    Ok(())
}

/// Notes `trigger` if it is wanted, and wakes the writer. *Runs on: sysmon, an M's own stack, a green thread;
/// so it neither parks nor waits.*
fn pull(trigger: Trigger) {
    let mut pulled = PULLED.lock();
    let Some(triggers) = pulled.triggers else { return };
    match trigger {
        Trigger::Panic => pulled.panic |= triggers.panic,
        Trigger::Hog if triggers.hog => pulled.other = Some(trigger),
        Trigger::Late if triggers.late.is_some() => pulled.other = Some(trigger),
        Trigger::Hog | Trigger::Late => {}
    }
    PENDING.store(pulled.is_pending(), Relaxed);
    CHANGED.notify_all();
}

/// Waits until the traces of earlier triggers are written, for `BOUND` at most. The process may end next.
/// The wait holds no P. A simulation does not wait: the writer is outside of it.
pub fn wait_until_written() {
    if sched::simulation::is_here() {
        return;
    }
    // A caller that has joined the panicking green thread sees what this green thread stored.
    if PENDING.load(Relaxed) && !sched::fork::is_forked() {
        sched::park::blocking(wait_for_writer);
    }
}

/// Its drop does what [`wait_until_written`] does, also while a panic unwinds.
#[derive(Debug)]
pub struct WaitsUntilWritten;

impl Drop for WaitsUntilWritten {
    fn drop(&mut self) {
        wait_until_written();
    }
}

#[cold]
fn wait_for_writer() {
    let deadline = Instant::now() + BOUND;
    let mut pulled = PULLED.lock();
    while pulled.is_pending() {
        if CHANGED.wait_until(&mut pulled, deadline).timed_out() {
            // Only one caller waits for a file system that hangs.
            pulled.given_up = true;
            PENDING.store(false, Relaxed);
            return;
        }
    }
}

/// Returns the next trigger. The writer has written the trace of the one before.
fn next() -> Trigger {
    let mut pulled = PULLED.lock();
    (pulled.writes, pulled.given_up) = (false, false);
    loop {
        if let Some(trigger) = pulled.take() {
            pulled.writes = true;
            return trigger;
        }
        PENDING.store(false, Relaxed);
        CHANGED.notify_all();
        CHANGED.wait(&mut pulled);
    }
}

/// How many files may still be written, and when.
#[derive(Default)]
struct Budget {
    written: usize,
    tried: Option<Instant>,
}

impl Budget {
    /// Returns `true` if a file may be written. A failure counts only as a pause.
    fn is_open(&self) -> bool {
        self.written < FILES && self.tried.is_none_or(|tried| tried.elapsed() >= BETWEEN)
    }
}

fn write_all(path: &Path) {
    let (mut panics, mut others, mut failed) = (Budget::default(), Budget::default(), String::new());
    loop {
        let trigger = sched::at_rest(next);
        let budget = if trigger == Trigger::Panic { &mut panics } else { &mut others };
        if !budget.is_open() {
            continue;
        }
        budget.tried = Some(Instant::now());
        let what = match trigger {
            Trigger::Panic => "a green thread panicked",
            Trigger::Hog => "a green thread kept its P",
            Trigger::Late => "a timer was late",
        };
        let save = || Part::create(path).and_then(|part| part.save(&snapshot()));
        let panicked = |_| Err(io::Error::other("it could not be made: the line above says why"));
        match catch_unwind(save).unwrap_or_else(panicked) {
            Ok(name) => {
                budget.written += 1;
                failed.clear();
                let last = last(trigger, budget);
                write_message(format_args!("runtime: {what}: the trace is in {}{last}", name.display()));
            }
            Err(error) => say_once(&mut failed, format!("{what}, but there is no trace: {error}")),
        }
    }
}

/// Returns the end of the line about a file after which no other is written.
fn last(trigger: Trigger, budget: &Budget) -> String {
    match (budget.written, trigger) {
        (FILES, Trigger::Panic) => format!("; it is the last of {FILES} for panics"),
        (FILES, _) => format!("; it is the last of {FILES} for hogs and late timers"),
        _ => String::new(),
    }
}

/// Says why there is no trace, unless the failure before had the same reason.
fn say_once(failed: &mut String, text: String) {
    if *failed != text {
        write_message(format_args!("runtime: {text}"));
        *failed = text;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_triggers() {
        let all = Triggers { panic: true, hog: true, late: Some(Duration::from_millis(10)) };
        assert_eq!(Triggers::parse("panic, hog,late=10ms"), Some(all));
        assert_eq!(Triggers::parse("panic"), Some(Triggers { panic: true, hog: false, late: None }));
        assert_eq!(Triggers::parse("late=2s").unwrap().late, Some(Duration::from_secs(2)));
        for wrong in ["", "panics", "late", "late=", "late=10", "late=-1ms", "panic;hog"] {
            assert_eq!(Triggers::parse(wrong), None, "{wrong:?}");
        }
    }
    #[test]
    fn the_last_file_of_a_budget_is_told() {
        let mut budget = Budget { written: FILES - 1, tried: None };
        assert!(budget.is_open() && last(Trigger::Panic, &budget).is_empty());
        budget.written = FILES;
        assert!(!budget.is_open());
        assert_eq!(last(Trigger::Panic, &budget), "; it is the last of 10 for panics");
        assert_eq!(last(Trigger::Late, &budget), "; it is the last of 10 for hogs and late timers");
    }

    #[test]
    fn files_of_a_budget_are_a_second_apart() {
        assert!(!Budget { written: 0, tried: Some(Instant::now()) }.is_open());
    }
}

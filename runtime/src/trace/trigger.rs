//! Traces that are written by themselves: when a green thread panics, keeps its P, or a timer is late.
//!
//! A plain OS thread writes the file, because a trigger is pulled on sysmon, on an M's own stack, or in a panicking green thread. The
//! thread takes its snapshot at once, so the rings still have what came before.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sched::recorder::{self, Trigger};

use super::{check_format, snapshot};

/// How many files are written at most.
const FILES: usize = 10;
/// The least time between two files.
const BETWEEN: Duration = Duration::from_secs(1);

/// What pulls the trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Triggers {
    panic: bool,
    hog: bool,
    late: Option<Duration>,
}

/// The values of `RUNTIME_TRACE_ON`.
pub(crate) const EXPECTED: &str = "a list of panic, hog and late=10ms (us, ms or s), separated by commas,";

impl Default for Triggers {
    fn default() -> Self {
        Triggers { panic: true, hog: true, late: Some(Duration::from_millis(100)) }
    }
}

impl Triggers {
    /// Reads a list such as `panic,late=10ms`. Returns `None` if it is none.
    pub(crate) fn parse(list: &str) -> Option<Triggers> {
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

/// The thread that writes, once there is one.
static WRITER: Mutex<Option<Writer>> = Mutex::new(None);

struct Writer {
    pulled: SyncSender<Trigger>,
    triggers: Triggers,
}

/// Starts a recording, and writes a trace to `path` whenever one of `triggers` is pulled.
pub(crate) fn write_to(path: &Path, triggers: Triggers) -> io::Result<()> {
    check_format(path)?;
    super::start_with(super::EVENTS)?;
    let mut writer = WRITER.lock();
    if writer.is_none() {
        // One that is waiting is enough: the snapshot shows what has pulled the trigger again meanwhile.
        let (pulled, pulls) = mpsc::sync_channel(1);
        let path = path.to_path_buf();
        let write = move || sched::at_rest(|| pulls.recv()).map(|trigger| (trigger, path.clone()));
        thread::Builder::new().name("traces".into()).spawn(move || write_all(write))?;
        recorder::set_triggered(pull);
        recorder::set_late_bound(triggers.late.map_or(u64::MAX, |late| late.as_nanos() as u64));
        *writer = Some(Writer { pulled, triggers });
    }
    Ok(())
}

/// Tells the writer. *Runs on: sysmon, an M's own stack, a green thread; so it neither parks nor waits.*
fn pull(trigger: Trigger) {
    // The lock is held for a moment only.
    let Some(writer) = &*WRITER.lock() else { return };
    let wanted = match trigger {
        Trigger::Panic => writer.triggers.panic,
        Trigger::Hog => writer.triggers.hog,
        Trigger::Late => writer.triggers.late.is_some(),
    };
    if wanted {
        match writer.pulled.try_send(trigger) {
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}

fn write_all(mut next: impl FnMut() -> Result<(Trigger, PathBuf), mpsc::RecvError>) {
    let mut last: Option<Instant> = None;
    let mut written = 0;
    while let Ok((trigger, path)) = next() {
        if written == FILES || last.is_some_and(|last| last.elapsed() < BETWEEN) {
            continue;
        }
        (last, written) = (Some(Instant::now()), written + 1);
        let path = numbered(&path, written);
        let what = match trigger {
            Trigger::Panic => "a green thread panicked",
            Trigger::Hog => "a green thread kept its P",
            Trigger::Late => "a timer was late",
        };
        match snapshot().save(&path) {
            Ok(()) => {
                sched::write_message(format_args!("runtime: {what}: the trace is in {}", path.display()))
            }
            Err(error) => {
                sched::write_message(format_args!("runtime: {what}, but there is no trace: {error}"))
            }
        }
    }
}

/// Returns the name of file `n`: `trace.html`, then `trace-2.html`.
fn numbered(path: &Path, n: usize) -> PathBuf {
    if n == 1 {
        return path.to_path_buf();
    }
    let mut name = path.file_stem().unwrap_or_default().to_os_string();
    name.push(format!("-{n}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
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
    fn files_are_numbered_from_the_second_on() {
        let name = |n| numbered(Path::new("/tmp/a.b/trace.html"), n);
        assert_eq!(name(1), Path::new("/tmp/a.b/trace.html"));
        assert_eq!(name(2), Path::new("/tmp/a.b/trace-2.html"));
        assert_eq!(numbered(Path::new("trace"), 3), Path::new("trace-3"));
    }
}

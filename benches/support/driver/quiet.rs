//! The processor time of other programs. A run beside a busy program is unreliable.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// The machine is quiet while other programs take less than this share of one processor.
const MOST: f64 = 0.05;
/// Processor time up to this limit may be rounding, because the system counts in units of 10 ms.
const ROUNDING: Duration = Duration::from_millis(20);
/// The machine counts as quiet if this window of time was quiet.
const WINDOW: Duration = Duration::from_millis(500);

/// A stretch of time in which the driver watches the processor time of others. Others are the hypervisor, and
/// all processes that the driver did not start.
pub struct Stretch {
    start: Instant,
    others: Duration,
}

impl Stretch {
    /// Begins a stretch. Returns `None` if the system has no `/proc`.
    pub fn begin() -> Option<Stretch> {
        Some(Stretch { start: Instant::now(), others: time_of_others()? })
    }

    /// True if others took too much processor time since the beginning.
    pub fn was_disturbed(&self) -> bool {
        let others = time_of_others().unwrap_or_default().saturating_sub(self.others);
        is_disturbed(others, self.start.elapsed())
    }
}

fn is_disturbed(others: Duration, time: Duration) -> bool {
    others > ROUNDING && others > time.mul_f64(MOST)
}

/// Waits until the machine is quiet, or until `patience` has passed. Returns the time waited.
pub fn wait_until_quiet(patience: Duration) -> Duration {
    let start = Instant::now();
    while start.elapsed() < patience {
        let Some(stretch) = Stretch::begin() else { break };
        thread::sleep(WINDOW);
        if !stretch.was_disturbed() {
            break;
        }
    }
    start.elapsed()
}

/// A process, as read from `/proc`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Process {
    id: u32,
    parent: u32,
    /// The processor time of the process, and of the children for which the process has waited.
    time: Duration,
}

/// Returns the processor time of all others so far. Returns `None` if there is no `/proc`.
fn time_of_others() -> Option<Duration> {
    let entries = fs::read_dir("/proc").ok()?;
    // The file is missing for an entry that is not a process, and for a process that has just ended.
    let stats = entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok());
    let processes: Vec<Process> = stats.filter_map(|stat| process(&stat)).collect();
    let stolen = stolen(&fs::read_to_string("/proc/stat").ok()?).unwrap_or_default();
    Some(sum_of_others(&processes, std::process::id()) + stolen)
}

/// Adds up the processor time of all processes except `own`, its descendants and kernel threads. The sum
/// stays the same when a process ends and its parent waits for that process.
fn sum_of_others(processes: &[Process], own: u32) -> Duration {
    const KERNEL_THREADS: u32 = 2;
    let parents: BTreeMap<u32, u32> = processes.iter().map(|process| (process.id, process.parent)).collect();
    let left_out = |id: u32| {
        let mut seen = BTreeSet::new();
        let mut line = std::iter::successors(Some(id), |id| parents.get(id).copied());
        // Processes may end and start during the reading, so the parents may form a circle. A circle ends the
        // search.
        line.by_ref().take_while(|id| seen.insert(*id)).any(|id| id == own || id == KERNEL_THREADS)
    };
    processes.iter().filter(|process| !left_out(process.id)).map(|process| process.time).sum()
}

/// Reads a line of `/proc/../stat`: `number (name) state parent ..`.
fn process(stat: &str) -> Option<Process> {
    let (begin, rest) = stat.rsplit_once(") ")?;
    let id = begin.split_once(" (")?.0.parse().ok()?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let parent = fields.get(1)?.parse().ok()?;
    let times = fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok());
    let ticks = times.sum::<Option<u64>>()?;
    Some(Process { id, parent, time: time(ticks) })
}

/// Reads the stolen time from `/proc/stat`: processor time that the hypervisor gave to other machines.
fn stolen(stat: &str) -> Option<Duration> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    Some(time(all.split_whitespace().nth(7)?.parse().ok()?))
}

/// Converts Linux's unit of processor time, a hundredth of a second.
fn time(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 10)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Process, is_disturbed, process, stolen, sum_of_others};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn lines_of_proc() {
        let line = "71 (a) b (c) S 70 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0";
        assert_eq!(process(line), Some(Process { id: 71, parent: 70, time: 260 * MS }));
        assert_eq!(process("71 (short) S 70 1"), None);
        assert_eq!(stolen("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 1 9 10\n"), Some(80 * MS));
    }

    #[test]
    fn others_are_those_that_this_process_did_not_start() {
        let of = |id, parent, ms| Process { id, parent, time: ms * MS };
        let all = [
            of(1, 0, 1),
            of(2, 0, 2),
            of(3, 2, 4),
            of(10, 1, 8),
            of(11, 10, 16),
            of(12, 11, 32),
            of(20, 1, 64),
            of(30, 31, 128),
            of(31, 30, 256),
        ];
        assert_eq!(sum_of_others(&all, 10), (1 + 64 + 128 + 256) * MS);
    }

    #[test]
    fn a_twentieth_of_a_processor_disturbs() {
        assert!(!is_disturbed(20 * MS, 100 * MS));
        assert!(is_disturbed(30 * MS, 100 * MS));
        assert!(!is_disturbed(50 * MS, 1000 * MS));
        assert!(is_disturbed(60 * MS, 1000 * MS));
    }
}

//! Shared parts of several examples: servers, a command line, percentiles, memory and processor time.

// Each example is a program of its own and uses only some of these parts.
#![allow(dead_code)]

pub(crate) mod server;

use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::ops::RangeInclusive;
use std::process::exit;
use std::time::Duration;

/// The arguments that no option has taken yet. A wrong argument ends the program with a message and exit code
/// 2.
pub(crate) struct Args {
    usage: &'static str,
    left: Vec<OsString>,
}

impl Args {
    /// Reads the command line. `--help` prints the usage and ends the program.
    pub(crate) fn new(usage: &'static str) -> Args {
        let left: Vec<_> = std::env::args_os().skip(1).collect();
        if left.iter().any(|arg| arg == "--help" || arg == "-h") {
            println!("{usage}");
            exit(0);
        }
        Args { usage, left }
    }

    /// Takes the value of `--name value` or `--name=value`. Returns `None` if the option is not given.
    pub(crate) fn option(&mut self, name: &str) -> Option<String> {
        let prefix = format!("{name}=");
        let at = self
            .left
            .iter()
            .position(|arg| arg == name || arg.to_str().is_some_and(|arg| arg.starts_with(&prefix)))?;
        let arg = self.left.remove(at);
        if let Some(value) = arg.to_str().and_then(|arg| arg.strip_prefix(&prefix)) {
            return Some(value.into());
        }
        if at == self.left.len() {
            self.wrong(format_args!("{name} needs a value"));
        }
        let value = self.left.remove(at).into_string();
        Some(value.unwrap_or_else(|value| self.wrong(format_args!("{name} cannot be {}", value.display()))))
    }

    /// Takes `--name N`. Returns N, which must be within `range`, or `default` if the option is not given.
    pub(crate) fn number(&mut self, name: &str, default: u64, range: RangeInclusive<u64>) -> u64 {
        self.option(name).map_or(default, |text| self.parse(name, &text, range))
    }

    /// Takes `--name`. Returns `true` if the flag is given.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let at = self.left.iter().position(|arg| arg == name);
        at.map(|at| self.left.remove(at)).is_some()
    }

    /// Takes the next argument that is not an option. Returns `None` if there is none.
    pub(crate) fn positional(&mut self) -> Option<OsString> {
        let at = self.left.iter().position(|arg| !arg.as_encoded_bytes().starts_with(b"-"))?;
        Some(self.left.remove(at))
    }

    /// Parses a number within `range`. 50,000 may be written 50_000.
    pub(crate) fn parse(&self, what: &str, text: &str, range: RangeInclusive<u64>) -> u64 {
        let number = text.replace('_', "").parse().ok().filter(|number| range.contains(number));
        number.unwrap_or_else(|| {
            let (least, most) = (range.start(), range.end());
            self.wrong(format_args!("{what} is a number from {least} to {most}, not \"{text}\""))
        })
    }

    /// Ends the program with an error if an argument was not taken.
    pub(crate) fn end(&self) {
        if let Some(arg) = self.left.first() {
            self.wrong(format_args!("unknown argument \"{}\"", arg.display()));
        }
    }

    /// Ends the program with an error message and the usage.
    pub(crate) fn wrong(&self, why: impl Display) -> ! {
        eprintln!("error: {why}\n\n{}", self.usage);
        exit(2);
    }
}

/// Mean and percentiles of many durations.
#[derive(Clone, Copy, Default)]
pub(crate) struct Summary {
    pub(crate) mean: Duration,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) max: Duration,
}

impl Summary {
    /// Returns the summary of all samples. Percentiles are by nearest rank.
    pub(crate) fn of(mut samples: Vec<Duration>) -> Summary {
        let Some(last) = samples.len().checked_sub(1) else { return Summary::default() };
        samples.sort_unstable();
        let rank = |percent: usize| samples[(samples.len() * percent).div_ceil(100).saturating_sub(1)];
        let nanos: u128 = samples.iter().map(Duration::as_nanos).sum();
        Summary {
            mean: Duration::from_nanos((nanos / samples.len() as u128) as u64),
            p50: rank(50),
            p99: rank(99),
            max: samples[last],
        }
    }
}

/// Returns a duration in milliseconds, for tables.
pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Formats a number with commas: 1234567 as 1,234,567.
pub(crate) fn commas(n: impl Display) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the resident memory of the process, or `None` if the system does not report it.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Returns a text about the memory that each of `count` things costs, from the memory before and after.
pub(crate) fn bytes_each(before: Option<u64>, after: Option<u64>, count: usize) -> String {
    match (before, after) {
        (Some(before), Some(after)) => {
            let each = after.saturating_sub(before) / count.max(1) as u64;
            format!("{} MB in use, {} bytes each", after / 1_000_000, commas(each))
        }
        _ => "memory: n/a on this system".into(),
    }
}

/// Returns the processor time of all live OS threads, or `None` if the system does not report it.
pub(crate) fn processor_time() -> Option<Duration> {
    let mut nanos = 0;
    for task in fs::read_dir("/proc/self/task").ok()? {
        let stat = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        nanos += stat.split(' ').next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_nanos(nanos))
}

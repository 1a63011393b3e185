//! The settings of the soak, read from the command line.

use std::time::{Duration, SystemTime};

use clap::{ArgAction, Parser};

use crate::mode::{MODES, Mode};
use crate::ops::{OPS, Op};

/// Random operations of the whole API; at the end of a round all counts must balance
#[derive(Debug, Parser)]
#[command(name = "soak", args_override_self = true)]
pub(crate) struct Settings {
    /// How long, in all, in s
    #[arg(long = "secs", value_name = "N", value_parser = seconds, default_value = "60")]
    pub(crate) time: Duration,
    /// Decides which operations are chosen [default: from the clock]
    #[arg(long, value_name = "N", default_value_t = seed_from_clock(), hide_default_value = true)]
    pub(crate) seed: u64,
    /// Numbers of Ps to run on, in turn
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = number, default_values_t = ::tests::PROCS)]
    pub(crate) procs: Vec<usize>,
    /// Kinds of runtime
    #[arg(long = "mode", value_name = "NAME,NAME", value_delimiter = ',', value_parser = mode,
        default_values = MODES.iter().map(|mode| mode.name))]
    pub(crate) modes: Vec<&'static Mode>,
    /// Only these operations [default: all with a weight above 0]
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', value_parser = op)]
    pub(crate) ops: Vec<&'static Op>,
    /// Threads that choose operations; each sixth is a plain OS thread
    #[arg(long, value_name = "N", value_parser = number, default_value_t = 24)]
    pub(crate) workers: usize,
    /// Seconds after which an unfinished operation is reported as hanging
    #[arg(long, value_name = "N", value_parser = seconds, default_value = "20")]
    pub(crate) patience: Duration,
    /// off: no sysmon repairs lost wake-ups, and hogging operations are left out
    #[arg(long, value_name = "on|off", action = ArgAction::Set, value_parser = on_or_off, default_value = "on")]
    pub(crate) sysmon: bool,
    /// Prints the operations and their weights
    #[arg(long)]
    pub(crate) list: bool,
}

impl Settings {
    /// Returns the command line that repeats these choices.
    pub(crate) fn again(&self) -> String {
        let join = |names: Vec<String>| names.join(",");
        let procs = join(self.procs.iter().map(usize::to_string).collect());
        let modes = join(self.modes.iter().map(|mode| mode.name.into()).collect());
        let ops = join(self.ops.iter().map(|op| op.name.into()).collect());
        let ops = if ops.is_empty() { ops } else { format!(" --ops {ops}") };
        let (secs, seed, workers) = (self.time.as_secs(), self.seed, self.workers);
        let sysmon = if self.sysmon { "" } else { " --sysmon off" };
        format!("--secs {secs} --seed {seed} --procs {procs} --mode {modes} --workers {workers}{ops}{sysmon}")
    }
}

fn seed_from_clock() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

fn number(text: &str) -> Result<usize, String> {
    text.trim().parse().ok().filter(|&n| n >= 1).ok_or("a number of at least 1 is expected".into())
}

fn seconds(text: &str) -> Result<Duration, String> {
    number(text).map(|secs| Duration::from_secs(secs as u64))
}

fn mode(text: &str) -> Result<&'static Mode, String> {
    named(text, MODES, |mode| mode.name)
}

fn op(text: &str) -> Result<&'static Op, String> {
    named(text, OPS, |op| op.name)
}

fn on_or_off(text: &str) -> Result<bool, String> {
    named(text, &["on", "off"], |word| word).map(|word| *word == "on")
}

fn named<T>(text: &str, all: &'static [T], name: impl Fn(&T) -> &str) -> Result<&'static T, String> {
    let found = all.iter().find(|one| name(one) == text.trim());
    found.ok_or_else(|| format!("expected one of {}", all.iter().map(name).collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Settings;

    fn parse(line: &str) -> Result<Settings, clap::Error> {
        Settings::try_parse_from(["soak"].into_iter().chain(line.split_whitespace()))
    }

    #[test]
    fn the_printed_command_line_repeats_the_settings() {
        let line = "--secs 7 --seed 3 --procs 1,4 --mode strict --workers 5 --ops scope --sysmon off";
        assert_eq!(parse(line).unwrap().again(), line);
        let usual = parse("--seed 1").unwrap();
        assert_eq!(parse(&usual.again()).unwrap().again(), usual.again());
        assert!(usual.sysmon && !usual.list && usual.ops.is_empty());
        assert_eq!(parse("--secs 1 --secs 2").unwrap().time.as_secs(), 2);
    }

    #[test]
    fn what_is_refused() {
        for line in
            ["nothing", "--what", "--secs", "--secs 0", "--procs 1,x", "--mode x", "--ops x", "--sysmon x"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}

//! The settings of the soak, read from the command line.

use std::time::{Duration, SystemTime};

use crate::mode::{MODES, Mode};
use crate::ops::{OPS, Op};

pub(crate) const USAGE: &str = "\
soak: random operations of the whole API; at the end of a round all counts must balance

  --secs N          how long, in all (60)
  --seed N          decides which operations are chosen (from the clock)
  --procs N,N       numbers of Ps to run on, in turn (1,2,8)
  --mode NAME,NAME  kinds of runtime (all)
  --ops NAME,NAME   only these operations (all with a weight above 0)
  --workers N       threads that choose operations; each sixth is a plain OS thread (24)
  --patience N      seconds after which an unfinished operation is reported as hanging (20)
  --sysmon on|off   off: no sysmon repairs lost wake-ups, and hogging operations are left out (on)
  --list            prints the operations and their weights";

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    pub(crate) procs: Vec<usize>,
    pub(crate) modes: Vec<&'static Mode>,
    /// Empty if all operations are allowed.
    pub(crate) ops: Vec<&'static Op>,
    pub(crate) workers: usize,
    pub(crate) patience: Duration,
    pub(crate) sysmon: bool,
}

impl Settings {
    /// Reads the settings from `args`. Returns `Ok(None)` after it has printed the help or the list of operations.
    pub(crate) fn read(args: impl IntoIterator<Item = String>) -> Result<Option<Settings>, String> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut settings = Settings {
            time: Duration::from_secs(60),
            seed: now.as_micros() as u64,
            procs: tests::PROCS.to_vec(),
            modes: MODES.iter().collect(),
            ops: Vec::new(),
            workers: 24,
            patience: Duration::from_secs(20),
            sysmon: true,
        };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--help" => println!("{USAGE}"),
                "--list" => OPS.iter().for_each(|op| println!("{:5}  {}", op.weight, op.name)),
                _ => {
                    let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
                    settings.set(&arg, &value)?;
                    continue;
                }
            }
            return Ok(None);
        }
        Ok(Some(settings))
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "--secs" => self.time = Duration::from_secs(number(name, value, 1)?),
            "--seed" => self.seed = number(name, value, 0)?,
            "--procs" => self.procs = each(value, |n| number(name, n, 1).map(|n| n as usize))?,
            "--mode" => self.modes = each(value, |n| named(n, MODES, |mode| mode.name))?,
            "--ops" => self.ops = each(value, |n| named(n, OPS, |op| op.name))?,
            "--workers" => self.workers = number(name, value, 1)? as usize,
            "--patience" => self.patience = Duration::from_secs(number(name, value, 1)?),
            "--sysmon" => self.sysmon = *named(value, &["on", "off"], |word| word)? == "on",
            _ => return Err(format!("{name} is not a setting\n{USAGE}")),
        }
        Ok(())
    }

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

fn number(name: &str, text: &str, least: u64) -> Result<u64, String> {
    let number = text.trim().parse().ok().filter(|&n| n >= least);
    number.ok_or_else(|| format!("{name} {text}: expected a number of at least {least}"))
}

fn each<T>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split(',').map(|part| read(part.trim())).collect()
}

fn named<T>(text: &str, all: &'static [T], name: impl Fn(&T) -> &str) -> Result<&'static T, String> {
    let found = all.iter().find(|one| name(one) == text);
    found.ok_or_else(|| {
        format!("{text}: expected one of {}", all.iter().map(name).collect::<Vec<_>>().join(", "))
    })
}

//! The command line, and the workloads that it selects.

use std::time::Duration;

use driver::options::{Common, list, number};

use crate::designs::Design;
use crate::workloads::Workload;

const USAGE: &str = "\
usage: generations [options]

  --rounds N          the number of rounds; the designs run in turn (default 5)
  --n A,B             the number of sleepers (default 1000,100000,500000)
  --ms A              how long the sleepers sleep (default 10)
  --design A,B        these designs only, of: one-heap 64-heaps wheel per-p
  --workload A,B      these workloads only, of: sleepers churn reset ticker idle
  --procs N           the number of Ps (default: the number of processors)
  --secs N            the duration of ticker and idle (default 3)
  --ops N             the number of timers that each task creates and cancels, or resets (default 1000000)
  --quick             small sizes, to test that everything works; the figures mean nothing
  --out PATH          path of the results, without an extension (default benches/results/generations)";

pub(crate) struct Options {
    pub(crate) common: Common,
    pub(crate) designs: Vec<Design>,
    pub(crate) procs: usize,
    sleepers: Vec<usize>,
    sleep: Duration,
    workloads: Option<Vec<String>>,
    time: Duration,
    ops: usize,
}

impl Options {
    pub(crate) fn from_command_line() -> Options {
        driver::options::from_command_line(USAGE, Options::parse)
    }

    fn parse(words: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            common: Common::new(USAGE, 5, "generations"),
            designs: Design::ALL.to_vec(),
            procs: std::thread::available_parallelism().map_or(2, usize::from),
            sleepers: vec![1_000, 100_000, 500_000],
            sleep: Duration::from_millis(10),
            workloads: None,
            time: Duration::from_secs(3),
            ops: 1_000_000,
        };
        options.common.parse(words, |word, value| {
            match word {
                "--n" => options.sleepers = list(&value()?, number)?,
                "--ms" => options.sleep = Duration::from_millis(number(&value()?)? as u64),
                "--design" => options.designs = list(&value()?, design)?,
                "--workload" => options.workloads = Some(list(&value()?, workload)?),
                "--procs" => options.procs = number(&value()?)?,
                "--secs" => options.time = Duration::from_secs(number(&value()?)? as u64),
                "--ops" => options.ops = number(&value()?)?,
                _ => return Err(format!("unknown option {word}")),
            }
            Ok(())
        })?;
        if options.common.quick {
            options.sleepers = vec![1_000, 10_000];
            (options.time, options.ops) = (Duration::from_millis(300), 20_000);
        }
        Ok(options)
    }

    /// Returns the selected workloads, in order.
    pub(crate) fn workloads(&self) -> Vec<Workload> {
        let (procs, time) = (self.procs, self.time);
        let live = if self.common.quick { 1_000 } else { 100_000 };
        let mut all: Vec<Workload> =
            self.sleepers.iter().map(|&n| Workload::Sleepers { n, time: self.sleep }).collect();
        // One task alone, and then as many tasks as can disturb each other.
        let tasks = || [1, procs].into_iter().take(if procs == 1 { 1 } else { 2 });
        all.extend(tasks().map(|tasks| Workload::Churn { tasks, n: self.ops }));
        all.extend(tasks().map(|tasks| Workload::Reset { tasks, live, n: self.ops }));
        all.extend([0, 2 * procs].map(|busy| Workload::Ticker { busy, time }));
        all.push(Workload::Idle { sleepers: 10_000, time });
        let wanted =
            |name: &str| self.workloads.as_ref().is_none_or(|some| some.iter().any(|one| one == name));
        all.retain(|workload| wanted(workload.name()));
        all
    }
}

fn design(text: &str) -> Result<Design, String> {
    let found = Design::ALL.into_iter().find(|design| design.name() == text);
    found.ok_or(format!("there is no design \"{text}\""))
}

fn workload(text: &str) -> Result<String, String> {
    let known = ["sleepers", "churn", "reset", "ticker", "idle"].contains(&text);
    if known { Ok(text.into()) } else { Err(format!("there is no workload \"{text}\"")) }
}

#[cfg(test)]
mod tests {
    use super::Options;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn what_is_chosen() {
        let options = parse("--n 5,7 --workload sleepers,idle --design wheel --procs 3").unwrap();
        let names: Vec<_> = options.workloads().iter().map(|workload| workload.name()).collect();
        assert_eq!(names, ["sleepers", "sleepers", "idle"]);
        assert_eq!(options.designs.len(), 1);
        assert_eq!(parse("--procs 2").unwrap().workloads().len(), 10);
        assert_eq!(parse("--procs 1").unwrap().workloads().len(), 8);
    }

    #[test]
    fn what_is_refused() {
        for line in ["nothing", "--n", "--n 0", "--n 1,x", "--design go", "--workload x"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}

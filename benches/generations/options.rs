//! The command line, and the workloads that it selects.

use std::time::Duration;

use clap::Parser;
use driver::options::{Common, number};

use crate::designs::Design;
use crate::workloads::Workload;

/// Measures four designs of timers under the same workloads
#[derive(Debug, Parser)]
#[command(
    name = "generations",
    mut_arg("rounds", |arg| arg.default_value("5")),
    mut_arg("out", |arg| arg.default_value(concat!(env!("CARGO_MANIFEST_DIR"), "/results/generations")))
)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) common: Common,
    /// These designs only, of: one-heap 64-heaps wheel per-p [default: all]
    #[arg(long = "design", value_name = "A,B", value_delimiter = ',', value_parser = design)]
    designs: Vec<Design>,
    /// These workloads only [default: all]
    #[arg(long = "workload", value_name = "A,B", value_delimiter = ',', value_parser = NAMES)]
    workloads: Vec<String>,
    /// Number of Ps [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = number)]
    procs: Option<usize>,
    /// Number of sleepers
    #[arg(long = "n", value_name = "A,B", value_delimiter = ',', value_parser = number,
        default_values_t = [1_000, 100_000, 500_000])]
    sleepers: Vec<usize>,
    /// How long the sleepers sleep, in ms
    #[arg(long, value_name = "N", value_parser = number, default_value_t = 10)]
    ms: usize,
    /// Duration of ticker and idle, in s
    #[arg(long, value_name = "N", value_parser = number, default_value_t = 3)]
    secs: usize,
    /// Number of timers that each task creates and cancels, or resets
    #[arg(long, value_name = "N", value_parser = number, default_value_t = 1_000_000)]
    ops: usize,
}

const NAMES: [&str; 5] = ["sleepers", "churn", "reset", "ticker", "idle"];

impl Options {
    /// Returns the number of Ps.
    pub(crate) fn procs(&self) -> usize {
        self.procs.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from))
    }

    /// Returns the selected designs, in order.
    pub(crate) fn designs(&self) -> Vec<Design> {
        if self.designs.is_empty() { Design::ALL.to_vec() } else { self.designs.clone() }
    }

    /// Returns the selected workloads, in order.
    pub(crate) fn workloads(&self) -> Vec<Workload> {
        let (procs, quick) = (self.procs(), self.common.quick);
        let sleepers = if quick { &[1_000, 10_000] } else { self.sleepers.as_slice() };
        let time = if quick { Duration::from_millis(300) } else { Duration::from_secs(self.secs as u64) };
        let (live, n) = if quick { (1_000, 20_000) } else { (100_000, self.ops) };
        let sleep = Duration::from_millis(self.ms as u64);
        let mut all: Vec<Workload> =
            sleepers.iter().map(|&n| Workload::Sleepers { n, time: sleep }).collect();
        // One task alone, and then as many tasks as can disturb each other.
        let tasks = || [1, procs].into_iter().take(if procs == 1 { 1 } else { 2 });
        all.extend(tasks().map(|tasks| Workload::Churn { tasks, n }));
        all.extend(tasks().map(|tasks| Workload::Reset { tasks, live, n }));
        all.extend([0, 2 * procs].map(|busy| Workload::Ticker { busy, time }));
        all.push(Workload::Idle { sleepers: 10_000, time });
        let wanted = |name| self.workloads.is_empty() || self.workloads.iter().any(|one| one == name);
        all.retain(|workload| wanted(workload.name()));
        all
    }
}

fn design(text: &str) -> Result<Design, String> {
    Design::ALL.into_iter().find(|design| design.name() == text).ok_or("there is no such design".into())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Options;

    fn parse(line: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(["generations"].into_iter().chain(line.split_whitespace()))
    }

    #[test]
    fn what_is_chosen() {
        let options = parse("--n 5,7 --workload sleepers,idle --design wheel --procs 3").unwrap();
        let names: Vec<_> = options.workloads().iter().map(|workload| workload.name()).collect();
        assert_eq!(names, ["sleepers", "sleepers", "idle"]);
        assert_eq!(options.designs().len(), 1);
        assert_eq!(parse("").unwrap().designs().len(), 4);
        assert_eq!(parse("--procs 2").unwrap().workloads().len(), 10);
        assert_eq!(parse("--procs 1").unwrap().workloads().len(), 8);
        assert_eq!(parse("--procs 2 --quick").unwrap().workloads().len(), 9);
    }

    #[test]
    fn what_is_refused() {
        for line in ["nothing", "--n", "--n 0", "--n 1,x", "--n 5,", "--design go", "--workload x"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}

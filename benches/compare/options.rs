//! The driver's command line, and the cases that it selects.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use driver::options::{Common, number, seconds};

use crate::cases::{CASES, Case};

/// Runs the workloads of the comparison on this runtime and on its peers
#[derive(Debug, Parser)]
#[command(
    name = "compare",
    mut_arg("rounds", |arg| arg.default_value("3")),
    mut_arg("out", |arg| arg.default_value(concat!(env!("CARGO_MANIFEST_DIR"), "/results/latest")))
)]
pub(crate) struct Options {
    /// Workloads or cases (see --list), or the words that begin a case's name [default: all cases]
    #[arg(value_name = "WORKLOAD", value_parser = workload)]
    workloads: Vec<String>,
    #[command(flatten)]
    pub(crate) common: Common,
    /// N Ps, or worker threads, instead of the numbers in each case
    #[arg(long, value_name = "N", value_parser = number)]
    procs: Option<usize>,
    /// Runs these programs only, of: ours go tokio tokio-alt may epoll, and those of --impl
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    only: Vec<String>,
    /// Takes the program NAME from PATH. A new NAME is an added program, with the arguments of ours
    #[arg(long = "impl", value_name = "NAME=PATH", value_parser = name_and_path)]
    pub(crate) brought: Vec<(String, PathBuf)>,
    /// Waits for a quiet machine, for SECS in all [default: 900; with --quick 0]. A run that other programs
    /// disturb is left out and run again. 0: all runs count, and the page says if they were disturbed
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    wait: Option<Duration>,
    /// Runs nothing, and draws the plots of an earlier run again, from the lines in FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Lists the cases
    #[arg(long)]
    pub(crate) list: bool,
}

impl Options {
    /// Returns the chosen cases in order, each with a number of Ps.
    pub(crate) fn cases(&self) -> Vec<(&'static Case, usize)> {
        let chosen = CASES.iter().filter(|case| {
            self.workloads.is_empty() || self.workloads.iter().any(|workload| case.is_called(workload))
        });
        match self.procs {
            Some(procs) => chosen.map(|case| (case, procs)).collect(),
            None => chosen.flat_map(|case| case.procs.iter().map(move |procs| (case, *procs))).collect(),
        }
    }

    /// Returns how long the driver waits for a quiet machine, in all.
    pub(crate) fn wait(&self) -> Duration {
        const USUAL: Duration = Duration::from_secs(900);
        self.wait.unwrap_or(if self.common.quick { Duration::ZERO } else { USUAL })
    }

    /// True if the program is to be run.
    pub(crate) fn wants(&self, program: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == program)
    }
}

fn workload(word: &str) -> Result<String, String> {
    let known = CASES.iter().any(|case| case.is_called(word));
    if known { Ok(word.into()) } else { Err("there is no such workload; --list shows them".into()) }
}

fn name_and_path(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("NAME=PATH is expected")?;
    let path = std::path::absolute(path).map_err(|error| format!("{path}: {error}"))?;
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_. ".contains(c)) {
        return Err(format!("a NAME of letters, digits, - and _ is expected, not \"{name}\""));
    }
    if path.is_file() { Ok((name.into(), path)) } else { Err(format!("{} is not a file", path.display())) }
}

/// Prints the cases.
pub(crate) fn show_cases() {
    for case in CASES {
        println!("{:20} {:16} {}", case.name, case.workload, case.title);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Options;

    fn parse(line: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(["compare"].into_iter().chain(line.split_whitespace()))
    }

    #[test]
    fn what_is_chosen() {
        let options = parse("yield chan --rounds 2 --only ours,go").unwrap();
        let names: Vec<_> = options.cases().iter().map(|(case, procs)| (case.name, *procs)).collect();
        assert_eq!(names, [("yield", 1), ("yield", 2), ("chan-4p4c", 2), ("chan-1p1c", 2)]);
        assert!(options.wants("go") && !options.wants("tokio"));
        assert_eq!(options.common.rounds, 2);
        assert_eq!(parse("yield --procs 7").unwrap().cases().len(), 1);
        let wait = |line| parse(line).unwrap().wait().as_secs();
        assert_eq!((wait(""), wait("--quick"), wait("--quick --wait 7"), wait("--wait 0")), (900, 0, 7, 0));
        let usual = parse("").unwrap();
        assert!(usual.cases().len() > 25 && usual.wants("may") && usual.common.rounds == 3);
        assert!(usual.common.out.ends_with("benches/results/latest"));
        let brought = parse("--impl a=/bin/sh --impl go=/bin/sh").unwrap().brought;
        assert_eq!(brought, [("a".into(), "/bin/sh".into()), ("go".into(), "/bin/sh".into())]);
    }

    #[test]
    fn what_is_refused() {
        for line in ["nothing", "--wait x", "--procs 0", "--what", "--impl x", "--impl x=/no/such/file"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}

//! The driver's command line.

use std::path::PathBuf;
use std::process::exit;
use std::time::Duration;

use driver::options::{Common, list, number};

use crate::cases::{CASES, Case};

const USAGE: &str = "\
usage: compare [WORKLOAD ..] [options]

  WORKLOAD            a workload or a case (see --list), or the words that begin a case's name (default: all cases)
  --rounds N          the number of interleaved rounds (default 3)
  --procs N           N Ps, or worker threads, instead of the numbers in each case
  --only A,B          runs these programs only, of: ours go tokio tokio-alt may, and those of --impl
  --impl NAME=PATH    takes the program NAME from PATH. A new NAME is an added program, with the arguments of ours
  --quick             small sizes, to test that everything works; the figures mean nothing
  --wait SECS         waits for a quiet machine, for SECS in all (default 900; with --quick 0). A run that other programs
                      disturb is left out and run again. 0: all runs count, and the page says if they were disturbed
  --out PATH          path of the results, without an extension (default benches/results/latest)
  --list              lists the cases";

pub(crate) struct Options {
    pub(crate) common: Common,
    workloads: Vec<String>,
    procs: Option<usize>,
    only: Option<Vec<String>>,
    wait: Option<Duration>,
    /// Name and path of each program that the user added (`--impl`).
    pub(crate) brought: Vec<(String, PathBuf)>,
}

impl Options {
    pub(crate) fn from_command_line() -> Options {
        driver::options::from_command_line(USAGE, Options::parse)
    }

    fn parse(words: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            common: Common::new(USAGE, 3, "latest"),
            workloads: Vec::new(),
            procs: None,
            only: None,
            wait: None,
            brought: Vec::new(),
        };
        options.common.parse(words, |word, value| {
            match word {
                "--procs" => options.procs = Some(number(&value()?)?),
                "--only" => options.only = Some(list(&value()?, |name| Ok(name.into()))?),
                "--wait" => options.wait = Some(seconds(&value()?)?),
                "--impl" => options.brought.push(name_and_path(&value()?)?),
                "--list" => show_cases(),
                _ if word.starts_with('-') => return Err(format!("unknown option {word}")),
                _ if !CASES.iter().any(|case| case.is_called(word)) => {
                    return Err(format!("there is no workload \"{word}\"; --list shows them"));
                }
                _ => options.workloads.push(word.into()),
            }
            Ok(())
        })?;
        Ok(options)
    }

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
        self.only.as_ref().is_none_or(|only| only.iter().any(|name| name == program))
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let secs = text.parse().map_err(|_| format!("a number of seconds is expected, not \"{text}\""))?;
    Ok(Duration::from_secs(secs))
}

fn name_and_path(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or(format!("--impl is NAME=PATH, not \"{text}\""))?;
    let path = std::path::absolute(path).map_err(|error| format!("{path}: {error}"))?;
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_. ".contains(c)) {
        return Err(format!("a NAME of letters, digits, - and _ is expected, not \"{name}\""));
    }
    if path.is_file() { Ok((name.into(), path)) } else { Err(format!("{} is not a file", path.display())) }
}

fn show_cases() -> ! {
    for case in CASES {
        println!("{:20} {:16} {}", case.name, case.workload, case.title);
    }
    exit(0);
}

#[cfg(test)]
mod tests {
    use super::Options;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn what_is_chosen() {
        let options = parse("yield chan --rounds 2 --only ours,go").unwrap();
        let names: Vec<_> = options.cases().iter().map(|(case, procs)| (case.name, *procs)).collect();
        assert_eq!(names, [("yield", 1), ("yield", 2), ("chan-4p4c", 2), ("chan-1p1c", 2)]);
        assert!(options.wants("go") && !options.wants("tokio"));
        assert_eq!(parse("yield --procs 7").unwrap().cases().len(), 1);
        let wait = |line| parse(line).unwrap().wait().as_secs();
        assert_eq!((wait(""), wait("--quick"), wait("--quick --wait 7"), wait("--wait 0")), (900, 0, 7, 0));
        assert!(parse("").unwrap().cases().len() > 25);
    }

    #[test]
    fn what_is_refused() {
        for line in ["nothing", "--wait x", "--procs 0", "--what", "--impl x", "--impl x=/no/such/file"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}

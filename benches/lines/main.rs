//! Counts the cache lines that move between OS threads in an operation of the runtime, with any number of Ps.
//! `ci/lines.sh` builds and runs this program. README.md in the folder above reads its table.

mod caches;
mod drive;
#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
#[path = "hooks/lib.rs"]
mod hooks;
mod operations;
mod places;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use caches::Caches;
use clap::Parser;
use operations::OPERATIONS;
use table::{Row, Table};

/// Further runs of an operation that is worse than in the table.
const AGAIN: usize = 4;

/// Counts the cache lines that move in an operation
#[derive(Parser)]
#[command(name = "lines")]
struct Options {
    /// Operations [default: all]
    operations: Vec<String>,
    /// Number of Ps
    #[arg(long, default_value_t = 64)]
    procs: usize,
    /// Operations of each driver that are counted
    #[arg(long, default_value_t = 20)]
    count: usize,
    /// Runs of each operation, of which the greatest counts are taken
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Prints each place that moves lines, with its line in the file
    #[arg(long)]
    places: bool,
    /// Compares the counts with this table. An operation that is worse is counted up to four times more, and
    /// fails if each run has what is worse: another thread's work comes and goes, and a place that writes stays
    #[arg(long, conflicts_with = "write")]
    check: Option<PathBuf>,
    /// Writes the counts to this table
    #[arg(long)]
    write: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let Some(caches) = Caches::find() else {
        eprintln!("lines: built without the model of caches: run ci/lines.sh");
        return ExitCode::from(2);
    };
    let before = options.check.as_ref().map(|path| Table::read(path));
    let mut now = Table::default();
    let chosen = |name: &str| options.operations.is_empty() || options.operations.iter().any(|it| it == name);
    let count = |operation| {
        // An operation that hangs ends the process.
        // SAFETY: the call has no condition.
        unsafe { libc::alarm(120) };
        let counted = drive::run(caches, operation, options.procs, options.count);
        table::row(counted, options.procs, options.places)
    };
    for operation in OPERATIONS.iter().filter(|operation| chosen(operation.name)) {
        let mut row = Row::default();
        (0..options.runs).for_each(|_| row.raise(count(operation)));
        print!("{}", row.text(operation.name));
        for _ in 0..AGAIN {
            if before.as_ref().is_none_or(|before| before.worse(operation.name, &row).is_empty()) {
                break;
            }
            let again = count(operation);
            print!("again:\n{}", again.text(operation.name));
            row.lower(&again);
        }
        now.rows.insert(operation.name.into(), row);
    }
    if let Some(path) = options.write {
        now.write(&path);
    }
    let worse = before.map_or_else(Vec::new, |before| now.worse_than(&before));
    worse.iter().for_each(|line| eprintln!("lines: {line}"));
    if worse.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

//! Programs of std's threads, as anyone writes them, with OS threads and with green threads: the same binary,
//! with `RUNTIME_THREADS=os` and `green`, in turns.
//!
//! ```sh
//! cd tests/crates && cargo run --release -p std-threads              # all workloads, three rounds
//! cargo run --release -p std-threads -- --rounds 5 mpsc echo-1000    # some
//! cargo run --release -p std-threads -- --small                      # in small sizes: whether they work
//! ```
//!
//! Prints a table: the median of the rounds, with the least and the most.

mod memory;
mod workloads;

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

use workloads::{WORKLOADS, Workload};

runtime::interpose!(threads);

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    if args.peek().is_some_and(|arg| arg == "--run") {
        let (name, small) = (args.nth(1).unwrap_or_default(), args.next().is_some());
        let Some(workload) = named(&name) else { return usage() };
        for (what, value) in (workload.run)(if small { workload.small } else { workload.size }) {
            println!("{what} {value}");
        }
        return ExitCode::SUCCESS;
    }
    let (mut rounds, mut small, mut chosen) = (3, false, Vec::new());
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--small" => (rounds, small) = (1, true),
            "--rounds" => match args.next().and_then(|n| n.parse().ok()) {
                Some(n) if n > 0 => rounds = n,
                _ => return usage(),
            },
            name => match named(name) {
                Some(workload) => chosen.push(workload),
                None => return usage(),
            },
        }
    }
    if chosen.is_empty() {
        chosen = WORKLOADS.iter().collect();
    }
    println!("| | OS threads | green threads |");
    println!("| --- | ---: | ---: |");
    let all_ran = chosen.into_iter().map(|workload| compare(workload, rounds, small)).min();
    if all_ran == Some(true) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn named(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.name == name)
}

fn usage() -> ExitCode {
    eprintln!("usage: std-threads [--rounds N] [--small] [WORKLOAD ..]\n\nworkloads:");
    WORKLOADS.iter().for_each(|workload| eprintln!("  {}", workload.name));
    ExitCode::FAILURE
}

/// The values of each figure, by its name and the mode.
type Figures = BTreeMap<(usize, String), [Vec<f64>; 2]>;

/// Runs a workload in both modes and prints a row for each of its figures. Returns `false` if green threads
/// failed; OS threads may, for example at 100,000.
fn compare(workload: &Workload, rounds: u32, small: bool) -> bool {
    let mut figures = Figures::new();
    let mut failed = ["", ""];
    for _ in 0..rounds {
        for (mode, threads) in ["os", "green"].into_iter().enumerate() {
            if !failed[mode].is_empty() {
                continue;
            }
            let before = switches();
            let Some(output) = run(workload, threads, small) else {
                failed[mode] = "fails";
                continue;
            };
            let switches = ("context switches", switches() - before);
            let lines = output.lines().filter_map(|line| line.rsplit_once(' '));
            let printed = lines.filter_map(|(what, value)| Some((what, value.parse().ok()?)));
            for (place, (what, value)) in printed.chain([switches]).enumerate() {
                figures.entry((place, what.to_owned())).or_default()[mode].push(value);
            }
        }
    }
    for ((_, what), values) in &mut figures {
        let [os, green] = [0, 1].map(|mode| shown(&mut values[mode], failed[mode]));
        println!("| {}: {what} | {os} | {green} |", workload.name);
    }
    failed[1].is_empty()
}

fn run(workload: &Workload, threads: &str, small: bool) -> Option<String> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.args(["--run", workload.name]).args(small.then_some("--small")).env("RUNTIME_THREADS", threads);
    let output = command.output().ok()?;
    if !output.status.success() {
        eprintln!("{} with {threads} threads: {}", workload.name, String::from_utf8_lossy(&output.stderr));
    }
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the median, with the least and the most if they differ.
fn shown(values: &mut [f64], failed: &str) -> String {
    if values.is_empty() || !failed.is_empty() {
        return failed.to_owned();
    }
    values.sort_by(f64::total_cmp);
    let digits = if values[values.len() / 2] < 100.0 { 2 } else { 0 };
    let text = |value: f64| format!("{value:.digits$}");
    let [least, median, most] = [values[0], values[values.len() / 2], values[values.len() - 1]].map(text);
    if least == most { median } else { format!("{median} ({least} to {most})") }
}

/// Returns the context switches of all children that have ended.
fn switches() -> f64 {
    // SAFETY: all zeroes is a value of this type, which the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    (usage.ru_nvcsw + usage.ru_nivcsw) as f64
}

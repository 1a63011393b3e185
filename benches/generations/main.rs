//! Generations of timers: measures four designs under the same workloads. The designs are one heap with a
//! timerproc, 64 such heaps, a timing wheel, and a heap in each P. All run on this runtime's scheduler,
//! through its public API.
//!
//! ```sh
//! cargo run --release -p benches --bin generations -- --rounds 5
//! cargo run --release -p benches --bin generations -- --workload ticker --design one-heap,per-p
//! ```
//!
//! The designs are in `designs/`, behind the trait in `designs.rs`. The workloads are in `workloads/`, each
//! written once. All results are checked, and a wrong result ends the process. README.md in this folder
//! explains the figures.

#![deny(unsafe_code)]

mod designs;
mod measure;
mod options;
mod plot;
mod processor;
mod report;
mod workloads;

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use clap::Parser;
use driver::machine::Machine;
use driver::options::stop;
use driver::output;
use driver::spread::number;

use measure::Figures;
use options::Options;
use report::Outcome;

/// The time limit of a run. A run that takes longer has lost a timer.
const LIMIT: Duration = Duration::from_secs(300);

fn main() {
    let options = Options::parse();
    let machine = Machine::at_start();
    end_at_panic();
    let mut outcomes = Vec::new();
    for workload in options.workloads() {
        outcomes.push(Outcome {
            workload,
            runs: options.designs().into_iter().map(|design| (design, Vec::new())).collect(),
        });
    }
    for round in 0..options.common.rounds {
        for outcome in &mut outcomes {
            println!("\n{}: round {} of {}", outcome.workload.title(), round + 1, options.common.rounds);
            let workload = outcome.workload;
            for i in driver::turns(round, outcome.runs.len()) {
                let (design, runs) = &mut outcome.runs[i];
                let name = format!("{}, {}", workload.title(), design.title());
                let figures = within(LIMIT, &name, || workload.run(*design, options.procs()));
                println!("  {:9} {}", design.name(), line(&figures));
                runs.push(figures);
            }
        }
        let page = |plot: &str| report::page(&options, &machine, &outcomes, plot);
        output::write(&options.common.out, page, &plot::plot(&outcomes))
            .unwrap_or_else(|error| stop(format_args!("cannot write the results: {error}")));
    }
    println!("\nwritten: {0}.md, {0}.svg", options.common.out.display());
}

/// Ends the process at the first panic. So no wrong result is reported, and no thread waits for a green
/// thread that has ended.
fn end_at_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::abort();
    }));
}

fn within<T>(limit: Duration, name: &str, run: impl FnOnce() -> T) -> T {
    let (done, over) = mpsc::channel::<()>();
    let late = format!("error: the run did not end within {} s: {name}", limit.as_secs());
    thread::spawn(move || {
        if over.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{late}");
            std::process::abort();
        }
    });
    let value = run();
    drop(done);
    value
}

fn line(figures: &Figures) -> String {
    let figures: Vec<_> =
        figures.0.iter().map(|(name, value)| format!("{name}: {}", number(*value))).collect();
    figures.join("; ")
}

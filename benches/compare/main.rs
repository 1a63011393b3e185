//! Runs the workloads of the comparison on this runtime and on its peers, interleaved, and writes tables and
//! a plot.
//!
//! ```sh
//! cargo run --release -p benches --bin compare -- --rounds 5                 # everything
//! cargo run --release -p benches --bin compare -- yield spawn --only ours,go
//! cargo run --release -p benches --bin compare -- --from benches/results/2026-12-01-two-cores.jsonl   # only the plots
//! ```
//!
//! `cases.rs` has the cases. `programs.rs` finds and builds the programs. `run.rs` does one run; `http.rs`
//! does so with a load generator. `outcome.rs` computes the figures and verdicts. `recorded.rs` reads an
//! earlier run. benches/README.md says how to read the results.

mod calm;
mod cases;
mod front;
mod http;
mod markdown;
mod options;
mod outcome;
mod plot;
mod programs;
mod recorded;
mod run;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Parser;
use driver::machine::Machine;
use driver::options::stop;
use driver::output;

use crate::calm::Calm;
use crate::cases::{Case, Role};
use crate::options::Options;
use crate::outcome::{Outcome, State};
use crate::programs::Programs;
use crate::run::Failure;

fn main() {
    let options = Options::parse();
    if options.list {
        return options::show_cases();
    }
    if let Some(lines) = &options.from {
        return redraw(lines).unwrap_or_else(|why| stop(format_args!("{}: {why}", lines.display())));
    }
    let machine = Machine::at_start();
    let chosen = options.cases();
    let programs = Programs::find(&options, &programs_of(&chosen, &options));
    let calm = Calm::new(options.wait());
    let mut session =
        Session { options, machine, programs, calm, outcomes: Vec::new(), lines: String::new() };
    for (case, procs) in chosen {
        session.run_case(case, procs);
        session.write().unwrap_or_else(|error| stop(format_args!("cannot write the results: {error}")));
    }
    println!("\nwritten: {0}.md, {0}.svg, {0}.front.svg, {0}.jsonl", session.options.common.out.display());
    if session.outcomes.iter().any(Outcome::ours_fails) {
        eprintln!("error: this runtime's program fails in a case: see the tables");
        std::process::exit(1);
    }
}

/// Draws the plots of an earlier run again, beside its lines.
fn redraw(lines: &Path) -> Result<(), String> {
    let text = fs::read_to_string(lines).map_err(|error| error.to_string())?;
    let outcomes = recorded::read(&text)?;
    let plots = [("svg", plot::whole(&outcomes)), ("front.svg", plot::front(&outcomes))];
    for (extension, plot) in plots {
        let path = lines.with_extension(extension);
        fs::write(&path, plot).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("written: {}", path.display());
    }
    Ok(())
}

/// Returns the programs that the chosen cases need, in the order of the table.
fn programs_of(chosen: &[(&'static Case, usize)], options: &Options) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in chosen.iter().flat_map(|(case, _)| case.entrants).map(|entrant| entrant.program) {
        if options.wants(name) && !names.iter().any(|known| known == name) {
            names.push(name.into());
        }
    }
    names
}

/// A run of the driver: its options, and the results so far.
struct Session {
    options: Options,
    machine: Machine,
    programs: Programs,
    calm: Calm,
    outcomes: Vec<Outcome>,
    /// Every result line, as printed.
    lines: String,
}

/// A program that takes part in a case, with its label and arguments.
struct Runner {
    label: String,
    role: Role,
    program: Result<PathBuf, String>,
    args: Vec<String>,
}

impl Session {
    fn run_case(&mut self, case: &'static Case, procs: usize) {
        println!("\n{} ({procs} P): {}", case.name, case.args(self.options.common.quick));
        let runners = self.runners(case, procs);
        let mut states: Vec<State> = runners.iter().map(|runner| State::new(&runner.program)).collect();
        for round in 0..self.options.common.rounds {
            for i in driver::turns(round, runners.len()) {
                if states[i].goes_on() {
                    self.run_one(case, procs, round, &runners[i], &mut states[i]);
                }
            }
        }
        let entrants = runners
            .into_iter()
            .zip(states)
            .map(|(runner, state)| (runner.label, runner.role, state))
            .collect();
        self.outcomes.push(Outcome { case, procs, entrants });
    }

    fn run_one(&mut self, case: &Case, procs: usize, round: usize, runner: &Runner, state: &mut State) {
        let Ok(program) = &runner.program else { return };
        let quick = self.options.common.quick;
        let run = || match case.workload {
            "http" => http::run(program, procs, quick),
            _ => run::run(program, case, &runner.args),
        };
        let Some(result) = self.calm.run(run) else { return };
        match &result {
            Ok(record) => {
                println!("  {}: {}", runner.label, record.line);
                let (case, label) = (case.name, &runner.label);
                self.lines += &format!(
                    "{{\"case\": \"{case}\", \"entrant\": \"{label}\", \"round\": {}, \"result\": {}}}\n",
                    round + 1,
                    record.line
                );
            }
            Err(Failure::NotOffered(why)) => println!("  {}: not offered: {why}", runner.label),
            Err(Failure::Fails(why)) => println!("  {}: FAILS: {why}", runner.label),
        }
        state.add(round, result);
    }

    /// Returns the requested entrants of the case, and the programs that the user added.
    fn runners(&self, case: &Case, procs: usize) -> Vec<Runner> {
        let args = |own: &str| -> Vec<String> {
            let common = case.args(self.options.common.quick);
            let words = [case.workload, common, own].into_iter().flat_map(str::split_whitespace);
            words.map(String::from).chain(["--procs".into(), procs.to_string()]).collect()
        };
        let mut runners: Vec<Runner> = Vec::new();
        for entrant in case.entrants.iter().filter(|entrant| self.options.wants(entrant.program)) {
            runners.push(Runner {
                label: entrant.label.into(),
                role: entrant.role,
                program: self.programs.path(entrant.program),
                args: args(entrant.args(self.options.common.quick)),
            });
        }
        // A program that the user added gets the arguments of this runtime's program.
        let own = case.entrants.iter().find(|entrant| entrant.role == Role::Ours);
        for name in self.programs.brought().filter(|name| self.options.wants(name)) {
            runners.push(Runner {
                label: name.into(),
                role: Role::Shown,
                program: self.programs.path(name),
                args: args(own.map_or("", |own| own.args(self.options.common.quick))),
            });
        }
        runners
    }

    fn write(&self) -> io::Result<()> {
        let out = &self.options.common.out;
        output::write(out, |plot| markdown::page(self, plot), &plot::whole(&self.outcomes))?;
        fs::write(out.with_added_extension("front.svg"), plot::front(&self.outcomes))?;
        fs::write(out.with_added_extension("jsonl"), &self.lines)
    }
}

//! The command line: `bench WORKLOAD [--key value ...]`.
//!
//! No crate reads it. The chosen workload asks for its keys when it starts, and each answer goes into the
//! report. A crate such as clap or lexopt must know before whether a key has a value, and here only the
//! workload knows.

use std::fmt::Display;
use std::process::exit;

use crate::process;
use crate::report::Report;

/// The exit code for a wrong command line.
const WRONG: i32 = 2;

/// The exit code for a workload, or a form of a workload, that this program does not offer.
const NOT_OFFERED: i32 = 3;

/// The workload and its options. Each option that a workload reads is added to the report.
pub struct Args {
    workload: String,
    given: Vec<(String, String)>,
    procs: usize,
    report: Report,
}

impl Args {
    /// Reads the command line of the program `name`, and prepares the process. From now on a panic in any
    /// task ends the process, and the limit of open files is raised.
    pub fn from_command_line(name: &str) -> Args {
        process::end_at_panic();
        process::raise_file_limit();
        let mut words = std::env::args().skip(1).peekable();
        let Some(workload) = words.next().filter(|word| !word.starts_with('-')) else {
            wrong("usage: bench WORKLOAD [--key value ...]");
        };
        let mut given: Vec<(String, String)> = Vec::new();
        while let Some(word) = words.next() {
            let Some(key) = word.strip_prefix("--") else { wrong(format_args!("\"{word}\" is not a --key")) };
            // A key without a value is a switch.
            let value = words.next_if(|next| !next.starts_with("--")).unwrap_or_else(|| "true".into());
            // If a key occurs twice, the last value counts.
            given.retain(|(before, _)| before != key);
            given.push((key.to_string(), value));
        }
        let report = Report::new(name, &workload);
        let mut args = Args { workload, given, procs: 0, report };
        args.procs = args.count("procs", 2);
        args
    }

    /// Returns the workload's name.
    pub fn workload(&self) -> &str {
        &self.workload
    }

    /// Returns `--procs`: the number of OS threads that run tasks.
    pub fn procs(&self) -> usize {
        self.procs
    }

    /// Reads `--key N`.
    pub fn number(&mut self, key: &str, default: u64) -> u64 {
        let number = self.take(key).map_or(default, |text| {
            text.parse().unwrap_or_else(|_| wrong(format_args!("--{key} is a number, not \"{text}\"")))
        });
        self.report.count(key, number);
        number
    }

    /// Reads `--key N`, where N must be at least 1.
    pub fn count(&mut self, key: &str, default: usize) -> usize {
        match self.number(key, default as u64) {
            0 => wrong(format_args!("--{key} is at least 1")),
            n => n as usize,
        }
    }

    /// Reads `--key WORD`, which must be one of `words`. The first of `words` is the default.
    pub fn word(&mut self, key: &str, words: &[&'static str]) -> &'static str {
        let word = match self.take(key) {
            None => words[0],
            Some(text) => words.iter().find(|word| **word == text).copied().unwrap_or_else(|| {
                not_offered(format_args!("--{key} is {} here, not \"{text}\"", words.join(" or ")))
            }),
        };
        self.report.text(key, word);
        word
    }

    /// Reads the switch `--key`.
    pub fn switch(&mut self, key: &str) -> bool {
        let on = match self.take(key).as_deref() {
            None => false,
            Some("true" | "1") => true,
            Some("false" | "0") => false,
            Some(text) => wrong(format_args!("--{key} is a switch, and cannot be \"{text}\"")),
        };
        self.report.flag(key, on);
        on
    }

    /// Returns the report, which has all options that were read. Ends the process if an option was not read.
    pub fn end(self) -> Report {
        if let Some((key, _)) = self.given.first() {
            wrong(format_args!("{} has no --{key}", self.workload));
        }
        self.report
    }

    fn take(&mut self, key: &str) -> Option<String> {
        let at = self.given.iter().position(|(given, _)| given == key)?;
        Some(self.given.remove(at).1)
    }
}

/// Ends the process because the command line is wrong.
pub fn wrong(why: impl Display) -> ! {
    eprintln!("error: {why}");
    exit(WRONG);
}

/// Ends the process because this program does not offer the workload, or not in this form.
pub fn not_offered(why: impl Display) -> ! {
    eprintln!("not offered: {why}");
    exit(NOT_OFFERED);
}

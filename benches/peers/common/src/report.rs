//! The result of a run: one line of JSON.

use std::fmt::{Display, Write as _};
use std::io::Write as _;

/// The fields so far, in the order of their addition.
pub struct Report(String);

impl Report {
    pub(crate) fn new(name: &str, workload: &str) -> Report {
        let mut report = Report(String::new());
        report.text("impl", name);
        report.text("workload", workload);
        report
    }

    /// Adds a figure.
    pub fn number(&mut self, key: &str, value: f64) {
        assert!(value.is_finite(), "{key} is {value}");
        self.field(key, format_args!("{value:.4}"));
    }

    /// Adds a whole number.
    pub fn count(&mut self, key: &str, value: u64) {
        self.field(key, value);
    }

    /// Adds a boolean.
    pub fn flag(&mut self, key: &str, value: bool) {
        self.field(key, value);
    }

    /// Adds a word. The word must not contain characters that JSON escapes.
    pub fn text(&mut self, key: &str, value: &str) {
        self.field(key, format_args!("\"{value}\""));
    }

    fn field(&mut self, key: &str, value: impl Display) {
        let between = if self.0.is_empty() { "" } else { ", " };
        write!(self.0, "{between}\"{key}\": {value}").expect("a String takes all");
    }

    /// Prints the report as one line.
    pub fn print(&self) {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{{{}}}", self.0).and_then(|()| out.flush()).expect("stdout takes the report");
    }
}

//! The text that a report of a deadlock has: a dump, which the crate above writes.

use std::sync::OnceLock;

static REPORT: OnceLock<fn() -> String> = OnceLock::new();

/// Sets the function that writes a dump for the report of a deadlock. The first call counts.
pub fn set_report(report: fn() -> String) {
    let _ = REPORT.set(report);
}

/// Returns a dump as text; empty if no function writes it.
pub(crate) fn report() -> String {
    REPORT.get().map(|report| report()).unwrap_or_default()
}

//! The kinds of runtime that the soak tests, a table with a line for each.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use runtime::{Builder, Migration};

#[derive(Debug)]
pub(crate) struct Mode {
    pub(crate) name: &'static str,
    /// True if a green thread that has started stays on its OS thread.
    pub(crate) keeps_thread: bool,
    set: fn(Builder) -> Builder,
}

pub(crate) const MODES: &[Mode] = &[
    Mode { name: "default", keeps_thread: false, set: |builder| builder },
    Mode { name: "strict", keeps_thread: true, set: |builder| builder.migration(Migration::BeforeStart) },
];

static SYSMON: AtomicBool = AtomicBool::new(true);

/// Sets whether the soaked runtimes have a sysmon.
pub(crate) fn set_sysmon(on: bool) {
    SYSMON.store(on, Relaxed);
}

/// Returns `true` if the soaked runtimes have a sysmon.
pub(crate) fn has_sysmon() -> bool {
    SYSMON.load(Relaxed)
}

/// Returns a builder of a runtime of kind `mode` with `procs` Ps.
pub(crate) fn builder(procs: usize, mode: &Mode) -> Builder {
    (mode.set)(Builder::new().procs(procs).thread_name("soaked")).sysmon(has_sysmon())
}

//! The kinds of runtime that are soaked: one line each.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use runtime::{Builder, Migration};

/// A kind of runtime.
#[derive(Debug)]
pub(crate) struct Mode {
    pub(crate) name: &'static str,
    /// A green thread that has started keeps its OS thread.
    pub(crate) keeps_thread: bool,
    set: fn(Builder) -> Builder,
}

/// All of them.
pub(crate) const MODES: &[Mode] = &[
    Mode { name: "default", keeps_thread: false, set: |builder| builder },
    Mode { name: "strict", keeps_thread: true, set: |builder| builder.migration(Migration::BeforeStart) },
];

static SYSMON: AtomicBool = AtomicBool::new(true);

/// Whether all runtimes that are soaked have a sysmon.
pub(crate) fn set_sysmon(on: bool) {
    SYSMON.store(on, Relaxed);
}

/// True if the runtimes that are soaked have a sysmon.
pub(crate) fn has_sysmon() -> bool {
    SYSMON.load(Relaxed)
}

/// A builder of such a runtime.
pub(crate) fn builder(procs: usize, mode: &Mode) -> Builder {
    (mode.set)(Builder::new().procs(procs).thread_name("soaked")).sysmon(has_sysmon())
}

//! The default runtime: started at its first use, or by `Builder::build_global`. It lives as long as the process.

use std::io;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use sched::Sched;

use super::{Builder, Runtime};

static DEFAULT: OnceLock<Runtime> = OnceLock::new();

/// Starts the default runtime with the settings of `builder`, unless it is there. Returns `true` if this call started it.
///
/// # Errors
/// Returns the errors of [`Builder::build`]. The next call tries again.
pub(super) fn start(builder: Builder) -> io::Result<bool> {
    static STARTS: Mutex<()> = Mutex::new(());
    sched::fork::check()?;
    let _one_at_a_time = STARTS.lock();
    if DEFAULT.get().is_some() {
        return Ok(false);
    }
    let started = builder.build();
    let runtime = started.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot start the default runtime: {error}"))
    })?;
    let _first = DEFAULT.set(runtime);
    Ok(true)
}

/// Returns the scheduler of the default runtime. The first call starts that runtime.
///
/// # Errors
/// Returns the errors of [`Builder::build`]. The next call tries again.
pub(crate) fn default_sched() -> io::Result<&'static Arc<Sched>> {
    if DEFAULT.get().is_none() {
        start(Builder::new())?;
    }
    Ok(&DEFAULT.get().expect("the default runtime was started above").sched)
}

/// Returns the scheduler of the default runtime, or `None` if that runtime has not been started.
pub(crate) fn started_sched() -> Option<&'static Arc<Sched>> {
    Some(&DEFAULT.get()?.sched)
}

/// Returns the scheduler of the default runtime, as [`default_sched`] does. Panics with the reason if it cannot be
/// started.
pub(crate) fn default_sched_or_panic() -> &'static Arc<Sched> {
    default_sched().unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the scheduler of the caller's green thread. On a plain OS thread it is that of the default runtime.
///
/// # Errors
/// Returns the errors of [`default_sched`].
pub(crate) fn current_sched() -> io::Result<Arc<Sched>> {
    Sched::current().map_or_else(|| default_sched().cloned(), Ok)
}

//! Profiles, and answers of the debug page for a caller, are made on OS threads of their own.

use std::io;

/// Calls `take` on an OS thread of its own, as in `blocking`: a green thread's stack may be nearly full.
#[allow(dead_code, reason = "the feature `debug` alone uses it")]
pub(crate) fn call<T: Send>(name: &str, take: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    sched::park::blocking(|| {
        std::thread::scope(|s| {
            let builder = std::thread::Builder::new().name(name.into());
            let thread = sched::starting::own(|| builder.spawn_scoped(s, take))?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

//! Calls under the thread-locals of the OS thread, from a closure that has its own.

#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::m::current::on_m;
use crate::m::{Loan, OwnM};
use crate::tls;

/// Calls `f` with the thread-locals of this OS thread. Where a closure runs that has its own, `f` counts as
/// code of a plain OS thread: where it waits, the OS thread waits. *Runs on: any thread.*
///
/// # Safety
/// `f` puts nothing into thread-locals, and takes nothing out of them, that another thread may not have.
#[inline]
pub unsafe fn with_os_thread_locals<R>(f: impl FnOnce() -> R) -> R {
    if tls::is_own() { call(f) } else { f() }
}

#[inline(never)]
fn call<R>(f: impl FnOnce() -> R) -> R {
    let mut result = None;
    let run = || tls::under_home(|| result = Some(catch_unwind(AssertUnwindSafe(f))));
    let mut run = Some(run);
    // `f` must not park: the G would go on under its own thread-locals.
    on_m(|m: OwnM<'_>| {
        if let Some(g) = m.running().filter(|_| !matches!(m.own().loan.get(), Loan::InRuntime))
            && let Some(run) = run.take()
        {
            m.run_hooks(g, run);
        }
    });
    if let Some(run) = run {
        // In the runtime nothing parks, nor in hooks.
        run();
    }
    match result.expect("`f` was called") {
        Ok(result) => result,
        Err(panic) => resume_unwind(panic),
    }
}

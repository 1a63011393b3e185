//! `sched_yield`, by which std's `yield_now` yields.

use std::ffi::c_int;

use sched::{foreign, simulation};

use super::{create, start};
use crate::finish;
use crate::raw::call;

/// libc's `sched_yield`: other green threads run first, then other OS threads.
///
/// A thread that yields may wait for one that runs on another OS thread, which has no processor because this
/// one has. So the system's call follows also on a green thread.
///
/// # Safety
/// As libc's, which has no requirements.
pub unsafe extern "C" fn sched_yield() -> c_int {
    simulation::note_threads_are_caught();
    if create::is_in_simulation() {
        sched::park::yield_now();
        return 0;
    }
    if start::are_green() && foreign::is_thread_of_its_own() {
        sched::park::yield_now();
    }
    // SAFETY: the call has no arguments.
    finish(unsafe { call!(libc::SYS_sched_yield) }) as c_int
}

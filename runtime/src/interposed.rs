//! What the hooks of the crate `monochrome-interpose` ask of this one.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

use interpose::host::Host;
use interpose::threads::start::{self, Entry, Init, Main};
use sched::Sched;

use crate::bounded::places_of;
use crate::default::{DefaultRuntime, StartAtFirstUse, default_sched};

pub(crate) static HOST: Host =
    Host { start_for_threads: DefaultRuntime::start_for_threads, default_sched, in_line };

/// libc's `__libc_start_main`, with a `main` that may be a green thread.
///
/// # Safety
/// As libc's: the entry of the executable calls it.
pub unsafe extern "C-unwind" fn of_libc(
    main: Main,
    argc: c_int,
    argv: *mut *mut c_char,
    init: Init,
    fini: Init,
    rtld_fini: Init,
    stack_end: *mut c_void,
) -> c_int {
    let entry = Entry { main, arguments: (argc, argv), around: [init, fini, rtld_fini], stack_end };
    // SAFETY: the caller's arguments.
    unsafe { start::of_libc(&HOST, entry) }
}

/// Runs `f`, which blocks its OS thread, when the calling green thread has one of the places of `sched`, its
/// runtime. Returns `false` if the wait for a place was interrupted. For calls of libc, which may keep what
/// belongs to the OS thread.
fn in_line(sched: &Sched, f: &mut dyn FnMut()) -> bool {
    let place = sched::foreign::keep_thread(|| {
        let places = places_of(sched);
        let _waits = places.count_waiting();
        places.free.acquire_unless_interrupted()
    });
    let Some(place) = place else { return false };
    let _place = place.expect("the places are never closed");
    sched::park::blocking(f);
    true
}

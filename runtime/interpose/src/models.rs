//! The root of the crate `runtime/interpose/models`: the locks of C, the records of threads and what is
//! remembered of descriptors alone, for loom models (`ci/models.sh`).
//!
//! The files with protocols are those of the crate `interpose`. What they rest on has a stand-in here, in
//! `models/`: waits for a word (the table of `waits`, which has models of its own, and the kernel), glibc's
//! functions that do not wait, and the clock. The files name it by the names of the crates below, which here
//! are this crate. In every other build this crate is empty.

#![cfg(all(test, loom))]
#![allow(unsafe_code, dead_code, missing_docs, unreachable_pub, unused_imports)]

extern crate self as netpoll;
extern crate self as sched;
extern crate self as timers;
extern crate self as waits;

/// The stand-ins.
mod models {
    pub(crate) mod atomic;
    pub(crate) mod helpers;
    pub(crate) mod lock;
    pub(crate) mod waits;
}

mod futex;
mod sync;

/// What is remembered of descriptors.
#[rustfmt::skip]
mod fd {
    mod remembered;
}

/// The files of `threads/`. rustfmt does not find them by this root, but by `lib.rs`.
#[rustfmt::skip]
mod threads {
    pub mod locks;
    mod join;
    pub(crate) mod record;

    mod signals {
        #[derive(Default)]
        pub(super) struct Signals;
    }

    /// Declares functions that return glibc's functions: here their stand-ins.
    macro_rules! real {
        ($($name:ident: $type:ty;)*) => {$(
            fn $name() -> $type {
                // SAFETY: the stand-in of this name has this type.
                unsafe { std::mem::transmute::<*const (), $type>(crate::glibc(stringify!($name))) }
            }
        )*};
    }
    use real;

    pub(crate) mod masks {
        pub(super) mod common;
        pub(crate) mod kernel {
            pub(crate) use crate::models::waits::{NEVER, base, set_kernel};
        }
    }

    mod yields {
        pub(crate) unsafe fn sched_yield() {
            loom::thread::yield_now();
        }
    }
}

/// Returns the stand-in of glibc's function `name`.
fn glibc(name: &str) -> *const () {
    threads::locks::modelled(name).unwrap_or_else(|| panic!("no model calls {name}"))
}

/// The clock. A wait until `NOW` may find that its time is up; no later time comes.
mod clock {
    pub(crate) const NEVER: u64 = u64::MAX;
    pub(crate) const NOW: u64 = 1;

    pub(crate) fn now() -> u64 {
        NOW
    }

    pub(crate) fn after(time: std::time::Duration) -> u64 {
        NOW.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(NEVER))
    }
}

mod sleep {
    pub(crate) fn now(_clock: libc::clockid_t) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

mod poll {
    pub(crate) fn duration(_time: &libc::timespec) -> Option<std::time::Duration> {
        Some(std::time::Duration::ZERO)
    }

    pub(crate) fn timespec_of(time: std::time::Duration) -> libc::timespec {
        libc::timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ }
    }
}

mod process {
    pub(crate) fn blocking<R>(call: impl FnOnce() -> R) -> R {
        call()
    }

    pub(crate) fn id() -> std::ffi::c_int {
        1
    }
}

mod privileges {
    pub(crate) fn are_raised() -> bool {
        false
    }
}

mod raw {
    pub(crate) use crate::models::waits::{call, fail, syscall6};
}

use models::waits::{GHandle, set_uncancellable};

mod foreign {
    pub(crate) use crate::models::waits::is_thread_of_its_own;

    pub(crate) fn is_user_code() -> bool {
        is_thread_of_its_own()
    }

    pub(crate) fn is_blocking() -> bool {
        false
    }
}

mod park {
    pub(crate) use crate::models::waits::is_interrupted;
}

mod std_word {
    pub(crate) use crate::models::waits::{WordWait, wait, wait_or_cancel, wake};
}

/// Threads of the runtime: models start them themselves.
mod starting {
    pub(crate) fn start(_: std::thread::Builder, _: fn()) -> std::io::Result<()> {
        Ok(())
    }
}

const fn error(errno: std::ffi::c_int) -> isize {
    -(errno as isize)
}

fn finish(result: isize) -> isize {
    result
}

fn cancellation_point() {
    if is_cancelled() {
        threads::record::models::unwind();
    }
}

fn is_cancelled() -> bool {
    threads::record::models::is_cancelled()
}

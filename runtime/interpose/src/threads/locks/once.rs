//! `pthread_once`, and C11's `call_once`: a green thread that waits for the first call parks.
//!
//! glibc's wait sleeps inside, so this function is whole. The values of 0 and of "done" are glibc's. So a
//! variable may be initialised in its way, and code of libc may look at it.
//!
//! ```text
//!   the first thread                              the others
//!   0 -> the process and RUNS                     RUNS of this process: wait while it is that
//!   call the function                             RUNS of another process: as the first one
//!   DONE, or 0 if it unwinds; wake all            DONE: leave
//! ```
//!
//! The function of a thread that has forked runs in the parent only, so the child calls it anew: as glibc
//! does.

use std::ffi::c_int;

use libc::pthread_once_t;
use timers::clock;

use super::super::real;
use super::are_ours;
use crate::sync::atomic::{AtomicU32, Ordering::SeqCst};
use crate::sync::broken;
use crate::{futex, process};

#[cfg(all(test, loom))]
mod models;

type First = unsafe extern "C-unwind" fn();

real! {
    pthread_once: unsafe extern "C-unwind" fn(*mut pthread_once_t, First) -> c_int;
}

/// The values of the variable, beside 0.
const RUNS: u32 = 1;
const DONE: u32 = 2;
/// Above these bits is the number of the process.
const PROCESS: u32 = 2;

/// libc's `pthread_once`. If the function ends its thread or unwinds, the next caller calls its own.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn once(variable: *mut pthread_once_t, first: First) -> c_int {
    // SAFETY: the variable is an integer of C, which changes by atomic operations only.
    let word = unsafe { AtomicU32::from_ptr(variable.cast()) };
    // The calls before are seen, too. SeqCst: the partner is the store of DONE.
    if word.load(SeqCst) & DONE != 0 {
        return 0;
    }
    if !are_ours() {
        // SAFETY: the caller's arguments.
        return unsafe { pthread_once()(variable, first) };
    }
    if begins(word) {
        let mut run = Run { word, ends_as: 0 };
        // SAFETY: the caller's function.
        unsafe { first() };
        run.ends_as = DONE;
    }
    0
}

/// C11's `call_once`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn call_once(flag: *mut pthread_once_t, first: First) {
    // SAFETY: the caller's arguments: `once_flag` is the same type.
    unsafe { once(flag, first) };
}

/// Returns `true` if the caller is to call the function, and `false` if that has been done.
#[cold]
fn begins(word: &AtomicU32) -> bool {
    let runs = (process::id() as u32) << PROCESS | RUNS;
    loop {
        match word.load(SeqCst) {
            seen if seen & DONE != 0 => return false,
            seen if seen == runs => _ = futex::wait_while(word, seen, clock::NEVER),
            seen => {
                if broken!("once_begins_in_two_steps") {
                    word.store(runs, SeqCst);
                    return true;
                }
                if word.compare_exchange(seen, runs, SeqCst, SeqCst).is_ok() {
                    return true;
                }
            }
        }
    }
}

/// The call of the function. At its end the variable gets its next value, also if the function unwinds.
struct Run<'w> {
    word: &'w AtomicU32,
    ends_as: u32,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let address = self.word.as_ptr().expose_provenance();
        if !broken!("once_wakes_before_its_end") {
            self.word.store(self.ends_as, SeqCst);
        }
        // A variable that is done may be gone: only the address is used.
        futex::wake_at(address, if broken!("once_wakes_one") { 1 } else { c_int::MAX });
        if broken!("once_wakes_before_its_end") {
            self.word.store(self.ends_as, SeqCst);
        }
        if broken!("once_looks_at_the_freed") {
            self.word.load(SeqCst);
        }
    }
}

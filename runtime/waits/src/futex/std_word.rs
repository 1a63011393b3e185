//! Waits of std's locks for a word of memory, on green threads: they park in the table of `futex.rs`.
//! `sched::std_wait` says which waits do.

use std::sync::atomic::AtomicU32;

use sched::foreign::{is_thread_of_its_own, keep_errno, park_here};
use sched::park::Waiting;
use sched::simulation::OutsideWait;
use sched::std_wait::StdWaiter;
use sched::{Cancel, Outcome, Why, fork};

use crate::futex::{Changed, Company, TABLE};

/// How a wait for a word ended, or who waits instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordWait {
    /// A waker has ended it.
    Woken,
    /// The time was up.
    TimedOut,
    /// The word did not have the expected value.
    Changed,
    /// The caller asks the kernel.
    System,
}

/// Parks until a waker of `word` comes, or until `until` on the runtime's clock, if the word is `expected`.
/// Neither cancellation nor a `timeout` ends the wait: std would wait again at once. *Runs on: any thread.*
pub fn wait(word: &AtomicU32, expected: u32, until: u64) -> WordWait {
    let wait = |company, until| wait_in_table(word, expected, company, until, Cancel::Waits);
    match StdWaiter::of_caller(word) {
        StdWaiter::Kernel => WordWait::System,
        StdWaiter::Learner => WordWait::TimedOut,
        StdWaiter::Lock => wait(Company::Alone, until),
        StdWaiter::Park(park) => {
            let wake_all = |address| _ = TABLE.wake(address, 1, |_| 0);
            let until_timed_out = |until| wait(Company::All, until) == WordWait::TimedOut;
            let timed_out = park.wait(word, expected, until, wake_all, until_timed_out);
            if timed_out { WordWait::TimedOut } else { WordWait::Woken }
        }
    }
}

/// As [`wait`], for a closure with thread-locals of its own. A cancellation ends the wait as a waker does.
/// Returns `System` where the caller cannot park. *Runs on: any thread.*
pub fn wait_or_cancel(word: &AtomicU32, expected: u32, until: u64) -> WordWait {
    if !is_thread_of_its_own() {
        return WordWait::System;
    }
    wait_in_table(word, expected, Company::Alone, until, Cancel::Ends)
}

fn wait_in_table(word: &AtomicU32, expected: u32, company: Company, until: u64, cancel: Cancel) -> WordWait {
    if OutsideWait::is_over_soon(word, expected) {
        return WordWait::Changed;
    }
    let begin = || Waiting::begin_for(Why::StdLock, cancel);
    let _outside = OutsideWait::begin(word);
    match keep_errno(|| TABLE.wait(word, expected, company, begin, |waiting| park_here(waiting, until))) {
        Ok(Outcome::TimedOut) => WordWait::TimedOut,
        Ok(Outcome::Woken | Outcome::Cancelled) => WordWait::Woken,
        Err(Changed) => WordWait::Changed,
    }
}

/// Wakes up to `most` waiters for the word at `address`: green threads, and waiters in the kernel. `system`
/// wakes in the kernel. It returns how many it has woken, or an error below zero. Returns the number of all.
/// *Runs on: any thread.*
pub fn wake(address: usize, most: usize, system: impl FnOnce(usize) -> isize) -> isize {
    // In a forked child a bucket may be locked by a thread that the child does not have.
    if fork::is_forked() { system(most) } else { keep_errno(|| TABLE.wake(address, most, system)) }
}

/// Calls `f` while the whole table is locked. For tests of what must not use the table: signal handlers, and
/// wake-ups of Ms.
#[doc(hidden)]
pub fn with_table_locked<R>(f: impl FnOnce() -> R) -> R {
    TABLE.locked(f)
}

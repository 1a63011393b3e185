//! Waits of std's locks for a word of memory, on green threads: they park in the table of `wait/futex.rs`.
//!
//! Three kinds of waits look the same, and must be distinguished:
//!
//! | the wait of | is |
//! | --- | --- |
//! | a green thread for a lock of std's | parked |
//! | the runtime: an M that sleeps, a G that has armed its own wait | left to the kernel |
//! | `std::thread::park`, also inside of std's `mpsc` | parked, and its M is claimed |
//!
//! **`std::thread::park` on a green thread.** Its token belongs to the OS thread. So do the names by which
//! channels know their waiters: a sender of std's `mpsc` passes over a receiver with the sender's own thread
//! id. So a G that parks so *claims* its M until it ends (`run/reserved.rs`): no other G comes to that OS
//! thread. `m/std_parker.rs` has the word, and says what happens beside the Gs that were bound to the M
//! before.
//!
//! Rejected:
//!
//! - *A claim for the time of the wait.* The next wait could begin where Gs are bound, and they would have
//!   the waiter's thread id.
//! - *Other Gs are moved off a claimed M.* A caught call promises its caller the same OS thread.
//! - *The waiter moves to an M without bound Gs.* The channel has written down the waiter's thread id and its
//!   token before the first caught call. Nothing before that call is: std's `recv` makes no other one.
//! - *Gs in caught calls share no M with free Gs*, so that no free G claims beside them. Any free G may make
//!   its first caught call, in frames of C already. So each would need an M of its own.

#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::AtomicU32;

use timers::clock;

use crate::api::foreign::{is_thread_of_its_own, is_user_code, keep_errno, park_here};
use crate::api::park::Waiting;
use crate::api::simulation::OutsideWait;
use crate::g::own::OwnG;
use crate::g::wait::{Cancel, Outcome};
use crate::g::why::Why;
use crate::m::OwnM;
use crate::m::current::{current_g, on_m};
use crate::m::std_parker::{LIMIT, word::PARKED};
use crate::sys::fork;
use crate::wait::futex::{Changed, Company, TABLE};

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
    if !is_user_code() {
        // The kernel would wait until a time of the simulated clock, on an M of a simulation.
        let learns = on_m(|m| m.own().std_parker.sees(word)) == Some(true);
        return if learns { WordWait::TimedOut } else { WordWait::System };
    }
    let Some(g) = current_g() else { return WordWait::System };
    if !g.wait.is_decided() {
        // The runtime is about to park this G, and waits for a lock of its own first.
        return WordWait::System;
    }
    if on_m(|m| m.own().std_parker.is(word)) == Some(true) {
        return park_as_std(g, word, expected, until);
    }
    wait_in_table(word, expected, Company::Alone, until, Cancel::Waits)
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

/// Waits as `std::thread::park` does. The file's head explains how.
#[cold]
fn park_as_std(g: OwnG, word: &AtomicU32, expected: u32, until: u64) -> WordWait {
    // SAFETY: the M of this OS thread exists while a G runs on it. This G returns to the M after its wait,
    // because the G claims the M or is pinned.
    let m = unsafe { OwnM::new(&*on_m(|m| ptr::from_ref(m.shared())).expect("a green thread runs on an M")) };
    if !g.is_pinned() || g.binding.is_home() {
        // SAFETY: `g` runs here, on `m`.
        unsafe { g.claim(m) };
    }
    let alone = m.homes.count() == usize::from(g.binding.is_home());
    let limit = if alone { clock::NEVER } else { clock::after(LIMIT) };
    debug_assert_eq!(expected, PARKED, "std's `thread::park` waits for another value");
    m.own().std_parker.begins(|address| _ = TABLE.wake(address, 1, |_| 0));
    let waited = wait_in_table(word, PARKED, Company::All, until.min(limit), Cancel::Waits);
    let timed_out = waited == WordWait::TimedOut && until <= limit;
    m.own().std_parker.ends(word, timed_out);
    if timed_out { WordWait::TimedOut } else { WordWait::Woken }
}

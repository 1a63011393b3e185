//! Waits of std's locks for a word of memory, on green threads: they park in the table of `wait/futex.rs`.
//!
//! Three kinds of waits look the same, and must be told apart:
//!
//! | the wait of | is |
//! | --- | --- |
//! | a green thread for a lock of std's | parked |
//! | the runtime: an M that sleeps, a G whose own wait is armed | left to the kernel |
//! | `std::thread::park`, also inside of std's `mpsc` | that of the OS thread, as below |
//!
//! **`std::thread::park` on a green thread.** Its word belongs to the OS thread, and has room for one sleeper: a second one there would
//! spin for ever. So the green thread blocks its OS thread, as in `blocking`. That would hold up the Gs that are bound to this M, and
//! one of them may be the waker. If there are such Gs, the green thread makes the word free and naps, until the word has the token of
//! an `unpark`. Another G may have taken that token meanwhile. So the naps end after some time with a token that was not given.
//! (`park` may return without a cause.) The M's own sleep is on another word: see `m/note/futex.rs`.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use timers::clock;

use super::{park_here, sleep_until};
use crate::api::park::Waiting;
use crate::g::GRef;
use crate::g::wait::{Cancel, Outcome};
use crate::g::why::Why;
use crate::m::current::{current_g, on_m};
use crate::sys::fork;
use crate::wait::futex::{Changed, TABLE};

/// The values of the word of `std::thread::park`.
const EMPTY: u32 = 0;
const PARKED: u32 = u32::MAX;
const NOTIFIED: u32 = 1;

/// The first nap of a green thread in `std::thread::park`; each nap is twice as long as the last.
const FIRST_NAP: Duration = Duration::from_micros(200);
/// After so many naps, 25 ms in all, the wait ends without a cause.
const NAPS: u32 = 7;

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
    /// The caller asks the kernel, in `blocking`.
    Blocks,
}

/// Parks until a waker of `word` comes, or until `until` on the runtime's clock, if the word is `expected`. Neither cancellation nor
/// a `timeout` ends the wait: std would wait again at once. *Runs on: any thread.*
pub fn wait(word: &AtomicU32, expected: u32, until: u64) -> WordWait {
    let address = ptr::from_ref(word).addr();
    if !super::is_user_code() {
        on_m(|m| m.std_parker.sees(address));
        return WordWait::System;
    }
    let Some(g) = current_g() else { return WordWait::System };
    if !g.wait.is_decided() {
        // The runtime is about to park this G, and waits for a lock of its own first.
        return WordWait::System;
    }
    if on_m(|m| m.std_parker.is(address)) == Some(true) {
        return park_as_std(g, word, until);
    }
    let begin = || Waiting::begin_for(Why::StdLock, Cancel::Waits);
    match TABLE.wait(word, expected, begin, |waiting| park_here(waiting, until)) {
        Ok(Outcome::TimedOut) => WordWait::TimedOut,
        Ok(Outcome::Woken | Outcome::Cancelled) => WordWait::Woken,
        Err(Changed) => WordWait::Changed,
    }
}

/// Wakes up to `most` waiters for the word at `address`: green threads, and by `system` those of the kernel, which returns how many it
/// has woken, or an error below zero. Returns the number of all. *Runs on: any thread.*
pub fn wake(address: usize, most: usize, system: impl FnOnce(usize) -> isize) -> isize {
    // In a forked child a bucket may be locked by a thread that the child does not have.
    if fork::is_forked() { system(most) } else { TABLE.wake(address, most, system) }
}

/// Waits as `std::thread::park` does; the file's head tells how.
#[cold]
fn park_as_std(g: GRef, word: &AtomicU32, until: u64) -> WordWait {
    let others = on_m(|m| m.homes.count()).unwrap_or(0) > usize::from(g.binding.is_home());
    if !others {
        return WordWait::Blocks;
    }
    // Acquire, here and below: sees what the caller of `unpark` did, as std's own exchange does.
    if word.compare_exchange(PARKED, EMPTY, Ordering::Acquire, Ordering::Acquire).is_err() {
        return WordWait::Woken;
    }
    for nap in 0..NAPS {
        if until <= clock::now() {
            return WordWait::TimedOut;
        }
        sleep_until(clock::after(FIRST_NAP * (1 << nap)).min(until));
        if word.load(Ordering::Acquire) == NOTIFIED {
            return WordWait::Woken;
        }
    }
    word.store(NOTIFIED, Ordering::Relaxed);
    WordWait::Woken
}

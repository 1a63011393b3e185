//! Turns of OS threads: one performs an operation while the others are blocked.

use std::sync::{Condvar, Mutex, PoisonError};

struct Turns {
    now: usize,
    count: usize,
}

static TURNS: Mutex<Turns> = Mutex::new(Turns { now: 0, count: 0 });
// One for each participant, so that a turn wakes one thread.
static WAITS: [Condvar; super::sets::MOST] = [const { Condvar::new() }; super::sets::MOST];

pub(crate) fn start(count: usize) {
    *TURNS.lock().unwrap_or_else(PoisonError::into_inner) = Turns { now: 0, count };
}

pub(crate) fn take(number: usize) {
    let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    while turns.now != number {
        turns = WAITS[number].wait(turns).unwrap_or_else(PoisonError::into_inner);
    }
}

pub(crate) fn pass() {
    let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    turns.now = (turns.now + 1) % turns.count;
    WAITS[turns.now].notify_one();
}

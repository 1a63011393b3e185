//! What is remembered of files, of which each may have several descriptors (`../mode.rs`): answers of the
//! system, worthless after the next change.
//!
//! ```text
//!   a thread that asks                              a thread that changes
//!   1  note that the descriptor was waited for      1  the system call
//!   2  read CHANGES                                 2  fence
//!   3  fence                                        3  another descriptor may have the file, or this one was
//!   4  ask, and remember the answer with CHANGES       waited for -> add one to CHANGES
//! ```
//!
//! Either the change sees the note, and counts; or the question comes after the change. A change that comes
//! between the steps 2 and 4 makes the answer worthless, whichever it is.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::sync::{broken, statics};

#[cfg(all(test, loom))]
mod models;

statics! {
    /// How often anything was changed.
    static CHANGES: AtomicU32 = AtomicU32::new(1);
}

/// Returns the answer that a place has, unless something was changed since.
pub(super) fn remembered(place: &AtomicU64) -> Option<u32> {
    // Relaxed, here and below: numbers that lead to nothing. A caller that knows of a change is
    // ordered after it. The fences order the rest.
    let answer = place.load(Ordering::Relaxed);
    ((answer >> 32) as u32 == CHANGES.load(Ordering::Relaxed)).then_some(answer as u32)
}

/// Asks by `ask`, and remembers its answer. `note` notes before that the descriptor was waited for.
pub(super) fn ask<T>(place: &AtomicU64, note: impl Fn(), ask: impl FnOnce() -> (T, Option<u32>)) -> T {
    if !broken!("remembered_asks_before_the_note") {
        note();
    }
    let changes = CHANGES.load(Ordering::Relaxed);
    // SeqCst: the partner is that of `changed`.
    fence(Ordering::SeqCst);
    let (result, answer) = ask();
    let changes =
        if broken!("remembered_reads_changes_late") { CHANGES.load(Ordering::Relaxed) } else { changes };
    // No count of changes is zero before they are four billion, and then that answer is asked for again.
    place.store(answer.map_or(0, |answer| u64::from(changes) << 32 | u64::from(answer)), Ordering::Relaxed);
    if broken!("remembered_asks_before_the_note") {
        note();
    }
    result
}

/// Notes a change that the system has made. `alone`: no other descriptor has the file, and this one was not
/// waited for.
pub(super) fn changed(alone: impl FnOnce() -> bool) {
    // SeqCst: the partner is that of `ask`.
    fence(Ordering::SeqCst);
    if !alone() {
        CHANGES.fetch_add(u32::from(!broken!("remembered_change_is_not_counted")), Ordering::Relaxed);
    }
}

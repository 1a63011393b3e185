//! What is remembered of files, of which each may have several descriptors (`mode.rs`): answers of the
//! system, worthless after the next change.
//!
//! ```text
//!   a thread that asks                              a thread that changes
//!   1  note that the descriptor was waited for      1  the system call
//!   2  put a ticket of its own into the place       2  fence
//!   3  read CHANGES                                 3  another descriptor may have the file, or this one was
//!   4  fence                                           waited for -> add one to CHANGES
//!   5  ask
//!   6  the ticket is still there -> replace it by   a thread that waits first for a new file of the number
//!      the answer with CHANGES                      1  clear the places
//! ```
//!
//! Either the change sees the note, and counts; or the question comes after the change. A change that comes
//! between the steps 3 and 6 makes the answer worthless, whichever it is. An answer of the file that had the
//! number before finds its ticket gone: the places are cleared after that file's end.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::sync::{broken, statics};

#[cfg(all(test, loom))]
mod models;

statics! {
    /// How often anything was changed.
    static CHANGES: AtomicU32 = AtomicU32::new(1);
    /// How many tickets there have been.
    static TICKETS: AtomicU32 = AtomicU32::new(0);
}

/// Returns the answer that a place has, unless something was changed since.
pub(crate) fn remembered(place: &AtomicU64) -> Option<u32> {
    // Relaxed, here and below: numbers that lead to nothing. A caller that knows of a change is
    // ordered after it. The fences order the rest.
    let answer = place.load(Ordering::Relaxed);
    let changes = (answer >> 32) as u32;
    (changes == CHANGES.load(Ordering::Relaxed) && changes != TICKET).then_some(answer as u32)
}

/// What a ticket has in the place of a count of changes. No answer is remembered with that count.
const TICKET: u32 = 0;

/// In each ticket: a place with zero has been cleared.
const NOT_ZERO: u32 = 1 << 31;

/// Forgets the answers about an earlier file, also those on their way.
pub(crate) fn forget(places: &[AtomicU64]) {
    // AcqRel, with those of `ask`: a ticket that comes later is that of a question about the new file.
    for place in places {
        place.swap(0, Ordering::AcqRel);
    }
}

/// Asks by `ask`, and remembers its answer. `note` notes before that the descriptor was waited for.
pub(crate) fn ask<T>(place: &AtomicU64, note: impl FnOnce(), ask: impl FnOnce() -> (T, Option<u32>)) -> T {
    note();
    let ticket = u64::from(TICKETS.fetch_add(1, Ordering::Relaxed) | NOT_ZERO);
    // AcqRel, here and below: the partner is `forget`.
    place.swap(ticket, Ordering::AcqRel);
    let changes = CHANGES.load(Ordering::Relaxed);
    // SeqCst: the partner is that of `changed`.
    fence(Ordering::SeqCst);
    let (result, answer) = ask();
    let changes =
        if broken!("remembered_reads_changes_late") { CHANGES.load(Ordering::Relaxed) } else { changes };
    let answer = answer.map_or(0, |answer| u64::from(changes) << 32 | u64::from(answer));
    if broken!("remembered_answer_needs_no_ticket") {
        place.store(answer, Ordering::Relaxed);
    }
    let _ = place.compare_exchange(ticket, answer, Ordering::AcqRel, Ordering::Relaxed);
    result
}

/// Notes a change that the system has made. `alone`: no other descriptor has the file, and this one was not
/// waited for.
pub(crate) fn changed(alone: impl FnOnce() -> bool) {
    // SeqCst: the partner is that of `ask`.
    fence(Ordering::SeqCst);
    if !alone() {
        CHANGES.fetch_add(u32::from(!broken!("remembered_change_is_not_counted")), Ordering::Relaxed);
    }
}

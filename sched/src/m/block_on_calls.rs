//! The plain threads in `block_on` of one runtime, and the green threads that they wait for. The search for a
//! deadlock (`end/deadlock.rs`) runs while there are such threads, and leaves its report here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::g::{GRef, Identity};
use crate::sync::Mutex;

/// The record of one runtime's threads in `block_on`, and of the looks for a deadlock.
#[derive(Default)]
pub(crate) struct BlockOnCalls {
    /// The number of plain threads in `block_on` or about to be.
    in_block_on: AtomicUsize,
    calls: Mutex<Vec<Call>>,
    /// How many looks there were since a G last ran, and the ticks at that time.
    looks: Mutex<(usize, u64)>,
}

/// A green thread that a plain thread waits for in `block_on`.
struct Call {
    g: GRef,
    id: u64,
    report: Option<Arc<str>>,
}

/// Evidence that the calling plain thread is in `block_on`.
pub struct InBlockOn<'s> {
    all: &'s BlockOnCalls,
    /// The id of the green thread that the caller waits for.
    id: Option<u64>,
}

impl std::fmt::Debug for InBlockOn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InBlockOn").field("id", &self.id).finish_non_exhaustive()
    }
}

impl InBlockOn<'_> {
    /// Records that the caller is about to wait for the end of `main`.
    pub fn waits_for(&mut self, main: Identity) {
        let Identity { g, id } = main;
        self.id = Some(id);
        self.all.calls.lock().push(Call { g, id, report: None });
    }

    /// Ends the record. Returns the dump if the green thread was cancelled because of a deadlock.
    pub fn over(mut self) -> Option<Arc<str>> {
        self.forget()
    }

    fn forget(&mut self) -> Option<Arc<str>> {
        let id = self.id.take()?;
        let mut calls = self.all.calls.lock();
        let at = calls.iter().position(|main| main.id == id)?;
        calls.swap_remove(at).report
    }
}

impl Drop for InBlockOn<'_> {
    fn drop(&mut self) {
        self.forget();
        self.all.in_block_on.fetch_sub(1, Ordering::Relaxed);
    }
}

impl BlockOnCalls {
    /// Records that the calling plain thread is in `block_on`, or about to be.
    pub(crate) fn enter(&self) -> InBlockOn<'_> {
        // Relaxed: the green thread is made after this, so the M that runs it sees the count.
        self.in_block_on.fetch_add(1, Ordering::Relaxed);
        InBlockOn { all: self, id: None }
    }

    /// Returns `true` if a plain thread is in `block_on`, or about to be.
    pub(crate) fn is_any(&self) -> bool {
        self.in_block_on.load(Ordering::Relaxed) > 0
    }

    /// Returns `true` if each thread in `block_on` has recorded the green thread that it waits for.
    pub(crate) fn are_recorded(&self) -> bool {
        // Relaxed: the caller asks again. A thread that the count has but the list has not is about to record
        // its green thread.
        self.calls.lock().len() >= self.in_block_on.load(Ordering::Relaxed)
    }

    /// Returns how many looks there were since the sum of ticks became `ticks`.
    pub(crate) fn looks_since(&self, ticks: u64) -> usize {
        let mut looks = self.looks.lock();
        if looks.1 != ticks {
            *looks = (0, ticks);
        }
        looks.0
    }

    /// Counts a look.
    pub(crate) fn count_look(&self) {
        self.looks.lock().0 += 1;
    }

    /// Returns a report that was given to a thread in `block_on` and not taken yet.
    pub(crate) fn earlier_report(&self) -> Option<Arc<str>> {
        self.calls.lock().iter().find_map(|main| main.report.clone())
    }

    /// Leaves `report` for all threads in `block_on`. Returns the green threads that they wait for, with
    /// their ids.
    pub(crate) fn tell(&self, report: &Arc<str>) -> Vec<(GRef, u64)> {
        let tell = |main: &mut Call| {
            main.report = Some(report.clone());
            (main.g, main.id)
        };
        self.calls.lock().iter_mut().map(tell).collect()
    }
}

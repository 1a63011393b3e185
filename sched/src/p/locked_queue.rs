//! A run queue behind a lock: the global queue, and the queue of each M for the Gs that are bound to it.
//!
//! Threads without a P put Gs into the global queue; so does a P that has too many.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::g::GRef;
use crate::g::list::GList;
use crate::sync::Mutex;

/// A first-in, first-out queue of Gs under a lock.
pub(crate) struct LockedQueue {
    list: Mutex<GList>,
    /// The length, for threads that look without the lock.
    len: AtomicUsize,
}

impl LockedQueue {
    pub(crate) fn new() -> Self {
        LockedQueue { list: Mutex::new(GList::new()), len: AtomicUsize::new(0) }
    }

    /// Puts a G at the end. *Runs on: any thread, in `Sched::make_work` or before `Rest::look`.*
    pub(crate) fn push(&self, g: GRef) {
        let mut list = self.list.lock();
        list.push(g);
        self.len.store(list.len(), Ordering::Relaxed);
    }

    /// Puts all of `gs` at the end. *Runs on: any thread, in `Sched::make_work` or before `Rest::look`.*
    pub(crate) fn append(&self, gs: GList) {
        let mut list = self.list.lock();
        list.append(gs);
        self.len.store(list.len(), Ordering::Relaxed);
    }

    /// Takes the first G.
    pub(crate) fn pop(&self) -> Option<GRef> {
        if self.is_empty() {
            return None;
        }
        let mut list = self.list.lock();
        let g = list.pop();
        self.len.store(list.len(), Ordering::Relaxed);
        g
    }

    /// Returns `true` if `wanted` returns `true` for a G. The call looks at all Gs: it is for short queues.
    pub(crate) fn any(&self, wanted: impl Fn(GRef) -> bool) -> bool {
        !self.is_empty() && self.list.lock().iter().any(wanted)
    }

    /// Takes the first G for which `wanted` returns `true`; the others stay in order. The call looks at the
    /// Gs before that one, too. So it is for short queues, and for the rare case that no thread can be had.
    pub(crate) fn remove_first(&self, wanted: impl Fn(GRef) -> bool) -> Option<GRef> {
        if self.is_empty() {
            return None;
        }
        let mut list = self.list.lock();
        let found = list.remove_first(wanted);
        self.len.store(list.len(), Ordering::Relaxed);
        found
    }

    /// Returns one G to run, and passes a fair share of the rest to `keep` (Go: `globrunqget`).
    pub(crate) fn pop_batch(&self, ps: usize, keep: impl Fn(GRef)) -> Option<GRef> {
        if self.is_empty() {
            return None;
        }
        let mut list = self.list.lock();
        let share = (list.len() / ps.max(1)).min(64);
        let g = list.pop();
        for _ in 0..share {
            let Some(g) = list.pop() else { break };
            keep(g);
        }
        self.len.store(list.len(), Ordering::Relaxed);
        g
    }

    /// Returns `true` if the queue is empty. Relaxed: a caller that must not miss a G has fenced before
    /// (`Idle::look_again`, `Rest::begin`).
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
}

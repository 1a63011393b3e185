//! A run queue behind a lock: the global one, for those without a P and for what a P has too much of; and
//! that of each M, for the Gs that are bound to it.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::g::GRef;
use crate::g::list::GList;

/// First in, first out, under a lock.
pub(crate) struct LockedQueue {
    list: Mutex<GList>,
    /// Its length, for those who only look.
    len: AtomicUsize,
}

impl LockedQueue {
    pub(crate) fn new() -> Self {
        LockedQueue { list: Mutex::new(GList::new()), len: AtomicUsize::new(0) }
    }

    /// Puts a G at the end. *Runs on: any thread, within `Sched::make_work`, or before `Rest::look`.*
    pub(crate) fn push(&self, g: GRef) {
        let mut list = self.list.lock();
        list.push(g);
        self.len.store(list.len(), Ordering::Relaxed);
    }

    /// Likewise, all at once.
    pub(crate) fn append(&self, gs: GList) {
        let mut list = self.list.lock();
        list.append(gs);
        self.len.store(list.len(), Ordering::Relaxed);
    }

    /// One G.
    pub(crate) fn pop(&self) -> Option<GRef> {
        if self.is_empty() {
            return None;
        }
        let mut list = self.list.lock();
        let g = list.pop();
        self.len.store(list.len(), Ordering::Relaxed);
        g
    }

    /// The first G for which `wanted` holds; the others stay. It looks at all of them: for where no thread is to be had.
    pub(crate) fn remove_first(&self, wanted: impl Fn(GRef) -> bool) -> Option<GRef> {
        if self.is_empty() {
            return None;
        }
        let mut list = self.list.lock();
        let (mut found, mut rest) = (None, GList::new());
        while let Some(g) = list.pop() {
            if found.is_none() && wanted(g) { found = Some(g) } else { rest.push(g) }
        }
        *list = rest;
        self.len.store(list.len(), Ordering::Relaxed);
        found
    }

    /// One G to run, and a fair share of the rest through `keep` (Go: `globrunqget`).
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

    /// Relaxed: whoever must not miss anything has fenced before (`Idle::look_again`, `Rest::begin`).
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
}

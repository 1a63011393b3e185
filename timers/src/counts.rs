//! What every thread may know of one P's heap, and change of its counts, without the heap's lock.
//!
//! Two times and three counts. The times answer "when must somebody look here?", and must never answer too late:
//!
//! ```text
//! modify (any thread, timer in Modifying)      adjust (the lock's holder)
//!   1. earlier += 1                              1. lower timer0_when to modified_earliest
//!   2. lower modified_earliest                   2. modified_earliest := NEVER
//!   3. -> ModifiedEarlier                        3. earlier == 0 ? done : walk, until earlier == 0
//!                                                4. timer0_when := the head's time
//!
//! earliest (any thread)
//!   1. read modified_earliest    2. read timer0_when
//! ```
//!
//! A modify whose step 2 comes before adjust's step 2 has its count seen in step 3 and its timer found by the walk (in
//! Modifying or beyond); one whose step 2 comes after it leaves its time behind for the next adjust. A reader who finds
//! NEVER where adjust's step 2 put it finds the lowered `timer0_when` as well. Go forgot timers when these steps stood
//! in another order (its issues 47329 and 47762), and burnt a CPU on a time that nobody cleared (51654): here whoever
//! sees the heap empty clears both.

use crate::clock::NEVER;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, broken};

pub(crate) struct Counts {
    /// The head's time, or NEVER. Written by the lock's holder only.
    timer0_when: AtomicU64,
    /// No timer in ModifiedEarlier is earlier than this. May be too early, and is then cleared when it is reached.
    modified_earliest: AtomicU64,
    /// Entries in the heap. Written by the lock's holder only.
    timers: AtomicUsize,
    /// Timers in Deleted, give or take those in a brief state.
    deleted: AtomicU32,
    /// Timers in ModifiedEarlier, give or take those in a brief state.
    earlier: AtomicU32,
}

impl Counts {
    pub(crate) fn new() -> Self {
        Self {
            timer0_when: AtomicU64::new(NEVER),
            modified_earliest: AtomicU64::new(NEVER),
            timers: AtomicUsize::new(0),
            deleted: AtomicU32::new(0),
            earlier: AtomicU32::new(0),
        }
    }

    /// When somebody must look at this heap; NEVER if it is empty. Runs on: any thread.
    #[inline]
    pub(crate) fn earliest(&self) -> u64 {
        // Acquire, with the Release of `take_over_earliest`: see the top of this file. What is newer than both times,
        // a timer that is just being added, is the affair of the fence in its adder.
        let modified_earliest = self.modified_earliest.load(Ordering::Acquire);
        modified_earliest.min(self.timer0_when.load(Ordering::Relaxed))
    }

    /// Timers that can still fire, as far as one can know without the lock. Runs on: any thread.
    pub(crate) fn live(&self) -> usize {
        self.timers.load(Ordering::Relaxed).saturating_sub(self.deleted())
    }

    /// Whether more than a quarter of the heap is deleted. Runs on: any thread.
    #[inline]
    pub(crate) fn mostly_deleted(&self) -> bool {
        self.deleted() > self.timers.load(Ordering::Relaxed) / 4
    }

    /// Whether more than a quarter of the heap is deleted, and more than `few` timers. Runs on: any thread.
    pub(crate) fn many_deleted(&self, few: usize) -> bool {
        self.deleted() > few && self.mostly_deleted()
    }

    pub(crate) fn deleted(&self) -> usize {
        self.deleted.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn earlier(&self) -> usize {
        self.earlier.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn timer0_when(&self) -> u64 {
        self.timer0_when.load(Ordering::Relaxed)
    }

    pub(crate) fn timers(&self) -> usize {
        self.timers.load(Ordering::Relaxed)
    }

    // The counts change in a timer's brief state, by whoever is in it, before it is left: so the status word hands them
    // on, and no one ever takes away what another has not yet added. Relaxed is enough for them.

    /// A timer of this heap is about to become Deleted.
    pub(crate) fn count_deleted(&self) {
        self.deleted.fetch_add(1, Ordering::Relaxed);
    }

    /// A Deleted timer of this heap has been claimed.
    pub(crate) fn uncount_deleted(&self) {
        let before = self.deleted.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "timers: more timers undeleted than deleted in one heap");
    }

    /// A timer of this heap is about to become ModifiedEarlier, for `when`.
    pub(crate) fn count_earlier(&self, when: u64) {
        self.earlier.fetch_add(1, Ordering::Relaxed);
        self.lower_modified_earliest(when);
    }

    /// A timer of this heap stays ModifiedEarlier, now for `when`.
    pub(crate) fn lower_modified_earliest(&self, when: u64) {
        // Release, with the Acquire of `take_over_earliest`: whoever takes this time over sees the count and the
        // timer's Modifying. Written even where it lowers nothing, because being read is what it is for.
        self.modified_earliest.fetch_min(when, Ordering::Release);
    }

    /// A ModifiedEarlier timer of this heap has been claimed, and will be something else.
    pub(crate) fn uncount_earlier(&self) {
        let before = self.earlier.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "timers: more timers put right than modified to an earlier time in one heap");
    }

    /// If a modified timer may be due: makes its time the lock holder's affair, and tells whether there is any such
    /// timer to look for. Runs on: the lock's holder.
    pub(crate) fn take_over_earliest(&self, now: u64) -> bool {
        let mut earliest = self.modified_earliest.load(Ordering::Relaxed);
        loop {
            if earliest > now {
                return false;
            }
            if !broken!("timers_adjust_no_lowering") && earliest < self.timer0_when() {
                self.timer0_when.store(earliest, Ordering::Relaxed);
            }
            // Acquire, with the Release of `lower_modified_earliest`: all that was modified before this is found by the
            // count and the walk that follow. Release, with the Acquire of `earliest`: who finds NEVER finds
            // `timer0_when` lowered. An exchange, for if the time is lower by now, that is what must be handed on.
            match self.modified_earliest.compare_exchange(
                earliest,
                NEVER,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return self.earlier() > 0,
                Err(lower) => earliest = lower,
            }
        }
    }

    /// Forgets what was modified earlier, after the walk. Right nowhere: for a model, which must see this fail.
    pub(crate) fn forget_earliest(&self) {
        self.modified_earliest.store(NEVER, Ordering::Release);
    }

    /// Tells all threads what the heap looks like. Runs on: the lock's holder, before it gives the lock back.
    pub(crate) fn publish(&self, head: Option<u64>, timers: usize) {
        self.timers.store(timers, Ordering::Relaxed);
        self.timer0_when.store(head.unwrap_or(NEVER), Ordering::Relaxed);
        if timers == 0 {
            // No timer is here, so none is being modified here: no one else writes this, and nothing is forgotten.
            self.modified_earliest.store(NEVER, Ordering::Relaxed);
        }
    }
}

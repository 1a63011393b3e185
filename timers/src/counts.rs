//! The counts and times of one P's heap: any thread may read them, and some changes need no lock.
//!
//! There are two times and some counts. The heap must be checked by the earlier of the two times. That time
//! must never be too late:
//!
//! ```text
//! modify (without the lock, in Modifying)      adjust (the lock's holder)
//!   1. earlier += 1                              begins a walk, if modified_earliest <= now:
//!   2. lower modified_earliest                   1. lower timer0_when to modified_earliest
//!   3. -> ModifiedEarlier                        2. modified_earliest := NEVER; its value was the walk's time
//!                                                3. earlier == 0: there is no walk
//! earliest (any thread)                          in this lock hold and later ones:
//!   1. read modified_earliest                    4. examine a portion; all examined or earlier == 0: the walk ends
//!   2. read timer0_when                          at each unlock:
//!                                                5. timer0_when := min(head's time, walk's time if a walk is under way)
//! ```
//!
//! A modify that has the lock changes only `timer0_when`, at its unlock.
//!
//! - A modify with its step 2 before adjust's step 2: adjust's step 3 sees the count. The walk finds the
//!   timer, in Modifying or in a later state.
//! - A modify with its step 2 after adjust's step 2: the time stays in `modified_earliest` for the next walk.
//! - A reader that finds the NEVER of adjust's step 2 also finds the lowered `timer0_when`. Until the walk
//!   ends, step 5 keeps that time at or below the walk's time. No timer that the walk has yet to find is due
//!   before the walk's time.
//!
//! `timers/locked.rs` has the walk and its portions.
//!
//! Go had these steps in another order and lost timers (its issues 47329 and 47762). It also kept a stale
//! time and burnt a CPU on it (51654). Here an unlock with an empty heap clears both times.

use crate::clock::NEVER;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, broken};

pub(crate) struct Counts {
    /// The head's time, or the time of adjust's walk if that is earlier; NEVER if there is neither. Only the
    /// lock's holder writes this field.
    timer0_when: AtomicU64,
    /// Every timer in ModifiedEarlier that no walk looks for fires at this time or later. The time may be too
    /// early: the walk that begins when this time is reached clears it.
    modified_earliest: AtomicU64,
    /// The number of entries in the heap. Only the lock's holder writes this field.
    timers: AtomicUsize,
    /// The number of timers that became Deleted, less the timers that were armed again. Timers in a brief
    /// state may be counted or not.
    deleted: AtomicU32,
    /// The number of timers of `deleted` that have left the heap. Only the lock's holder writes this field,
    /// so it needs no locked instruction. Both counts may wrap around; their difference counts.
    removed: AtomicU32,
    /// The number of timers in ModifiedEarlier. Timers in a brief state may be counted or not.
    earlier: AtomicU32,
}

impl Counts {
    pub(crate) fn new() -> Self {
        Self {
            timer0_when: AtomicU64::new(NEVER),
            modified_earliest: AtomicU64::new(NEVER),
            timers: AtomicUsize::new(0),
            deleted: AtomicU32::new(0),
            removed: AtomicU32::new(0),
            earlier: AtomicU32::new(0),
        }
    }

    /// Returns the time by which this heap must be checked; NEVER if it is empty. Runs on: any thread.
    #[inline]
    pub(crate) fn earliest(&self) -> u64 {
        // Acquire: the partner is the Release in `take_over_earliest` (head of this file). A timer that is
        // being added now may be in neither time. The adder's fence covers that timer (`Heaps`).
        let modified_earliest = self.modified_earliest.load(Ordering::Acquire);
        modified_earliest.min(self.timer0_when.load(Ordering::Relaxed))
    }

    /// Returns about how many timers can still fire. Without the lock the number may be stale. Runs on: any
    /// thread.
    pub(crate) fn live(&self) -> usize {
        self.timers.load(Ordering::Relaxed).saturating_sub(self.deleted())
    }

    /// Returns `true` if more than a quarter of the heap is deleted. Runs on: any thread.
    #[inline]
    pub(crate) fn mostly_deleted(&self) -> bool {
        self.deleted() > self.timers.load(Ordering::Relaxed) / 4
    }

    /// Returns `true` if more than a quarter of the heap is deleted, and more than `few` timers are. Runs on:
    /// any thread.
    pub(crate) fn many_deleted(&self, few: usize) -> bool {
        self.deleted() > few && self.mostly_deleted()
    }

    /// Returns the number of Deleted timers in the heap. Without the lock it may be stale.
    #[inline]
    pub(crate) fn deleted(&self) -> usize {
        let removed = self.removed.load(Ordering::Relaxed);
        let left = self.deleted.load(Ordering::Relaxed).wrapping_sub(removed) as i32;
        // Without the lock, `removed` may be the newer one.
        left.max(0) as usize
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

    // A thread changes `deleted` and `earlier` while its claim keeps the timer in a brief state. The status
    // word, put with Release at the end of the claim, publishes the change to the next claimer. So each
    // decrement comes after its increment, and Relaxed is enough here.

    /// Counts a timer of this heap that is about to become Deleted.
    pub(crate) fn count_deleted(&self) {
        self.deleted.fetch_add(1, Ordering::Relaxed);
    }

    /// Uncounts a Deleted timer of this heap that is armed again. Precondition: the caller has claimed the
    /// timer.
    pub(crate) fn uncount_deleted(&self) {
        self.deleted.fetch_sub(1, Ordering::Relaxed);
    }

    /// Uncounts a Deleted timer that leaves this heap. Precondition: the caller has claimed the timer. Runs
    /// on: the lock's holder.
    pub(crate) fn count_removed(&self) {
        let removed = self.removed.load(Ordering::Relaxed);
        // The timer itself is counted in `deleted`, whatever other threads do.
        let deleted = self.deleted.load(Ordering::Relaxed);
        assert!(deleted != removed, "timers: more timers undeleted than deleted in one heap");
        self.removed.store(removed.wrapping_add(1), Ordering::Relaxed);
    }

    /// Counts a timer of this heap that is about to become ModifiedEarlier, and lowers the published time to
    /// `when`.
    pub(crate) fn count_earlier(&self, when: u64) {
        self.earlier.fetch_add(1, Ordering::Relaxed);
        self.lower_modified_earliest(when);
    }

    /// Lowers the published time to `when`, for a timer of this heap that is or is about to become
    /// ModifiedEarlier.
    pub(crate) fn lower_modified_earliest(&self, when: u64) {
        // Release: the partner is the Acquire in `take_over_earliest`. The lock's holder that takes this time
        // over sees the count and the timer's Modifying. So this writes even if it lowers nothing: a mere
        // load would not synchronize.
        self.modified_earliest.fetch_min(when, Ordering::Release);
    }

    /// Uncounts a ModifiedEarlier timer of this heap that will get another state. Precondition: the caller
    /// has claimed the timer.
    pub(crate) fn uncount_earlier(&self) {
        let before = self.earlier.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "timers: more timers put right than modified to an earlier time in one heap");
    }

    /// If a modified timer may be due, takes its time out of `modified_earliest` and lowers `timer0_when` to
    /// it. Returns the time if a walk must look for timers; `None` if no walk is needed. Runs on: the lock's
    /// holder.
    pub(crate) fn take_over_earliest(&self, now: u64) -> Option<u64> {
        let mut earliest = self.modified_earliest.load(Ordering::Relaxed);
        loop {
            if earliest > now {
                return None;
            }
            if !broken!("timers_adjust_no_lowering") && earliest < self.timer0_when() {
                self.timer0_when.store(earliest, Ordering::Relaxed);
            }
            // Acquire: the partner is the Release in `lower_modified_earliest`. The count below and the walk
            // find every timer that was modified before this exchange.
            // Release: the partner is the Acquire in `earliest`. A reader that finds NEVER finds
            // `timer0_when` lowered. A compare-exchange: if the time was lowered meanwhile, `timer0_when`
            // must get the lower time first.
            match self.modified_earliest.compare_exchange(
                earliest,
                NEVER,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return (self.earlier() > 0).then_some(earliest),
                Err(lower) => earliest = lower,
            }
        }
    }

    /// Clears `modified_earliest` after the walk, which is too late. Only the broken twin of a model calls
    /// this.
    pub(crate) fn forget_earliest(&self) {
        self.modified_earliest.store(NEVER, Ordering::Release);
    }

    /// Publishes the size of the heap and the time by which it must be checked. Runs on: the lock's holder,
    /// before the unlock.
    pub(crate) fn publish(&self, time: u64, timers: usize) {
        self.timers.store(timers, Ordering::Relaxed);
        self.timer0_when.store(time, Ordering::Relaxed);
        if timers == 0 {
            // This heap is empty, so no thread modifies a timer of this heap, and no other thread writes this
            // field.
            self.modified_earliest.store(NEVER, Ordering::Relaxed);
        }
    }
}

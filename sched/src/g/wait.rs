//! A wait: the word of a G that is decided once, by one atomic operation, and then says how the current wait
//! ended.
//!
//! Each wait has a number. Every possible waker holds that number: a queue, a timer, the netpoller, `cancel`.
//! A number of a wait that is over has no effect. So the other wakers need not learn that a wait has ended.
//!
//! ```text
//!   the waiter                                  a waker                      cancel
//!   arm      number + 1, Armed                                               set a flag
//!   register the number with its wakers                                      look at the word:
//!   leave its stack, and then (on the M's):     decide                         an open wait? decide it
//!   commit   Armed -> Parked                      Armed  -> outcome: done
//!            or it was decided: run on            Parked -> outcome: make the G runnable
//!   look at the flags: decide it itself
//! ```
//!
//! `cancel` is for good. `revoke` is the same for a stretch of the thread's code (`g/revocable.rs`). The end
//! of the stretch clears the flag.
//!
//! Only `commit` makes a wait Parked, and `commit` runs when the G is off its stack. So no M can resume a G
//! that still runs. That rules out double resumes for every primitive at once.
//!
//! A dumper reads the stack of a parked G. It holds the G for that time:
//!
//! ```text
//!   the dumper                                   a waker
//!   hold     Parked -> Armed                     decide
//!   copy the stack                                 Armed  -> outcome: done
//!   commit   Armed -> Parked
//!            or it was decided: make the G runnable
//! ```
//!
//! A waker never waits for the dumper. The dumper does what a waker leaves undone, as the M of a waiter does
//! that is about to park.
//!
//! Rejected: a commit function per primitive that unlocks or publishes on the M's stack. A lock would be held
//! across every switch, and each primitive could get it wrong.

use crate::sync::{
    atomic::{AtomicU8, AtomicU64, Ordering},
    broken,
};

const PHASE: u64 = 0b111;
const ARMED: u64 = 1;
const PARKED: u64 = 2;
const WOKEN: u64 = 3;
const TIMED_OUT: u64 = 4;
const CANCELLED: u64 = 5;
/// Neither a cancellation nor the end of a revocable stretch ends this wait.
const SHIELDED: u64 = 8;
/// A cancellation does not end this wait, but the end of a revocable stretch does.
const MASKED: u64 = 16;
/// The case that decided the wait: its place in the word, 27 bits wide.
const CASE: u32 = 5;
const NUMBER: u32 = 32;

/// The largest number of cases of one wait.
pub(crate) const MAX_CASES: usize = 1 << (NUMBER - CASE);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A waker ended the wait: what the waiter waited for has happened.
    Woken,
    /// The wait timed out.
    TimedOut,
    /// The green thread was cancelled.
    Cancelled,
}

/// What a try to end a wait achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing: another thread decided the wait, or the wait is over.
    Lost,
    /// The caller decided the wait before the waiter left its stack, or while a dumper holds the waiter. The
    /// waiter goes on by itself, or the dumper makes it runnable.
    Early,
    /// The caller decided the wait of a parked waiter. The caller must make the waiter runnable; no other
    /// thread will.
    Parked,
}

/// Whether a cancellation ends a wait. The numbers are bits of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Cancel {
    /// A cancellation ends the wait: nearly every wait.
    Ends = 0,
    /// A cancellation does not end the wait. For what must finish first, such as waiting for scoped threads.
    Waits = SHIELDED,
    /// A cancellation does not end the wait, but the end of a revocable stretch does that began inside of the
    /// mask around the wait (`g/mask.rs`).
    Masked = MASKED,
}

/// In `Wait::flags`: the G is cancelled for good.
const FOR_GOOD: u8 = 1;
/// In `Wait::flags`: a revocable stretch of code that the thread is in was revoked.
const REVOKED: u8 = 2;

/// The word of one waiter and its flags. The file's head explains the protocol.
#[derive(Debug)]
pub(crate) struct Wait {
    word: AtomicU64,
    /// A set of `FOR_GOOD` and `REVOKED`. While it is not empty, every wait that is not shielded ends.
    flags: AtomicU8,
    /// Not a part of this protocol: it lies here because there is room beside `flags`, and a G has no other.
    #[cfg(not(loom))]
    pub(crate) budget: super::budget::BudgetWord,
}

impl Wait {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        let budget = super::budget::BudgetWord::new();
        Wait { word: AtomicU64::new(WOKEN), flags: AtomicU8::new(0), budget }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Wait { word: AtomicU64::new(WOKEN), flags: AtomicU8::new(0) }
    }

    /// Begins a wait and returns its number. *Runs on: the waiter.*
    #[inline]
    pub(crate) fn arm(&self, cancel: Cancel) -> u32 {
        // Relaxed on both: no other thread writes between a decision and the next `arm`. The structure that
        // holds the number publishes it to the wakers. (Another thread may decide a wait that the waiter gave
        // up at this very moment. The store overwrites that decision, and the waiter goes on as it would
        // have. If the decider is `set_flag`, it read a word older than the next `commit`, which therefore
        // sees the flag.)
        let step = if broken!("wait_arm_same_number") { 0 } else { 1 };
        let number = ((self.word.load(Ordering::Relaxed) >> NUMBER) as u32).wrapping_add(step);
        self.word.store(u64::from(number) << NUMBER | cancel as u64 | ARMED, Ordering::Relaxed);
        number
    }

    /// Returns `true` if the current wait is decided. *Runs on: the waiter.*
    #[inline]
    pub(crate) fn is_decided(&self) -> bool {
        // Acquire: sees what the waker wrote. Pairs with the Release of `decide_case`.
        self.word.load(Ordering::Acquire) & PHASE >= WOKEN
    }

    /// Ends the wait `number`, for which the waiter does not park, if no waker has decided it. *Runs on: the
    /// waiter.*
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn give_up(&self, number: u32) {
        let word = self.word.load(Ordering::Relaxed);
        if word & PHASE == ARMED && (word >> NUMBER) as u32 == number {
            // Relaxed, and not by compare-exchange: as `arm`, which would be the next to overwrite a decision
            // of this moment.
            self.word.store(word & !PHASE | WOKEN, Ordering::Relaxed);
        }
    }

    /// Parks the waiter. Returns `false` if the wait was decided already: the waiter goes on. *Runs on: the
    /// M's stack, with the G off its own; a dumper that holds the waiter.*
    #[inline]
    pub(crate) fn commit(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        if word & PHASE != ARMED {
            // Acquire: sees what the waker wrote. Pairs with the Release of `decide_case`.
            self.word.load(Ordering::Acquire);
            return false;
        }
        if broken!("wait_commit_plain_store") {
            self.word.store(word & !PHASE | PARKED, Ordering::Release);
            return true;
        }
        // Release: publishes all that this G did to the thread that decides the wait and runs the G
        // elsewhere; pairs with the Acquire of `decide_case`. SeqCst: this store comes before the load of the
        // flags. The partner `set_flag` sets a flag before it loads the word.
        let parked = word & !PHASE | PARKED;
        if self.word.compare_exchange(word, parked, Ordering::SeqCst, Ordering::Acquire).is_err() {
            return false;
        }
        self.loom_fence();
        let flags = self.flags.load(Ordering::SeqCst);
        let cancelled = flags != 0 && !broken!("wait_commit_no_cancel_look");
        // If another thread decided the wait in between, that thread makes the G runnable.
        !(cancelled && self.end_for(flags, (word >> NUMBER) as u32) == Decision::Parked)
    }

    /// Ends the wait `number` as cancelled if it is open and not shielded from all of `flags`.
    fn end_for(&self, flags: u8, number: u32) -> Decision {
        let masked = if flags & REVOKED == 0 && !broken!("wait_no_mask") { MASKED } else { 0 };
        self.decide_unless(SHIELDED | masked, number, Outcome::Cancelled, 0)
    }

    /// Holds the parked waiter: until the caller's `commit`, a decision leaves the waiter alone. Returns
    /// `false` if the waiter is not parked, or is held already. After `true` the caller calls `commit`. If
    /// that returns `false`, the caller must make the waiter runnable; no other thread will. *Runs on: any
    /// thread.*
    pub(crate) fn hold(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        if word & PHASE != PARKED && !broken!("wait_hold_armed") {
            return false;
        }
        // Acquire: sees the stack as the waiter left it; pairs with the Release of `commit`. What the holder
        // read comes before what the resumed waiter writes. The Release of the holder's own `commit` orders
        // the two, or the holder itself resumes the waiter.
        let held = word & !PHASE | ARMED;
        let order = if broken!("wait_hold_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
        self.word.compare_exchange(word, held, order, Ordering::Relaxed).is_ok()
    }

    /// Ends the wait `number` with `outcome`, which is not `Cancelled`, if it is open. *Runs on: any thread.*
    #[inline]
    pub(crate) fn decide(&self, number: u32, outcome: Outcome) -> Decision {
        self.decide_case(number, outcome, 0)
    }

    /// Ends the wait `number` as `decide` does, and records the case that ended it. *Runs on: any thread.*
    #[inline]
    pub(crate) fn decide_case(&self, number: u32, outcome: Outcome, case: u32) -> Decision {
        debug_assert!((case as usize) < MAX_CASES && outcome != Outcome::Cancelled);
        self.decide_unless(0, number, outcome, case)
    }

    #[inline]
    fn decide_unless(&self, shields: u64, number: u32, outcome: Outcome, case: u32) -> Decision {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let shielded = word & shields != 0 && !broken!("wait_no_shield");
            let open = matches!(word & PHASE, ARMED | PARKED) || broken!("wait_decide_twice");
            let over = (word >> NUMBER) as u32 != number && !broken!("wait_decide_any_number");
            if over || !open || shielded {
                return Decision::Lost;
            }
            let decided = word & !PHASE | phase(outcome) | u64::from(case) << CASE;
            // Acquire: what the waiter did before it parked, for the M that resumes it; pairs with `commit`.
            // Release: what the waker wrote, for the waiter; pairs with `is_decided` and `commit`.
            match self.word.compare_exchange_weak(word, decided, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if word & PHASE == PARKED => return Decision::Parked,
                Ok(_) => return Decision::Early,
                Err(now) => word = now,
            }
        }
    }

    /// Ends the wait of a parked waiter that never runs again: wakers pass it over, as if it had timed out.
    /// Returns `false` if the waiter is not parked. *Runs on: any thread.*
    #[cfg(not(loom))]
    pub(crate) fn end_parked(&self) -> bool {
        // Relaxed, here and in the exchange: no thread reads what the waiter has written.
        let word = self.word.load(Ordering::Relaxed);
        let ended = word & !PHASE | TIMED_OUT;
        word & PHASE == PARKED
            && self.word.compare_exchange(word, ended, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Returns `true` if the wait `number` is not decided. *Runs on: any thread.*
    pub(crate) fn is_open(&self, number: u32) -> bool {
        // Relaxed: a decision that the caller knows of is seen in any case, and another may come at any
        // moment.
        let word = self.word.load(Ordering::Relaxed);
        (word >> NUMBER) as u32 == number && matches!(word & PHASE, ARMED | PARKED)
    }

    /// Returns the number of the last wait. *Runs on: any thread; the holder of the waiter gets that of the
    /// present wait.*
    #[cfg(not(loom))]
    pub(crate) fn number(&self) -> u32 {
        // Relaxed: a holder has acquired the word by its `hold`.
        (self.word.load(Ordering::Relaxed) >> NUMBER) as u32
    }

    /// Returns how the last wait ended. *Runs on: the waiter, after the wait.*
    #[inline]
    pub(crate) fn outcome(&self) -> Outcome {
        match self.word.load(Ordering::Acquire) & PHASE {
            TIMED_OUT => Outcome::TimedOut,
            CANCELLED => Outcome::Cancelled,
            _ => Outcome::Woken,
        }
    }

    /// Returns the case that decided the last wait. *Runs on: the waiter, after the wait ended as woken.*
    #[inline]
    pub(crate) fn case(&self) -> u32 {
        if broken!("wait_case_not_told") {
            return 0;
        }
        self.word.load(Ordering::Acquire) as u32 >> CASE
    }

    /// Cancels the G for good: ends its current wait, if there is one, and every later wait. If this returns
    /// `Parked`, the caller must make the waiter runnable. *Runs on: any thread.*
    pub(crate) fn cancel(&self) -> Decision {
        self.set_flag(FOR_GOOD)
    }

    /// Ends the current wait, if there is one, and every later wait until `clear_revoked`. If this returns
    /// `Parked`, the caller must make the waiter runnable. *Runs on: any thread, while `g/revocable.rs` keeps
    /// the stretch open.*
    pub(crate) fn revoke(&self) -> Decision {
        self.set_flag(REVOKED)
    }

    fn set_flag(&self, flag: u8) -> Decision {
        // SeqCst: this store of the flag comes before the load of the word. The partner is `commit`.
        self.flags.fetch_or(flag, Ordering::SeqCst);
        self.loom_fence();
        let word = self.word.load(Ordering::SeqCst);
        self.end_for(flag, (word >> NUMBER) as u32)
    }

    /// Lets later waits be, unless the G is cancelled. *Runs on: the waiter, which does not wait.*
    pub(crate) fn clear_revoked(&self) {
        // Relaxed: the flag orders nothing. `revoke` runs under the lock of its stretch, which the caller has
        // closed.
        self.flags.fetch_and(!REVOKED, Ordering::Relaxed);
    }

    /// Returns `true` if `cancel` was called since `reset`.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        // Acquire: pairs with the exchange in `set_flag`.
        self.flags.load(Ordering::Acquire) & FOR_GOOD != 0
    }

    /// Returns `true` if `revoke` was called since `clear_revoked`.
    #[inline]
    pub(crate) fn is_revoked(&self) -> bool {
        // Acquire: pairs with the exchange in `set_flag`.
        self.flags.load(Ordering::Acquire) & REVOKED != 0
    }

    /// Returns `true` if every wait that is not shielded ends.
    #[inline]
    pub(crate) fn is_ended(&self) -> bool {
        // Acquire: pairs with the exchange in `set_flag`.
        self.flags.load(Ordering::Acquire) != 0
    }

    /// Clears the flags for a new green thread. The numbers go on, so old numbers stay over. *Runs on: the
    /// spawner, before another thread knows the G.*
    #[inline]
    pub(crate) fn reset(&self) {
        self.flags.store(0, Ordering::Relaxed);
    }

    /// A full fence in models: loom orders SeqCst accesses only as AcqRel.
    #[inline]
    fn loom_fence(&self) {
        #[cfg(loom)]
        crate::sync::full_fence();
    }
}

fn phase(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Woken => WOKEN,
        Outcome::TimedOut => TIMED_OUT,
        Outcome::Cancelled => CANCELLED,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_old_number_decides_nothing() {
        let wait = Wait::new();
        let first = wait.arm(Cancel::Ends);
        assert_eq!(wait.decide(first, Outcome::Woken), Decision::Early);
        let second = wait.arm(Cancel::Ends);
        assert_eq!(wait.decide(first, Outcome::TimedOut), Decision::Lost);
        assert!(wait.commit());
        assert_eq!(wait.decide(second, Outcome::TimedOut), Decision::Parked);
        assert_eq!(wait.outcome(), Outcome::TimedOut);
    }

    #[test]
    fn the_case_is_that_of_the_winner() {
        let wait = Wait::new();
        let last = MAX_CASES as u32 - 1;
        for case in [last, 0, 1] {
            let number = wait.arm(Cancel::Ends);
            assert!(wait.commit());
            assert_eq!(wait.decide_case(number, Outcome::Woken, case), Decision::Parked);
            assert_eq!(wait.decide_case(number, Outcome::Woken, 7), Decision::Lost);
            assert_eq!((wait.outcome(), wait.case()), (Outcome::Woken, case));
        }
    }

    #[test]
    fn a_decision_leaves_a_held_waiter_to_the_holder() {
        let wait = Wait::new();
        let number = wait.arm(Cancel::Ends);
        assert!(!wait.hold(), "the waiter is on its stack");
        assert!(wait.commit());
        assert!(wait.hold() && !wait.hold(), "one holder at a time");
        assert!(wait.commit(), "nothing ended the wait meanwhile");
        assert!(wait.hold());
        assert_eq!(wait.decide(number, Outcome::TimedOut), Decision::Early);
        assert!(!wait.commit() && !wait.hold());
        assert_eq!(wait.outcome(), Outcome::TimedOut);
    }

    #[test]
    fn a_shielded_wait_is_not_cancelled() {
        let wait = Wait::new();
        let number = wait.arm(Cancel::Waits);
        assert!(wait.commit());
        assert_eq!(wait.cancel(), Decision::Lost);
        assert_eq!(wait.decide(number, Outcome::Woken), Decision::Parked);
        wait.arm(Cancel::Ends);
        assert!(!wait.commit(), "cancelled for good: the next wait ends at once");
        assert_eq!(wait.outcome(), Outcome::Cancelled);
    }

    #[test]
    fn a_masked_wait_is_revoked_but_not_cancelled() {
        let wait = Wait::new();
        wait.arm(Cancel::Masked);
        assert!(wait.commit());
        assert_eq!(wait.cancel(), Decision::Lost);
        assert_eq!(wait.revoke(), Decision::Parked);
        assert_eq!(wait.outcome(), Outcome::Cancelled);
        wait.clear_revoked();
        let number = wait.arm(Cancel::Masked);
        assert!(wait.commit(), "cancelled before, and not revoked any more");
        assert_eq!(wait.decide(number, Outcome::Woken), Decision::Parked);
        wait.arm(Cancel::Ends);
        assert!(!wait.commit());
    }
}

#[cfg(all(test, loom))]
mod models;

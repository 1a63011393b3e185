//! One wait of one green thread (or plain OS thread): decided once, by one atomic, whoever comes first.
//!
//! A wait has a number. Whoever might end it (a queue, a timer, the netpoller, `cancel`) holds that number, and
//! a number that is over is harmless, so nobody has to be told that a wait ended otherwise.
//!
//! ```text
//!   the one who waits                           a waker                      cancel
//!   arm      number + 1, Armed                                               flag = true
//!   register the number wherever it may be woken                             look at the word:
//!   leave its stack, and then (on the M's):     decide                         a wait? decide it
//!   commit   Armed -> Parked                      Armed  -> how: say no more
//!            or it was decided: run on            Parked -> how: make it runnable
//!   look at the cancel flag: decide it itself
//! ```
//!
//! `commit` is the only way to become Parked and runs when the G is off its stack, so nobody can resume a G that
//! still runs: that is what rules out double resumes, for every primitive at once. What was rejected: a commit
//! function per primitive that unlocks or publishes on the M's stack (a lock held across a switch, and one more
//! place to get wrong each).

use crate::sync::{
    atomic::{AtomicBool, AtomicU64, Ordering},
    broken,
};

const PHASE: u64 = 0b111;
const ARMED: u64 = 1;
const PARKED: u64 = 2;
const WOKEN: u64 = 3;
const TIMED_OUT: u64 = 4;
const CANCELLED: u64 = 5;
/// This wait does not end by cancellation.
const SHIELDED: u64 = 8;
/// Which of several things that were waited for it was; 28 bits.
const CASE: u32 = 4;
const NUMBER: u32 = 32;

/// The most cases that one wait can have.
pub(crate) const MAX_CASES: usize = 1 << (NUMBER - CASE);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What was waited for has happened.
    Woken,
    /// The deadline came first.
    TimedOut,
    /// The green thread was cancelled.
    Cancelled,
}

/// What a try to end a wait came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Somebody else decided it, or it is long over.
    Lost,
    /// Decided before the waiter left its stack: it goes on by itself.
    Early,
    /// Decided, and the waiter is parked: the caller must make it runnable, and nobody else will.
    Parked,
}

/// Whether a wait ends when its green thread is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// It does: nearly every wait.
    Ends,
    /// It does not: what must finish first, such as waiting for scoped threads.
    Waits,
}

/// The word of one waiter; see the file's head.
#[derive(Debug)]
pub(crate) struct Wait {
    word: AtomicU64,
    cancelled: AtomicBool,
}

impl Wait {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Wait { word: AtomicU64::new(WOKEN), cancelled: AtomicBool::new(false) }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Wait { word: AtomicU64::new(WOKEN), cancelled: AtomicBool::new(false) }
    }

    /// Begins a wait and gives its number. *Runs on: the waiter.*
    #[inline]
    pub(crate) fn arm(&self, cancel: Cancel) -> u32 {
        // Relaxed on both: nobody else writes between a decision and the next arm, and the number reaches the wakers
        // through whatever it is registered in. (A wait that was given up may be decided at this very moment: the store
        // overwrites that, and the waiter goes on as it would have. If it was `cancel`, that has looked at a word older
        // than the next `commit`, which therefore sees its flag.)
        let step = if broken!("wait_arm_same_number") { 0 } else { 1 };
        let number = ((self.word.load(Ordering::Relaxed) >> NUMBER) as u32).wrapping_add(step);
        let shield = if cancel == Cancel::Waits { SHIELDED } else { 0 };
        self.word.store(u64::from(number) << NUMBER | shield | ARMED, Ordering::Relaxed);
        number
    }

    /// True once the current wait is decided. *Runs on: the waiter.*
    #[inline]
    pub(crate) fn is_decided(&self) -> bool {
        // Acquire: pairs with the Release of `decide`.
        self.word.load(Ordering::Acquire) & PHASE >= WOKEN
    }

    /// Parks: `false` when the wait was decided already. *Runs on: the M's stack, with the G off its own.*
    #[inline]
    pub(crate) fn commit(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        if word & PHASE != ARMED {
            // Acquire: pairs with the Release of `decide`; what the waker wrote is the waiter's to read.
            self.word.load(Ordering::Acquire);
            return false;
        }
        if broken!("wait_commit_plain_store") {
            self.word.store(word & !PHASE | PARKED, Ordering::Release);
            return true;
        }
        // Release: whoever decides makes this G runnable elsewhere, with all that it did so far. SeqCst: first this
        // store, then the look at the flag; `cancel` stores the flag first and then looks at the word.
        let parked = word & !PHASE | PARKED;
        if self.word.compare_exchange(word, parked, Ordering::SeqCst, Ordering::Acquire).is_err() {
            return false;
        }
        self.loom_fence();
        let cancelled = self.cancelled.load(Ordering::SeqCst) && !broken!("wait_commit_no_cancel_look");
        // Whoever else decided in between makes the G runnable itself.
        !(cancelled && self.decide((word >> NUMBER) as u32, Outcome::Cancelled) == Decision::Parked)
    }

    /// Ends the wait of that number, if it is still open. *Runs on: any thread.*
    #[inline]
    pub(crate) fn decide(&self, number: u32, outcome: Outcome) -> Decision {
        self.decide_case(number, outcome, 0)
    }

    /// Likewise, and says which of the things that are waited for it was. *Runs on: any thread.*
    #[inline]
    pub(crate) fn decide_case(&self, number: u32, outcome: Outcome, case: u32) -> Decision {
        debug_assert!((case as usize) < MAX_CASES);
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let shielded =
                outcome == Outcome::Cancelled && word & SHIELDED != 0 && !broken!("wait_no_shield");
            let open = matches!(word & PHASE, ARMED | PARKED) || broken!("wait_decide_twice");
            let over = (word >> NUMBER) as u32 != number && !broken!("wait_decide_any_number");
            if over || !open || shielded {
                return Decision::Lost;
            }
            let decided = word & !PHASE | phase(outcome) | u64::from(case) << CASE;
            // Acquire: what the waiter did before it parked, for whoever resumes it. Release: what the waker wrote, for
            // the waiter (`is_decided`, `commit`).
            match self.word.compare_exchange_weak(word, decided, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if word & PHASE == PARKED => return Decision::Parked,
                Ok(_) => return Decision::Early,
                Err(now) => word = now,
            }
        }
    }

    /// Whether the wait of that number has not been decided yet. *Runs on: any thread.*
    pub(crate) fn is_open(&self, number: u32) -> bool {
        // Relaxed: a decision that the caller knows of is seen in any case, and others may come at any moment.
        let word = self.word.load(Ordering::Relaxed);
        (word >> NUMBER) as u32 == number && matches!(word & PHASE, ARMED | PARKED)
    }

    /// How the last wait ended. *Runs on: the waiter, after it.*
    #[inline]
    pub(crate) fn outcome(&self) -> Outcome {
        match self.word.load(Ordering::Acquire) & PHASE {
            TIMED_OUT => Outcome::TimedOut,
            CANCELLED => Outcome::Cancelled,
            _ => Outcome::Woken,
        }
    }

    /// What decided the last wait. *Runs on: the waiter, after it ended as woken.*
    #[inline]
    pub(crate) fn case(&self) -> u32 {
        if broken!("wait_case_not_told") {
            return 0;
        }
        self.word.load(Ordering::Acquire) as u32 >> CASE
    }

    /// Cancels for good: the current wait, if there is one, and every later one. `Parked` as for `decide`.
    /// *Runs on: any thread.*
    pub(crate) fn cancel(&self) -> Decision {
        // SeqCst: first the flag, then the look at the word; the partner is in `commit`.
        self.cancelled.store(true, Ordering::SeqCst);
        self.loom_fence();
        let word = self.word.load(Ordering::SeqCst);
        self.decide((word >> NUMBER) as u32, Outcome::Cancelled)
    }

    /// Whether `cancel` was called since `reset`.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        // Acquire: pairs with the store in `cancel`.
        self.cancelled.load(Ordering::Acquire)
    }

    /// A new green thread takes the place: not cancelled. The numbers go on, so old ones stay over.
    /// *Runs on: whoever makes the G, before anyone knows it.*
    #[inline]
    pub(crate) fn reset(&self) {
        self.cancelled.store(false, Ordering::Relaxed);
    }

    /// loom orders SeqCst accesses only as AcqRel, so a model needs the fence spelled out.
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
}

#[cfg(all(test, loom))]
mod models;

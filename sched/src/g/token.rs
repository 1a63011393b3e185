//! A token: keeps one wake-up until it is used, for `unpark` before `park` and for a future's waker.
//!
//! ```text
//!   the waiter                                       a waker
//!   park    Empty -> Parked(number), or use up       unpark  swap Notified; was Parked(number)?
//!           Notified and do not wait                           decide that wait
//!   clear   swap Empty, when the waiter runs again
//! ```
//!
//! A token has no wait of its own. The number is that of the waiter's [`Wait`](super::wait::Wait).
//!
//! `CaseToken` is a token for one of several things for which a wait waits. It also keeps the number of that
//! case.

use crate::sync::{
    atomic::{AtomicU32, AtomicU64, Ordering},
    broken,
};

const EMPTY: u64 = 0;
const NOTIFIED: u64 = 1;
const PARKED: u64 = 2;
const NUMBER: u32 = 2;

/// The word of one token. The file's head explains its protocol.
#[derive(Debug)]
pub(crate) struct Token(AtomicU64);

impl Token {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Token(AtomicU64::new(EMPTY))
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Token(AtomicU64::new(EMPTY))
    }

    /// Announces that the waiter will wait under `number`. Returns `false` if a wake-up was there; that
    /// wake-up is used up. *Runs on: the waiter, after it armed that wait.*
    #[inline]
    pub(crate) fn park(&self, number: u32) -> bool {
        let parked = u64::from(number) << NUMBER | PARKED;
        if broken!("token_park_plain_store") {
            self.0.store(parked, Ordering::Release);
            return true;
        }
        // Release on success: publishes the armed wait; pairs with the Acquire of `unpark`. Acquire on
        // failure: sees what the waker did; pairs with the Release of `unpark`.
        if self.0.compare_exchange(EMPTY, parked, Ordering::Release, Ordering::Acquire).is_ok() {
            return true;
        }
        self.clear();
        false
    }

    /// Leaves a wake-up. Returns the number of the wait to decide, if the waiter waits. *Runs on: any
    /// thread.*
    #[inline]
    pub(crate) fn unpark(&self) -> Option<u32> {
        // Release: publishes what the waker did; pairs with `park` and `clear`. Acquire: sees the armed wait;
        // pairs with `park`.
        let was = self.0.swap(NOTIFIED, Ordering::AcqRel);
        (was & 0b11 == PARKED).then_some((was >> NUMBER) as u32)
    }

    /// Uses a wake-up up, or withdraws the announced wait. *Runs on: the waiter.*
    #[inline]
    pub(crate) fn clear(&self) {
        // Acquire: pairs with the Release of `unpark`.
        self.0.swap(EMPTY, Ordering::Acquire);
    }

    /// Empties the token. *Runs on: the spawner, before another thread knows the G.*
    #[inline]
    pub(crate) fn reset(&self) {
        self.0.store(EMPTY, Ordering::Relaxed);
    }
}

/// A token that ends a wait as one of the wait's cases.
#[derive(Debug)]
pub(crate) struct CaseToken {
    token: Token,
    case: AtomicU32,
}

impl CaseToken {
    pub(crate) fn new() -> Self {
        CaseToken { token: Token::new(), case: AtomicU32::new(0) }
    }

    /// Announces that the waiter will wait under `number`, with this as its case number `case`. Returns
    /// `false` if a wake-up was there; that wake-up is used up. *Runs on: the waiter, after it armed that
    /// wait.*
    pub(crate) fn enter(&self, number: u32, case: u32) -> bool {
        if broken!("token_case_after_the_number") {
            let parked = self.token.park(number);
            self.case.store(case, Ordering::Relaxed);
            return parked;
        }
        // Relaxed: the Release of `Token::park` publishes it to the Acquire of `Token::unpark`.
        self.case.store(case, Ordering::Relaxed);
        self.token.park(number)
    }

    /// Withdraws the announced wait, or uses a wake-up up. The waiter then looks whether its case is ready,
    /// before it enters again. *Runs on: the waiter.*
    pub(crate) fn leave(&self) {
        self.token.clear();
    }

    /// Leaves a wake-up. Returns the number and the case of the wait to decide, if the waiter waits. *Runs
    /// on: any thread.*
    pub(crate) fn unpark(&self) -> Option<(u32, u32)> {
        let number = self.token.unpark()?;
        // Relaxed: the Acquire of `Token::unpark` sees the store of `enter`. A later store belongs to a later
        // wait; then `number` is that of a wait that is over, and decides nothing.
        Some((number, self.case.load(Ordering::Relaxed)))
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::g::wait::{Cancel, Decision, Outcome, Wait};
    use loom::{sync::Arc, sync::atomic::AtomicBool, thread};

    #[test]
    fn an_unpark_is_never_lost() {
        loom::model(|| {
            let g = Arc::new((Token::new(), Wait::new(), AtomicBool::new(false)));
            let waker = g.clone();
            let waker = thread::spawn(move || {
                let (token, wait, data) = &*waker;
                data.store(true, Ordering::Relaxed);
                token.unpark().map(|number| wait.decide(number, Outcome::Woken))
            });
            let (token, wait, data) = &*g;
            let number = wait.arm(Cancel::Ends);
            let parked = token.park(number) && wait.commit();
            let waker = waker.join().unwrap();
            assert_eq!(parked, waker == Some(Decision::Parked), "parked for ever");
            token.clear();
            assert!(data.load(Ordering::Relaxed));
        });
    }
    /// The waiter polls until both have happened: the event of the token's case 7, and the decision of
    /// another waker as case 3. A wake-up is never lost, whichever waker comes first, and each decision has
    /// its case.
    #[test]
    fn a_case_is_told_and_its_wake_up_is_never_lost() {
        loom::model(|| {
            let g = Arc::new((CaseToken::new(), Wait::new(), AtomicBool::new(false)));
            let waker = g.clone();
            let waker = thread::spawn(move || {
                let (token, wait, happened) = &*waker;
                happened.store(true, Ordering::Relaxed);
                token.unpark().map(|(number, case)| wait.decide_case(number, Outcome::Woken, case))
            });
            let (token, wait, happened) = &*g;
            let mut numbers = Vec::new();
            let mut parked = None;
            // The poll that precedes each wait.
            while !happened.load(Ordering::Relaxed) && parked.is_none() {
                let number = wait.arm(Cancel::Ends);
                numbers.push(number);
                if !token.enter(number, 7) {
                    assert!(happened.load(Ordering::Relaxed), "the next poll sees the event");
                    continue;
                }
                if numbers.len() == 1 && wait.decide_case(number, Outcome::Woken, 3) != Decision::Lost {
                    // Another case has ended the first wait.
                    assert_eq!(wait.case(), 3);
                    token.leave();
                    continue;
                }
                if !wait.commit() {
                    assert_eq!(wait.case(), 7);
                    token.leave();
                    assert!(happened.load(Ordering::Relaxed), "the next poll sees the event");
                    continue;
                }
                parked = Some(());
            }
            let decision = waker.join().unwrap();
            assert_eq!(parked.is_some(), decision == Some(Decision::Parked), "parked for ever");
            if parked.is_some() {
                assert_eq!(wait.case(), 7);
                token.leave();
                assert!(happened.load(Ordering::Relaxed));
            }
        });
    }
}

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

use crate::sync::{
    atomic::{AtomicU64, Ordering},
    broken,
};

const EMPTY: u64 = 0;
const NOTIFIED: u64 = 1;
const PARKED: u64 = 2;
const NUMBER: u32 = 2;

/// The word of one token; the file's head tells its protocol.
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

    /// Announces that the waiter will wait under `number`. Returns `false` if a wake-up was there; that wake-up is
    /// used up. *Runs on: the waiter, after it armed that wait.*
    #[inline]
    pub(crate) fn park(&self, number: u32) -> bool {
        let parked = u64::from(number) << NUMBER | PARKED;
        if broken!("token_park_plain_store") {
            self.0.store(parked, Ordering::Release);
            return true;
        }
        // Release on success: publishes the armed wait; pairs with the Acquire of `unpark`. Acquire on failure: sees
        // what the waker did; pairs with the Release of `unpark`.
        if self.0.compare_exchange(EMPTY, parked, Ordering::Release, Ordering::Acquire).is_ok() {
            return true;
        }
        self.clear();
        false
    }

    /// Leaves a wake-up. Returns the number of the wait to decide, if the waiter waits. *Runs on: any thread.*
    #[inline]
    pub(crate) fn unpark(&self) -> Option<u32> {
        // Release: publishes what the waker did; pairs with `park` and `clear`. Acquire: sees the armed wait; pairs
        // with `park`.
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
}

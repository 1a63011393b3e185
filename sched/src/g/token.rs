//! A wake-up that is kept until it is used: `unpark` before `park`, and a future's waker.
//!
//! ```text
//!   the one who waits                                a waker
//!   park    Empty -> Parked(number), or it takes     unpark  swap Notified; was Parked(number)?
//!           the Notified and does not wait                     decide that wait
//!   clear   swap Empty, when it runs again
//! ```
//!
//! A token knows no wait of its own: the number is that of the waiter's [`Wait`](super::wait::Wait).

use crate::sync::{
    atomic::{AtomicU64, Ordering},
    broken,
};

const EMPTY: u64 = 0;
const NOTIFIED: u64 = 1;
const PARKED: u64 = 2;
const NUMBER: u32 = 2;

/// See the file's head.
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

    /// Says that the waiter will wait under `number`; `false` if a wake-up was there and is now used up.
    /// *Runs on: the waiter, after it armed that wait.*
    #[inline]
    pub(crate) fn park(&self, number: u32) -> bool {
        let parked = u64::from(number) << NUMBER | PARKED;
        if broken!("token_park_plain_store") {
            self.0.store(parked, Ordering::Release);
            return true;
        }
        // Acquire on failure: pairs with the Release of `unpark`. Release on success: the number's wait is armed.
        if self.0.compare_exchange(EMPTY, parked, Ordering::Release, Ordering::Acquire).is_ok() {
            return true;
        }
        self.clear();
        false
    }

    /// Leaves a wake-up; the number of the wait that it is to decide, if somebody waits. *Runs on: any thread.*
    #[inline]
    pub(crate) fn unpark(&self) -> Option<u32> {
        // Release: what the waker did is the waiter's to see (`park`, `clear`). Acquire: the wait of that number.
        let was = self.0.swap(NOTIFIED, Ordering::AcqRel);
        (was & 0b11 == PARKED).then_some((was >> NUMBER) as u32)
    }

    /// Uses the wake-up up, or withdraws from waiting. *Runs on: the waiter.*
    #[inline]
    pub(crate) fn clear(&self) {
        // Acquire: pairs with the Release of `unpark`.
        self.0.swap(EMPTY, Ordering::Acquire);
    }

    /// *Runs on: whoever makes the G, before anyone knows it.*
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

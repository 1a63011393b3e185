//! The condition variable, with `parking_lot`'s API.

#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use lock_api::GuardSend;
use sched::locks::{self, OtherMutex, Patience};
use sched::park::unwind_if_cancelled;
use sched::{Cancel, Outcome};

use super::mutex::RawMutex;

pub use lock_api::WaitTimeoutResult;

/// A condition variable: waits, without the mutex, until somebody says that what the mutex guards has changed.
///
/// It is `parking_lot`'s `Condvar`. There are no wake-ups without a cause: `wait` returns when this waiter was notified, and
/// `notify_one` and `notify_all` say how many waiters that was. Those who are notified get the mutex one after another, in
/// the order in which they had waited.
///
/// # Panics
///
/// Waiting with one mutex while others wait with another one panics.
///
/// # Cancellation
///
/// A green thread that is cancelled while it waits, or whose [`timeout`](crate::time::timeout) runs out, takes the mutex
/// first and then unwinds with it, so guards hold what they promise. It is either notified or cancelled: a notification
/// goes to somebody who can follow it, and one that has come is not taken back.
///
/// ```
/// use runtime::sync::{Condvar, Mutex};
///
/// static READY: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
///
/// let waiter = runtime::spawn(|| {
///     let mut ready = READY.0.lock();
///     READY.1.wait_while(&mut ready, |ready| !*ready);
/// });
/// *READY.0.lock() = true;
/// READY.1.notify_one();
/// waiter.join().unwrap();
/// ```
pub type Condvar = lock_api::Condvar<RawCondvar>;

/// The raw condition variable under [`Condvar`], for [`RawMutex`].
///
/// There are no wake-ups without a cause, and the counts that notifying gives are exact.
///
/// ```
/// use lock_api::RawCondvar as _;
/// # use runtime::sync::lock_api;
///
/// let condition = runtime::sync::RawCondvar::INIT;
/// assert!(!condition.notify_one());
/// ```
#[derive(Debug, Default)]
pub struct RawCondvar(locks::Condvar);

impl RawCondvar {
    /// Waits; whether it timed out.
    ///
    /// # Safety
    /// The caller has the mutex; it has it again when this returns or unwinds.
    unsafe fn wait_with(&self, mutex: &RawMutex, deadline: Option<Instant>) -> bool {
        // Who is cancelled already waits for nothing, so that nobody notifies it in vain.
        unwind_if_cancelled();
        loop {
            let patience = Patience { cancel: Cancel::Ends, deadline };
            // SAFETY: the caller has it.
            match unsafe { self.0.wait(mutex.lock_itself(), patience) } {
                Ok(Outcome::Woken) => return false,
                Ok(Outcome::TimedOut) => return true,
                // It may be that nothing is to be unwound for any more; then it goes on waiting.
                Ok(Outcome::Cancelled) => unwind_if_cancelled(),
                Err(OtherMutex) => panic!("attempted to use a condition variable with more than one mutex"),
            }
        }
    }
}

// SAFETY: `locks::Condvar::wait` queues up before it gives the mutex back, and has it again when it returns, whatever ended
// the wait; only then, or before it began, is there an unwind.
unsafe impl lock_api::RawCondvar for RawCondvar {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait asks for it")]
    const INIT: Self = RawCondvar(locks::Condvar::new());

    type RawMutex = RawMutex;

    unsafe fn wait(&self, mutex: &RawMutex, _guard: &mut GuardSend) {
        // SAFETY: the caller has the mutex.
        unsafe { self.wait_with(mutex, None) };
    }

    #[inline]
    fn notify_one(&self) -> bool {
        self.0.notify_one()
    }

    #[inline]
    fn notify_all(&self) -> usize {
        self.0.notify_all()
    }
}

// SAFETY: as for `RawCondvar`.
unsafe impl lock_api::RawCondvarTimed for RawCondvar {
    fn checked_duration_to_instant(timeout: &Duration) -> Option<Instant> {
        Instant::now().checked_add(*timeout)
    }

    unsafe fn wait_until(&self, mutex: &RawMutex, _guard: &mut GuardSend, deadline: &Instant) -> bool {
        // SAFETY: the caller has the mutex.
        unsafe { self.wait_with(mutex, Some(*deadline)) }
    }
}

//! `Condvar`: releases a mutex, waits for a notification, and locks the mutex again. The API is that of
//! `parking_lot`. The queue is in `waits` (`locks/condvar.rs`); this file has the traits of `lock_api`
//! for it.

#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use lock_api::GuardSend;
use sched::park::unwind_if_cancelled;
use sched::{Cancel, Outcome};
use waits::locks::{self, OtherMutex, Patience};

use super::mutex::RawMutex;

pub use lock_api::WaitTimeoutResult;

/// A condition variable: a waiter releases the mutex, waits until it is notified, and takes the mutex again.
///
/// It has the API of `parking_lot::Condvar`. There are no spurious wake-ups: `wait` returns only if this
/// waiter was notified. `notify_one` and `notify_all` return how many waiters they notified. Notified waiters
/// get the mutex one after another, in the order in which they had waited.
///
/// # Panics
///
/// A wait panics if other threads wait with another mutex.
///
/// # Cancellation
///
/// A green thread that is cancelled while it waits, or whose [`timeout`](crate::time::timeout) is over, takes
/// the mutex first and then unwinds. So its guard stays valid. A waiter is either notified or cancelled: a
/// notification never goes to a cancelled waiter.
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

/// The raw condition variable of [`Condvar`], for [`RawMutex`].
///
/// There are no spurious wake-ups, and the counts that notifying returns are exact.
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
    /// Waits until notified, or until `deadline`. Returns `true` if it timed out. Unwinds a cancelled caller.
    ///
    /// # Safety
    /// The caller has the mutex. It has it again when this returns or unwinds.
    unsafe fn wait_with(&self, mutex: &RawMutex, deadline: Option<Instant>) -> bool {
        // A cancelled caller does not enter the queue, so no notification is spent on it.
        unwind_if_cancelled();
        loop {
            let patience = Patience { cancel: Cancel::Ends, deadline };
            // SAFETY: the caller has the mutex, by the contract of this function.
            match unsafe { self.0.wait(mutex.sched_lock(), patience) } {
                Ok(Outcome::Woken) => return false,
                Ok(Outcome::TimedOut) => return true,
                // The cancellation or time-out may no longer hold, and then this does not unwind. The loop
                // waits again.
                Ok(Outcome::Cancelled) => unwind_if_cancelled(),
                Err(OtherMutex) => panic!("attempted to use a condition variable with more than one mutex"),
            }
        }
    }
}

// SAFETY: `locks::Condvar::wait` enters the queue before it releases the mutex, and has the mutex again when
// it returns, whatever ended the wait. `wait_with` unwinds only before the wait or after it.
unsafe impl lock_api::RawCondvar for RawCondvar {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait asks for it")]
    const INIT: Self = RawCondvar(locks::Condvar::new());

    type RawMutex = RawMutex;

    unsafe fn wait(&self, mutex: &RawMutex, _guard: &mut GuardSend) {
        // SAFETY: the caller has the mutex, by the contract of the trait.
        unsafe { self.wait_with(mutex, None) };
    }

    #[inline]
    fn notify_one(&self) -> bool {
        crate::point();
        self.0.notify_one()
    }

    #[inline]
    fn notify_all(&self) -> usize {
        crate::point();
        self.0.notify_all()
    }
}

// SAFETY: `wait_with` keeps the contract, as for `RawCondvar`.
unsafe impl lock_api::RawCondvarTimed for RawCondvar {
    fn checked_duration_to_instant(timeout: &Duration) -> Option<Instant> {
        Instant::now().checked_add(*timeout)
    }

    unsafe fn wait_until(&self, mutex: &RawMutex, _guard: &mut GuardSend, deadline: &Instant) -> bool {
        // SAFETY: the caller has the mutex, by the contract of the trait.
        unsafe { self.wait_with(mutex, Some(*deadline)) }
    }
}

//! Containment of panics in user code that the runtime itself calls, such as destructors and wakers. No caller could
//! catch these panics.
//!
//! The rule for values: where the runtime drops a value of the user on behalf of another thread, it calls [`drop_contained`].
//! Such values are a result that no thread takes, a function that will not run, a thread-local, a context of a slot. Which thread
//! drops such a value often depends on a race, so a panic in the destructor must not reach that thread. A value that its owner
//! drops is not contained: a message of a channel, the value of a lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use crate::sys::message::write_message;

/// Drops a value of the user. If its destructor panics, the panic hook has reported that. Never unwinds.
pub fn drop_contained<T>(value: T) {
    contain(|| drop(value));
}

/// Runs `f`. Returns `false` if `f` panicked; the panic hook has reported it then. Never unwinds.
pub fn contain(f: impl FnOnce()) -> bool {
    let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else { return true };
    #[cfg(feature = "sim")]
    crate::run::simulation::lost_panic(&*payload);
    // Dropping the payload is user code too. If that panics, the second payload is leaked.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
    false
}

/// Calls a waker. If the waker panics, the panic is reported and the caller goes on.
pub(crate) fn call_waker(waker: Waker) {
    if !contain(|| waker.wake()) {
        write_message(format_args!(
            "a waker panicked; the green thread that it was to wake may wait for ever"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::contain;
    use std::panic::panic_any;

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic_any(Bomb);
        }
    }

    #[test]
    fn a_payload_that_panics_each_time_it_is_dropped_is_contained() {
        assert!(!contain(|| panic_any(Bomb)));
        assert!(contain(|| ()));
    }
}

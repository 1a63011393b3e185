//! Containment of panics in user code that the runtime itself calls, such as destructors and wakers. No
//! caller could catch these panics.
//!
//! The rule for values: where the runtime drops a value of the user on behalf of another thread, the drop is
//! contained. Such values are a result that no thread takes, a function that will not run, a thread-local, a
//! context of a slot. Which thread drops such a value often depends on a race, so a panic in the destructor
//! must not reach that thread. A value that its owner drops is not contained: a message of a channel, the
//! value of a lock. `api/mask.rs` has the drop for threads that may be cancelled during the drop.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use crate::sys::message::write_message;

/// Runs `f`. Returns `false` if `f` panicked; the panic hook has reported it then. Never unwinds.
pub(crate) fn contain(f: impl FnOnce()) -> bool {
    contain_then(f, |_| ())
}

/// Runs `f` as [`contain`] does. `look` sees the payload of a panic.
pub(crate) fn contain_then(f: impl FnOnce(), look: impl FnOnce(&(dyn Any + Send))) -> bool {
    let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else { return true };
    look(&*payload);
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

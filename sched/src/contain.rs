//! User code that the runtime calls on nobody's behalf: its panic has no one to go to.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `f`; `false` if it panicked, of which the panic hook has told. Nothing unwinds out of this.
pub(crate) fn contain(f: impl FnOnce()) -> bool {
    let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else { return true };
    // A payload's destructor is user code too; the payload of *its* panic is left where it is.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
    false
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
    fn a_payload_that_panics_again_and_again_when_it_is_dropped_goes_no_further() {
        assert!(!contain(|| panic_any(Bomb)));
        assert!(contain(|| ()));
    }
}

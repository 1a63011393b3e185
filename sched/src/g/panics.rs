//! The panic count of a G that parks in the middle of an unwind: set aside when it stops, brought back when
//! it goes on.
//!
//! A G that is bound to its M may park while it unwinds. Other Gs then run on that OS thread and must not
//! appear to unwind. std counts the panics of each OS thread, for `panicking()` and for poisoned locks, and
//! cannot set the count. But catching a panic decrements the count of the catching thread, whichever thread
//! raised it. So a *token* stands for one panic that can be moved. A token is a coroutine that was stopped in
//! the middle of an unwind of its own.
//!
//! ```text
//!   raise   begin an unwind, stop in a destructor: this thread counts one panic more
//!   settle  go on to where it is caught:           this thread counts one panic less
//! ```
//!
//! Between two Gs the count of an M is 0. A G settles its panics before it stops, and raises them again when
//! it goes on (`boundary::stop_at_home`).
//!
//! A closure that unwinds parks together with its M instead, which costs an OS thread but needs no tokens.
//! The exception is an M to which Gs are bound. Those Gs would have to wait, perhaps for ever: a destructor
//! may join one of them.

#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};

use crate::sync::Mutex;
use crate::sys::message::write_message;
use crate::sys::starting;

/// Room for an unwind through two frames. Only the pages in use take memory.
const STACK_BYTES: usize = 64 * 1024;

/// A panic in flight that no thread counts.
struct PanicToken(Coroutine<(), (), (), DefaultStack>);

// SAFETY: the token's stack holds the frames of `raise` and of the unwinder only; neither keeps anything of a
// thread.
unsafe impl Send for PanicToken {}

/// Tokens to be settled, and the stacks of settled tokens. Each panic that is set aside leaves a stack to
/// raise it on again. There are as many as Gs were ever parked in the middle of an unwind at the same time.
static TOKENS: Mutex<Vec<PanicToken>> = Mutex::new(Vec::new());
static STACKS: Mutex<Vec<DefaultStack>> = Mutex::new(Vec::new());

/// Stops its coroutine when an unwind drops it.
struct StopHere<'y>(&'y Yielder<(), ()>);

impl Drop for StopHere<'_> {
    fn drop(&mut self) {
        self.0.suspend(());
    }
}

/// Raises a panic, so that this thread counts one more. Returns `None` if there is no memory for it.
fn raise() -> Option<PanicToken> {
    let spare = STACKS.lock().pop();
    let stack = spare.or_else(|| DefaultStack::new(STACK_BYTES).ok())?;
    let mut coroutine = Coroutine::with_stack(stack, |yielder, ()| {
        let unwind = || {
            let _stop = StopHere(yielder);
            resume_unwind(Box::new(()));
        };
        let _: Result<(), _> = catch_unwind(AssertUnwindSafe(unwind));
    });
    coroutine.resume(());
    Some(PanicToken(coroutine))
}

impl PanicToken {
    /// Lets the panic be caught, so that this thread counts one less.
    fn settle(mut self) {
        self.0.resume(());
        STACKS.lock().push(self.0.into_stack());
    }
}

/// Makes a token on another thread, which ends at once.
fn new_token() -> Option<PanicToken> {
    starting::start(thread::Builder::new(), raise).ok()?.join().ok()?
}

/// Settles all panics of this thread. Returns how many there were. *Runs on: an M, on the stack of the G that
/// stops.*
#[cold]
pub(crate) fn set_aside() -> u32 {
    let mut panics = 0;
    while thread::panicking() {
        let token = TOKENS.lock().pop();
        let Some(token) = token.or_else(new_token) else {
            // No token: other Gs on this thread will see `panicking()`, and nothing worse happens.
            break;
        };
        token.settle();
        panics += 1;
    }
    panics
}

/// Raises `panics` panics on this thread. *Runs on: an M, on the stack of the G that goes on.*
#[cold]
pub(crate) fn bring_back(panics: u32) {
    for _ in 0..panics {
        match raise() {
            Some(token) => TOKENS.lock().push(token),
            None => {
                // Each settled panic left a stack, so this is a bug. std decrements the count of panics when
                // a panic is caught. If the count is one too low, that decrement underflows.
                write_message(format_args!(
                    "runtime: no stack to go on unwinding with; this is a bug in it, please report it"
                ));
                std::process::abort();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_set_aside_and_brought_back() {
        struct Look;
        impl Drop for Look {
            fn drop(&mut self) {
                assert!(thread::panicking());
                let panics = set_aside();
                assert!(!thread::panicking());
                assert_eq!(panics, 1);
                // A panic of another G, in between.
                assert!(catch_unwind(|| resume_unwind(Box::new(1))).is_err());
                assert!(!thread::panicking());
                bring_back(panics);
                assert!(thread::panicking());
            }
        }
        for _ in 0..3 {
            let unwind = || {
                let _look = Look;
                resume_unwind(Box::new(2));
            };
            let result: Result<(), _> = catch_unwind(unwind);
            assert_eq!(result.unwrap_err().downcast_ref(), Some(&2));
            assert!(!thread::panicking());
        }
    }
}

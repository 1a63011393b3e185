//! The panics of a parked G, set aside: a G that is bound to its M may park while it unwinds, and others run on that OS thread.
//!
//! std counts the panics of each OS thread, for `panicking()` and for poisoned locks, and has no way to set the count. But
//! the one that catches a panic counts it down on its own thread, whoever raised it. So a *token*, a coroutine that was
//! stopped in the middle of an unwind of its own, is one panic to be moved about:
//!
//! ```text
//!   raise   begin an unwind, stop in a destructor: this thread counts one panic more
//!   settle  go on to where it is caught:           this thread counts one panic less
//! ```
//!
//! Between two Gs an M counts none: the G settles its panics before it stops, and raises them again when it goes on
//! (`lend::stop_at_home`). A closure that unwinds parks together with its M instead, which costs a thread but no trick,
//! unless Gs are bound to that M. Those would have to wait, perhaps for ever: a destructor may join one of them.

#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};
use parking_lot::Mutex;

/// Room for an unwind through two frames, of which only the pages in use take memory.
const STACK_BYTES: usize = 64 * 1024;

/// A panic in flight that belongs to no thread.
struct Token(Coroutine<(), (), (), DefaultStack>);

// SAFETY: on its stack are the frames of `raise` and of the unwinder, and neither keeps anything of a thread.
unsafe impl Send for Token {}

/// Tokens to be settled, and the stacks of those that were. For each panic that is set aside there is a stack to raise it
/// on again; all in all as many as Gs were ever parked in the middle of an unwind at the same time.
static TOKENS: Mutex<Vec<Token>> = Mutex::new(Vec::new());
static STACKS: Mutex<Vec<DefaultStack>> = Mutex::new(Vec::new());

/// Stops the coroutine in the middle of its unwind.
struct StopHere<'y>(&'y Yielder<(), ()>);

impl Drop for StopHere<'_> {
    fn drop(&mut self) {
        self.0.suspend(());
    }
}

/// This thread counts one panic more. `None`: there is no memory for it.
fn raise() -> Option<Token> {
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
    Some(Token(coroutine))
}

impl Token {
    /// This thread counts one panic less.
    fn settle(mut self) {
        self.0.resume(());
        STACKS.lock().push(self.0.into_stack());
    }
}

/// A token that another thread, which ends at once, has raised.
fn new_token() -> Option<Token> {
    thread::Builder::new().spawn(raise).ok()?.join().ok()?
}

/// Settles all panics of this thread and returns how many there were. *Runs on: an M, on the stack of the G that stops.*
#[cold]
pub(crate) fn set_aside() -> u32 {
    let mut panics = 0;
    while thread::panicking() {
        let token = TOKENS.lock().pop();
        let Some(token) = token.or_else(new_token) else {
            // Others on this thread will think that they unwind; nothing worse.
            break;
        };
        token.settle();
        panics += 1;
    }
    panics
}

/// Raises so many panics on this thread. *Runs on: an M, on the stack of the G that goes on.*
#[cold]
pub(crate) fn bring_back(panics: u32) {
    for _ in 0..panics {
        match raise() {
            Some(token) => TOKENS.lock().push(token),
            None => {
                // Settling left a stack. A count that is one too low would wrap around when the panic is caught.
                eprintln!("runtime: no stack to go on unwinding with; this is a bug in it, please report it");
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
                // Somebody else's, in between.
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

//! The stacks at which futures wait: a future that is polled registers a waker and returns, and its stack is
//! gone. Where this is asked for, the clone of its waker keeps the stack, which has the whole chain of polls
//! at that moment.
//!
//! A leaf that has registered an equal waker before need not clone it again. The stack of the last clone
//! stays until the next one.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::g::GRef;
use crate::m::current::{current_g, on_m};
use crate::notes::events::OfM;

/// Returns the return addresses on the stack of the caller, the innermost first. It runs in user code and
/// must not park.
pub(crate) type TakeStack = fn() -> Box<[usize]>;

/// Set once a runtime asks for the stacks.
static IS_ASKED_FOR: AtomicBool = AtomicBool::new(false);

/// Notes that a runtime asks for the stacks.
pub(crate) fn begin(take: Option<TakeStack>) {
    if take.is_some() {
        // Relaxed: the Ms of that runtime, which are started later, see it.
        IS_ASKED_FOR.store(true, Ordering::Relaxed);
    }
}

/// Keeps the stack of the caller if the future of `g` is polled here and its runtime asks for that. *Runs on:
/// the thread that clones the waker of `g`.*
#[inline]
pub(crate) fn keep(g: GRef, events: OfM) {
    if IS_ASKED_FOR.load(Ordering::Relaxed) {
        keep_by(g, events);
    }
}

#[cold]
#[inline(never)]
fn keep_by(g: GRef, events: OfM) {
    let polled_here = current_g().filter(|current| current.is(g) && (g.task().future)().is_some());
    if let Some(g) = polled_here
        && let Some(take) = on_m(|m| events(m.shared()).await_stacks).flatten()
    {
        g.rare_or_new().await_stack.replace(take());
    }
}

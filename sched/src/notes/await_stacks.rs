//! The stacks at which futures wait: a future that is polled registers a waker and returns, and its stack is
//! gone. Where this is asked for, the clone of its waker keeps the stack, which has the whole chain of polls
//! at that moment.
//!
//! A leaf that has registered an equal waker before need not clone it again. The stack of the last clone
//! stays until the next one.

use std::sync::OnceLock;

use crate::g::GRef;
use crate::m::current::{current_g, on_m};

/// Returns the return addresses on the stack of the caller, the innermost first. It runs in user code and
/// must not park.
pub(crate) type TakeStack = fn() -> Box<[usize]>;

/// Set once a runtime asks for the stacks.
static TAKE: OnceLock<TakeStack> = OnceLock::new();

/// Notes that a runtime asks for the stacks.
pub(crate) fn begin(take: Option<TakeStack>) {
    if let Some(take) = take {
        TAKE.get_or_init(|| take);
    }
}

/// Keeps the stack of the caller if the future of `g` is polled here and its runtime asks for that. *Runs on:
/// the thread that clones the waker of `g`.*
#[inline]
pub(crate) fn keep(g: GRef) {
    if let Some(take) = TAKE.get() {
        keep_by(g, *take);
    }
}

#[cold]
#[inline(never)]
fn keep_by(g: GRef, take: TakeStack) {
    let polled_here = current_g().filter(|current| current.is(g) && (g.task().future)().is_some());
    if let Some(g) = polled_here
        && on_m(|m| m.sched().config.await_stacks.is_some()) == Some(true)
    {
        g.rare_or_new().await_stack.replace(take());
    }
}

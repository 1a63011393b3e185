//! `CaseWaker`: the waker of a future that a thread polls beside other things for which it waits: a case of a
//! select.
//!
//! ```text
//!   the waiter                                        a waker of the future
//!   poll the future: it is pending
//!   begin a wait; enter the queues of other cases
//!   enter   Empty -> Parked(number),                  swap Notified; was Parked(number)?
//!           or a wake-up is there: poll again           decide that wait, with the number of the case
//!   park
//!   leave   swap Empty
//!   poll the future, if the select goes on
//! ```
//!
//! The words are a [`CaseToken`], which has the protocol's model. The token keeps a wake-up that comes after
//! the poll, and `enter` finds it. `leave` may drop a wake-up: it acquires what the waker did, and a poll
//! comes before the next `enter`.
//!
//! A waker may be called at any later time. The token is then not `Parked`, or its number is that of a wait
//! that is over.

#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::g::token::CaseToken;
use crate::g::wait::{Decision, Outcome};
use crate::g::{GRef, Ticket};
use crate::m::current::current_g;
use crate::m::os_thread;

/// The waker of one future of the thread that made it.
pub struct CaseWaker(Arc<Inner>);

struct Inner {
    token: CaseToken,
    /// The waiter. The number in the token guards this reference.
    g: GRef,
    /// Makes the waiter runnable after its parked wait was decided.
    ready: fn(GRef),
}

impl CaseWaker {
    /// Makes a waker for a future that the calling thread polls. `ready` makes the thread runnable after its
    /// parked wait was decided.
    pub(crate) fn of_caller(ready: fn(GRef)) -> CaseWaker {
        let g = current_g().unwrap_or_else(os_thread::proxy_g).shared();
        CaseWaker(Arc::new(Inner { token: CaseToken::new(), g, ready }))
    }

    /// Returns the waker for a poll. The result does not count as a reference.
    pub fn waker(&self) -> ManuallyDrop<Waker> {
        // SAFETY: the functions of `VTABLE` are thread-safe and keep the contract of `RawWakerVTable`. The
        // pointer is that of an `Arc`, and the result, which is not dropped, takes over none of its counts.
        ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(Arc::as_ptr(&self.0).cast(), &VTABLE)) })
    }

    /// Lets the waker end the wait of `ticket` as `case`. Returns `false` if the waker was called since the
    /// last poll. *Runs on: the waiter, which calls `leave` after `true` and before it polls again.*
    pub fn enter(&self, ticket: Ticket, case: u32) -> bool {
        debug_assert!(std::ptr::eq(ticket.g, self.0.g), "a future of a select is polled by one thread");
        self.0.token.enter(ticket.number, case)
    }

    /// Ends what `enter` began. *Runs on: the waiter.*
    pub fn leave(&self) {
        self.0.token.leave();
    }
}

impl std::fmt::Debug for CaseWaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaseWaker").finish_non_exhaustive()
    }
}

impl Inner {
    /// Takes the wake-up. Returns the waiter if its parked wait was decided: the caller makes it runnable.
    fn decide(&self) -> Option<GRef> {
        let (number, case) = self.token.unpark()?;
        let decision = self.g.wait.decide_case(number, Outcome::Woken, case);
        (decision == Decision::Parked).then_some(self.g)
    }

    fn wake(&self) {
        if let Some(g) = self.decide() {
            (self.ready)(g);
        }
    }
}

// A static, not a const, because `decided_by` compares its address.
static VTABLE: RawWakerVTable = RawWakerVTable::new(
    |inner| {
        // SAFETY: the pointer comes from an `Arc` that has a count, by the contract of a waker.
        unsafe { Arc::increment_strong_count(inner.cast::<Inner>()) };
        RawWaker::new(inner, &VTABLE)
    },
    // SAFETY: the waker's count goes into the `Arc`, once.
    |inner| unsafe { Arc::from_raw(inner.cast::<Inner>()) }.wake(),
    // SAFETY: the waker has a count, so the value is alive.
    |inner| unsafe { &*inner.cast::<Inner>() }.wake(),
    // SAFETY: the waker's count goes into the `Arc`, once.
    |inner| drop(unsafe { Arc::from_raw(inner.cast::<Inner>()) }),
);

/// Returns `None` if `waker` is not one of these. Else takes its wake-up, and returns the G to make runnable,
/// if there is one.
pub(crate) fn decided_by(waker: &Waker) -> Option<Option<GRef>> {
    let is_one = std::ptr::eq(waker.vtable(), &VTABLE);
    // SAFETY: only `CaseWaker` makes wakers with this vtable, and `waker` has a count of its `Inner`.
    is_one.then(|| unsafe { &*waker.data().cast::<Inner>() }.decide())
}

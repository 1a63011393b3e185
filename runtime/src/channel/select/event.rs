//! `Event`: a case of a `select!` that is no channel operation. Each such case is a future.
//!
//! ```text
//!   the case in the select       what is done with the future
//!   try_begin                    polled; when it is ready, its output is kept
//!   enter, leave, accept         its waker may end the select's wait, as this case; it is not polled meanwhile
//!   the end of the select        dropped: `withdraw`, before any arm runs
//! ```
//!
//! So one mechanism serves every primitive that has a future, and what a case that lost leaves behind is what
//! dropping its future leaves behind. A future that was granted something (a permit, a notification) passes
//! that on when it is dropped. A future that takes something itself (a connection, a message) takes it in the
//! poll by which its case is chosen. No other case is polled after that.
//!
//! A select polls in `try_begin` alone, and then waits for no other thread. So futures are user code like the
//! arms: they may park, panic, or wait by a select of their own. A future that unwinds leaves no case in any
//! queue.
//!
//! Rejected: a wait node of each primitive, as channels have. It would save a waker's allocation for each
//! case of a select, and cost a second set of hand-overs, withdrawals and models for each primitive.

#![allow(unsafe_code)]

use std::cell::{Cell, OnceCell, RefCell};
use std::marker::PhantomPinned;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use sched::CaseWaker;
use sched::block_on::within_poll;

use super::super::case::{Case, SelectHandle};
use super::super::error::{RecvError, SendError};
use super::super::receiver::Receiver;
use super::super::sender::Sender;
use super::super::slot::{Begun, Seat};
use super::super::waiters::Entrant;
use super::SelectedOperation;

/// For [`select!`](crate::select) only: a case with a future.
pub struct Event<F: Future> {
    /// Made at the first poll.
    waker: OnceCell<CaseWaker>,
    /// `None` after `withdraw`. Pinned with the event: the future is dropped in its place, and never moved.
    future: RefCell<Option<F>>,
    output: Cell<Option<F::Output>>,
    _pinned: PhantomPinned,
}

impl<F: Future> Event<F> {
    /// Makes a case of `future`.
    pub fn new(future: F) -> Self {
        Event {
            waker: OnceCell::new(),
            future: RefCell::new(Some(future)),
            output: Cell::new(None),
            _pinned: PhantomPinned,
        }
    }

    /// Returns the output of the future, if this case was chosen.
    pub fn output(&self) -> Option<F::Output> {
        self.output.take()
    }

    /// Drops the future. The select is over, and no arm has begun.
    pub fn withdraw(&self) {
        within_poll(|| *self.future.borrow_mut() = None);
    }

    /// Polls the future, unless it has ended. Returns `true` if its output is there.
    fn poll(self: Pin<&Self>) -> bool {
        let output = within_poll(|| {
            let mut future = self.future.borrow_mut();
            // SAFETY: the future is pinned because the event is. `Event` drops the future in its place, and
            // never moves it.
            let future = unsafe { Pin::new_unchecked(future.as_mut()?) };
            let waker = self.waker.get_or_init(CaseWaker::new).waker();
            match future.poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => Some(output),
                Poll::Pending => None,
            }
        });
        let is_ready = output.is_some();
        self.output.set(output);
        is_ready
    }

    fn waker(&self) -> &CaseWaker {
        self.waker.get().expect("a select polls a future before it waits")
    }
}

impl<F: Future> Drop for Event<F> {
    fn drop(&mut self) {
        // A select that unwinds has not withdrawn it.
        self.withdraw();
    }
}

impl<F: Future> std::fmt::Debug for Event<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Event").finish_non_exhaustive()
    }
}

impl<F: Future> SelectHandle for Pin<&Event<F>> {
    fn try_begin(&self, _begun: &mut Begun) -> bool {
        self.poll()
    }

    fn is_ready(&self) -> bool {
        unreachable!("`Select::ready` takes no futures")
    }

    fn due(&self) -> Option<Instant> {
        None
    }

    unsafe fn enter(&self, _seat: &Seat, entrant: Entrant) -> bool {
        self.waker().enter(entrant.ticket, entrant.case)
    }

    unsafe fn leave(&self, _seat: &Seat) {
        self.waker().leave();
    }

    unsafe fn accept(&self, _seat: &Seat, _begun: &mut Begun) -> bool {
        // The waker only says that the future may be ready.
        self.waker().leave();
        false
    }

    unsafe fn abandon(&self, _begun: &mut Begun) {
        self.output.take();
    }
}

/// For [`select!`](crate::select) only: the chosen case of a select that had futures. It borrows no future,
/// so an arm may use what the futures had borrowed.
pub struct Chosen<'a> {
    index: usize,
    /// `None` if the case is a future.
    operation: Option<SelectedOperation<'a>>,
}

impl<'c> SelectedOperation<'c> {
    /// For [`select!`](crate::select) only: returns the chosen case. `channels` has the cases that are
    /// channel operations.
    #[doc(hidden)]
    pub fn of_channels<'a>(self, channels: &[Case<'a>]) -> Chosen<'a> {
        let index = self.index();
        let same = |case: &&Case<'a>| case.index == index && std::ptr::addr_eq(case.handle, self.case.handle);
        let case = channels.iter().find(same).copied();
        let this = ManuallyDrop::new(self);
        // SAFETY: the slot is read once, because `this` is not dropped. Both cases refer to the same live
        // handle, which has begun the operation. The slot of a future's operation is empty.
        let begun = unsafe { std::ptr::read(&raw const this.begun) };
        Chosen { index, operation: case.map(|case| SelectedOperation::new(case, begun)) }
    }
}

impl Chosen<'_> {
    /// Returns the index of the case.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Completes a receive operation.
    pub fn recv<T>(self, r: &Receiver<T>) -> Result<T, RecvError> {
        self.operation.expect("a receiver is a channel").recv(r)
    }

    /// Completes a send operation.
    pub fn send<T>(self, s: &Sender<T>, msg: T) -> Result<(), SendError<T>> {
        self.operation.expect("a sender is a channel").send(s, msg)
    }
}

impl std::fmt::Debug for Chosen<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chosen").field("index", &self.index).finish_non_exhaustive()
    }
}

//! What a G runs: a closure or a future, and where its result lies. One catch of panics for all.
//!
//! The closure or future lies in the G's payload (boxed when it is too large); the result then takes its place, so
//! that a spawn and a join of something small allocate nothing.

#![allow(unsafe_code)]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use super::coro::Stop;
use super::{GRef, Joiner, PAYLOAD_WORDS};
use crate::wake;

/// The payload of the unwind that ends a cancelled green thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

/// How to run what the payload holds.
pub(crate) struct Task {
    /// # Safety
    /// Runs on the G's stack; the payload holds what this task left there.
    pub(crate) run: unsafe fn(GRef) -> Stop,
}

/// A kind of task, by its types.
pub(crate) struct Closure<F, T>(std::marker::PhantomData<fn(F) -> T>);
pub(crate) struct Polled<F>(std::marker::PhantomData<fn(F)>);

impl<T, F: FnOnce() -> T> Closure<F, T> {
    pub(crate) const TASK: Task = Task { run: run_closure::<T, F> };
}

impl<F: Future> Polled<F> {
    pub(crate) const TASK: Task = Task { run: poll_future::<F> };
}

const fn fits<T>() -> bool {
    size_of::<T>() <= PAYLOAD_WORDS * 8 && align_of::<T>() <= 8
}

/// Puts a value into the payload.
///
/// # Safety
/// The payload is the caller's (see `Sync` of [`G`](super::G)) and holds nothing.
#[inline]
pub(crate) unsafe fn put<T>(g: GRef, value: T) {
    let place = g.payload();
    if fits::<T>() {
        // SAFETY: it fits, is aligned, and is ours to overwrite.
        unsafe { place.cast::<T>().write(value) };
    } else {
        // SAFETY: a pointer fits.
        unsafe { place.cast::<*mut T>().write(Box::into_raw(Box::new(value))) };
    }
}

/// Takes the value out of the payload.
///
/// # Safety
/// The payload is the caller's and holds a `T`, put there by `put`.
#[inline]
pub(crate) unsafe fn take<T>(g: GRef) -> T {
    let place = g.payload();
    if fits::<T>() {
        // SAFETY: by the contract above.
        unsafe { place.cast::<T>().read() }
    } else {
        // SAFETY: by the contract above; `put` made it from a box.
        *unsafe { Box::from_raw(place.cast::<*mut T>().read()) }
    }
}

/// Where the value lies.
///
/// # Safety
/// As for `take`; the value stays where it is until it is taken or dropped.
unsafe fn place<T>(g: GRef) -> *mut T {
    let place = g.payload();
    // SAFETY: by the contract above.
    if fits::<T>() { place.cast() } else { unsafe { place.cast::<*mut T>().read() } }
}

/// # Safety
/// As for `take`.
unsafe fn drop_in_place<T>(g: GRef) {
    if fits::<T>() {
        // SAFETY: by the contract of `take`.
        unsafe { place::<T>(g).drop_in_place() };
    } else {
        // SAFETY: likewise; it drops where it lies, which a pinned future needs.
        drop(unsafe { Box::from_raw(place::<T>(g)) });
    }
}

/// # Safety
/// As for `Task::run`.
unsafe fn run_closure<T, F: FnOnce() -> T>(g: GRef) -> Stop {
    let result = if g.wait.is_cancelled() {
        // Cancelled before it began: its captures are dropped, which is user code too.
        // SAFETY: the task's own payload, taken once.
        let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { drop_in_place::<F>(g) }));
        dropped.and(Err(Box::new(Cancelled) as Box<dyn Any + Send>))
    } else {
        catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the task's own payload, taken once.
            let closure = unsafe { take::<F>(g) };
            closure()
        }))
    };
    end(g, result)
}

/// # Safety
/// As for `Task::run`.
unsafe fn poll_future<F: Future>(g: GRef) -> Stop {
    // SAFETY: the task's own payload; the future stays there until it is dropped in place.
    let future = unsafe { Pin::new_unchecked(&mut *place::<F>(g)) };
    let polled = catch_unwind(AssertUnwindSafe(|| {
        if g.wait.is_cancelled() {
            return Poll::Ready(Err(Box::new(Cancelled) as Box<dyn Any + Send>));
        }
        g.drives.set(true);
        g.wakes.clear();
        let waker = wake::borrowed_waker(g);
        future.poll(&mut Context::from_waker(&waker)).map(Ok)
    }));
    let result = match polled {
        Ok(Poll::Pending) => {
            crate::lend::enter_for_good();
            return Stop::Pending;
        }
        Ok(Poll::Ready(result)) => result,
        Err(panic) => Err(panic),
    };
    // SAFETY: the future is done for and is not touched again.
    let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { drop_in_place::<F>(g) }));
    end(g, result.and_then(|value| dropped.map(|()| value)))
}

/// Stores the result and tells who waits for it. Runs in user code still, for a result that nobody wants and the
/// waker of another runtime are user code.
fn end<T>(g: GRef, result: thread::Result<T>) -> Stop {
    // SAFETY: the task is over, so the payload is empty and the G's own until `complete`.
    unsafe { put(g, result) };
    let ending = g.life.complete();
    if !ending.wanted {
        // SAFETY: the join handle left the result to us.
        let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { drop_in_place::<thread::Result<T>>(g) }));
        // A panic in there was reported by the panic hook; its payload's own drop is not trusted.
        std::mem::forget(dropped);
    }
    let mut parked = None;
    if ending.waiter {
        // SAFETY: `complete` said that there is one, and that we are to take it.
        match unsafe { g.take_joiner() } {
            Joiner::Nobody => {}
            Joiner::Parked(ticket) => parked = Some(ticket),
            Joiner::Polls(waker) => wake::call(waker),
        }
    }
    crate::lend::enter_for_good();
    if let Some(ticket) = parked {
        wake::wake(ticket);
    }
    Stop::Done
}

//! What a G runs: a closure or a future, and where its result lies. One catch of panics for all.
//!
//! The closure or future lies in the G's payload (boxed when it is too large); the result then takes its place, so
//! that a spawn and a join of something small allocate nothing.

#![allow(unsafe_code)]

use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use super::coro::Stop;
use super::{GRef, Joiner, PAYLOAD_WORDS};
use crate::contain::contain;
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

/// What is told that a task has ended and its result is stored or dropped; runs on the G, in user code.
pub trait After {
    /// `panicked`: it unwound, and not because it was cancelled.
    fn ended(self, panicked: bool);
}

/// Nobody.
impl After for () {
    #[inline]
    fn ended(self, _panicked: bool) {}
}

/// What the payload holds before the result.
pub(crate) struct Work<W, A> {
    pub(crate) work: W,
    pub(crate) after: A,
}

/// A kind of task, by its types.
pub(crate) struct Closure<F, T, A>(std::marker::PhantomData<fn(F, A) -> T>);
pub(crate) struct Polled<F, A>(std::marker::PhantomData<fn(F, A)>);

impl<T, F: FnOnce() -> T, A: After> Closure<F, T, A> {
    pub(crate) const TASK: Task = Task { run: run_closure::<T, F, A> };
}

impl<F: Future, A: After> Polled<F, A> {
    pub(crate) const TASK: Task = Task { run: poll_future::<F, A> };
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

/// Frees the room of what has been read out of the payload, without dropping it again.
///
/// # Safety
/// The payload is the caller's and held a `T`, all of which has been read out or dropped in place.
unsafe fn free<T>(g: GRef) {
    if !fits::<T>() {
        // SAFETY: by the contract above; `put` made it from a box, and `ManuallyDrop` has the layout of what it holds.
        drop(unsafe { Box::from_raw(place::<T>(g).cast::<ManuallyDrop<T>>()) });
    }
}

/// # Safety
/// As for `Task::run`.
unsafe fn run_closure<T, F: FnOnce() -> T, A: After>(g: GRef) -> Stop {
    // SAFETY: the task's own payload.
    let place = unsafe { place::<Work<F, A>>(g) };
    // The closure moves straight from where it lies into its call: each copy on the way would stay on the stack.
    let result = catch_unwind(AssertUnwindSafe(|| {
        if g.wait.is_cancelled() {
            // Cancelled before it began: its captures are dropped, which is user code too.
            g.over.set(true);
            // SAFETY: dropped once, here, and not read below.
            unsafe { (&raw mut (*place).work).drop_in_place() };
            return Err(cancelled());
        }
        // SAFETY: read once, here, and not dropped below.
        Ok(unsafe { (&raw const (*place).work).read() }())
    }));
    // SAFETY: read once; `free` drops nothing.
    let after = unsafe { (&raw const (*place).after).read() };
    // SAFETY: both parts are gone.
    unsafe { free::<Work<F, A>>(g) };
    end(g, result.and_then(|result| result), after)
}

/// # Safety
/// As for `Task::run`.
unsafe fn poll_future<F: Future, A: After>(g: GRef) -> Stop {
    // SAFETY: the task's own payload.
    let work = unsafe { place::<Work<F, A>>(g) };
    // SAFETY: likewise; the future stays there until it is dropped in place.
    let future = unsafe { Pin::new_unchecked(&mut (*work).work) };
    let polled = catch_unwind(AssertUnwindSafe(|| {
        if g.wait.is_cancelled() {
            return Poll::Ready(Err(cancelled()));
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
    g.over.set(true);
    // SAFETY: the future is done for, is dropped where it lies, as a pinned one must be, and is not touched again.
    let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { (&raw mut (*work).work).drop_in_place() }));
    // SAFETY: read once; `free` drops nothing.
    let after = unsafe { (&raw const (*work).after).read() };
    // SAFETY: both parts are gone.
    unsafe { free::<Work<F, A>>(g) };
    let result = match (result, dropped) {
        (result, Ok(())) => result,
        (Ok(value), Err(panic)) => {
            contain(|| drop(value));
            Err(panic)
        }
        // The first panic is the one to tell of.
        (Err(first), Err(second)) => {
            contain(|| drop(second));
            Err(first)
        }
    };
    end(g, result, after)
}

/// A task that calls a waker, cancelled or not.
pub(crate) struct CallsWaker;

impl CallsWaker {
    const TASK: Task = Task { run: Self::run };

    /// Makes it the task of `g`.
    ///
    /// # Safety
    /// As for [`put`].
    pub(crate) unsafe fn put(g: GRef, waker: Waker) {
        // SAFETY: by the contract above.
        unsafe { put(g, waker) };
        g.set_task(&Self::TASK);
    }

    /// # Safety
    /// As for `Task::run`.
    unsafe fn run(g: GRef) -> Stop {
        // SAFETY: the task's own payload.
        let waker = unsafe { take::<Waker>(g) };
        g.over.set(true);
        wake::call(waker);
        end(g, Ok(()), ())
    }
}

fn cancelled() -> Box<dyn Any + Send> {
    Box::new(Cancelled)
}

/// Stores the result and tells who waits for it. Runs in user code still, for a result that nobody wants and the
/// waker of another runtime are user code.
fn end<T>(g: GRef, result: thread::Result<T>, after: impl After) -> Stop {
    let panicked = matches!(&result, Err(payload) if !payload.is::<Cancelled>());
    // What follows is destructors and wakers: a cancellation comes too late for them.
    g.over.set(true);
    end_rare(g);
    // SAFETY: the task is over, so the payload is empty and the G's own until `complete`.
    unsafe { put(g, result) };
    let ending = g.life.complete();
    if !ending.wanted {
        // SAFETY: the join handle left the result to us.
        contain(|| drop(unsafe { take::<thread::Result<T>>(g) }));
    }
    after.ended(panicked);
    let mut parked = None;
    if ending.waiter {
        // SAFETY: `complete` said that there is one, and that we are to take it.
        match unsafe { g.take_joiner() } {
            Joiner::Nobody => {}
            Joiner::Parked(ticket) => parked = Some(ticket),
            Joiner::Polls(waker) => wake::call(waker),
        }
    }
    // The result's destructor and the wakers may have made values of their own.
    end_rare(g);
    crate::lend::enter_for_good();
    if let Some(ticket) = parked {
        wake::wake(ticket);
    }
    Stop::Done
}

/// The values of the thread's own are destroyed, by user code on the thread.
#[inline]
fn end_rare(g: GRef) {
    if let Some(rare) = g.rare() {
        rare.locals.destroy();
        drop(g.take_rare());
    }
}

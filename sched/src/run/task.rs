//! The task of a G: its closure or future, the payload that holds it, and the end that stores the result.
//!
//! The closure or future lies in the G's payload, boxed if it is too large. The result then takes its place.
//! So a spawn and a join of something small allocate nothing. All tasks catch panics in the same way.
//!
//! Three tasks exist: `Closure`, `Polled`, and `CallsWaker`, which calls a foreign waker. `After` is called
//! when a task has ended; scopes use it.
//!
//! A printed backtrace of a green thread ends at its task. std cuts a backtrace at the frame with
//! `__rust_begin_short_backtrace` in its name, so the functions that run tasks have such names. That costs
//! nothing.

#![allow(unsafe_code)]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use crate::g::GRef;
use crate::g::budget::Budget;
use crate::g::joiner::Joiner;
use crate::g::own::OwnG;
use crate::g::payload::{Stop, Task, free, place, put, take};
use crate::m::current::on_m;
use crate::run::boundary::enter_for_good;
use crate::run::{contexts, unpolled, wake};
use crate::stack::coro::Coro;
use crate::sys::catch_panic::{call_waker, contain_then};

/// The payload of the unwind that ends a cancelled green thread. `join` returns it as the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

impl std::fmt::Display for Cancelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the green thread was cancelled")
    }
}

impl std::error::Error for Cancelled {}

/// What is called when a task has ended, after its result was stored or dropped. Runs on the G, in user code.
pub trait After {
    /// Called at the end. `panicked`: the task unwound, and not because it was cancelled.
    fn ended(self, panicked: bool);
}

/// Does nothing.
impl After for () {
    #[inline]
    fn ended(self, _panicked: bool) {}
}

/// What the payload holds before the result.
pub(crate) struct Work<W, A> {
    pub(crate) work: W,
    pub(crate) after: A,
}

/// The tasks of a closure and of a future, by their types.
pub(crate) struct Closure<F, T, A>(std::marker::PhantomData<fn(F, A) -> T>);
pub(crate) struct Polled<F, A>(std::marker::PhantomData<fn(F, A)>);

impl<T, F: FnOnce() -> T, A: After> Closure<F, T, A> {
    pub(crate) const TASK: Task =
        Task { run: __rust_begin_short_backtrace_closure::<T, F, A>, future: || None, owns_locals: true };
}

impl<F: Future, A: After> Polled<F, A> {
    pub(crate) const TASK: Task = Task {
        run: __rust_begin_short_backtrace_future::<F, A>,
        future: || Some(std::any::type_name::<F>()),
        owns_locals: false,
    };
}

/// # Safety
/// The caller is on the G's stack, and the payload holds what this task left there.
unsafe fn __rust_begin_short_backtrace_closure<T, F: FnOnce() -> T, A: After>(g: GRef) -> Stop {
    // SAFETY: the running task owns its payload, which holds the work that the spawner put there.
    let place = unsafe { place::<Work<F, A>>(g) };
    // SAFETY: the caller is `g`, by this contract.
    let g = unsafe { OwnG::new(g) };
    begin_locals(g);
    if g.has_contexts() {
        contexts::begin(g);
    }
    // The closure moves from its place straight into its call: each copy on the way would stay on the stack.
    let result = catch_unwind(AssertUnwindSafe(|| {
        if g.wait.is_cancelled() {
            // Cancelled before it began. Dropping the captures is user code too.
            g.set_over();
            // SAFETY: the closure is dropped once, here, and not read below.
            unsafe { (&raw mut (*place).work).drop_in_place() };
            return Err(cancelled());
        }
        // SAFETY: the closure is read once, here, and not dropped below.
        Ok(unsafe { (&raw const (*place).work).read() }())
    }));
    // SAFETY: `after` is read once; `free` drops nothing.
    let after = unsafe { (&raw const (*place).after).read() };
    // SAFETY: `work` was called or dropped, and `after` was read out.
    unsafe { free::<Work<F, A>>(g.shared()) };
    end(g, result.and_then(|result| result), after)
}

/// # Safety
/// The caller is on the G's stack, and the payload holds what this task left there.
unsafe fn __rust_begin_short_backtrace_future<F: Future, A: After>(g: GRef) -> Stop {
    // SAFETY: the running task owns its payload, which holds the work that the spawner put there.
    let work = unsafe { place::<Work<F, A>>(g) };
    // SAFETY: the caller is `g`, by this contract.
    let g = unsafe { OwnG::new(g) };
    // SAFETY: the future stays in its place until `drop_in_place` below: the payload does not move while the
    // task lives.
    let future = unsafe { Pin::new_unchecked(&mut (*work).work) };
    begin_locals(g);
    if g.has_contexts() {
        contexts::begin(g);
    }
    let polled = catch_unwind(AssertUnwindSafe(|| {
        if g.wait.is_cancelled() {
            return Poll::Ready(Err(cancelled()));
        }
        g.set_drives(true);
        g.wakes.clear();
        g.budget().set(Budget::FULL);
        let waker = wake::borrowed_waker(g.shared());
        let mut cx = Context::from_waker(&waker);
        #[cfg(feature = "other-budget")]
        return crate::run::other_budget::with_new(|| future.poll(&mut cx)).map(Ok);
        #[cfg(not(feature = "other-budget"))]
        future.poll(&mut cx).map(Ok)
    }));
    let result = match polled {
        Ok(Poll::Pending) => {
            if g.has_contexts() {
                contexts::save(g);
            }
            end_locals_of_poll(g);
            enter_for_good(|_| ());
            return Stop::Pending;
        }
        Ok(Poll::Ready(result)) => result,
        Err(panic) => Err(panic),
    };
    g.budget().set(Budget::NONE);
    g.set_over();
    // SAFETY: the future will not be polled again. It is dropped in its place, as a pinned value must be, and
    // not used after.
    let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { (&raw mut (*work).work).drop_in_place() }));
    // SAFETY: `after` is read once; `free` drops nothing.
    let after = unsafe { (&raw const (*work).after).read() };
    // SAFETY: `work` was dropped, and `after` was read out.
    unsafe { free::<Work<F, A>>(g.shared()) };
    let result = match (result, dropped) {
        (result, Ok(())) => result,
        (Ok(value), Err(panic)) => {
            drop_contained(value);
            Err(panic)
        }
        // A panic is the result, also of a future that was cancelled.
        (Err(first), Err(second)) if first.is::<Cancelled>() => Err(second),
        // The first panic is the result.
        (Err(first), Err(second)) => {
            drop_contained(second);
            Err(first)
        }
    };
    let stop = end(g, result, after);
    // `end` has entered the runtime.
    on_m(|m| m.sched().polled(m));
    stop
}

/// The task that calls a waker, even if cancelled.
pub(crate) struct CallsWaker;

impl CallsWaker {
    const TASK: Task = Task { run: Self::run, future: || None, owns_locals: true };

    /// Makes this the task of `g`, with `waker` as its payload.
    ///
    /// # Safety
    /// The payload belongs to the caller and is empty.
    pub(crate) unsafe fn put(g: GRef, waker: Waker) {
        // SAFETY: the payload belongs to the caller and is empty, by this contract.
        unsafe { put(g, waker) };
        g.set_task(&Self::TASK);
    }

    /// # Safety
    /// The caller is on the G's stack, and the payload holds what this task left there.
    unsafe fn run(g: GRef) -> Stop {
        // SAFETY: the running task owns its payload, which holds the waker that `CallsWaker::put` put there.
        let waker = unsafe { take::<Waker>(g) };
        // SAFETY: the caller is `g`, by this contract.
        let g = unsafe { OwnG::new(g) };
        g.set_over();
        call_waker(waker);
        end(g, Ok(()), ())
    }
}

fn cancelled() -> Box<dyn Any + Send> {
    Box::new(Cancelled)
}

/// Stores the result and wakes the joiner. Until `enter_for_good` it runs as user code: the destructor of an
/// unwanted result and the waker of another runtime are user code.
fn end<T>(g: OwnG, result: thread::Result<T>, after: impl After) -> Stop {
    let panicked = matches!(&result, Err(payload) if !payload.is::<Cancelled>());
    if panicked {
        g.on_panic();
    }
    // From here on run destructors and wakers, which a cancellation does not end.
    g.set_over();
    end_rare(g, result.is_ok());
    end_locals(g);
    // SAFETY: the task is over, so the payload is empty, and it belongs to the G until `complete`.
    unsafe { put(g.shared(), result) };
    let ending = g.life.complete();
    // True if code of the user runs below, which may make new thread-local values.
    let mut again = size_of_val(&after) > 0;
    if !ending.wanted {
        // SAFETY: `complete` found no interest, so the result belongs to the G.
        drop_unseen(g.shared(), unsafe { take::<thread::Result<T>>(g.shared()) });
        again = true;
    }
    after.ended(panicked);
    let mut parked = None;
    if ending.waiter {
        // SAFETY: `complete` found a waiter, so the join handle does not use it any more.
        match unsafe { g.take_joiner() } {
            Joiner::Absent => {}
            Joiner::Parked(ticket) => parked = Some(ticket),
            Joiner::Polls(waker) => {
                call_waker(waker);
                again = true;
            }
        }
    }
    if again {
        end_rare(g, false);
        end_locals(g);
    }
    enter_for_good(|entered| parked.into_iter().for_each(|ticket| wake::wake_at_end(entered, ticket)));
    Stop::Done
}

/// Prepares the thread-locals that `g` has of its own, which are new. *Runs on: `g`, in user code.*
#[inline]
fn begin_locals(_g: OwnG) {
    #[cfg(feature = "other-budget")]
    // SAFETY: the G runs here, so it has a coroutine, which this thread alone uses.
    if unsafe { Coro::block_of(_g.shared()) }.is_some()
        // SAFETY: `G::begin` wrote what `as_runtime` gave. The runtime lives while a G of it runs.
        && let Some(around) = unsafe { (*_g.runtime().cast::<crate::run::sched::Sched>()).config.around_thread }
    {
        around(&mut || ());
    }
}

/// Runs the destructors of the thread-locals that a poll of `g` had of its own. The future keeps its values
/// and contexts. *Runs on: `g`, in user code.*
#[inline]
fn end_locals_of_poll(g: OwnG) {
    // SAFETY: `g` runs here, so it has a coroutine, which this thread alone uses.
    if let Some(block) = unsafe { Coro::block_of(g.shared()) } {
        block.end();
    }
}

/// How often destructors of thread-locals may make new values of the runtime's own variables, which make new
/// thread-locals.
const ROUNDS_AT_END: usize = 4;

/// Runs the destructors of the thread-locals that `g`, which is over, has of its own. After it, `g` has no
/// rare fields. *Runs on: `g`, in user code, after `end_rare`.*
#[inline]
fn end_locals(g: OwnG) {
    // SAFETY: `g` runs here, so it has a coroutine, which this thread alone uses.
    if let Some(block) = unsafe { Coro::block_of(g.shared()) } {
        block.end();
        for _ in 0..ROUNDS_AT_END {
            if g.rare().is_none() {
                return;
            }
            end_rare(g, false);
            block.end();
        }
        end_rare(g, false);
    }
}

/// Runs `f`, which runs destructors or other code of the user. Does not unwind. Reports a panic to the
/// simulation, if there is one.
pub(crate) fn contain(f: impl FnOnce()) -> bool {
    contain_then(f, tell_simulation)
}

/// Reports a panic that no thread will see to the simulation, if there is one.
fn tell_simulation(_payload: &(dyn Any + Send)) {
    if !_payload.is::<Cancelled>() {
        crate::run::simulated::lost_panic(_payload);
    }
}

/// Drops a value of the user. Does not unwind. Reports a panic to the simulation, if there is one.
fn drop_contained<T>(value: T) {
    contain(|| drop(value));
}

/// Drops a result of `g` that no thread will see. Does not unwind. Reports a panic to the simulation, if
/// there is one.
#[cold]
#[inline(never)]
pub(crate) fn drop_unseen<T>(g: GRef, result: thread::Result<T>) {
    match &result {
        Ok(_) => unpolled::check::<T>(g.place()),
        Err(payload) => tell_simulation(&**payload),
    }
    drop_contained(result);
}

/// Destroys the thread's own values and contexts. Their destructors are user code and run on the thread.
/// `returned`: the task has not unwound.
#[inline(always)]
fn end_rare(g: OwnG, returned: bool) {
    if g.rare().is_some() {
        end_values_and_contexts(g, returned);
    }
}

#[cold]
#[inline(never)]
fn end_values_and_contexts(g: OwnG, returned: bool) {
    let Some(rare) = g.rare() else { return };
    if returned && rare.unwound.get() {
        on_m(|m| m.sched().count_swallowed());
    }
    rare.locals.destroy();
    // The destructors of contexts may make new values and attach contexts again.
    while g.has_contexts() {
        contexts::end(g);
        rare.locals.destroy();
    }
    // SAFETY: the values and contexts are gone, and `rare` is not used below.
    drop(unsafe { g.take_rare() });
}

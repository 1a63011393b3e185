//! Making green threads.

#![allow(unsafe_code)]

use std::io;
use std::panic::Location;
use std::ptr;
use std::sync::Arc;

use crate::fork;
use crate::g::task::{self, After, Closure, Polled, Work};
use crate::g::{GRef, Status, table};
use crate::ids;
use crate::join::Join;
use crate::lend::{Entered, enter};
use crate::p::Held;
use crate::sched::Sched;

/// What a green thread is made with.
#[derive(Debug)]
pub struct Spec {
    /// Its name.
    pub name: Option<Box<str>>,
    /// The address space of its stack in bytes; `None` for the runtime's own.
    pub stack_bytes: Option<usize>,
    /// Where it was spawned.
    pub place: &'static Location<'static>,
}

impl Spec {
    /// An unnamed one with the usual stack.
    pub fn at(place: &'static Location<'static>) -> Spec {
        Spec { name: None, stack_bytes: None, place }
    }
}

/// In which runtime.
#[derive(Clone, Copy)]
pub enum Where<'s> {
    /// In that of the calling green thread, else in the one that the function gives, or its error is the spawn's.
    Here(fn() -> io::Result<&'s Arc<Sched>>),
    /// In this one.
    In(&'s Arc<Sched>),
}

/// Spawns a closure; `after` hears of its end. *Runs on: any thread.*
///
/// # Errors
/// No stack of the size asked for can be had, or none at all, or there is no memory for another green thread; or its
/// runtime cannot be started, or has been shut down.
///
/// # Safety
/// What the closure borrows must stay until it has ended (`'static` closures may be spawned by anyone).
#[inline]
pub unsafe fn closure<T, F: FnOnce() -> T>(
    at: Where<'_>,
    spec: Spec,
    work: F,
    after: impl After,
) -> io::Result<Join<T>> {
    let init = |g: GRef| set_closure(g, Work { work, after });
    // SAFETY: `init` leaves a task whose result is a `T`.
    spawn(at, spec, true, init).map(|g| unsafe { Join::new(g) })
}

/// Spawns a future, of whose end `after` hears: it is polled by a green thread of its own, on a stack that it has only while it is polled.
///
/// # Errors
/// As for [`closure`].
///
/// # Safety
/// As for [`closure`].
#[inline]
pub unsafe fn future<F: Future>(
    at: Where<'_>,
    spec: Spec,
    work: F,
    after: impl After,
) -> io::Result<Join<F::Output>> {
    let init = |g: GRef| set_future(g, Work { work, after });
    // SAFETY: `init` leaves a task whose result is the future's.
    spawn(at, spec, false, init).map(|g| unsafe { Join::new(g) })
}

#[inline]
fn set_closure<T, F: FnOnce() -> T, A: After>(g: GRef, work: Work<F, A>) {
    // SAFETY: a fresh G's payload is empty and ours.
    unsafe { task::put(g, work) };
    g.set_task(&Closure::<F, T, A>::TASK);
}

#[inline]
fn set_future<F: Future, A: After>(g: GRef, work: Work<F, A>) {
    // SAFETY: as in `set_closure`.
    unsafe { task::put(g, work) };
    g.set_task(&Polled::<F, A>::TASK);
    // All that it runs is polls of that future, and the destructors of the future and of its result.
    g.set_polls(true);
}

/// `keeps_stack`: from its first run to its end.
#[inline]
fn spawn(at: Where<'_>, spec: Spec, keeps_stack: bool, init: impl FnOnce(GRef)) -> io::Result<GRef> {
    match (enter(), at) {
        (Some(entered), Where::Here(_)) => spawn_here(entered, spec, keeps_stack, init),
        (Some(entered), Where::In(sched)) if ptr::eq(entered.m().sched, Arc::as_ptr(sched)) => {
            spawn_here(entered, spec, keeps_stack, init)
        }
        (entered, at) => {
            // In code of another runtime, or of none.
            drop(entered);
            match at {
                Where::Here(sched) => spawn_from_outside(sched()?, spec, keeps_stack, init),
                Where::In(sched) => spawn_from_outside(sched, spec, keeps_stack, init),
            }
        }
    }
}

/// *Runs on: an M of that runtime.*
#[inline]
fn spawn_here(entered: Entered, spec: Spec, keeps_stack: bool, init: impl FnOnce(GRef)) -> io::Result<GRef> {
    let (m, sched) = (entered.m(), entered.m().sched());
    let g = m.take_g()?;
    if let Err(error) = begin(sched, g, m.next_id(), spec, keeps_stack, || entered.held()) {
        m.give_g(g);
        // What `init` holds is the user's, and so is its destructor: that runs outside the runtime, after this.
        drop(entered);
        return Err(error);
    }
    init(g);
    sched.make_work(|| match entered.held() {
        Some(held) => held.counters.spawn(|| held.queue.put_fresh(g)),
        None => sched.closing.spawn_without_p(|| sched.global.push(g)),
    });
    Ok(g)
}

#[cold]
fn spawn_from_outside(
    sched: &Arc<Sched>,
    spec: Spec,
    keeps_stack: bool,
    init: impl FnOnce(GRef),
) -> io::Result<GRef> {
    fork::check()?;
    let Some(admitted) = sched.closing.enter_from_outside() else {
        return Err(io::Error::other("its runtime has been shut down"));
    };
    let g = table::take(0, |_| ())?;
    if let Err(error) = begin(sched, g, ids::single(), spec, keeps_stack, || None) {
        table::give([g]);
        return Err(error);
    }
    init(g);
    admitted.come();
    sched.make_work(|| sched.global.push(g));
    Ok(g)
}

/// Makes `g` a green thread of that runtime; `held` gives the P of this thread, if it has one. *Runs on: whoever took `g`
/// from the pool.*
#[inline]
fn begin<'p>(
    sched: &Sched,
    g: GRef,
    id: u64,
    spec: Spec,
    keeps_stack: bool,
    held: impl FnOnce() -> Option<Held<'p>>,
) -> io::Result<()> {
    // A stack that cannot be had is the spawner's to hear of: one that may be refused is taken now.
    if let Some(bytes) = spec.stack_bytes {
        let class = u32::try_from(bytes).map_err(|_| too_large(bytes))?;
        g.coro.set(sched.coros.take_odd(class)?);
    } else if keeps_stack && sched.coros.shortage.is_there() {
        g.coro.set(sched.stack_at_spawn(held())?.unwrap_or(ptr::null_mut()));
    }
    // SAFETY: it comes from the pool, so nobody else has a reference.
    unsafe { g.begin(sched, id, spec.place, spec.name) };
    g.life.begin();
    g.set_status(Status::Runnable);
    if sched.is_closing() {
        g.wait.cancel();
    }
    Ok(())
}

fn too_large(bytes: usize) -> io::Error {
    let text = format!("a stack of {bytes} bytes is too large: less than 4 GiB is allowed");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

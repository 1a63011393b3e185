//! Making green threads.

#![allow(unsafe_code)]

use std::io;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::g::task::{self, After, Closure, Polled, Work};
use crate::g::{GRef, Status, table};
use crate::ids;
use crate::join::Join;
use crate::lend::{Entered, enter};
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
    /// In that of the calling green thread, else in the one that the function gives.
    Here(fn() -> &'s Arc<Sched>),
    /// In this one.
    In(&'s Arc<Sched>),
}

/// Spawns a closure; `after` hears of its end. *Runs on: any thread.*
///
/// # Errors
/// No stack of the size asked for can be had.
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
    spawn(at, spec, init).map(|g| unsafe { Join::new(g) })
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
    spawn(at, spec, init).map(|g| unsafe { Join::new(g) })
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
}

#[inline]
fn spawn(at: Where<'_>, spec: Spec, init: impl FnOnce(GRef)) -> io::Result<GRef> {
    match (enter(), at) {
        (Some(entered), Where::Here(_)) => spawn_here(&entered, spec, init),
        (Some(entered), Where::In(sched)) if std::ptr::eq(entered.m().sched, Arc::as_ptr(sched)) => {
            spawn_here(&entered, spec, init)
        }
        (entered, at) => {
            // In code of another runtime, or of none.
            drop(entered);
            match at {
                Where::Here(sched) => spawn_from_outside(sched(), spec, init),
                Where::In(sched) => spawn_from_outside(sched, spec, init),
            }
        }
    }
}

/// *Runs on: an M of that runtime.*
#[inline]
fn spawn_here(entered: &Entered, spec: Spec, init: impl FnOnce(GRef)) -> io::Result<GRef> {
    let (m, sched) = (entered.m(), entered.m().sched());
    let g = m.take_g();
    if let Err(error) = begin(sched, g, m.next_id(), spec) {
        m.give_g(g);
        return Err(error);
    }
    init(g);
    match entered.held() {
        Some(held) => {
            held.counters.spawned.one();
            held.queue.put_fresh(g);
        }
        None => {
            sched.spawned.fetch_add(1, Ordering::Relaxed);
            sched.global.push(g);
        }
    }
    sched.work_was_made();
    Ok(g)
}

#[cold]
fn spawn_from_outside(sched: &Arc<Sched>, spec: Spec, init: impl FnOnce(GRef)) -> io::Result<GRef> {
    // SeqCst: counted first, then the look; `shut_down` seals first and then looks at the count.
    sched.spawned.fetch_add(1, Ordering::SeqCst);
    match take_from_outside(sched, spec) {
        Ok(g) => {
            init(g);
            sched.global.push(g);
            sched.work_was_made();
            Ok(g)
        }
        Err(error) => {
            sched.ended.fetch_add(1, Ordering::SeqCst);
            Err(error)
        }
    }
}

fn take_from_outside(sched: &Arc<Sched>, spec: Spec) -> io::Result<GRef> {
    if sched.sealed.load(Ordering::SeqCst) {
        return Err(io::Error::other("its runtime has been shut down"));
    }
    let mut fresh = Vec::with_capacity(1);
    table::take(1, &mut fresh);
    let g = fresh.pop().expect("one was asked for");
    match begin(sched, g, ids::single(), spec) {
        Ok(()) => Ok(g),
        Err(error) => {
            table::give([g]);
            Err(error)
        }
    }
}

/// Makes `g` a green thread of that runtime. *Runs on: whoever took `g` from the pool.*
#[inline]
fn begin(sched: &Sched, g: GRef, id: u64, spec: Spec) -> io::Result<()> {
    if let Some(bytes) = spec.stack_bytes {
        // A stack that cannot be had is the spawner's to hear of, so it is taken now.
        let class = u32::try_from(bytes).map_err(|_| too_large(bytes))?;
        g.coro.set(sched.coros.take_odd(class)?);
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

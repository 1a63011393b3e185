//! Spawning: makes a green thread of a closure or a future and puts it into a run queue.

#![allow(unsafe_code)]

use std::io;
use std::panic::Location;
use std::ptr;
use std::sync::Arc;

use crate::api::inherit;
use crate::api::join::Join;
use crate::api::point::{point_in_drop, unwind_at_end};
use crate::choices::simulation;
use crate::g::own::OwnG;
use crate::g::payload::put;
use crate::g::{GRef, Status, table};
use crate::m::current::{current_g, on_m};
use crate::notes::events::At;
use crate::p::Held;
use crate::run::boundary::{Entered, enter};
use crate::run::sched::Sched;
use crate::run::task::{After, Closure, Polled, Work};
use crate::stack::ALLOWED_STACK_BYTES;
use crate::sys::fork;

/// The particulars of a new green thread.
#[derive(Debug)]
pub struct Spec {
    /// The name, if there is one.
    pub name: Option<Box<str>>,
    /// The address space of its stack in bytes; `None` for the runtime's default.
    pub stack_bytes: Option<usize>,
    /// Where it is spawned.
    pub place: &'static Location<'static>,
}

impl Spec {
    /// Returns the particulars of an unnamed green thread with the default stack.
    pub fn at(place: &'static Location<'static>) -> Spec {
        Spec { name: None, stack_bytes: None, place }
    }
}

/// The runtime to spawn in.
#[derive(Clone, Copy)]
pub enum Where<'s> {
    /// The runtime of the calling green thread; without one, the runtime that the function returns. If the
    /// function fails, the spawn returns that error.
    Here(fn() -> io::Result<Arc<Sched>>),
    /// This runtime.
    In(&'s Arc<Sched>),
}

/// Spawns a closure. `after` is called when it has ended. *Runs on: any thread.*
///
/// # Errors
/// Returns an error if there is no memory for the green thread, no stack of the size asked for, or no stack
/// at all. Also returns one if its runtime cannot be started, or has been shut down.
///
/// # Safety
/// What the closure borrows stays valid until the green thread has ended. (Any caller may spawn `'static`
/// closures.)
#[inline]
pub unsafe fn closure<T, F: FnOnce() -> T>(
    at: Where<'_>,
    spec: Spec,
    work: F,
    after: impl After,
) -> io::Result<Join<T>> {
    let mut work = Some(Work { work, after });
    let needs = Needs { keeps_stack: true, moves: size_of::<F>() + size_of::<T>() };
    let g = spawn(at, spec, needs, &mut |g| set_closure::<T, F, _>(g, work.take()))?;
    // SAFETY: `set_closure` leaves a task with a result of type `T`, and this is the only `Join` of the G.
    Ok(unsafe { Join::new(g) })
}

/// Spawns a future. `after` is called when it has ended. A green thread of its own polls the future, and has
/// a stack only during a poll. *Runs on: any thread.*
///
/// # Errors
/// Returns an error if there is no memory for the green thread, no stack of the size asked for, or no stack
/// at all. Also returns one if its runtime cannot be started, or has been shut down.
///
/// # Safety
/// What the future borrows stays valid until the green thread has ended. (Any caller may spawn `'static`
/// futures.)
#[inline]
pub unsafe fn future<F: Future>(
    at: Where<'_>,
    spec: Spec,
    work: F,
    after: impl After,
) -> io::Result<Join<F::Output>> {
    let mut work = Some(Work { work, after });
    let needs = Needs { keeps_stack: false, moves: size_of::<F::Output>() };
    let g = spawn(at, spec, needs, &mut |g| set_future(g, work.take()))?;
    // SAFETY: `set_future` leaves a task with the future's output as its result, and this is the only `Join`
    // of the G.
    Ok(unsafe { Join::new(g) })
}

/// Gives a fresh G its closure. `spawn` calls it once, so there is one.
fn set_closure<T, F: FnOnce() -> T, A: After>(g: OwnG, work: Option<Work<F, A>>) {
    let Some(work) = work else { return };
    // SAFETY: the payload of a fresh G is empty and belongs to the spawner.
    unsafe { put(g.shared(), work) };
    g.set_task(&Closure::<F, T, A>::TASK);
}

/// Gives a fresh G its future. `spawn` calls it once, so there is one.
fn set_future<F: Future, A: After>(g: OwnG, work: Option<Work<F, A>>) {
    let Some(work) = work else { return };
    // SAFETY: the payload of a fresh G is empty and belongs to the spawner.
    unsafe { put(g.shared(), work) };
    g.set_task(&Polled::<F, A>::TASK);
    // The G runs only polls of this future, and the destructors of the future and of its result.
    g.set_polls(true);
}

/// What a task needs of its stack.
#[derive(Clone, Copy)]
struct Needs {
    /// The G has a stack from its first run to its end.
    keeps_stack: bool,
    /// The bytes of a closure and of a result, which move over the stack as a whole.
    moves: usize,
}

/// How many copies of a closure and its result may lie on the stack at a time. Code that was not optimized
/// makes some for each function that passes them on: twenty were not enough there.
const COPIES: usize = if cfg!(debug_assertions) { 40 } else { 8 };

impl Needs {
    /// Returns the size of a stack for this task, if it is not the default: what the spawner asked for, and
    /// room for large values.
    #[inline]
    fn stack_bytes(self, asked: Option<usize>, sched: &Sched) -> Option<usize> {
        // The least stack has room for small values. So most spawns look no further.
        if self.moves <= ALLOWED_STACK_BYTES.start() / (2 * COPIES) {
            return asked;
        }
        let (bytes, moves) = (asked.unwrap_or(sched.config.stack_bytes), self.moves.saturating_mul(COPIES));
        // A size that is not allowed is refused as it is.
        let needs_more = moves > bytes / 2 && ALLOWED_STACK_BYTES.contains(&bytes);
        if needs_more { Some(bytes.saturating_add(moves)) } else { asked }
    }
}

/// Sets the task of a fresh G, once. The value of the user that it holds is dropped by the caller of `spawn`,
/// outside the runtime, if `spawn` fails.
type Init<'i> = &'i mut dyn FnMut(OwnG);

/// Makes a G, has `init` set its task, and makes it runnable. The type of the task is unknown here, so that
/// this code is compiled once, and not for each closure of a program.
fn spawn(at: Where<'_>, spec: Spec, needs: Needs, init: Init<'_>) -> io::Result<GRef> {
    match (enter(), at) {
        (Some(entered), Where::Here(_)) => spawn_here(entered, spec, needs, init),
        (Some(entered), Where::In(sched)) if ptr::eq(entered.m().runtime, sched.as_runtime()) => {
            spawn_here(entered, spec, needs, init)
        }
        (entered, at) => {
            // The caller is in another runtime, or in none.
            drop(entered);
            match at {
                Where::Here(sched) => spawn_from_outside(&sched()?, spec, needs, init),
                Where::In(sched) => spawn_from_outside(sched, spec, needs, init),
            }
        }
    }
}

/// Spawns in the runtime of the calling green thread. *Runs on: an M of that runtime.*
#[inline]
fn spawn_here(entered: Entered, spec: Spec, needs: Needs, init: Init<'_>) -> io::Result<GRef> {
    match entered.m().running() {
        Some(parent) if parent.rare().is_some() => spawn_heir(parent, entered, spec, needs, init),
        _ => spawn_alone(entered, spec, needs, init),
    }
}

/// As `spawn_here`; the child inherits from `parent`, the caller, if there is anything to inherit. Apart, so
/// that other spawns pay nothing for it.
#[cold]
#[inline(never)]
fn spawn_heir(parent: OwnG, entered: Entered, spec: Spec, needs: Needs, init: Init<'_>) -> io::Result<GRef> {
    let (entered, simulated) = before_spawn(entered);
    let (entered, mut inherited) = inherit::inherit_here(parent, entered);
    let init = &mut |child: OwnG| {
        if let Some(inherited) = inherited.take() {
            on_m(|m| inherited.give(child, m.events())).expect("the spawner is in the runtime");
        }
        if simulated {
            simulation::begin_g(Some(parent.shared()), child);
        }
        init(child);
    };
    let spawned = spawn_alone(entered, spec, needs, init);
    if simulated {
        // Never unwinds: a green thread that borrows from the caller has a handle only when this function has
        // returned.
        point_in_drop();
    }
    spawned
}

/// Returns `true` if the caller belongs to a simulation. When that ends, a cancelled caller unwinds from
/// here.
fn before_spawn(entered: Entered) -> (Entered, bool) {
    if !entered.m().sched().is_simulated() {
        return (entered, false);
    }
    // The unwind is user code.
    drop(entered);
    unwind_at_end();
    (enter().expect("a green thread runs on an M"), true)
}

/// As `spawn_here`, without inheritance.
#[inline]
fn spawn_alone(entered: Entered, spec: Spec, needs: Needs, init: Init<'_>) -> io::Result<GRef> {
    let (m, sched) = (entered.m(), entered.m().sched());
    let g = m.own().unused.take()?;
    let ids = Ids { own: m.next_id(), parent: m.running().map_or(0, |g| g.id()) };
    if let Err(error) = begin(sched, g, ids, spec, needs, || entered.held()) {
        m.own().unused.give(g);
        return Err(error);
    }
    // SAFETY: the G comes from the pool, so this thread alone has it until the G lies in a run queue.
    init(unsafe { OwnG::new(g) });
    let publish = || match entered.held() {
        Some(held) => held.counters.spawn(|| {
            sched.events.on_spawned(At::P(held), g);
            held.queue.put_fresh(g);
        }),
        None => sched.closing.spawn_without_p(|| {
            sched.events.on_spawned(At::Outside, g);
            sched.global.push(g);
        }),
    };
    sched.idle.make_work(publish, || match entered.held() {
        Some(held) => sched.wake_for_one(held),
        None => sched.wake_idle_p(),
    });
    Ok(g)
}

#[cold]
fn spawn_from_outside(sched: &Arc<Sched>, spec: Spec, needs: Needs, init: Init<'_>) -> io::Result<GRef> {
    fork::check()?;
    let inherited = inherit::inherit_elsewhere();
    let Some(admitted) = sched.closing.enter_from_outside() else {
        return Err(io::Error::other("its runtime has been shut down"));
    };
    let g = table::take(0, |_| ())?;
    let ids = Ids { own: sched.take_ids(1), parent: current_g().map_or(0, |g| g.id()) };
    if let Err(error) = begin(sched, g, ids, spec, needs, || None) {
        table::give([g]);
        return Err(error);
    }
    // SAFETY: as in `spawn_alone`.
    let own = unsafe { OwnG::new(g) };
    if let Some(inherited) = inherited {
        inherited.give(own, &sched.events);
    }
    if sched.is_simulated() {
        simulation::begin_g(None, own);
    }
    init(own);
    admitted.commit();
    sched.events.on_spawned(At::Outside, g);
    sched.make_work(|| sched.global.push(g));
    Ok(g)
}

/// The ids of a new green thread and of the green thread that spawns it; 0 if none does.
struct Ids {
    own: u64,
    parent: u64,
}

/// Makes `g` a green thread of `sched`. `held` returns the P of this thread, if it has one. *Runs on: the
/// thread that took `g` from the pool.*
#[inline]
fn begin<'p>(
    sched: &Sched,
    g: GRef,
    ids: Ids,
    spec: Spec,
    needs: Needs,
    held: impl FnOnce() -> Option<Held<'p>>,
) -> io::Result<()> {
    // Where a stack may be refused, take it now, so that the spawner gets the error.
    if let Some(bytes) = needs.stack_bytes(spec.stack_bytes, sched) {
        let class = u32::try_from(bytes).map_err(|_| too_large(bytes))?;
        g.set_coro(sched.coros.take_sized(class)?);
    } else if needs.keeps_stack && sched.coros.shortage.is_there() {
        g.set_coro(sched.stack_at_spawn(held())?.unwrap_or(ptr::null_mut()));
    }
    // SAFETY: the G comes from the pool, so no other thread has a reference.
    unsafe { g.begin(sched.as_runtime(), ids.own, spec.place, spec.name, ids.parent) };
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

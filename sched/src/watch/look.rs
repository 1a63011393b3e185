//! A look at each green thread, for dumps: what it does, what it waits for, and its stack if it is parked. A
//! parked green thread is held while its stack is copied.

#![allow(unsafe_code)]

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use timers::clock;

use crate::api::simulation;
use crate::g::binding::Binding;
use crate::g::labels::Labels;
use crate::g::own::OwnG;
use crate::g::shares::period;
use crate::g::why::{Awaited, Why};
use crate::g::{G, GRef, Status, table};
use crate::m::activity::PARKS;
use crate::m::os_thread;
use crate::run::wake;
use crate::stack::saved::StackCopy;
use crate::sys::fork;
use crate::watch::ready::{Ready, Retained};

/// What a dump says of one green thread.
#[derive(Debug)]
pub struct Seen {
    /// Its id, which no other thread of the process ever has.
    pub id: u64,
    /// Its name, if it has one.
    pub name: Option<Box<str>>,
    /// What it does.
    pub does: Does,
    /// Where it was spawned.
    pub place: Option<&'static Location<'static>>,
    /// The return addresses on the stack of its spawner, the innermost first; none if they were not kept
    /// ([`SpawnStacks`](crate::SpawnStacks)).
    pub spawn_stack: Box<[usize]>,
    /// Its labels, if it has any.
    pub labels: Option<Arc<Labels>>,
    /// The id of the green thread that spawned it; `None` if it was spawned from outside the runtime.
    pub parent: Option<u64>,
    /// More about its wait, if it was found parked.
    pub parked: Option<Parked>,
}

/// What a green thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// It is in a run queue.
    Ready,
    /// It runs.
    Runs,
    /// It waits.
    Waits {
        /// What the wait is for.
        why: Why,
        /// About how long the wait has lasted, in ms.
        ms: u32,
    },
}

/// More about the wait of a parked green thread.
#[derive(Debug)]
pub struct Parked {
    /// The number of the wait. If a later look finds the same number, the green thread has not run in
    /// between.
    pub number: u32,
    /// The object of the wait, if it is known.
    pub on: Option<Awaited>,
    /// The time until the timer of the wait is due, if there is one.
    pub due_in: Option<Duration>,
    /// True if time alone may end the wait: it has a deadline, or lies in a stretch of code that ends with a
    /// context.
    pub may_end: bool,
    /// The shares of reader-writer locks that it has, if they were recorded: the address of the lock, as
    /// the lock has given it to [`shares::add`](crate::shares::add).
    pub shares: Vec<usize>,
    /// The type of the future that the green thread runs; `None` for a closure.
    pub future: Option<&'static str>,
    /// The return addresses on the stack at which its future waits, the innermost first; none if they are not
    /// kept.
    pub await_stack: Box<[usize]>,
}

/// Looks at each green thread of the process, and calls `tell` with what it found. If there is a `copy`, it
/// has the stack of a closure that is parked or ready during that call; the other calls get `None`. The green
/// threads run on during the look. A parked green thread is held only while its stack is copied, and a ready
/// one is not held. Calls `plain` with the id of each plain OS thread that has used the runtime.
///
/// # Errors
/// Fails in a forked child, which has none of its parent's green threads.
pub fn look_at_all(
    mut copy: Option<&mut StackCopy>,
    mut tell: impl FnMut(Seen, Option<&StackCopy>),
    mut plain: impl FnMut(u64),
) -> std::io::Result<()> {
    fork::check()?;
    let mut ready = Ready::default();
    for g in table::all() {
        // A reference first: while it is held, the place in the table stays with this G.
        if !g.life.try_retain() {
            continue;
        }
        let retained = Retained(g);
        if !g.is_green() {
            plain(g.id());
            continue;
        }
        match (look(g, copy.as_deref_mut()), copy.as_deref_mut()) {
            (Some((seen, false)), Some(copy)) if seen.does == Does::Ready && may_hold(g) => {
                if ready.add(retained, seen) {
                    ready.tell_all(copy, &mut tell);
                }
            }
            (Some((seen, copied)), copy) => {
                drop(retained);
                tell(seen, copy.as_deref().filter(|_| copied));
            }
            (None, _) => {}
        }
    }
    if let Some(copy) = copy {
        ready.tell_all(copy, &mut tell);
    }
    Ok(())
}

/// Looks at `g`. Also returns `true` if `copy` has its stack. *Runs on: a holder of a reference.*
pub(super) fn look(g: GRef, copy: Option<&mut StackCopy>) -> Option<(Seen, bool)> {
    if !g.is_green() {
        return None;
    }
    if !simulation::dump_includes(g) {
        return None;
    }
    let (does, parked, copied) = if may_hold(g) && g.wait.hold() {
        let held = Held(g);
        (Some(waits(g)), Some(held.look()), copy.is_some_and(|copy| copy_stack(g, copy)))
    } else {
        (does(g), None, false)
    };
    let name = g.name().map(Box::from);
    let (place, parent, spawn_stack) = (g.place(), g.origin.parent(), g.origin.stack().into());
    let labels = g.origin.labels();
    let seen = Seen { id: g.id(), name, does: does?, place, spawn_stack, labels, parent, parked };
    Some((seen, copied))
}

/// Returns `false` if a thread other than that of a dump has to make `g` ready.
fn may_hold(g: GRef) -> bool {
    simulation::may_hold(g)
}

/// Copies the stack of `g` if it has one. *Runs on: the thread that holds `g`.*
fn copy_stack(g: &G, copy: &mut StackCopy) -> bool {
    let coro = g.coro();
    // A G that waits in place is on its stack.
    if coro.is_null() || g.binding.get() == Binding::InPlace {
        return false;
    }
    // SAFETY: `Wait::hold` keeps every waker from making `g` runnable, and `g` is off its stack, so no thread
    // runs on its coroutine. A runtime with a living G keeps its stacks mapped.
    unsafe { copy.fill(coro) }
}

/// Holds a parked G; the drop lets it go.
struct Held(GRef);

impl Held {
    fn look(&self) -> Parked {
        let g = self.0;
        let (_, timed) = g.waits_for();
        let due = if timed { g.timer.due() } else { None };
        // SAFETY: the G cannot run while it is held, so its own fields are the holder's: its commit has
        // published them (`Wait::hold`).
        let own = unsafe { OwnG::new(g) };
        let in_stretch = own.rare().is_some_and(|rare| rare.revocables.is_any());
        // SAFETY: a waiter keeps the `On` in its frame until its wait has ended, and what the `On` refers to
        // (`begin_on`). The waiter is parked in that wait and held.
        let on = unsafe { g.waits_on().as_ref().and_then(|on| on.look()) };
        Parked {
            number: g.wait.number(),
            on,
            due_in: due.map(|due| Duration::from_nanos(due.saturating_sub(clock::now()))),
            may_end: timed || in_stretch,
            shares: own
                .rare()
                .map(|rare| rare.shares.borrow().in_period(period()).to_vec())
                .unwrap_or_default(),
            future: (g.task().future)(),
            await_stack: own.rare().map(|rare| rare.await_stack.borrow().clone()).unwrap_or_default(),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.0.wait.commit() {
            wake::ready_after_hold(self.0);
        }
    }
}

fn does(g: &G) -> Option<Does> {
    match g.status() {
        Status::Idle | Status::Dead => None,
        Status::Runnable => Some(Does::Ready),
        Status::Running => Some(Does::Runs),
        Status::Waiting => Some(waits(g)),
    }
}

fn waits(g: &G) -> Does {
    Does::Waits { why: g.waits_for().0, ms: g.waits_for_ms() }
}

/// Runs `wait` for a plain OS thread that waits for a request of a dump. Until `wait` returns, the thread
/// hides no deadlock.
pub fn at_rest<T>(wait: impl FnOnce() -> T) -> T {
    os_thread::note_main_thread();
    PARKS.around(wait)
}

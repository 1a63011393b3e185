//! The looks that make a dump: what each green thread does, what it waits for, and its stack if it is parked.

#![allow(unsafe_code)]

use std::fmt;
use std::panic::Location;
use std::sync::OnceLock;

use crate::g::binding::Binding;
use crate::g::{G, GRef, Status, table};
use crate::m::activity::PARKS;
use crate::m::release::release;
use crate::run::wake;
use crate::stack::saved::StackCopy;
use crate::sys::fork;

/// What a dump tells of one green thread.
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
        /// What the wait is for, in words.
        why: &'static str,
        /// About how long the wait has lasted, in ms.
        ms: u32,
    },
}

/// Looks at each green thread of the process, and calls `tell` with what it found. If there is a `copy`, it has the stack of a
/// parked closure during that call; the other calls get `None`. The green threads run on meanwhile: a parked green thread is held
/// while its stack is copied, no longer.
///
/// # Errors
/// Fails in a forked child, which has none of its parent's green threads.
pub fn look_at_all(
    mut copy: Option<&mut StackCopy>,
    mut tell: impl FnMut(Seen, Option<&StackCopy>),
) -> std::io::Result<()> {
    fork::check()?;
    for g in table::all() {
        // A reference first: while it is held, the place in the table stays with this G.
        if g.life.try_retain() {
            let seen = look(g, copy.as_deref_mut());
            release(g);
            if let Some((seen, copied)) = seen {
                tell(seen, copy.as_deref().filter(|_| copied));
            }
        }
    }
    Ok(())
}

/// Looks at `g`. Also returns `true` if `copy` has its stack. *Runs on: a holder of a reference.*
fn look(g: GRef, copy: Option<&mut StackCopy>) -> Option<(Seen, bool)> {
    if !g.is_green() {
        return None;
    }
    let (does, copied) = match copy {
        Some(copy) if g.wait.hold() => {
            let _held = Held(g);
            (does(g), copy_stack(g, copy))
        }
        _ => (does(g), false),
    };
    let name = g.name().map(Box::from);
    Some((Seen { id: g.id(), name, does: does?, place: g.place() }, copied))
}

/// Copies the stack of `g` if it has one. *Runs on: the thread that holds `g`.*
fn copy_stack(g: &G, copy: &mut StackCopy) -> bool {
    let coro = g.coro();
    // A G that waits in place is on its stack.
    if coro.is_null() || g.binding.get() == Binding::InPlace {
        return false;
    }
    // SAFETY: `Wait::hold` keeps every waker from making `g` runnable, and `g` is off its stack, so no thread runs on its
    // coroutine. A runtime with a living G keeps its stacks mapped.
    unsafe { copy.fill(coro) }
}

/// Holds a parked G; the drop lets it go.
struct Held(GRef);

impl Drop for Held {
    fn drop(&mut self) {
        if !self.0.wait.commit() {
            wake::ready(self.0);
        }
    }
}

fn does(g: &G) -> Option<Does> {
    match g.status() {
        Status::Idle | Status::Dead => None,
        Status::Runnable => Some(Does::Ready),
        Status::Running => Some(Does::Runs),
        Status::Waiting => {
            let (why, ms) = g.wait_in_words();
            Some(Does::Waits { why, ms })
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "green thread {}", self.id)?;
        if let Some(name) = &self.name {
            write!(f, " '{name}'")?;
        }
        write!(f, ": {}", self.does)?;
        match self.place {
            Some(place) => write!(f, ", spawned at {place}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Does {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Does::Ready => f.write_str("ready to run"),
            Does::Runs => f.write_str("running"),
            Does::Waits { why, ms: ms @ 0..1000 } => write!(f, "waits for {why}, for {ms} ms"),
            Does::Waits { why, ms } => write!(f, "waits for {why}, for {} s", ms / 1000),
        }
    }
}

/// Runs `wait` for a plain OS thread that waits for a request of a dump. Until `wait` returns, the thread hides no deadlock.
pub fn at_rest<T>(wait: impl FnOnce() -> T) -> T {
    PARKS.around(wait)
}

static REPORT: OnceLock<fn() -> String> = OnceLock::new();

/// Sets the function that writes a dump for the report of a deadlock. The first call counts.
pub fn set_report(report: fn() -> String) {
    let _ = REPORT.set(report);
}

/// Returns a dump as text; empty if no function writes it.
pub(crate) fn report() -> String {
    REPORT.get().map(|report| report()).unwrap_or_default()
}

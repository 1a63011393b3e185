//! When the contexts of a G are saved and restored (`g/contexts.rs`), and what a child inherits.
//!
//! ```text
//!   the G parks, yields; a poll of its future is over     save       the OS thread is clean for other Gs
//!   the G resumes; its future is polled again             restore
//!   the G begins                                          restore    what it has inherited
//!   the G ends                                            save, and drop what was saved
//!   the G waits in place                                  nothing    no other G runs on the OS thread
//! ```
//!
//! A G with contexts has a bit in `G::keeps`, so that it takes the slow path where other Gs switch at once.
//! So other Gs pay nothing.
//!
//! Saving and restoring is user code, in the middle of a wait: the G has armed the wait, and its wakers may
//! decide it. A second wait of the same G would lose the first. So the hooks run without a G
//! (`M::run_hooks`): where they wait, the OS thread waits. The P is lent, so sysmon takes it from a hook that
//! blocks.

use crate::g::G;
use crate::g::contexts::{self, Contexts};
use crate::g::locals::Locals;
use crate::g::own::OwnG;
use crate::m::current::{current_g, on_m};
use crate::m::os_thread;
use crate::run::boundary::{Entered, enter};

/// Runs `hooks` of `g`, the running G. *Runs on: `g`, in user code.*
fn run_hooks(g: OwnG, hooks: impl FnOnce(&Contexts)) {
    let Some(rare) = g.rare() else { return };
    on_m(|m| m.run_hooks(g, || hooks(&rare.contexts)));
}

/// Restores what `g` has inherited. *Runs on: `g`, in user code, before its task.*
#[cold]
pub(crate) fn begin(g: OwnG) {
    attach_slots_for_all(g);
    restore(g);
}

/// Saves the contexts of `g`. *Runs on: `g`, in user code, before it leaves its OS thread.*
#[cold]
pub(crate) fn save(g: OwnG) {
    run_hooks(g, Contexts::save);
}

/// Restores the contexts of `g`. *Runs on: `g`, in user code, on the OS thread where it goes on.*
#[cold]
pub(crate) fn restore(g: OwnG) {
    run_hooks(g, Contexts::restore);
}

/// Saves and drops the contexts of `g`, which has ended. Dropping them is user code. *Runs on: `g`, in user
/// code.*
#[cold]
pub(crate) fn end(g: OwnG) {
    save(g);
    g.set_has_contexts(false);
    let Some(rare) = g.rare() else { return };
    drop(rare.contexts.take());
}

/// Attaches the slots that every thread has to `g`, unless `g` has slots.
fn attach_slots_for_all(g: OwnG) {
    if g.rare().is_none_or(|rare| rare.contexts.is_empty()) {
        contexts::for_all().into_iter().for_each(|slot| g.rare_or_new().contexts.attach(slot));
    }
}

/// What a child begins with.
pub(crate) struct Inherited {
    locals: Locals,
    contexts: Contexts,
}

/// Returns what a child of the calling G inherits, and enters the runtime again. *Runs on: a G that has rare
/// fields.*
#[cold]
pub(crate) fn inherit_here(parent: OwnG, entered: Entered) -> (Entered, Option<Inherited>) {
    drop(entered);
    let inherited = inherit(parent);
    (enter().expect("a green thread runs on an M"), inherited)
}

/// Returns what a child inherits that the calling thread spawns into another runtime. *Runs on: any thread,
/// in user code.*
pub(crate) fn inherit_elsewhere() -> Option<Inherited> {
    if let Some(g) = current_g() {
        return inherit(g);
    }
    if on_m(|_| ()).is_some() {
        // Hooks and code on an M's own stack have no slots.
        return None;
    }
    if !G::new_ones_have_contexts() {
        return inherit(os_thread::proxy_g_if_any()?);
    }
    let g = os_thread::proxy_g();
    g.set_has_contexts(true);
    attach_slots_for_all(g);
    inherit(g)
}

/// Returns what a child of `parent` inherits. *Runs on: `parent`, or the plain OS thread for which `parent`
/// stands, in user code.*
fn inherit(parent: OwnG) -> Option<Inherited> {
    let rare = parent.rare()?;
    let mut contexts = Contexts::default();
    if parent.has_contexts() {
        match parent.is_green() {
            true => run_hooks(parent, |parents| contexts = parents.inherited()),
            false => contexts = rare.contexts.inherited(),
        }
    }
    let locals = if rare.locals.any_inherited() { rare.locals.inherited() } else { Locals::new() };
    let any = !contexts.is_empty() || locals.any_inherited();
    any.then_some(Inherited { locals, contexts })
}

impl Inherited {
    /// Gives this to `child`. *Runs on: the spawner of `child`, which has just begun its life.*
    pub(crate) fn give(self, child: OwnG) {
        if !self.contexts.is_empty() {
            child.set_has_contexts(true);
            contexts::for_all().into_iter().for_each(|slot| self.contexts.attach(slot));
        }
        // The copies of values were moved here from the spawner: their types are `Send` (`locals::Copy`), and
        // so are carriers.
        child.begin_rare(self.locals, self.contexts);
    }
}

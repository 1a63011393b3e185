//! When the contexts of a G are saved and restored (`g/contexts.rs`). `api/inherit.rs` says what a child
//! inherits.
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

use crate::g::contexts::{self, Contexts};
use crate::g::own::OwnG;
use crate::m::current::on_m;

/// Runs `hooks` of `g`, the running G. *Runs on: `g`, in user code.*
pub(crate) fn run_hooks(g: OwnG, hooks: impl FnOnce(&Contexts)) {
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
pub(crate) fn attach_slots_for_all(g: OwnG) {
    if g.rare().is_none_or(|rare| rare.contexts.is_empty()) {
        contexts::for_all().into_iter().for_each(|slot| g.rare_or_new().contexts.attach(slot));
    }
}

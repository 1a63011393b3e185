//! What a child inherits from its spawner: values of thread-locals, contexts (`run/contexts.rs`) and labels.

use std::sync::Arc;

use crate::g::G;
use crate::g::contexts::{self, Contexts};
use crate::g::labels::Labels;
use crate::g::locals::Locals;
use crate::g::own::OwnG;
use crate::m::current::{current_g, on_m};
use crate::m::os_thread;
use crate::notes::events::Events;
use crate::run::boundary::{Entered, enter};
use crate::run::contexts::{attach_slots_for_all, run_hooks};

/// What a child begins with.
pub(crate) struct Inherited {
    locals: Locals,
    contexts: Contexts,
    labels: Option<Arc<Labels>>,
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
    let labels = parent.origin.labels();
    let any = !contexts.is_empty() || locals.any_inherited() || labels.is_some();
    any.then_some(Inherited { locals, contexts, labels })
}

impl Inherited {
    /// Gives this to `child`. `events` are those of its runtime. *Runs on: the spawner of `child`, which has
    /// just begun its life.*
    pub(crate) fn give(self, child: OwnG, events: &Events) {
        if !self.contexts.is_empty() {
            child.set_has_contexts(true);
            contexts::for_all().into_iter().for_each(|slot| self.contexts.attach(slot));
        }
        // The copies of values were moved here from the spawner: their types are `Send` (`locals::Copy`), and
        // so are carriers.
        child.begin_rare(self.locals, self.contexts);
        if self.labels.is_some() {
            events.on_labels(child.shared(), self.labels.as_deref());
            child.origin.set_labels(self.labels);
        }
    }
}

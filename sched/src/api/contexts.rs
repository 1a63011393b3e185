//! Attaching slots of contexts to the calling thread, or to every green thread.
//!
//! A plain OS thread keeps its context to itself. It has slots only for the green threads that it spawns,
//! which may inherit.

pub use crate::g::contexts::{Carrier, Slot};

use crate::api::park::me;
use crate::g::G;
use crate::m::current::{current_g, on_m};

/// Returns `true` if the calling thread has slots. Hooks and code on an M's own stack have none.
fn has_slots() -> bool {
    current_g().is_some() || on_m(|_| ()).is_none()
}

/// Attaches `slot` to the calling thread, unless it is attached. From now on the thread's context of that
/// kind follows it, or is inherited from it. Does nothing in a hook.
pub fn attach(slot: &'static dyn Slot) {
    if has_slots() {
        let g = me();
        g.rare_or_new().contexts.attach(slot);
        g.set_has_contexts(true);
    }
}

/// Detaches `slot` from the calling thread. The context that is on this OS thread stays there. Does nothing
/// in a hook.
pub fn detach(slot: &'static dyn Slot) {
    if has_slots()
        && let Some(rare) = me().rare()
    {
        let any = rare.contexts.detach(slot);
        me().set_has_contexts(any);
    }
}

/// Returns `true` if `slot` is attached to the calling thread.
pub fn is_attached(slot: &'static dyn Slot) -> bool {
    has_slots() && me().rare().is_some_and(|rare| rare.contexts.has(slot))
}

/// Attaches `slot` to every green thread that is spawned from now on, in every runtime.
pub fn attach_to_all(slot: &'static dyn Slot) {
    G::attach_to_all(slot);
}

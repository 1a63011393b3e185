//! `Contexts`: what follows one G from OS thread to OS thread. Code that keeps a context in its OS thread
//! attaches a *slot*. Its *carrier* then takes the context off the OS thread where the G stops, keeps it, and
//! puts it back where the G goes on.
//!
//! This file keeps the carriers of a G, and the slots that every new G gets. `run/contexts.rs` says when they
//! are called.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::sync::Mutex;
use crate::sys::catch_panic::contain;

/// Carries one context of one G. All functions are user code; each runs on an OS thread where the G has
/// control.
pub trait Carrier: Send {
    /// Takes the context off this OS thread and keeps it.
    fn save(&mut self);
    /// Puts the kept context, if there is one, onto this OS thread.
    fn restore(&mut self);
    /// Returns the carrier of a G that this G is about to spawn, with the context that the child begins with.
    /// Returns `None` if the child gets no such context.
    fn inherit(&self) -> Option<Box<dyn Carrier>>;
}

/// A kind of context. The address of a slot is its identity.
pub trait Slot: Sync {
    /// Returns a carrier that keeps no context yet.
    fn carrier(&'static self) -> Box<dyn Carrier>;
}

fn key(slot: &'static dyn Slot) -> usize {
    std::ptr::from_ref(slot).addr()
}

struct Attached {
    key: usize,
    /// False after a detach: the carrier stays for the next attach, and is not called.
    on: bool,
    carrier: Box<dyn Carrier>,
}

/// The attached slots of one G, the first attached first. Only the thread itself uses them.
#[derive(Default)]
pub(crate) struct Contexts(RefCell<Vec<Attached>>);

impl Contexts {
    /// Attaches `slot`, unless it is attached. The latest attached slot is saved first.
    pub(crate) fn attach(&self, slot: &'static dyn Slot) {
        let mut all = self.0.borrow_mut();
        let found = all.iter().position(|attached| attached.key == key(slot));
        let attached = match found {
            Some(at) if all[at].on => return,
            Some(at) => Attached { on: true, ..all.remove(at) },
            None => Attached { key: key(slot), on: true, carrier: slot.carrier() },
        };
        all.push(attached);
    }

    /// Detaches `slot`. Returns `true` if another slot is still attached.
    pub(crate) fn detach(&self, slot: &'static dyn Slot) -> bool {
        let mut all = self.0.borrow_mut();
        all.iter_mut().filter(|attached| attached.key == key(slot)).for_each(|attached| attached.on = false);
        all.iter().any(|attached| attached.on)
    }

    /// Returns `true` if `slot` is attached.
    pub(crate) fn has(&self, slot: &'static dyn Slot) -> bool {
        self.0.borrow().iter().any(|attached| attached.on && attached.key == key(slot))
    }

    /// Saves the contexts of all attached slots, the latest first. A slot that panics keeps none.
    pub(crate) fn save(&self) {
        for attached in self.0.borrow_mut().iter_mut().rev().filter(|attached| attached.on) {
            contain(|| attached.carrier.save());
        }
    }

    /// Restores the contexts of all attached slots, in the order in which they were attached.
    pub(crate) fn restore(&self) {
        for attached in self.0.borrow_mut().iter_mut().filter(|attached| attached.on) {
            contain(|| attached.carrier.restore());
        }
    }

    /// Returns what a child of this G begins with.
    pub(crate) fn inherited(&self) -> Contexts {
        let parents = self.0.borrow();
        let on = parents.iter().filter(|parent| parent.on);
        let children = on.filter_map(|Attached { key, carrier, .. }| {
            let mut child = None;
            contain(|| child = carrier.inherit());
            Some(Attached { key: *key, on: true, carrier: child? })
        });
        Contexts(RefCell::new(children.collect()))
    }

    /// Takes everything out.
    pub(crate) fn take(&self) -> Contexts {
        Contexts(RefCell::new(self.0.take()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}

impl Drop for Contexts {
    fn drop(&mut self) {
        self.0.get_mut().drain(..).for_each(|attached| _ = contain(|| drop(attached)));
    }
}

/// The slots of every new G.
static FOR_ALL: Mutex<Vec<&'static dyn Slot>> = Mutex::new(Vec::new());

/// `G::keeps` of a new G.
static KEEPS_OF_NEW: AtomicU8 = AtomicU8::new(0);

/// Attaches `slot` to each G that begins from now on. The caller marks these Gs afterwards.
pub(crate) fn attach_to_all(slot: &'static dyn Slot) {
    let mut all = FOR_ALL.lock();
    if !all.iter().any(|other| key(*other) == key(slot)) {
        all.push(slot);
    }
}

/// Adds `keeps` to `G::keeps` of each G that begins from now on.
pub(crate) fn mark_new(keeps: u8) {
    // Relaxed: a thread that spawns a G after this call is ordered after it by other means.
    KEEPS_OF_NEW.fetch_or(keeps, Ordering::Relaxed);
}

/// Ends `mark_new`.
pub(crate) fn unmark_new(keeps: u8) {
    // Relaxed: as in `mark_new`. A G that is marked without need only takes a longer way.
    KEEPS_OF_NEW.fetch_and(!keeps, Ordering::Relaxed);
}

/// Returns `G::keeps` of a new G.
#[inline]
pub(crate) fn keeps_of_new() -> u8 {
    KEEPS_OF_NEW.load(Ordering::Relaxed)
}

/// Returns the slots of every new G.
pub(crate) fn for_all() -> Vec<&'static dyn Slot> {
    FOR_ALL.lock().clone()
}

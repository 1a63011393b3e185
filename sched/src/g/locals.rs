//! `Locals`: the thread-local values of one G or one proxy G, by the address of their key. `destroy` runs the
//! destructors at the thread's end. `api/locals.rs` finds and makes values.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use crate::sys::catch_panic::contain;

/// The values of one thread, by the address of their key. Few threads have any, and those have few.
pub(crate) struct Locals {
    values: RefCell<Vec<(usize, Slot)>>,
}

/// One value.
#[derive(Clone)]
pub(crate) enum Slot {
    Alive(Rc<dyn Any>),
    /// The destructor of the value has begun.
    Gone,
}

impl Locals {
    pub(crate) fn new() -> Self {
        Locals { values: RefCell::new(Vec::new()) }
    }

    /// Runs destructors until no value is left; a destructor may make new values. *Runs on: the thread, at its end.*
    pub(crate) fn destroy(&self) {
        loop {
            let mut values = self.values.borrow_mut();
            let last = values.iter_mut().rev().find(|(_, slot)| matches!(slot, Slot::Alive(_)));
            let Some((_, slot)) = last else { return };
            let Slot::Alive(value) = std::mem::replace(slot, Slot::Gone) else { return };
            drop(values);
            // A destructor that panics does not keep the others from running.
            contain(|| drop(value));
        }
    }

    /// Returns the value of `key`, or `Slot::Gone` in its place.
    pub(crate) fn find(&self, key: usize) -> Option<Slot> {
        self.values.borrow().iter().find(|(k, _)| *k == key).map(|(_, slot)| slot.clone())
    }

    /// Adds the value of `key`, of which there is none.
    pub(crate) fn add(&self, key: usize, value: Rc<dyn Any>) {
        self.values.borrow_mut().push((key, Slot::Alive(value)));
    }
}

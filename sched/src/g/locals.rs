//! `Locals`: the thread-local values of one G or one proxy G, by the address of their key. `destroy` runs the
//! destructors at the thread's end. `api/locals.rs` finds and makes values.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use crate::sys::catch_panic::contain;

/// Returns a copy of a value for a child. Only the child has a reference to the copy, and the type of the
/// copy is `Send`.
pub type Copy = fn(&dyn Any) -> Rc<dyn Any>;

/// The values of one thread, by the address of their key. Few threads have any, and those have few.
pub(crate) struct Locals {
    values: RefCell<Vec<(usize, Slot)>>,
}

/// One value.
#[derive(Clone)]
pub(crate) enum Slot {
    /// The value. A value that children inherit comes with the function that copies it.
    Alive(Rc<dyn Any>, Option<Copy>),
    /// The destructor of the value has begun.
    Gone,
}

impl Locals {
    pub(crate) fn new() -> Self {
        Locals { values: RefCell::new(Vec::new()) }
    }

    /// Runs destructors until no value is left; a destructor may make new values. *Runs on: the thread, at
    /// its end.*
    pub(crate) fn destroy(&self) {
        loop {
            let mut values = self.values.borrow_mut();
            let last = values.iter_mut().rev().find(|(_, slot)| matches!(slot, Slot::Alive(..)));
            let Some((_, slot)) = last else { return };
            let Slot::Alive(value, _) = std::mem::replace(slot, Slot::Gone) else { return };
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
    pub(crate) fn add(&self, key: usize, value: Rc<dyn Any>, copy: Option<Copy>) {
        self.values.borrow_mut().push((key, Slot::Alive(value, copy)));
    }

    /// Returns the values that a child begins with. Copying a value is user code, and may use this thread's
    /// values.
    pub(crate) fn inherited(&self) -> Locals {
        let parents = self.values.borrow().clone();
        let children = parents.into_iter().filter_map(|(key, slot)| match slot {
            Slot::Alive(value, Some(copy)) => Some((key, Slot::Alive(copy(&*value), Some(copy)))),
            _ => None,
        });
        Locals { values: RefCell::new(children.collect()) }
    }

    /// Returns `true` if a child inherits a value.
    pub(crate) fn any_inherited(&self) -> bool {
        self.values.borrow().iter().any(|(_, slot)| matches!(slot, Slot::Alive(_, Some(_))))
    }
}

/// Copies for a child that could not be spawned are dropped by the spawner.
impl Drop for Locals {
    fn drop(&mut self) {
        self.destroy();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct Panics;

    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("the destructor of a value");
        }
    }

    struct Counts(Rc<Cell<u32>>);

    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn values_of_a_child_that_was_not_spawned_are_destroyed_and_their_panics_contained() {
        let dropped = Rc::new(Cell::new(0));
        let locals = Locals::new();
        locals.add(1, Rc::new(Counts(dropped.clone())), None);
        locals.add(2, Rc::new(Panics), None);
        locals.add(3, Rc::new(Counts(dropped.clone())), None);
        drop(locals);
        assert_eq!(dropped.get(), 2);
    }
}

//! Values that belong to one green thread: `thread_local!` of the runtime. A plain thread keeps them in its face.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use crate::contain::contain;
use crate::{lend, outside, park};

/// The values of one thread, by the address of their key. Few threads have any, and those that do have few.
pub(crate) struct Locals {
    values: RefCell<Vec<(usize, Slot)>>,
}

enum Slot {
    Alive(Rc<dyn Any>),
    /// Its destructor has begun.
    Gone,
}

/// The value is being destroyed, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl Locals {
    pub(crate) fn new() -> Self {
        Locals { values: RefCell::new(Vec::new()) }
    }

    /// Runs destructors until no value is left, for a destructor may make new ones. *Runs on: the thread, at its end.*
    pub(crate) fn destroy(&self) {
        loop {
            let mut values = self.values.borrow_mut();
            let last = values.iter_mut().rev().find(|(_, slot)| matches!(slot, Slot::Alive(_)));
            let Some((_, slot)) = last else { return };
            let Slot::Alive(value) = std::mem::replace(slot, Slot::Gone) else { return };
            drop(values);
            // One that panics does not keep the others from running.
            contain(|| drop(value));
        }
    }
}

/// The calling thread's value of the key at `key`, made by `init` if it has none.
///
/// # Errors
/// The thread is ending and the value is gone.
pub fn get<T: 'static>(key: usize, init: impl FnOnce() -> T) -> Result<Rc<T>, Gone> {
    if lend::current_g().is_none() && outside::is_over() {
        return Err(Gone);
    }
    if let Some(slot) = find(key) {
        return slot.map(downcast);
    }
    // Not while the values are borrowed: `init` may use other keys, and even this one.
    let value: Rc<T> = Rc::new(init());
    let values = &park::me().rare_or_new().locals.values;
    if let Some(slot) = find(key) {
        // It did; as in std the first value that was stored is the one.
        return slot.map(downcast);
    }
    values.borrow_mut().push((key, Slot::Alive(value.clone())));
    Ok(value)
}

fn find(key: usize) -> Option<Result<Rc<dyn Any>, Gone>> {
    let values = park::me().rare()?.locals.values.borrow();
    values.iter().find(|(k, _)| *k == key).map(|(_, slot)| match slot {
        Slot::Alive(value) => Ok(value.clone()),
        Slot::Gone => Err(Gone),
    })
}

fn downcast<T: 'static>(value: Rc<dyn Any>) -> Rc<T> {
    value.downcast().unwrap_or_else(|_| unreachable!("a key has one type"))
}

//! Where a G comes from: the place of its spawn, its name, and its parent.
//!
//! A G has little room. Most Gs have no name, so the place alone takes one word. A named G has a box with both, and that word
//! points to the box; its lowest bit tells the two apart.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::mem::offset_of;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// In the address: it leads to a `Named`.
const NAMED: usize = 1;
const _: () = assert!(align_of::<Location<'static>>() > NAMED && align_of::<Named>() > NAMED);

/// The origin of one G. It changes only while the G has no reference.
pub(crate) struct Origin {
    /// Null, a `&'static Location`, or a `Box<Named>` with the bit `NAMED`.
    word: Cell<*const ()>,
    /// The id of the thread that spawned the G; 0 if none is known.
    parent: AtomicU64,
}

#[repr(C)]
struct Named {
    place: &'static Location<'static>,
    name: Box<str>,
}

#[allow(dead_code, reason = "read where debuggers are served: g/layout.rs")]
impl Origin {
    /// Where the word lies in an `Origin`, and what it leads to in a `Named`, for debuggers.
    pub(crate) const WORD: usize = offset_of!(Origin, word);
    pub(crate) const PLACE: usize = offset_of!(Named, place);
    pub(crate) const NAME: usize = offset_of!(Named, name);
}

impl Origin {
    pub(crate) const fn new() -> Origin {
        Origin { word: Cell::new(ptr::null()), parent: AtomicU64::new(0) }
    }

    /// Sets the origin of a G that begins. *Runs on: the spawner, before another thread knows the G, and after `forget`.*
    #[inline]
    pub(crate) fn begin(&self, place: &'static Location<'static>, name: Option<Box<str>>, parent: u64) {
        let word = match name {
            None => ptr::from_ref(place).cast(),
            Some(name) => {
                Box::into_raw(Box::new(Named { place, name })).map_addr(|a| a | NAMED).cast_const().cast()
            }
        };
        self.word.set(word);
        // Relaxed: `Life::begin` publishes it.
        self.parent.store(parent, Ordering::Relaxed);
    }

    /// Drops the name. *Runs on: the thread that gave the last reference to the G up.*
    #[inline]
    pub(crate) fn forget(&self) {
        let word = self.word.get();
        if word.addr() & NAMED != 0 {
            // SAFETY: `begin` made the pointer from a box. Only this word leads to the box, and no thread has a reference into it: the
            // caller has given up the last reference to the G.
            let named = unsafe { Box::from_raw(word.map_addr(|a| a & !NAMED).cast::<Named>().cast_mut()) };
            self.word.set(ptr::from_ref(named.place).cast());
        }
    }

    fn named(&self) -> Option<&Named> {
        let word = self.word.get();
        // SAFETY: a word with this bit is the address of a box of a `Named`, plus the bit. Only `forget` drops the box, when no
        // other thread has a reference to the G.
        (word.addr() & NAMED != 0).then(|| unsafe { &*word.map_addr(|a| a & !NAMED).cast::<Named>() })
    }

    /// Returns the place of the spawn. *Runs on: a holder of a reference.*
    pub(crate) fn place(&self) -> Option<&'static Location<'static>> {
        match self.named() {
            Some(named) => Some(named.place),
            // SAFETY: a word without the bit `NAMED` is null or a `&'static Location`.
            None => unsafe { self.word.get().cast::<Location<'static>>().as_ref() },
        }
    }

    /// Returns the name, if there is one. *Runs on: a holder of a reference.*
    pub(crate) fn name(&self) -> Option<&str> {
        self.named().map(|named| &*named.name)
    }

    /// Returns the id of the thread that spawned the G, if one is known.
    pub(crate) fn parent(&self) -> Option<u64> {
        Some(self.parent.load(Ordering::Relaxed)).filter(|&parent| parent != 0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn place_name_and_parent_are_those_of_the_begin() {
        let (origin, here) = (Origin::new(), Location::caller());
        assert_eq!((origin.place(), origin.name(), origin.parent()), (None, None, None));
        for (name, parent) in [(Some("first"), 0), (None, 7), (Some("second"), 8)] {
            origin.begin(here, name.map(Box::from), parent);
            assert_eq!((origin.place(), origin.name()), (Some(here), name));
            assert_eq!(origin.parent().unwrap_or(0), parent);
            origin.forget();
            assert_eq!((origin.place(), origin.name()), (Some(here), None));
        }
    }
}

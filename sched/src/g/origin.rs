//! Where a G comes from: the place of its spawn, its name, and its parent. Also its labels (`labels.rs`).
//!
//! A G has little room. Most Gs have no name, so the place alone takes one word. A G with a name, with
//! labels, or with the stack of its spawner has a box with all of these. The word then points to the box,
//! and its lowest bit says so.

#![allow(unsafe_code)]

use std::mem::offset_of;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::g::labels::{LabelCell, Labels};

/// In the address: it leads to a `Named`.
const NAMED: usize = 1;
const _: () = assert!(align_of::<Location<'static>>() > NAMED && align_of::<Named>() > NAMED);

/// The origin of one G. It changes only while the G has no reference; but the stack may be added by the
/// spawner.
pub(crate) struct Origin {
    /// Null, a `&'static Location`, or a `Box<Named>` with the bit `NAMED`.
    word: AtomicPtr<()>,
    /// The id of the thread that spawned the G; 0 if none is known.
    parent: AtomicU64,
}

#[repr(C)]
struct Named {
    place: &'static Location<'static>,
    /// Empty if there is none.
    name: Box<str>,
    has_name: bool,
    /// The return addresses on the stack of the spawner; null if they are not kept.
    stack: AtomicPtr<Box<[usize]>>,
    /// The labels, if there ever were any. A renamed G keeps its cell.
    labels: OnceLock<Arc<LabelCell>>,
    /// The word before this one, if it led to a `Named`: other threads may still read that. Null otherwise.
    previous: *mut (),
    /// How many names there were before.
    renames: u8,
}

impl Drop for Named {
    fn drop(&mut self) {
        let stack = *self.stack.get_mut();
        if !stack.is_null() {
            // SAFETY: `kept` made the pointer from a box, and only this field has it.
            drop(unsafe { Box::from_raw(stack) });
        }
        if !self.previous.is_null() {
            // SAFETY: the word led to a box, and since `rename` only this field does.
            drop(unsafe { Named::from_word(self.previous) });
        }
    }
}

/// Returns what the field `stack` of a [`Named`] is for this stack.
fn kept(stack: Box<[usize]>) -> *mut Box<[usize]> {
    Box::into_raw(Box::new(stack))
}

impl Named {
    /// Returns what a G without a name has that was spawned at `place`.
    fn at(place: &'static Location<'static>) -> Named {
        Named {
            place,
            name: Box::default(),
            has_name: false,
            stack: AtomicPtr::default(),
            labels: OnceLock::new(),
            previous: ptr::null_mut(),
            renames: 0,
        }
    }

    /// Returns the cell of the labels, and makes it first if need be.
    fn cell(&self) -> &Arc<LabelCell> {
        self.labels.get_or_init(Arc::default)
    }

    /// Returns the address of a box with this value, with the bit `NAMED`.
    fn into_word(self) -> *mut () {
        Box::into_raw(Box::new(self)).map_addr(|a| a | NAMED).cast()
    }

    /// Returns the box of a word.
    ///
    /// # Safety
    /// `into_word` has returned the word, and no thread uses it any more.
    unsafe fn from_word(word: *mut ()) -> Box<Named> {
        // SAFETY: this contract.
        unsafe { Box::from_raw(word.map_addr(|a| a & !NAMED).cast::<Named>()) }
    }
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
        Origin { word: AtomicPtr::new(ptr::null_mut()), parent: AtomicU64::new(0) }
    }

    /// Sets the origin of a G that begins. *Runs on: the spawner, before another thread knows the G, and
    /// after `forget`.*
    #[inline]
    pub(crate) fn begin(&self, place: &'static Location<'static>, name: Option<Box<str>>, parent: u64) {
        let word = match name {
            None => ptr::from_ref(place).cast_mut().cast(),
            Some(name) => {
                let mut named = Named::at(place);
                (named.name, named.has_name) = (name, true);
                named.into_word()
            }
        };
        // Relaxed, both: `Life::begin` publishes them.
        self.word.store(word, Ordering::Relaxed);
        self.parent.store(parent, Ordering::Relaxed);
    }

    /// Keeps the stack of the spawner. *Runs on: the spawner, after `begin`, once for each G. Other threads
    /// may look at the same time.*
    pub(crate) fn keep_stack(&self, stack: Box<[usize]>) {
        match (self.named(), self.place()) {
            // Release: publishes the stack; pairs with the Acquire in `stack`. It was null.
            (Some(named), _) => named.stack.store(kept(stack), Ordering::Release),
            (None, Some(place)) => {
                let mut named = Named::at(place);
                *named.stack.get_mut() = kept(stack);
                // Release: publishes the box; pairs with the Acquire in `word`. A thread that has read the
                // old word has the place itself.
                self.word.store(named.into_word(), Ordering::Release);
            }
            (None, None) => {}
        }
    }

    /// Gives the G another name, which is not empty. The old name is kept until `forget`, because other
    /// threads may read it. After 255 names the last one stays. *Runs on: a holder of a reference, one at a
    /// time, after `keep_stack`.*
    #[allow(dead_code, reason = "only programs of which all threads are green rename one")]
    pub(crate) fn rename(&self, name: &str) {
        let (Some(old), Some(place)) = (self.named_or_new(), self.place()) else { return };
        if self.name() == Some(name) || old.renames == u8::MAX {
            return;
        }
        // A copy: the old box keeps its own stack.
        let stack = if self.stack().is_empty() { ptr::null_mut() } else { kept(self.stack().into()) };
        // One cell for all names: the thread itself may set labels at the same time.
        let labels = old.cell().clone().into();
        let (name, stack, renames) = (name.into(), stack.into(), old.renames + 1);
        let previous = self.word();
        let named = Named { place, name, has_name: true, stack, labels, previous, renames };
        // Release: publishes the box; pairs with the Acquire in `word`.
        self.word.store(named.into_word(), Ordering::Release);
    }

    /// Sets the labels. Returns those before. *Runs on: the thread of the G, or its spawner after `begin`.*
    pub(crate) fn set_labels(&self, labels: Option<Arc<Labels>>) -> Option<Arc<Labels>> {
        self.named_or_new()?.cell().set(labels)
    }

    /// Returns the labels, if there are any. *Runs on: a holder of a reference.*
    pub(crate) fn labels(&self) -> Option<Arc<Labels>> {
        self.named()?.labels.get()?.get()
    }

    /// Returns the cell of the labels, if there is one. *Runs on: as `labels`, or a signal handler on the OS
    /// thread that runs the G.*
    #[allow(dead_code, reason = "profiles are taken on Linux only")]
    pub(crate) fn label_cell(&self) -> Option<&LabelCell> {
        self.named()?.labels.get().map(|cell| &**cell)
    }

    /// Returns the box of the G, and makes it first if need be; `None` before the first `begin`. *Runs on: a
    /// holder of a reference. Others may do the same.*
    fn named_or_new(&self) -> Option<&Named> {
        let place = self.place()?;
        let word = self.word();
        if word.addr() & NAMED == 0 {
            let new = Named::at(place).into_word();
            // Release: publishes the box; pairs with the Acquire in `word`. Relaxed: `word` reads again.
            if self.word.compare_exchange(word, new, Ordering::Release, Ordering::Relaxed).is_err() {
                // SAFETY: no thread has seen the box.
                drop(unsafe { Named::from_word(new) });
            }
        }
        self.named()
    }

    /// Drops the names and the stack. *Runs on: the thread that gave the last reference to the G up.*
    #[inline]
    pub(crate) fn forget(&self) {
        let word = self.word();
        if word.addr() & NAMED != 0 {
            self.forget_named(word);
        }
    }

    /// Not inlined, because most Gs have no name.
    #[cold]
    #[inline(never)]
    fn forget_named(&self, word: *mut ()) {
        // SAFETY: `begin` made the pointer from a box. Only this word leads to the box, and no thread has a
        // reference into it: the caller has given up the last reference to the G.
        let named = unsafe { Named::from_word(word) };
        // Relaxed: the pool of Gs publishes it.
        self.word.store(ptr::from_ref(named.place).cast_mut().cast(), Ordering::Relaxed);
    }

    fn word(&self) -> *mut () {
        // Acquire: pairs with the Release in `keep_stack`.
        self.word.load(Ordering::Acquire)
    }

    fn named(&self) -> Option<&Named> {
        let word = self.word();
        // SAFETY: a word with this bit is the address of a box of a `Named`, plus the bit. Only `forget`
        // drops the box, when no other thread has a reference to the G.
        (word.addr() & NAMED != 0).then(|| unsafe { &*word.map_addr(|a| a & !NAMED).cast::<Named>() })
    }

    /// Returns the place of the spawn. *Runs on: a holder of a reference.*
    pub(crate) fn place(&self) -> Option<&'static Location<'static>> {
        let word = self.word();
        if word.addr() & NAMED != 0 {
            return self.named().map(|named| named.place);
        }
        // SAFETY: a word without the bit `NAMED` is null or a `&'static Location`.
        unsafe { word.cast::<Location<'static>>().as_ref() }
    }

    /// Returns the name, if there is one. *Runs on: a holder of a reference.*
    pub(crate) fn name(&self) -> Option<&str> {
        self.named().filter(|named| named.has_name).map(|named| &*named.name)
    }

    /// Returns the return addresses on the stack of the spawner, the innermost first; none if they were not
    /// kept. *Runs on: a holder of a reference.*
    pub(crate) fn stack(&self) -> &[usize] {
        // Acquire: pairs with the Release in `keep_stack`.
        let stack = self.named().map(|named| named.stack.load(Ordering::Acquire));
        // SAFETY: the pointer is null or that of a box, which lives as long as the `Named`. Only `forget`
        // drops that, when no thread has a reference to the G.
        stack.and_then(|stack| unsafe { stack.as_ref() }).map_or(&[], |stack| stack)
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

    #[test]
    fn the_last_name_holds_and_the_stack_stays() {
        let (origin, here) = (Origin::new(), Location::caller());
        for (first, stack) in [(None, &[][..]), (Some("first"), &[][..]), (None, &[1, 2][..])] {
            origin.begin(here, first.map(Box::from), 0);
            if !stack.is_empty() {
                origin.keep_stack(stack.into());
            }
            let old = origin.name();
            for name in ["second", "second", "third"] {
                origin.rename(name);
                assert_eq!((origin.place(), origin.name(), origin.stack()), (Some(here), Some(name), stack));
            }
            assert_eq!(old, first, "a reader may still have the first name");
            origin.forget();
            assert_eq!((origin.place(), origin.name(), origin.stack()), (Some(here), None, &[][..]));
        }
    }

    #[test]
    fn labels_outlast_a_new_name_and_end_with_the_thread() {
        let (origin, here) = (Origin::new(), Location::caller());
        let labels = Arc::new(Labels::nested(None, &[("k", "v")]));
        assert!(origin.set_labels(Some(labels.clone())).is_none() && origin.labels().is_none());
        for first in [None, Some("first")] {
            origin.begin(here, first.map(Box::from), 0);
            assert_eq!(origin.labels(), None);
            origin.set_labels(Some(labels.clone()));
            assert_eq!((origin.name(), origin.place()), (first, Some(here)));
            origin.rename("second");
            assert_eq!((origin.labels().as_ref(), origin.name()), (Some(&labels), Some("second")));
            assert_eq!(origin.set_labels(None).as_ref(), Some(&labels));
            origin.set_labels(Some(labels.clone()));
            origin.forget();
            assert_eq!((origin.labels(), Arc::strong_count(&labels)), (None, 1));
        }
    }

    #[test]
    fn a_stack_is_kept_beside_a_name_and_without_one() {
        let (origin, here) = (Origin::new(), Location::caller());
        for name in [Some("first"), None, Some("")] {
            origin.begin(here, name.map(Box::from), 0);
            assert!(origin.stack().is_empty());
            origin.keep_stack([1, 2].into());
            assert_eq!((origin.place(), origin.name(), origin.stack()), (Some(here), name, &[1, 2][..]));
            origin.forget();
            assert_eq!((origin.name(), origin.stack()), (None, &[][..]));
        }
    }
}

//! `OwnG`: a G in the hands of the one thread that may use the G's own fields. `drives`, `masked` and `rare`
//! are plain cells, and only an `OwnG` reaches them. Only an `OwnG` writes `keeps`.
//!
//! ```text
//!   the spawner                  until the G lies in a run queue
//!   the green thread itself      while it runs. The OS thread for which a proxy G stands, always
//!   the M that has run the G     after the switch, until the M lets others see the G
//!   a dumper                     while it holds the parked G
//! ```
//!
//! Each of them passes the G on by a queue or by the word of a wait, which order what it has written.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::Ordering;

use timers::clock;

use super::contexts::{self, Contexts};
use super::locals::Locals;
use super::revocable::Revocables;
use super::{ColdFields, G, GRef};

/// A G in the hands of the one thread that may use the G's own fields.
#[derive(Clone, Copy)]
pub(crate) struct OwnG {
    g: GRef,
    _here: PhantomData<*const ()>,
}

impl Deref for OwnG {
    type Target = G;

    #[inline(always)]
    fn deref(&self) -> &G {
        self.g
    }
}

impl fmt::Debug for OwnG {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnG").field(&self.g.index()).finish()
    }
}

/// In `G::keeps`: the G polls a future.
const POLLS: u8 = 1;
/// In `G::keeps`: the G is pinned.
const PINNED: u8 = 2;
/// In `G::keeps`: contexts follow the G.
const CONTEXTS: u8 = 4;
/// In `G::keeps`: the G claims its M (`run/reserved.rs`).
const CLAIMS: u8 = 8;

/// In `G::keeps`: the G may belong to a simulation (`choices/simulation.rs`). Its yields and parks take the
/// way of Gs that are kept, which reports to the simulation. So other Gs pay nothing for simulations there.
pub(crate) const SIMULATED: u8 = 16;

/// In `G::keeps`: the G has values that must not leave its OS thread.
const STAYS: u8 = 32;

impl OwnG {
    /// Wraps `g`. The caller alone uses the own fields.
    ///
    /// # Safety
    /// As long as a copy of the result is used, the calling thread is one of those in the file's head, and no
    /// other thread is.
    #[inline(always)]
    pub(crate) unsafe fn new(g: GRef) -> OwnG {
        OwnG { g, _here: PhantomData }
    }

    /// Returns the G for all that any thread may do with it.
    #[inline(always)]
    pub(crate) fn shared(self) -> GRef {
        self.g
    }

    /// Returns `true` if this is `g`.
    #[inline(always)]
    pub(crate) fn is(self, g: &G) -> bool {
        ptr::eq(self.g, g)
    }

    #[inline]
    fn set_keeps(self, keeps: u8) {
        // Relaxed: as in `G::keeps`.
        self.g.keeps.store(keeps, Ordering::Relaxed);
    }

    /// Sets whether the G drives a future, to which `G::wakes` belongs then. Returns the value before.
    #[inline]
    pub(crate) fn set_drives(self, drives: bool) -> bool {
        self.g.drives.replace(drives)
    }

    /// Returns `true` in a mask, and when the task is over.
    #[inline]
    pub(crate) fn is_masked(self) -> bool {
        self.g.masked.get()
    }

    /// Begins or ends a mask (`g/mask.rs`). Returns the value before.
    #[inline]
    pub(crate) fn set_masked(self, masked: bool) -> bool {
        self.g.masked.replace(masked)
    }

    /// Marks the task as over: only destructors and wakers still run.
    #[inline]
    pub(crate) fn set_over(self) {
        self.g.masked.set(true);
    }

    /// Returns the rare fields if they exist.
    #[inline]
    pub(crate) fn rare(&self) -> Option<&ColdFields> {
        // SAFETY: only an `OwnG` reaches the box, and `take_rare` drops it without a reference.
        unsafe { (*self.g.rare.get()).as_deref() }
    }

    /// Returns the rare fields, and makes them first if need be.
    pub(crate) fn rare_or_new(&self) -> &ColdFields {
        if self.rare().is_none() {
            self.begin_rare(Locals::new(), Contexts::default());
        }
        self.rare().expect("the rare fields were just made")
    }

    /// Makes the rare fields, of which there are none.
    pub(crate) fn begin_rare(self, locals: Locals, contexts: Contexts) {
        assert!(self.rare().is_none(), "a G has rare fields once");
        let rare = ColdFields {
            deadline: Cell::new(clock::NEVER),
            revocables: Revocables::default(),
            locals,
            contexts,
            pins: Cell::new(0),
            stays: Cell::new(0),
            shares: RefCell::default(),
            await_stack: RefCell::default(),
            unwound: Cell::new(false),
        };
        // SAFETY: there is no box yet, so there is no reference into it.
        unsafe { *self.g.rare.get() = Some(Box::new(rare)) };
    }

    /// Takes the rare fields at the thread's end.
    ///
    /// # Safety
    /// The thread has no reference into them.
    pub(crate) unsafe fn take_rare(self) -> Option<Box<ColdFields>> {
        // SAFETY: only an `OwnG` gives references into the box, and there is none now, by this contract.
        unsafe { (*self.g.rare.get()).take() }
    }

    /// Returns `true` if the G may move to another OS thread when it parks, and leaves nothing behind on its
    /// present one. Such a G polls no future, is not pinned, has nothing that stays, claims no M, and has no
    /// contexts.
    #[inline]
    pub(crate) fn is_unkept(self) -> bool {
        self.keeps() == 0
    }

    /// Returns `true` if the G polls a future, is pinned, has something that stays, or claims its M.
    pub(crate) fn must_stay_on_thread(self) -> bool {
        self.keeps() & (POLLS | PINNED | STAYS | CLAIMS) != 0
    }

    /// Returns `true` if the G claims its M.
    pub(crate) fn claims(self) -> bool {
        self.keeps() & CLAIMS != 0
    }

    /// Sets whether the G claims its M. Returns the value before.
    pub(crate) fn set_claims(self, claims: bool) -> bool {
        let before = self.keeps();
        self.set_keeps(if claims { before | CLAIMS } else { before & !CLAIMS });
        before & CLAIMS != 0
    }

    /// Returns `true` if contexts follow the G.
    #[inline]
    pub(crate) fn has_contexts(self) -> bool {
        self.keeps() & CONTEXTS != 0
    }

    /// Sets whether contexts follow the G.
    pub(crate) fn set_has_contexts(self, has: bool) {
        let others = self.keeps() & !CONTEXTS;
        self.set_keeps(if has { others | CONTEXTS } else { others });
    }

    /// Sets whether the G polls a future. Returns the value before.
    #[inline]
    pub(crate) fn set_polls(self, polls: bool) -> bool {
        let before = self.keeps();
        self.set_keeps(if polls { before | POLLS } else { before & !POLLS });
        before & POLLS != 0
    }

    /// Adds one guard that pins the G.
    pub(crate) fn pin(self) {
        let pins = &self.rare_or_new().pins;
        pins.set(pins.get() + 1);
        self.set_keeps(self.keeps() | PINNED);
    }

    /// Removes one guard that pins the G.
    pub(crate) fn unpin(self) {
        let pins = &self.rare_or_new().pins;
        pins.set(pins.get().saturating_sub(1));
        if pins.get() == 0 {
            self.set_keeps(self.keeps() & !PINNED);
        }
    }

    /// Adds one value that must not leave the OS thread.
    pub(crate) fn stay(self) {
        let stays = &self.rare_or_new().stays;
        stays.set(stays.get() + 1);
        self.set_keeps(self.keeps() | STAYS);
    }

    /// Removes one value that must not leave the OS thread. Makes no rare fields: a destructor of the thread's
    /// thread-locals may call it, and the rare fields are gone then.
    pub(crate) fn end_stay(self) {
        let left = self.rare().map_or(0, |rare| {
            rare.stays.set(rare.stays.get().saturating_sub(1));
            rare.stays.get()
        });
        if left == 0 {
            self.set_keeps(self.keeps() & !STAYS);
        }
    }

    /// Returns `true` if the G waits at home between two polls too: it has values that must not leave its OS
    /// thread.
    pub(crate) fn stays(self) -> bool {
        self.keeps() & STAYS != 0
    }

    /// Returns the deadline of the innermost `timeout`; `NEVER` without one.
    #[inline]
    pub(crate) fn deadline(self) -> u64 {
        self.rare().map_or(clock::NEVER, |rare| rare.deadline.get())
    }
}

impl G {
    #[inline]
    fn keeps(&self) -> u8 {
        // Relaxed: what passes the G on orders the writes of its owner before. Other threads get a hint.
        self.keeps.load(Ordering::Relaxed)
    }

    /// Returns `true` if the G polls a future. *Runs on: any thread.*
    pub(crate) fn polls(&self) -> bool {
        self.keeps() & POLLS != 0
    }

    /// Returns `true` if the G is pinned. *Runs on: any thread.*
    #[inline]
    pub(crate) fn is_pinned(&self) -> bool {
        self.keeps() & PINNED != 0
    }

    /// Attaches `slot` to each G that begins from now on.
    pub(crate) fn attach_to_all(slot: &'static dyn contexts::Slot) {
        contexts::attach_to_all(slot);
        contexts::mark_new(CONTEXTS);
    }

    /// Returns `true` if slots are attached to each new G.
    pub(crate) fn new_ones_have_contexts() -> bool {
        contexts::keeps_of_new() & CONTEXTS != 0
    }
}

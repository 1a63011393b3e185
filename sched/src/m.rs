//! An M: an OS thread that runs Gs while it has a P. Its own stack is where the scheduler runs.

#![allow(unsafe_code)]

pub(crate) mod current;
pub(crate) mod note;
pub(crate) mod rest;

use std::cell::{Cell, RefCell, UnsafeCell};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};

use netpoll::Waiter;

use crate::g::{G, GRef, table};
use crate::ids;
use crate::lend::Loan;
use crate::locked_queue::LockedQueue;
use crate::p::lease::Lender;
use crate::p::{Held, P};
use crate::sched::Sched;
use note::Note;
use rest::{Homes, Rest};

/// What a parked M is woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Nobody said: the runtime ends, or it is a new M without a P.
    Nothing,
    /// Take that P, whose lease is held for it, and with `spinning` the promise to look for work.
    Run { p: usize, spinning: bool },
    /// Watch the network and the timers, without a P, if nobody does; it has been promised that it looks for work first.
    Watch,
    /// Its thread is to end.
    End,
}

/// `Wish::End` as the word says it.
const END: usize = usize::MAX;
/// `Wish::Watch`; else 0, or the P's index + 1 above the bit that says to spin.
const WATCH: usize = usize::MAX - 1;

/// An M keeps up to this many dead Gs for its next spawns.
const KEPT_GS: usize = 128;

/// One M. Ms live as long as their runtime, for sysmon looks at them; one whose thread has ended serves the next thread.
pub(crate) struct M {
    pub(crate) sched: *const Sched,
    pub(crate) note: Note,
    /// Its place among all Ms.
    pub(crate) number: usize,
    /// What whoever woke it wants: see `Wish`.
    handed: AtomicUsize,
    /// The wait of the G that is parked here in place is over. The note alone does not say so: its wake-up may be a late one,
    /// meant for an earlier sleep of the M.
    woken_in_place: AtomicBool,
    /// The G whose code it runs, for sysmon and the overflow report.
    running: AtomicPtr<G>,
    /// The kernel's name for the thread.
    pub(crate) tid: AtomicI32,
    /// The runnable Gs that are bound to this M.
    pub(crate) home: LockedQueue,
    /// How many Gs are bound to this M, parked ones included.
    pub(crate) homes: Homes,
    /// Whether somebody who puts one there must wake it.
    pub(crate) rest: Rest,
    /// The word by which it has lent its P.
    pub(crate) lender: Lender,
    // The rest is this thread's own.
    p: Cell<*const P>,
    pub(crate) loan: Cell<Loan>,
    pub(crate) spinning: Cell<bool>,
    /// It was started as a spare and has not parked yet (`Sched::spares_coming`).
    pub(crate) is_coming_spare: Cell<bool>,
    /// Its last wait for the network was so short that it would better have spun.
    pub(crate) network_is_quick: Cell<bool>,
    /// Since when it has had its P while others waited for one; 0: it has not looked.
    pub(crate) since: Cell<u64>,
    /// Reused by every poll.
    pub(crate) ready: RefCell<Vec<Waiter>>,
    dead: UnsafeCell<Vec<GRef>>,
    ids: Cell<ids::Batch>,
}

// SAFETY: the cells are touched by the M's own thread alone; the rest is atomic.
unsafe impl Sync for M {}
// SAFETY: it is made on one thread and given to its own before anyone touches the cells.
unsafe impl Send for M {}

impl M {
    pub(crate) fn new(sched: *const Sched, number: usize) -> Self {
        M {
            sched,
            note: Note::new(),
            number,
            handed: AtomicUsize::new(0),
            woken_in_place: AtomicBool::new(false),
            running: AtomicPtr::new(ptr::null_mut()),
            tid: AtomicI32::new(0),
            home: LockedQueue::new(),
            homes: Homes::new(),
            rest: Rest::new(),
            lender: Lender::new(),
            p: Cell::new(ptr::null()),
            loan: Cell::new(Loan::InRuntime),
            spinning: Cell::new(false),
            is_coming_spare: Cell::new(false),
            network_is_quick: Cell::new(false),
            since: Cell::new(0),
            ready: RefCell::new(Vec::new()),
            // All that it will ever have: a green thread's end allocates nothing.
            dead: UnsafeCell::new(Vec::with_capacity(KEPT_GS + 1)),
            ids: Cell::new(ids::Batch::EMPTY),
        }
    }

    /// The runtime it belongs to. *Runs on: this M.*
    #[inline]
    pub(crate) fn sched(&self) -> &Sched {
        // SAFETY: the M's thread holds its runtime by an `Arc`.
        unsafe { &*self.sched }
    }

    /// The P that it holds. *Runs on: this M, in the runtime.*
    #[inline]
    pub(crate) fn held(&self) -> Option<Held<'_>> {
        debug_assert!(matches!(self.loan.get(), Loan::InRuntime), "a lent P is not held");
        // SAFETY: Ps live as long as their runtime; `p` is set only while this M holds or has lent it, and whoever is
        // in the runtime has taken it back.
        unsafe { self.p.get().as_ref().map(|p| Held::new(p)) }
    }

    /// The P that it holds or has lent; maybe lost since.
    #[inline]
    pub(crate) fn lent_p(&self) -> Option<&P> {
        // SAFETY: as for `held`.
        unsafe { self.p.get().as_ref() }
    }

    /// It holds `p` from now on: it has just won its lease.
    #[inline]
    pub(crate) fn acquire(&self, p: &P) {
        self.p.set(p);
        // Release: sysmon reads what this M was made with.
        p.holder.store(ptr::from_ref(self).cast_mut(), Ordering::Release);
    }

    /// It has no P any more.
    #[inline]
    pub(crate) fn let_go(&self) {
        self.p.set(ptr::null());
    }

    /// Gives a P to an M that is parked, that is in line for a P, or that is about to start; with `spinning`, also the promise
    /// to look for work. *Runs on: any thread; the caller then wakes the M.*
    pub(crate) fn hand(&self, p: usize, spinning: bool) {
        // Release: pairs with `take_wish`. The note does not order this: an M that is awake takes the wish before the caller
        // wakes the note.
        self.handed.store((p + 1) << 1 | usize::from(spinning), Ordering::Release);
    }

    /// Tells a parked M that its thread is needed no more. *Runs on: who took it out of the list, and then wakes it.*
    pub(crate) fn hand_end(&self) {
        self.handed.store(END, Ordering::Relaxed);
    }

    /// Has a parked M watch; the promise to look for work goes with it. *Runs on: who took it out of the list, and then
    /// wakes it.*
    pub(crate) fn hand_watch(&self) {
        self.handed.store(WATCH, Ordering::Relaxed);
    }

    /// Takes what another thread wants of this M. *Runs on: this M.*
    pub(crate) fn take_wish(&self) -> Wish {
        // Acquire: what the earlier holder of the P has done; pairs with `hand`.
        match self.handed.swap(0, Ordering::Acquire) {
            0 => Wish::Nothing,
            END => Wish::End,
            WATCH => Wish::Watch,
            handed => Wish::Run { p: (handed >> 1) - 1, spinning: handed & 1 != 0 },
        }
    }

    /// Wakes the M whose G is parked in place. *Runs on: the thread that has decided that wait. The call is its last use of the
    /// G's coroutine.*
    pub(crate) fn wake_in_place(&self) {
        // Release: pairs with `take_woken_in_place`.
        self.woken_in_place.store(true, Ordering::Release);
        self.note.wake();
    }

    /// Returns `true` once for each `wake_in_place`. *Runs on: this M, whose G is parked in place.*
    pub(crate) fn take_woken_in_place(&self) -> bool {
        // Acquire: what the waker did before; pairs with `wake_in_place`.
        self.woken_in_place.swap(false, Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn set_running(&self, g: Option<GRef>) {
        let g = g.map_or(ptr::null_mut(), |g| ptr::from_ref(g).cast_mut());
        // Release: sysmon and the metrics read words of the G, which this thread may have just made; pairs with `running`.
        self.running.store(g, Ordering::Release);
    }

    /// Returns the G whose code the M runs, as of a moment ago. *Runs on: any thread.*
    #[inline]
    pub(crate) fn running(&self) -> Option<GRef> {
        // Acquire: the words of the G, as they were made; pairs with `set_running`.
        // SAFETY: only `set_running` writes the pointer, and Gs are never freed.
        unsafe { self.running.load(Ordering::Acquire).as_ref() }
    }

    /// A G that nobody uses. *Runs on: this M.*
    ///
    /// # Errors
    /// There is no memory for a new one.
    #[inline]
    pub(crate) fn take_g(&self) -> io::Result<GRef> {
        // SAFETY: this thread's own; nothing below comes back here.
        let dead = unsafe { &mut *self.dead.get() };
        match dead.pop() {
            Some(g) => Ok(g),
            None => table::take(KEPT_GS / 2, |g| dead.push(g)),
        }
    }

    /// Keeps a G that nobody uses any more. *Runs on: this M.*
    #[inline]
    pub(crate) fn give_g(&self, g: GRef) {
        // SAFETY: this thread's own; nothing below comes back here.
        let dead = unsafe { &mut *self.dead.get() };
        dead.push(g);
        if dead.len() > KEPT_GS {
            table::give(dead.drain(..KEPT_GS / 2));
        }
    }

    /// The thread ends: others may have what it kept. *Runs on: this M.*
    pub(crate) fn end(&self) {
        debug_assert!(
            !self.homes.is_any() || self.sched().is_exiting(),
            "a thread ends to which a G must return"
        );
        // SAFETY: this thread's own.
        table::give(unsafe { &mut *self.dead.get() }.drain(..));
        *self.ready.borrow_mut() = Vec::new();
        self.tid.store(0, Ordering::Relaxed);
    }

    /// A fresh id. *Runs on: this M.*
    #[inline]
    pub(crate) fn next_id(&self) -> u64 {
        let mut batch = self.ids.get();
        let id = batch.next();
        self.ids.set(batch);
        id
    }
}

/// An M in the idle lists. Ms live as long as their runtime.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MRef(*const M);

// SAFETY: an M is `Sync` and outlives the list.
unsafe impl Send for MRef {}

impl MRef {
    pub(crate) fn new(m: &M) -> Self {
        MRef(m)
    }

    pub(crate) fn m(&self) -> &M {
        // SAFETY: Ms live as long as their runtime, of which the list is a part.
        unsafe { &*self.0 }
    }
}

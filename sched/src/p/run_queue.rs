//! The run queue of one P: a run-next slot and two stealable queues, woken Gs before new and yielded ones.
//!
//! ```text
//!   ready by another G ─> next ──────────┐  (the one it displaces goes to woken)
//!   woken by timers, network ─> woken ───┼─> pop: next, woken, fresh; one pick in 16 fresh before woken
//!   spawned, yielded ─────────> fresh ───┘
//! ```
//!
//! Woken before new: half a million sleepers wake on time although as many have not started yet. The slot can be
//! stolen too: a G that only its P's owner can run waits for ever when that owner computes.

#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crossbeam_deque::{Steal, Stealer, Worker};

use crate::g::{G, GRef};

/// How many Gs one theft takes at most.
const STEAL_LIMIT: usize = 32;
/// One pick in so many takes a new or yielded G before a woken one.
const FRESH_FIRST: u32 = 16;
/// A G readied into the slot shares the slice of the one that readied it, so a pair may hand the P to and fro so
/// often before the queues have their turn.
const SLICE: u32 = 64;

/// See the file's head. All but `steal`, `take_next` and the counts are the holder's of the P alone.
pub(crate) struct RunQueue {
    next: AtomicPtr<G>,
    woken: Worker<GRef>,
    fresh: Worker<GRef>,
    woken_stealer: Stealer<GRef>,
    fresh_stealer: Stealer<GRef>,
}

impl RunQueue {
    pub(crate) fn new() -> Self {
        let (woken, fresh) = (Worker::new_fifo(), Worker::new_fifo());
        RunQueue {
            next: AtomicPtr::new(ptr::null_mut()),
            woken_stealer: woken.stealer(),
            fresh_stealer: fresh.stealer(),
            woken,
            fresh,
        }
    }

    /// Puts a G into the run-next slot (Go: `runqput` with `next`).
    #[inline]
    pub(crate) fn put_next(&self, g: GRef) {
        // SeqCst: this publishes work; the maker's look at the idle counts comes after it (`Idle::idle_ps`).
        let displaced = self.next.swap(ptr::from_ref(g).cast_mut(), Ordering::SeqCst);
        if let Some(g) = as_g(displaced) {
            self.woken.push(g);
        }
    }

    #[inline]
    pub(crate) fn put_woken(&self, g: GRef) {
        self.woken.push(g);
    }

    #[inline]
    pub(crate) fn put_fresh(&self, g: GRef) {
        self.fresh.push(g);
    }

    /// The next G of this P. `round` counts the rounds of the P, `slice` those since a queue had its turn.
    #[inline]
    pub(crate) fn pop(&self, round: u32, slice: &mut u32) -> Option<GRef> {
        if *slice < SLICE
            && let Some(g) = self.take_next()
        {
            *slice += 1;
            return Some(g);
        }
        *slice = 0;
        let queued = if round.is_multiple_of(FRESH_FIRST) {
            self.fresh.pop().or_else(|| self.woken.pop())
        } else {
            self.woken.pop().or_else(|| self.fresh.pop())
        };
        queued.or_else(|| self.take_next())
    }

    /// Takes the G in the slot. *Runs on: any thread.*
    #[inline]
    pub(crate) fn take_next(&self) -> Option<GRef> {
        // The look first: an empty slot costs no read-modify-write.
        if self.next.load(Ordering::Relaxed).is_null() {
            return None;
        }
        // Acquire: what its waker wrote; pairs with `put_next`.
        as_g(self.next.swap(ptr::null_mut(), Ordering::Acquire))
    }

    /// Moves a part of `self` into `into` and gives one of them. *Runs on: the holder of `into`'s P.*
    pub(crate) fn steal(&self, into: &RunQueue, also_next: bool) -> Option<GRef> {
        take_batch(&self.woken_stealer, &into.woken)
            .or_else(|| take_batch(&self.fresh_stealer, &into.fresh))
            .or_else(|| if also_next { self.take_next() } else { None })
    }

    /// Whether anything lies in it. *Runs on: any thread.*
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // SeqCst on the slot: pairs with `put_next`; the queues' loads follow a fence of the caller's.
        self.next.load(Ordering::SeqCst).is_null()
            && self.woken_stealer.is_empty()
            && self.fresh_stealer.is_empty()
    }

    /// How much lies in it, roughly. *Runs on: any thread.*
    pub(crate) fn len(&self) -> usize {
        let next = usize::from(!self.next.load(Ordering::Relaxed).is_null());
        next + self.woken_stealer.len() + self.fresh_stealer.len()
    }
}

#[inline]
fn as_g(g: *mut G) -> Option<GRef> {
    // SAFETY: only `put_next` writes the slot, with references to Gs, which are never freed.
    unsafe { g.as_ref() }
}

fn take_batch(from: &Stealer<GRef>, into: &Worker<GRef>) -> Option<GRef> {
    loop {
        match from.steal_batch_with_limit_and_pop(into, STEAL_LIMIT) {
            Steal::Success(g) => return Some(g),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}

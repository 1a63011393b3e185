//! The run queue of one P: the run-next slot and two stealable queues. Woken Gs come before new and yielded
//! Gs.
//!
//! ```text
//!   ready by the end of a G ─> handed ───┐  (only this P's holder sees it: it is about to pop)
//!   ready by another G ─> next ──────────┤  (the one it displaces goes to woken)
//!   woken by timers, network ─> woken ───┼─> pop: next, woken, fresh; one pick in 16 fresh before woken
//!   spawned, yielded ─────────> fresh ───┘
//! ```
//!
//! Woken Gs come first so that half a million sleepers wake on time although another half million have not
//! started yet. A thief may take the G in the slot too: otherwise that G would wait for ever while its P's G
//! computes.

#![allow(unsafe_code)]

use std::cell::Cell;

use crossbeam_utils::CachePadded;

use crate::g::{G, GRef};
use crate::p::next_slot::NextSlot;
use crate::p::steal_queue::StealQueue;
use crate::stack::coro::Coro;

/// From this number on it pays to look ahead: the Gs of a queue may not be in the cache when they run.
const MANY: usize = 8;
/// One pick in this many takes a new or yielded G before a woken G.
const FRESH_FIRST: u32 = 16;
/// The most picks from the slot before the queues have their turn. A G in the slot runs in the slice of the G
/// that readied it. Without this limit two Gs could hand the P to each other for ever.
const SLICE: u32 = 64;

/// The run queue of one P. Only the holder of the P uses it, but for `steal`, `is_empty` and `len`.
pub(crate) struct RunQueue {
    /// The next G to run, which no thief sees: the holder pops before it runs another G, or publishes
    /// it. It also publishes before it gives the P up.
    handed: Cell<Option<GRef>>,
    next: NextSlot<G>,
    woken: CachePadded<StealQueue<G>>,
    fresh: CachePadded<StealQueue<G>>,
}

impl RunQueue {
    pub(crate) fn new() -> Self {
        RunQueue {
            handed: Cell::new(None),
            next: NextSlot::new(),
            woken: CachePadded::new(StealQueue::new()),
            fresh: CachePadded::new(StealQueue::new()),
        }
    }

    /// Puts a G into the run-next slot (Go: `runqput` with `next`).
    #[inline]
    pub(crate) fn put_next(&self, g: GRef) {
        if let Some(g) = self.next.put(g) {
            self.woken.push(g);
        }
    }

    /// Returns `true` if thieves may take the G in the slot.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.next.is_open()
    }

    /// Lets thieves take the G in the slot from here on. Returns `true` if there is one: the caller then
    /// wakes an M for it, as for each `put_next`.
    pub(crate) fn open(&self) -> bool {
        self.next.open();
        !self.next.is_empty()
    }

    /// Returns `true` if one G waits here, in the slot or in a queue. *Runs on: the holder of the P.*
    pub(crate) fn has_one(&self) -> bool {
        self.len() == 1
    }

    /// Makes `g` the next G to run. The caller is off to pop, so no thief need see `g`, and no M be woken for
    /// it. So nothing is published. Preconditions: no other G was handed since the last pop, and the slice is
    /// not over (`is_over`).
    #[inline]
    pub(crate) fn hand(&self, g: GRef) {
        let before = self.handed.replace(Some(g));
        debug_assert!(before.is_none(), "one G ends at a time");
    }

    /// Returns `true` if a G was handed since the last pop.
    pub(crate) fn has_handed(&self) -> bool {
        let handed = self.handed.take();
        self.handed.set(handed);
        handed.is_some()
    }

    /// Moves the handed G to the slot, because the holder runs another G first. Returns `true` if there was
    /// one: the caller then wakes an M for it, as for each `put_next`.
    #[inline]
    pub(crate) fn publish_handed(&self) -> bool {
        let handed = self.handed.take();
        handed.inspect(|&g| self.put_next(g)).is_some()
    }

    #[inline]
    pub(crate) fn put_woken(&self, g: GRef) {
        self.woken.push(g);
    }

    #[inline]
    pub(crate) fn put_fresh(&self, g: GRef) {
        self.fresh.push(g);
    }

    /// Returns `true` if the queues have their turn at the next pop, before the slot.
    #[inline]
    pub(crate) fn is_over(slice: u32) -> bool {
        slice >= SLICE
    }

    /// Takes the next G of this P. `round` is the number of the P's round. `slice` counts the picks since a
    /// queue had its turn.
    #[inline]
    pub(crate) fn pop(&self, round: u32, slice: &mut u32) -> Option<GRef> {
        let handed = self.handed.take();
        debug_assert!(handed.is_none() || !Self::is_over(*slice), "a G was handed that does not come next");
        if let Some(g) = handed {
            *slice += 1;
            return Some(g);
        }
        if !Self::is_over(*slice)
            && let Some(g) = self.next.take()
        {
            *slice += 1;
            return Some(g);
        }
        *slice = 0;
        let queued = if round.is_multiple_of(FRESH_FIRST) {
            Self::pop_oldest(&self.fresh).or_else(|| Self::pop_oldest(&self.woken))
        } else {
            Self::pop_oldest(&self.woken).or_else(|| Self::pop_oldest(&self.fresh))
        };
        queued.or_else(|| self.next.take())
    }

    /// Takes the oldest G of a queue, and looks ahead if many wait behind it.
    #[inline(always)]
    fn pop_oldest(queue: &StealQueue<G>) -> Option<GRef> {
        let (g, left) = queue.pop()?;
        if left >= MANY {
            Self::look_ahead(g, queue);
        }
        Some(g)
    }

    /// Begins to load what probably runs after `g`, and the G behind that one. Another thread may steal these
    /// Gs at any time.
    #[inline(never)]
    fn look_ahead(g: GRef, queue: &StealQueue<G>) {
        let Some(next) = queue.peek(0) else { return };
        // Another M may use the coroutine of a special G.
        if !g.binding.is_special() {
            // SAFETY: the holder has taken `g`, so no other M uses its coroutine.
            unsafe { Coro::expect_next(g, next) };
        }
        if let Some(after) = queue.peek(1) {
            after.will_be_used();
        }
    }

    /// Moves up to half of one queue of `self` into `into` and returns one of the moved Gs. Takes the G in
    /// the slot if both queues are empty and `also_next` is set. *Runs on: the holder of `into`'s P.*
    pub(crate) fn steal(&self, into: &RunQueue, also_next: bool) -> Option<GRef> {
        self.woken
            .steal(|g| into.woken.push(g))
            .or_else(|| self.fresh.steal(|g| into.fresh.push(g)))
            .or_else(|| if also_next { self.next.steal() } else { None })
    }

    /// Returns `true` if there is no G here. *Runs on: any thread.*
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // The loads of the queues follow a fence of the caller.
        self.next.is_empty() && self.woken.is_empty() && self.fresh.is_empty()
    }

    /// Returns about how many woken Gs lie here, without the one in the slot.
    pub(crate) fn woken_len(&self) -> usize {
        self.woken.len()
    }

    /// Returns about how many Gs lie here. *Runs on: any thread.*
    pub(crate) fn len(&self) -> usize {
        self.next.len() + self.woken.len() + self.fresh.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ptr;

    use super::*;
    use crate::g::table;

    /// Returns the places in `gs` of the Gs that `queue` gives, until it is empty.
    fn order(queue: &RunQueue, slice: &mut u32, gs: &[GRef]) -> Vec<usize> {
        let place = |g: GRef| gs.iter().position(|&other| ptr::eq(g, other)).expect("one of these");
        std::iter::from_fn(|| queue.pop(1, slice)).map(place).collect()
    }

    #[test]
    fn a_handed_g_comes_first_and_the_one_in_the_slot_until_the_queues_have_their_turn() {
        let gs: Vec<GRef> = (0..4).map(|_| table::take(0, |_| ()).unwrap()).collect();
        let fill = || {
            let queue = RunQueue::new();
            queue.put_fresh(gs[0]);
            queue.put_woken(gs[1]);
            queue.put_next(gs[2]);
            queue
        };
        let handed = fill();
        handed.hand(gs[3]);
        assert_eq!(order(&handed, &mut 0, &gs), [3, 2, 1, 0]);
        // A G that always readies another must not keep out the Gs in the queues.
        assert!(RunQueue::is_over(SLICE) && !RunQueue::is_over(SLICE - 1));
        assert_eq!(order(&fill(), &mut SLICE.clone(), &gs), [1, 2, 0]);
        table::give(gs);
    }

    #[test]
    fn thieves_see_a_handed_g_once_it_is_published() {
        let g = table::take(0, |_| ()).unwrap();
        let (queue, thief) = (RunQueue::new(), RunQueue::new());
        assert!(!queue.publish_handed());
        queue.hand(g);
        assert!(queue.is_empty() && queue.steal(&thief, true).is_none());
        assert!(queue.publish_handed() && !queue.is_empty());
        assert!(queue.steal(&thief, true).is_none(), "the slot of a lone P is closed");
        assert!(queue.open() && queue.is_open());
        assert!(queue.steal(&thief, true).is_some_and(|stolen| ptr::eq(stolen, g)));
        table::give([g]);
    }
}

//! A first-in, first-out queue that its holder fills and empties, and from which any thread steals: a ring
//! that grows.
//!
//! ```text
//!   slots:   . . . g g g g g . . .        the holder pushes at tail, and pops at head
//!                  ^head     ^tail        a thief takes up to half, from head on
//! ```
//!
//! The holder and the thieves take an item by moving `head` with a compare-exchange. A thief reads the slots
//! before that. If the exchange fails, the thief forgets what it read.
//!
//! The holder replaces a ring that is full by one of twice the size, and a large ring that is empty by a
//! small one. A thief may still read the old ring. So a thief counts itself while it is inside, and the
//! holder frees old rings only while it counts none:
//!
//! ```text
//!   thief                                holder
//!   thieves += 1                         ring = new
//!   full fence                           full fence
//!   reads ring                           thieves == 0?  then frees the old ring
//! ```
//!
//! Either the thief reads the new ring, or the holder sees the thief and keeps the old ring until it replaces
//! the next one.
//!
//! The holder can look at items that it will pop later (`peek`), to load them ahead of their use. And no
//! operation has a thread-local: the holder may stand under the thread-locals of a green thread.

#![allow(unsafe_code)]

#[cfg(all(test, loom))]
mod models;

use std::hint;
use std::ptr;

use crossbeam_utils::CachePadded;

use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::sync::cell::UnsafeCell;
use crate::sync::{broken, full_fence};

/// The most items that one theft takes.
const STEAL_LIMIT: usize = 32;
/// The slots of a new ring.
const FEW: usize = if cfg!(loom) { 2 } else { 64 };
/// A ring with more slots is replaced when it is empty.
const MANY: usize = if cfg!(loom) { 2 } else { 1024 };

/// A queue of references. Only the holder may use it, but for `steal`, `is_empty` and `len`.
pub(crate) struct StealQueue<T: 'static> {
    /// The number of the oldest item. It only grows, and so does `tail`.
    head: AtomicUsize,
    /// The number of the next item that is pushed. Only the holder writes it.
    tail: AtomicUsize,
    /// The ring with the items from `head` to `tail`. Only the holder replaces it.
    ring: AtomicPtr<Ring<T>>,
    /// Rings that were replaced, which thieves may still read. Only the holder touches them.
    old: UnsafeCell<Vec<*mut Ring<T>>>,
    /// How many thieves are inside. Only thieves write it.
    thieves: CachePadded<AtomicUsize>,
}

/// Slots for items: the item of number `n` lies in slot `n` modulo their number.
struct Ring<T: 'static> {
    /// Their number is a power of two.
    slots: Box<[AtomicPtr<T>]>,
    /// Read by each thread that reads slots, and written by the one that frees them. So a model sees a ring
    /// that is freed too early.
    in_use: UnsafeCell<()>,
}

impl<T> Ring<T> {
    /// Makes an empty ring, which the caller must `free`.
    fn new(slots: usize) -> *mut Self {
        let slots = (0..slots).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        Box::into_raw(Box::new(Ring { slots, in_use: UnsafeCell::new(()) }))
    }

    #[inline]
    fn slot(&self, number: usize) -> &AtomicPtr<T> {
        self.in_use.with(|_| ());
        &self.slots[number & (self.slots.len() - 1)]
    }

    /// Frees a ring.
    ///
    /// # Safety
    /// `new` made the ring, no thread reads it any more, and it is freed only once.
    unsafe fn free(ring: *mut Self) {
        // SAFETY: the ring is the caller's, by this contract.
        let ring = unsafe { Box::from_raw(ring) };
        ring.in_use.with_mut(|_| ());
        // A model must see a late reader, and not read freed memory.
        #[cfg(loom)]
        std::mem::forget(ring);
    }
}

impl<T> StealQueue<T> {
    pub(crate) fn new() -> Self {
        StealQueue {
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
            ring: AtomicPtr::new(Ring::new(FEW)),
            old: UnsafeCell::new(Vec::new()),
            thieves: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    /// Puts an item at the end. *Runs on: the holder.*
    #[inline]
    pub(crate) fn push(&self, item: &'static T) {
        // Relaxed: only the holder writes `tail`, here and below.
        let tail = self.tail.load(Ordering::Relaxed);
        // Acquire: pairs with the exchange in `steal`. That thief has read the slot that is written next.
        let head = self.head.load(Ordering::Acquire);
        let mut ring = self.ring();
        if tail.wrapping_sub(head) == ring.slots.len() {
            ring = self.replace(2 * ring.slots.len());
        }
        // Relaxed: published by `tail`.
        ring.slot(tail).store(ptr::from_ref(item).cast_mut(), Ordering::Relaxed);
        // Release: pairs with the Acquire of `steal`, which then sees the slot, the ring and the item.
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
    }

    /// Takes the oldest item. Returns it with the number of items that are left. *Runs on: the holder.*
    #[inline]
    pub(crate) fn pop(&self) -> Option<(&'static T, usize)> {
        let tail = self.tail.load(Ordering::Relaxed);
        let ring = self.ring();
        // Relaxed: the exchange decides.
        let mut head = self.head.load(Ordering::Relaxed);
        while head != tail {
            let item = ring.slot(head).load(Ordering::Relaxed);
            let after = head.wrapping_add(1);
            // Release: a thread that sees this `head` sees a `tail` that is not before it (`len`).
            match self.head.compare_exchange_weak(head, after, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => {
                    // SAFETY: between `head` and `tail` each slot has an item that `push` put there.
                    let item = unsafe { item.as_ref() }?;
                    return Some((item, tail.wrapping_sub(after)));
                }
                Err(now) => head = now,
            }
        }
        if ring.slots.len() > MANY {
            self.replace(FEW);
        }
        None
    }

    /// Returns the item that comes `ahead` items after the oldest. Another thread may steal it at any time.
    /// *Runs on: the holder.*
    #[inline]
    pub(crate) fn peek(&self, ahead: usize) -> Option<&'static T> {
        let head = self.head.load(Ordering::Relaxed);
        if self.tail.load(Ordering::Relaxed).wrapping_sub(head) <= ahead {
            return None;
        }
        let item = self.ring().slot(head.wrapping_add(ahead)).load(Ordering::Relaxed);
        // SAFETY: as in `pop`. Items live for ever.
        unsafe { item.as_ref() }
    }

    /// Takes up to half of the items. Returns the oldest of these, and passes the others to `keep`. *Runs on:
    /// any thread.*
    pub(crate) fn steal(&self, mut keep: impl FnMut(&'static T)) -> Option<&'static T> {
        if self.is_empty() {
            return None;
        }
        let mut items = [ptr::null_mut(); STEAL_LIMIT];
        let taken = self.take_some(&mut items);
        let mut stolen = items[..taken].iter().map(|&item: &*mut T| {
            // SAFETY: the exchange of `take_some` gave these items to this thread.
            unsafe { &*item }
        });
        let oldest = stolen.next();
        stolen.for_each(&mut keep);
        oldest
    }

    /// Takes up to half of the items, and returns how many.
    fn take_some(&self, items: &mut [*mut T; STEAL_LIMIT]) -> usize {
        // Relaxed: the fence orders it.
        self.thieves.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence of `free_old_rings`.
        if !broken!("thief_without_fence") {
            full_fence();
        }
        let taken = loop {
            // Acquire: a `tail` that is loaded after is not before this `head`. Pairs with `pop`.
            let head = self.head.load(Ordering::Acquire);
            // Acquire: pairs with `push`.
            let tail = self.tail.load(Ordering::Acquire);
            let len = tail.wrapping_sub(head);
            let taken = (len - len / 2).min(STEAL_LIMIT);
            if taken == 0 {
                break 0;
            }
            // Acquire: pairs with `replace`. The ring is the one of this `tail`, or a later one.
            // SAFETY: the holder frees no ring that a thief inside may have found here.
            let ring = unsafe { &*self.ring.load(Ordering::Acquire) };
            for (at, item) in items[..taken].iter_mut().enumerate() {
                *item = ring.slot(head.wrapping_add(at)).load(Ordering::Relaxed);
            }
            let after = head.wrapping_add(taken);
            if broken!("theft_unchecked") {
                self.head.store(after, Ordering::Release);
                break taken;
            }
            // Release: pairs with `push`, which writes to these slots only after they were read.
            if self.head.compare_exchange(head, after, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                break taken;
            }
            hint::spin_loop();
        };
        // Release: pairs with the Acquire of `free_old_rings`.
        self.thieves.fetch_sub(1, Ordering::Release);
        taken
    }

    /// Returns the ring. *Runs on: the holder.*
    #[inline]
    fn ring(&self) -> &Ring<T> {
        // SAFETY: only the holder replaces the ring and frees it.
        unsafe { &*self.ring.load(Ordering::Relaxed) }
    }

    /// Replaces the ring by one with `slots` slots, which must be enough for all items. *Runs on: the
    /// holder.*
    #[cold]
    #[inline(never)]
    fn replace(&self, slots: usize) -> &Ring<T> {
        let (old, ring) = (self.ring.load(Ordering::Relaxed), Ring::new(slots));
        // SAFETY: the first is the ring of the holder, and the second is made here.
        let (from, to) = unsafe { (&*old, &*ring) };
        let tail = self.tail.load(Ordering::Relaxed);
        let mut number = self.head.load(Ordering::Relaxed);
        while number != tail {
            to.slot(number).store(from.slot(number).load(Ordering::Relaxed), Ordering::Relaxed);
            number = number.wrapping_add(1);
        }
        // Release: pairs with the Acquire of `take_some`, which then sees the slots.
        self.ring.store(ring, Ordering::Release);
        self.free_old_rings(old);
        self.ring()
    }

    /// Frees `ring`, which was replaced, and all other old rings, if no thief may read them. *Runs on: the
    /// holder.*
    fn free_old_rings(&self, ring: *mut Ring<T>) {
        // Pairs with the fence of `take_some`.
        full_fence();
        // Acquire: pairs with the Release of `take_some`.
        let unread = self.thieves.load(Ordering::Acquire) == 0 || broken!("ring_freed_at_once");
        self.old.with_mut(|old| {
            // SAFETY: only the holder touches the list, and not twice at a time.
            let old = unsafe { &mut *old };
            old.push(ring);
            if unread {
                // SAFETY: a thief that comes now reads the new ring. Each old one was put here once.
                old.drain(..).for_each(|ring| unsafe { Ring::free(ring) });
            }
        });
    }

    /// Returns `true` if there is no item. A caller that must not miss an item has fenced before. *Runs on:
    /// any thread.*
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns about how many items there are. *Runs on: any thread.*
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // Acquire: pairs with `pop` and `steal`: `tail` is not before this `head`.
        let head = self.head.load(Ordering::Acquire);
        // Acquire: a thread that sees an item may look at it.
        self.tail.load(Ordering::Acquire).wrapping_sub(head)
    }
}

impl<T> Drop for StealQueue<T> {
    fn drop(&mut self) {
        let ring = self.ring.load(Ordering::Relaxed);
        self.old.with_mut(|old| {
            // SAFETY: no other thread uses the queue any more. Each ring is in one of these places.
            unsafe { (*old).drain(..).chain([ring]).for_each(|ring| Ring::free(ring)) };
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::LazyLock;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;
    use crate::sync::{apart, lines};

    const MOST: usize = if cfg!(miri) { 600 } else { 200_000 };

    /// As in the runtime: one thread is the holder, and any thread steals.
    struct Shared(StealQueue<usize>);

    // SAFETY: the tests call what is the holder's on one thread only.
    unsafe impl Sync for Shared {}

    impl Shared {
        fn steal(&self) -> Vec<usize> {
            let mut kept = Vec::new();
            let oldest = self.0.steal(|&item| kept.push(item));
            oldest.into_iter().copied().chain(kept).collect()
        }

        fn slots(&self) -> usize {
            self.0.ring().slots.len()
        }

        fn old_rings(&self) -> usize {
            // SAFETY: this thread is the holder.
            self.0.old.with(|old| unsafe { (*old).len() })
        }
    }

    /// Returns items that live for ever, as Gs do.
    fn items(count: usize) -> &'static [usize] {
        static ITEMS: LazyLock<Vec<usize>> = LazyLock::new(|| (0..MOST).collect());
        &ITEMS[..count]
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri notes each look at a ring for each of its slots: this takes minutes")]
    fn items_come_in_order_while_the_ring_grows_and_shrinks() {
        let (queue, items) = (Shared(StealQueue::new()), items(2 * MANY));
        for round in 0..3 {
            // Where the items begin in the ring differs.
            for item in &items[..round * 7] {
                queue.0.push(item);
                assert_eq!(queue.0.pop(), Some((item, 0)));
            }
            items.iter().for_each(|item| queue.0.push(item));
            assert_eq!((queue.0.len(), queue.slots()), (items.len(), 2 * MANY));
            assert!(items.iter().all(|item| queue.0.peek(1) == items.get(item + 1)
                && queue.0.pop() == Some((item, items.len() - 1 - item))));
            assert!(queue.0.is_empty() && queue.0.peek(0).is_none() && queue.0.pop().is_none());
            assert_eq!((queue.slots(), queue.old_rings()), (FEW, 0), "an empty queue keeps a large ring");
        }
    }

    #[test]
    fn a_thief_takes_the_older_half_up_to_the_limit() {
        let (queue, items) = (Shared(StealQueue::new()), items(100));
        items[..5].iter().for_each(|item| queue.0.push(item));
        assert_eq!(queue.steal(), [0, 1, 2]);
        assert_eq!(queue.steal(), [3]);
        assert_eq!(queue.steal(), [4]);
        assert!(queue.steal().is_empty());
        items.iter().for_each(|item| queue.0.push(item));
        assert_eq!(queue.steal(), items[..STEAL_LIMIT]);
        assert_eq!(queue.0.pop(), Some((&items[STEAL_LIMIT], items.len() - STEAL_LIMIT - 1)));
    }

    #[test]
    fn an_old_ring_is_kept_while_a_thief_is_inside() {
        let (queue, items) = (Shared(StealQueue::new()), items(4 * FEW));
        queue.0.thieves.fetch_add(1, Ordering::Relaxed);
        items.iter().for_each(|item| queue.0.push(item));
        assert_eq!(queue.old_rings(), 2);
        queue.0.thieves.fetch_sub(1, Ordering::Relaxed);
        queue.0.push(&items[0]);
        assert_eq!(queue.old_rings(), 0, "the next replacement frees all");
    }

    #[test]
    fn beside_thieves_each_item_is_taken_once() {
        let (queue, items) = (Shared(StealQueue::new()), items(MOST));
        let over = AtomicBool::new(false);
        let taken = thread::scope(|scope| {
            let thieves = [(); 2].map(|()| {
                scope.spawn(|| {
                    let mut stolen = Vec::new();
                    while !over.load(Ordering::Acquire) {
                        stolen.extend(queue.steal());
                    }
                    stolen
                })
            });
            let mut popped = Vec::new();
            // Bursts of many sizes, so that the ring grows and shrinks.
            for burst in items.chunk_by(|a, _| a % 97 != 0 || a % 5 == 0) {
                burst.iter().for_each(|item| queue.0.push(item));
                popped.extend(
                    std::iter::from_fn(|| queue.0.pop().map(|(&item, _)| item)).take(burst.len() / 2),
                );
            }
            popped.extend(std::iter::from_fn(|| queue.0.pop().map(|(&item, _)| item)));
            over.store(true, Ordering::Release);
            let mut all = thieves.map(|thief| thief.join().unwrap()).concat();
            all.extend(popped);
            all
        });
        let mut sorted = taken;
        sorted.sort_unstable();
        assert_eq!(sorted, items);
    }

    #[test]
    fn what_thieves_write_lies_apart_from_what_the_holder_writes() {
        let thieves = lines!(StealQueue<usize>, thieves);
        for written in [lines!(StealQueue<usize>, tail), lines!(StealQueue<usize>, ring)] {
            assert!(apart(&thieves, &written), "{thieves:?}, {written:?}");
        }
    }
}

//! The run-next slot of a P: the G that was woken last, which runs next.
//!
//! A thief may take the G, because the P may compute for long. So the holder needs a locked instruction to
//! put a G in, and one to take it out, while other Ps exist. The slot of a runtime with one P is closed: no
//! thief touches it, and plain accesses do. That is an eighth of a message between two green threads. When a
//! second P comes, the holder opens the slot for good, in the next round in which it looks around. The slots
//! of other Ps are opened before their first use.
//!
//! ```text
//!   the holder                                    a thief
//!   puts and takes by plain loads and stores      the slot is closed? leaves it
//!   opens the slot          (Release)
//!   puts and takes by exchanges                   the slot is open?   (Acquire)
//!                                                   takes by an exchange
//! ```
//!
//! A P has one holder at a time, and its lease orders one after the other (`p/lease.rs`).

#![allow(unsafe_code)]

use std::ptr;

use crate::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::sync::{broken, full_fence};

/// A place for one reference, which lives for ever.
pub(crate) struct NextSlot<T: 'static> {
    item: AtomicPtr<T>,
    /// Thieves may take the item. Only the holder writes it.
    open: AtomicBool,
}

impl<T> NextSlot<T> {
    /// Makes an empty slot, which is closed.
    pub(crate) fn new() -> Self {
        NextSlot { item: AtomicPtr::new(ptr::null_mut()), open: AtomicBool::new(false) }
    }

    /// Returns `true` if thieves may take the item. *Runs on: the holder.*
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        // Relaxed: only the holder writes it.
        self.open.load(Ordering::Relaxed)
    }

    /// Lets thieves take the item from here on. The caller then looks for an idle M, if there is an item.
    /// *Runs on: the holder.*
    #[cold]
    pub(crate) fn open(&self) {
        // Release: pairs with the Acquire of `steal`, which then sees the item and what it leads to.
        let order = if broken!("slot_opened_unordered") { Ordering::Relaxed } else { Ordering::Release };
        self.open.store(true, order);
        // Publishes the item as work; pairs with the caller's next look at the idle counts.
        if !broken!("slot_opened_without_fence") {
            full_fence();
        }
    }

    /// Puts an item in, and returns the one that was there. *Runs on: the holder.*
    #[inline]
    pub(crate) fn put(&self, item: &'static T) -> Option<&'static T> {
        let item = ptr::from_ref(item).cast_mut();
        let displaced = if self.is_open() {
            // SeqCst: publishes work; pairs with the maker's next look at the idle counts (`Idle::idle_ps`).
            self.item.swap(item, Ordering::SeqCst)
        } else {
            // Relaxed: published by `open`, or by the lease.
            let displaced = self.item.load(Ordering::Relaxed);
            self.item.store(item, Ordering::Relaxed);
            displaced
        };
        as_item(displaced)
    }

    /// Takes the item, if any. *Runs on: the holder.*
    #[inline]
    pub(crate) fn take(&self) -> Option<&'static T> {
        if self.is_open() {
            return self.take_open();
        }
        let item = self.item.load(Ordering::Relaxed);
        self.item.store(ptr::null_mut(), Ordering::Relaxed);
        as_item(item)
    }

    /// Takes the item, if there is one and the slot is open. *Runs on: any thread.*
    #[inline]
    pub(crate) fn steal(&self) -> Option<&'static T> {
        // Acquire: pairs with `open`.
        if self.open.load(Ordering::Acquire) || broken!("slot_stolen_from_closed") {
            self.take_open()
        } else {
            None
        }
    }

    #[inline]
    fn take_open(&self) -> Option<&'static T> {
        // Loads first: an empty slot then costs no read-modify-write.
        if self.item.load(Ordering::Relaxed).is_null() {
            return None;
        }
        // Acquire: pairs with `put`, so that this thread sees what the waker wrote.
        as_item(self.item.swap(ptr::null_mut(), Ordering::Acquire))
    }

    /// Returns `true` if there is no item. *Runs on: any thread.*
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // SeqCst: pairs with `put`.
        self.item.load(Ordering::SeqCst).is_null()
    }

    /// As `!is_empty()`, as a number, and out of date for other threads. *Runs on: any thread.*
    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(!self.item.load(Ordering::Relaxed).is_null())
    }
}

#[inline]
fn as_item<T>(item: *mut T) -> Option<&'static T> {
    // SAFETY: only `put` writes items to the slot, and these are references for ever.
    unsafe { item.as_ref() }
}

#[cfg(all(test, loom))]
mod models {
    use std::sync::Arc;

    use loom::cell::UnsafeCell;
    use loom::thread;

    use super::*;
    use crate::sync::models::{Reached, explore, explore_at_least};

    /// Which of the items were taken. An item is a cell that its putter writes, and its taker reads.
    struct World {
        slot: NextSlot<Item>,
        items: &'static [Item; 2],
    }

    struct Item(UnsafeCell<usize>);

    // SAFETY: the slot orders the accesses, which loom checks.
    unsafe impl Sync for Item {}
    // SAFETY: as above.
    unsafe impl Send for Item {}

    impl World {
        fn new() -> Arc<World> {
            // Leaked: items live for ever.
            let items = Box::leak(Box::new([0, 0].map(|n| Item(UnsafeCell::new(n)))));
            Arc::new(World { slot: NextSlot::new(), items })
        }

        /// Writes item `n - 1`, and puts it in. Returns the number of the displaced item.
        fn put(&self, n: usize) -> Option<usize> {
            let item = &self.items[n - 1];
            // SAFETY: no other thread has the item.
            item.0.with_mut(|number| unsafe { *number = n });
            self.slot.put(item).map(number)
        }
    }

    fn number(item: &Item) -> usize {
        // SAFETY: the caller has taken the item.
        item.0.with(|number| unsafe { *number })
    }

    /// The holder puts one item into the closed slot, and one into the open slot.
    #[test]
    fn an_item_is_taken_once_by_the_holder_or_a_thief() {
        static STOLEN: [Reached; 3] = [const { Reached::new() }; 3];
        // The thief takes both items if each thread is interrupted.
        explore_at_least(3, 3, || {
            let world = World::new();
            let thief = thread::spawn({
                let world = world.clone();
                move || [(); 2].map(|()| world.slot.steal().map(number))
            });
            let mut mine = vec![world.put(1)];
            world.slot.open();
            mine.push(world.put(2));
            mine.push(world.slot.take().map(number));
            let stolen = thief.join().unwrap();
            let mut all: Vec<usize> = mine.into_iter().chain(stolen).flatten().collect();
            STOLEN[stolen.iter().flatten().count()].note(true);
            all.sort_unstable();
            assert_eq!(all, [1, 2]);
        });
        STOLEN.iter().for_each(Reached::assert);
    }

    #[test]
    fn no_thief_takes_from_a_closed_slot() {
        explore(3, || {
            let world = World::new();
            let thief = thread::spawn({
                let world = world.clone();
                move || world.slot.steal().map(number)
            });
            assert_eq!(world.put(1), None);
            assert_eq!(world.slot.take().map(number), Some(1));
            assert_eq!(world.put(2), None);
            assert_eq!(thief.join().unwrap(), None);
            assert!(!world.slot.is_empty());
        });
    }

    /// The opener looks at the idle counts, and an M that goes to sleep looks at the slot.
    #[test]
    fn an_opened_slot_is_seen_by_an_m_or_its_opener_sees_the_m() {
        explore(3, || {
            let world = World::new();
            let idle = Arc::new(AtomicBool::new(false));
            let sleeper = thread::spawn({
                let (world, idle) = (world.clone(), idle.clone());
                move || {
                    idle.store(true, Ordering::Relaxed);
                    full_fence();
                    !world.slot.is_empty()
                }
            });
            world.put(1);
            world.slot.open();
            let sees_sleeper = idle.load(Ordering::Relaxed);
            assert!(sleeper.join().unwrap() || sees_sleeper, "an M sleeps, and nothing wakes it");
        });
    }
}

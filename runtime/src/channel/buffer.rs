//! Where the messages of a channel lie: a ring of slots, or a chain of blocks that has no end.
//!
//! Both are used from two ends, each by one thread at a time (the holder of that end's lock), each with a cursor of its
//! own. That a slot was filled, or is free again, is told by the two counts of the channel (`buffered.rs`).

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr;

use super::model::{AtomicPtr, Ordering, UnsafeCell};

/// Slots for messages, first in, first out.
///
/// # Safety
/// What `take` gives is what `put` was given, in order, whenever the callers keep to the contracts.
pub(super) unsafe trait Buffer<T> {
    /// Where the next message goes.
    type Tail: Default;
    /// Where the next one comes from.
    type Head: Default;
    /// Memory for more messages, made without any lock.
    type More;

    /// How many messages there is room for.
    fn limit(&self) -> usize;

    /// True if `put` needs more memory first.
    fn wants_more(&self, tail: &Self::Tail) -> bool;

    fn make_more(&self) -> Self::More;

    /// *Runs on: the holder of the tail.*
    fn add_more(&self, tail: &mut Self::Tail, more: Self::More);

    /// # Safety
    /// The caller alone has the tail, the cursor is this buffer's, fewer than `limit` messages are in it, and
    /// `wants_more` said no.
    unsafe fn put(&self, tail: &mut Self::Tail, message: T);

    /// # Safety
    /// The caller alone has the head, the cursor is this buffer's, and knows of a message in it.
    unsafe fn take(&self, head: &mut Self::Head) -> T;

    /// Frees its memory, in which no message is left. *Runs on: the last owner.*
    fn free(&mut self, head: &Self::Head);
}

type Slot<T> = UnsafeCell<MaybeUninit<T>>;

#[cfg(loom)]
fn empty_slot<T>() -> Slot<T> {
    UnsafeCell::new(MaybeUninit::uninit())
}

/// # Safety
/// The slot is empty and nobody else uses it.
unsafe fn fill<T>(slot: &Slot<T>, message: T) {
    // SAFETY: by the contract above.
    slot.with_mut(|slot| unsafe { (*slot).write(message) });
}

/// # Safety
/// The slot is filled, nobody else uses it, and it counts as empty afterwards.
unsafe fn empty<T>(slot: &Slot<T>) -> T {
    // SAFETY: by the contract above.
    slot.with_mut(|slot| unsafe { (*slot).assume_init_read() })
}

/// A ring.
pub(super) struct Ring<T> {
    slots: Box<[Slot<T>]>,
}

impl<T> Ring<T> {
    /// For so many messages, at least one.
    pub(super) fn new(capacity: usize) -> Self {
        #[cfg(not(loom))]
        // SAFETY: empty slots need not be written: so a large ring takes memory only as it is used.
        let slots = unsafe { Box::<[Slot<T>]>::new_uninit_slice(capacity).assume_init() };
        #[cfg(loom)]
        let slots = (0..capacity).map(|_| empty_slot()).collect();
        Ring { slots }
    }

    #[inline]
    fn next(&self, cursor: &mut usize) -> &Slot<T> {
        let slot = &self.slots[*cursor];
        *cursor += 1;
        if *cursor == self.slots.len() {
            *cursor = 0;
        }
        slot
    }
}

// SAFETY: the cursors go round in the same order; who uses which slot when is by the callers' contracts.
unsafe impl<T> Buffer<T> for Ring<T> {
    type Tail = usize;
    type Head = usize;
    type More = ();

    #[inline]
    fn limit(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    fn wants_more(&self, _tail: &usize) -> bool {
        false
    }

    fn make_more(&self) {}

    fn add_more(&self, _tail: &mut usize, (): ()) {}

    #[inline]
    unsafe fn put(&self, tail: &mut usize, message: T) {
        // SAFETY: fewer messages than slots are in it, so the taker of the last one here is done, and the next one comes
        // only when this is counted.
        unsafe { fill(self.next(tail), message) };
    }

    #[inline]
    unsafe fn take(&self, head: &mut usize) -> T {
        // SAFETY: the caller knows of a message, and this slot has the oldest one.
        unsafe { empty(self.next(head)) }
    }

    fn free(&mut self, _head: &usize) {}
}

/// Messages in a block.
const BLOCK: usize = if cfg!(loom) { 1 } else { 31 };

pub(super) struct Block<T> {
    /// Written before a message of the next block is counted; null before that.
    next: AtomicPtr<Block<T>>,
    slots: [Slot<T>; BLOCK],
}

impl<T> Block<T> {
    #[cfg(not(loom))]
    fn new() -> Box<Self> {
        let mut block = Box::<Self>::new_uninit();
        // SAFETY: `next` is written where it lies, and empty slots need not be: so no large block goes over the stack.
        unsafe {
            (&raw mut (*block.as_mut_ptr()).next).write(AtomicPtr::new(ptr::null_mut()));
            block.assume_init()
        }
    }

    #[cfg(loom)]
    fn new() -> Box<Self> {
        Box::new(Block {
            next: AtomicPtr::new(ptr::null_mut()),
            slots: std::array::from_fn(|_| empty_slot()),
        })
    }
}

/// A chain of blocks.
pub(super) struct Chain<T> {
    /// The first block of all, for the head to begin with.
    first: AtomicPtr<Block<T>>,
    /// A block that the head is done with, for the tail to use again.
    spare: AtomicPtr<Block<T>>,
}

/// A place in the chain. An index of `BLOCK` means that the block is used up.
pub(super) struct Cursor<T> {
    block: *mut Block<T>,
    index: usize,
}

impl<T> Default for Cursor<T> {
    fn default() -> Self {
        Cursor { block: ptr::null_mut(), index: BLOCK }
    }
}

// SAFETY: it is used by the holder of a lock; what goes through it is messages.
unsafe impl<T: Send> Send for Cursor<T> {}

impl<T> Chain<T> {
    pub(super) fn new() -> Self {
        Chain { first: AtomicPtr::new(ptr::null_mut()), spare: AtomicPtr::new(ptr::null_mut()) }
    }

    fn take_spare(&self) -> Option<Box<Block<T>>> {
        // Acquire: the head is done with it; pairs with `keep_spare`.
        let spare = self.spare.swap(ptr::null_mut(), Ordering::Acquire);
        // SAFETY: `keep_spare` made it from a box, and the swap gave it to us alone.
        (!spare.is_null()).then(|| unsafe { Box::from_raw(spare) })
    }

    fn keep_spare(&self, block: Box<Block<T>>) {
        // Relaxed: the box is ours alone. Release: pairs with `take_spare`; Acquire: likewise, for what is freed here.
        block.next.store(ptr::null_mut(), Ordering::Relaxed);
        let old = self.spare.swap(Box::into_raw(block), Ordering::AcqRel);
        if !old.is_null() {
            // SAFETY: as in `take_spare`.
            drop(unsafe { Box::from_raw(old) });
        }
    }
}

// SAFETY: both cursors go through the slots of each block, and through the blocks, in the order of the chain.
unsafe impl<T> Buffer<T> for Chain<T> {
    type Tail = Cursor<T>;
    type Head = Cursor<T>;
    type More = Box<Block<T>>;

    #[inline]
    fn limit(&self) -> usize {
        usize::MAX
    }

    #[inline]
    fn wants_more(&self, tail: &Cursor<T>) -> bool {
        tail.index == BLOCK
    }

    fn make_more(&self) -> Box<Block<T>> {
        self.take_spare().unwrap_or_else(Block::new)
    }

    fn add_more(&self, tail: &mut Cursor<T>, more: Box<Block<T>>) {
        if tail.index < BLOCK {
            // Somebody else was faster.
            return self.keep_spare(more);
        }
        let more = Box::into_raw(more);
        // SAFETY: the tail's block is freed by the head only when the head has gone on to the next, which comes now.
        let link = unsafe { tail.block.as_ref() }.map_or(&self.first, |block| &block.next);
        // Relaxed: the count of the first message in it tells the head (`buffered.rs`).
        link.store(more, Ordering::Relaxed);
        *tail = Cursor { block: more, index: 0 };
    }

    #[inline]
    unsafe fn put(&self, tail: &mut Cursor<T>, message: T) {
        // SAFETY: the tail's block is not used up, so the head does not free it, and this slot was never filled.
        unsafe { fill(&(*tail.block).slots[tail.index], message) };
        tail.index += 1;
    }

    #[inline]
    unsafe fn take(&self, head: &mut Cursor<T>) -> T {
        if head.index == BLOCK {
            self.next_block(head);
        }
        // SAFETY: the caller knows of a message, so its block is there, and this slot has the oldest one.
        let message = unsafe { empty(&(*head.block).slots[head.index]) };
        head.index += 1;
        message
    }

    fn free(&mut self, head: &Cursor<T>) {
        drop(self.take_spare());
        let mut block = if head.block.is_null() { self.first.load(Ordering::Relaxed) } else { head.block };
        while !block.is_null() {
            // SAFETY: a block of the chain was made from a box, and nobody else is left.
            let this = unsafe { Box::from_raw(block) };
            block = this.next.load(Ordering::Relaxed);
        }
    }
}

impl<T> Chain<T> {
    #[cold]
    fn next_block(&self, head: &mut Cursor<T>) {
        let old = head.block;
        // SAFETY: a block is freed by the head alone, below.
        let link = unsafe { old.as_ref() }.map_or(&self.first, |block| &block.next);
        // Relaxed: whoever knows of a message in the next block has seen its count, which came after.
        *head = Cursor { block: link.load(Ordering::Relaxed), index: 0 };
        if !old.is_null() {
            // SAFETY: it is used up at both ends, and was made from a box.
            self.keep_spare(unsafe { Box::from_raw(old) });
        }
    }
}

//! Trait `Buffer`: the memory of a channel's messages. `Ring` is for bounded channels, `Chain` (linked
//! blocks) for unbounded channels. No lock is held while the next block of a chain is allocated.
//!
//! A buffer is used from two ends. Each end is used by one thread at a time, the holder of that end's lock,
//! with a cursor of its own. The two counts of the channel (`buffered.rs`) tell one end that the other has
//! filled or emptied a slot.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr;

use super::model::{AtomicPtr, Ordering, UnsafeCell};

/// Slots for messages, first in, first out.
///
/// # Safety
/// `take` returns what `put` was given, in order, as long as the callers keep the contracts.
pub(super) unsafe trait Buffer<T> {
    /// The cursor of the end that puts messages.
    type Tail: Default;
    /// The cursor of the end that takes messages.
    type Head: Default;
    /// Memory for more messages, which is allocated without any lock.
    type More;

    /// Returns the number of messages for which there is room.
    fn limit(&self) -> usize;

    /// Returns `true` if `put` needs more memory first.
    fn wants_more(&self, tail: &Self::Tail) -> bool;

    fn make_more(&self) -> Self::More;

    /// *Runs on: the holder of the tail.*
    fn add_more(&self, tail: &mut Self::Tail, more: Self::More);

    /// # Safety
    /// The caller has the tail's lock, and `tail` is this buffer's cursor. The buffer has fewer than `limit`
    /// messages, and `wants_more` returned `false`.
    unsafe fn put(&self, tail: &mut Self::Tail, message: T);

    /// # Safety
    /// The caller has the head's lock, `head` is this buffer's cursor, and the caller has seen that there is
    /// a message.
    unsafe fn take(&self, head: &mut Self::Head) -> T;

    /// Frees the memory, in which no message is left. *Runs on: the last owner.*
    fn free(&mut self, head: &Self::Head);
}

type Slot<T> = UnsafeCell<MaybeUninit<T>>;

#[cfg(loom)]
fn empty_slot<T>() -> Slot<T> {
    UnsafeCell::new(MaybeUninit::uninit())
}

/// # Safety
/// The slot is empty, and no other thread uses it.
unsafe fn fill<T>(slot: &Slot<T>, message: T) {
    // SAFETY: this thread alone uses the slot, by the contract of `fill`.
    slot.with_mut(|slot| unsafe { (*slot).write(message) });
}

/// # Safety
/// The slot is filled, and no other thread uses it. It is empty afterwards.
unsafe fn empty<T>(slot: &Slot<T>) -> T {
    // SAFETY: the slot is filled and used by this thread alone, by the contract of `empty`.
    slot.with_mut(|slot| unsafe { (*slot).assume_init_read() })
}

/// A ring of slots, for a channel with a bound.
pub(super) struct Ring<T> {
    slots: Box<[Slot<T>]>,
}

impl<T> Ring<T> {
    /// Returns a ring for `capacity` messages, at least one.
    pub(super) fn new(capacity: usize) -> Self {
        #[cfg(not(loom))]
        // SAFETY: an empty slot may be uninitialized, because a slot is a `MaybeUninit`. Pages that are never
        // used take no memory.
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

// SAFETY: both cursors visit the slots in the same order. The callers' contracts say which thread may use
// which slot.
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
        // SAFETY: the buffer has fewer messages than slots. So the taker of the last message in this slot is
        // done, and the next taker comes only after this message is counted.
        unsafe { fill(self.next(tail), message) };
    }

    #[inline]
    unsafe fn take(&self, head: &mut usize) -> T {
        // SAFETY: the caller has seen a message, and this slot has the oldest one.
        unsafe { empty(self.next(head)) }
    }

    fn free(&mut self, _head: &usize) {}
}

/// The number of messages in a block.
const BLOCK: usize = if cfg!(loom) { 1 } else { 31 };

pub(super) struct Block<T> {
    /// The next block. It is stored before a message of that block is counted; null before that.
    next: AtomicPtr<Block<T>>,
    slots: [Slot<T>; BLOCK],
}

impl<T> Block<T> {
    #[cfg(not(loom))]
    fn new() -> Box<Self> {
        let mut block = Box::<Self>::new_uninit();
        // SAFETY: `next` is written in place, and empty slots may be uninitialized. So no large block is
        // copied over the stack.
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

/// A chain of blocks, for a channel without a bound.
pub(super) struct Chain<T> {
    /// The first block of all, at which the head begins.
    first: AtomicPtr<Block<T>>,
    /// A block that the head has emptied, for the tail to use again.
    spare: AtomicPtr<Block<T>>,
}

/// A position in the chain. An index of `BLOCK` means that the block is used up.
pub(super) struct Cursor<T> {
    block: *mut Block<T>,
    index: usize,
}

impl<T> Default for Cursor<T> {
    fn default() -> Self {
        Cursor { block: ptr::null_mut(), index: BLOCK }
    }
}

// SAFETY: a cursor is used by the holder of its end's lock only. What it gives access to is messages, which
// are `Send`.
unsafe impl<T: Send> Send for Cursor<T> {}

impl<T> Chain<T> {
    pub(super) fn new() -> Self {
        Chain { first: AtomicPtr::new(ptr::null_mut()), spare: AtomicPtr::new(ptr::null_mut()) }
    }

    fn take_spare(&self) -> Option<Box<Block<T>>> {
        // Acquire: the head's use of the block happens before the tail uses it again. Partner: the Release in
        // `keep_spare`.
        let spare = self.spare.swap(ptr::null_mut(), Ordering::Acquire);
        // SAFETY: `keep_spare` made the pointer from a box, and the swap gave it to this thread alone.
        (!spare.is_null()).then(|| unsafe { Box::from_raw(spare) })
    }

    fn keep_spare(&self, block: Box<Block<T>>) {
        // Relaxed: this thread alone has the box. The swap below is Release for `take_spare`, and Acquire for
        // the block that it gets back and frees.
        block.next.store(ptr::null_mut(), Ordering::Relaxed);
        let old = self.spare.swap(Box::into_raw(block), Ordering::AcqRel);
        if !old.is_null() {
            // SAFETY: `keep_spare` made the pointer from a box, and the swap gave it to this thread alone.
            drop(unsafe { Box::from_raw(old) });
        }
    }
}

// SAFETY: both cursors visit the slots of each block, and the blocks, in the order of the chain.
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
            // Another sender has added a block meanwhile.
            return self.keep_spare(more);
        }
        let more = Box::into_raw(more);
        // SAFETY: the head frees the tail's block only after it has moved to the next block, and the link to
        // that is stored here.
        let link = unsafe { tail.block.as_ref() }.map_or(&self.first, |block| &block.next);
        // Relaxed: the count of the first message in the new block orders this store before the head's load
        // (`buffered.rs`).
        link.store(more, Ordering::Relaxed);
        *tail = Cursor { block: more, index: 0 };
    }

    #[inline]
    unsafe fn put(&self, tail: &mut Cursor<T>, message: T) {
        // SAFETY: the tail's block is not used up, so the head does not free it. This slot was never filled.
        unsafe { fill(&(*tail.block).slots[tail.index], message) };
        tail.index += 1;
    }

    #[inline]
    unsafe fn take(&self, head: &mut Cursor<T>) -> T {
        if head.index == BLOCK {
            self.next_block(head);
        }
        // SAFETY: the caller has seen a message, so its block is linked, and this slot has the oldest
        // message.
        let message = unsafe { empty(&(*head.block).slots[head.index]) };
        head.index += 1;
        message
    }

    fn free(&mut self, head: &Cursor<T>) {
        drop(self.take_spare());
        let mut block = if head.block.is_null() { self.first.load(Ordering::Relaxed) } else { head.block };
        while !block.is_null() {
            // SAFETY: each block of the chain was made from a box, and the caller is the last owner.
            let this = unsafe { Box::from_raw(block) };
            block = this.next.load(Ordering::Relaxed);
        }
    }
}

impl<T> Chain<T> {
    #[cold]
    fn next_block(&self, head: &mut Cursor<T>) {
        let old = head.block;
        // SAFETY: only the head frees a block, below.
        let link = unsafe { old.as_ref() }.map_or(&self.first, |block| &block.next);
        // Relaxed: the caller has seen the count of a message in the next block, and the link was stored
        // before that.
        *head = Cursor { block: link.load(Ordering::Relaxed), index: 0 };
        if !old.is_null() {
            // SAFETY: both ends have used the block up, and it was made from a box.
            self.keep_spare(unsafe { Box::from_raw(old) });
        }
    }
}

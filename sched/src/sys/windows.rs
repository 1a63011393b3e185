//! Windows: stacks by corosensei, which knows what the system wants to find in one.

#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use corosensei::stack::{
    DefaultStack, MIN_STACK_SIZE, STACK_ALIGNMENT, Stack as _, StackPointer, StackTebFields,
};

use crate::stack::checked_stack_bytes;

// Memory of stacks ---------------------------------------------------------------------------------------

/// Nobody says.
pub(crate) fn room() -> usize {
    usize::MAX
}

/// There is no limit on them.
pub(crate) fn has_mappings(_number: usize) -> bool {
    true
}

/// What corosensei adds to a stack's bytes: the moving guard (two pages), the reserve for the exception of an
/// overflow, and one page that is never committed.
const EXTRA_BYTES: usize = 4 * 4096;

/// One stack. Owning it is the right to run on it; unlike on Unix it owns its memory too.
pub(crate) struct Stack {
    memory: DefaultStack,
    base: StackPointer,
}

impl Stack {
    /// One past the highest address: where the stack begins.
    pub(crate) fn base(&self) -> usize {
        self.base.get()
    }

    /// The lowest address.
    pub(crate) fn limit(&self) -> usize {
        self.memory.limit().get()
    }

    /// How deep one can go, about.
    pub(crate) fn usable_bytes(&self) -> usize {
        self.base() - self.guard_range().end
    }

    /// Where the system reports an overflow by itself.
    pub(crate) fn guard_range(&self) -> Range<usize> {
        self.limit()..self.limit() + EXTRA_BYTES
    }

    /// Keeps `bytes` at the top aside, for a header of the runtime's own: its lowest address (16-aligned) and the
    /// stack that is left.
    ///
    /// # Panics
    /// If less than corosensei's least stack would be left: ask `Slabs::new` for the header's bytes too.
    pub(crate) fn reserve_top(mut self, bytes: usize) -> (NonNull<u8>, Stack) {
        let bytes = bytes.next_multiple_of(STACK_ALIGNMENT);
        let left = self.usable_bytes().checked_sub(bytes).filter(|&left| left >= MIN_STACK_SIZE);
        assert!(left.is_some(), "no room for {bytes} bytes on a stack of {}", self.usable_bytes());
        self.base = StackPointer::new(self.base() - bytes).expect("far above 0");
        let header = NonNull::new(with_exposed_provenance_mut(self.base()));
        (header.expect("as `base` is not null"), self)
    }
}

// SAFETY: corosensei's own stack, of which the top is used for something else; the system's fields keep
// describing the whole.
unsafe impl corosensei::stack::Stack for Stack {
    #[inline]
    fn base(&self) -> StackPointer {
        self.base
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        self.memory.limit()
    }

    #[inline]
    fn teb_fields(&self) -> StackTebFields {
        self.memory.teb_fields()
    }

    #[inline]
    fn update_teb_fields(&mut self, stack_limit: usize, guaranteed_stack_bytes: usize) {
        self.memory.update_teb_fields(stack_limit, guaranteed_stack_bytes);
    }
}

/// All stacks of one size: here each is an allocation of its own, which goes when the stack is dropped.
pub(crate) struct Slabs {
    stack_bytes: usize,
    carved: AtomicUsize,
}

impl Slabs {
    /// Stacks of `stack_bytes` usable bytes; what guards them comes on top.
    pub(crate) fn new(stack_bytes: usize) -> io::Result<Slabs> {
        Ok(Slabs { stack_bytes: checked_stack_bytes(stack_bytes)?, carved: AtomicUsize::new(0) })
    }

    /// A stack that nobody has used yet. *Runs on: any thread.*
    pub(crate) fn carve(&self) -> io::Result<Stack> {
        let memory = DefaultStack::new(self.stack_bytes).map_err(|error| {
            let kib = self.stack_bytes >> 10;
            io::Error::new(
                error.kind(),
                format!("cannot allocate a stack of {kib} KiB: {error}; take smaller ones"),
            )
        })?;
        self.carved.fetch_add(1, Ordering::Relaxed);
        Ok(Stack { base: memory.base(), memory })
    }

    /// Who knows: the next is asked for when it is needed.
    pub(crate) fn has_more(&self) -> bool {
        true
    }

    /// Nothing: the system would need its guard moved back up first. Dropping an idle stack frees it.
    pub(crate) fn release_pages(&self, _stacks: &mut [Stack]) {}

    /// The stack as it was carved: takes back what `reserve_top` kept aside, whose content is needed no more.
    pub(crate) fn whole(&self, stack: Stack) -> Stack {
        Stack { base: stack.memory.base(), memory: stack.memory }
    }

    /// Address space of all stacks that were made, those dropped since too.
    pub(crate) fn mapped_bytes(&self) -> usize {
        self.carved() * (self.stack_bytes + EXTRA_BYTES)
    }

    /// How many stacks were made so far.
    pub(crate) fn carved(&self) -> usize {
        self.carved.load(Ordering::Relaxed)
    }
}

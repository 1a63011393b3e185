//! Stacks on Windows: `Stack` and `Slabs` with the interface of the Unix versions. corosensei makes each
//! stack, because Windows expects more in a stack than a mapping. No mapping is shared by several stacks, and
//! an idle stack keeps its memory until it is dropped: a pool drops the stacks that it would make cold. The
//! system commits a new stack's highest page, its guard and its reserve. It commits others as they are used.

#![allow(unsafe_code)]

use std::io;
use std::iter;
use std::ops::Range;
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use corosensei::stack::{
    DefaultStack, MIN_STACK_SIZE, STACK_ALIGNMENT, Stack as _, StackPointer, StackTebFields,
};

use super::checked_stack_bytes;

/// What corosensei adds to the bytes of a stack, beside the reserve for the exception of an overflow: the
/// moving guard (two pages), and one page that is never committed.
const EXTRA_BYTES: usize = 3 * 4096;

/// One stack. Its owner may run on it; unlike on Unix, the stack also owns its memory.
pub(crate) struct Stack {
    memory: DefaultStack,
    base: StackPointer,
    /// What the system keeps of it, at the low end.
    guard_bytes: usize,
    _counted: Counted,
}

/// How many stacks of a `Slabs` were made and not dropped, and their bytes.
#[derive(Default)]
struct Carved {
    stacks: AtomicUsize,
    bytes: AtomicUsize,
}

/// One stack in the count of its `Slabs`, until it is dropped.
struct Counted {
    all: Arc<Carved>,
    bytes: usize,
}

impl Counted {
    fn new(all: &Arc<Carved>, bytes: usize) -> Counted {
        // Relaxed, here and below: a count orders nothing.
        all.stacks.fetch_add(1, Ordering::Relaxed);
        all.bytes.fetch_add(bytes, Ordering::Relaxed);
        Counted { all: all.clone(), bytes }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.all.stacks.fetch_sub(1, Ordering::Relaxed);
        self.all.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Stack {
    /// Returns one past the highest address, where the stack begins.
    pub(crate) fn base(&self) -> usize {
        self.base.get()
    }

    /// Returns the lowest address.
    pub(crate) fn limit(&self) -> usize {
        self.memory.limit().get()
    }

    /// Returns about how many bytes the stack can hold.
    pub(crate) fn usable_bytes(&self) -> usize {
        self.base() - self.guard_range().end
    }

    /// Returns the range in which the system itself reports an overflow.
    pub(crate) fn guard_range(&self) -> Range<usize> {
        self.limit()..self.limit() + self.guard_bytes
    }

    /// Keeps `bytes` at the top for a header of the runtime's own. Returns the header's lowest address
    /// (16-aligned) and the rest of the stack.
    ///
    /// # Panics
    /// If less than corosensei's smallest stack would remain: the size given to `Slabs::new` must include the
    /// header.
    pub(crate) fn reserve_top(mut self, bytes: usize) -> (NonNull<u8>, Stack) {
        let bytes = bytes.next_multiple_of(STACK_ALIGNMENT);
        let left = self.usable_bytes().checked_sub(bytes).filter(|&left| left >= MIN_STACK_SIZE);
        assert!(left.is_some(), "no room for {bytes} bytes on a stack of {}", self.usable_bytes());
        self.base = StackPointer::new(self.base() - bytes).expect("the base is far above 0");
        let header = NonNull::new(with_exposed_provenance_mut(self.base()));
        (header.expect("`base` is not null"), self)
    }
}

// SAFETY: this is corosensei's own stack with a lower base; `reserve_top` keeps the part above for the
// header. The fields of the TEB still describe the whole stack.
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

/// All stacks of one size. On Windows each stack is an allocation of its own, which ends when the stack is
/// dropped.
pub(crate) struct Slabs {
    stack_bytes: usize,
    carved: Arc<Carved>,
}

/// Some stacks that have ended: how many.
pub(crate) struct Cooled {
    len: usize,
}

impl Cooled {
    /// How many end in one step.
    pub(crate) const MOST: usize = 128;

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// There is none.
pub(crate) enum ColdStack {}

/// There is none.
pub(crate) struct Window {
    pub(crate) stacks: Cooled,
}

impl Slabs {
    /// Prepares stacks of `stack_bytes` usable bytes; guards are added to that.
    pub(crate) fn new(stack_bytes: usize) -> io::Result<Slabs> {
        Ok(Slabs { stack_bytes: checked_stack_bytes(stack_bytes)?, carved: Arc::default() })
    }

    /// Returns a stack that was never used. *Runs on: any thread.*
    pub(crate) fn carve(&self) -> io::Result<Stack> {
        let memory = DefaultStack::new(self.stack_bytes).map_err(|error| {
            let kib = self.stack_bytes >> 10;
            io::Error::new(
                error.kind(),
                format!("cannot allocate a stack of {kib} KiB: {error}; take smaller ones"),
            )
        })?;
        // The reserve is that of this OS thread; std gives its threads one of some pages.
        let guard_bytes = EXTRA_BYTES + memory.teb_fields().GuaranteedStackBytes;
        let counted = Counted::new(&self.carved, memory.base().get() - memory.limit().get());
        Ok(Stack { base: memory.base(), memory, guard_bytes, _counted: counted })
    }

    /// Returns `true`: only an attempt to allocate the next stack shows whether there is one.
    pub(crate) fn has_more(&self) -> bool {
        true
    }

    /// Drops what `next` returns, up to `Cooled::MOST` stacks, with their memory. To give back only their
    /// pages, the guard of each would first have to move back up.
    pub(crate) fn cool(&self, next: impl FnMut() -> Option<Stack>) -> Cooled {
        Cooled { len: iter::from_fn(next).take(Cooled::MOST).count() }
    }

    /// Does nothing: the stacks have ended.
    pub(crate) fn keep_cold(&self, _cooled: &Cooled) {}

    /// Returns 0.
    pub(crate) fn cold(&self) -> usize {
        0
    }

    /// Returns `None`.
    pub(crate) fn pop_cold(&self) -> Option<ColdStack> {
        None
    }

    /// Never called.
    pub(crate) fn use_again(&self, cold: ColdStack) -> Option<Stack> {
        match cold {}
    }

    /// Returns `false`: no stack is idle for long.
    pub(crate) fn has_tables(&self) -> bool {
        false
    }

    /// Returns `None`.
    pub(crate) fn take_window(&self) -> Option<Window> {
        None
    }

    /// Never called.
    pub(crate) fn release_tables(&self, _window: &Window) {}

    /// Returns the address space of all stacks that were not dropped.
    pub(crate) fn mapped_bytes(&self) -> usize {
        self.carved.bytes.load(Ordering::Relaxed)
    }

    /// Returns how many stacks were made and not dropped.
    pub(crate) fn carved(&self) -> usize {
        self.carved.stacks.load(Ordering::Relaxed)
    }
}

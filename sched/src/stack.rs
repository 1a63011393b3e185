//! Stacks of green threads: one address range each, cut out of a few large mappings.
//!
//! ```text
//!   base + header  +--------------------+  the next stack's limit
//!                  | header             |  kept aside by `reserve_top`; corosensei never sees it
//!   base           +--------------------+
//!                  | used               |  grows downwards; the only part that costs physical memory
//!                  |   |                |
//!                  |   v                |
//!                  |                    |
//!                  ~ never touched      ~  address space alone
//!                  |                    |
//!   limit + guard  +--------------------+
//!                  | guard, 16 KiB      |  any access faults: `overflow` says whose stack it was
//!   limit          +--------------------+  the base of the stack below
//! ```
//!
//! - `slab`: mappings of many stacks, cut from the bottom up, given back all at once.
//! - `guard`: how the lowest pages of a stack are made to fault.
//! - `overflow`: what happens when they do.
//!
//! Rejected: a mapping per stack (two with its guard, so that the kernel's limit of 65,530 mappings ends a program
//! near 32,000 green threads); growing stacks by moving them (needs a compiler that knows every pointer); growing
//! them in place from a fault handler (the kernel gives pages at first touch without one).

#![allow(unsafe_code)]

#[cfg(unix)]
mod guard;
pub(crate) mod overflow;
#[cfg(unix)]
mod slab;

use std::io;

use corosensei::stack::MIN_STACK_SIZE;

#[cfg(unix)]
pub(crate) use self::{slab::Slabs, unix::Stack};
#[cfg(windows)]
pub(crate) use crate::sys::windows::{Slabs, Stack};

/// Beyond this a size is a mistake: two such stacks would not fit into what a process may address.
#[cfg(target_pointer_width = "64")]
const MOST_STACK_BYTES: usize = 64 << 30;
#[cfg(not(target_pointer_width = "64"))]
const MOST_STACK_BYTES: usize = 512 << 20;

/// What a stack of this many bytes can be, or why it cannot.
pub(crate) fn checked_stack_bytes(bytes: usize) -> io::Result<usize> {
    if (MIN_STACK_SIZE..=MOST_STACK_BYTES).contains(&bytes) {
        return Ok(bytes);
    }
    let most = MOST_STACK_BYTES >> 20;
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("a stack of {bytes} bytes: from {MIN_STACK_SIZE} bytes to {most} MiB is allowed"),
    ))
}

#[cfg(unix)]
mod unix {
    use std::num::NonZeroUsize;
    use std::ops::Range;
    use std::ptr::{NonNull, with_exposed_provenance_mut};

    use corosensei::stack::{MIN_STACK_SIZE, STACK_ALIGNMENT, StackPointer};

    use super::guard::guard_bytes;

    /// The address range of one stack. Owning it is the right to run on it; the memory belongs to its `Slabs`.
    #[derive(Debug)]
    pub(crate) struct Stack {
        base: NonZeroUsize,
        limit: NonZeroUsize,
    }

    impl Stack {
        /// The stack of `limit..base`, guard included.
        ///
        /// # Safety
        /// The range is mapped, its lowest `guard_bytes` fault, and no other `Stack` is made of any part of it.
        pub(super) unsafe fn new(limit: usize, base: usize) -> Stack {
            let address = |address| NonZeroUsize::new(address).expect("the kernel maps nothing at 0");
            Stack { base: address(base), limit: address(limit) }
        }

        /// One past the highest address: where the stack begins.
        pub(crate) fn base(&self) -> usize {
            self.base.get()
        }

        /// The lowest address, the guard's first.
        pub(crate) fn limit(&self) -> usize {
            self.limit.get()
        }

        /// How deep one can go before the guard.
        pub(crate) fn usable_bytes(&self) -> usize {
            self.base() - self.guard_range().end
        }

        /// Where every access faults. Signal handlers may call this.
        pub(crate) fn guard_range(&self) -> Range<usize> {
            self.limit()..self.limit() + guard_bytes()
        }

        /// Keeps `bytes` at the top aside, for a header of the runtime's own: its lowest address (16-aligned) and
        /// the stack that is left. Nothing touches the header but through that pointer; `release_pages` leaves
        /// its page alone, and `Slabs::whole` undoes all this.
        ///
        /// # Panics
        /// If less than corosensei's least stack would be left: ask `Slabs::new` for the header's bytes too.
        pub(crate) fn reserve_top(self, bytes: usize) -> (NonNull<u8>, Stack) {
            let bytes = bytes.next_multiple_of(STACK_ALIGNMENT);
            let left = self.usable_bytes().checked_sub(bytes).filter(|&left| left >= MIN_STACK_SIZE);
            assert!(left.is_some(), "no room for {bytes} bytes on a stack of {}", self.usable_bytes());
            // SAFETY: the same range, shortened by less than it has.
            let rest = unsafe { Stack::new(self.limit(), self.base() - bytes) };
            let header = NonNull::new(with_exposed_provenance_mut(rest.base()));
            (header.expect("as `base` is not null"), rest)
        }
    }

    // SAFETY: `new` was promised a guard at the bottom; sizes are checked by `Slabs::new` and `reserve_top`, and
    // both ends are aligned, as pages are and as `reserve_top` rounds.
    unsafe impl corosensei::stack::Stack for Stack {
        #[inline]
        fn base(&self) -> StackPointer {
            self.base
        }

        #[inline]
        fn limit(&self) -> StackPointer {
            self.limit
        }
    }
}

#[cfg(all(test, unix))]
mod testing {
    use std::env;
    use std::process::{Command, Output};

    const ALONE: &str = "STACK_TEST_ALONE";

    /// Runs `body` in a process where nothing else runs (this test, started once more), on a thread of std's, and
    /// gives what came of it. `None`: this is that process, and `body` has returned.
    pub(super) fn alone(module: &str, test: &str, body: impl FnOnce()) -> Option<Output> {
        let (_, path) = module.split_once("::").expect("a module of this crate");
        let test = format!("{path}::{test}");
        if env::var_os(ALONE).is_some() {
            body();
            return None;
        }
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([&test, "--exact", "--nocapture", "--test-threads=2"]).env(ALONE, "1");
        Some(command.output().unwrap())
    }

    /// Runs `body` as `alone` does, and takes its panic for this test's.
    pub(super) fn succeeds_alone(module: &str, test: &str, body: impl FnOnce()) {
        if let Some(output) = alone(module, test, body) {
            let told = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
            assert!(told.contains("1 passed"), "no such test: {told}");
        }
    }
}

//! The memory of stacks: each stack is one address range, and many stacks share one large mapping.
//!
//! ```text
//!   base + header  +--------------------+  the next stack's limit
//!                  | header             |  kept by `reserve_top`; corosensei never sees it
//!   base           +--------------------+
//!                  | used               |  grows downwards; the only part that costs physical memory
//!                  |   |                |
//!                  |   v                |
//!                  |                    |
//!                  ~ never touched      ~  address space only
//!                  |                    |
//!   limit + guard  +--------------------+
//!                  | guard, 16 KiB      |  any access faults: `overflow` reports whose stack it was
//!   limit          +--------------------+  the base of the stack below
//! ```
//!
//! - `slab`: maps memory for many stacks, cuts stacks from the bottom up, and unmaps all of them at once.
//! - `guard`: makes the lowest pages of a stack fault.
//! - `overflow`: reports such a fault.
//!
//! Rejected:
//!
//! - *A mapping per stack.* With its guard a stack takes two, so the kernel's limit of 65,530 mappings ends a
//!   program near 32,000 green threads.
//! - *Moving stacks to grow them.* That needs a compiler that knows every pointer into the stack.
//! - *Growing stacks in place from a fault handler.* The kernel supplies pages at the first access without a
//!   handler.
//! - *One page table for the used ends of several large stacks.* A page table maps 2 MiB (pages of 4 KiB).
//!   Each stack is one range without gaps, and no two overlap. So the ends of two stacks are at least a stack
//!   apart, wherever they lie: from 2 MiB on each stack has a page table, 4 KiB, of its own.
//! - *Thread-locals apart from the stack, packed.* A sleeping thread of std uses 1.7 KB for frames and the
//!   coroutine, and 4.6 KB for its block. Together they take two pages, 8.2 KB. Apart they would take a page
//!   and 4.6 KB, which is more.

#![allow(unsafe_code)]

pub(crate) mod coro;
#[cfg(unix)]
mod guard;
#[cfg(unix)]
pub mod last_dump;
pub(crate) mod overflow;
pub(crate) mod pool;
// Elsewhere a dump shows no stacks. AddressSanitizer would report the reads of other frames.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, portable))
))]
pub(crate) mod saved;
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, portable))
)))]
#[path = "stack/saved_nowhere.rs"]
pub(crate) mod saved;
pub(crate) mod shortage;
#[cfg(unix)]
mod slab;
#[cfg(windows)]
mod windows;

use std::io;
use std::ops::RangeInclusive;

use corosensei::stack::MIN_STACK_SIZE;

#[cfg(windows)]
pub(crate) use self::windows::{Cooled, Slabs, Stack};
#[cfg(unix)]
pub(crate) use self::{
    slab::{Cooled, Slabs},
    unix::Stack,
};

/// The largest stack that is allowed. A larger size is a mistake: a process can address only a few such
/// stacks.
#[cfg(target_pointer_width = "64")]
const MOST_STACK_BYTES: usize = 64 << 30;
#[cfg(not(target_pointer_width = "64"))]
const MOST_STACK_BYTES: usize = 512 << 20;

/// The sizes of a stack that are allowed, in bytes.
pub const ALLOWED_STACK_BYTES: RangeInclusive<usize> = MIN_STACK_SIZE..=MOST_STACK_BYTES;

/// Returns `bytes` if a stack can have that size, else an error that states the allowed sizes.
pub(crate) fn checked_stack_bytes(bytes: usize) -> io::Result<usize> {
    if ALLOWED_STACK_BYTES.contains(&bytes) {
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

    /// The address range of one stack. Its owner may run on it; the memory belongs to the `Slabs`.
    #[derive(Debug)]
    pub(crate) struct Stack {
        base: NonZeroUsize,
        limit: NonZeroUsize,
    }

    impl Stack {
        /// Makes the stack of the range `limit..base`, guard included.
        ///
        /// # Safety
        /// The range is mapped, its lowest `guard_bytes` fault, and no other `Stack` is made of any part of
        /// it.
        pub(super) unsafe fn new(limit: usize, base: usize) -> Stack {
            let address = |address| NonZeroUsize::new(address).expect("the kernel maps nothing at 0");
            Stack { base: address(base), limit: address(limit) }
        }

        /// Returns one past the highest address, where the stack begins.
        pub(crate) fn base(&self) -> usize {
            self.base.get()
        }

        /// Returns the lowest address, which is the guard's first.
        pub(crate) fn limit(&self) -> usize {
            self.limit.get()
        }

        /// Returns how many bytes the stack holds above the guard.
        pub(crate) fn usable_bytes(&self) -> usize {
            self.base() - self.guard_range().end
        }

        /// Returns the range in which every access faults. Signal handlers may call this.
        pub(crate) fn guard_range(&self) -> Range<usize> {
            self.limit()..self.limit() + guard_bytes()
        }

        /// Keeps `bytes` at the top for a header of the runtime's own. Returns the header's lowest address
        /// (16-aligned) and the rest of the stack. Only that pointer gives access to the header.
        ///
        /// # Panics
        /// If less than corosensei's smallest stack would remain: the size given to `Slabs::new` must include
        /// the header.
        pub(crate) fn reserve_top(self, bytes: usize) -> (NonNull<u8>, Stack) {
            let bytes = bytes.next_multiple_of(STACK_ALIGNMENT);
            let left = self.usable_bytes().checked_sub(bytes).filter(|&left| left >= MIN_STACK_SIZE);
            assert!(left.is_some(), "no room for {bytes} bytes on a stack of {}", self.usable_bytes());
            // SAFETY: a part of the same range, and `self` is consumed. The check above leaves room for it.
            let rest = unsafe { Stack::new(self.limit(), self.base() - bytes) };
            let header = NonNull::new(with_exposed_provenance_mut(rest.base()));
            (header.expect("`base` is not null"), rest)
        }
    }

    // SAFETY: the caller of `new` promised a guard at the bottom. `Slabs::new` and `reserve_top` check the
    // size. Both ends are aligned: slabs are cut at pages, and `reserve_top` rounds to the stack alignment.
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
pub(crate) mod testing {
    use std::env;
    use std::ffi::OsStr;
    use std::process::{Command, Output};

    const ALONE: &str = "STACK_TEST_ALONE";

    /// Runs `body` in a process where no other test runs: starts this test once more in a child. Returns the
    /// child's output; `None` in the child, after `body` has returned. In the child, `body` runs on a thread
    /// of std.
    pub(crate) fn alone(module: &str, test: &str, body: impl FnOnce()) -> Option<Output> {
        let (_, path) = module.split_once("::").expect("a module of this crate");
        let test = format!("{path}::{test}");
        if env::var_os(ALONE).is_some() {
            body();
            return None;
        }
        let program = env::current_exe().unwrap();
        // The command of an emulator, if the tests run in one (`ci/aarch64.sh`).
        let runner = env::var("TESTS_RUNNER").unwrap_or_default();
        let mut words = runner.split_whitespace().map(OsStr::new).chain([program.as_os_str()]);
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words);
        command.args([&test, "--exact", "--nocapture", "--test-threads=2"]).env(ALONE, "1");
        Some(command.output().unwrap())
    }

    /// Runs `body` as `alone` does. Fails the test if the child's test fails.
    pub(crate) fn succeeds_alone(module: &str, test: &str, body: impl FnOnce()) {
        if let Some(output) = alone(module, test, body) {
            let told = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
            assert!(told.contains("1 passed"), "no such test: {told}");
        }
    }
}

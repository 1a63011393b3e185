//! The guard at the bottom of each stack: pages that fault, so that an overflow cannot reach the stack below.
//!
//! On Linux from 6.13 on a mark in the page table (`MADV_GUARD_INSTALL`) makes the pages fault. The mark
//! costs no mapping, stays when the pages go, and takes half a microsecond. On other systems `mprotect` does
//! it, with two mappings per stack.
//!
//! A mark keeps its page table, 4 KiB for each 2 MiB of addresses. So stacks that stay idle lose their marks
//! (`Slabs::release_tables`), and get others before they are used again (`Slabs::use_again`).

#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::sys;

/// The least size of a guard. Rust probes each page of a large frame, but C code often does not. A frame of C
/// code may step over a guard of one page and write into the stack below. Few such frames exceed four pages.
/// Four pages take no longer to mark than one; sixteen take half as long again.
const LEAST_GUARD_BYTES: usize = 16 * 1024;

/// Returns the size of every guard, in whole pages. Signal handlers may call this.
pub(super) fn guard_bytes() -> usize {
    LEAST_GUARD_BYTES.max(sys::page_size())
}

/// How many stacks of the process `mprotect` guards. Relaxed throughout: the count orders no other data.
static PROTECTED: AtomicUsize = AtomicUsize::new(0);

/// Installs guards, and remembers which way works on this kernel.
///
/// All accesses are Relaxed: each flag changes once and guards no other data. A thread that reads an old
/// value repeats the attempt and gets the same answer.
pub(super) struct Guards {
    by_mark: AtomicBool,
    mark_seen_to_work: AtomicBool,
    /// How many of `PROTECTED` belong to this value.
    protected: AtomicUsize,
}

impl Guards {
    /// Installs guards by marks if the kernel has them, else by `mprotect`.
    pub(super) fn new() -> Guards {
        Guards {
            by_mark: AtomicBool::new(true),
            mark_seen_to_work: AtomicBool::new(false),
            protected: AtomicUsize::new(0),
        }
    }

    /// Installs guards by `mprotect` only, which tests an old kernel.
    #[cfg(test)]
    pub(super) fn by_protection() -> Guards {
        let guards = Guards::new();
        guards.by_mark.store(false, Ordering::Relaxed);
        guards
    }

    /// Makes the lowest `guard_bytes` of the stack at `limit` fault.
    ///
    /// # Safety
    /// The caller alone may use that stack, and needs nothing in it.
    pub(super) unsafe fn install(&self, limit: usize) -> io::Result<()> {
        if self.by_mark.load(Ordering::Relaxed) {
            // SAFETY: the caller makes the promise that `mark` needs.
            match unsafe { self.mark(limit) } {
                Err(error) if is_unsupported(&error) => self.by_mark.store(false, Ordering::Relaxed),
                done => return done.map_err(|error| explain(error, "there may be too little memory left")),
            }
        }
        // SAFETY: the caller makes the promise that `protect` needs.
        unsafe { self.protect(limit) }.map_err(|error| explain(error, TOO_MANY_MAPPINGS))
    }

    /// Returns `true` if guards are marks.
    pub(super) fn are_marks(&self) -> bool {
        self.mark_seen_to_work.load(Ordering::Relaxed)
    }

    /// Removes the guards in a range, which are marks. After an error some of them may be gone.
    ///
    /// # Safety
    /// The caller alone may use the stacks in the range. Each gets a guard by `install` before it is used.
    pub(super) unsafe fn remove(&self, range: Range<usize>) -> io::Result<()> {
        // SAFETY: this contract.
        unsafe { sys::unmark_guards(range.start, range.len()) }
    }

    /// Installs a guard by a mark, and checks that the first mark works. The check is needed because
    /// user-mode emulators (qemu) take an unknown advice for a hint and report success.
    unsafe fn mark(&self, limit: usize) -> io::Result<()> {
        // SAFETY: the caller of `install` alone may use these pages.
        unsafe { sys::mark_guard(limit, guard_bytes()) }?;
        if self.mark_seen_to_work.load(Ordering::Relaxed) {
            return Ok(());
        }
        // SAFETY: the caller of `install` alone may use these pages.
        if unsafe { sys::refuses_writes(limit) } {
            self.mark_seen_to_work.store(true, Ordering::Relaxed);
            return Ok(());
        }
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Installs a guard by `mprotect`. Stops before the kernel's limit: with no mapping left, `malloc` fails
    /// in the rest of the process.
    unsafe fn protect(&self, limit: usize) -> io::Result<()> {
        if PROTECTED.load(Ordering::Relaxed) >= most_protected() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        // SAFETY: the caller of `install` alone may use these pages.
        unsafe { sys::forbid(limit, guard_bytes()) }?;
        self.protected.fetch_add(1, Ordering::Relaxed);
        PROTECTED.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Guards {
    fn drop(&mut self) {
        PROTECTED.fetch_sub(*self.protected.get_mut(), Ordering::Relaxed);
    }
}

/// Returns how many stacks `mprotect` may guard: two mappings each, and a sixteenth of all mappings left
/// unused.
fn most_protected() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let most = sys::most_mappings();
        (most - most / 16) / 2
    })
}

/// Returns `true` if marks do not work here. `EINVAL`: the kernel is too old, or the memory is locked
/// (`mlockall`). `ENOSYS` and `EPERM` come from a sandbox.
fn is_unsupported(error: &io::Error) -> bool {
    let sandboxed = [libc::EINVAL, libc::ENOSYS, libc::EPERM];
    error.kind() == io::ErrorKind::Unsupported || error.raw_os_error().is_some_and(|e| sandboxed.contains(&e))
}

const TOO_MANY_MAPPINGS: &str = "without MADV_GUARD_INSTALL (Linux 6.13; refused for locked memory) each stack \
    takes two mappings: raise vm.max_map_count or keep fewer green threads";

fn explain(error: io::Error, advice: &str) -> io::Error {
    io::Error::new(error.kind(), format!("cannot install a stack's guard: {error}; {advice}"))
}

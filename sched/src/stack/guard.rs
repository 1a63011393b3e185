//! The guard at the bottom of each stack: pages that fault, so that an overflow cannot reach the stack below.
//!
//! A mark in the page table (`MADV_GUARD_INSTALL`, Linux 6.13) costs no mapping, survives the giving back of
//! pages, and takes half a microsecond. Elsewhere `mprotect` must do, with two mappings a stack.

#![allow(unsafe_code)]

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::sys;

/// Rust probes each page of a large frame, but C code often does not: its frame steps over a guard of one page
/// and writes into the stack below. Few such frames exceed four pages, which cost a carve no more than one does;
/// sixteen cost half as much again.
const LEAST_GUARD_BYTES: usize = 16 * 1024;

/// The size of every guard, in whole pages. Signal handlers may call this.
pub(super) fn guard_bytes() -> usize {
    LEAST_GUARD_BYTES.max(sys::page_size())
}

/// How many stacks of the process are guarded by protection. Relaxed: a count that others do not lean on.
static PROTECTED: AtomicUsize = AtomicUsize::new(0);

/// Installs guards, and remembers which way works here.
///
/// The flags only ever change once, hold no other data, and whoever reads an old value merely finds out for
/// itself: Relaxed throughout.
pub(super) struct Guards {
    by_mark: AtomicBool,
    mark_seen_to_work: AtomicBool,
    /// This one's part of `PROTECTED`.
    protected: AtomicUsize,
}

impl Guards {
    /// Guards by marks where the kernel can, else by protection.
    pub(super) fn new() -> Guards {
        Guards {
            by_mark: AtomicBool::new(true),
            mark_seen_to_work: AtomicBool::new(false),
            protected: AtomicUsize::new(0),
        }
    }

    /// Guards by protection, as on an old kernel.
    #[cfg(test)]
    pub(super) fn by_protection() -> Guards {
        let guards = Guards::new();
        guards.by_mark.store(false, Ordering::Relaxed);
        guards
    }

    /// Makes the lowest `guard_bytes` of the stack at `limit` fault.
    ///
    /// # Safety
    /// Whoever calls is the only one who may use that stack, and needs nothing in it.
    pub(super) unsafe fn install(&self, limit: usize) -> io::Result<()> {
        if self.by_mark.load(Ordering::Relaxed) {
            // SAFETY: the caller's promise is the same.
            match unsafe { self.mark(limit) } {
                Err(error) if is_unsupported(&error) => self.by_mark.store(false, Ordering::Relaxed),
                done => return done.map_err(|error| explain(error, "there may be too little memory left")),
            }
        }
        // SAFETY: the caller's promise is the same.
        unsafe { self.protect(limit) }.map_err(|error| explain(error, TOO_MANY_MAPPINGS))
    }

    /// The first mark is tried out: user-mode emulators (qemu's) take an advice they do not know for a hint and
    /// report success.
    unsafe fn mark(&self, limit: usize) -> io::Result<()> {
        // SAFETY: `install`'s caller is the only one who may use these pages.
        unsafe { sys::mark_guard(limit, guard_bytes()) }?;
        if self.mark_seen_to_work.load(Ordering::Relaxed) {
            return Ok(());
        }
        // SAFETY: as above.
        if unsafe { sys::refuses_writes(limit) } {
            self.mark_seen_to_work.store(true, Ordering::Relaxed);
            return Ok(());
        }
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Stops short of what the kernel allows: without any mapping left, `malloc` fails in the rest of the process.
    unsafe fn protect(&self, limit: usize) -> io::Result<()> {
        if PROTECTED.load(Ordering::Relaxed) >= most_protected() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        // SAFETY: `install`'s caller is the only one who may use these pages.
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

/// Two mappings a stack, and a sixteenth of all left to others.
fn most_protected() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let most = sys::most_mappings();
        (most - most / 16) / 2
    })
}

/// `EINVAL`: the kernel is older than the mark, or the memory is locked (`mlockall`). The others: a sandbox.
fn is_unsupported(error: &io::Error) -> bool {
    let sandboxed = [libc::EINVAL, libc::ENOSYS, libc::EPERM];
    error.kind() == io::ErrorKind::Unsupported || error.raw_os_error().is_some_and(|e| sandboxed.contains(&e))
}

const TOO_MANY_MAPPINGS: &str = "without MADV_GUARD_INSTALL (Linux 6.13; refused for locked memory) each stack \
    takes two mappings: raise vm.max_map_count or keep fewer green threads";

fn explain(error: io::Error, advice: &str) -> io::Error {
    io::Error::new(error.kind(), format!("cannot install a stack's guard: {error}; {advice}"))
}

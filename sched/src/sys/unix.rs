//! Every Unix: mappings, protection, `errno`; and what other systems have in place of Linux's own calls.
//!
//! A system call and the reading of its error stay in one function that is never inlined: `errno` belongs to the
//! OS thread, and a caller that changed threads in between would read another thread's.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

// Memory of stacks ---------------------------------------------------------------------------------------

#[cfg(any(target_os = "linux", target_os = "android"))]
use super::linux::MAP_FLAGS;

/// The size of a page, a power of two. Signal handlers may call this.
pub(crate) fn page_size() -> usize {
    static PAGE_SIZE: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: the value is all there is, and every thread would store the same.
    match PAGE_SIZE.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: `sysconf` only reads.
            let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
            let size = usize::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(4096);
            PAGE_SIZE.store(size, Ordering::Relaxed);
            size
        }
        size => size,
    }
}

/// New zeroed memory at an address of the kernel's choice, which costs address space alone until it is touched.
#[inline(never)]
pub(crate) fn map(bytes: usize) -> io::Result<usize> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANON | MAP_FLAGS;
    // SAFETY: a mapping at an address of the kernel's choice replaces nothing.
    let start = unsafe { libc::mmap(null_mut(), bytes, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(start.expose_provenance())
}

/// Ends a mapping, or a part of one. `false`: the kernel had joined it with its neighbours and has no mapping left to
/// part them again (`vm.max_map_count`), so it stays.
///
/// # Safety
/// `map` made it, and nothing in it is used any more.
#[inline(never)]
pub(crate) unsafe fn unmap(start: usize, bytes: usize) -> bool {
    // SAFETY: the caller is the last who knows of this memory.
    let done = unsafe { libc::munmap(with_exposed_provenance_mut(start), bytes) } == 0;
    debug_assert!(
        done || errno() == libc::ENOMEM,
        "munmap of our own mapping: {}",
        io::Error::last_os_error()
    );
    done
}

/// Makes every access to these pages fault. Splits the mapping: two more for pages in its middle.
///
/// # Safety
/// Whoever calls is the only one who may use these pages, and needs nothing in them.
#[inline(never)]
pub(crate) unsafe fn forbid(start: usize, bytes: usize) -> io::Result<()> {
    // SAFETY: nobody but the caller has references into these pages.
    if unsafe { libc::mprotect(with_exposed_provenance_mut(start), bytes, libc::PROT_NONE) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

// errno --------------------------------------------------------------------------------------------------

/// This thread's `errno`, now.
#[inline(never)]
pub(crate) fn errno() -> c_int {
    // SAFETY: the address is this thread's own and lives as long as the thread.
    unsafe { *errno_address() }
}

/// Puts back what `errno` gave: a signal handler must leave no trace.
#[inline(never)]
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: as in `errno`; only this thread uses it.
    unsafe { *errno_address() = value }
}

fn errno_address() -> *mut c_int {
    #[cfg(any(target_os = "illumos", target_os = "solaris"))]
    use libc::___errno as address;
    #[cfg(any(target_os = "android", target_os = "netbsd", target_os = "openbsd"))]
    use libc::__errno as address;
    #[cfg(any(target_os = "linux", target_os = "dragonfly"))]
    use libc::__errno_location as address;
    #[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
    use libc::__error as address;
    // SAFETY: returns an address and does nothing else.
    unsafe { address() }
}

// In place of Linux's own calls --------------------------------------------------------------------------

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) use elsewhere::*;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod elsewhere {
    use super::{c_int, io, with_exposed_provenance_mut};

    /// OpenBSD kills a process whose stack pointer is not in such a mapping; on FreeBSD the flag means a mapping
    /// that grows, which ours must not.
    #[cfg(target_os = "openbsd")]
    pub(super) const MAP_FLAGS: c_int = libc::MAP_STACK;
    #[cfg(not(target_os = "openbsd"))]
    pub(super) const MAP_FLAGS: c_int = 0;

    /// Nobody says.
    pub(crate) fn room() -> usize {
        usize::MAX
    }

    /// Nobody says.
    pub(crate) fn has_mappings(_number: usize) -> bool {
        true
    }

    /// These systems need not be told.
    pub(crate) fn advise_stacks(_start: usize, _bytes: usize) {}

    /// No such mark here.
    ///
    /// # Safety
    /// None needed: nothing is done.
    pub(crate) unsafe fn mark_guard(_start: usize, _bytes: usize) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::EINVAL))
    }

    /// Never asked, as no mark was ever made.
    ///
    /// # Safety
    /// None needed: nothing is done.
    pub(crate) unsafe fn refuses_writes(_start: usize) -> bool {
        false
    }

    /// Lets the system take the physical pages back when it wants them.
    ///
    /// # Safety
    /// Whoever calls is the only one who may use these pages, and needs nothing in them.
    #[inline(never)]
    pub(crate) unsafe fn discard(start: usize, bytes: usize) -> io::Result<()> {
        // SAFETY: the caller needs nothing in these pages.
        if unsafe { libc::madvise(with_exposed_provenance_mut(start), bytes, libc::MADV_FREE) } == 0 {
            return Ok(());
        }
        Err(io::Error::last_os_error())
    }

    /// No limit that we know of.
    pub(crate) fn most_mappings() -> usize {
        usize::MAX
    }

    /// Enough for a signal handler of some depth.
    pub(crate) fn least_signal_stack() -> usize {
        libc::SIGSTKSZ
    }
}

//! Every Unix: mappings, protection and `errno`, and what other Unixes have in place of Linux's own calls.
//!
//! A system call and the read of its error stay in one function that is never inlined. `errno` belongs to the
//! OS thread; a green thread that moved in between would read the `errno` of another OS thread.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

// Memory of stacks ---------------------------------------------------------------------------------------

#[cfg(all(any(target_os = "linux", target_os = "android"), not(portable)))]
use super::linux::MAP_FLAGS;

/// Returns the size of a page, a power of two. Signal handlers may call this.
pub(crate) fn page_size() -> usize {
    static PAGE_SIZE: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: the value refers to no other data, and every thread would store the same value.
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

/// Maps zeroed memory at an address of the kernel's choice and returns the address. Pages cost memory once
/// they are touched.
#[inline(never)]
pub(crate) fn map(bytes: usize) -> io::Result<usize> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANON | MAP_FLAGS;
    // SAFETY: the kernel chooses a free address, so the mapping replaces nothing.
    let start = unsafe { libc::mmap(null_mut(), bytes, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(start.expose_provenance())
}

/// Unmaps memory. Returns `false` if the memory stays: the kernel had merged it with its neighbours and has
/// no mapping left to split them (`vm.max_map_count`).
///
/// # Safety
/// `map` returned this memory, and nothing in it is used any more.
#[inline(never)]
pub(crate) unsafe fn unmap(start: usize, bytes: usize) -> bool {
    // SAFETY: the caller promises that nothing in this memory is used.
    let done = unsafe { libc::munmap(with_exposed_provenance_mut(start), bytes) } == 0;
    debug_assert!(
        done || errno() == libc::ENOMEM,
        "munmap of our own mapping: {}",
        io::Error::last_os_error()
    );
    done
}

/// Makes every access to these pages fault. Pages in the middle of a mapping split it, which adds two
/// mappings.
///
/// # Safety
/// The caller alone may use these pages, and needs nothing in them.
#[inline(never)]
pub(crate) unsafe fn forbid(start: usize, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller alone may use these pages, so no reference into them exists elsewhere.
    if unsafe { libc::mprotect(with_exposed_provenance_mut(start), bytes, libc::PROT_NONE) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

// Writing without libc's hooks ---------------------------------------------------------------------------

/// Writes to a descriptor, and returns how much it has written. Signal handlers may call this.
///
/// # Errors
/// The number of the system's error.
#[inline(never)]
pub(crate) fn write(fd: c_int, bytes: &[u8]) -> Result<usize, c_int> {
    // SAFETY: the call reads `bytes.len()` bytes from `bytes`.
    #[cfg(all(any(target_os = "linux", target_os = "android"), not(any(miri, portable))))]
    let result = unsafe { netpoll::raw::call!(libc::SYS_write, fd, bytes.as_ptr(), bytes.len()) };
    #[cfg(not(all(any(target_os = "linux", target_os = "android"), not(any(miri, portable)))))]
    // SAFETY: the call reads `bytes.len()` bytes from `bytes`.
    let result = match unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) } {
        -1 => -(errno() as isize),
        result => result,
    };
    usize::try_from(result).map_err(|_| -result as c_int)
}

/// Writes to the standard error stream, past std's lock. Signal handlers may call this.
pub(crate) fn write_error(mut text: &[u8]) {
    while !text.is_empty() {
        match write(libc::STDERR_FILENO, text) {
            Ok(written) => text = &text[written..],
            Err(libc::EINTR) => {}
            // There is no other place for the text.
            Err(_) => return,
        }
    }
}

// errno --------------------------------------------------------------------------------------------------

/// Returns the calling thread's `errno`.
#[inline(never)]
pub(crate) fn errno() -> c_int {
    // SAFETY: the address belongs to this thread and is valid as long as the thread lives.
    unsafe { *errno_address() }
}

/// Sets `errno` to a value that [`errno`] returned: a signal handler must leave `errno` unchanged.
#[inline(never)]
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the address belongs to this thread, is valid as long as the thread lives, and only this thread
    // uses it.
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
    // SAFETY: the function only returns an address.
    unsafe { address() }
}

// In place of Linux's own calls --------------------------------------------------------------------------

#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(portable))))]
pub(crate) use elsewhere::*;

#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(portable))))]
mod elsewhere {
    use super::{c_int, io, with_exposed_provenance_mut};
    use crate::sys::message::write_message;

    /// OpenBSD kills a process if its stack pointer is not in a mapping with this flag. On FreeBSD the flag
    /// makes a mapping grow, which must not happen here.
    #[cfg(target_os = "openbsd")]
    pub(super) const MAP_FLAGS: c_int = libc::MAP_STACK;
    #[cfg(not(target_os = "openbsd"))]
    pub(super) const MAP_FLAGS: c_int = 0;

    /// Returns `usize::MAX`: these systems do not report it.
    pub(crate) fn room() -> usize {
        usize::MAX
    }

    /// Returns `true`: these systems do not report it.
    pub(crate) fn has_mappings() -> bool {
        true
    }

    /// Does nothing: these systems need no advice.
    pub(crate) fn advise_stacks(_start: usize, _bytes: usize) {}

    /// Fails: these systems have no such mark.
    ///
    /// # Safety
    /// Always safe: the function does nothing.
    pub(crate) unsafe fn mark_guard(_start: usize, _bytes: usize) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::EINVAL))
    }

    /// Fails, as `mark_guard` does.
    ///
    /// # Safety
    /// Always safe: the function does nothing.
    pub(crate) unsafe fn unmark_guards(_start: usize, _bytes: usize) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::EINVAL))
    }

    /// Returns `false`: it is not known.
    pub(crate) fn frees_page_tables() -> bool {
        false
    }

    /// Returns `false`. Never called, because no mark was ever made.
    ///
    /// # Safety
    /// Always safe: the function does nothing.
    pub(crate) unsafe fn refuses_writes(_start: usize) -> bool {
        false
    }

    /// False: the pages that come in the place of the discarded ones have no protection.
    pub(crate) const GUARDS_STAY: bool = false;

    /// Gives the physical pages back to the system: zeroed pages that were never touched come in their place.
    /// `MADV_FREE` would leave the pages with the process, and in its resident memory, until the system needs
    /// them. Guards among the pages are gone.
    ///
    /// # Safety
    /// The pages belong to one `map`. The caller alone may use them, and needs nothing in them.
    #[inline(never)]
    pub(crate) unsafe fn discard(start: usize, bytes: usize) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED | MAP_FLAGS;
        let at = with_exposed_provenance_mut(start);
        // SAFETY: the pages belong to a mapping of our own, and only the caller uses them.
        if unsafe { libc::mmap(at, bytes, protection, flags, -1, 0) } != libc::MAP_FAILED {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // A system may take the old pages away before it fails, and another mapping may then come to this
        // address. The advice fails for pages that are not there.
        // SAFETY: as above.
        if unsafe { libc::madvise(at, bytes, libc::MADV_FREE) } != 0 {
            write_message(format_args!("the system has taken memory of stacks away: {error}"));
            std::process::abort();
        }
        Err(error)
    }

    /// Returns `usize::MAX`: no limit is known.
    pub(crate) fn most_mappings() -> usize {
        usize::MAX
    }

    /// Returns enough bytes for a signal handler of some depth.
    pub(crate) fn least_signal_stack() -> usize {
        libc::SIGSTKSZ
    }
}

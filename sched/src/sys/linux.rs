//! Linux: memory calls for stacks, guards, and the free room of the process. They advise, mark and discard
//! pages, and count address space and mappings. `unix.rs` has the same functions for other Unixes.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io::Read;
use std::ptr::with_exposed_provenance_mut;
use std::{fs, io};

// Memory of stacks ---------------------------------------------------------------------------------------

/// Pages cost memory only once they are touched, and no huge page may turn one touched page into 2 MiB.
pub(super) const MAP_FLAGS: c_int = libc::MAP_NORESERVE | libc::MAP_STACK;

/// Makes pages fault at no cost in mappings; from Linux 6.13 on. The `libc` crate does not have it yet.
const MADV_GUARD_INSTALL: c_int = 102;

/// Returns how many more bytes of address space this process may map, by its limits and by the width of its
/// addresses.
///
/// The function does not try to map them: while it tried, `malloc` would fail in another thread.
pub(crate) fn room() -> usize {
    if cfg!(miri) {
        // Miri has no `getrlimit`, and no limits.
        return usize::MAX;
    }
    // An array and not a function, because each libc has its own type for `what`.
    let [space, data] = [libc::RLIMIT_AS, libc::RLIMIT_DATA].map(|what| {
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: `getrlimit` writes to the struct that it is given.
        unsafe { libc::getrlimit(what, &mut limit) };
        // The largest number means "no limit".
        usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
    });
    let space = space.min(addressable());
    if space == usize::MAX && data == usize::MAX {
        return usize::MAX;
    }
    match pages_in_use() {
        Some([in_space, in_data]) => {
            let used = |pages: usize| pages.saturating_mul(super::page_size());
            space.saturating_sub(used(in_space)).min(data.saturating_sub(used(in_data)))
        }
        // Without /proc the pages in use are unknown.
        None => usize::MAX,
    }
}

/// Returns how many bytes a process can address. With 64 bits, no number of stacks comes near the limit.
#[cfg(target_pointer_width = "64")]
fn addressable() -> usize {
    usize::MAX
}

/// Returns how many bytes a process can address: 3 GiB on most 32-bit kernels, 4 GiB on a 64-bit kernel.
#[cfg(not(target_pointer_width = "64"))]
fn addressable() -> usize {
    const GIB: usize = 1 << 30;
    // SAFETY: `getauxval` only reads.
    let near_the_top = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
    // The kernel puts these bytes on the first stack, some MiB below the highest address. The kernel's part
    // begins at a multiple of 1 GiB, or at the very last page. So the result is never `usize::MAX`, which
    // means "no limit".
    if near_the_top == 0 { 3 * GIB } else { (near_the_top | (GIB - 1)) & !(super::page_size() - 1) }
}

/// Returns `true` if the kernel lets this process have about `number` more mappings. The function makes them
/// and removes them again: counting the existing ones takes milliseconds if there are many.
pub(crate) fn has_mappings(number: usize) -> bool {
    let page = super::page_size();
    let Ok(start) = super::map(number * page) else { return false };
    // Every second page gets another protection than its neighbours, so each page becomes a mapping.
    // SAFETY: these pages belong to the mapping made above, which holds no data.
    let all = (1..number).step_by(2).all(|i| unsafe { super::forbid(start + i * page, page) }.is_ok());
    // SAFETY: this is the whole mapping made above, and no page of it is used.
    unsafe { super::unmap(start, number * page) };
    all
}

/// Returns how many pages this process has mapped, and how many of these are data or stack; `None` without
/// /proc.
fn pages_in_use() -> Option<[usize; 2]> {
    let mut text = [0; 256];
    let read = fs::File::open("/proc/self/statm").ok()?.read(&mut text).ok()?;
    let mut fields = str::from_utf8(&text[..read]).ok()?.split_ascii_whitespace().map(str::parse);
    Some([fields.next()?.ok()?, fields.nth(4)?.ok()?])
}

/// Advises the kernel that a fresh mapping holds stacks: small pages only. A core dump has the pages that
/// were touched.
pub(crate) fn advise_stacks(start: usize, bytes: usize) {
    // A kernel built without huge pages refuses the advice; nothing is lost then.
    // SAFETY: the advice changes neither the content of the memory nor the access to it.
    let _ = unsafe { advise(start, bytes, libc::MADV_NOHUGEPAGE) };
}

/// Makes pages fault by a mark in the page table. Fails with `EINVAL` if the kernel is too old or the memory
/// is locked.
///
/// # Safety
/// The caller alone may use these pages, and needs nothing in them.
pub(crate) unsafe fn mark_guard(start: usize, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller makes the promise that `advise` asks for.
    unsafe { advise(start, bytes, MADV_GUARD_INSTALL) }
}

/// True: `discard` keeps the protection and the marks of the pages.
pub(crate) const GUARDS_STAY: bool = true;

/// Gives physical pages back; the next access finds zeroes. Guards stay. Fails for locked pages, which stay
/// too.
///
/// # Safety
/// The caller alone may use these pages, and needs nothing in them.
pub(crate) unsafe fn discard(start: usize, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller makes the promise that `advise` asks for.
    unsafe { advise(start, bytes, libc::MADV_DONTNEED) }
}

#[inline(never)]
unsafe fn advise(start: usize, bytes: usize, advice: c_int) -> io::Result<()> {
    // SAFETY: the caller answers for the effect of `advice` on these pages.
    if unsafe { libc::madvise(with_exposed_provenance_mut(start), bytes, advice) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Returns `true` if a write to this page fails. The kernel tries the write, and returns an error where a
/// write by this thread would raise a signal.
///
/// # Safety
/// The caller alone may use the page at `start`, and needs nothing in it.
#[inline(never)]
pub(crate) unsafe fn refuses_writes(start: usize) -> bool {
    let page: *mut c_void = with_exposed_provenance_mut(start);
    // SAFETY: the kernel writes at most one byte, into a page that belongs to the caller alone. (The page is
    // both the subject of the call and the place of the answer: `mincore` needs any mapped address as its
    // subject.)
    let answer = unsafe { libc::mincore(page, 1, page.cast()) };
    answer == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

/// Returns how many mappings the kernel lets one process have.
#[inline(never)]
pub(crate) fn most_mappings() -> usize {
    let told = fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    told.and_then(|told| told.trim().parse().ok()).unwrap_or(65_530)
}

/// Returns enough bytes for a signal handler of some depth. The kernel's own part grows with the processor's
/// registers.
pub(crate) fn least_signal_stack() -> usize {
    // SAFETY: reads a value that the kernel gave the process at its start; returns 0 if there is none.
    let least = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) };
    usize::try_from(least).unwrap_or(0).max(libc::SIGSTKSZ)
}

//! Linux: what it can do beyond other Unixes.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io::Read;
use std::ptr::with_exposed_provenance_mut;
use std::{fs, io};

// Memory of stacks ---------------------------------------------------------------------------------------

/// Address space is free until it is touched; no huge page may turn one touched page into 2 MiB.
pub(super) const MAP_FLAGS: c_int = libc::MAP_NORESERVE | libc::MAP_STACK;

/// From Linux 6.13 on: the pages fault from now on, at no cost in mappings (not yet in the `libc` crate).
const MADV_GUARD_INSTALL: c_int = 102;

/// Returns how many more bytes of address space this process may have: by its limits, and by the width of its addresses.
///
/// The function does not try it out: while it tries, `malloc` fails in another thread.
pub(crate) fn room() -> usize {
    if cfg!(miri) {
        // Miri has no `getrlimit`, and no limits.
        return usize::MAX;
    }
    // Here, and not in a function: each libc has its own type for `what`.
    let [space, data] = [libc::RLIMIT_AS, libc::RLIMIT_DATA].map(|what| {
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: `getrlimit` writes to the struct that it is given.
        unsafe { libc::getrlimit(what, &mut limit) };
        // "No limit" is the largest number.
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
        // No /proc here.
        None => usize::MAX,
    }
}

/// Returns how many bytes a process can address. With 64 bits no number of stacks comes near that.
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
    // The kernel puts these bytes on the first stack, some MiB below the highest address. The kernel's part begins at a
    // whole GiB, or with the last page of all. So the result is never `usize::MAX`, which stands for "no limit".
    if near_the_top == 0 { 3 * GIB } else { (near_the_top | (GIB - 1)) & !(super::page_size() - 1) }
}

/// Whether the kernel lets this process have about so many mappings more. Found out by trying: to count them takes
/// milliseconds where there are many.
pub(crate) fn has_mappings(number: usize) -> bool {
    let page = super::page_size();
    let Ok(start) = super::map(number * page) else { return false };
    // Every second page is unlike its neighbours: a mapping of its own, and one between it and the next.
    // SAFETY: these pages are a mapping of our own in which nothing is.
    let all = (1..number).step_by(2).all(|i| unsafe { super::forbid(start + i * page, page) }.is_ok());
    // SAFETY: the mapping made above, whole.
    unsafe { super::unmap(start, number * page) };
    all
}

/// All pages of this process, and those that are data (and stack).
fn pages_in_use() -> Option<[usize; 2]> {
    let mut text = [0; 256];
    let read = fs::File::open("/proc/self/statm").ok()?.read(&mut text).ok()?;
    let mut fields = str::from_utf8(&text[..read]).ok()?.split_ascii_whitespace().map(str::parse);
    Some([fields.next()?.ok()?, fields.nth(4)?.ok()?])
}

/// Says that a fresh mapping holds stacks: small pages only, and no gigabytes of them in a core dump.
pub(crate) fn advise_stacks(start: usize, bytes: usize) {
    for advice in [libc::MADV_NOHUGEPAGE, libc::MADV_DONTDUMP] {
        // A kernel built without huge pages refuses the first, which then is no loss.
        // SAFETY: neither advice changes what the memory holds or who may touch it.
        let _ = unsafe { advise(start, bytes, advice) };
    }
}

/// Makes pages fault by a mark in the page table. `EINVAL`: the kernel is too old, or the memory is locked.
///
/// # Safety
/// Whoever calls is the only one who may use these pages, and needs nothing in them.
pub(crate) unsafe fn mark_guard(start: usize, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller's promise is the same.
    unsafe { advise(start, bytes, MADV_GUARD_INSTALL) }
}

/// Gives physical pages back; the next touch finds zeroes. Guards stay. Locked pages stay too (an error).
///
/// # Safety
/// Whoever calls is the only one who may use these pages, and needs nothing in them.
pub(crate) unsafe fn discard(start: usize, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller's promise is the same.
    unsafe { advise(start, bytes, libc::MADV_DONTNEED) }
}

#[inline(never)]
unsafe fn advise(start: usize, bytes: usize, advice: c_int) -> io::Result<()> {
    // SAFETY: the caller answers for what this advice does to these pages.
    if unsafe { libc::madvise(with_exposed_provenance_mut(start), bytes, advice) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Whether a write to this page fails, found out by letting the kernel try: it answers with an error where we
/// would get a signal.
///
/// # Safety
/// Whoever calls is the only one who may use the page at `start`, and needs nothing in it.
#[inline(never)]
pub(crate) unsafe fn refuses_writes(start: usize) -> bool {
    let page: *mut c_void = with_exposed_provenance_mut(start);
    // SAFETY: writes one byte at most, into a page that is the caller's alone. (The page is both what is asked
    // about and where the answer goes: it need only be some mapped address.)
    let answer = unsafe { libc::mincore(page, 1, page.cast()) };
    answer == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

/// How many mappings the kernel lets one process have.
#[inline(never)]
pub(crate) fn most_mappings() -> usize {
    let told = fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    told.and_then(|told| told.trim().parse().ok()).unwrap_or(65_530)
}

/// Enough for a signal handler of some depth: what the kernel itself puts there grows with the processor's registers.
pub(crate) fn least_signal_stack() -> usize {
    // SAFETY: reads one value that the kernel gave the process at its start; 0 if there is none.
    let least = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) };
    usize::try_from(least).unwrap_or(0).max(libc::SIGSTKSZ)
}

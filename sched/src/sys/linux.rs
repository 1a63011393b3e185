//! Linux: memory calls for stacks, guards, and the free room of the process. They advise, mark and discard
//! pages, and count address space and mappings. `unix.rs` has the same functions for other Unixes.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io::Read;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, io};

use super::fork;
use super::unix::{map, page_size, unmap};

// Memory of stacks ---------------------------------------------------------------------------------------

/// Pages cost memory only once they are touched, and no huge page may turn one touched page into 2 MiB.
pub(super) const MAP_FLAGS: c_int = libc::MAP_NORESERVE | libc::MAP_STACK;

/// Makes pages fault at no cost in mappings; from Linux 6.13 on. The `libc` crate does not have it yet.
const MADV_GUARD_INSTALL: c_int = 102;
const MADV_GUARD_REMOVE: c_int = 103;

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

/// How many mappings must be left when an OS thread starts: std ends the process if a thread cannot get its
/// signal stack.
const MAPPINGS_LEFT: usize = 8;

/// The pages of a trial while no thread tries; `NONE` before the first trial, and `IN_USE` during one.
static TRIAL: AtomicUsize = AtomicUsize::new(NONE);
const NONE: usize = 0;
const IN_USE: usize = 1;

/// Returns `true` if the kernel lets this process have `MAPPINGS_LEFT` more mappings. The function makes
/// them and removes them again: counting the existing ones takes milliseconds if there are many.
///
/// It splits a mapping that stays for the next trial. A process at its limit gets no mapping by a split, but
/// one too many by `mmap`. Until that one goes, the kernel refuses `malloc` its next page. So a thread waits
/// while another one tries, and maps no pages of its own.
pub(crate) fn has_mappings() -> bool {
    let kept = loop {
        // Acquire: the partner is the swap below, after which the last trial no longer uses the pages.
        match TRIAL.swap(IN_USE, Ordering::Acquire) {
            // Some system calls of another thread, none of which blocks. A child of `fork` may not have that
            // thread, and maps pages of its own.
            IN_USE if !fork::is_forked() => super::yield_thread(),
            kept => break kept,
        }
    };
    let is_new = matches!(kept, NONE | IN_USE);
    let start = if is_new { map_trial() } else { Some(kept) };
    let all = start.is_some_and(split_trial);
    let stays = match start {
        // Perhaps the new mapping is itself one too many.
        Some(start) if is_new && !all => {
            unmap_trial(start);
            NONE
        }
        start => start.unwrap_or(NONE),
    };
    // Release: the partner is the swap above.
    match TRIAL.swap(stays, Ordering::Release) {
        NONE | IN_USE => {}
        other => unmap_trial(other),
    }
    all
}

fn unmap_trial(start: usize) {
    // SAFETY: this is the whole mapping of `map_trial`. No page of it is used, and the caller alone has it.
    unsafe { super::unmap(start, trial_bytes()) };
}

fn trial_bytes() -> usize {
    (MAPPINGS_LEFT + 1) * super::page_size()
}

/// Maps the pages of a trial. No limit of memory counts them, for they are not writable.
fn map_trial() -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | MAP_FLAGS;
    // SAFETY: the kernel chooses a free address, so the mapping replaces nothing.
    let start = unsafe { libc::mmap(null_mut(), trial_bytes(), libc::PROT_NONE, flags, -1, 0) };
    (start != libc::MAP_FAILED).then(|| start.expose_provenance())
}

/// Splits the pages of a trial into `MAPPINGS_LEFT` more mappings, and joins them again. Returns `false` if
/// the kernel refuses one.
fn split_trial(start: usize) -> bool {
    let page = super::page_size();
    let protect = |at: usize, bytes: usize, protection: c_int| {
        // SAFETY: these pages belong to the trial alone, and nothing reads or writes them.
        unsafe { libc::mprotect(with_exposed_provenance_mut(at), bytes, protection) == 0 }
    };
    // Every second page gets another protection than both its neighbours, so it adds two mappings.
    let all = (1..MAPPINGS_LEFT).step_by(2).all(|i| protect(start + i * page, page, libc::PROT_READ));
    let joined = protect(start, trial_bytes(), libc::PROT_NONE);
    debug_assert!(joined, "the pages of a trial stay split: {}", io::Error::last_os_error());
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

/// Removes the marks of `mark_guard` from pages.
///
/// # Safety
/// The caller alone may use these pages.
pub(crate) unsafe fn unmark_guards(start: usize, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller makes the promise that `advise` asks for.
    unsafe { advise(start, bytes, MADV_GUARD_REMOVE) }
}

/// Returns `true` if `discard` gives back page tables that map nothing any more, as was seen with Linux 6.18
/// on x86-64. Tried out the first time that there is room for it.
pub(crate) fn frees_page_tables() -> bool {
    static FREES: OnceLock<bool> = OnceLock::new();
    if let Some(known) = FREES.get() {
        return *known;
    }
    // A process at its limit of mappings would have one too many (`has_mappings`).
    if room() < 8 * TRIED_TABLES * TABLE_BYTES || !has_mappings() {
        return false;
    }
    // More than once, because other threads may need page tables in that time.
    *FREES.get_or_init(|| (0..3).any(|_| try_page_tables() == Some(true)))
}

/// How many page tables are tried, and what each of them maps.
const TRIED_TABLES: usize = 16;
const TABLE_BYTES: usize = 2 << 20;

/// Maps addresses, touches some, and looks if the tables for them go with the pages. Returns `None` if that
/// cannot be seen. Other threads may add or remove tables at the same time. A wrong result is harmless: page
/// tables stay, or are kept by the kernel.
fn try_page_tables() -> Option<bool> {
    let bytes = TRIED_TABLES * TABLE_BYTES;
    let start = map(bytes).ok()?;
    advise_stacks(start, bytes);
    for table in 0..TRIED_TABLES {
        // SAFETY: the pages belong to this trial alone.
        unsafe { with_exposed_provenance_mut::<u8>(start + table * TABLE_BYTES).write_volatile(1) };
    }
    let before = page_table_bytes();
    // SAFETY: as above.
    let discarded = unsafe { discard(start, bytes) };
    let after = page_table_bytes();
    // SAFETY: as above.
    unsafe { unmap(start, bytes) };
    discarded.ok()?;
    Some(after? + TRIED_TABLES / 2 * page_size() <= before?)
}

/// Returns the memory of this process's page tables; `None` without /proc.
fn page_table_bytes() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmPTE:"))?;
    Some(line.split_whitespace().next()?.parse::<usize>().ok()? << 10)
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

//! The allocator that takes samples.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicU64, Ordering};

use sched::interrupted::Thread;

use super::countdown;
use super::live::{Held, Live, Sample};
use super::sums::{MOST_FRAMES, Seen, Sums};
use super::weight::Rate;
use crate::stacks::walk::fill_from_caller;

/// Room for 65,536 samples that are not freed: 32 GiB with a sample for each 512 KiB. Pages that no sample
/// has used take no memory.
static LIVE: Live<8192> = Live::new();
static SUMS: Sums<4096> = Sums::new();
/// Samples for which a table had no room. Relaxed, throughout: the number alone counts.
static LOST: AtomicU64 = AtomicU64::new(0);

/// An allocator that takes samples for the [heap profile](../../runtime/profile/index.html#heap-profiles).
/// All calls go to the wrapped allocator. It works as the global allocator only.
///
/// With an allocator of which green threads must not keep a store, this one is the outer one:
/// `Profiled::new(OfOsThread::new(..))`.
///
/// An allocation with its free costs about 3 ns more. A sample, on average one for each 512 KiB, walks the
/// stack, which takes 5 to 20 microseconds and some KiB of that stack. The tables have a fixed size: 5 MB of
/// address space, of which the used pages take memory. Nothing waits for a lock.
///
/// Needs the feature `debug`, on Linux on x86-64 and 64-bit Arm.
///
/// ```
/// use runtime::profile::Profiled;
/// use std::alloc::System;
///
/// #[global_allocator]
/// static ALLOCATOR: Profiled<System> = Profiled::new(System);
///
/// let kept = vec![1_u8; 16 << 20];
/// let heap = runtime::profile::heap().unwrap();
/// assert!(heap.in_use().bytes >= 16 << 20);
/// assert!(heap.folded().contains("main"));
/// drop(kept);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Profiled<A>(A);

impl<A> Profiled<A> {
    /// Wraps an allocator.
    ///
    /// ```
    /// use std::alloc::System;
    /// static ALLOCATOR: runtime::profile::Profiled<System> = runtime::profile::Profiled::new(System);
    /// # let _ = ALLOCATOR;
    /// ```
    pub const fn new(allocator: A) -> Self {
        Profiled(allocator)
    }
}

// SAFETY: the wrapped allocator keeps this trait's contract, and gets each call once with the caller's
// arguments. What this adds does not touch the memory, and does not unwind.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Profiled<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        let memory = unsafe { self.0.alloc(layout) };
        count(memory, layout.size());
        memory
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // Before the memory is free: then another thread may get it, and take a sample at its address.
        if let Some(held) = LIVE.hold(memory.addr()) {
            free(held);
        }
        // SAFETY: as above.
        unsafe { self.0.dealloc(memory, layout) };
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let memory = unsafe { self.0.alloc_zeroed(layout) };
        count(memory, layout.size());
        memory
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Before, as in `dealloc`.
        let held = LIVE.hold(memory.addr());
        // SAFETY: as above.
        let new = unsafe { self.0.realloc(memory, layout, new_size) };
        match held {
            Some(held) if new.is_null() => LIVE.put_back(held),
            Some(held) => free(held),
            None => {}
        }
        count(new, new_size);
        new
    }
}

#[inline]
fn count(memory: *mut u8, size: usize) {
    if let Some(rate) = countdown::count(size)
        && !memory.is_null()
    {
        countdown::unsampled(|| record(memory.addr(), size, rate));
    }
}

#[cold]
fn free(held: Held) {
    SUMS.free(held.sample);
    LIVE.free(held);
}

/// Takes a sample. *Runs on: any thread, anywhere in the program or in the runtime.*
#[cold]
#[inline(never)]
fn record(address: usize, size: usize, rate: Rate) {
    let mut frames = [0; MOST_FRAMES];
    let n = fill_from_caller(&mut frames);
    let sample =
        SUMS.of(&frames[..n], Thread::here()).map(|sum| Sample { size, weight: rate.weight(size), sum });
    match sample.filter(|&sample| LIVE.add(address, sample)) {
        Some(sample) => SUMS.add(sample),
        None => _ = LOST.fetch_add(1, Ordering::Relaxed),
    }
}

/// Returns how many samples had no room.
pub(super) fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Returns what was sampled since the process began.
pub(super) fn seen() -> impl Iterator<Item = Seen> {
    SUMS.seen()
}

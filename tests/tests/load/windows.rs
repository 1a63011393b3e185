//! Stacks on Windows, where each is an allocation of its own.
#![cfg(windows)]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::{Runtime, spawn};
use tests::{on, wait_until, with};

const HOUR: Duration = Duration::from_secs(3600);
const MIB: usize = 1 << 20;

/// What `VirtualQuery` says of a range of addresses.
#[repr(C)]
struct Range {
    base: usize,
    allocation_base: usize,
    allocation_protect: u32,
    partition: u16,
    size: usize,
    state: u32,
    protect: u32,
    kind: u32,
}

unsafe extern "system" {
    fn VirtualQuery(address: *const c_void, range: *mut MaybeUninit<Range>, size: usize) -> usize;
}

/// Returns the pages around an address; `None` beyond the last address.
fn pages(at: usize) -> Option<Range> {
    let mut range = MaybeUninit::uninit();
    let address = std::ptr::without_provenance(at);
    // SAFETY: the call only reads its tables for the address, and writes `range`, which has that size.
    let known = unsafe { VirtualQuery(address, &raw mut range, size_of::<Range>()) } != 0;
    // SAFETY: the call has written it.
    known.then(|| unsafe { range.assume_init() })
}

/// Returns how many bytes of address space this process has taken, in use or not.
fn address_space() -> usize {
    const FREE: u32 = 0x10000;
    let (mut at, mut taken) = (0, 0);
    while let Some(range) = pages(at) {
        taken += if range.state == FREE { 0 } else { range.size };
        at = range.base + range.size;
    }
    taken
}

/// Returns how many bytes are committed of the stack that the caller runs on.
fn committed() -> usize {
    const COMMITTED: u32 = 0x1000;
    let local = 0_u8;
    let stack = pages(std::ptr::from_ref(&local).addr()).unwrap().allocation_base;
    let (mut at, mut committed) = (stack, 0);
    while let Some(range) = pages(at).filter(|range| range.allocation_base == stack) {
        committed += if range.state == COMMITTED { range.size } else { 0 };
        at = range.base + range.size;
    }
    committed
}

fn stack_bytes(runtime: &Runtime) -> usize {
    runtime.handle().metrics().stack_bytes
}

/// Runs `number` green threads that are alive at the same time. `then` runs while they are.
fn burst(runtime: &Runtime, number: usize, then: impl FnOnce()) {
    let begun = Arc::new(AtomicUsize::new(0));
    let sleeper = |begun: Arc<AtomicUsize>| {
        move || {
            begun.fetch_add(1, SeqCst);
            runtime::sleep(HOUR);
        }
    };
    let threads: Vec<_> = runtime.block_on(|| (0..number).map(|_| spawn(sleeper(begun.clone()))).collect());
    wait_until("all have stacks", || begun.load(SeqCst) == number);
    then();
    threads.iter().for_each(|thread| thread.cancel());
    threads.into_iter().for_each(|thread| drop(thread.join()));
}

#[test]
fn a_dropped_runtime_gives_its_stacks_back() {
    tests::alone!();
    let before = address_space();
    let mut each = 0;
    for _ in 0..10 {
        with(2, |runtime| burst(runtime, 500, || each = stack_bytes(runtime)));
    }
    assert!(each > 100 * MIB, "{each} bytes of stacks are no burst");
    // The last OS thread of a runtime frees the stacks, and a drop does not wait for its end.
    wait_until("the addresses are free again", || address_space() < before + each / 2);
}

#[test]
fn the_stacks_of_a_burst_are_given_back() {
    tests::alone!();
    with(2, |runtime| {
        let before = address_space();
        let (mut stacks, mut peak) = (0, 0);
        burst(runtime, 10_000, || (stacks, peak) = (stack_bytes(runtime), address_space()));
        assert!(peak > before + stacks / 2, "stacks of {stacks} bytes, but addresses: {before} -> {peak}");
        // A third of them stay warm.
        wait_until("the stacks end", || stack_bytes(runtime) < stacks / 2);
        wait_until("the addresses are free again", || address_space() < before + stacks / 2);
        // New stacks can be made again.
        burst(runtime, 10_000, || assert!(stack_bytes(runtime) >= stacks));
    });
}

/// The figure is that of docs::platforms.
#[test]
fn a_stack_commits_what_it_uses_its_guard_and_its_reserve() {
    #[inline(never)]
    fn uses(bytes: usize) -> usize {
        let block = std::hint::black_box([1_u8; 4096]);
        if bytes == 0 {
            committed()
        } else {
            uses(bytes.saturating_sub(4096)) + usize::from(block[bytes % 4096]) - 1
        }
    }
    on(1, || {
        let fresh = spawn(committed).join().unwrap();
        println!("{} KiB of a fresh stack are committed", fresh >> 10);
        assert!((12 << 10..=48 << 10).contains(&fresh), "{fresh}");
        let used = spawn(|| uses(100 << 10)).join().unwrap();
        assert!(used > fresh + (90 << 10), "{fresh} -> {used}");
    });
}

//! Tries each use of blocks, before any green thread has one.

use std::cell::Cell;
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::layout::Memory;
use super::{Block, base, found};

thread_local! {
    static PROBE: Cell<u64> = const { Cell::new(0x5EED) };
    static ENDS: Ends = const { Ends };
}

/// How often a destructor has run.
static ENDED: AtomicUsize = AtomicUsize::new(0);

struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        ENDED.fetch_add(1, Ordering::Relaxed);
    }
}

extern "C" fn ends_key(_value: *mut c_void) {
    ENDED.fetch_add(1, Ordering::Relaxed);
}

#[inline(never)]
fn probe(new: u64) -> u64 {
    PROBE.replace(new)
}

#[inline(never)]
fn errno(new: i32) -> i32 {
    // SAFETY: the address is that of this block's `errno`.
    unsafe { libc::__errno_location().replace(new) }
}

fn expect(what: &str, holds: bool) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{what} does not work in a block of its own")) }
}

/// Tries everything. *Runs on: an OS thread without other use.*
pub(super) fn all() -> Result<(), String> {
    let (of_first, of_second) = (Memory::of(found()), Memory::of(found()));
    // SAFETY: each has memory of its own, which outlives it.
    let (mut first, second) = unsafe { (Block::new(of_first.end()), Block::new(of_second.end())) };
    thread_locals(first, second)?;
    memory(first, second)?;
    destructors(first, second)?;
    first.renew();
    expect("a renewed thread-local", first.with(|| probe(0)) == 0x5EED)?;
    expect("a renewed errno", first.with(|| errno(0)) == 0)?;
    first.renew();
    // SAFETY: no thread is in these blocks.
    unsafe { (first.free(), second.free()) };
    Ok(())
}

fn thread_locals(first: Block, second: Block) -> Result<(), String> {
    probe(1);
    errno(1);
    expect("a thread-local", first.with(|| probe(2)) == 0x5EED && second.with(|| probe(3)) == 0x5EED)?;
    expect("a thread-local", first.with(|| probe(2)) == 2 && second.with(|| probe(3)) == 3 && probe(1) == 1)?;
    expect("errno", first.with(|| errno(2)) == 0 && second.with(|| errno(3)) == 0)?;
    expect("errno", first.with(|| errno(2)) == 2 && second.with(|| errno(3)) == 3 && errno(1) == 1)?;
    // SAFETY: the call has no requirements.
    let own = || unsafe { libc::pthread_self() } as usize;
    let record = |base: usize| base.wrapping_add_signed(found().record);
    expect("pthread_self", first.with(own) == record(first.base) && own() == record(base()))
}

fn memory(first: Block, second: Block) -> Result<(), String> {
    let fill = |byte: u8| (1..200).map(|n| vec![byte; n * 7]).collect::<Vec<_>>();
    let all = [first.with(|| fill(1)), second.with(|| fill(2)), fill(3)];
    let is = |byte: u8, all: &[Vec<u8>]| all.iter().all(|one| one.iter().all(|&found| found == byte));
    let whole = (1..).zip(&all).all(|(byte, all)| is(byte, all));
    first.with(|| drop(black_box(all)));
    second.with(|| drop(black_box(fill(4))));
    expect("malloc", whole && is(5, &fill(5)))
}

fn destructors(first: Block, second: Block) -> Result<(), String> {
    let mut key = 0;
    // SAFETY: the function has the signature of a destructor.
    let made = unsafe { libc::pthread_key_create(&raw mut key, Some(ends_key)) };
    expect("a key of pthread", made == 0)?;
    // SAFETY: the key exists, and its destructor uses no value.
    let set = || unsafe { libc::pthread_setspecific(key, ptr::without_provenance(1)) };
    // SAFETY: the key exists.
    let get = || unsafe { libc::pthread_getspecific(key) }.addr();
    // SAFETY: the byte lies in the block, which this thread has.
    let used = |block: Block| unsafe { *block.layout.used_keys(block.base) };
    expect("the note of a key of pthread", !used(first) && first.with(set) == 0 && used(first))?;
    expect(
        "a key of pthread",
        first.with(set) == 0 && first.with(get) == 1 && second.with(get) == 0 && get() == 0,
    )?;
    let before = ENDED.load(Ordering::Relaxed);
    let ended = || ENDED.load(Ordering::Relaxed) - before;
    first.with(|| ENDS.with(|ends| _ = black_box(ends)));
    second.with(|| second.end());
    expect("the end of a block", ended() == 0)?;
    first.with(|| first.end());
    // SAFETY: the key exists, and no value of it is left.
    unsafe { libc::pthread_key_delete(key) };
    expect("a destructor", ended() == 2 && first.with(get) == 0)
}

//! All Gs of the process, by index: chunks that double in size, never freed, and the pool of those not in use. So the memory
//! of as many Gs as were ever alive at once is kept (256 bytes each): that is the price of stale references being harmless.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc};
use std::io;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use parking_lot::Mutex;

use super::list::GList;
use super::{G, GRef};
use crate::fork::is_forked;
use crate::sys;

/// Chunk k holds `FIRST << k` Gs.
const FIRST: u32 = 1024;
const CHUNKS: usize = 22;

static TABLE: [AtomicPtr<G>; CHUNKS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS];
/// How many indices have been given out; index 0 is nobody's.
static MADE: AtomicU32 = AtomicU32::new(1);
static POOL: Mutex<Pool> = Mutex::new(Pool { green: GList::new(), faces: GList::new() });

/// Gs not in use, the one used last first. A face of an OS thread stays one: a late waker may still touch what it waits on.
struct Pool {
    green: GList,
    faces: GList,
}

fn place_of(index: u32) -> (usize, usize) {
    let chunk = (index / FIRST + 1).ilog2();
    let before = FIRST * ((1 << chunk) - 1);
    (chunk as usize, (index - before) as usize)
}

/// The G of that index; `None` for an index that was never given out.
pub(crate) fn get(index: u32) -> Option<GRef> {
    // Acquire: pairs with the Release of `MADE` in `make`; the G is initialised.
    if index == 0 || index >= MADE.load(Ordering::Acquire) {
        return None;
    }
    let (chunk, offset) = place_of(index);
    // Relaxed: ordered by `MADE`.
    let base = TABLE.get(chunk)?.load(Ordering::Relaxed);
    // SAFETY: a chunk is never freed, and all of its Gs below `MADE` are initialised.
    Some(unsafe { &*base.add(offset) })
}

/// All Gs made so far, in use or not.
pub(crate) fn all() -> impl Iterator<Item = GRef> {
    (1..MADE.load(Ordering::Acquire)).filter_map(get)
}

/// Takes a G that nobody uses, a new one if need be; up to `n` more go to `keep`.
///
/// # Errors
/// There is no memory for a new one.
pub(crate) fn take(n: usize, mut keep: impl FnMut(GRef)) -> io::Result<GRef> {
    let mut pool = POOL.lock();
    let mut next = || pool.green.pop().map_or_else(|| make(&mut pool), Ok);
    let first = next()?;
    // Fewer will do: whoever needs them asks again, and hears.
    (0..n).map_while(|_| next().ok()).for_each(&mut keep);
    Ok(first)
}

/// Gives Gs back that nobody uses any more.
pub(crate) fn give(gs: impl IntoIterator<Item = GRef>) {
    if !is_forked() {
        let mut pool = POOL.lock();
        gs.into_iter().for_each(|g| pool.green.push_front(g));
    }
}

/// A face for a plain OS thread.
///
/// # Panics
/// If there is no memory for one: then the thread cannot wait for anything.
pub(crate) fn take_face() -> GRef {
    if is_forked() {
        // Of no index: nothing that goes by index waits in such a process.
        let g = Box::leak(Box::new(G::new(0)));
        crate::outside::make_face(g);
        return g;
    }
    let mut pool = POOL.lock();
    pool.faces.pop().unwrap_or_else(|| {
        let g = make(&mut pool).unwrap_or_else(|error| panic!("this thread cannot wait: {error}"));
        crate::outside::make_face(g);
        g
    })
}

pub(crate) fn give_face(g: GRef) {
    if !is_forked() {
        POOL.lock().faces.push_front(g);
    }
}

/// *Runs on: the holder of the pool's lock.*
fn make(_locked: &mut Pool) -> io::Result<GRef> {
    // Relaxed: written under the lock that we hold.
    let index = MADE.load(Ordering::Relaxed);
    let (chunk, offset) = place_of(index);
    let Some(slot) = TABLE.get(chunk) else { return Err(too_many(index)) };
    let mut base = slot.load(Ordering::Relaxed);
    if base.is_null() {
        let layout = Layout::array::<G>((FIRST as usize) << chunk).expect("a chunk fits the address space");
        // Room is left for what green threads need besides: in queues, in heaps of timers.
        if sys::room() < layout.size() + layout.size() / 4 + sys::LEFT_BY_THREADS {
            return Err(no_memory(layout.size()));
        }
        // SAFETY: the layout is not empty. The memory is touched G by G, so a large chunk costs nothing yet.
        base = unsafe { alloc(layout) }.cast();
        if base.is_null() {
            return Err(no_memory(layout.size()));
        }
    }
    // SAFETY: `offset` lies within the chunk, no other index names this place, and we hold the lock.
    let g = unsafe {
        base.add(offset).write(G::new(index));
        &*base.add(offset)
    };
    slot.store(base, Ordering::Relaxed);
    // Release: the G and its chunk; pairs with `get` and `all`.
    MADE.store(index + 1, Ordering::Release);
    Ok(g)
}

#[cold]
fn no_memory(bytes: usize) -> io::Error {
    let kib = bytes >> 10;
    let text = format!(
        "no memory for another green thread: {kib} KiB more for the table of all were refused; raise the limit on \
         memory (RLIMIT_AS, RLIMIT_DATA) or keep fewer green threads"
    );
    io::Error::new(io::ErrorKind::OutOfMemory, text)
}

#[cold]
fn too_many(made: u32) -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, format!("{made} green threads at once are as many as can be"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_map_to_distinct_places_within_their_chunks() {
        assert_eq!(place_of(0), (0, 0));
        assert_eq!(place_of(FIRST - 1), (0, FIRST as usize - 1));
        assert_eq!(place_of(FIRST), (1, 0));
        assert_eq!(place_of(3 * FIRST - 1), (1, 2 * FIRST as usize - 1));
        assert_eq!(place_of(3 * FIRST), (2, 0));
        let (chunk, offset) = place_of(u32::MAX - FIRST);
        assert!(chunk < CHUNKS && offset < (FIRST as usize) << chunk);
    }

    #[test]
    fn a_g_is_small() {
        assert!(size_of::<G>() <= 256, "{} bytes a green thread", size_of::<G>());
    }
}

//! All Gs of the process, by index: chunks that double in size, never freed, and the pool of those not in use.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, handle_alloc_error};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use parking_lot::Mutex;

use super::{G, GRef};

/// Chunk k holds `FIRST << k` Gs.
const FIRST: u32 = 1024;
const CHUNKS: usize = 22;

static TABLE: [AtomicPtr<G>; CHUNKS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS];
/// How many indices have been given out; index 0 is nobody's.
static MADE: AtomicU32 = AtomicU32::new(1);
static POOL: Mutex<Pool> = Mutex::new(Pool { green: Vec::new(), faces: Vec::new() });

/// Gs not in use. A face of an OS thread stays one: a late waker may still touch what it waits on.
struct Pool {
    green: Vec<GRef>,
    faces: Vec<GRef>,
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

/// Takes up to `n` Gs that nobody uses, new ones if need be.
pub(crate) fn take(n: usize, out: &mut Vec<GRef>) {
    let mut pool = POOL.lock();
    for _ in 0..n {
        let g = pool.green.pop().unwrap_or_else(|| make(&mut pool));
        out.push(g);
    }
}

/// Gives Gs back that nobody uses any more.
pub(crate) fn give(gs: impl IntoIterator<Item = GRef>) {
    POOL.lock().green.extend(gs);
}

/// A face for a plain OS thread.
pub(crate) fn take_face() -> GRef {
    let mut pool = POOL.lock();
    pool.faces.pop().unwrap_or_else(|| {
        let g = make(&mut pool);
        crate::outside::make_face(g);
        g
    })
}

pub(crate) fn give_face(g: GRef) {
    POOL.lock().faces.push(g);
}

/// *Runs on: the holder of the pool's lock.*
fn make(_locked: &mut Pool) -> GRef {
    // Relaxed: written under the lock that we hold.
    let index = MADE.load(Ordering::Relaxed);
    let (chunk, offset) = place_of(index);
    let slot = TABLE.get(chunk).expect("four thousand million green threads at once are too many");
    let mut base = slot.load(Ordering::Relaxed);
    if base.is_null() {
        let layout = Layout::array::<G>((FIRST as usize) << chunk).expect("a chunk fits the address space");
        // SAFETY: the layout is not empty. The memory is touched G by G, so a large chunk costs nothing yet.
        base = unsafe { alloc(layout) }.cast();
        if base.is_null() {
            handle_alloc_error(layout);
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
    g
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

//! The table of all Gs of the process, by index, and the pool of the Gs that are not in use. Each thread that
//! runs Gs keeps some of these for its next spawns (`KeptGs`), and so takes the lock of the pool rarely.
//!
//! The table has chunks that double in size and are never freed. So the memory of as many Gs as were ever
//! alive at once is kept, 256 bytes each. That is the price of harmless stale references.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc};
use std::cell::UnsafeCell;
use std::io;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::list::GList;
use super::{G, GRef};
use crate::sync::Mutex;
use crate::sys;
use crate::sys::fork::is_forked;

/// Chunk k holds `FIRST << k` Gs.
pub(crate) const FIRST: u32 = 1024;
pub(crate) const CHUNKS: usize = 22;

/// Other files only take its address, for debuggers; so with `MADE`.
pub(crate) static TABLE: [AtomicPtr<G>; CHUNKS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS];
/// The next index to give out. Index 0 names no G.
pub(crate) static MADE: AtomicU32 = AtomicU32::new(1);
static POOL: Mutex<Pool> = Mutex::new(Pool { green: Vec::new(), proxies: GList::new() });

/// Gs not in use; the G used last is taken first. A list through the Gs would be slower: the cache may no
/// longer hold them, so that each step along it could be a cache miss, under the lock. A proxy G stays a
/// proxy G: a late waker may still touch what its OS thread sleeps on.
struct Pool {
    green: Vec<GRef>,
    proxies: GList,
}

fn place_of(index: u32) -> (usize, usize) {
    let chunk = (index / FIRST + 1).ilog2();
    let before = FIRST * ((1 << chunk) - 1);
    (chunk as usize, (index - before) as usize)
}

/// Returns the G of `index`; `None` if the index was never given out.
pub(crate) fn get(index: u32) -> Option<GRef> {
    // Acquire: sees the initialised G. Pairs with the Release of `MADE` in `make`.
    if index == 0 || index >= MADE.load(Ordering::Acquire) {
        return None;
    }
    let (chunk, offset) = place_of(index);
    // Relaxed: the Acquire of `MADE` orders it.
    let base = TABLE.get(chunk)?.load(Ordering::Relaxed);
    // SAFETY: a chunk is never freed, and `make` initialises a G before it raises `MADE` above its index.
    Some(unsafe { &*base.add(offset) })
}

/// Returns all Gs made so far, in use or not.
pub(crate) fn all() -> impl Iterator<Item = GRef> {
    (1..MADE.load(Ordering::Acquire)).filter_map(get)
}

/// Takes a G from the pool, or makes a new one. Gives up to `n` more to `keep`.
///
/// # Errors
/// Returns an error if there is no memory for the first G.
pub(crate) fn take(n: usize, mut keep: impl FnMut(GRef)) -> io::Result<GRef> {
    let mut pool = POOL.lock();
    let mut next = || pool.green.pop().map_or_else(|| make(&mut pool), Ok);
    let first = next()?;
    // Fewer than `n` suffice: a caller that needs more asks again, and gets the error then.
    (0..n).map_while(|_| next().ok()).for_each(&mut keep);
    Ok(first)
}

/// Gives Gs without a reference back to the pool.
pub(crate) fn give(gs: impl IntoIterator<Item = GRef>) {
    if !is_forked() {
        let mut pool = POOL.lock();
        pool.green.extend(gs);
    }
}

/// Takes a proxy G for a plain OS thread from the pool, or makes a new one. Calls `init` for a new one.
///
/// # Panics
/// Panics if there is no memory for it: without a proxy G the thread cannot wait.
pub(crate) fn take_proxy_g(init: impl FnOnce(GRef)) -> GRef {
    if is_forked() {
        // Index 0: in a forked child nothing waits by index.
        let g = Box::leak(Box::new(G::new(0)));
        init(g);
        return g;
    }
    let mut pool = POOL.lock();
    pool.proxies.pop().unwrap_or_else(|| {
        let g = make(&mut pool).unwrap_or_else(|error| panic!("this thread cannot wait: {error}"));
        init(g);
        g
    })
}

pub(crate) fn give_proxy_g(g: GRef) {
    if !is_forked() {
        POOL.lock().proxies.push_front(g);
    }
}

/// The most Gs that a thread keeps.
const KEPT: usize = 128;

/// Gs not in use that one thread keeps; the G used last is taken first.
pub(crate) struct KeptGs(UnsafeCell<Vec<GRef>>);

impl KeptGs {
    pub(crate) fn new() -> KeptGs {
        // Full capacity at once, so that the end of a G allocates nothing.
        KeptGs(UnsafeCell::new(Vec::with_capacity(KEPT + 1)))
    }

    /// Returns an unused G.
    ///
    /// # Errors
    /// Fails if there is no memory for a new G.
    #[inline]
    pub(crate) fn take(&self) -> io::Result<GRef> {
        // SAFETY: the cell is not shared between threads, and nothing below calls a method of it again.
        let kept = unsafe { &mut *self.0.get() };
        match kept.pop() {
            Some(g) => {
                if let Some(next) = kept.last() {
                    next.will_be_used();
                }
                Ok(g)
            }
            None => take(KEPT / 2, |g| kept.push(g)),
        }
    }

    /// Keeps a G without a reference. Gives half of them back to the pool if they are too many.
    #[inline]
    pub(crate) fn give(&self, g: GRef) {
        // SAFETY: as in `take`.
        let kept = unsafe { &mut *self.0.get() };
        kept.push(g);
        if kept.len() > KEPT {
            give(kept.drain(..KEPT / 2));
        }
    }

    /// Gives all of them back to the pool.
    pub(crate) fn give_all(&self) {
        // SAFETY: as in `take`.
        give(unsafe { &mut *self.0.get() }.drain(..));
    }
}

/// Makes a new G at the next index. *Runs on: the holder of the pool's lock.*
fn make(pool: &mut Pool) -> io::Result<GRef> {
    // Relaxed: `MADE` is written under the pool's lock only, which the caller holds.
    let index = MADE.load(Ordering::Relaxed);
    // The pool has room for all Gs, so `give` allocates nothing: it may run where no memory is left.
    let room = (index as usize).saturating_sub(pool.green.len());
    pool.green.try_reserve(room).map_err(|_| no_memory(room * size_of::<GRef>()))?;
    let (chunk, offset) = place_of(index);
    let Some(slot) = TABLE.get(chunk) else { return Err(too_many(index)) };
    let mut base = slot.load(Ordering::Relaxed);
    if base.is_null() {
        let layout = Layout::array::<G>((FIRST as usize) << chunk).expect("a chunk fits the address space");
        // Leaves room for what green threads need besides: queues, heaps of timers.
        if sys::room() < layout.size() + layout.size() / 4 + sys::LEFT_BY_THREADS {
            return Err(no_memory(layout.size()));
        }
        // SAFETY: the layout is not empty. The memory is touched G by G, so a large chunk costs nothing yet.
        base = unsafe { alloc(layout) }.cast();
        if base.is_null() {
            return Err(no_memory(layout.size()));
        }
    }
    // SAFETY: `offset` lies within the chunk, no other index names this place, and the caller holds the
    // pool's lock.
    let g = unsafe {
        base.add(offset).write(G::new(index));
        &*base.add(offset)
    };
    slot.store(base, Ordering::Relaxed);
    // Release: publishes the G and its chunk. Pairs with the Acquire of `get` and `all`.
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
    #[cfg_attr(miri, ignore = "Miri does not know the limits of memory")]
    fn a_thread_keeps_some_gs_and_takes_its_last_first() {
        let kept = KeptGs::new();
        // SAFETY: no method of it runs now.
        let of = |kept: &KeptGs| unsafe { &*kept.0.get() }.len();
        let g = kept.take().unwrap();
        assert_eq!(of(&kept), KEPT / 2, "the first spawn takes more");
        kept.give(g);
        assert!(std::ptr::eq(kept.take().unwrap(), g));
        let more: Vec<_> = (0..KEPT).map(|_| kept.take().unwrap()).collect();
        more.into_iter().chain([g]).for_each(|g| kept.give(g));
        assert!((KEPT / 2..=KEPT).contains(&of(&kept)), "{} are kept", of(&kept));
        kept.give_all();
        assert_eq!(of(&kept), 0);
    }

    #[test]
    fn a_g_is_small() {
        assert!(size_of::<G>() <= 256, "{} bytes a green thread", size_of::<G>());
    }
}

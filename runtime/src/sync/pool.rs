//! `Pool`: objects that are used again, a shelf of them for each P (Go: `sync.Pool`).
//!
//! ```text
//!   get      take an object from the shelf of the caller's P, else from another shelf, else make one
//!   put      lay the object on the shelf of the caller's P
//!   a round  drop the aged objects of each shelf; those that have not been used since the last round are aged now
//! ```
//!
//! A shelf is a list behind a lock. The caller's P says only which shelf comes first, so a green thread may
//! move to another P at any time. No caller waits for a lock: a caller that finds a shelf locked goes on to
//! the next shelf.

use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;

use crossbeam_utils::CachePadded;
use sched::drop_contained;
use sched::sync::Mutex;
use timers::clock;

/// The least time between two rounds.
const ROUND_NS: u64 = 10_000_000_000;

/// Objects that are expensive to make, such as buffers, for use by one thread after the other.
///
/// [`get`](Pool::get) returns a guard, whose drop gives the object back. The object is as its last user left
/// it, so clear what must not be seen again. Any thread may use the pool. No call waits: if there is no
/// object, a new one is made.
///
/// An object that was not used for 10 to 20 seconds is dropped, by a thread that gives another object back. A
/// panic in its destructor is reported by the panic hook, and does not reach that thread. A pool that is not
/// used at all keeps its objects until [`clear`](Pool::clear) or the pool's drop.
///
/// Use a channel or a [`Semaphore`](super::Semaphore) if the *number* of objects matters, for example of
/// connections: a pool makes as many as are asked for at once.
///
/// ```
/// use runtime::sync::Pool;
/// use std::io::Write;
///
/// static BUFFERS: Pool<Vec<u8>> = Pool::new(|| Vec::with_capacity(4096));
///
/// let threads: Vec<_> = (0..100)
///     .map(|i| {
///         runtime::spawn(move || {
///             let mut buffer = BUFFERS.get();
///             buffer.clear();
///             write!(buffer, "line {i}").unwrap();
///             buffer.len()
///         })
///     })
///     .collect();
/// let bytes: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
/// assert_eq!(bytes, 690);
/// ```
pub struct Pool<T, F = fn() -> T> {
    make: F,
    /// A power of two of them, made at the first use.
    shelves: OnceLock<Shelves<T>>,
    /// When the next round may begin. It guards no data, so every access is relaxed.
    next_round: AtomicU64,
}

type Shelves<T> = Box<[CachePadded<Mutex<Shelf<T>>>]>;

struct Shelf<T> {
    /// Given back since the last round.
    fresh: Vec<T>,
    /// Not used since the last round.
    aged: Vec<T>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Shelf { fresh: Vec::new(), aged: Vec::new() }
    }
}

impl<T, F: Fn() -> T> Pool<T, F> {
    /// Returns a pool without objects. `make` makes an object when there is none.
    ///
    /// ```
    /// let pool = runtime::sync::Pool::new(String::new);
    /// assert!(pool.get().is_empty());
    /// ```
    pub const fn new(make: F) -> Self {
        Pool { make, shelves: OnceLock::new(), next_round: AtomicU64::new(0) }
    }

    /// Takes an object out of the pool, or makes one. Dropping the guard gives the object back.
    ///
    /// A guard that is dropped by a panic or a cancellation drops its object, which may be half changed.
    ///
    /// # Panics
    ///
    /// Panics if `make` panics.
    ///
    /// ```
    /// let pool = runtime::sync::Pool::new(Vec::new);
    /// pool.get().push(7);
    /// // On another P it may be a new one.
    /// assert!(matches!(pool.get()[..], [7] | []));
    /// ```
    pub fn get(&self) -> PoolGuard<'_, T, F> {
        let object = self.take().unwrap_or_else(|| (self.make)());
        PoolGuard { pool: self, object: Some(object) }
    }
}

impl<T, F> Pool<T, F> {
    /// Gives an object to the pool, for example one that [`into_inner`](PoolGuard::into_inner) has taken out.
    ///
    /// ```
    /// let pool = runtime::sync::Pool::new(String::new);
    /// pool.put(String::from("ready"));
    /// ```
    pub fn put(&self, object: T) {
        let mut object = Some(object);
        self.find(|shelf| object.take().map(|object| shelf.fresh.push(object)));
        // If every shelf was locked, the object is dropped.
        drop_contained(object);
        self.round(clock::now());
    }

    /// Drops the objects in the pool. Those that are in use come back later.
    ///
    /// ```
    /// let pool = runtime::sync::Pool::new(String::new);
    /// pool.put(String::from("old"));
    /// pool.clear();
    /// assert!(pool.get().is_empty());
    /// ```
    pub fn clear(&self) {
        for shelf in self.shelves() {
            // In its own statement, so that the lock is released before destructors of the user run.
            let all = std::mem::take(&mut *shelf.lock());
            drop(all);
        }
    }

    fn take(&self) -> Option<T> {
        self.find(|shelf| shelf.fresh.pop().or_else(|| shelf.aged.pop()))
    }

    /// Calls `look` with each shelf that no other thread has locked, until it returns a value. Begins at the
    /// shelf of the caller's P.
    fn find<R>(&self, mut look: impl FnMut(&mut Shelf<T>) -> Option<R>) -> Option<R> {
        let (shelves, first) = (self.shelves(), place());
        (first..first + shelves.len()).find_map(|at| look(&mut *shelves[at % shelves.len()].try_lock()?))
    }

    fn shelves(&self) -> &[CachePadded<Mutex<Shelf<T>>>] {
        self.shelves.get_or_init(|| {
            let parallel = thread::available_parallelism().map_or(8, usize::from);
            (0..parallel.next_power_of_two()).map(|_| CachePadded::default()).collect()
        })
    }

    /// Begins a round, if it is time for one.
    fn round(&self, now: u64) {
        let due = self.next_round.load(Relaxed);
        if now < due || self.next_round.compare_exchange(due, now + ROUND_NS, Relaxed, Relaxed).is_err() {
            return;
        }
        for shelf in self.shelves() {
            let Some(mut shelf) = shelf.try_lock() else { continue };
            let fresh = std::mem::take(&mut shelf.fresh);
            let unused = std::mem::replace(&mut shelf.aged, fresh);
            // Released before destructors of the user run.
            drop(shelf);
            unused.into_iter().for_each(drop_contained);
        }
    }
}

/// Returns the number of the shelf at which the caller begins: that of its P, or one that a thread without a
/// P keeps.
fn place() -> usize {
    sched::current_p().unwrap_or_else(place_of_thread)
}

/// Never inlined: a green thread may come here on one OS thread after the other, and must read the variable
/// of each.
#[inline(never)]
fn place_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static PLACE: Cell<Option<usize>> = const { Cell::new(None) };
    }
    PLACE.get().unwrap_or_else(|| {
        // Relaxed: only the number matters.
        let place = NEXT.fetch_add(1, Relaxed) % (1 << 16);
        PLACE.set(Some(place));
        place
    })
}

/// An object of a [`Pool`], which its drop gives back.
///
/// ```
/// let pool = runtime::sync::Pool::new(String::new);
/// let mut text = pool.get();
/// text.push_str("hello");
/// assert_eq!(text.len(), 5);
/// ```
#[must_use = "dropping the guard gives the object back"]
pub struct PoolGuard<'a, T, F = fn() -> T> {
    pool: &'a Pool<T, F>,
    /// `None` once the object was taken out.
    object: Option<T>,
}

impl<T, F> PoolGuard<'_, T, F> {
    /// Takes the object out. It does not come back, unless [`put`](Pool::put) gives it back.
    ///
    /// ```
    /// use runtime::sync::{Pool, PoolGuard};
    /// let pool = Pool::new(String::new);
    /// let text: String = PoolGuard::into_inner(pool.get());
    /// # let _ = text;
    /// ```
    pub fn into_inner(mut guard: Self) -> T {
        guard.object.take().expect(IS_THERE)
    }
}

const IS_THERE: &str = "only `into_inner` and the drop take the object out";

impl<T, F> Deref for PoolGuard<'_, T, F> {
    type Target = T;

    fn deref(&self) -> &T {
        self.object.as_ref().expect(IS_THERE)
    }
}

impl<T, F> DerefMut for PoolGuard<'_, T, F> {
    fn deref_mut(&mut self) -> &mut T {
        self.object.as_mut().expect(IS_THERE)
    }
}

impl<T, F> Drop for PoolGuard<'_, T, F> {
    fn drop(&mut self) {
        if let Some(object) = self.object.take()
            && !thread::panicking()
        {
            self.pool.put(object);
        }
    }
}

impl<T: fmt::Debug, F> fmt::Debug for PoolGuard<'_, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Display, F> fmt::Display for PoolGuard<'_, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T, F> fmt::Debug for Pool<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for Pool<T, F> {}
impl<T: UnwindSafe, F: RefUnwindSafe> RefUnwindSafe for Pool<T, F> {}

#[cfg(test)]
mod tests {
    use super::{Pool, PoolGuard, ROUND_NS};
    use std::sync::Arc;
    use timers::clock;

    #[test]
    fn an_object_that_two_rounds_do_not_use_is_dropped() {
        let pool = Pool::new(|| Arc::new(()));
        let (used, unused) = (Arc::new(()), Arc::new(()));
        let now = clock::now();
        pool.next_round.store(now + ROUND_NS, super::Relaxed);
        pool.put(unused.clone());
        pool.put(used.clone());
        let in_rounds = |rounds| now + rounds * ROUND_NS + 1;
        // The last object that came is the first that goes.
        pool.round(in_rounds(1));
        assert!(Arc::ptr_eq(&pool.get(), &used));
        pool.round(in_rounds(1) + 1);
        assert_eq!(Arc::strong_count(&unused), 2, "a second round at the same time");
        pool.round(in_rounds(2) + 1);
        assert_eq!((Arc::strong_count(&unused), Arc::strong_count(&used)), (1, 2));
        assert!(Arc::ptr_eq(&PoolGuard::into_inner(pool.get()), &used));
    }

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new(()));
        }
    }

    #[test]
    fn a_panic_of_an_object_without_a_free_shelf_is_contained() {
        let pool = Pool::new(|| Bomb);
        let _locked: Vec<_> = pool.shelves().iter().map(|shelf| shelf.lock()).collect();
        pool.put(Bomb);
    }

    /// The caller of a round is any user of the pool.
    #[test]
    fn panics_of_unused_objects_are_contained() {
        let pool = Pool::new(|| Bomb);
        let now = clock::now();
        pool.next_round.store(now, super::Relaxed);
        (0..3).for_each(|_| pool.put(Bomb));
        (1..4).for_each(|rounds| pool.round(now + rounds * ROUND_NS + 1));
        assert!(pool.take().is_none());
    }
}

//! The pools of idle coroutines and their stacks: two short warm lists per P, and one pool per stack size
//! behind a lock.
//!
//! Each list is last-in, first-out, because the stack that was used last is still in the cache. Whole lists
//! go from a P to its pool and back: the links of a list lie on stacks that the cache may no longer hold, so
//! that each step along them can be a cache miss. Coroutines that the runtime did not need for a while become
//! cold. Their stacks give the memory back to the system and keep their address space.
//!
//! Stacks that stay cold give their page tables back, too, where neighbours do. They lose their guards for
//! that: they are bare then.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::{HashMap, hash_map::Entry};
use std::io;
use std::mem;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

use crate::g::GRef;
use crate::g::list::GList;
use crate::stack::coro::{self, Coro};
use crate::stack::shortage::{Shortage, WaitLine};
use crate::stack::{Cooled, Slabs, Stack, checked_stack_bytes};
use crate::sync::Mutex;

/// How many coroutines go together from a P to its pool and back. A P keeps at most two such batches.
const BATCH: usize = 128;
/// How many coroutines the common list keeps when it is trimmed.
const WARM: usize = 2048;
/// Stacks of another size stay warm up to this many bytes, but at most `2 * BATCH` stacks of them.
const WARM_ODD_BYTES: usize = 16 << 20;

/// True on Windows: each stack owns its memory, which ends with the stack. Elsewhere the slabs own all
/// memory.
const OWN_THEIR_MEMORY: bool = mem::needs_drop::<Stack>();

/// A list of idle coroutines. *Runs on: the thread that owns the list.*
struct CoroList {
    head: Cell<*mut Coro>,
    len: Cell<usize>,
}

// SAFETY: a list moves to another thread only as a whole: with its P, or under the lock of its pool. No G
// runs on a coroutine that lies in a list.
unsafe impl Send for CoroList {}

impl CoroList {
    const fn new() -> Self {
        CoroList { head: Cell::new(ptr::null_mut()), len: Cell::new(0) }
    }

    #[inline]
    fn len(&self) -> usize {
        self.len.get()
    }

    /// Takes a coroutine, which stays the runtime's.
    #[inline]
    fn pop(&self) -> Option<*mut Coro> {
        let coro = self.head.get();
        if coro.is_null() {
            return None;
        }
        // SAFETY: the list alone owns a coroutine that lies in it, and the stack stays mapped while the
        // runtime lives.
        let next = unsafe { (*coro).next };
        Coro::will_run(next);
        self.head.set(next);
        self.len.set(self.len() - 1);
        Some(coro)
    }

    #[inline]
    fn push(&self, coro: *mut Coro) {
        // SAFETY: the caller gives the coroutine to the list.
        unsafe { (*coro).next = self.head.get() };
        self.head.set(coro);
        self.len.set(self.len() + 1);
    }

    fn move_to(&self, other: &CoroList, n: usize) {
        for _ in 0..n {
            let Some(coro) = self.pop() else { return };
            other.push(coro);
        }
    }

    /// Exchanges all coroutines with those of `other`, in one step.
    fn swap(&self, other: &CoroList) {
        self.head.swap(&other.head);
        self.len.swap(&other.len);
    }

    /// Takes all coroutines, in one step.
    fn take(&self) -> CoroList {
        let all = CoroList::new();
        all.swap(self);
        all
    }
}

impl Drop for CoroList {
    /// Frees what belongs to the blocks of thread-locals. All coroutines of a runtime have one, or none has.
    /// Where each stack owns its memory, also frees the stacks.
    fn drop(&mut self) {
        while let Some(coro) = self.pop() {
            if OWN_THEIR_MEMORY {
                // SAFETY: the list alone owned the coroutine, and no G runs on it.
                let _stack = unsafe { Coro::dissolve(coro) };
                continue;
            }
            // SAFETY: the list alone owned the coroutine, and no G runs on it. Its stack is mapped: the
            // runtime drops Ps and lists before the slabs.
            if !unsafe { Coro::free_block(coro) } {
                return;
            }
        }
    }
}

/// The coroutines of one P. *Runs on: the holder.*
pub(crate) struct CorosOfP {
    /// The list that is used: it has at most `BATCH` coroutines.
    first: CoroList,
    /// Empty, or a whole batch. With it a P with now a few green threads more, now a few less, does not go to
    /// the pool each time.
    second: CoroList,
    /// How many coroutines the P has. Written by the holder, read by any thread.
    len: AtomicUsize,
}

impl CorosOfP {
    pub(crate) const fn new() -> Self {
        CorosOfP { first: CoroList::new(), second: CoroList::new(), len: AtomicUsize::new(0) }
    }

    /// Returns how many coroutines the P has. *Runs on: any thread.*
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // Relaxed: a count orders nothing.
        self.len.load(Ordering::Relaxed)
    }

    /// Counts the coroutines anew. *Runs on: the holder, under the lock of the pool with which it exchanges
    /// coroutines.*
    fn count(&self) {
        self.len.store(self.first.len() + self.second.len(), Ordering::Relaxed);
    }

    /// Takes a coroutine, which stays the runtime's.
    #[inline]
    pub(crate) fn pop(&self) -> Option<*mut Coro> {
        let coro = self.first.pop().or_else(|| self.pop_second())?;
        self.len.store(self.len() - 1, Ordering::Relaxed);
        Some(coro)
    }

    #[cold]
    fn pop_second(&self) -> Option<*mut Coro> {
        self.first.swap(&self.second);
        self.first.pop()
    }

    /// Puts a coroutine in. The first list has room for it.
    #[inline]
    fn push(&self, coro: *mut Coro) {
        debug_assert!(self.first.len() < BATCH, "a list has at most one batch");
        self.first.push(coro);
        self.len.store(self.len() + 1, Ordering::Relaxed);
    }
}

/// All stacks of one size that lie in no P's list.
struct Pool {
    spare: Mutex<Spare>,
    stacks: Slabs,
    /// The `Coro::class` of its coroutines.
    class: u32,
    /// How many coroutines keep their memory, so that a burst of that size starts on warm stacks.
    warm: usize,
    /// True if coroutines have thread-locals of their own.
    owns_locals: bool,
}

/// The idle coroutines of a pool. Every stack that was carved is in use, or in a P's list, or counted by
/// `Pool::idle`. Under this lock no stack becomes cold, or is cold no more.
struct Spare {
    list: CoroList,
    /// Lists of `BATCH` coroutines each.
    batches: Vec<CoroList>,
    /// The fewest warm coroutines since the last `find_surplus`: that many were not needed.
    fewest: usize,
    /// How many warm coroutines are to become cold.
    surplus: usize,
    /// How many coroutines are becoming cold now, outside of the lock.
    cooling: usize,
    /// A cold stack was needed since the last `take_was_cold_needed`.
    was_cold_needed: bool,
}

impl Spare {
    const fn new() -> Self {
        Spare {
            list: CoroList::new(),
            batches: Vec::new(),
            fewest: 0,
            surplus: 0,
            cooling: 0,
            was_cold_needed: false,
        }
    }

    /// Returns how many coroutines lie here with their memory.
    fn warm(&self) -> usize {
        self.list.len() + self.batches.len() * BATCH
    }

    fn pop(&mut self) -> Option<*mut Coro> {
        if self.list.len() == 0
            && let Some(batch) = self.batches.pop()
        {
            self.list = batch;
        }
        let coro = self.list.pop();
        self.fewest = self.fewest.min(self.warm());
        coro
    }

    /// Moves a batch to a P that has no coroutine.
    fn refill(&mut self, local: &CorosOfP) {
        match self.batches.pop() {
            Some(batch) => local.first.swap(&batch),
            None => self.list.move_to(&local.first, BATCH),
        }
        local.count();
        self.fewest = self.fewest.min(self.warm());
    }

    /// Takes the second list of a P.
    fn take_second(&mut self, local: &CorosOfP) {
        if self.batches.try_reserve(1).is_err() {
            // There is no memory for its place.
            local.second.move_to(&self.list, BATCH);
        } else if local.second.len() > 0 {
            debug_assert_eq!(local.second.len(), BATCH, "the pool counts its batches only");
            self.batches.push(local.second.take());
        }
        local.count();
    }

    /// Takes all coroutines of a P.
    fn take_all(&mut self, local: &CorosOfP) {
        local.first.move_to(&self.list, BATCH);
        self.take_second(local);
    }

    /// Sets `surplus` to the coroutines that were not needed since the last call, beyond `warm`; returns
    /// `true` if there are any.
    fn find_surplus(&mut self, warm: usize) -> bool {
        self.surplus = self.fewest.saturating_sub(warm);
        self.fewest = self.warm();
        self.surplus > 0
    }

    /// Takes surplus coroutines, some at a time, and counts them as `cooling`.
    fn take_surplus(&mut self, warm: usize) -> CoroList {
        let surplus = CoroList::new();
        let surplus_now = self.surplus.min(self.warm().saturating_sub(warm));
        for _ in 0..surplus_now.min(Cooled::MOST) {
            self.pop().into_iter().for_each(|coro| surplus.push(coro));
        }
        self.surplus = surplus_now - surplus.len();
        self.cooling += surplus.len();
        surplus
    }
}

impl Pool {
    fn new(stack_bytes: usize, class: u32, warm: usize, owns_locals: bool) -> io::Result<Pool> {
        let stacks = Slabs::new(coro::with_header(stack_bytes, owns_locals)?)?;
        Ok(Pool { spare: Mutex::new(Spare::new()), stacks, class, warm, owns_locals })
    }

    /// Takes an idle coroutine: a warm one if there is any, else a cold one.
    fn take(&self) -> Option<*mut Coro> {
        let mut spare = self.spare.lock();
        if let Some(coro) = spare.pop() {
            return Some(coro);
        }
        let cold = self.stacks.pop_cold()?;
        spare.was_cold_needed = true;
        drop(spare);
        Some(Coro::new(self.stacks.use_again(cold)?, self.class, self.owns_locals))
    }

    /// Makes a coroutine on a new stack.
    fn carve(&self) -> io::Result<*mut Coro> {
        Ok(Coro::new(self.stacks.carve()?, self.class, self.owns_locals))
    }

    fn give(&self, coro: *mut Coro) {
        self.spare.lock().list.push(coro);
    }

    /// Gives the memory of some surplus stacks back to the system, outside of the lock. Their coroutines end.
    /// The caller passes the result to `keep_cold`. Returns `None` if no idle coroutine is surplus.
    fn cool_some(&self) -> Option<Cooled> {
        let surplus = self.spare.lock().take_surplus(self.warm);
        let len = surplus.len();
        if len == 0 {
            return None;
        }
        // SAFETY: `take_surplus` took the coroutine out of the list, so this thread alone owns it and no G
        // runs on it.
        let cooled = self.stacks.cool(|| surplus.pop().map(|coro| unsafe { Coro::dissolve(coro) }));
        debug_assert_eq!(cooled.len(), len, "stacks are lost");
        Some(cooled)
    }

    /// Gives the page tables of some cold stacks back to the system, outside of the lock, or looks for some.
    /// The caller passes the result to `keep_cold`. Returns `None` if there are none.
    fn strip_some(&self) -> Option<Cooled> {
        let mut spare = self.spare.lock();
        let window = self.stacks.take_window()?;
        spare.cooling += window.stacks.len();
        drop(spare);
        self.stacks.release_tables(&window);
        Some(window.stacks)
    }

    fn keep_cold(&self, cooled: Cooled) {
        let mut spare = self.spare.lock();
        debug_assert!(spare.cooling >= cooled.len(), "more stacks became cold than were taken");
        spare.cooling -= cooled.len();
        self.stacks.keep_cold(&cooled);
    }

    /// Returns how many coroutines lie here, with and without their memory.
    fn idle(&self, spare: &Spare) -> usize {
        spare.warm() + spare.cooling + self.stacks.cold()
    }

    /// Returns `true` if a stack of this pool is in use, or is becoming cold outside of the lock.
    fn is_used(&self) -> bool {
        let spare = self.spare.lock();
        spare.cooling > 0 || self.idle(&spare) < self.stacks.carved()
    }
}

/// The Gs that wait for a stack.
impl WaitLine for GList {
    type Waiter = GRef;

    fn push(&mut self, g: GRef) {
        GList::push(self, g);
    }

    fn pop(&mut self) -> Option<GRef> {
        GList::pop(self)
    }

    fn len(&self) -> usize {
        GList::len(self)
    }
}

/// All coroutines of a runtime that lie in no P's list, and the memory of all its stacks.
pub(crate) struct Coros {
    /// On a cache line of its own, because every spawn and every end of a G reads it.
    pub(crate) shortage: CachePadded<Shortage<GList>>,
    own: Pool,
    /// The pools of other sizes, by class.
    odd: Mutex<Odd>,
}

type Odd = HashMap<u32, Arc<Pool>>;

/// Returns the class of stacks of that size: the size in KiB, rounded up to a multiple of a quarter of a
/// power of two. So sizes are few, and a stack serves callers that ask for nearly as much. The rounded-up
/// part costs address space only.
fn class_of(stack_bytes: u32) -> u32 {
    let kib = stack_bytes.div_ceil(1024).max(LEAST_CLASS);
    kib.next_multiple_of(1 << ((kib - 1).ilog2() - 2))
}

const LEAST_CLASS: u32 = 16;

fn odd_one(odd: &mut Odd, class: u32, owns_locals: bool) -> io::Result<*mut Coro> {
    let pool = match odd.entry(class) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => {
            let bytes = (class as usize) << 10;
            let warm = (WARM_ODD_BYTES / bytes).clamp(1, 2 * BATCH);
            entry.insert(Arc::new(Pool::new(bytes, class, warm, owns_locals)?))
        }
    };
    pool.take().map_or_else(|| pool.carve(), Ok)
}

/// Drops the pools of which no stack is in use; returns `true` if there were any.
fn drop_unused(odd: &mut Odd) -> bool {
    let before = odd.len();
    odd.retain(|_, pool| {
        let used = pool.is_used();
        while !used && let Some(coro) = pool.spare.lock().pop() {
            // SAFETY: the list alone owned the coroutine, and no G runs on it. The slab owns the memory of
            // its stack.
            let _stack = unsafe { Coro::dissolve(coro) };
        }
        used
    });
    odd.len() < before
}

impl Coros {
    /// Makes the pools with a first stack, so that a G that waits for a stack always waits for the end of
    /// another G.
    ///
    /// # Errors
    /// Fails if a stack cannot have that size, or there is no room for the first one.
    pub(crate) fn new(stack_bytes: usize, owns_locals: bool) -> io::Result<Self> {
        let coros = Coros {
            shortage: CachePadded::new(Shortage::new()),
            own: Pool::new(stack_bytes, 0, WARM, owns_locals)?,
            odd: Mutex::new(HashMap::new()),
        };
        coros.give(None, coros.carve()?);
        Ok(coros)
    }

    /// Takes a coroutine with a stack of the runtime's default size: a warm one if there is any.
    #[inline]
    pub(crate) fn take(&self, local: &CorosOfP) -> io::Result<*mut Coro> {
        match local.pop() {
            Some(coro) => Ok(coro),
            None => self.take_slow(local),
        }
    }

    #[cold]
    fn take_slow(&self, local: &CorosOfP) -> io::Result<*mut Coro> {
        self.take_idle(Some(local)).map_or_else(|| self.carve(), Ok)
    }

    /// Takes an idle coroutine: from `local`, which is refilled if it is empty, else from the common pool.
    /// *Runs on: any thread; `local` is the list of its P, if it has one.*
    pub(crate) fn take_idle(&self, local: Option<&CorosOfP>) -> Option<*mut Coro> {
        if let Some(local) = local {
            if local.len() == 0 {
                self.own.spare.lock().refill(local);
            }
            if let Some(coro) = local.pop() {
                return Some(coro);
            }
        }
        self.own.take()
    }

    /// Makes a coroutine on a new stack. If there is no room, first drops the pools of other sizes that are
    /// not in use.
    pub(crate) fn carve(&self) -> io::Result<*mut Coro> {
        let mut carved = self.own.carve();
        if carved.is_err() && drop_unused(&mut self.odd.lock()) {
            carved = self.own.carve();
        }
        self.shortage.note(carved.is_err() || !self.own.stacks.has_more());
        carved
    }

    /// Takes a coroutine with a stack of another size, which is rounded up (`class_of`).
    pub(crate) fn take_sized(&self, stack_bytes: u32) -> io::Result<*mut Coro> {
        checked_stack_bytes(stack_bytes as usize)?;
        let (mut odd, class) = (self.odd.lock(), class_of(stack_bytes));
        match odd_one(&mut odd, class, self.own.owns_locals) {
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory && drop_unused(&mut odd) => {
                let again = odd_one(&mut odd, class, self.own.owns_locals);
                if again.is_err() {
                    // A mapping without a guard goes back. If it were one too many, the kernel would refuse
                    // `malloc` its next page.
                    drop_unused(&mut odd);
                }
                again
            }
            done => done,
        }
    }

    /// Gives back a coroutine on which no G runs. `local` is the list of this thread's P, if it has one.
    #[inline]
    pub(crate) fn give(&self, local: Option<&CorosOfP>, coro: *mut Coro) {
        // SAFETY: the caller owns the coroutine until a list has it.
        let class = unsafe { (*coro).class };
        match local {
            _ if class != 0 => self.give_odd(class, coro),
            None => self.own.give(coro),
            Some(local) => {
                if local.first.len() == BATCH {
                    self.make_room(local);
                }
                local.push(coro);
            }
        }
    }

    /// Makes room for another batch in the lists of a P.
    #[cold]
    fn make_room(&self, local: &CorosOfP) {
        if local.second.len() > 0 {
            self.own.spare.lock().take_second(local);
        }
        local.second.swap(&local.first);
    }

    /// Moves all coroutines of a P into the common pool.
    pub(crate) fn take_all(&self, local: &CorosOfP) {
        self.own.spare.lock().take_all(local);
    }

    #[cold]
    fn give_odd(&self, class: u32, coro: *mut Coro) {
        let odd = self.odd.lock();
        let pool = odd.get(&class);
        debug_assert!(pool.is_some(), "a pool stays while one of its stacks is in use");
        if let Some(pool) = pool {
            pool.give(coro);
        }
    }

    /// Returns how many coroutines of the default size lie idle. `at_hand` returns how many of them lie in
    /// the lists of Ps.
    pub(crate) fn idle(&self, at_hand: impl FnOnce() -> usize) -> usize {
        // Under the lock no coroutine moves between these lists and the common one.
        let spare = self.own.spare.lock();
        self.own.idle(&spare) + at_hand()
    }

    /// Returns `true` if more coroutines lie idle than a pool keeps warm.
    pub(crate) fn has_surplus(&self) -> bool {
        let has_surplus = |pool: &Pool| pool.spare.lock().warm() > pool.warm;
        has_surplus(&self.own) || self.odd.lock().values().any(|pool| has_surplus(pool))
    }

    /// Decides how many idle coroutines `cool_some` will take: all that were not needed since the last call,
    /// except for the warm ones. Returns `true` if there are any. *Runs on: sysmon, about once a second.*
    pub(crate) fn find_surplus(&self) -> bool {
        let mut any = self.own.spare.lock().find_surplus(WARM);
        for pool in self.odd.lock().values() {
            any |= pool.spare.lock().find_surplus(pool.warm);
        }
        any
    }

    /// Gives the memory of some surplus stacks back to the system; the caller then serves the Gs that wait
    /// for a stack. Returns `false` if there is no surplus. *Runs on: sysmon.*
    pub(crate) fn cool_some(&self) -> bool {
        if let Some(cooled) = self.own.cool_some() {
            self.own.keep_cold(cooled);
            return true;
        }
        self.with_odd(|pool| pool.spare.lock().surplus > 0, Pool::cool_some)
    }

    /// Returns `true` if a cold stack was needed since the last call. *Runs on: sysmon.*
    pub(crate) fn take_was_cold_needed(&self) -> bool {
        let take = |pool: &Pool| mem::take(&mut pool.spare.lock().was_cold_needed);
        self.odd.lock().values().fold(take(&self.own), |any, pool| any | take(pool))
    }

    /// Returns `true` if cold stacks have page tables that can be given back. *Runs on: sysmon.*
    pub(crate) fn has_tables(&self) -> bool {
        self.own.stacks.has_tables() || self.odd.lock().values().any(|pool| pool.stacks.has_tables())
    }

    /// Gives the page tables of some cold stacks back to the system; the caller then serves the Gs that wait
    /// for a stack. Returns `false` if there are none. *Runs on: sysmon.*
    pub(crate) fn strip_some(&self) -> bool {
        if self.own.stacks.has_tables()
            && let Some(cooled) = self.own.strip_some()
        {
            self.own.keep_cold(cooled);
            return true;
        }
        self.with_odd(|pool| pool.stacks.has_tables(), Pool::strip_some)
    }

    /// Has `work` take stacks of a pool of another size, one for which `has_work` returns `true`, and puts
    /// them back. Returns `false` if there is no such pool.
    fn with_odd(&self, has_work: impl Fn(&Pool) -> bool, work: fn(&Pool) -> Option<Cooled>) -> bool {
        let Some(pool) = self.odd.lock().values().find(|pool| has_work(pool)).cloned() else { return false };
        let cooled = work(&pool);
        // Under the lock: if the pool has been dropped as unused, it ends here at once, with its address
        // space.
        let _odd = self.odd.lock();
        if let Some(cooled) = cooled {
            pool.keep_cold(cooled);
        }
        drop(pool);
        true
    }

    /// Returns the address space of all stacks, in bytes.
    pub(crate) fn mapped_bytes(&self) -> usize {
        let odd: usize = self.odd.lock().values().map(|pool| pool.stacks.mapped_bytes()).sum();
        self.own.stacks.mapped_bytes() + odd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no mappings with guards")]
    fn no_coroutine_is_lost_between_a_p_and_its_pool() {
        let (coros, local) = (Coros::new(64 << 10, false).unwrap(), CorosOfP::new());
        // The pool begins with one.
        let all = 3 * BATCH + 10;
        let made: Vec<_> = (1..all).map(|_| coros.carve().unwrap()).collect();
        let idle = || coros.idle(|| local.len());
        for (given, &coro) in made.iter().enumerate() {
            coros.give(Some(&local), coro);
            assert!(local.len() <= 2 * BATCH);
            assert_eq!(idle(), 1 + given + 1);
        }
        let mut taken = Vec::new();
        while let Some(coro) = coros.take_idle(Some(&local)) {
            assert!(!taken.contains(&coro), "a coroutine was given out twice");
            taken.push(coro);
            assert_eq!(idle() + taken.len(), all);
        }
        assert_eq!(taken.len(), all);
        taken.drain(..).for_each(|coro| coros.give(Some(&local), coro));
        coros.take_all(&local);
        assert_eq!((local.len(), idle()), (0, all));
    }

    /// Stacks are taken while the others become bare. Each has its guard.
    #[test]
    #[cfg(unix)]
    #[cfg_attr(miri, ignore = "Miri has no mappings with guards")]
    fn each_stack_that_was_bare_has_a_guard_again() {
        let pool = Pool::new(256 << 10, 0, 0, false).unwrap();
        let all = 500;
        let made: Vec<_> = (0..all).map(|_| pool.carve().unwrap()).collect();
        made.into_iter().for_each(|coro| pool.give(coro));
        // The first look finds that all came since the last.
        (0..2).for_each(|_| _ = pool.spare.lock().find_surplus(0));
        while let Some(cooled) = pool.cool_some() {
            pool.keep_cold(cooled);
        }
        assert_eq!(pool.stacks.cold(), all);
        let (mut taken, strips) = (Vec::new(), pool.stacks.has_tables());
        while strips && let Some(cooled) = pool.strip_some() {
            pool.keep_cold(cooled);
            taken.extend(pool.take());
            let idle = pool.idle(&pool.spare.lock());
            assert_eq!(idle + taken.len(), all);
        }
        assert!(!pool.stacks.has_tables());
        taken.extend(std::iter::from_fn(|| pool.take()));
        assert_eq!((taken.len(), pool.stacks.carved()), (all, all));
        for coro in taken {
            // SAFETY: the coroutine is the test's own, and no G runs on it.
            let stack = unsafe { Coro::dissolve(coro) };
            // SAFETY: as above.
            assert!(!strips || unsafe { crate::sys::refuses_writes(stack.limit()) });
        }
    }

    /// Two threads use stacks, while another one makes idle ones cold, and bare.
    #[test]
    #[cfg(unix)]
    #[cfg_attr(miri, ignore = "Miri has no mappings with guards")]
    fn a_stack_in_use_keeps_its_pages_and_its_guard() {
        use std::sync::atomic::AtomicBool;

        const STACKS: usize = 1000;
        const HELD: usize = 400;
        let pool = Pool::new(64 << 10, 0, 0, false).unwrap();
        let made: Vec<_> = (0..STACKS).map(|_| pool.carve().unwrap()).collect();
        made.into_iter().for_each(|coro| pool.give(coro));
        let (has_marks, over) = (pool.stacks.has_tables(), AtomicBool::new(false));
        let give_back = |coro: *mut Coro| {
            // SAFETY: the caller has taken the coroutine. No G runs on it, and its lowest page is unused.
            unsafe {
                let (lowest, _) = (*coro).stack();
                let word = ptr::with_exposed_provenance_mut::<usize>(lowest);
                assert_eq!(word.read(), lowest, "a stack in use has lost its pages");
                let is_guarded = crate::sys::refuses_writes((*coro).guard_range().start);
                assert!(is_guarded || !has_marks, "a stack in use has no guard");
            }
            pool.give(coro);
        };
        let uses = || {
            let mut held = Vec::new();
            while !over.load(Ordering::Relaxed) {
                // Others may be between two stages.
                let Some(coro) = pool.take() else { continue };
                // SAFETY: as above.
                unsafe {
                    let (lowest, _) = (*coro).stack();
                    ptr::with_exposed_provenance_mut::<usize>(lowest).write(lowest);
                }
                held.push(coro);
                if held.len() == HELD {
                    held.drain(..).for_each(give_back);
                }
            }
            held.into_iter().for_each(give_back);
        };
        std::thread::scope(|scope| {
            let users = [scope.spawn(uses), scope.spawn(uses)];
            for _ in 0..2000 {
                pool.spare.lock().find_surplus(0);
                while let Some(cooled) = pool.cool_some() {
                    pool.keep_cold(cooled);
                }
                // Some steps, so that some are bare in part.
                for _ in 0..10 {
                    if has_marks && let Some(cooled) = pool.strip_some() {
                        pool.keep_cold(cooled);
                    }
                }
            }
            over.store(true, Ordering::Relaxed);
            users.into_iter().for_each(|user| user.join().unwrap());
        });
        assert_eq!(pool.idle(&pool.spare.lock()), STACKS);
    }

    #[test]
    fn sizes_are_rounded_up_to_few_classes() {
        let classes = [(4096, 16), (16 << 10, 16), (16385, 20), (500_000, 512), (300 << 20, 320 << 10)];
        for (bytes, class) in classes {
            assert_eq!(class_of(bytes), class, "{bytes} bytes");
        }
        assert_eq!(class_of(u32::MAX), 4 << 20);
        let classes = std::iter::successors(Some(LEAST_CLASS), |class| Some(class_of((class << 10) + 1)));
        let classes: Vec<_> = classes.take_while(|&class| class < 1 << 20).collect();
        assert_eq!(classes.len(), 4 * (20 - 4), "not four classes for each power of two");
        for pair in classes.windows(2) {
            assert!(pair[0] < pair[1] && pair[1] <= pair[0] + pair[0] / 4);
            assert_eq!(class_of(pair[1] << 10), pair[1]);
        }
    }
}

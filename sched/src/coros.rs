//! Coroutines and their stacks that nobody uses: a short warm list per P, and the rest of the runtime's behind a lock.
//!
//! Last in, first out everywhere: the stack that was used last is in the cache.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::{HashMap, hash_map::Entry};
use std::io;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use crate::g::coro::{self, Coro};
use crate::g::list::GList;
use crate::p::Held;
use crate::shortage::Shortage;
use crate::stack::{Slabs, Stack, checked_stack_bytes};

/// A P keeps up to this many; then half of them go to the common list.
const LOCAL: usize = 256;
/// The common list keeps so many when it is trimmed.
const WARM: usize = 2048;
/// Stacks of another size stay warm up to so many bytes, but not more than `LOCAL` of them.
const WARM_ODD_BYTES: usize = 16 << 20;

/// The list of one P. *Runs on: the holder.*
pub(crate) struct CoroList {
    head: Cell<*mut Coro>,
    /// Written by the holder, read by anyone.
    len: AtomicUsize,
}

// SAFETY: a list goes to another thread only as a whole: with its P, or under the lock of `Coros`. Nobody runs on a
// coroutine that is in a list.
unsafe impl Send for CoroList {}

impl CoroList {
    pub(crate) const fn new() -> Self {
        CoroList { head: Cell::new(ptr::null_mut()), len: AtomicUsize::new(0) }
    }

    /// *Runs on: any thread.*
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // Relaxed: a count orders nothing.
        self.len.load(Ordering::Relaxed)
    }

    #[inline]
    fn pop(&self) -> Option<*mut Coro> {
        let coro = self.head.get();
        if coro.is_null() {
            return None;
        }
        // SAFETY: a coroutine in the list is the list's alone, and its stack stays mapped while the runtime lives.
        self.head.set(unsafe { (*coro).next });
        self.len.store(self.len() - 1, Ordering::Relaxed);
        Some(coro)
    }

    #[inline]
    fn push(&self, coro: *mut Coro) {
        // SAFETY: the caller gives the coroutine to the list.
        unsafe { (*coro).next = self.head.get() };
        self.head.set(coro);
        self.len.store(self.len() + 1, Ordering::Relaxed);
    }

    fn move_to(&self, other: &CoroList, n: usize) {
        for _ in 0..n {
            let Some(coro) = self.pop() else { return };
            other.push(coro);
        }
    }
}

/// So many stacks fit into a bundle: it lies on one page of one of them.
const BUNDLED: usize = (4096 - 64) / size_of::<Stack>();

/// Stacks whose pages went back to the system, listed on a page of another idle stack: so a list of them needs no memory
/// besides, and making stacks cold allocates nothing.
struct Bundle {
    next: *mut Bundle,
    /// The stack that the bundle itself lies on; its lower pages went back, too.
    own: Option<Stack>,
    len: usize,
    stacks: [MaybeUninit<Stack>; BUNDLED],
}

impl Bundle {
    /// An empty bundle on that stack, whose content is not needed.
    fn on(stack: Stack) -> *mut Bundle {
        const { assert!(size_of::<Bundle>() <= 4096) };
        let (place, own) = stack.reserve_top(size_of::<Bundle>());
        let place = place.cast::<Bundle>().as_ptr();
        // SAFETY: `reserve_top` kept these bytes, aligned to 16, for this bundle alone.
        unsafe {
            (&raw mut (*place).next).write(ptr::null_mut());
            (&raw mut (*place).own).write(Some(own));
            (&raw mut (*place).len).write(0);
        }
        place
    }

    fn push(&mut self, stack: Stack) {
        self.stacks[self.len].write(stack);
        self.len += 1;
    }

    fn pop(&mut self) -> Option<Stack> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: the first `len` entries are initialised (`push`); the shorter `len` gives this entry away.
        Some(unsafe { self.stacks[self.len].assume_init_read() })
    }

    fn stacks_mut(&mut self) -> &mut [Stack] {
        // SAFETY: the first `len` entries are initialised (`push`), and `MaybeUninit<Stack>` has the layout of `Stack`.
        unsafe { slice::from_raw_parts_mut(self.stacks.as_mut_ptr().cast(), self.len) }
    }
}

/// All stacks of one size that no P has at hand.
struct Pool {
    spare: Mutex<Spare>,
    stacks: Slabs,
    /// What `Coro::class` says of its coroutines.
    class: u32,
    /// So many coroutines keep their memory: a burst of that size starts on warm stacks.
    warm: usize,
}

/// What lies idle in a pool. All stacks that were carved are in use, at a P's hand, or counted by `Spare::idle`.
struct Spare {
    list: CoroList,
    /// The shortest that the list has been since `find_surplus`: so many were not needed.
    fewest: usize,
    /// So many of the list are to become cold.
    surplus: usize,
    /// So many are becoming cold just now, outside of the lock.
    cooling: usize,
    /// Those that have become cold.
    bundles: *mut Bundle,
    cold: usize,
}

// SAFETY: a bundle is reached only through the list that it is in, and that list only under the lock of its pool; no thread
// runs on the stacks in it.
unsafe impl Send for Spare {}

impl Spare {
    const fn new() -> Self {
        let (list, bundles) = (CoroList::new(), ptr::null_mut());
        Spare { list, fewest: 0, surplus: 0, cooling: 0, bundles, cold: 0 }
    }

    fn idle(&self) -> usize {
        self.list.len() + self.cooling + self.cold
    }

    fn pop(&mut self) -> Option<*mut Coro> {
        let coro = self.list.pop();
        self.fewest = self.fewest.min(self.list.len());
        coro
    }

    fn refill(&mut self, local: &CoroList) {
        self.list.move_to(local, LOCAL / 2);
        self.fewest = self.fewest.min(self.list.len());
    }

    /// True if the list has more than are needed and worth keeping.
    fn find_surplus(&mut self, warm: usize) -> bool {
        self.surplus = self.fewest.saturating_sub(warm);
        self.fewest = self.list.len();
        self.surplus > 0
    }

    /// Takes coroutines that are to become cold, as many as one bundle has room for.
    fn take_surplus(&mut self, warm: usize) -> CoroList {
        let surplus = CoroList::new();
        let surplus_now = self.surplus.min(self.list.len().saturating_sub(warm));
        self.list.move_to(&surplus, surplus_now.min(BUNDLED + 1));
        self.surplus = surplus_now - surplus.len();
        self.fewest = self.fewest.min(self.list.len());
        self.cooling += surplus.len();
        surplus
    }

    fn keep_cold(&mut self, bundle: *mut Bundle, len: usize) {
        debug_assert!(self.cooling >= len, "`take_surplus` counted them");
        self.cooling -= len;
        self.cold += len;
        // SAFETY: the caller gives the bundle to this list.
        unsafe { (*bundle).next = self.bundles };
        self.bundles = bundle;
    }

    fn pop_cold(&mut self) -> Option<Stack> {
        // SAFETY: a bundle in the list is the list's alone, and its stack stays mapped while its pool lives.
        let bundle = unsafe { self.bundles.as_mut()? };
        debug_assert!(self.cold > bundle.len, "`keep_cold` counted them, and the bundle's own stack");
        self.cold -= 1;
        bundle.pop().or_else(|| {
            self.bundles = bundle.next;
            bundle.own.take()
        })
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        // Where a stack owns its memory (Windows) that goes; elsewhere all of it goes with the slabs.
        while mem::needs_drop::<Stack>() && self.pop_cold().is_some() {}
    }
}

impl Pool {
    fn new(stack_bytes: usize, class: u32, warm: usize) -> io::Result<Pool> {
        let stacks = Slabs::new(coro::with_header(stack_bytes)?)?;
        Ok(Pool { spare: Mutex::new(Spare::new()), stacks, class, warm })
    }

    /// A coroutine that lies idle, a warm one if there is any.
    fn take(&self) -> Option<*mut Coro> {
        let mut spare = self.spare.lock();
        if let Some(coro) = spare.pop() {
            return Some(coro);
        }
        let stack = spare.pop_cold()?;
        drop(spare);
        Some(Coro::new(self.stacks.whole(stack), self.class))
    }

    /// A coroutine on a stack that was not used yet.
    fn carve(&self) -> io::Result<*mut Coro> {
        Ok(Coro::new(self.stacks.carve()?, self.class))
    }

    fn give(&self, coro: *mut Coro) {
        self.spare.lock().list.push(coro);
    }

    /// Takes the coroutines of some idle stacks off them and gives the stacks' memory back, outside of the lock. A call of
    /// this returns `None` if no idle stack is surplus.
    fn cool_some(&self) -> Option<Cooled> {
        let surplus = self.spare.lock().take_surplus(self.warm);
        let len = surplus.len();
        // SAFETY: the coroutine has just come out of a list, and runs no G there.
        let next = || surplus.pop().map(|coro| self.stacks.whole(unsafe { Coro::dissolve(coro) }));
        let bundle = Bundle::on(next()?);
        // SAFETY: no other thread knows the bundle yet.
        let cooled = unsafe { &mut *bundle };
        while let Some(stack) = next() {
            cooled.push(stack);
        }
        self.stacks.release_pages(cooled.stacks_mut());
        self.stacks.release_pages(cooled.own.as_mut_slice());
        Some(Cooled { bundle, len })
    }

    fn keep_cold(&self, cooled: Cooled) {
        self.spare.lock().keep_cold(cooled.bundle, cooled.len);
    }

    /// True if a stack of this pool is in use, or about to come back.
    fn is_used(&self) -> bool {
        let spare = self.spare.lock();
        spare.cooling > 0 || spare.idle() < self.stacks.carved()
    }
}

/// A bundle that is in no list, and how many stacks it is, its own included.
struct Cooled {
    bundle: *mut Bundle,
    len: usize,
}

/// All coroutines of a runtime that no P has at hand, and the memory of all its stacks.
pub(crate) struct Coros {
    /// On a line of its own: every spawn and every end reads it.
    pub(crate) shortage: CachePadded<Shortage<GList>>,
    own: Pool,
    /// Those of other sizes, by class.
    odd: Mutex<Odd>,
}

type Odd = HashMap<u32, Arc<Pool>>;

/// The class of such stacks: their size in KiB, rounded up to a multiple of a quarter of a power of two, so that sizes are few
/// and a stack serves a caller that asks for nearly as much. The rest of the last quarter is address space alone.
fn class_of(stack_bytes: u32) -> u32 {
    let kib = stack_bytes.div_ceil(1024).max(LEAST_CLASS);
    kib.next_multiple_of(1 << ((kib - 1).ilog2() - 2))
}

const LEAST_CLASS: u32 = 16;

fn odd_one(odd: &mut Odd, class: u32) -> io::Result<*mut Coro> {
    let pool = match odd.entry(class) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => {
            let bytes = (class as usize) << 10;
            entry.insert(Arc::new(Pool::new(bytes, class, (WARM_ODD_BYTES / bytes).clamp(1, LOCAL))?))
        }
    };
    pool.take().map_or_else(|| pool.carve(), Ok)
}

/// Gives up the stacks of each size of which none is in use; true if there were any.
fn drop_unused(odd: &mut Odd) -> bool {
    let before = odd.len();
    odd.retain(|_, pool| {
        let used = pool.is_used();
        while !used && let Some(coro) = pool.spare.lock().pop() {
            // SAFETY: a coroutine in the list is the list's alone, and runs no G. Its stack's room is the slab's.
            let _stack = unsafe { Coro::dissolve(coro) };
        }
        used
    });
    odd.len() < before
}

impl Coros {
    /// With a first stack, so that there is always one: whoever waits for a stack then waits for somebody's end.
    ///
    /// # Errors
    /// Such a stack cannot be, or there is no room for one.
    pub(crate) fn new(stack_bytes: usize) -> io::Result<Self> {
        let coros = Coros {
            shortage: CachePadded::new(Shortage::new()),
            own: Pool::new(stack_bytes, 0, WARM)?,
            odd: Mutex::new(HashMap::new()),
        };
        coros.give(None, coros.carve()?);
        Ok(coros)
    }

    /// A coroutine of the runtime's own stack size: a warm one if there is any.
    #[inline]
    pub(crate) fn take(&self, held: Held<'_>) -> io::Result<*mut Coro> {
        match held.own().coros.pop() {
            Some(coro) => Ok(coro),
            None => self.take_slow(held),
        }
    }

    #[cold]
    fn take_slow(&self, held: Held<'_>) -> io::Result<*mut Coro> {
        self.take_idle(Some(held)).map_or_else(|| self.carve(), Ok)
    }

    /// One that is not in use, the warmest that can be had. *Runs on: any thread; with its P, if it has one.*
    pub(crate) fn take_idle(&self, held: Option<Held<'_>>) -> Option<*mut Coro> {
        if let Some(held) = held {
            let local = &held.own().coros;
            if local.len() == 0 {
                self.own.spare.lock().refill(local);
            }
            if let Some(coro) = local.pop() {
                return Some(coro);
            }
        }
        self.own.take()
    }

    /// A new one. Where there is no room, the room of other sizes that nobody uses is given up for it.
    pub(crate) fn carve(&self) -> io::Result<*mut Coro> {
        let mut carved = self.own.carve();
        if carved.is_err() && drop_unused(&mut self.odd.lock()) {
            carved = self.own.carve();
        }
        self.shortage.note(carved.is_err() || !self.own.stacks.has_more());
        carved
    }

    /// A coroutine of another size, which is rounded up (`class_of`).
    pub(crate) fn take_odd(&self, stack_bytes: u32) -> io::Result<*mut Coro> {
        checked_stack_bytes(stack_bytes as usize)?;
        let (mut odd, class) = (self.odd.lock(), class_of(stack_bytes));
        match odd_one(&mut odd, class) {
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory && drop_unused(&mut odd) => {
                odd_one(&mut odd, class)
            }
            done => done,
        }
    }

    /// Gives a coroutine back that nobody runs on. `held`: the P of this thread, if it has one.
    #[inline]
    pub(crate) fn give(&self, held: Option<Held<'_>>, coro: *mut Coro) {
        // SAFETY: the coroutine is the caller's until it is in a list.
        let class = unsafe { (*coro).class };
        match held {
            _ if class != 0 => self.give_odd(class, coro),
            None => self.own.give(coro),
            Some(held) => {
                let local = &held.own().coros;
                local.push(coro);
                if local.len() > LOCAL {
                    local.move_to(&self.own.spare.lock().list, LOCAL / 2);
                }
            }
        }
    }

    /// All that a P has at hand becomes the common list's.
    pub(crate) fn take_all(&self, held: Held<'_>) {
        held.own().coros.move_to(&self.own.spare.lock().list, usize::MAX);
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

    /// How many of the runtime's own size lie idle, those that Ps have at hand included.
    pub(crate) fn idle(&self, at_hand: impl FnOnce() -> usize) -> usize {
        // Under the lock: none is on its way from here to there.
        let spare = self.own.spare.lock();
        spare.idle() + at_hand()
    }

    /// True if more coroutines lie idle than are worth keeping warm.
    pub(crate) fn has_surplus(&self) -> bool {
        let has_surplus = |pool: &Pool| pool.spare.lock().list.len() > pool.warm;
        has_surplus(&self.own) || self.odd.lock().values().any(|pool| has_surplus(pool))
    }

    /// Decides how many idle coroutines `cool_some` is to take: those that were not needed since the last call, but for some
    /// that stay warm. A call of this returns `true` if there are any. *Runs on: sysmon, about once a second.*
    pub(crate) fn find_surplus(&self) -> bool {
        let mut any = self.own.spare.lock().find_surplus(WARM);
        for pool in self.odd.lock().values() {
            any |= pool.spare.lock().find_surplus(pool.warm);
        }
        any
    }

    /// Gives the memory of some surplus stacks back to the system; the caller then serves those who wait for a stack. A call
    /// of this returns `false` if there are none. *Runs on: sysmon.*
    pub(crate) fn cool_some(&self) -> bool {
        if let Some(cooled) = self.own.cool_some() {
            self.own.keep_cold(cooled);
            return true;
        }
        let has_surplus = |pool: &&Arc<Pool>| pool.spare.lock().surplus > 0;
        let Some(pool) = self.odd.lock().values().find(has_surplus).cloned() else { return false };
        let cooled = pool.cool_some();
        // Under the lock: a pool that is dropped as unused then goes at once, with its address space.
        let _odd = self.odd.lock();
        if let Some(cooled) = cooled {
            pool.keep_cold(cooled);
        }
        drop(pool);
        true
    }

    /// Address space taken for stacks, in bytes.
    pub(crate) fn mapped_bytes(&self) -> usize {
        let odd: usize = self.odd.lock().values().map(|pool| pool.stacks.mapped_bytes()).sum();
        self.own.stacks.mapped_bytes() + odd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_to_few_classes() {
        let classes = [(4096, 16), (16 << 10, 16), (16385, 20), (500_000, 512), (300 << 20, 320 << 10)];
        for (bytes, class) in classes {
            assert_eq!(class_of(bytes), class, "{bytes} bytes");
        }
        assert_eq!(class_of(u32::MAX), 4 << 20);
        let classes = std::iter::successors(Some(LEAST_CLASS), |class| Some(class_of((class << 10) + 1)));
        let classes: Vec<_> = classes.take_while(|&class| class < 1 << 20).collect();
        assert_eq!(classes.len(), 4 * (20 - 4), "four for each power of two");
        for pair in classes.windows(2) {
            assert!(pair[0] < pair[1] && pair[1] <= pair[0] + pair[0] / 4);
            assert_eq!(class_of(pair[1] << 10), pair[1]);
        }
    }
}

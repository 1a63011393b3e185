//! Coroutines and their stacks that nobody uses: a short warm list per P, and the rest of the runtime's behind a lock.
//!
//! Last in, first out everywhere: the stack that was used last is in the cache.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::{HashMap, hash_map::Entry};
use std::io;
use std::ptr;

use parking_lot::Mutex;

use crate::g::coro::{self, Coro};
use crate::p::Held;
use crate::stack::{Slabs, Stack};

/// A P keeps up to this many; then half of them go to the common list.
const LOCAL: usize = 256;
/// The common list keeps so many when it is trimmed: a burst of that size starts on warm stacks.
const WARM: usize = 2048;

/// The list of one P. *Runs on: the holder.*
pub(crate) struct CoroList {
    head: Cell<*mut Coro>,
    len: Cell<usize>,
}

// SAFETY: a list goes to another thread only as a whole: with its P, or under the lock of `Coros`. Nobody runs on a
// coroutine that is in a list.
unsafe impl Send for CoroList {}

impl CoroList {
    pub(crate) const fn new() -> Self {
        CoroList { head: Cell::new(ptr::null_mut()), len: Cell::new(0) }
    }

    #[inline]
    fn pop(&self) -> Option<*mut Coro> {
        let coro = self.head.get();
        if coro.is_null() {
            return None;
        }
        // SAFETY: a coroutine in the list is the list's alone, and its stack stays mapped while the runtime lives.
        self.head.set(unsafe { (*coro).next });
        self.len.set(self.len.get() - 1);
        Some(coro)
    }

    #[inline]
    fn push(&self, coro: *mut Coro) {
        // SAFETY: the caller gives the coroutine to the list.
        unsafe { (*coro).next = self.head.get() };
        self.head.set(coro);
        self.len.set(self.len.get() + 1);
    }

    fn move_to(&self, other: &CoroList, n: usize) {
        for _ in 0..n {
            let Some(coro) = self.pop() else { return };
            other.push(coro);
        }
    }
}

impl Spare {
    fn refill(&mut self, local: &CoroList) {
        self.list.move_to(local, LOCAL / 2);
        self.fewest = self.fewest.min(self.list.len.get());
    }

    fn take_surplus(&mut self) -> CoroList {
        let surplus = CoroList::new();
        self.list.move_to(&surplus, self.fewest.saturating_sub(WARM));
        self.fewest = self.list.len.get();
        surplus
    }
}

/// All coroutines of a runtime that no P has at hand, and the memory of all its stacks.
pub(crate) struct Coros {
    stacks: Slabs,
    spare: Mutex<Spare>,
    /// Stacks whose memory went back to the system.
    cold: Mutex<Vec<Stack>>,
    /// Those of other sizes, by size.
    odd: Mutex<HashMap<u32, (Slabs, Vec<OddCoro>)>>,
}

struct Spare {
    list: CoroList,
    /// The shortest that the list has been since the last trim: so many were not needed.
    fewest: usize,
}

struct OddCoro(*mut Coro);
// SAFETY: as for `CoroList`.
unsafe impl Send for OddCoro {}

impl Coros {
    pub(crate) fn new(stack_bytes: usize) -> io::Result<Self> {
        let stacks = Slabs::new(coro::with_header(stack_bytes)?)?;
        Ok(Coros {
            stacks,
            spare: Mutex::new(Spare { list: CoroList::new(), fewest: 0 }),
            cold: Mutex::new(Vec::new()),
            odd: Mutex::new(HashMap::new()),
        })
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
        let local = &held.own().coros;
        self.spare.lock().refill(local);
        if let Some(coro) = local.pop() {
            return Ok(coro);
        }
        let cold = self.cold.lock().pop();
        Ok(Coro::new(cold.map_or_else(|| self.stacks.carve(), Ok)?, 0))
    }

    /// A coroutine of another size.
    pub(crate) fn take_odd(&self, stack_bytes: u32) -> io::Result<*mut Coro> {
        let mut odd = self.odd.lock();
        let (stacks, spare) = match odd.entry(stack_bytes) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                entry.insert((Slabs::new(coro::with_header(stack_bytes as usize)?)?, Vec::new()))
            }
        };
        match spare.pop() {
            Some(OddCoro(coro)) => Ok(coro),
            None => Ok(Coro::new(stacks.carve()?, stack_bytes)),
        }
    }

    /// Gives a coroutine back that nobody runs on. `held`: the P of this thread, if it has one.
    #[inline]
    pub(crate) fn give(&self, held: Option<Held<'_>>, coro: *mut Coro) {
        // SAFETY: the coroutine is the caller's until it is in a list.
        let class = unsafe { (*coro).class };
        match held {
            _ if class != 0 => self.give_odd(class, coro),
            None => self.spare.lock().list.push(coro),
            Some(held) => {
                let local = &held.own().coros;
                local.push(coro);
                if local.len.get() > LOCAL {
                    local.move_to(&self.spare.lock().list, LOCAL / 2);
                }
            }
        }
    }

    /// All that a P has at hand becomes the common list's.
    pub(crate) fn take_all(&self, held: Held<'_>) {
        held.own().coros.move_to(&self.spare.lock().list, usize::MAX);
    }

    #[cold]
    fn give_odd(&self, class: u32, coro: *mut Coro) {
        if let Some((_, spare)) = self.odd.lock().get_mut(&class) {
            spare.push(OddCoro(coro));
        }
    }

    /// True if more coroutines lie idle than are worth keeping warm.
    pub(crate) fn has_surplus(&self) -> bool {
        self.spare.lock().list.len.get() > WARM
    }

    /// Gives back the memory of coroutines that nobody has needed since the last call, but for some that stay warm.
    /// *Runs on: sysmon, about once a second.*
    pub(crate) fn trim(&self) {
        let surplus = self.spare.lock().take_surplus();
        let mut stacks = Vec::with_capacity(surplus.len.get());
        while let Some(coro) = surplus.pop() {
            // SAFETY: it has just come out of a list, and runs no G there.
            stacks.push(self.stacks.whole(unsafe { Coro::dissolve(coro) }));
        }
        self.stacks.release_pages(&mut stacks);
        self.cold.lock().append(&mut stacks);
    }

    /// Address space taken for stacks, in bytes.
    pub(crate) fn mapped_bytes(&self) -> usize {
        let odd: usize = self.odd.lock().values().map(|(stacks, _)| stacks.mapped_bytes()).sum();
        self.stacks.mapped_bytes() + odd
    }
}

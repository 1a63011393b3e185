//! Coroutines and their stacks that nobody uses: a short warm list per P, and the rest of the runtime's behind a lock.
//!
//! Last in, first out everywhere: the stack that was used last is in the cache.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::ptr;

use parking_lot::Mutex;

use crate::g::coro::{self, Coro};
use crate::p::Held;
use crate::stack::Slabs;

/// A P keeps up to this many; then half of them go to the common list.
const LOCAL: usize = 256;

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

/// All coroutines of a runtime that no P has at hand, and the memory of all its stacks.
pub(crate) struct Coros {
    stacks: Slabs,
    spare: Mutex<CoroList>,
    /// Those of other sizes, by size.
    odd: Mutex<HashMap<u32, (Slabs, Vec<OddCoro>)>>,
}

struct OddCoro(*mut Coro);
// SAFETY: as for `CoroList`.
unsafe impl Send for OddCoro {}

impl Coros {
    pub(crate) fn new(stack_bytes: usize) -> io::Result<Self> {
        let stacks = Slabs::new(coro::with_header(stack_bytes)?)?;
        Ok(Coros { stacks, spare: Mutex::new(CoroList::new()), odd: Mutex::new(HashMap::new()) })
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
        self.spare.lock().move_to(local, LOCAL / 2);
        match local.pop() {
            Some(coro) => Ok(coro),
            None => Ok(Coro::new(self.stacks.carve()?, 0)),
        }
    }

    /// A coroutine of another size.
    pub(crate) fn take_odd(&self, stack_bytes: u32) -> io::Result<*mut Coro> {
        let mut odd = self.odd.lock();
        if !odd.contains_key(&stack_bytes) {
            odd.insert(stack_bytes, (Slabs::new(coro::with_header(stack_bytes as usize)?)?, Vec::new()));
        }
        let (stacks, spare) = odd.get_mut(&stack_bytes).expect("it is there now");
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
            None => self.spare.lock().push(coro),
            Some(held) => {
                let local = &held.own().coros;
                local.push(coro);
                if local.len.get() > LOCAL {
                    local.move_to(&self.spare.lock(), LOCAL / 2);
                }
            }
        }
    }

    #[cold]
    fn give_odd(&self, class: u32, coro: *mut Coro) {
        if let Some((_, spare)) = self.odd.lock().get_mut(&class) {
            spare.push(OddCoro(coro));
        }
    }

    /// Address space taken for stacks, in bytes.
    pub(crate) fn mapped_bytes(&self) -> usize {
        let odd: usize = self.odd.lock().values().map(|(stacks, _)| stacks.mapped_bytes()).sum();
        self.stacks.mapped_bytes() + odd
    }
}

//! Coroutines and their stacks that nobody uses: a short warm list per P, and the rest of the runtime's behind a lock.
//!
//! Last in, first out everywhere: the stack that was used last is in the cache.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::{HashMap, hash_map::Entry};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use crate::g::coro::{self, Coro};
use crate::g::list::GList;
use crate::p::Held;
use crate::shortage::Shortage;
use crate::stack::{Slabs, Stack};

/// A P keeps up to this many; then half of them go to the common list.
const LOCAL: usize = 256;
/// The common list keeps so many when it is trimmed: a burst of that size starts on warm stacks.
const WARM: usize = 2048;

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

impl Spare {
    fn pop(&mut self) -> Option<*mut Coro> {
        let coro = self.list.pop();
        self.fewest = self.fewest.min(self.list.len());
        coro
    }

    fn refill(&mut self, local: &CoroList) {
        self.list.move_to(local, LOCAL / 2);
        self.fewest = self.fewest.min(self.list.len());
    }

    fn take_surplus(&mut self) -> CoroList {
        let surplus = CoroList::new();
        self.list.move_to(&surplus, self.fewest.saturating_sub(WARM));
        self.fewest = self.list.len();
        surplus
    }
}

/// All coroutines of a runtime that no P has at hand, and the memory of all its stacks.
pub(crate) struct Coros {
    stacks: Slabs,
    /// On a line of its own: every spawn and every end reads it.
    pub(crate) shortage: CachePadded<Shortage<GList>>,
    spare: Mutex<Spare>,
    /// Stacks whose memory went back to the system.
    cold: Mutex<Vec<Stack>>,
    /// Those of other sizes, by size.
    odd: Mutex<Odd>,
}

type Odd = HashMap<u32, (Slabs, Vec<OddCoro>)>;

fn odd_one(odd: &mut Odd, stack_bytes: u32) -> io::Result<*mut Coro> {
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

/// Gives up the stacks of each size of which none is in use; true if there were any.
fn drop_unused(odd: &mut Odd) -> bool {
    let before = odd.len();
    odd.retain(|_, (stacks, spare)| {
        let used = spare.is_empty() || spare.len() < stacks.carved();
        if !used {
            for OddCoro(coro) in spare.drain(..) {
                // SAFETY: a coroutine in the list is the list's alone, and runs no G. Its stack's room is the slab's.
                let _stack = unsafe { Coro::dissolve(coro) };
            }
        }
        used
    });
    odd.len() < before
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
    /// With a first stack, so that there is always one: whoever waits for a stack then waits for somebody's end.
    ///
    /// # Errors
    /// Such a stack cannot be, or there is no room for one.
    pub(crate) fn new(stack_bytes: usize) -> io::Result<Self> {
        let stacks = Slabs::new(coro::with_header(stack_bytes)?)?;
        let coros = Coros {
            stacks,
            shortage: CachePadded::new(Shortage::new()),
            spare: Mutex::new(Spare { list: CoroList::new(), fewest: 0 }),
            cold: Mutex::new(Vec::new()),
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
        let warm = match held {
            None => self.spare.lock().pop(),
            Some(held) => {
                let local = &held.own().coros;
                local.pop().or_else(|| {
                    self.spare.lock().refill(local);
                    local.pop()
                })
            }
        };
        warm.or_else(|| self.cold.lock().pop().map(|stack| Coro::new(stack, 0)))
    }

    /// A new one. Where there is no room, the room of other sizes that nobody uses is given up for it.
    pub(crate) fn carve(&self) -> io::Result<*mut Coro> {
        let mut carved = self.stacks.carve();
        if carved.is_err() && drop_unused(&mut self.odd.lock()) {
            carved = self.stacks.carve();
        }
        self.shortage.note(carved.is_err() || !self.stacks.has_more());
        Ok(Coro::new(carved?, 0))
    }

    /// A coroutine of another size.
    pub(crate) fn take_odd(&self, stack_bytes: u32) -> io::Result<*mut Coro> {
        let mut odd = self.odd.lock();
        match odd_one(&mut odd, stack_bytes) {
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory && drop_unused(&mut odd) => {
                odd_one(&mut odd, stack_bytes)
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
            None => self.spare.lock().list.push(coro),
            Some(held) => {
                let local = &held.own().coros;
                local.push(coro);
                if local.len() > LOCAL {
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

    /// How many lie idle, those that Ps have at hand included.
    pub(crate) fn idle(&self, at_hand: impl FnOnce() -> usize) -> usize {
        // Under the lock: none is on its way from here to there.
        let spare = self.spare.lock();
        spare.list.len() + at_hand() + self.cold.lock().len()
    }

    /// True if more coroutines lie idle than are worth keeping warm.
    pub(crate) fn has_surplus(&self) -> bool {
        self.spare.lock().list.len() > WARM
    }

    /// Gives back the memory of coroutines that nobody has needed since the last call, but for some that stay warm.
    /// *Runs on: sysmon, about once a second.*
    pub(crate) fn trim(&self) {
        let surplus = self.spare.lock().take_surplus();
        let mut stacks = Vec::with_capacity(surplus.len());
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

//! Windows: the page tables of stacks that stay idle go back to the system a window of addresses at a time.

#![allow(unsafe_code)]

use std::iter;
use std::ops::Range;

use super::super::guard::guard_bytes;
use super::cold::Numbers;
use super::{Cooled, Slab, Slabs};
use crate::sys;

/// How many addresses a page table maps, where pages have 4 KiB.
const TABLE_BYTES: usize = 2 << 20;
/// How many windows `take_window` looks at, at most. So it takes some microseconds.
const WINDOWS_AT_ONCE: usize = 256;
/// How many stacks lose their guards in one call, which takes about 1.6 us for each. Probably the kernel lets
/// no other thread run on this processor in that time: with calls of 250 stacks, timers were late.
const PORTION: usize = 16;

/// Addresses with page tables of their own, and the stacks that lie there, also in part.
pub(crate) struct Window {
    addresses: Range<usize>,
    pub(crate) stacks: Cooled,
}

impl Slabs {
    /// Returns `true` if cold stacks may have page tables that `release_tables` gives back here.
    pub(crate) fn has_tables(&self) -> bool {
        self.guards.are_marks()
            && sys::frees_page_tables()
            && self.land.lock().slabs.iter().any(|slab| slab.windows_left > 0)
    }

    /// Takes the stacks in a window of addresses, if they are cold, and have guards there. Nothing else lies
    /// in the page tables of the window. Looks from the highest window down, while `pop_cold` takes the
    /// lowest stacks. Returns a window without stacks if it has found none so far, and `None` if none is
    /// left. The caller passes the window to `release_tables`.
    pub(crate) fn take_window(&self) -> Option<Window> {
        let mut land = self.land.lock();
        let slab = land.slabs.iter_mut().rev().find(|slab| slab.windows_left > 0)?;
        let window = slab.take_window(self.stride);
        land.cold -= window.stacks.len();
        Some(window)
    }

    /// Takes the guards from the stacks of a window, and gives its page tables back to the system. The
    /// caller passes the window's stacks to `keep_cold`.
    pub(crate) fn release_tables(&self, window: &Window) {
        if window.stacks.len() == 0 {
            return;
        }
        let Range { start, end } = window.addresses;
        for start in (start..end).step_by(PORTION * self.stride) {
            let portion = start..end.min(start + PORTION * self.stride);
            // A failure is harmless: guards stay, with their page tables.
            // SAFETY: `take_window` gave all stacks in the window to this caller alone, and noted that these
            // guards go. So `use_again` installs others.
            let _ = unsafe { self.guards.remove(portion) };
        }
        // A page table goes if one call covers all that it maps.
        // SAFETY: as above.
        let _ = unsafe { sys::discard(start, end - start) };
    }
}

impl Slab {
    /// Returns the addresses of a window: whole page tables, as many as one stack needs. The first and the
    /// last window end with the slab.
    fn window(&self, number: usize, stride: usize) -> Range<usize> {
        let (first, bytes) = (self.start & !(TABLE_BYTES - 1), stride.next_multiple_of(TABLE_BYTES));
        let start = first + number * bytes;
        start.max(self.start)..(start + bytes).min(self.start + self.bytes)
    }

    /// Returns the number of the window in which an address lies.
    pub(super) fn window_of(&self, address: usize, stride: usize) -> usize {
        (address - (self.start & !(TABLE_BYTES - 1))) / stride.next_multiple_of(TABLE_BYTES)
    }

    /// Takes the stacks of the next window that has page tables to give back. Returns a window without stacks
    /// if there is none among the next.
    fn take_window(&mut self, stride: usize) -> Window {
        for _ in 0..WINDOWS_AT_ONCE.min(self.windows_left) {
            self.windows_left -= 1;
            let addresses = self.window(self.windows_left, stride);
            let stacks = self.stacks_in(&addresses, stride);
            let below = (addresses.start - self.start).checked_sub(guard_bytes());
            let guarded = below.map_or(0, |below| below / stride + 1)..stacks.end;
            debug_assert!(stacks.len() <= Cooled::MOST, "{} stacks in a window", stacks.len());
            if self.cold.take_all(stacks.clone(), guarded) {
                let stacks = Cooled::of(stacks.map(|number| self.start + number * stride));
                return Window { addresses, stacks };
            }
        }
        Window { addresses: 0..0, stacks: Cooled::of(iter::empty()) }
    }

    /// Returns the numbers of the stacks that lie in these addresses, also in part.
    fn stacks_in(&self, addresses: &Range<usize>, stride: usize) -> Numbers {
        (addresses.start - self.start) / stride..(addresses.end - self.start).div_ceil(stride)
    }
}

#[cfg(test)]
#[cfg(any(target_os = "linux", target_os = "android"))]
mod tests {
    use std::fs;

    use super::super::super::Stack;
    use super::super::super::testing::succeeds_alone;
    use super::super::tests::{KIB, carve_many, cool_all, is_deadly, read, touch, touch_with};
    use super::*;

    /// Returns the memory of this process's page tables.
    fn table_bytes() -> usize {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmPTE:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<usize>().unwrap() * KIB
    }

    /// Returns how many page tables the stack's own addresses need, if neighbours are in use.
    fn tables_around(stack: &Stack) -> usize {
        stack.base().div_ceil(TABLE_BYTES) - stack.limit() / TABLE_BYTES
    }

    #[test]
    fn idle_neighbours_give_back_their_page_tables_and_get_new_guards() {
        let name = "idle_neighbours_give_back_their_page_tables_and_get_new_guards";
        succeeds_alone(module_path!(), name, || {
            for (size, count) in [(256 * KIB, 400), (16 * KIB, 1000), (4 * KIB, 2000), (3 << 20, 50)] {
                let slabs = Slabs::new(size).unwrap();
                let (mut stacks, before) = (Vec::with_capacity(count), table_bytes());
                carve_many(&slabs, &mut stacks, count).unwrap();
                stacks.iter().for_each(|stack| touch(stack.base() - 1));
                let full = table_bytes();
                if !slabs.guards.are_marks() || !sys::frees_page_tables() {
                    println!("page tables stay here");
                    return;
                }
                let busy = [stacks.remove(count / 10), stacks.remove(count / 5)];
                // Stacks become cold in any order.
                fastrand::Rng::with_seed(7).shuffle(&mut stacks);
                cool_all(&slabs, stacks);
                assert!(slabs.has_tables());
                while let Some(window) = slabs.take_window() {
                    slabs.release_tables(&window);
                    slabs.keep_cold(&window.stacks);
                }
                assert!(!slabs.has_tables());
                let kept: usize = busy.iter().map(tables_around).sum();
                // One at each end of a slab, and the allocator's.
                let few = 3 * slabs.land.lock().slabs.len() + kept;
                let all = (full - before) / (4 * KIB);
                let given = full.saturating_sub(table_bytes()) / (4 * KIB);
                assert!(given + few >= all, "{given} of {all} tables were given back, with {few} to stay");
                println!("stacks of {size}: {given} of {all} tables, with {few} to stay");
                // SAFETY: the stack is the test's own.
                let is_guarded = |limit| unsafe { sys::refuses_writes(limit) };
                for stack in &busy {
                    assert!(is_deadly(stack.guard_range().end - 1));
                    assert_eq!(read(stack.base() - 1), 1);
                }
                let cold: Vec<_> = iter::from_fn(|| slabs.pop_cold()).collect();
                let bare = cold.iter().filter(|stack| stack.is_bare).count();
                assert!(bare > 0 && cold.len() == count - 2);
                for stack in cold {
                    assert!(stack.is_bare || is_guarded(stack.limit));
                    assert!(is_guarded(slabs.use_again(stack).unwrap().limit()));
                }
            }
        });
    }

    /// Some stacks are in use again while others become bare.
    #[test]
    fn a_stack_that_was_bare_is_as_good_as_new() {
        let slabs = Slabs::new(64 * KIB).unwrap();
        const COUNT: usize = 300;
        let mut stacks = Vec::new();
        carve_many(&slabs, &mut stacks, COUNT).unwrap();
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..100 {
            for stack in &stacks {
                // SAFETY: the stack is the test's own.
                let is_guarded = || unsafe { sys::refuses_writes(stack.limit()) };
                assert!(!slabs.guards.are_marks() || is_guarded());
                assert_eq!((read(stack.guard_range().end), stack.usable_bytes()), (0, 64 * KIB));
                touch(stack.guard_range().end);
                touch(stack.base() - 1);
            }
            random.shuffle(&mut stacks);
            cool_all(&slabs, stacks.split_off(random.usize(..=stacks.len())));
            for _ in 0..random.usize(..10) {
                let Some(window) = slabs.take_window() else { break };
                slabs.release_tables(&window);
                slabs.keep_cold(&window.stacks);
            }
            for stack in &stacks {
                assert_eq!(read(stack.base() - 1), 1);
                // As new, for the next round.
                touch_with(stack.guard_range().end, 0);
            }
            let some = random.usize(..=slabs.cold());
            let cold = iter::from_fn(|| slabs.pop_cold()).take(some);
            stacks.extend(cold.map(|cold| slabs.use_again(cold).unwrap()));
            assert_eq!(stacks.len() + slabs.cold(), COUNT);
        }
    }
}

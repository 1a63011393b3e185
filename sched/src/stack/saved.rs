//! Where the registers of a suspended coroutine lie, and a copy of the used part of its stack. For dumps.
//!
//! corosensei keeps the saved stack pointer in a private field of a coroutine. A probe finds the place of
//! that field: a reset clears it and changes nothing else. `suspend` has pushed the registers below the
//! frames of the G:
//!
//! ```text
//!   x86_64     sp: return address, rbx, rbp         aarch64    sp: x19, x29, return address, (padding)
//! ```

#![allow(unsafe_code)]

use std::mem;
use std::ops::Range;
use std::ptr::{self, with_exposed_provenance};
use std::sync::OnceLock;

use corosensei::stack::MIN_STACK_SIZE;

use super::Slabs;
use super::coro::{Coro, Inner};
use crate::g::G;
use crate::sys::peek;
use crate::sys::preempt::Registers;

const WORD: usize = size_of::<usize>();
/// A coroutine has words alone: the ends of its stack, the saved and the first stack pointer, a function.
pub(crate) const WORDS: usize = 5;
const _: () = assert!(size_of::<Inner>() == WORDS * WORD, "this file knows another corosensei");

/// Where the saved registers lie above the saved stack pointer, in words, and the size of all of them.
pub(crate) struct Saved {
    pub(crate) pc: usize,
    pub(crate) fp: usize,
    pub(crate) len: usize,
}

#[cfg(target_arch = "x86_64")]
pub(crate) const SAVED: Saved = Saved { pc: 0, fp: 2, len: 3 };
#[cfg(target_arch = "aarch64")]
pub(crate) const SAVED: Saved = Saved { pc: 2, fp: 1, len: 4 };

/// The most bytes of a stack that are copied. The wake-up of its green thread waits for the copy, which takes
/// some microseconds.
const MOST_BYTES: usize = 128 << 10;

/// The registers and the stack of a parked green thread. Addresses are those of the original.
#[derive(Clone, Debug)]
pub struct StackCopy {
    /// The address at which the green thread goes on.
    pub pc: usize,
    /// Its stack pointer and its frame pointer there. The frame pointer is 0 if it is not known.
    pub sp: usize,
    /// See `sp`.
    pub fp: usize,
    /// On Arm the link register there, if the function has not saved it; elsewhere `pc`.
    pub link: usize,
    /// The whole stack, from its guard to its first frame.
    pub stack: Range<usize>,
    words: Vec<usize>,
}

impl Default for StackCopy {
    fn default() -> Self {
        StackCopy { words: Vec::with_capacity(MOST_BYTES / WORD), ..StackCopy::empty() }
    }
}

impl StackCopy {
    /// Returns a copy without room.
    pub(crate) const fn empty() -> Self {
        StackCopy { pc: 0, sp: 0, fp: 0, link: 0, stack: 0..0, words: Vec::new() }
    }

    /// Makes room for the words of a stack, which a signal handler cannot.
    pub(crate) fn make_room(&mut self) {
        self.words.clear();
        self.words.reserve_exact(MOST_BYTES / WORD);
    }

    /// Returns the word at `address`; `None` if it was not copied.
    pub fn read(&self, address: usize) -> Option<usize> {
        let offset = address.checked_sub(self.sp)?;
        self.words.get(offset / WORD).filter(|_| offset.is_multiple_of(WORD)).copied()
    }

    /// Takes these registers, and the words from the stack pointer on.
    pub(crate) fn set(&mut self, registers: &Registers, words: &[usize]) {
        (self.pc, self.sp, self.fp, self.link) = (registers.pc, registers.sp, registers.fp, registers.link);
        self.words.clear();
        self.words.extend(words);
    }

    /// Copies the stack of `coro`. Returns `false` if there is nothing to copy.
    ///
    /// # Safety
    /// No thread runs on the coroutine or resumes it during the call, and its stack is mapped.
    pub(crate) unsafe fn fill(&mut self, coro: *const Coro) -> bool {
        let Some(field) = field() else { return false };
        // SAFETY: the caller keeps every thread off the coroutine.
        let coro = unsafe { &*coro };
        let (saved, top) = (words(&coro.inner)[field], ptr::from_ref(coro).addr());
        // 0: the coroutine runs. That is so of a G that waits in place.
        let used = coro.frames_below(top);
        if !has_registers(&used, saved) {
            return false;
        }
        self.sp = saved + SAVED.len * WORD;
        self.words.clear();
        let word = |i: usize| {
            // SAFETY: the word lies between the saved stack pointer and the top of a mapped stack, on which
            // no thread runs. Volatile: the frames there are no values of this function's, and their padding
            // may have any content.
            unsafe { with_exposed_provenance::<usize>(saved + i * WORD).read_volatile() }
        };
        (self.pc, self.fp) = (word(SAVED.pc), word(SAVED.fp));
        self.link = self.pc;
        let end = ((top - saved) / WORD).min(SAVED.len + self.words.capacity());
        self.words.extend((SAVED.len..end).map(word));
        self.stack = used;
        true
    }
}

impl StackCopy {
    /// Copies the stack of `g`, which is ready. An M may resume `g` during the copy. Returns `false` if there
    /// is nothing to copy. The copy is of one moment only if `g` was not resumed, which the caller finds out.
    pub(crate) fn fill_ready(&mut self, g: &G) -> bool {
        let Some((stack, inner)) = peek_stack_of(g) else { return false };
        let Some(saved) = field().map(|field| inner[field]) else { return false };
        let mut registers = [0; SAVED.len];
        // 0: it has been resumed.
        if !has_registers(&stack, saved) || !peek::words(saved, &mut registers) {
            return false;
        }
        self.pc = registers[SAVED.pc];
        (self.fp, self.link) = (registers[SAVED.fp], self.pc);
        self.peek_words(stack, saved + SAVED.len * WORD)
    }

    /// Copies the stack of `g` while the OS thread of `g` is blocked in the kernel. That thread goes on at
    /// `pc` with the stack pointer `sp`. Returns `false` if that is not on the stack of `g`. The copy is of
    /// one moment only if the OS thread stays blocked, which the caller finds out.
    pub(crate) fn fill_blocked(&mut self, g: &G, pc: usize, sp: usize) -> bool {
        let stack = peek_stack_of(g).map(|(stack, _)| stack);
        let Some(stack) = stack.filter(|stack| stack.contains(&sp) && sp.is_multiple_of(WORD)) else {
            return false;
        };
        (self.pc, self.fp, self.link) = (pc, 0, pc);
        self.peek_words(stack, sp)
    }

    /// Copies the words of `stack` from `sp` on by the kernel.
    fn peek_words(&mut self, stack: Range<usize>, sp: usize) -> bool {
        let n = ((stack.end - sp) / WORD).min(self.words.capacity());
        self.words.clear();
        self.words.resize(n, 0);
        let copied = peek::words(sp, &mut self.words);
        (self.sp, self.stack) = (sp, stack);
        copied
    }

    /// Copies the stack of the G on `coro`, which runs with these registers. Returns `false` if it does not
    /// run on that stack now. Signal handlers may call this: it allocates nothing.
    ///
    /// # Safety
    /// `coro` is null, or the coroutine of the G that runs on this thread.
    pub(crate) unsafe fn fill_running(&mut self, coro: *const Coro, registers: &Registers) -> bool {
        // SAFETY: the coroutine of a running G stays where it is.
        let Some(coro) = (unsafe { coro.as_ref() }) else { return false };
        let (top, sp) = (ptr::from_ref(coro).addr(), registers.sp);
        if !coro.frames_below(top).contains(&sp) || !sp.is_multiple_of(WORD) {
            return false;
        }
        (self.pc, self.sp, self.fp, self.link) = (registers.pc, sp, registers.fp, registers.link);
        self.stack = coro.frames_below(top);
        self.words.clear();
        // No more than the capacity, so the vector does not grow.
        let n = ((top - sp) / WORD).min(self.words.capacity());
        // SAFETY: the word lies between the stack pointer of the interrupted code and the top of its stack.
        // That part is mapped, and the interrupted code does not run on during the copy. Volatile: as in
        // `fill`.
        self.words.extend(
            (0..n).map(|i| unsafe { with_exposed_provenance::<usize>(sp + i * WORD).read_volatile() }),
        );
        true
    }
}

/// Returns the stack of `g` and the words of its coroutine; `None` if it has none.
fn peek_stack_of(g: &G) -> Option<(Range<usize>, [usize; WORDS])> {
    let coro = peek::word(g.coro_ptr.as_ptr().addr()).filter(|&coro| coro != 0)?;
    Coro::peek(coro).filter(|(stack, _)| !stack.is_empty())
}

/// Returns `true` if the saved registers lie at `saved` on `stack`.
fn has_registers(stack: &Range<usize>, saved: usize) -> bool {
    stack.contains(&saved) && saved.is_multiple_of(WORD) && stack.end - saved >= SAVED.len * WORD
}

fn words(inner: &Inner) -> [usize; WORDS] {
    // SAFETY: the struct is as large as its five fields of a word each, so it has no padding.
    unsafe { mem::transmute_copy(inner) }
}

/// Returns the place of the saved stack pointer in a coroutine, in words; `None` if it was not found.
fn field() -> Option<usize> {
    static FIELD: OnceLock<Option<usize>> = OnceLock::new();
    *FIELD.get_or_init(|| {
        let slabs = Slabs::new(MIN_STACK_SIZE).ok()?;
        let mut probe = Inner::with_stack(slabs.carve().ok()?, |_, _| ());
        let before = words(&probe);
        // SAFETY: the coroutine has not begun, and its closure holds nothing.
        unsafe { probe.force_reset() };
        let after = words(&probe);
        let mut changed = (0..WORDS).filter(|&i| before[i] != after[i]);
        let field = changed.next().filter(|&i| after[i] == 0);
        let _ = probe.into_stack();
        field.filter(|_| changed.next().is_none())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_saved_stack_pointer_is_found() {
        assert!(field().is_some());
    }
}

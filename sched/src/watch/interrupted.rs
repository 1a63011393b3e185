//! What a signal handler may learn of the thread that it has interrupted: the registers, the green thread,
//! and a copy of the innermost part of the stack. The copy allocates nothing, takes no lock, and unwinds
//! nothing. `samples.rs` brings copies from handlers to a reader.
//!
//! Of a green thread's stack the handler reads only what lies between the stack pointer and the stack's top.
//! So a walk through the copy ends at the green thread's entry. The bounds of other stacks are not known in a
//! handler. The kernel reads those (`process_vm_readv`), and stops at the end of the mapping instead of
//! faulting.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fmt;
use std::panic::Location;
use std::ptr;
use std::sync::Arc;

use crate::g::labels::{LabelCell, Labels, SampledLabels};
use crate::m::current::current;
use crate::stack::coro::Coro;
use crate::stack::saved::StackCopy;
use crate::sys;
use crate::sys::preempt::{Registers, interrupted_at};
pub use crate::watch::samples::Samples;

/// The words that are copied of a stack: 32 KiB.
const WORDS: usize = 4096;
const WORD: usize = size_of::<usize>();
const NAME_BYTES: usize = 64;

/// A copy of what an interrupted thread did. A signal handler writes it.
pub struct Interrupted {
    registers: Registers,
    /// How many of `words` were copied.
    len: usize,
    words: Box<[usize]>,
    /// The id of the green thread; 0 for none.
    id: u64,
    place: Option<&'static Location<'static>>,
    name: [u8; NAME_BYTES],
    name_len: usize,
    labels: SampledLabels,
}

impl fmt::Debug for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupted").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A thread that was interrupted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Thread {
    /// The id of the green thread; 0 if the OS thread ran none.
    pub id: u64,
    /// The first 64 bytes of its name.
    pub name: Option<String>,
    /// Where it was spawned.
    pub place: Option<&'static Location<'static>>,
    /// Its labels, if it had any.
    pub labels: Option<Arc<Labels>>,
}

impl Thread {
    /// Returns the thread that calls this, without its name. Allocates nothing and takes no lock, so an
    /// allocator may call it. *Runs on: any thread.*
    pub fn here() -> Thread {
        // SAFETY: `current` names the M of this OS thread, which outlives that thread.
        let Some(g) = unsafe { current().as_ref() }.and_then(|m| m.running_or_hooked()) else {
            return Thread::default();
        };
        let labels = SampledLabels::default();
        // `sampled` has the same contract as in a handler: this thread runs the G, and is in no exchange.
        labels.put(g.origin.label_cell().map_or(ptr::null_mut(), LabelCell::sampled));
        Thread { id: g.id(), name: None, place: g.place(), labels: labels.take() }
    }
}

impl Interrupted {
    /// Returns a place without a copy. The handler of a signal allocates nothing, so the place has its room.
    pub fn empty() -> Interrupted {
        Interrupted {
            registers: Registers::default(),
            len: 0,
            words: vec![0; WORDS].into_boxed_slice(),
            id: 0,
            place: None,
            name: [0; NAME_BYTES],
            name_len: 0,
            labels: SampledLabels::default(),
        }
    }

    /// Returns which thread it was, and forgets its labels. The reader calls it once for each sample.
    pub fn take_thread(&self) -> Thread {
        let name = String::from_utf8_lossy(&self.name[..self.name_len]);
        Thread {
            id: self.id,
            name: Some(name.into_owned()).filter(|name| !name.is_empty()),
            place: self.place,
            labels: self.labels.take(),
        }
    }

    /// Gives its registers and its words to `copy`.
    pub fn copy_to(&self, copy: &mut StackCopy) {
        copy.set(&self.registers, &self.words[..self.len]);
    }

    /// Copies from the thread that is interrupted here. *Runs on: the handler of a signal.*
    ///
    /// # Safety
    /// `context` is what the kernel has passed to this handler, which was installed with SA_SIGINFO.
    pub unsafe fn fill(&mut self, context: *mut c_void) {
        let errno = sys::errno();
        // SAFETY: this contract.
        self.fill_from(unsafe { interrupted_at(context) });
        sys::set_errno(errno);
    }

    fn fill_from(&mut self, registers: Registers) {
        let sp = registers.sp;
        self.registers = registers;
        (self.id, self.place, self.name_len, self.len) = (0, None, 0, 0);
        // SAFETY: `current` names the M of this OS thread, which outlives that thread.
        let g = unsafe { current().as_ref() }.and_then(|m| m.running_or_hooked());
        let mut top = None;
        if let Some(g) = g {
            (self.id, self.place) = (g.id(), g.place());
            // A running G keeps its name, and it is this thread's.
            let name = g.name().unwrap_or_default().as_bytes();
            self.name_len = name.len().min(NAME_BYTES);
            self.name[..self.name_len].copy_from_slice(&name[..self.name_len]);
            self.labels.put(g.origin.label_cell().map_or(ptr::null_mut(), LabelCell::sampled));
            // SAFETY: the G runs on this thread, so its coroutine is this thread's.
            top = unsafe { Coro::top_if_on(g, sp) };
        }
        match top {
            Some(top) => {
                self.len = if sp.is_multiple_of(WORD) { ((top - sp) / WORD).min(WORDS) } else { 0 };
                for (i, word) in self.words[..self.len].iter_mut().enumerate() {
                    // SAFETY: the word lies between the stack pointer and the top of this thread's own stack.
                    // Volatile: the frames there are no values of this function's.
                    *word = unsafe { ptr::with_exposed_provenance::<usize>(sp + i * WORD).read_volatile() };
                }
            }
            None => self.len = read_by_kernel(sp, &mut self.words),
        }
    }
}

/// Copies the words from `start` on, up to the end of the mapping. Returns how many.
fn read_by_kernel(start: usize, words: &mut [usize]) -> usize {
    let mut done = 0;
    // Page by page: a call that meets an unmapped page may copy nothing of it.
    while done < words.len() {
        let from = start + done * WORD;
        let bytes = ((from | 4095) + 1 - from).min((words.len() - done) * WORD);
        let local = libc::iovec { iov_base: words[done..].as_mut_ptr().cast(), iov_len: bytes };
        let remote = libc::iovec { iov_base: ptr::with_exposed_provenance_mut(from), iov_len: bytes };
        // SAFETY: the local range lies in `words`. The kernel checks the other one.
        let copied = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
        done += usize::try_from(copied).unwrap_or(0) / WORD;
        if copied != bytes as isize {
            break;
        }
    }
    done
}

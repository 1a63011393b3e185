//! Which Ms may run a G: any; the one on which the G waits in place; or its home. A bit beside that says that
//! its code is in `blocking`. The M itself is in `Coro::bound_to`, so only a G that has a stack is tied to an
//! M. `m/binding.rs` writes the binding and that M.
//!
//! A dumper copies the stack of a G in a run queue. No M waits for that. By a mark in this word the dumper
//! learns whether an M has resumed the G during the copy. The M looks at the word before each resume in any
//! case, so the mark costs nothing while no dump is taken:
//!
//! ```text
//!   the dumper                                  the M that has taken the G from a queue
//!   watch      set the mark                     status of the G = running
//!   impose the barrier on all threads           (the barrier)
//!   status of the G = ready? no: give up        is_special? end_watch: clear the mark
//!   copy the stack                              resume, which writes the stack
//!   was_unwatched? no: keep the copy            after its stop: status = ready, waiting or ended
//! ```
//!
//! The dumper keeps the copy only if the mark is still there. An M that began to resume the G before the mark
//! has stored its status before the barrier. So the dumper sees that the G runs, or a later status, which the
//! M stores when the G is off its stack.

use crate::sync::{
    atomic::{AtomicU16, Ordering},
    broken,
};

/// On which Ms a G may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Binding {
    /// Any M.
    Free = 0,
    /// One M, which sleeps on its note with the G on its stack. The G is parked in place, or waits in place
    /// for a P.
    InPlace = 1,
    /// One M. The G has stopped inside a poll or while it unwinds, or has started on this M in strict mode.
    Home = 2,
}

const BINDING: u16 = 0b11;
/// A bit beside the binding: the code of the G is in `blocking`.
const BLOCKING: u16 = 0b100;
/// A bit beside the binding: the G is runnable, and its wake-up is a sample. The weight of the sample stands
/// above (`notes/latency.rs`).
const SAMPLE: u16 = 0b1000;
const WEIGHT: u32 = 4;
/// A bit above the weight: a dumper copies the stack of the G. The functions of the file's head take the mark
/// away. So does a change of the whole word by the thread that owns the G. Without the mark the dumper drops
/// its copy.
const WATCHED: u16 = 0x100;

/// The binding of one G and its `blocking` bit, in one word.
#[derive(Debug)]
pub(crate) struct BindingWord(AtomicU16);

impl BindingWord {
    pub(crate) fn new() -> Self {
        BindingWord(AtomicU16::new(Binding::Free as u16))
    }

    /// Returns the binding. *Runs on: a thread that may make the G runnable.*
    #[inline]
    pub(crate) fn get(&self) -> Binding {
        // Acquire: sees `Coro::bound_to`; pairs with `set`.
        match self.0.load(Ordering::Acquire) & BINDING {
            0 => Binding::Free,
            1 => Binding::InPlace,
            _ => Binding::Home,
        }
    }

    /// Sets the binding. *Runs on: the M that runs the G.*
    pub(crate) fn set(&self, binding: Binding) {
        let blocking = self.0.load(Ordering::Relaxed) & BLOCKING;
        // Release: publishes `Coro::bound_to`; pairs with `get`.
        self.0.store(binding as u16 | blocking, Ordering::Release);
    }

    /// Marks the wake-up of the G as a sample with this weight, which is below 16. *Runs on: the thread that
    /// makes the G runnable, before it publishes the G.*
    pub(crate) fn set_sample(&self, weight: u8) {
        debug_assert!(weight < 16);
        let word = self.0.load(Ordering::Relaxed) & (BINDING | BLOCKING);
        // Relaxed: the queue into which the G is put orders this before `take_sample`.
        self.0.store(word | SAMPLE | u16::from(weight) << WEIGHT, Ordering::Relaxed);
    }

    /// Returns the weight of the sample that the wake-up of the G is; `None` if it is none. *Runs on: as
    /// `set_sample`.*
    pub(crate) fn sample(&self) -> Option<u8> {
        let word = self.0.load(Ordering::Relaxed);
        (word & SAMPLE != 0).then_some((word & !WATCHED) as u8 >> WEIGHT)
    }

    /// As `sample`, and takes the mark away. *Runs on: the M that has taken the G from a queue.*
    pub(crate) fn take_sample(&self) -> Option<u8> {
        let sample = self.sample()?;
        self.0.store(self.0.load(Ordering::Relaxed) & (BINDING | BLOCKING), Ordering::Relaxed);
        Some(sample)
    }

    /// Returns `true` if the G has a home, waits in place, is in `blocking`, is sampled, or is watched. Its M
    /// then does more than resume the G. *Runs on: the M that has taken the G from a queue.*
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        // Relaxed: the queue from which the G came orders this after `set`. What the M writes to the stack of
        // the G depends on this load, so no processor writes it before.
        self.0.load(Ordering::Relaxed) != Binding::Free as u16
    }

    /// Returns `true` if the G may run on one M only. *Runs on: the M that runs the G, or a thread that may
    /// make it runnable.*
    #[inline]
    pub(crate) fn is_home(&self) -> bool {
        // Relaxed: the caller got the G from the thread that wrote this, by a queue or a decided wait.
        self.0.load(Ordering::Relaxed) & BINDING == Binding::Home as u16
    }

    /// Returns `true` if the code of the G is in `blocking`. *Runs on: any thread; only the G itself changes
    /// it.*
    #[inline]
    pub(crate) fn is_blocking(&self) -> bool {
        // Relaxed: sysmon reads no other data by this; the lease decides.
        self.0.load(Ordering::Relaxed) & BLOCKING != 0
    }

    /// Sets whether the code of the G is in `blocking`; returns what was set before. *Runs on: the G.*
    pub(crate) fn set_blocking(&self, blocking: bool) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        // Relaxed: only the G and its M write this word.
        self.0.store(word & !BLOCKING | if blocking { BLOCKING } else { 0 }, Ordering::Relaxed);
        word & BLOCKING != 0
    }

    /// Sets the mark of the dumper. *Runs on: the dumper, of which there is one at a time.*
    pub(crate) fn watch(&self) {
        // Relaxed: the barrier that follows orders it.
        self.0.fetch_or(WATCHED, Ordering::Relaxed);
    }

    /// Takes the mark away, if it is there. *Runs on: the M that has taken the G from a queue, before it
    /// resumes the G.*
    pub(crate) fn end_watch(&self) {
        if self.0.load(Ordering::Relaxed) & WATCHED != 0 && !broken!("binding_watch_not_ended") {
            // Acquire: what the dumper has read comes before what this M writes to the stack; pairs with
            // `was_unwatched`.
            self.0.fetch_and(!WATCHED, Ordering::Acquire);
        }
    }

    /// Takes the mark away. Returns `true` if it was gone: the G may have run since `watch`. *Runs on: the
    /// dumper.*
    pub(crate) fn was_unwatched(&self) -> bool {
        // Release: pairs with `end_watch`. Acquire: the copy is complete.
        self.0.fetch_and(!WATCHED, Ordering::AcqRel) & WATCHED == 0
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::atomic::AtomicU8;
    use loom::{sync::Arc, thread};

    use super::*;
    use crate::sync::models::{Reached, explore};
    use crate::sync::{impose_barrier, imposed_barrier};

    const READY: u8 = 1;
    const RUNNING: u8 = 2;

    /// A G with a stack of two words, which are equal whenever the G is off its stack.
    struct Watched {
        binding: BindingWord,
        status: AtomicU8,
        stack: [AtomicU16; 2],
    }

    impl Watched {
        fn run(&self, word: u16) {
            if !broken!("binding_status_late") {
                self.status.store(RUNNING, Ordering::Release);
            }
            if !broken!("binding_no_barrier") {
                imposed_barrier();
            }
            if self.binding.is_special() {
                self.binding.end_watch();
            }
            if broken!("binding_status_late") {
                self.status.store(RUNNING, Ordering::Release);
            }
            self.stack.iter().for_each(|place| place.store(word, Ordering::Relaxed));
            self.status.store(READY, Ordering::Release);
        }

        fn copy(&self) -> Option<[u16; 2]> {
            self.binding.watch();
            impose_barrier();
            let ready = self.status.load(Ordering::Acquire) == READY;
            let copy = [0, 1].map(|i| self.stack[i].load(Ordering::Relaxed));
            let valid = !self.binding.was_unwatched() && ready;
            valid.then_some(copy)
        }
    }

    /// An M runs a ready G twice, while a dumper copies its stack.
    #[test]
    fn a_copy_of_a_ready_g_is_whole_or_dropped() {
        static IS_KEPT: Reached = Reached::new();
        static IS_DROPPED: Reached = Reached::new();
        explore(3, || {
            let g = Arc::new(Watched {
                binding: BindingWord::new(),
                status: AtomicU8::new(READY),
                stack: [AtomicU16::new(0), AtomicU16::new(0)],
            });
            let m = {
                let g = g.clone();
                thread::spawn(move || (1..3).for_each(|word| g.run(word)))
            };
            let copy = g.copy();
            IS_KEPT.note(copy.is_some());
            IS_DROPPED.note(copy.is_none());
            assert!(copy.is_none_or(|[a, b]| a == b), "torn: {copy:?}");
            m.join().unwrap();
        });
        IS_KEPT.assert();
        IS_DROPPED.assert();
    }
}

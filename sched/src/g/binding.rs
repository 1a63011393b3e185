//! Which Ms may run a G: any; the one on which the G waits in place; or its home. A bit beside that says that its code
//! is in `blocking`. The M itself is in `Coro::bound_to`, so only a G that has a stack is tied to an M. `m/binding.rs`
//! writes the binding and that M.

use std::sync::atomic::{AtomicU8, Ordering};

/// On which Ms a G may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Binding {
    /// Any M.
    Free = 0,
    /// One M, which sleeps on its note with the G on its stack. The G is parked in place, or waits in place for a P.
    InPlace = 1,
    /// One M. The G has stopped inside a poll or while it unwinds, or has started on this M in strict mode.
    Home = 2,
}

const BINDING: u8 = 0b11;
/// A bit beside the binding: the code of the G is in `blocking`.
const BLOCKING: u8 = 0b100;
/// A bit beside the binding: the G is runnable, and its wake-up is a sample. The weight of the sample stands above (`run/latency.rs`).
const SAMPLE: u8 = 0b1000;
const WEIGHT: u32 = 4;

/// The binding of one G and its `blocking` bit, in one word.
#[derive(Debug)]
pub(crate) struct BindingWord(AtomicU8);

impl BindingWord {
    pub(crate) fn new() -> Self {
        BindingWord(AtomicU8::new(Binding::Free as u8))
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
        self.0.store(binding as u8 | blocking, Ordering::Release);
    }

    /// Marks the wake-up of the G as a sample with this weight, which is below 16. *Runs on: the thread that makes the G runnable,
    /// before it publishes the G.*
    pub(crate) fn set_sample(&self, weight: u8) {
        debug_assert!(weight < 16);
        let word = self.0.load(Ordering::Relaxed) & (BINDING | BLOCKING);
        // Relaxed: the queue into which the G is put orders this before `take_sample`.
        self.0.store(word | SAMPLE | weight << WEIGHT, Ordering::Relaxed);
    }

    /// Returns the weight of the sample that the wake-up of the G is; `None` if it is none. *Runs on: as `set_sample`.*
    pub(crate) fn sample(&self) -> Option<u8> {
        let word = self.0.load(Ordering::Relaxed);
        (word & SAMPLE != 0).then_some(word >> WEIGHT)
    }

    /// As `sample`, and takes the mark away. *Runs on: the M that has taken the G from a queue.*
    pub(crate) fn take_sample(&self) -> Option<u8> {
        let sample = self.sample()?;
        self.0.store(self.0.load(Ordering::Relaxed) & (BINDING | BLOCKING), Ordering::Relaxed);
        Some(sample)
    }

    /// Returns `true` if the G has a home, waits in place, is in `blocking`, or is sampled: its M then does more than resume the G.
    /// *Runs on: the M that has taken the G from a queue.*
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        // Relaxed: the queue from which the G came orders this after `set`.
        self.0.load(Ordering::Relaxed) != Binding::Free as u8
    }

    /// Returns `true` if the G may run on one M only. *Runs on: the M that runs the G, or a thread that may make it
    /// runnable.*
    #[inline]
    pub(crate) fn is_home(&self) -> bool {
        // Relaxed: the caller got the G from the thread that wrote this, by a queue or a decided wait.
        self.0.load(Ordering::Relaxed) & BINDING == Binding::Home as u8
    }

    /// Returns `true` if the code of the G is in `blocking`. *Runs on: any thread; only the G itself changes it.*
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
}

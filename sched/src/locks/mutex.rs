//! The mutex: who has it, and that it is handed over to who starves. Its protocol stands at the head of `locks.rs`.

use super::{Line, Patience, is_long_ago, spin, stay};
use crate::g::wait::Outcome;
use crate::g::why::Why;
use crate::queue::{Guard, Lock, Queue, Wake};
use crate::sync::{
    atomic::{AtomicU32, Ordering},
    broken,
};

const LOCKED: u32 = 1;
/// The queue is not empty. Changes under its lock.
const WAITING: u32 = 2;
/// One who was woken is on its way to look.
const WOKEN: u32 = 4;
/// Only a hand-over takes it. Comes under the queue's lock, while it is taken; goes under the queue's lock.
const STARVING: u32 = 8;
/// Nobody may take it.
const TAKEN: u32 = LOCKED | STARVING;

/// A mutex without contents; see the file's head.
pub struct Mutex {
    word: AtomicU32,
    queue: Lock<Queue<Waiter>>,
}

/// What one in the queue waits with.
pub(super) struct Waiter {
    since: u64,
    /// The mutex was handed over to it.
    pub(super) owns: bool,
    /// It had waited for a condition, and has been notified.
    pub(super) moved: bool,
}

/// Instead of since when: its time has not begun.
pub(super) const NOT_YET: u64 = u64::MAX;

impl Waiter {
    pub(super) fn new(since: u64) -> Self {
        Waiter { since, owns: false, moved: false }
    }
}

impl Mutex {
    /// One that nobody has.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Mutex { word: AtomicU32::new(0), queue: Lock::new(Queue::new()) }
    }

    /// Likewise.
    #[cfg(loom)]
    pub fn new() -> Self {
        Mutex { word: AtomicU32::new(0), queue: Lock::new(Queue::new()) }
    }

    /// Takes it if it is free and nobody waits. *Runs on: any thread.*
    #[inline]
    pub fn try_lock_fast(&self) -> bool {
        // Acquire: what the last holder did; pairs with the Release of `unlock`.
        self.word.compare_exchange(0, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes it if it is free. *Runs on: any thread.*
    #[inline]
    pub fn try_lock(&self) -> bool {
        self.take_if_free(0)
    }

    /// Whether somebody has it.
    #[inline]
    pub fn is_locked(&self) -> bool {
        // Relaxed: it may be otherwise already. `STARVING` alone: it is about to be handed over.
        self.word.load(Ordering::Relaxed) & TAKEN != 0
    }

    /// Whether somebody waits for it.
    #[inline]
    pub fn is_waited_for(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WAITING != 0
    }

    /// Whether it is to be handed over.
    #[cfg(all(test, loom))]
    pub(super) fn is_starved_for(&self) -> bool {
        self.word.load(Ordering::Relaxed) & STARVING != 0
    }

    /// Takes it, waiting as long as patience lasts; `try_lock_fast` has failed. It does not unwind.
    ///
    /// # Errors
    /// How the wait ended otherwise. It has left the queue, and what was meant for it has gone to the next.
    #[cold]
    pub fn lock_slow(&self, patience: Patience) -> Result<(), Outcome> {
        if spin(|| self.look()) {
            return Ok(());
        }
        self.lock_in_line(Line::default(), patience)
    }

    /// Takes it, whatever comes. It does not unwind.
    pub fn lock_anyway(&self) {
        if !self.try_lock_fast() {
            let locked = self.lock_slow(Patience::ENDLESS);
            locked.expect("nothing else ends an endless wait");
        }
    }

    /// A look while spinning: `None` to go on.
    fn look(&self) -> Option<bool> {
        if self.take_if_free(0) {
            return Some(true);
        }
        // Who queues up has stopped spinning, and so do we.
        self.is_waited_for().then_some(false)
    }

    pub(super) fn lock_in_line(&self, mut line: Line, patience: Patience) -> Result<(), Outcome> {
        while let Some(queue) = self.take_or_enter(line) {
            let waiter = Waiter::new(line.since());
            match stay(Why::Mutex, queue, |queue| queue, line, patience, waiter) {
                Ok(Waiter { owns: true, .. }) => return Ok(()),
                Ok(_) => line.woken = true,
                Err(ended) => {
                    self.left(ended.guard);
                    return Err(ended.outcome);
                }
            }
        }
        Ok(())
    }

    /// Takes it if it is free, `clearing` those bits.
    fn take_if_free(&self, clearing: u32) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & TAKEN == 0 || broken!("mutex_taken_from_who_starves") && word & LOCKED == 0 {
            let taken = (word | LOCKED) & !clearing;
            // Acquire: as in `try_lock_fast`.
            match self.word.compare_exchange_weak(word, taken, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Takes it, or says in the word that somebody waits, and gives the queue to enter.
    fn take_or_enter(&self, line: Line) -> Option<Guard<'_, Queue<Waiter>>> {
        // Whoever was woken has looked now.
        let clearing = if line.woken && !broken!("mutex_woken_stays") { WOKEN } else { 0 };
        loop {
            if self.take_if_free(clearing) {
                return None;
            }
            let queue = self.queue.lock();
            if self.announce(line, clearing) {
                return Some(queue);
            }
        }
    }

    /// Says that somebody waits, while it is taken: then whoever gives it back sees that. *Runs on: the holder of the
    /// queue's lock.*
    fn announce(&self, line: Line, clearing: u32) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & TAKEN != 0 || broken!("mutex_enters_a_free_one") {
            let starving = if line.starves() && word & LOCKED != 0 { STARVING } else { 0 };
            let waiting = word & !clearing | WAITING | starving;
            // Relaxed: the queue itself is found under its lock, which is held until the node is in.
            match self.word.compare_exchange_weak(word, waiting, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Its queue, under its lock.
    pub(super) fn line(&self) -> Guard<'_, Queue<Waiter>> {
        self.queue.lock()
    }

    /// Others have been put into the queue, which nobody had announced: the caller does what whoever gives it back does.
    pub(super) fn line_has_grown(&self, queue: &mut Queue<Waiter>) -> Option<Wake> {
        if queue.is_empty() {
            return None;
        }
        // Relaxed: as in `announce`. If it is taken, its holder gives it back after this and sees it; else we see that.
        self.word.fetch_or(WAITING, Ordering::Relaxed);
        if broken!("condvar_leaves_a_free_mutex") { None } else { self.wake_or_hand_over(queue) }
    }

    /// One has left the queue before its turn.
    pub(super) fn left(&self, queue: Guard<'_, Queue<Waiter>>) {
        if queue.is_empty() {
            self.nobody_waits(0);
        }
    }

    /// The queue is empty. *Runs on: the holder of its lock.*
    fn nobody_waits(&self, clearing: u32) {
        // Relaxed: who may take it now synchronizes with its last holder, whose release is not undone by this.
        self.word.fetch_and(!(WAITING | STARVING | clearing), Ordering::Relaxed);
    }

    /// Gives it back.
    ///
    /// # Safety
    /// The caller has it.
    #[inline]
    pub unsafe fn unlock(&self) {
        let order = if broken!("mutex_unlocked_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        // Release: what was done under it; pairs with the Acquire of whoever takes it.
        let word = self.word.fetch_sub(LOCKED, order);
        debug_assert!(word & LOCKED != 0, "a mutex is given back by its owner");
        if word & (WAITING | STARVING) != 0 && word & (WOKEN | STARVING) != WOKEN {
            self.look_after_queue();
        }
    }

    /// It was given back and somebody waits.
    #[cold]
    fn look_after_queue(&self) {
        let mut queue = self.queue.lock();
        let wake = self.wake_or_hand_over(&mut queue);
        drop(queue);
        drop(wake);
    }

    fn wake_or_hand_over(&self, queue: &mut Queue<Waiter>) -> Option<Wake> {
        let mut word = self.word.load(Ordering::Relaxed);
        // Taken again: then its holder comes here. Nobody left, or one is on its way already: nothing to do.
        while word & (LOCKED | WAITING) == WAITING && word & (WOKEN | STARVING) != WOKEN {
            if word & STARVING != 0 {
                // Nobody else may take it. Acquire: what its last holder did, who need not be the caller; the one it is
                // handed to gets that from us by the decision of its wait.
                self.word.fetch_or(LOCKED, Ordering::Acquire);
                return self.hand_over(queue);
            }
            match self.word.compare_exchange_weak(word, word | WOKEN, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return self.wake_first(queue),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Wakes the first to look for itself.
    fn wake_first(&self, queue: &mut Queue<Waiter>) -> Option<Wake> {
        let wake = queue.wake_first(|_| ());
        if queue.is_empty() {
            self.nobody_waits(if wake.is_none() { WOKEN } else { 0 });
        }
        wake
    }

    /// The caller's lock becomes that of the first in the queue; if there is nobody it becomes free.
    fn hand_over(&self, queue: &mut Queue<Waiter>) -> Option<Wake> {
        debug_assert!(self.word.load(Ordering::Relaxed) & LOCKED != 0, "a mutex is handed over by its owner");
        while let Some(mut waiter) = queue.first() {
            waiter.payload().owns = true;
            let since = waiter.payload().since;
            if let Ok(wake) = waiter.wake() {
                // It is the waiter's now; all we may change is what is the queue's.
                if queue.is_empty() {
                    self.nobody_waits(0);
                } else if self.word.load(Ordering::Relaxed) & STARVING != 0 && !is_long_ago(since) {
                    self.word.fetch_and(!STARVING, Ordering::Relaxed);
                }
                return Some(wake);
            }
            if broken!("mutex_handed_to_who_has_left") {
                return None;
            }
        }
        // Release: as in `unlock`.
        self.word.fetch_and(!(LOCKED | WAITING | STARVING), Ordering::Release);
        None
    }

    /// Gives it to the first who waits; gives it back if nobody does.
    ///
    /// # Safety
    /// The caller has it.
    #[inline]
    pub unsafe fn unlock_fair(&self) {
        // Release: as in `unlock`.
        if self.word.compare_exchange(LOCKED, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            self.unlock_fair_slow();
        }
    }

    #[cold]
    fn unlock_fair_slow(&self) {
        let mut queue = self.queue.lock();
        let wake = self.hand_over(&mut queue);
        drop(queue);
        drop(wake);
    }
}

impl Default for Mutex {
    fn default() -> Self {
        Mutex::new()
    }
}

impl std::fmt::Debug for Mutex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mutex").field("is_locked", &self.is_locked()).finish_non_exhaustive()
    }
}

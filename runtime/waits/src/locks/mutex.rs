//! The mutex: one word and a queue of waiters. Locks, unlocks, and hands over to a starving waiter. The head
//! of `wait/locks.rs` explains the protocol.

use super::holder::Holder;
use super::locker::{Line, Patience, is_long_ago, spin, stay};
use crate::queue::{Guard, Lock, Queue, Wake};
use sched::sync::{
    atomic::{AtomicU32, Ordering},
    broken,
};
use sched::{Awaited, Outcome, Why};

const LOCKED: u32 = 1;
/// The queue is not empty. Changes under the queue's lock.
const WAITING: u32 = 2;
/// A woken waiter has not retried yet.
const WOKEN: u32 = 4;
/// Only a hand-over takes the mutex. Set under the queue's lock while the mutex is taken; cleared under the
/// queue's lock.
const STARVING: u32 = 8;
/// With one of these bits set, a locker may not take the mutex.
const TAKEN: u32 = LOCKED | STARVING;

/// A mutex without contents: its word, and the queue of its waiters.
pub struct Mutex {
    word: AtomicU32,
    pub(super) queue: Lock<Queue<Waiter>>,
    pub(super) holder: Holder,
}

/// The payload of a waiter in the queue.
pub(super) struct Waiter {
    since: u64,
    /// The mutex was handed over to this waiter.
    pub(super) owns: bool,
    /// The waiter waited for a condition variable, and was notified.
    pub(super) moved: bool,
}

/// The value of `since` before the waiting time of a waiter begins: of a condition variable's waiter.
pub(super) const NOT_YET: u64 = u64::MAX;

impl Waiter {
    pub(super) fn new(since: u64) -> Self {
        Waiter { since, owns: false, moved: false }
    }
}

impl Mutex {
    /// Makes a free mutex.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Mutex { word: AtomicU32::new(0), queue: Lock::new(Queue::new()), holder: Holder::new() }
    }

    /// Makes a free mutex.
    #[cfg(loom)]
    pub fn new() -> Self {
        Mutex { word: AtomicU32::new(0), queue: Lock::new(Queue::new()), holder: Holder::new() }
    }

    /// Locks the mutex if it is free and no waiter is queued. Returns whether it did. *Runs on: any thread.*
    #[inline]
    pub fn try_lock_fast(&self) -> bool {
        // Acquire: sees what the last holder did. Pairs with the Release of `unlock`.
        let took = self.word.compare_exchange(0, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if took {
            self.holder.took();
        }
        took
    }

    /// Locks the mutex if it is free, even past queued waiters. Returns whether it did. *Runs on: any
    /// thread.*
    #[inline]
    pub fn try_lock(&self) -> bool {
        self.take_if_free(0)
    }

    /// Returns `true` if the mutex is locked or about to be handed over.
    #[inline]
    pub fn is_locked(&self) -> bool {
        // Relaxed: the answer may be out of date on return. `STARVING` without `LOCKED` means that a
        // hand-over is under way.
        self.word.load(Ordering::Relaxed) & TAKEN != 0
    }

    /// Returns `true` if a waiter is queued.
    #[inline]
    pub fn is_waited_for(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WAITING != 0
    }

    /// Returns `true` if `STARVING` is set.
    #[cfg(all(test, loom))]
    pub(super) fn is_starved_for(&self) -> bool {
        self.word.load(Ordering::Relaxed) & STARVING != 0
    }

    /// Locks the mutex, waiting as `patience` allows. Call it after `try_lock_fast` has failed. Does not
    /// unwind.
    ///
    /// # Errors
    /// Returns how the wait ended if it timed out or was cancelled. The caller has left the queue, and a
    /// grant meant for it has gone to the next waiter.
    #[cold]
    pub fn lock_slow(&self, patience: Patience) -> Result<(), Outcome> {
        if spin(|| self.look()) {
            return Ok(());
        }
        self.lock_in_line(Line::default(), patience)
    }

    /// Locks the mutex; neither a deadline nor a cancellation ends the wait. Does not unwind.
    pub fn lock_anyway(&self) {
        if !self.try_lock_fast() {
            let locked = self.lock_slow(Patience::ENDLESS);
            locked.expect("nothing else ends an endless wait");
        }
    }

    /// One look while spinning. Returns `Some(true)` if it took the mutex, `Some(false)` to stop spinning,
    /// `None` to go on.
    fn look(&self) -> Option<bool> {
        if self.take_if_free(0) {
            return Some(true);
        }
        // A queued waiter means that spinning did not help another locker.
        self.is_waited_for().then_some(false)
    }

    pub(super) fn lock_in_line(&self, mut line: Line, patience: Patience) -> Result<(), Outcome> {
        while let Some(queue) = self.take_or_enter(line) {
            let waiter = Waiter::new(line.since());
            match stay(
                Why::Mutex,
                (self, Mutex::look_from_afar),
                queue,
                |queue| queue,
                line,
                patience,
                waiter,
            ) {
                Ok(Waiter { owns: true, .. }) => {
                    self.holder.took();
                    return Ok(());
                }
                Ok(_) => line.woken = true,
                Err(ended) => {
                    self.left(ended.guard);
                    return Err(ended.outcome);
                }
            }
        }
        Ok(())
    }

    /// Locks the mutex if it is free, and clears the bits `clearing` with that. Returns whether it did.
    fn take_if_free(&self, clearing: u32) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & TAKEN == 0 || broken!("mutex_taken_from_who_starves") && word & LOCKED == 0 {
            let taken = (word | LOCKED) & !clearing;
            // Acquire: sees what the last holder did. Pairs with the Release of `unlock`.
            match self.word.compare_exchange_weak(word, taken, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    self.holder.took();
                    return true;
                }
                Err(now) => word = now,
            }
        }
        false
    }

    /// Describes the mutex for a dump. *Runs on: any thread.*
    fn look_from_afar(&self) -> Option<Awaited> {
        let address = std::ptr::from_ref(self).addr();
        Some(Awaited::Mutex { address, locked: self.is_locked(), holder: self.holder.id() })
    }

    /// Locks the mutex and returns `None`; or sets `WAITING` and returns the queue's guard, for the caller to
    /// queue up.
    pub(super) fn take_or_enter(&self, line: Line) -> Option<Guard<'_, Queue<Waiter>>> {
        // A woken waiter clears `WOKEN` with this retry.
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

    /// Sets `WAITING` if the mutex is taken; its unlocker then sees that bit. Sets `STARVING` too if the
    /// locker starves. Returns `false` if the mutex is free. *Runs on: the holder of the queue's lock.*
    fn announce(&self, line: Line, clearing: u32) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & TAKEN != 0 || broken!("mutex_enters_a_free_one") {
            let starving = if line.starves() && word & LOCKED != 0 { STARVING } else { 0 };
            let waiting = word & !clearing | WAITING | starving;
            // Relaxed: the unlocker reaches the queue under its lock, which this thread holds until the node
            // is pushed.
            match self.word.compare_exchange_weak(word, waiting, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Wakes the next waiter in the place of a woken waiter that will not retry.
    pub(super) fn woken_left(&self, mut queue: Guard<'_, Queue<Waiter>>) {
        // Relaxed: an unlocker that saw `WOKEN` left the queue to the woken waiter. Its unlock comes before
        // this read-modify-write in the order of the word, so `wake_or_hand_over` sees the free mutex.
        self.word.fetch_and(!WOKEN, Ordering::Relaxed);
        let wake = self.wake_or_hand_over(&mut queue);
        drop(queue);
        drop(wake);
    }

    /// Takes the queue's lock.
    pub(super) fn locked_line(&self) -> Guard<'_, Queue<Waiter>> {
        self.queue.lock()
    }

    /// Sets `WAITING` after `notify` moved waiters into the queue, and serves the queue if the mutex is free.
    /// *Runs on: the holder of the queue's lock.*
    pub(super) fn line_has_grown(&self, queue: &mut Queue<Waiter>) -> Option<Wake> {
        if queue.is_empty() {
            return None;
        }
        // Relaxed: the unlocker reaches the queue under its lock, which the caller holds. If the mutex is
        // taken, its holder unlocks it later and sees `WAITING`. If not, `wake_or_hand_over` sees a free
        // mutex.
        self.word.fetch_or(WAITING, Ordering::Relaxed);
        if broken!("condvar_leaves_a_free_mutex") { None } else { self.wake_or_hand_over(queue) }
    }

    /// Updates the word after a waiter left the queue without being woken.
    pub(super) fn left(&self, queue: Guard<'_, Queue<Waiter>>) {
        if queue.is_empty() {
            self.nobody_waits(0);
        }
    }

    /// Clears `WAITING`, `STARVING` and `clearing`: the queue is empty. *Runs on: the holder of the queue's
    /// lock.*
    fn nobody_waits(&self, clearing: u32) {
        // Relaxed: a later locker synchronizes with the last holder's Release; this read-modify-write
        // continues its release sequence.
        self.word.fetch_and(!(WAITING | STARVING | clearing), Ordering::Relaxed);
    }

    /// Unlocks the mutex. Serves the queue if a waiter is queued and no woken waiter is about to retry. That
    /// may call a waker of the user's.
    ///
    /// # Safety
    /// The caller holds the mutex.
    #[inline]
    pub unsafe fn unlock(&self) {
        // SAFETY: the caller holds the mutex, by this function's contract.
        if unsafe { self.release() } {
            drop(self.look_after_queue());
        }
    }

    /// Unlocks the mutex as `unlock` does, for a caller that has begun a wait.
    ///
    /// # Safety
    /// The caller holds the mutex.
    pub(super) unsafe fn unlock_to_wait(&self) {
        // SAFETY: the caller holds the mutex, by this function's contract.
        if unsafe { self.release() }
            && let Some(wake) = self.look_after_queue()
        {
            wake.deliver_apart();
        }
    }

    /// Unlocks the mutex. Returns `true` if the caller must serve the queue.
    ///
    /// # Safety
    /// The caller holds the mutex.
    #[inline]
    unsafe fn release(&self) -> bool {
        self.holder.unlocks();
        let order = if broken!("mutex_unlocked_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        // Release: publishes what the holder did. Pairs with the Acquire in `try_lock_fast`, `take_if_free`
        // and `wake_or_hand_over`.
        let word = self.word.fetch_sub(LOCKED, order);
        debug_assert!(word & LOCKED != 0, "unlock needs a locked mutex");
        word & (WAITING | STARVING) != 0 && word & (WOKEN | STARVING) != WOKEN
    }

    /// Serves the queue after an unlock.
    #[cold]
    fn look_after_queue(&self) -> Option<Wake> {
        self.wake_or_hand_over(&mut self.queue.lock())
    }

    /// Wakes the first waiter, or hands the mutex off to it if `STARVING` is set. Does nothing if the mutex
    /// is taken, no waiter is queued, or a woken waiter has not retried. *Runs on: the holder of the queue's
    /// lock.*
    fn wake_or_hand_over(&self, queue: &mut Queue<Waiter>) -> Option<Wake> {
        let mut word = self.word.load(Ordering::Relaxed);
        // If the mutex is taken again, its holder serves the queue at its unlock.
        while word & (LOCKED | WAITING) == WAITING && word & (WOKEN | STARVING) != WOKEN {
            if word & STARVING != 0 {
                // `STARVING` keeps every other locker out. Acquire: sees what the last holder did, which may
                // be another thread; pairs with the Release of `unlock`. The decision of the wait passes that
                // on to the new owner.
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

    /// Wakes the first open wait with no grant; the woken waiter retries.
    fn wake_first(&self, queue: &mut Queue<Waiter>) -> Option<Wake> {
        let wake = queue.wake_first(|_| ());
        if queue.is_empty() {
            self.nobody_waits(if wake.is_none() { WOKEN } else { 0 });
        }
        wake
    }

    /// Makes the first waiter the owner of the mutex, which the caller holds. Unlocks the mutex if no open
    /// wait is left.
    fn hand_over(&self, queue: &mut Queue<Waiter>) -> Option<Wake> {
        debug_assert!(self.word.load(Ordering::Relaxed) & LOCKED != 0, "a hand-off needs a locked mutex");
        while let Some(mut waiter) = queue.first() {
            waiter.payload().owns = true;
            let since = waiter.payload().since;
            if let Ok(wake) = waiter.wake() {
                // The waiter owns the mutex now. Only the bits of the queue may still be changed here.
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
        // Release: publishes what the holder did. Pairs with the Acquire of the next locker's
        // compare-and-swap.
        self.word.fetch_and(!(LOCKED | WAITING | STARVING), Ordering::Release);
        None
    }

    /// Hands the mutex off to the first waiter. Unlocks the mutex if no waiter is queued.
    ///
    /// # Safety
    /// The caller holds the mutex.
    #[inline]
    pub unsafe fn unlock_fair(&self) {
        self.holder.unlocks();
        // Release: publishes what the holder did. Pairs with the Acquire of the next locker's
        // compare-and-swap.
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

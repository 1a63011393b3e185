//! The condition variable: a notification moves a waiter into the mutex's queue, where that waiter gets the
//! mutex in turn.
//!
//! ```text
//!   wait                                         notify
//!   take the condition's lock: push the node     take the condition's lock, then the lock of the mutex's queue
//!   unlock the mutex                             an open wait at the front: move its node into the mutex's queue
//!   park                                         the mutex is free: serve its queue, as an unlocker does
//!   woken: take and release the condition's lock
//!     then go on as a woken waiter of the mutex
//!   else:  take both locks, leave the queue that has the node, lock the mutex; moved? then report a notification
//! ```
//!
//! The move keeps notified waiters from contending for the mutex all at once, and with the notifier, which
//! often holds the mutex. Each waiter is woken when its turn comes.
//!
//! A notification goes to a wait that is open at that moment, and is never lost. If the wait then ends
//! otherwise while its node is in the mutex's queue, it still counts as notified. A cancellation then takes
//! effect at the next wait.
//!
//! The notifier does not hold the mutex. A waiter that returned from `wait` may free its mutex at once. So
//! each waiter takes the condition's lock once before it uses the mutex again. The notifier releases the
//! condition's lock last, after it has used the mutex.

use std::ptr;

use super::locker::{Line, Patience, Waiting, check_fork};
use super::mutex::{Mutex, NOT_YET, Waiter};
use crate::queue::{Lock, Node, Queue, Wake};
use sched::sync::{
    atomic::{AtomicPtr, Ordering},
    broken,
};
use sched::{Outcome, Why};

/// A condition variable without a mutex. The file's head explains its protocol.
pub struct Condvar {
    /// The mutex of the waiters; null while no waiter is queued. Changes under the queue's lock.
    mutex: AtomicPtr<Mutex>,
    queue: Lock<Queue<Waiter>>,
}

/// The error of `wait`: other waiters of this condition variable use another mutex.
#[derive(Clone, Copy, Debug)]
pub struct OtherMutex;

impl Condvar {
    /// Makes a condition variable without waiters.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Condvar { mutex: AtomicPtr::new(ptr::null_mut()), queue: Lock::new(Queue::new()) }
    }

    /// Makes a condition variable without waiters.
    #[cfg(loom)]
    pub fn new() -> Self {
        Condvar { mutex: AtomicPtr::new(ptr::null_mut()), queue: Lock::new(Queue::new()) }
    }

    /// Unlocks the mutex, waits for a notification, and locks the mutex again. Returns `Woken` if the caller
    /// was notified, else how the wait ended. Does not unwind.
    ///
    /// # Errors
    /// Returns `OtherMutex` if other waiters use another mutex. The mutex is then still locked.
    ///
    /// # Safety
    /// The caller holds the mutex. The caller holds it again when this returns.
    pub unsafe fn wait(&self, mutex: &Mutex, patience: Patience) -> Result<Outcome, OtherMutex> {
        check_fork(patience);
        let waiting = Waiting::begin_for(Why::Condvar, patience.cancel);
        let node = Node::of_thread(waiting.ticket(), 0, Waiter::new(NOT_YET));
        if broken!("condvar_mutex_given_back_first") {
            // SAFETY: the caller holds the mutex, by this function's contract.
            unsafe { mutex.unlock() };
        }
        // SAFETY: the node stays in this frame until it is in no queue. A waker unlinks a woken node before
        // it decides the wait, and `leave` removes any other node. Nothing in between unwinds or begins
        // another wait of this thread: `unlock_to_wait` calls wakers `apart`.
        unsafe { self.enter(&node, mutex)? };
        if !broken!("condvar_mutex_given_back_first") {
            // SAFETY: the caller holds the mutex, by this function's contract; only this line unlocks it.
            unsafe { mutex.unlock_to_wait() };
        }
        let outcome = match patience.deadline {
            None => waiting.park(),
            Some(deadline) => waiting.park_until(deadline),
        };
        if outcome == Outcome::Woken {
            let waiter = node.into_payload();
            self.let_notifier_finish();
            if !waiter.owns {
                mutex.lock_in_line(Line::woken(), Patience::ENDLESS).expect("nothing else ends it");
            }
            return Ok(Outcome::Woken);
        }
        // SAFETY: `enter` pushed this node with this mutex, and the wait was not decided as woken.
        let notified = unsafe { self.leave(&node, mutex) };
        mutex.lock_anyway();
        Ok(if notified { Outcome::Woken } else { outcome })
    }

    /// Pushes the node into the queue and records the mutex.
    ///
    /// # Safety
    /// The node is in no queue. The node stays alive and in place until its wait was decided as woken, or
    /// `leave` was called for it.
    unsafe fn enter(&self, node: &Node<Waiter>, mutex: &Mutex) -> Result<(), OtherMutex> {
        let mut queue = self.queue.lock();
        let known = self.mutex.load(Ordering::Relaxed).cast_const();
        if known.is_null() {
            // Relaxed: a notifier that locked the mutex after this waiter unlocked it sees the store. Any
            // other notifier may miss this waiter.
            self.mutex.store(ptr::from_ref(mutex).cast_mut(), Ordering::Relaxed);
        } else if known != ptr::from_ref(mutex) {
            return Err(OtherMutex);
        }
        // SAFETY: the queue is under its lock, and the caller keeps the node alive until `leave`, by this
        // contract.
        unsafe { queue.push_back(node) };
        Ok(())
    }

    /// Removes a node from the queue that has it. Returns `true` if the waiter had been notified. *Runs on:
    /// the node's owner.*
    ///
    /// # Safety
    /// `enter` pushed the node with this mutex, and its wait was not decided as woken.
    unsafe fn leave(&self, node: &Node<Waiter>, mutex: &Mutex) -> bool {
        let mut queue = self.queue.lock();
        let mut line = mutex.locked_line();
        // SAFETY: this thread has the locks of both queues that the node may be in.
        let moved = unsafe { node.payload().moved };
        // SAFETY: `moved` names the queue that has the node, if one has it: `move_to_mutex` moves a node and
        // sets `moved` under both locks.
        unsafe {
            if moved {
                line.remove(node);
            } else {
                queue.remove(node);
            }
        }
        mutex.left(line);
        self.is_left(&queue);
        moved
    }

    /// Returns when the notifier that woke the caller has stopped using the mutex. *Runs on: a woken waiter.*
    fn let_notifier_finish(&self) {
        if !broken!("condvar_waiter_overtakes_its_notifier") {
            drop(self.queue.lock());
        }
    }

    /// Forgets the mutex if the queue is empty now. *Runs on: the holder of the queue's lock.*
    fn is_left(&self, queue: &Queue<Waiter>) {
        if queue.is_empty() {
            self.mutex.store(ptr::null_mut(), Ordering::Relaxed);
        }
    }

    /// Notifies the waiter that has waited longest. Returns `false` if there was no open wait. *Runs on: any
    /// thread.*
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.is_waited_for() && self.notify(1) == 1
    }

    /// Notifies all open waits. Returns their number. *Runs on: any thread.*
    #[inline]
    pub fn notify_all(&self) -> usize {
        if self.is_waited_for() { self.notify(usize::MAX) } else { 0 }
    }

    #[inline]
    fn is_waited_for(&self) -> bool {
        // Relaxed: a notifier that locked the mutex after the waiter unlocked it sees the store in `enter`.
        // Any other notifier may miss that waiter.
        !self.mutex.load(Ordering::Relaxed).is_null()
    }

    #[cold]
    fn notify(&self, most: usize) -> usize {
        let mut queue = self.queue.lock();
        debug_assert_eq!(
            self.is_waited_for(),
            !queue.is_empty(),
            "the mutex is known while a waiter is queued"
        );
        // SAFETY: under the condition's lock the pointer is null or leads to the mutex of a queued waiter.
        // That waiter takes the condition's lock before it returns (`let_notifier_finish`, `leave`), so the
        // mutex lives until `queue` is dropped.
        let Some(mutex) = (unsafe { self.mutex.load(Ordering::Relaxed).as_ref() }) else { return 0 };
        let (moved, wake) = move_to_mutex(&mut queue, mutex, most);
        self.is_left(&queue);
        drop(queue);
        drop(wake);
        moved
    }
}

/// Moves up to `most` open waits from the condition's queue into the mutex's queue. Returns their number, and
/// the wake of the first waiter if the mutex is free.
fn move_to_mutex(queue: &mut Queue<Waiter>, mutex: &Mutex, most: usize) -> (usize, Option<Wake>) {
    let mut line = mutex.locked_line();
    let mut moved = 0;
    while moved < most
        && let Some(mut waiter) = queue.first()
    {
        if !waiter.is_open() && !broken!("condvar_notifies_who_has_left") {
            waiter.unlink();
            continue;
        }
        waiter.payload().moved = true;
        // SAFETY: the mutex's queue is under its lock. `leave` finds the node there, since `moved` is set.
        unsafe { waiter.move_to(&mut line) };
        moved += 1;
    }
    (moved, mutex.line_has_grown(&mut line))
}

impl Default for Condvar {
    fn default() -> Self {
        Condvar::new()
    }
}

impl std::fmt::Debug for Condvar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}

//! The condition: who waits is moved into the line of the mutex when it is notified, and has it when it comes back.
//!
//! ```text
//!   wait                                         notify
//!   the condition's lock: push the node          the condition's lock, then that of the mutex's queue
//!   give the mutex back                          an open wait at the front: move its node into that queue
//!   park                                         the mutex is free: do what somebody does who gives it back
//!   woken: the condition's lock, at once released
//!     then as anybody in the mutex's line
//!   else:  both locks; leave the queue that it is in; take the mutex; moved? then it was notified all the same
//! ```
//!
//! So those who are notified do not run into the mutex all at once, nor into the notifier, who often has it: each is woken
//! when it is its turn. A notification goes to a wait that is open at that moment, and is then not lost: if the wait is
//! ended otherwise while it is in the mutex's line, it counts as notified, and a cancellation takes effect at the next wait.
//!
//! The notifier does not have the mutex, and need not know of it. A waiter that came back may free its mutex at once. So
//! each waiter takes the condition's lock once before it uses the mutex again. The notifier releases that lock last,
//! after it has used the mutex.

use std::ptr;

use super::mutex::{Mutex, NOT_YET, Waiter};
use super::{Line, Patience, Waiting, check_fork};
use crate::g::wait::Outcome;
use crate::g::why::Why;
use crate::queue::{Lock, Node, Queue, Wake};
use crate::sync::{
    atomic::{AtomicPtr, Ordering},
    broken,
};

/// A condition without a mutex; see the file's head.
pub struct Condvar {
    /// The mutex of those who wait; null when nobody does. Changes under the queue's lock.
    mutex: AtomicPtr<Mutex>,
    queue: Lock<Queue<Waiter>>,
}

/// Somebody waits with another mutex.
#[derive(Clone, Copy, Debug)]
pub struct OtherMutex;

impl Condvar {
    /// One that nobody waits for.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Condvar { mutex: AtomicPtr::new(ptr::null_mut()), queue: Lock::new(Queue::new()) }
    }

    /// Likewise.
    #[cfg(loom)]
    pub fn new() -> Self {
        Condvar { mutex: AtomicPtr::new(ptr::null_mut()), queue: Lock::new(Queue::new()) }
    }

    /// Gives the mutex back, waits to be notified, and takes the mutex again. It does not unwind.
    ///
    /// # Errors
    /// Others wait with another mutex; this one was not given back.
    ///
    /// # Safety
    /// The caller has the mutex; it has it again when this returns.
    pub unsafe fn wait(&self, mutex: &Mutex, patience: Patience) -> Result<Outcome, OtherMutex> {
        check_fork(patience);
        let waiting = Waiting::begin_for(Why::Condvar, patience.cancel);
        let node = Node::of_thread(waiting.ticket(), 0, Waiter::new(NOT_YET));
        if broken!("condvar_mutex_given_back_first") {
            // SAFETY: the caller has it.
            unsafe { mutex.unlock() };
        }
        // SAFETY: the node stays in this frame, which is left only below: when it was woken, or has left its queue. Nothing
        // in between unwinds.
        unsafe { self.enter(&node, mutex)? };
        if !broken!("condvar_mutex_given_back_first") {
            // SAFETY: the caller has it.
            unsafe { mutex.unlock() };
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
        // SAFETY: it is the node that was pushed above.
        let notified = unsafe { self.leave(&node, mutex) };
        mutex.lock_anyway();
        Ok(if notified { Outcome::Woken } else { outcome })
    }

    /// # Safety
    /// As for `Queue::push_back`; `leave` is what removes it.
    unsafe fn enter(&self, node: &Node<Waiter>, mutex: &Mutex) -> Result<(), OtherMutex> {
        let mut queue = self.queue.lock();
        let known = self.mutex.load(Ordering::Relaxed).cast_const();
        if known.is_null() {
            // Relaxed: whoever notifies having had the mutex after this wait gave it back sees it; others may be late.
            self.mutex.store(ptr::from_ref(mutex).cast_mut(), Ordering::Relaxed);
        } else if known != ptr::from_ref(mutex) {
            return Err(OtherMutex);
        }
        // SAFETY: by this function's contract.
        unsafe { queue.push_back(node) };
        Ok(())
    }

    /// Takes a node out of whichever queue it is in; whether it had been notified.
    ///
    /// # Safety
    /// It was pushed by `enter` with this mutex, and its wait was not decided as woken. *Runs on: its owner.*
    unsafe fn leave(&self, node: &Node<Waiter>, mutex: &Mutex) -> bool {
        let mut queue = self.queue.lock();
        let mut line = mutex.line();
        // SAFETY: under both locks nobody else touches it.
        let moved = unsafe { node.payload().moved };
        // SAFETY: it is in this queue, if in any: `notify` moves it under both locks, and says so.
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

    /// Returns when the notifier that woke the caller uses the mutex no more. *Runs on: a woken waiter.*
    fn let_notifier_finish(&self) {
        if !broken!("condvar_waiter_overtakes_its_notifier") {
            drop(self.queue.lock());
        }
    }

    /// Some have left the queue, which may be empty. *Runs on: the holder of its lock.*
    fn is_left(&self, queue: &Queue<Waiter>) {
        if queue.is_empty() {
            self.mutex.store(ptr::null_mut(), Ordering::Relaxed);
        }
    }

    /// Notifies the one that has waited longest; whether there was one. *Runs on: any thread.*
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.is_waited_for() && self.notify(1) == 1
    }

    /// Notifies all who wait, and says how many those were. *Runs on: any thread.*
    #[inline]
    pub fn notify_all(&self) -> usize {
        if self.is_waited_for() { self.notify(usize::MAX) } else { 0 }
    }

    #[inline]
    fn is_waited_for(&self) -> bool {
        // Relaxed: as in `enter`.
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
        // SAFETY: under the condition's lock it is null, or the mutex of a waiter in the queue. That waiter takes the
        // condition's lock before it returns (`let_notifier_finish`, `leave`), so the mutex lives until `queue` is dropped.
        let Some(mutex) = (unsafe { self.mutex.load(Ordering::Relaxed).as_ref() }) else { return 0 };
        let (moved, wake) = move_to_mutex(&mut queue, mutex, most);
        self.is_left(&queue);
        drop(queue);
        drop(wake);
        moved
    }
}

/// Moves up to so many from the condition's queue into the mutex's, and wakes one if nobody has the mutex.
fn move_to_mutex(queue: &mut Queue<Waiter>, mutex: &Mutex, most: usize) -> (usize, Option<Wake>) {
    let mut line = mutex.line();
    let mut moved = 0;
    while moved < most
        && let Some(mut waiter) = queue.first()
    {
        if !waiter.is_open() && !broken!("condvar_notifies_who_has_left") {
            waiter.unlink();
            continue;
        }
        waiter.payload().moved = true;
        // SAFETY: the line is under its lock, and `leave` knows where to look.
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

//! The wait queue that all blocking primitives share: channels, locks, semaphores, condition variables.
//!
//! A primitive is a [`Lock`] around its state. One or more [`Queue`]s are a part of that state. A waiter
//! pushes a node into a queue. The node lies on the waiter's stack or in a pinned future, so waiting
//! allocates nothing. A waiter is a green thread or a plain OS thread, known by the ticket of its wait, or a
//! future, known by its waker.
//!
//! ```text
//!   the waiter                                   the granter
//!   lock                                         lock
//!   nothing there: begin a wait, push the node   first waiter: put the grant (a message, a permit) into its payload
//!   unlock                                       unlink the node
//!   park                                         decide the wait     (one exchange; the node is not touched after it)
//!     woken:  the payload has the grant            won:  keep its `Wake`
//!     else:   lock, unlink the node if it is       lost: the wait ended otherwise: take the grant back, next waiter
//!             still queued, unlock               unlock
//!                                                drop the `Wake`: only now the waiter is made runnable
//! ```
//!
//! - *No grant is lost, and none is given twice.* A wait is decided once, and the grant lies in the node
//!   before the wait is decided as woken. A grant that meets a time-out or a cancellation returns to the
//!   granter, which still holds the lock.
//! - *A node is not touched after its owner went on.* The granter unlinks a node before it decides the wait
//!   as woken. An owner that was not woken takes the lock and removes the node.
//! - *One wait may have nodes in several queues* (a select). Each node has a number, its *case*. The decision
//!   has the case. The owner reads it and then removes the other nodes.
//! - *A waiter is made runnable after the lock is released.* The waiter then does not contend for the lock.
//!   Also, waking leaves the runtime, where a green thread that lost its P may stop; the holder of a lock
//!   must not stop.
//!
//! A future has no wait that could be decided. A future reads its node under the lock when it is polled or
//! dropped.
//!
//! Rejected: a queue for all primitives in a table by address (`parking_lot_core`). Each wait would hash and
//! take a shared bucket.
//!
//! Rejected: a heap node for each waiter (crossbeam's `Context`). Each thread would pay for an allocation and
//! counts, and a woken waiter would have to look again for its grant.

#![allow(unsafe_code)]

mod future;
mod lock;
mod wait;

use std::cell::Cell;
use std::marker::{PhantomData, PhantomPinned};
use std::ptr::NonNull;
use std::task::Waker;

use sched::Ticket;
use sched::sync::{broken, cell::UnsafeCell};

pub use future::{PassOn, WaitFuture};
pub use lock::{Guard, Lock};
pub use sched::{Wake, Wakes};
#[cfg(not(loom))]
pub(crate) use wait::is_endless;
pub use wait::{Ended, Spot, WaitOptions, park, wait};

/// A waiter's place in a queue. The file's head says how long it lives.
pub struct Node<T> {
    // The links and `queued` belong to the holder of the queue's lock.
    previous: Cell<Option<NonNull<Node<T>>>>,
    next: Cell<Option<NonNull<Node<T>>>>,
    queued: Cell<bool>,
    who: Who,
    /// Belongs to the holder of the lock while the node is queued, then to the owner.
    payload: UnsafeCell<T>,
    _pinned: PhantomPinned,
}

enum Who {
    Thread {
        ticket: Ticket,
        case: u32,
    },
    /// Both cells belong to the holder of the queue's lock.
    Future {
        granted: Cell<bool>,
        waker: Cell<Option<Waker>>,
    },
}

impl<T> Node<T> {
    /// Makes the node of a thread that has begun the wait of `ticket`.
    pub fn of_thread(ticket: Ticket, case: u32, payload: T) -> Self {
        Node::new(Who::Thread { ticket, case }, payload)
    }

    /// Makes the node of a future.
    pub fn of_future(waker: Waker, payload: T) -> Self {
        Node::new(Who::Future { granted: Cell::new(false), waker: Cell::new(Some(waker)) }, payload)
    }

    fn new(who: Who, payload: T) -> Self {
        Node {
            previous: Cell::new(None),
            next: Cell::new(None),
            queued: Cell::new(false),
            who,
            payload: UnsafeCell::new(payload),
            _pinned: PhantomPinned,
        }
    }

    /// Returns the payload, with the grant in it if there was one. *Runs on: the owner, when the node is in
    /// no queue.*
    pub fn into_payload(self) -> T {
        debug_assert!(!self.queued.get(), "a node leaves its queue before its payload is taken");
        self.touch();
        self.payload.into_inner()
    }

    /// Returns the payload of a node that may be queued.
    ///
    /// # Safety
    /// The caller holds the locks of all queues that the node may be in.
    pub(crate) unsafe fn payload(&self) -> &T {
        // SAFETY: the payload of a queued node belongs to the holder of the lock, which the caller is, by
        // this contract.
        self.payload.with(|payload| unsafe { &*payload })
    }

    /// Makes loom check that the caller is the only user of the node here.
    #[inline]
    fn touch(&self) {
        #[cfg(loom)]
        self.payload.with_mut(|_| ());
    }

    /// Replaces the waker of a future that goes on waiting. Returns the old waker. *Runs on: the holder of
    /// the lock.*
    fn set_waker(&self, new: Waker) -> Option<Waker> {
        match &self.who {
            Who::Future { waker, .. } => waker.replace(Some(new)),
            Who::Thread { .. } => unreachable!("a thread's node is not polled"),
        }
    }

    /// Takes the waker of a future that waits no more. *Runs on: the holder of the lock.*
    fn take_waker(&self) -> Option<Waker> {
        match &self.who {
            Who::Future { waker, .. } => waker.take(),
            Who::Thread { .. } => None,
        }
    }

    /// Returns `true` if the node is a future's and the future was granted what it waits for. *Runs on: the
    /// holder of the lock.*
    fn is_granted(&self) -> bool {
        matches!(&self.who, Who::Future { granted, .. } if granted.get())
    }
}

impl<T> std::fmt::Debug for Node<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").finish_non_exhaustive()
    }
}

/// The waiters in order of arrival. A queue is part of what a [`Lock`] guards.
pub struct Queue<T> {
    head: Option<NonNull<Node<T>>>,
    tail: Option<NonNull<Node<T>>>,
}

// SAFETY: the nodes are reached only under the lock that guards the queue. An owner keeps its node alive
// while the node is queued (`push_back`). What moves from thread to thread is the payload, which is `Send`.
unsafe impl<T: Send> Send for Queue<T> {}

impl<T> Queue<T> {
    /// Makes an empty queue.
    pub const fn new() -> Self {
        Queue { head: None, tail: None }
    }

    /// Returns `true` if no waiter is queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// Puts a node at the end.
    ///
    /// # Safety
    /// The queue is under its lock, and the node is in no queue. The node stays alive and in place until one
    /// of three events. Its wait was decided as woken with its case, its future was granted, or `remove` was
    /// called for it.
    pub unsafe fn push_back(&mut self, node: &Node<T>) {
        debug_assert!(!node.queued.get(), "a node is in one queue at a time");
        let new = NonNull::from(node);
        node.previous.set(self.tail);
        node.next.set(None);
        match self.tail {
            // SAFETY: a queued node is alive, by this function's contract, and its links belong to the holder
            // of the lock.
            Some(tail) => unsafe { tail.as_ref() }.next.set(Some(new)),
            None => self.head = Some(new),
        }
        self.tail = Some(new);
        node.queued.set(true);
    }

    /// Puts a node before all others: that of a waiter that was first, was woken to look again, and must wait
    /// again.
    ///
    /// # Safety
    /// The queue is under its lock, and the node is in no queue. The node stays alive and in place until one
    /// of three events. Its wait was decided as woken with its case, its future was granted, or `remove` was
    /// called for it.
    pub unsafe fn push_front(&mut self, node: &Node<T>) {
        debug_assert!(!node.queued.get(), "a node is in one queue at a time");
        let new = NonNull::from(node);
        node.previous.set(None);
        node.next.set(self.head);
        match self.head {
            // SAFETY: a queued node is alive, by the contract of `push_back`.
            Some(head) => unsafe { head.as_ref() }.previous.set(Some(new)),
            None => self.tail = Some(new),
        }
        self.head = Some(new);
        node.queued.set(true);
    }

    /// Removes a node from the queue. Returns `false` if the node was not queued. *Runs on: the node's
    /// owner.*
    ///
    /// # Safety
    /// The queue is under its lock, and the node was pushed into no other queue.
    pub unsafe fn remove(&mut self, node: &Node<T>) -> bool {
        if broken!("queue_owner_leaves_its_node") {
            return false;
        }
        let is_in = node.queued.get();
        if is_in {
            self.unlink(node);
        }
        is_in
    }

    fn unlink(&mut self, node: &Node<T>) {
        debug_assert!(node.queued.get(), "a node is unlinked once");
        debug_assert!(node.previous.get().is_some() || self.head == Some(NonNull::from(node)));
        debug_assert!(node.next.get().is_some() || self.tail == Some(NonNull::from(node)));
        node.touch();
        let (previous, next) = (node.previous.get(), node.next.get());
        match previous {
            // SAFETY: a queued node is alive, by the contract of `push_back`.
            Some(previous) => unsafe { previous.as_ref() }.next.set(next),
            None => self.head = next,
        }
        match next {
            // SAFETY: a queued node is alive, by the contract of `push_back`.
            Some(next) => unsafe { next.as_ref() }.previous.set(previous),
            None => self.tail = previous,
        }
        node.queued.set(false);
    }

    /// Returns the waiter that has waited longest.
    #[inline]
    pub fn first(&mut self) -> Option<Waiter<'_, T>> {
        Some(Waiter { node: self.head?, queue: self })
    }

    /// Returns the waiter that came last.
    pub fn last(&mut self) -> Option<Waiter<'_, T>> {
        Some(Waiter { node: self.tail?, queue: self })
    }

    /// Returns the waiter that has waited longest among those with a payload that `wanted` accepts.
    pub fn find(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Option<Waiter<'_, T>> {
        let mut next = self.head;
        while let Some(node) = next {
            // SAFETY: a queued node is alive, by the contract of `push_back`.
            let this = unsafe { node.as_ref() };
            // SAFETY: the payload of a queued node belongs to the holder of the lock, which lends it to
            // `wanted` only.
            if this.payload.with(|payload| wanted(unsafe { &*payload })) {
                return Some(Waiter { node, queue: self });
            }
            next = this.next.get();
        }
        None
    }

    /// Takes each waiter out of the queue if its wait has ended in another way. Returns their number.
    pub fn remove_ended(&mut self) -> usize {
        let (mut removed, mut next) = (0, self.head);
        while let Some(node) = next {
            // SAFETY: a queued node is alive, by the contract of `push_back`.
            next = unsafe { node.as_ref() }.next.get();
            let waiter = Waiter { node, queue: self };
            if !waiter.is_open() {
                waiter.unlink();
                removed += 1;
            }
        }
        removed
    }

    /// Wakes the first waiter with an open wait. Also calls `grant` for each waiter before that waiter: their
    /// waits have ended otherwise, and what they were granted is not used.
    #[inline]
    pub fn wake_first(&mut self, mut grant: impl FnMut(&mut T)) -> Option<Wake> {
        while let Some(mut waiter) = self.first() {
            grant(waiter.payload());
            if let Ok(wake) = waiter.wake() {
                return Some(wake);
            }
        }
        None
    }

    /// Wakes the last waiter with an open wait, as [`wake_first`](Queue::wake_first) wakes the first.
    pub fn wake_last(&mut self, mut grant: impl FnMut(&mut T)) -> Option<Wake> {
        while let Some(mut waiter) = self.last() {
            grant(waiter.payload());
            if let Ok(wake) = waiter.wake() {
                return Some(wake);
            }
        }
        None
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue::new()
    }
}

impl<T> std::fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("is_empty", &self.is_empty()).finish()
    }
}

/// A queued waiter. The value borrows the queue, and so the lock's guard.
#[must_use]
pub struct Waiter<'q, T> {
    node: NonNull<Node<T>>,
    queue: &'q mut Queue<T>,
}

impl<'q, T> Waiter<'q, T> {
    /// Returns the payload. A granter puts the grant in before it calls `wake`.
    #[inline]
    pub fn payload(&mut self) -> &mut T {
        // SAFETY: the node is queued, so it is alive, and its payload belongs to the holder of the lock.
        // `queue` is borrowed from the guard, and `self` is borrowed mutably, so there is no second
        // reference.
        unsafe { self.node.as_ref() }.payload.with_mut(|payload| unsafe { &mut *payload })
    }

    /// Returns `true` if the wait is open. If the wait ends later, its owner takes the lock before it goes
    /// on.
    pub(crate) fn is_open(&self) -> bool {
        // SAFETY: the node is queued, so it is alive, by the contract of `push_back`.
        match &unsafe { self.node.as_ref() }.who {
            Who::Thread { ticket, .. } => ticket.is_open(),
            Who::Future { .. } => true,
        }
    }

    /// Takes the node out of the queue. The wait must have ended; the owner of an open wait would park for
    /// ever.
    pub(crate) fn unlink(self) {
        // SAFETY: the node is queued, so it is alive, by the contract of `push_back`.
        self.queue.unlink(unsafe { self.node.as_ref() });
    }

    /// Moves the node to the end of `other`.
    ///
    /// # Safety
    /// `other` is under its lock, and the owner will look for the node there when it leaves.
    pub(crate) unsafe fn move_to(self, other: &mut Queue<T>) {
        // SAFETY: the node is queued, so it is alive, by the contract of `push_back`.
        let node = unsafe { self.node.as_ref() };
        self.queue.unlink(node);
        // SAFETY: `other` is under its lock and the owner removes the node from it, by this contract. The
        // owner keeps the node alive until then, by the contract of `push_back`.
        unsafe { other.push_back(node) };
    }

    /// Takes the node out of the queue and decides the wait as woken, if it is open. Drop the [`Wake`] after
    /// the lock is released.
    ///
    /// # Errors
    /// Returns `Over` if the wait had ended otherwise; the grant can be taken back from it.
    #[inline]
    pub fn wake(self) -> Result<Wake, Over<'q, T>> {
        let Waiter { node, queue } = self;
        // SAFETY: the node is queued, so it is alive, by the contract of `push_back`.
        let this = unsafe { node.as_ref() };
        if !broken!("queue_unlinked_after_the_decision") {
            queue.unlink(this);
        }
        match &this.who {
            &Who::Thread { ticket, case } => {
                // After a won decision the owner may free the node.
                let wake = ticket.decide(case);
                if broken!("queue_unlinked_after_the_decision") {
                    queue.unlink(this);
                }
                match wake {
                    Some(wake) => Ok(wake),
                    None if broken!("queue_lost_taken_for_won") => Ok(Wake::none()),
                    None => Err(Over { node, _queue: PhantomData }),
                }
            }
            Who::Future { granted, waker } => {
                granted.set(true);
                Ok(waker.take().map_or_else(Wake::none, Wake::future))
            }
        }
    }
}

impl<T> std::fmt::Debug for Waiter<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiter").finish_non_exhaustive()
    }
}

/// A waiter that lost its wait to a time-out or a cancellation. The waiter takes the lock before it leaves,
/// so the node is alive while the granter holds the lock.
pub struct Over<'q, T> {
    node: NonNull<Node<T>>,
    /// Keeps the lock held.
    _queue: PhantomData<&'q mut Queue<T>>,
}

impl<T> Over<'_, T> {
    /// Returns the payload, with the grant to be taken back.
    pub fn payload(&mut self) -> &mut T {
        // SAFETY: the wait was not decided as woken, so its owner takes the lock before it touches the node
        // again (`Spot::leave`). `_queue` keeps the caller's guard borrowed.
        unsafe { self.node.as_ref() }.payload.with_mut(|payload| unsafe { &mut *payload })
    }
}

impl<T> std::fmt::Debug for Over<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Over").finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

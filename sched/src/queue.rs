//! The one wait queue under everything that blocks: channels, locks, semaphores, conditions.
//!
//! A primitive is a [`Lock`] around its state, of which one or more [`Queue`]s are a part. Who must wait puts a node
//! into a queue; the node lies on its own stack, or in a pinned future, so waiting allocates nothing. A waiter is a
//! green thread, a plain OS thread (both by the ticket of their current wait) or a future (by its waker).
//!
//! ```text
//!   the one who waits                            the one who grants
//!   lock                                         lock
//!   nothing there: begin a wait, push the node   first waiter: put the grant (a message, a permit) into its payload
//!   unlock                                       unlink the node
//!   park                                         decide the wait     (one exchange; the node is not touched after it)
//!     Woken:  the payload has the grant            won:  keep its `Wake`
//!     else:   lock, unlink the node if it            lost: it ended otherwise: take the grant back, next waiter
//!             is still there, unlock             unlock
//!                                                drop the `Wake`: only now the waiter is made runnable
//! ```
//!
//! - Nothing is lost and nothing is granted twice: the wait is decided once, and the grant lies in the node before it is
//!   decided as woken. A grant that meets a time-out or a cancellation goes back to the granter, who still has the lock.
//! - A node is not touched after its owner went on: a woken owner's node was unlinked before its wait was decided, and
//!   every other owner takes the lock before it leaves.
//! - One wait may have nodes in several queues (a select). Each has a number, its *case*, which the decision tells the
//!   owner; it then withdraws the other nodes.
//! - A waiter is made runnable after the lock is released. That way it does not run into the lock, and more important:
//!   leaving the runtime may stop a green thread that lost its P, and who holds a lock must not stop.
//!
//! A future has no wait that could be decided; it looks into its node under the lock, when it is polled or dropped.
//!
//! What was rejected: a queue for all primitives in a table by address (`parking_lot_core`): a hash and a shared bucket
//! for each wait; a heap node a waiter (crossbeam's `Context`): a malloc and counts for each thread, and a waiter that is
//! woken must look again instead of having what it came for.

#![allow(unsafe_code)]

#[cfg(not(loom))]
mod future;
mod lock;
mod wait;
#[cfg(not(loom))]
mod wakes;

use std::cell::Cell;
use std::marker::{PhantomData, PhantomPinned};
use std::ptr::NonNull;
use std::task::Waker;

use crate::g::wait::Decision;
use crate::sync::{broken, cell::UnsafeCell};

#[cfg(not(loom))]
pub use future::{PassOn, WaitFuture};
pub use lock::{Guard, Lock};
#[cfg(loom)]
pub use modelled::{Wake, Wakes};
pub use wait::{Ended, How, Spot, park, wait};
#[cfg(not(loom))]
pub use wakes::{Wake, Wakes};

#[cfg(not(loom))]
use crate::g::Ticket;
#[cfg(loom)]
use modelled::Ticket;

/// One place in a queue; see the file's head.
pub struct Node<T> {
    // The links and `queued` are for the holder of the queue's lock.
    previous: Cell<Option<NonNull<Node<T>>>>,
    next: Cell<Option<NonNull<Node<T>>>>,
    queued: Cell<bool>,
    who: Who,
    /// For the holder of the lock while it is queued, then for the owner.
    payload: UnsafeCell<T>,
    _pinned: PhantomPinned,
}

enum Who {
    Thread {
        ticket: Ticket,
        case: u32,
    },
    /// Likewise for the holder of the lock.
    Future {
        granted: Cell<bool>,
        waker: Cell<Option<Waker>>,
    },
}

impl<T> Node<T> {
    /// A node of a thread that has begun the wait of `ticket`.
    pub fn of_thread(ticket: Ticket, case: u32, payload: T) -> Self {
        Node::new(Who::Thread { ticket, case }, payload)
    }

    /// A node of a future.
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

    /// What it waits with, or was granted. *Runs on: the owner, when the node is in no queue.*
    pub fn into_payload(self) -> T {
        debug_assert!(!self.queued.get(), "a node leaves its queue before its payload is taken");
        self.touch();
        self.payload.into_inner()
    }

    /// What it waits with, while it may be in a queue.
    ///
    /// # Safety
    /// The caller has the locks of all queues that it may be in.
    pub(crate) unsafe fn payload(&self) -> &T {
        // SAFETY: by this contract nobody else uses it.
        self.payload.with(|payload| unsafe { &*payload })
    }

    /// Tells loom that the node is used here, by somebody who must be alone.
    #[inline]
    fn touch(&self) {
        #[cfg(loom)]
        self.payload.with_mut(|_| ());
    }

    /// Another waker for a future that goes on waiting; gives the last one. *Runs on: the holder of the lock.*
    #[cfg(not(loom))]
    fn set_waker(&self, new: Waker) -> Option<Waker> {
        match &self.who {
            Who::Future { waker, .. } => waker.replace(Some(new)),
            Who::Thread { .. } => unreachable!("a thread's node is not polled"),
        }
    }

    /// Whether a future was granted what it waits for. *Runs on: the holder of the lock.*
    #[cfg(not(loom))]
    fn is_granted(&self) -> bool {
        matches!(&self.who, Who::Future { granted, .. } if granted.get())
    }
}

impl<T> std::fmt::Debug for Node<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").finish_non_exhaustive()
    }
}

/// Who waits, first come, first served. It is part of what a [`Lock`] guards.
pub struct Queue<T> {
    head: Option<NonNull<Node<T>>>,
    tail: Option<NonNull<Node<T>>>,
}

// SAFETY: its nodes are reached under the lock that it is part of; their owners wait until they have left it. What goes
// through it from thread to thread is the payload.
unsafe impl<T: Send> Send for Queue<T> {}

impl<T> Queue<T> {
    /// An empty one.
    pub const fn new() -> Self {
        Queue { head: None, tail: None }
    }

    /// True if nobody waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// Puts a node at the end.
    ///
    /// # Safety
    /// The queue is under its lock. The node is in no queue, and stays where it is and alive until its wait was decided as
    /// woken with its case, or (of a future) it was granted, or `remove` was called for it.
    pub unsafe fn push_back(&mut self, node: &Node<T>) {
        debug_assert!(!node.queued.get(), "a node is in one queue at a time");
        let new = NonNull::from(node);
        node.previous.set(self.tail);
        node.next.set(None);
        match self.tail {
            // SAFETY: a node in the queue is alive (this contract), and we have the lock.
            Some(tail) => unsafe { tail.as_ref() }.next.set(Some(new)),
            None => self.head = Some(new),
        }
        self.tail = Some(new);
        node.queued.set(true);
    }

    /// Puts a node before all others: of somebody who had been the first and must wait on.
    ///
    /// # Safety
    /// As for `push_back`.
    pub unsafe fn push_front(&mut self, node: &Node<T>) {
        debug_assert!(!node.queued.get(), "a node is in one queue at a time");
        let new = NonNull::from(node);
        node.previous.set(None);
        node.next.set(self.head);
        match self.head {
            // SAFETY: as in `push_back`.
            Some(head) => unsafe { head.as_ref() }.previous.set(Some(new)),
            None => self.tail = Some(new),
        }
        self.head = Some(new);
        node.queued.set(true);
    }

    /// Takes a node out, wherever it stands, if it is in; whether it was. *Runs on: its owner.*
    ///
    /// # Safety
    /// The queue is under its lock, and the node was pushed into no other one.
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
            // SAFETY: as in `push_back`.
            Some(previous) => unsafe { previous.as_ref() }.next.set(next),
            None => self.head = next,
        }
        match next {
            // SAFETY: as in `push_back`.
            Some(next) => unsafe { next.as_ref() }.previous.set(previous),
            None => self.tail = previous,
        }
        node.queued.set(false);
    }

    /// The one that has waited longest.
    #[inline]
    pub fn first(&mut self) -> Option<Waiter<'_, T>> {
        Some(Waiter { node: self.head?, queue: self })
    }

    /// The one that has waited longest of those whose payload is as wanted.
    pub fn find(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Option<Waiter<'_, T>> {
        let mut next = self.head;
        while let Some(node) = next {
            // SAFETY: as in `push_back`.
            let this = unsafe { node.as_ref() };
            // SAFETY: the payload of a queued node is for the holder of the lock, who lends it out here only.
            if this.payload.with(|payload| wanted(unsafe { &*payload })) {
                return Some(Waiter { node, queue: self });
            }
            next = this.next.get();
        }
        None
    }

    /// Wakes the one that has waited longest and still does. `grant` may be called for some that do not wait any more.
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

/// One who waits, still in the queue, which is borrowed from its lock.
#[must_use]
pub struct Waiter<'q, T> {
    node: NonNull<Node<T>>,
    queue: &'q mut Queue<T>,
}

impl<'q, T> Waiter<'q, T> {
    /// What it waits with; a grant is put in here before `wake`.
    #[inline]
    pub fn payload(&mut self) -> &mut T {
        // SAFETY: it is queued, so it is alive and its payload is for the holder of the lock, which `queue` is borrowed
        // from; `self` is borrowed alone.
        unsafe { self.node.as_ref() }.payload.with_mut(|payload| unsafe { &mut *payload })
    }

    /// Whether its wait has not ended yet. If it is ended later, its owner wants the lock before it goes.
    pub(crate) fn is_open(&self) -> bool {
        // SAFETY: as in `payload`.
        match &unsafe { self.node.as_ref() }.who {
            Who::Thread { ticket, .. } => ticket.is_open(),
            Who::Future { .. } => true,
        }
    }

    /// Takes it out of the queue. Its wait has ended, or it would wait for ever.
    pub(crate) fn unlink(self) {
        // SAFETY: as in `payload`.
        self.queue.unlink(unsafe { self.node.as_ref() });
    }

    /// Moves it to the end of another queue.
    ///
    /// # Safety
    /// That one is under its lock; the owner finds the node there when it leaves.
    pub(crate) unsafe fn move_to(self, other: &mut Queue<T>) {
        // SAFETY: as in `payload`.
        let node = unsafe { self.node.as_ref() };
        self.queue.unlink(node);
        // SAFETY: the owner of the node has promised that it stays until it is removed, and by this contract it knows
        // where.
        unsafe { other.push_back(node) };
    }

    /// Takes it out of the queue and ends its wait, if that is open still. Drop the [`Wake`] when the lock is released.
    ///
    /// # Errors
    /// Its wait had ended otherwise; what it was granted can be taken back.
    #[inline]
    pub fn wake(self) -> Result<Wake, Over<'q, T>> {
        let Waiter { node, queue } = self;
        // SAFETY: as in `payload`.
        let this = unsafe { node.as_ref() };
        if !broken!("queue_unlinked_after_the_decision") {
            queue.unlink(this);
        }
        match &this.who {
            &Who::Thread { ticket, case } => {
                // From a won decision on, the node may be gone.
                let decision = ticket.decide(case);
                if broken!("queue_unlinked_after_the_decision") {
                    queue.unlink(this);
                }
                match decision {
                    Decision::Lost if !broken!("queue_lost_taken_for_won") => {
                        Err(Over { node, _queue: PhantomData })
                    }
                    Decision::Lost | Decision::Early => Ok(Wake::nobody()),
                    Decision::Parked => Ok(Wake::parked(ticket)),
                }
            }
            Who::Future { granted, waker } => {
                granted.set(true);
                Ok(waker.take().map_or_else(Wake::nobody, Wake::future))
            }
        }
    }
}

impl<T> std::fmt::Debug for Waiter<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiter").finish_non_exhaustive()
    }
}

/// A waiter whose wait had ended otherwise. Its owner wants the lock before it goes, so while we hold it the node lives.
pub struct Over<'q, T> {
    node: NonNull<Node<T>>,
    /// The lock is held.
    _queue: PhantomData<&'q mut Queue<T>>,
}

impl<T> Over<'_, T> {
    /// What it was granted in vain is in here.
    pub fn payload(&mut self) -> &mut T {
        // SAFETY: its wait was decided as something else than woken, so the owner takes the lock, which we hold, before it
        // touches the node again.
        unsafe { self.node.as_ref() }.payload.with_mut(|payload| unsafe { &mut *payload })
    }
}

impl<T> std::fmt::Debug for Over<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Over").finish_non_exhaustive()
    }
}

#[cfg(not(loom))]
impl Ticket {
    /// Ends the wait as woken by `case`, if it is open still.
    #[inline]
    fn decide(self, case: u32) -> Decision {
        self.g.wait.decide_case(self.number, crate::g::wait::Outcome::Woken, case)
    }

    /// Whether the wait that it is of has not been ended yet. *Runs on: any thread.*
    pub(crate) fn is_open(self) -> bool {
        self.g.wait.is_open(self.number)
    }

    /// Ends the wait that it is of, by its own owner before that parks: what case `case` waits for is there already.
    /// `false`: somebody else has ended it. *Runs on: the waiter.*
    pub fn decide_own(self, case: u32) -> bool {
        self.decide(case) != Decision::Lost
    }

    /// Ends the wait as timed out, by its own owner before that parks. `false`: somebody else has ended it.
    /// *Runs on: the waiter.*
    pub fn give_up(self) -> bool {
        self.g.wait.decide(self.number, crate::g::wait::Outcome::TimedOut) != Decision::Lost
    }

    /// Which case ended the wait. *Runs on: the waiter, after it ended as woken, before its next wait.*
    pub fn case(self) -> u32 {
        self.g.wait.case()
    }
}

#[cfg(loom)]
pub mod modelled;
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

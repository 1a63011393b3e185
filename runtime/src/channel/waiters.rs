//! What waiting senders and receivers leave in a channel's queues, and how they are served. `Wanted` is the
//! payload of a receiver, `Grant` is what a receiver gets, and `WaiterKind` marks selects. `Entrant` makes
//! the node of a select's case. `hand_over` gives a message to the first receiver.

use std::time::Instant;

use sched::Ticket;
use waits::queue::{Node, Queue, Wake, Wakes};

use super::promise::Promise;

/// What a receiver is given.
pub(super) enum Grant<T> {
    Message(T),
    /// A select on the sending side will send the message.
    Promise(Promise<T>),
}

/// The payload of a waiting receiver.
pub(super) struct Wanted<T> {
    pub(super) got: Option<Grant<T>>,
    pub(super) kind: WaiterKind,
}

/// The properties of a waiter by which a sender or receiver selects it.
#[derive(Clone, Copy, Default)]
pub(super) struct WaiterKind {
    /// The word of a select's wait, by which a select does not meet itself. 0 for other waiters.
    pub(super) select: u64,
    /// `true` for `Select::ready`, which only waits for the moment at which an operation can be done.
    pub(super) watches: bool,
}

impl<T> Wanted<T> {
    #[inline]
    pub(super) fn message() -> Self {
        Wanted { got: None, kind: WaiterKind::default() }
    }

    fn take_back(&mut self) -> T {
        match self.got.take() {
            Some(Grant::Message(message)) => message,
            _ => unreachable!("the message was just put in"),
        }
    }
}

/// A case of a select that is about to enter a queue.
#[derive(Clone, Copy)]
pub struct Entrant {
    pub(super) ticket: Ticket,
    pub(super) case: u32,
    pub(super) kind: WaiterKind,
}

impl Entrant {
    pub(super) fn node<P>(&self, payload: P) -> Node<P> {
        Node::of_thread(self.ticket, self.case, payload)
    }

    pub(super) fn wanted<T>(&self) -> Node<Wanted<T>> {
        self.node(Wanted { got: None, kind: self.kind })
    }
}

impl std::fmt::Debug for Entrant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entrant").field("case", &self.case).finish_non_exhaustive()
    }
}

/// Gives the message to the receiver that has waited longest, not counting watchers (`watches`). Returns its
/// wake-up.
///
/// # Errors
/// Returns the message if no receiver waits.
#[inline]
pub(super) fn hand_over<T>(receivers: &mut Queue<Wanted<T>>, mut message: T) -> Result<Wake, T> {
    while let Some(mut waiter) = receivers.find(|wanted| !wanted.kind.watches) {
        waiter.payload().got = Some(Grant::Message(message));
        match waiter.wake() {
            Ok(wake) => return Ok(wake),
            Err(mut over) => message = over.payload().take_back(),
        }
    }
    Err(message)
}

/// Wakes all waiters of the queue without giving them anything.
pub(super) fn wake_all<P>(queue: &mut Queue<P>, wakes: &mut Wakes) {
    while let Some(wake) = queue.wake_first(|_| ()) {
        wakes.add(wake);
    }
}

/// Returns `true` if `deadline` has passed.
#[inline]
pub(super) fn is_past(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| deadline <= Instant::now())
}

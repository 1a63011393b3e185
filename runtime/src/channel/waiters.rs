//! Who waits at a channel, and with what: the payloads of the wait queue's nodes.

use std::time::Instant;

use sched::Ticket;
use sched::queue::{Node, Queue, Wake, Wakes};

use super::promise::Promise;

/// What a receiver gets.
pub(super) enum Given<T> {
    Message(T),
    /// A select on the other side will send it.
    Promise(Promise<T>),
}

/// One who waits to receive.
pub(super) struct Wanted<T> {
    pub(super) got: Option<Given<T>>,
    pub(super) who: Who,
}

/// What tells waiters apart.
#[derive(Clone, Copy, Default)]
pub(super) struct Who {
    /// The wait of a select, in one word: it does not meet itself. 0 for others.
    pub(super) select: u64,
    /// It only wants to know when something can be done (`Select::ready`).
    pub(super) watches: bool,
}

impl<T> Wanted<T> {
    #[inline]
    pub(super) fn message() -> Self {
        Wanted { got: None, who: Who::default() }
    }

    fn take_back(&mut self) -> T {
        match self.got.take() {
            Some(Given::Message(message)) => message,
            _ => unreachable!("it was just put in"),
        }
    }
}

/// A select's case, about to enter a queue.
#[derive(Clone, Copy)]
pub struct Entrant {
    pub(super) ticket: Ticket,
    pub(super) case: u32,
    pub(super) who: Who,
}

impl Entrant {
    pub(super) fn node<P>(&self, payload: P) -> Node<P> {
        Node::of_thread(self.ticket, self.case, payload)
    }

    pub(super) fn wanted<T>(&self) -> Node<Wanted<T>> {
        self.node(Wanted { got: None, who: self.who })
    }
}

impl std::fmt::Debug for Entrant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entrant").field("case", &self.case).finish_non_exhaustive()
    }
}

/// Gives the message to the receiver that has waited longest, not counting those that only watch.
///
/// # Errors
/// Nobody waits: the message.
#[inline]
pub(super) fn hand_over<T>(receivers: &mut Queue<Wanted<T>>, mut message: T) -> Result<Wake, T> {
    while let Some(mut waiter) = receivers.find(|wanted| !wanted.who.watches) {
        waiter.payload().got = Some(Given::Message(message));
        match waiter.wake() {
            Ok(wake) => return Ok(wake),
            Err(mut over) => message = over.payload().take_back(),
        }
    }
    Err(message)
}

/// Wakes all who wait, with nothing.
pub(super) fn wake_all<P>(queue: &mut Queue<P>, wakes: &mut Wakes) {
    while let Some(wake) = queue.wake_first(|_| ()) {
        wakes.add(wake);
    }
}

/// Whether there is no time left to wait.
#[inline]
pub(super) fn is_past(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| deadline <= Instant::now())
}

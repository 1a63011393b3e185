//! One case of a select: what it does with its channel, whatever that is.

#![allow(unsafe_code)]

use std::time::Instant;

use sched::queue::Node;

use super::buffered;
use super::error::{RecvError, SendError};
use super::place::{Begun, Seat};
use super::receiver::{Flavor as Receives, Receiver};
use super::rendezvous::{self, Offer, Rendezvous};
use super::sender::{Flavor as Sends, Sender};
use super::waiters::{Entrant, Given, Wanted, Who};

/// An operation on a channel, and its index.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    pub(super) handle: &'a dyn SelectHandle,
    pub(super) index: usize,
}

impl<'a> Case<'a> {
    /// For [`select!`](crate::select).
    pub fn new(handle: &'a dyn SelectHandle, index: usize) -> Self {
        Case { handle, index }
    }
}

impl std::fmt::Debug for Case<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case").field("index", &self.index).finish_non_exhaustive()
    }
}

/// A [`Sender`] or a [`Receiver`]. What it begins it puts into a `Begun`, from which only it
/// takes it.
pub trait SelectHandle {
    /// Begins the operation if it is ready, and puts what has begun into the empty seat.
    fn try_begin(&self, begun: &mut Begun) -> bool;

    /// Whether it could begin.
    fn is_ready(&self) -> bool;

    /// When it gets ready by itself.
    fn due(&self) -> Option<Instant>;

    /// Enters the queue of its channel, by a node in the seat. Returns `false` if the case is ready.
    ///
    /// # Safety
    /// The seat is empty. It stays where it is until `leave` or `accept`, one of which follows if this returns `true`; until
    /// then no `&mut` leads to it.
    unsafe fn enter(&self, seat: &Seat, entrant: Entrant) -> bool;

    /// Leaves the queue, and empties the seat.
    ///
    /// # Safety
    /// It entered by that seat, and was not accepted.
    unsafe fn leave(&self, seat: &Seat);

    /// Begins with what it was given; `false` if that is nothing.
    ///
    /// # Safety
    /// It entered by that seat, and its case ended the wait. `begun` is empty.
    unsafe fn accept(&self, seat: &Seat, begun: &mut Begun) -> bool;

    /// Takes back what has begun.
    ///
    /// # Safety
    /// It began it, and it is taken out once.
    unsafe fn abandon(&self, begun: &mut Begun);
}

/// What a receive has begun with.
type Received<T> = Result<Given<T>, RecvError>;

impl<T> Receiver<T> {
    fn begin(&self) -> Option<Received<T>> {
        let given = |message: Result<T, RecvError>| message.map(Given::Message);
        match &self.0 {
            Receives::Bounded(channel) => channel.begin_recv().map(given),
            Receives::Unbounded(channel) => channel.begin_recv().map(given),
            Receives::Rendezvous(channel) => channel.begin_recv(),
            Receives::Timed(timed, message) => timed.try_recv().ok().map(|due| given(Ok(message(due)))),
            Receives::Never => None,
        }
    }

    /// # Safety
    /// It began that, and it is taken out once.
    pub(super) unsafe fn finish(&self, begun: &mut Begun) -> Result<T, RecvError> {
        // SAFETY: `try_begin` or `accept` put it in.
        match (unsafe { begun.take::<Received<T>>() }?, &self.0) {
            (Given::Message(message), _) => Ok(message),
            (given, Receives::Rendezvous(channel)) => channel.finish_recv(given),
            (Given::Promise(_), _) => unreachable!("only a channel without a buffer promises"),
        }
    }
}

impl<T> SelectHandle for Receiver<T> {
    fn try_begin(&self, begun: &mut Begun) -> bool {
        // SAFETY: `begun` is borrowed by this call alone.
        self.begin().map(|received| unsafe { begun.put(received) }).is_some()
    }

    fn is_ready(&self) -> bool {
        match &self.0 {
            Receives::Bounded(channel) => channel.can_recv(),
            Receives::Unbounded(channel) => channel.can_recv(),
            Receives::Rendezvous(channel) => channel.can_recv(),
            Receives::Timed(timed, _) => timed.is_ready(),
            Receives::Never => false,
        }
    }

    fn due(&self) -> Option<Instant> {
        if let Receives::Timed(timed, _) = &self.0 { timed.due() } else { None }
    }

    unsafe fn enter(&self, seat: &Seat, entrant: Entrant) -> bool {
        // SAFETY: the seat is empty, by this function's contract; what is put in is then got.
        let node = unsafe {
            seat.put(entrant.wanted::<T>());
            seat.get::<Node<Wanted<T>>>()
        };
        // SAFETY: the node stays where it is, by this function's contract, until it is taken out in `leave` or `accept`.
        let entered = unsafe {
            match &self.0 {
                Receives::Bounded(channel) => channel.enter_recv(node),
                Receives::Unbounded(channel) => channel.enter_recv(node),
                Receives::Rendezvous(channel) => channel.enter_recv(node, entrant.who),
                Receives::Timed(timed, _) => timed.enter_recv(node),
                Receives::Never => true,
            }
        };
        if !entered {
            // SAFETY: it is in no queue.
            drop(unsafe { seat.take::<Node<Wanted<T>>>() });
        }
        entered
    }

    unsafe fn leave(&self, seat: &Seat) {
        // SAFETY: `enter` put it in.
        let node = unsafe { seat.get::<Node<Wanted<T>>>() };
        // SAFETY: it was entered there.
        unsafe {
            match &self.0 {
                Receives::Bounded(channel) => channel.leave_recv(node),
                Receives::Unbounded(channel) => channel.leave_recv(node),
                Receives::Rendezvous(channel) => channel.leave_recv(node),
                Receives::Timed(timed, _) => timed.leave_recv(node),
                Receives::Never => {}
            }
        }
        // SAFETY: it is in no queue any more.
        drop(unsafe { seat.take::<Node<Wanted<T>>>() });
    }

    unsafe fn accept(&self, seat: &Seat, begun: &mut Begun) -> bool {
        // SAFETY: `enter` put it in, and whoever ended the wait took it out of its queue before.
        let wanted = unsafe { seat.take::<Node<Wanted<T>>>() }.into_payload();
        // SAFETY: `begun` is borrowed by this call alone.
        wanted.got.map(|given| unsafe { begun.put::<Received<T>>(Ok(given)) }).is_some()
    }

    unsafe fn abandon(&self, begun: &mut Begun) {
        // SAFETY: by this function's contract.
        let Ok(given) = (unsafe { begun.take::<Received<T>>() }) else { return };
        match (given, &self.0) {
            (Given::Message(message), Receives::Bounded(channel)) => channel.abandon_recv(message),
            (Given::Message(message), Receives::Unbounded(channel)) => channel.abandon_recv(message),
            (given, Receives::Rendezvous(channel)) => channel.abandon_recv(given),
            // A point in time is lost.
            _ => {}
        }
    }
}

/// What a send has begun with.
enum Right<T> {
    Buffered(buffered::Right),
    Rendezvous(rendezvous::Right<T>),
}

impl<T> Sender<T> {
    fn begin(&self) -> Option<Right<T>> {
        match &self.0 {
            Sends::Bounded(channel) => channel.begin_send().map(Right::Buffered),
            Sends::Unbounded(channel) => channel.begin_send().map(Right::Buffered),
            Sends::Rendezvous(channel) => channel.begin_send().map(Right::Rendezvous),
        }
    }

    /// # Safety
    /// It began that, and it is taken out once.
    pub(super) unsafe fn finish(&self, begun: &mut Begun, message: T) -> Result<(), SendError<T>> {
        // SAFETY: `try_begin` or `accept` put it in.
        match (unsafe { begun.take::<Right<T>>() }, &self.0) {
            (Right::Buffered(right), Sends::Bounded(channel)) => channel.finish_send(right, message),
            (Right::Buffered(right), Sends::Unbounded(channel)) => channel.finish_send(right, message),
            (Right::Rendezvous(right), Sends::Rendezvous(channel)) => channel.finish_send(right, message),
            _ => unreachable!("a right is one of its own channel"),
        }
    }
}

impl<T> SelectHandle for Sender<T> {
    fn try_begin(&self, begun: &mut Begun) -> bool {
        // SAFETY: `begun` is borrowed by this call alone.
        self.begin().map(|right| unsafe { begun.put(right) }).is_some()
    }

    fn is_ready(&self) -> bool {
        match &self.0 {
            Sends::Bounded(channel) => channel.can_send(),
            Sends::Unbounded(channel) => channel.can_send(),
            Sends::Rendezvous(channel) => channel.can_send(),
        }
    }

    fn due(&self) -> Option<Instant> {
        None
    }

    unsafe fn enter(&self, seat: &Seat, entrant: Entrant) -> bool {
        // SAFETY: what is put in is what is then got and, if need be, taken out. The node stays where it is, by this
        // function's contract, until it is taken out in `leave` or `accept`.
        unsafe {
            match &self.0 {
                Sends::Rendezvous(channel) => {
                    seat.put(entrant.node(Offer::<T>::Select(entrant.who)));
                    let entered = channel.enter_send(seat.get::<Node<Offer<T>>>(), entrant.who);
                    if !entered {
                        drop(seat.take::<Node<Offer<T>>>());
                    }
                    entered
                }
                buffered => {
                    seat.put(entrant.node(entrant.who));
                    let node = seat.get::<Node<Who>>();
                    match buffered {
                        Sends::Bounded(channel) => channel.enter_send(node),
                        Sends::Unbounded(channel) => channel.enter_send(node),
                        Sends::Rendezvous(_) => unreachable!("that was the other arm"),
                    }
                }
            }
        }
    }

    unsafe fn leave(&self, seat: &Seat) {
        // SAFETY: `enter` put it in, and entered it there; then it is in no queue any more.
        unsafe {
            match &self.0 {
                Sends::Bounded(channel) => channel.leave_send(seat.get()),
                Sends::Unbounded(channel) => channel.leave_send(seat.get()),
                Sends::Rendezvous(channel) => {
                    channel.leave_send(seat.get());
                    drop(seat.take::<Node<Offer<T>>>());
                }
            }
        }
    }

    unsafe fn accept(&self, seat: &Seat, begun: &mut Begun) -> bool {
        match &self.0 {
            // There is room: it is tried again.
            Sends::Bounded(_) | Sends::Unbounded(_) => false,
            Sends::Rendezvous(_) => {
                // SAFETY: `enter` put it in, and whoever ended the wait took it out of its queue before.
                let offer = unsafe { seat.take::<Node<Offer<T>>>() }.into_payload();
                // SAFETY: `begun` is borrowed by this call alone.
                Rendezvous::right_of(offer)
                    .map(|right| unsafe { begun.put(Right::Rendezvous(right)) })
                    .is_some()
            }
        }
    }

    unsafe fn abandon(&self, begun: &mut Begun) {
        // SAFETY: by this function's contract.
        match (unsafe { begun.take::<Right<T>>() }, &self.0) {
            (Right::Buffered(right), Sends::Bounded(channel)) => channel.abandon_send(right),
            (Right::Buffered(right), Sends::Unbounded(channel)) => channel.abandon_send(right),
            (Right::Rendezvous(right), Sends::Rendezvous(channel)) => channel.abandon_send(right),
            _ => unreachable!("a right is one of its own channel"),
        }
    }
}

//! One case of a select: how a sender or a receiver begins, waits and completes in it, for each kind of
//! channel.

#![allow(unsafe_code)]

use std::time::Instant;

use sched::Awaited;
use waits::queue::Node;

use super::buffered;
use super::error::{RecvError, SendError};
use super::receiver::{Flavor as Receives, Receiver};
use super::rendezvous::{self, Offer, Rendezvous};
use super::sender::{Flavor as Sends, Sender};
use super::shared::look;
use super::slot::{Begun, Seat};
use super::waiters::{Entrant, Grant, WaiterKind, Wanted};

/// An operation on a channel, and its index in the select.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    pub(super) handle: &'a dyn SelectHandle,
    pub(super) index: usize,
}

impl<'a> Case<'a> {
    /// For [`select!`](crate::select) only.
    pub fn new(handle: &'a dyn SelectHandle, index: usize) -> Self {
        Case { handle, index }
    }
}

impl std::fmt::Debug for Case<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case").field("index", &self.index).finish_non_exhaustive()
    }
}

/// A [`Sender`] or a [`Receiver`] in a select.
///
/// An operation goes in two steps. It *begins*: the receive has its message (or the promise of one), the send
/// has its room or its receiver. What it has begun with lies in a `Begun` slot. Then the user completes it
/// with `finish`, or it is abandoned. Only the handle that filled a slot takes the value out.
pub trait SelectHandle {
    /// Begins the operation if it is ready. Returns `true` and fills the empty slot `begun`, or returns
    /// `false`.
    fn try_begin(&self, begun: &mut Begun) -> bool;

    /// Returns `true` if the operation could begin now.
    fn is_ready(&self) -> bool;

    /// Returns the moment at which the operation becomes ready by itself, or `None`.
    fn due(&self) -> Option<Instant>;

    /// Tells a dump what the case waits for; `None` if that is not known. *Runs on: any thread, while the
    /// select is parked.*
    fn awaited(&self) -> Option<Awaited> {
        None
    }

    /// Enters the queue of its channel with a node in `seat`. Returns `false` if the case is ready; the seat
    /// is then empty.
    ///
    /// # Safety
    /// The seat is empty. It stays where it is until `leave` or `accept`. If this returns `true`, one of
    /// these two follows. Until then no `&mut` leads to the seat.
    unsafe fn enter(&self, seat: &Seat, entrant: Entrant) -> bool;

    /// Leaves the queue and empties the seat.
    ///
    /// # Safety
    /// `enter` returned `true` for this seat, and neither `leave` nor `accept` has been called for it since.
    unsafe fn leave(&self, seat: &Seat);

    /// Fills `begun` with what the waker granted, and empties the seat. Returns `false` if the waker granted
    /// nothing.
    ///
    /// # Safety
    /// `enter` returned `true` for this seat, and this case was chosen by the waker, which took the node out
    /// of its queue. `begun` is empty.
    unsafe fn accept(&self, seat: &Seat, begun: &mut Begun) -> bool;

    /// Gives back what the operation has begun with.
    ///
    /// # Safety
    /// This handle filled `begun`, and the value is taken out once.
    unsafe fn abandon(&self, begun: &mut Begun);
}

/// What a receive has begun with: a message, the promise of one, or the end of the channel.
type BegunReceive<T> = Result<Grant<T>, RecvError>;

impl<T> Receiver<T> {
    fn begin(&self) -> Option<BegunReceive<T>> {
        let given = |message: Result<T, RecvError>| message.map(Grant::Message);
        match &self.0 {
            Receives::Bounded(channel) => channel.begin_recv().map(given),
            Receives::Unbounded(channel) => channel.begin_recv().map(given),
            Receives::Rendezvous(channel) => channel.begin_recv(),
            Receives::Timed(timed, message) => timed.try_recv().ok().map(|due| given(Ok(message(due)))),
            Receives::Never => None,
        }
    }

    /// # Safety
    /// This handle filled `begun`, and the value is taken out once.
    pub(super) unsafe fn finish(&self, begun: &mut Begun) -> Result<T, RecvError> {
        // SAFETY: `try_begin` or `accept` of this handle filled the slot with this type, by the contract of
        // this function.
        match (unsafe { begun.take::<BegunReceive<T>>() }?, &self.0) {
            (Grant::Message(message), _) => Ok(message),
            (given, Receives::Rendezvous(channel)) => channel.finish_recv(given),
            (Grant::Promise(_), _) => unreachable!("only a channel without a buffer makes promises"),
        }
    }
}

impl<T> SelectHandle for Receiver<T> {
    fn awaited(&self) -> Option<Awaited> {
        match &self.0 {
            Receives::Bounded(channel) => look(&**channel),
            Receives::Unbounded(channel) => look(&**channel),
            Receives::Rendezvous(channel) => look(&**channel),
            Receives::Timed(..) | Receives::Never => None,
        }
    }

    fn try_begin(&self, begun: &mut Begun) -> bool {
        // SAFETY: the slot is empty, and `&mut` makes this call its only user.
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
        // SAFETY: the seat is empty, by the contract of `enter`. `get` reads the type that `put` has written.
        let node = unsafe {
            seat.put(entrant.wanted::<T>());
            seat.get::<Node<Wanted<T>>>()
        };
        // SAFETY: the node stays where it is until it is taken out in `leave` or `accept`, by the contract of
        // `enter`.
        let entered = unsafe {
            match &self.0 {
                Receives::Bounded(channel) => channel.enter_recv(node),
                Receives::Unbounded(channel) => channel.enter_recv(node),
                Receives::Rendezvous(channel) => channel.enter_recv(node, entrant.kind),
                Receives::Timed(timed, _) => timed.enter_recv(node),
                Receives::Never => true,
            }
        };
        if !entered {
            // SAFETY: the node was not entered, so no queue leads to it.
            drop(unsafe { seat.take::<Node<Wanted<T>>>() });
        }
        entered
    }

    unsafe fn leave(&self, seat: &Seat) {
        // SAFETY: `enter` filled the seat with this type.
        let node = unsafe { seat.get::<Node<Wanted<T>>>() };
        // SAFETY: `enter` entered this node in this channel's queue.
        unsafe {
            match &self.0 {
                Receives::Bounded(channel) => channel.leave_recv(node),
                Receives::Unbounded(channel) => channel.leave_recv(node),
                Receives::Rendezvous(channel) => channel.leave_recv(node),
                Receives::Timed(timed, _) => timed.leave_recv(node),
                Receives::Never => {}
            }
        }
        // SAFETY: the node has left its queue, so no queue leads to it.
        drop(unsafe { seat.take::<Node<Wanted<T>>>() });
    }

    unsafe fn accept(&self, seat: &Seat, begun: &mut Begun) -> bool {
        // SAFETY: `enter` filled the seat with this type. The waker took the node out of its queue before it
        // ended the wait.
        let wanted = unsafe { seat.take::<Node<Wanted<T>>>() }.into_payload();
        // SAFETY: the slot is empty, and `&mut` makes this call its only user.
        wanted.got.map(|given| unsafe { begun.put::<BegunReceive<T>>(Ok(given)) }).is_some()
    }

    unsafe fn abandon(&self, begun: &mut Begun) {
        // SAFETY: this handle filled the slot with this type, by the contract of `abandon`.
        let Ok(given) = (unsafe { begun.take::<BegunReceive<T>>() }) else { return };
        match (given, &self.0) {
            (Grant::Message(message), Receives::Bounded(channel)) => channel.abandon_recv(message),
            (Grant::Message(message), Receives::Unbounded(channel)) => channel.abandon_recv(message),
            (given, Receives::Rendezvous(channel)) => channel.abandon_recv(given),
            // A moment of a timed channel is dropped.
            _ => {}
        }
    }
}

/// What a send has begun with: room in a buffer, a receiver that waits for a promised message, or the end of
/// the channel.
enum BegunSend<T> {
    Buffered(buffered::BegunSend),
    Rendezvous(rendezvous::BegunSend<T>),
}

impl<T> Sender<T> {
    fn begin(&self) -> Option<BegunSend<T>> {
        match &self.0 {
            Sends::Bounded(channel) => channel.begin_send().map(BegunSend::Buffered),
            Sends::Unbounded(channel) => channel.begin_send().map(BegunSend::Buffered),
            Sends::Rendezvous(channel) => channel.begin_send().map(BegunSend::Rendezvous),
        }
    }

    /// # Safety
    /// This handle filled `begun`, and the value is taken out once.
    pub(super) unsafe fn finish(&self, begun: &mut Begun, message: T) -> Result<(), SendError<T>> {
        // SAFETY: `try_begin` or `accept` of this handle filled the slot with this type, by the contract of
        // this function.
        match (unsafe { begun.take::<BegunSend<T>>() }, &self.0) {
            (BegunSend::Buffered(begun_send), Sends::Bounded(channel)) => {
                channel.finish_send(begun_send, message)
            }
            (BegunSend::Buffered(begun_send), Sends::Unbounded(channel)) => {
                channel.finish_send(begun_send, message)
            }
            (BegunSend::Rendezvous(begun_send), Sends::Rendezvous(channel)) => {
                channel.finish_send(begun_send, message)
            }
            _ => unreachable!("a send completes on the channel on which it has begun"),
        }
    }
}

impl<T> SelectHandle for Sender<T> {
    fn awaited(&self) -> Option<Awaited> {
        match &self.0 {
            Sends::Bounded(channel) => look(&**channel),
            Sends::Unbounded(channel) => look(&**channel),
            Sends::Rendezvous(channel) => look(&**channel),
        }
    }

    fn try_begin(&self, begun: &mut Begun) -> bool {
        // SAFETY: the slot is empty, and `&mut` makes this call its only user.
        self.begin().map(|begun_send| unsafe { begun.put(begun_send) }).is_some()
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
        // SAFETY: `get` and `take` use the type that `put` has written. The node stays where it is until it
        // is taken out in `leave` or `accept`, by the contract of `enter`.
        unsafe {
            match &self.0 {
                Sends::Rendezvous(channel) => {
                    seat.put(entrant.node(Offer::<T>::Select(entrant.kind)));
                    let entered = channel.enter_send(seat.get::<Node<Offer<T>>>(), entrant.kind);
                    if !entered {
                        drop(seat.take::<Node<Offer<T>>>());
                    }
                    entered
                }
                buffered => {
                    seat.put(entrant.node(entrant.kind));
                    let node = seat.get::<Node<WaiterKind>>();
                    match buffered {
                        Sends::Bounded(channel) => channel.enter_send(node),
                        Sends::Unbounded(channel) => channel.enter_send(node),
                        Sends::Rendezvous(_) => {
                            unreachable!("a rendezvous channel is handled in the arm above")
                        }
                    }
                }
            }
        }
    }

    unsafe fn leave(&self, seat: &Seat) {
        // SAFETY: `enter` filled the seat with this type and entered the node in this channel's queue. After
        // `leave_send` no queue leads to it.
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
            // The waker made room. The operation is tried again.
            Sends::Bounded(_) | Sends::Unbounded(_) => false,
            Sends::Rendezvous(_) => {
                // SAFETY: `enter` filled the seat with this type. The waker took the node out of its queue
                // before it ended the wait.
                let offer = unsafe { seat.take::<Node<Offer<T>>>() }.into_payload();
                // SAFETY: the slot is empty, and `&mut` makes this call its only user.
                Rendezvous::begun_send_of(offer)
                    .map(|begun_send| unsafe { begun.put(BegunSend::Rendezvous(begun_send)) })
                    .is_some()
            }
        }
    }

    unsafe fn abandon(&self, begun: &mut Begun) {
        // SAFETY: this handle filled the slot with this type, by the contract of `abandon`.
        match (unsafe { begun.take::<BegunSend<T>>() }, &self.0) {
            (BegunSend::Buffered(begun_send), Sends::Bounded(channel)) => channel.abandon_send(begun_send),
            (BegunSend::Buffered(begun_send), Sends::Unbounded(channel)) => channel.abandon_send(begun_send),
            (BegunSend::Rendezvous(begun_send), Sends::Rendezvous(channel)) => {
                channel.abandon_send(begun_send)
            }
            _ => unreachable!("a send completes on the channel on which it has begun"),
        }
    }
}

//! What `case.rs` calls for a select on a channel without a buffer. Each operation begins, then finishes or
//! is abandoned. A send that has begun has met a receiver and owes it the message that a `Promise` stands
//! for. A receive that has begun has a message or a promise. `enter_*` and `leave_*` put the node of a
//! waiting select into the channel's queue and take it out.

#![allow(unsafe_code)]

use waits::queue::{Node, Wake};

use super::super::promise::Promise;
use super::super::waiters::{Grant, WaiterKind, Wanted};
use super::{Offer, RecvError, Rendezvous, SendError};

/// A send that a select has begun.
pub(in super::super) enum BegunSend<T> {
    /// With the wake-up of the receiver for the moment at which the promise is kept, unless that receiver
    /// runs already.
    Promise(Promise<T>, Option<Wake>),
    Disconnected,
}

impl<T> Rendezvous<T> {
    /// Meets a receiver, which then waits for the message. Returns `None` if none waits, and `Disconnected`
    /// if none is left.
    pub(in super::super) fn begin_send(&self) -> Option<BegunSend<T>> {
        let mut state = self.0.lock();
        if state.closed {
            return Some(BegunSend::Disconnected);
        }
        while let Some(mut receiver) = state.receivers.find(|wanted| !wanted.kind.watches) {
            let promise = Promise::new();
            receiver.payload().got = Some(Grant::Promise(promise.other()));
            match receiver.wake() {
                // The wake-up is kept until there is a message.
                Ok(wake) => return Some(BegunSend::Promise(promise, Some(wake))),
                Err(mut over) => over.payload().got = None,
            }
        }
        None
    }

    pub(in super::super) fn finish_send(
        &self,
        begun_send: BegunSend<T>,
        message: T,
    ) -> Result<(), SendError<T>> {
        let BegunSend::Promise(promise, wake) = begun_send else { return Err(SendError(message)) };
        let kept = promise.fulfil(message);
        drop(wake);
        match kept {
            Ok(()) => Ok(()),
            // The receiver has left meanwhile.
            Err(message) => self.send(message, None).map_err(|error| SendError(error.into_inner())),
        }
    }

    pub(in super::super) fn abandon_send(&self, begun_send: BegunSend<T>) {
        if let BegunSend::Promise(promise, wake) = begun_send {
            promise.break_promise();
            drop(wake);
        }
    }

    /// Returns the send that a receiver has begun by meeting a waiting select, or `None`.
    pub(in super::super) fn begun_send_of(offer: Offer<T>) -> Option<BegunSend<T>> {
        if let Offer::Promised(promise) = offer { Some(BegunSend::Promise(promise, None)) } else { None }
    }

    /// Takes a message or the promise of one. Returns an error if none will come any more, and `None` if
    /// there is none now.
    pub(in super::super) fn begin_recv(&self) -> Option<Result<Grant<T>, RecvError>> {
        let mut state = self.0.lock();
        match state.meet_sender(WaiterKind::default()) {
            Some((given, wake)) => {
                drop(state);
                drop(wake);
                Some(Ok(given))
            }
            None => state.closed.then_some(Err(RecvError)),
        }
    }

    pub(in super::super) fn finish_recv(&self, given: Grant<T>) -> Result<T, RecvError> {
        let message = match given {
            Grant::Message(message) => Some(message),
            Grant::Promise(promise) => promise.wait(),
        };
        // The promise was broken by a select that unwinds.
        message.map_or_else(|| self.recv(None).map_err(|_| RecvError), Ok)
    }

    pub(in super::super) fn abandon_recv(&self, given: Grant<T>) {
        let message = match given {
            Grant::Message(message) => Some(message),
            Grant::Promise(promise) => promise.leave(),
        };
        if let Some(message) = message {
            self.take_back(self.0.lock(), message);
        }
    }

    /// Enters the queue of waiting receivers. Returns `false` if there is a sender or an end already.
    ///
    /// # Safety
    /// The contract of `Queue::push_back` holds, with `leave_recv` in the place of `remove`.
    pub(in super::super) unsafe fn enter_recv(&self, node: &Node<Wanted<T>>, kind: WaiterKind) -> bool {
        let mut state = self.0.lock();
        if state.closed || state.has_sender(kind) {
            return false;
        }
        // SAFETY: under the lock of the queue. The caller keeps the contract of `push_back`.
        unsafe { state.receivers.push_back(node) };
        let watchers = if kind.watches { None } else { state.watching_senders() };
        drop(state);
        drop(watchers);
        true
    }

    /// # Safety
    /// The node was entered by `enter_recv` of this channel and has not left since.
    pub(in super::super) unsafe fn leave_recv(&self, node: &Node<Wanted<T>>) {
        // SAFETY: under the lock of the queue. The node is in it, by the contract of `leave_recv`.
        unsafe { self.0.lock().receivers.remove(node) };
    }

    /// Enters the queue of waiting senders. Returns `false` if there is a receiver or an end already.
    ///
    /// # Safety
    /// The contract of `Queue::push_back` holds, with `leave_send` in the place of `remove`.
    pub(in super::super) unsafe fn enter_send(&self, node: &Node<Offer<T>>, kind: WaiterKind) -> bool {
        let mut state = self.0.lock();
        if state.closed || state.has_receiver(kind) {
            return false;
        }
        // SAFETY: under the lock of the queue. The caller keeps the contract of `push_back`.
        unsafe { state.senders.push_back(node) };
        let watchers = if kind.watches { None } else { state.watching_receivers() };
        drop(state);
        drop(watchers);
        true
    }

    /// # Safety
    /// The node was entered by `enter_send` of this channel and has not left since.
    pub(in super::super) unsafe fn leave_send(&self, node: &Node<Offer<T>>) {
        // SAFETY: under the lock of the queue. The node is in it, by the contract of `leave_send`.
        unsafe { self.0.lock().senders.remove(node) };
    }

    pub(in super::super) fn can_recv(&self) -> bool {
        let mut state = self.0.lock();
        state.closed || state.has_sender(WaiterKind::default())
    }

    pub(in super::super) fn can_send(&self) -> bool {
        let mut state = self.0.lock();
        state.closed || state.has_receiver(WaiterKind::default())
    }
}

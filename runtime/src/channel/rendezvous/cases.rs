//! What a select does at a channel without a buffer.

#![allow(unsafe_code)]

use sched::queue::{Node, Wake};

use super::super::promise::Promise;
use super::super::waiters::{Given, Wanted, Who};
use super::{Offer, RecvError, Rendezvous, SendError};

/// A select's right to send.
pub(in super::super) enum Right<T> {
    /// With it, the receiver to be woken when the promise is kept, unless it runs already.
    Promise(Promise<T>, Option<Wake>),
    Disconnected,
}

impl<T> Rendezvous<T> {
    /// Meets a receiver, which then waits for the message, or says that there will be none.
    pub(in super::super) fn begin_send(&self) -> Option<Right<T>> {
        let mut state = self.0.lock();
        if state.closed {
            return Some(Right::Disconnected);
        }
        while let Some(mut receiver) = state.receivers.find(|wanted| !wanted.who.watches) {
            let promise = Promise::new();
            receiver.payload().got = Some(Given::Promise(promise.other()));
            match receiver.wake() {
                // The wake-up is kept until there is a message.
                Ok(wake) => return Some(Right::Promise(promise, Some(wake))),
                Err(mut over) => over.payload().got = None,
            }
        }
        None
    }

    pub(in super::super) fn finish_send(&self, right: Right<T>, message: T) -> Result<(), SendError<T>> {
        let Right::Promise(promise, wake) = right else { return Err(SendError(message)) };
        let kept = promise.keep(message);
        drop(wake);
        match kept {
            Ok(()) => Ok(()),
            // The receiver has gone meanwhile.
            Err(message) => self.send(message, None).map_err(|error| SendError(error.into_inner())),
        }
    }

    pub(in super::super) fn abandon_send(&self, right: Right<T>) {
        if let Right::Promise(promise, wake) = right {
            promise.break_it();
            drop(wake);
        }
    }

    /// The right that a sender's node was given while it waited.
    pub(in super::super) fn right_of(offer: Offer<T>) -> Option<Right<T>> {
        if let Offer::Promised(promise) = offer { Some(Right::Promise(promise, None)) } else { None }
    }

    /// Takes a message or the promise of one, or says that none will come; `None` if there is none now.
    pub(in super::super) fn begin_recv(&self) -> Option<Result<Given<T>, RecvError>> {
        let mut state = self.0.lock();
        match state.meet_sender(Who::default()) {
            Some((given, wake)) => {
                drop(state);
                drop(wake);
                Some(Ok(given))
            }
            None => state.closed.then_some(Err(RecvError)),
        }
    }

    pub(in super::super) fn finish_recv(&self, given: Given<T>) -> Result<T, RecvError> {
        let message = match given {
            Given::Message(message) => Some(message),
            Given::Promise(promise) => promise.wait(),
        };
        // A select that unwinds breaks its promise.
        message.map_or_else(|| self.recv(None).map_err(|_| RecvError), Ok)
    }

    pub(in super::super) fn abandon_recv(&self, given: Given<T>) {
        let message = match given {
            Given::Message(message) => Some(message),
            Given::Promise(promise) => promise.leave(),
        };
        if let Some(message) = message {
            self.take_back(self.0.lock(), message);
        }
    }

    /// Enters the queue of those who wait for a message; `false` if there is something already.
    ///
    /// # Safety
    /// As for `Queue::push_back`, with `leave_recv` for `remove`.
    pub(in super::super) unsafe fn enter_recv(&self, node: &Node<Wanted<T>>, who: Who) -> bool {
        let mut state = self.0.lock();
        if state.closed || state.has_sender(who) {
            return false;
        }
        // SAFETY: under the lock; the rest is this function's contract.
        unsafe { state.receivers.push_back(node) };
        let watchers = if who.watches { None } else { state.watching_senders() };
        drop(state);
        drop(watchers);
        true
    }

    /// # Safety
    /// The node was given to `enter_recv` of this channel, and to nobody else.
    pub(in super::super) unsafe fn leave_recv(&self, node: &Node<Wanted<T>>) {
        // SAFETY: under the lock; the rest is this function's contract.
        unsafe { self.0.lock().receivers.remove(node) };
    }

    /// Enters the queue of those who wait for a receiver; `false` if there is something already.
    ///
    /// # Safety
    /// As for `Queue::push_back`, with `leave_send` for `remove`.
    pub(in super::super) unsafe fn enter_send(&self, node: &Node<Offer<T>>, who: Who) -> bool {
        let mut state = self.0.lock();
        if state.closed || state.has_receiver(who) {
            return false;
        }
        // SAFETY: under the lock; the rest is this function's contract.
        unsafe { state.senders.push_back(node) };
        let watchers = if who.watches { None } else { state.watching_receivers() };
        drop(state);
        drop(watchers);
        true
    }

    /// # Safety
    /// The node was given to `enter_send` of this channel, and to nobody else.
    pub(in super::super) unsafe fn leave_send(&self, node: &Node<Offer<T>>) {
        // SAFETY: under the lock; the rest is this function's contract.
        unsafe { self.0.lock().senders.remove(node) };
    }

    pub(in super::super) fn can_recv(&self) -> bool {
        let mut state = self.0.lock();
        state.closed || state.has_sender(Who::default())
    }

    pub(in super::super) fn can_send(&self) -> bool {
        let mut state = self.0.lock();
        state.closed || state.has_receiver(Who::default())
    }
}

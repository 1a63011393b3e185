//! What `case.rs` calls for a select on a buffered channel. Each operation begins, then finishes or is
//! abandoned. A send that has begun has reserved its room. A receive that has begun has its message.
//! `enter_*` and `leave_*` put the node of a waiting select into the channel's queue and take it out.

#![allow(unsafe_code)]

use waits::queue::Node;

use super::super::model::broken;
use super::super::waiters::{WaiterKind, Wanted, hand_over};
use super::{Buffer, Buffered, RecvError, SendError, TryRecvError};

/// A send that a select has begun.
pub(in super::super) enum BegunSend {
    Room,
    Disconnected,
}

impl<T, B: Buffer<T>> Buffered<T, B> {
    /// Reserves room for a message that is sent later. Returns `None` if there is no room, and `Disconnected`
    /// if no receiver is left.
    pub(in super::super) fn begin_send(&self) -> Option<BegunSend> {
        let mut tail = self.tail.lock.lock();
        if tail.closed {
            return Some(BegunSend::Disconnected);
        }
        self.has_room(&mut tail).then(|| {
            tail.reserved += 1;
            BegunSend::Room
        })
    }

    pub(in super::super) fn finish_send(
        &self,
        begun_send: BegunSend,
        message: T,
    ) -> Result<(), SendError<T>> {
        if matches!(begun_send, BegunSend::Disconnected) {
            return Err(SendError(message));
        }
        let mut tail = self.lock_tail();
        tail.reserved -= 1;
        if tail.closed {
            return self.finish_send_when_closed(tail, message);
        }
        match hand_over(&mut tail.receivers, message) {
            Ok(wake) => {
                drop(tail);
                drop(wake);
                // The room was not needed.
                if !broken!("channel_select_keeps_room") {
                    Self::wake_sender(self.head.lock.lock());
                }
            }
            Err(message) => {
                self.put(&mut tail, message);
                Self::wake_watchers(tail);
            }
        }
        Ok(())
    }

    pub(in super::super) fn abandon_send(&self, begun_send: BegunSend) {
        if matches!(begun_send, BegunSend::Room) {
            let mut tail = self.tail.lock.lock();
            tail.reserved -= 1;
            if tail.closed {
                return self.abandon_send_when_closed(tail);
            }
            drop(tail);
            Self::wake_sender(self.head.lock.lock());
        }
    }

    /// Takes a message. Returns an error if no message will come any more, and `None` if there is none now.
    pub(in super::super) fn begin_recv(&self) -> Option<Result<T, RecvError>> {
        match self.try_recv() {
            Ok(message) => Some(Ok(message)),
            Err(TryRecvError::Disconnected) => Some(Err(RecvError)),
            Err(TryRecvError::Empty) => None,
        }
    }

    pub(in super::super) fn abandon_recv(&self, message: T) {
        self.take_back(self.tail.lock.lock(), message);
    }

    /// Enters the queue of waiting receivers. Returns `false` if there is a message or an end already.
    ///
    /// # Safety
    /// The contract of `Queue::push_back` holds, with `leave_recv` in the place of `remove`.
    pub(in super::super) unsafe fn enter_recv(&self, node: &Node<Wanted<T>>) -> bool {
        let Some(mut tail) = self.lock_empty_tail() else { return false };
        // SAFETY: under the lock of the queue. The caller keeps the contract of `push_back`.
        unsafe { tail.receivers.push_back(node) };
        true
    }

    /// # Safety
    /// The node was entered by `enter_recv` of this channel and has not left since.
    pub(in super::super) unsafe fn leave_recv(&self, node: &Node<Wanted<T>>) {
        // SAFETY: under the lock of the queue. The node is in it, by the contract of `leave_recv`.
        unsafe { self.tail.lock.lock().receivers.remove(node) };
    }

    /// Enters the queue of waiting senders. Returns `false` if there is room or an end already.
    ///
    /// # Safety
    /// The contract of `Queue::push_back` holds, with `leave_send` in the place of `remove`.
    pub(in super::super) unsafe fn enter_send(&self, node: &Node<WaiterKind>) -> bool {
        let tail = self.tail.lock.lock();
        if tail.closed {
            return false;
        }
        let Some(mut head) = self.lock_full_head(tail) else { return false };
        // SAFETY: under the lock of the queue. The caller keeps the contract of `push_back`.
        unsafe { head.senders.push_back(node) };
        true
    }

    /// # Safety
    /// The node was entered by `enter_send` of this channel and has not left since.
    pub(in super::super) unsafe fn leave_send(&self, node: &Node<WaiterKind>) {
        // SAFETY: under the lock of the queue. The node is in it, by the contract of `leave_send`.
        unsafe { self.head.lock.lock().senders.remove(node) };
    }

    pub(in super::super) fn can_recv(&self) -> bool {
        self.lock_empty_tail().is_none()
    }

    pub(in super::super) fn can_send(&self) -> bool {
        let mut tail = self.tail.lock.lock();
        tail.closed || self.has_room(&mut tail)
    }
}

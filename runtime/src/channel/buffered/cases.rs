//! What a select does at a channel with room.

#![allow(unsafe_code)]

use sched::queue::Node;

use super::super::model::broken;
use super::super::waiters::{Wanted, Who, hand_over};
use super::{Buffer, Buffered, RecvError, SendError, TryRecvError};

/// A select's right to send.
pub(in super::super) enum Right {
    Room,
    Disconnected,
}

impl<T, B: Buffer<T>> Buffered<T, B> {
    /// Takes room for a message that comes later, or says that none will be taken any more.
    pub(in super::super) fn begin_send(&self) -> Option<Right> {
        let mut tail = self.tail.lock.lock();
        if tail.closed {
            return Some(Right::Disconnected);
        }
        self.has_room(&mut tail).then(|| {
            tail.reserved += 1;
            Right::Room
        })
    }

    pub(in super::super) fn finish_send(&self, right: Right, message: T) -> Result<(), SendError<T>> {
        if matches!(right, Right::Disconnected) {
            return Err(SendError(message));
        }
        let mut tail = self.lock_tail();
        tail.reserved -= 1;
        if tail.closed {
            return Err(SendError(message));
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

    pub(in super::super) fn abandon_send(&self, right: Right) {
        if matches!(right, Right::Room) {
            self.tail.lock.lock().reserved -= 1;
            Self::wake_sender(self.head.lock.lock());
        }
    }

    /// Takes a message, or says that none will come; `None` if there is none now.
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

    /// Enters the queue of those who wait for a message; `false` if there is something already.
    ///
    /// # Safety
    /// As for `Queue::push_back`, with `leave_recv` for `remove`.
    pub(in super::super) unsafe fn enter_recv(&self, node: &Node<Wanted<T>>) -> bool {
        let Some(mut tail) = self.lock_empty_tail() else { return false };
        // SAFETY: under the lock; the rest is this function's contract.
        unsafe { tail.receivers.push_back(node) };
        true
    }

    /// # Safety
    /// The node was given to `enter_recv` of this channel, and to nobody else.
    pub(in super::super) unsafe fn leave_recv(&self, node: &Node<Wanted<T>>) {
        // SAFETY: under the lock; the rest is this function's contract.
        unsafe { self.tail.lock.lock().receivers.remove(node) };
    }

    /// Enters the queue of those who wait for room; `false` if there is some already.
    ///
    /// # Safety
    /// As for `Queue::push_back`, with `leave_send` for `remove`.
    pub(in super::super) unsafe fn enter_send(&self, node: &Node<Who>) -> bool {
        let tail = self.tail.lock.lock();
        if tail.closed {
            return false;
        }
        let Some(mut head) = self.lock_full_head(tail) else { return false };
        // SAFETY: under the lock; the rest is this function's contract.
        unsafe { head.senders.push_back(node) };
        true
    }

    /// # Safety
    /// The node was given to `enter_send` of this channel, and to nobody else.
    pub(in super::super) unsafe fn leave_send(&self, node: &Node<Who>) {
        // SAFETY: under the lock; the rest is this function's contract.
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

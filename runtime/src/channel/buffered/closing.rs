//! The ends of a buffered channel. The tail is closed first: nothing more is sent. The head is closed when
//! nothing more can come. If room is reserved at that moment, the last permit closes the head.

use waits::queue::{Queue, Wakes};

#[cfg(not(loom))]
use super::super::closings::wait_closed_async;
use super::super::closings::{Closing, wait_closed};
use super::super::model::broken;
use super::super::waiters::{hand_over, wake_all};
use super::{Buffer, Buffered, SendError, Tail, TailGuard};

/// What closes a channel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ClosedBy {
    LastSender,
    LastReceiver,
    /// A receiver that still takes the messages that were sent, or have room.
    Call,
}

impl<T, B: Buffer<T>> Buffered<T, B> {
    /// Closes the channel. A later call may add a further reason.
    pub(super) fn close(&self, by: ClosedBy) {
        let mut wakes = Wakes::new();
        let mut tail = self.tail.lock.lock();
        (tail.closed, tail.unusual) = (true, true);
        tail.deserted |= by == ClosedBy::LastReceiver;
        if !broken!("channel_close_leaves_closings") {
            wake_all(&mut tail.closings, &mut wakes);
        }
        let mut head = self.head.lock.lock();
        wake_all(&mut head.senders, &mut wakes);
        // Room that is reserved without a sender belongs to a permit that was forgotten.
        if by != ClosedBy::Call || tail.reserved == 0 || broken!("channel_close_forgets_permits") {
            head.closed = true;
            wake_all(&mut tail.receivers, &mut wakes);
        }
        drop(head);
        drop(tail);
    }

    /// Ends a send that has begun before the channel was closed, and closes the head if it was the last.
    #[cold]
    pub(super) fn finish_send_when_closed(
        &self,
        mut tail: TailGuard<'_, T, B>,
        message: T,
    ) -> Result<(), SendError<T>> {
        if tail.deserted {
            return Err(SendError(message));
        }
        let mut wakes = Wakes::new();
        match hand_over(&mut tail.receivers, message) {
            Ok(wake) => wakes.add(wake),
            Err(message) => {
                self.put(&mut tail, message);
                // All waiting receivers are watchers.
                wake_all(&mut tail.receivers, &mut wakes);
            }
        }
        self.close_head_after_the_last(&mut tail, &mut wakes);
        drop(tail);
        drop(wakes);
        Ok(())
    }

    /// Abandons a send that has begun before the channel was closed, and closes the head if it was the last.
    #[cold]
    pub(super) fn abandon_send_when_closed(&self, mut tail: TailGuard<'_, T, B>) {
        let mut wakes = Wakes::new();
        self.close_head_after_the_last(&mut tail, &mut wakes);
        drop(tail);
        drop(wakes);
    }

    fn close_head_after_the_last(&self, tail: &mut Tail<T, B>, wakes: &mut Wakes) {
        if tail.reserved == 0 && !broken!("channel_last_permit_closes_nothing") {
            self.head.lock.lock().closed = true;
            wake_all(&mut tail.receivers, wakes);
        }
    }

    /// Closes the channel for a receiver that wants no more messages.
    pub(in super::super) fn end_sending(&self) {
        self.close(ClosedBy::Call);
    }

    pub(in super::super) fn is_closed(&self) -> bool {
        self.tail.lock.lock().closed
    }

    pub(in super::super) fn wait_closed(&self) {
        wait_closed(&self.tail.lock, self.ends.on());
    }

    #[cfg(not(loom))]
    pub(in super::super) async fn wait_closed_async(&self) {
        wait_closed_async(&self.tail.lock).await;
    }
}

impl<T, B: Buffer<T>> Closing for Tail<T, B> {
    fn is_closed(&self) -> bool {
        self.closed
    }

    fn closings(&mut self) -> &mut Queue<()> {
        &mut self.closings
    }
}

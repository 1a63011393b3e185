//! Channels with room for messages, bounded or not. Each end has its own lock, so that a sender and a
//! receiver that run at the same time do not contend.
//!
//! ```text
//!   tail (senders)                                    head (receivers)
//!   lock                                              lock
//!   receivers wait? hand the message to the first     a message? take it, count it (Release)
//!   room? put it, count it (Release)                    senders wait? wake the first: it looks again
//!   else lock the head too; still none?               else unlock, lock the tail and then the head; still none?
//!     enter the *head's* queue, unlock both, park       enter the *tail's* queue, unlock both, park
//! ```
//!
//! Each queue of waiters lies at the end of the wakers. Waiting receivers are in the tail, where a sender
//! finds them under the lock that it has anyway. Waiting senders are in the head. No fence is needed: a
//! waiter enters a queue, and looks for the last time, with that end's lock held.
//!
//! - A receiver waits only while the buffer is empty, so a message that is handed to it overtakes none.
//! - A sender waits only while the buffer is full. Each message that is taken wakes one sender. If there is
//!   still room, that sender puts its message. If another sender was faster, the woken sender waits as the
//!   first in the queue. If a receiver waits by then, the woken sender hands its message over, and wakes the
//!   next sender for the room.
//! - An end reads the count of the other end only when the value last seen says full or empty. So a busy pair
//!   of ends reads each other's cache line once for many messages.
//!
//! A select that chose to send has its room counted in `reserved` until it sends, and so has a `Permit`. The
//! lock order is tail, then head.
//!
//! In a channel that was made in a simulation both ends are `unusual` for ever, and an operation begins with
//! a point of choice. So the usual operation pays nothing for simulations: it tests the flag for other
//! reasons.
//!
//! Rejected: one lock for both ends, because two cores that send and receive at the same time contend for it.
//! Rejected: a ring of stamped slots without locks (crossbeam's). Waiting senders and receivers need fences
//! against each other there, and a woken one has to look again. A slot that a select has reserved holds up
//! all messages behind it.

#![allow(unsafe_code)]

mod cases;
mod closing;
#[cfg(not(loom))]
mod futures;
#[cfg(all(test, loom))]
mod models;
mod reserving;

pub(super) use cases::BegunSend;

use std::collections::VecDeque;
use std::time::Instant;

use crossbeam_utils::CachePadded;
use sched::park::{self, Waiting};
use sched::{Cancel, Outcome};
use waits::queue::{self, Guard, Lock, Queue, WaitOptions, Wakes};

use super::buffer::Buffer;
use super::error::{RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError};
use super::model::{AtomicUsize, Ordering, broken};
use super::shared::{Disconnect, Ends};
use super::waiters::{Grant, WaiterKind, Wanted, hand_over, is_past, wake_all};
use closing::ClosedBy;

/// A channel with room; the protocol is in the head of this file.
pub(super) struct Buffered<T, B: Buffer<T>> {
    buffer: B,
    ends: Ends,
    /// The channel was made in a simulation.
    #[cfg(feature = "sim")]
    simulated: bool,
    tail: CachePadded<End<Tail<T, B>>>,
    head: CachePadded<End<Head<T, B>>>,
}

struct End<S> {
    lock: Lock<S>,
    /// The number of messages that have ever passed this end. Written by the holder of this end's lock.
    count: AtomicUsize,
}

struct Tail<T, B: Buffer<T>> {
    cursor: B::Tail,
    /// The head's count as last seen.
    head_seen: usize,
    /// The room that selects and permits have been promised.
    reserved: usize,
    /// No message is accepted any more, except those of reserved room.
    closed: bool,
    /// All receivers are gone. Set together with `closed`, or later.
    deserted: bool,
    /// The channel is closed or simulated.
    unusual: bool,
    receivers: Queue<Wanted<T>>,
    /// Senders that wait for `closed`.
    closings: Queue<()>,
}

struct Head<T, B: Buffer<T>> {
    cursor: B::Head,
    /// The tail's count as last seen.
    tail_seen: usize,
    /// No message will be put any more. Set together with the tail's `closed`, or after the last reserved
    /// room has ended.
    closed: bool,
    any_returned: bool,
    /// There were returned messages, or the channel is simulated.
    unusual: bool,
    senders: Queue<WaiterKind>,
    /// Messages that were given to receivers which then left.
    returned: VecDeque<T>,
}

fn receivers<T, B: Buffer<T>>(tail: &mut Tail<T, B>) -> &mut Queue<Wanted<T>> {
    &mut tail.receivers
}

fn senders<T, B: Buffer<T>>(head: &mut Head<T, B>) -> &mut Queue<WaiterKind> {
    &mut head.senders
}

// SAFETY: messages (`T: Send`) pass through the channel between threads, and the buffer is used only under
// the locks of its ends.
unsafe impl<T: Send, B: Buffer<T>> Send for Buffered<T, B> {}
// SAFETY: a shared reference allows the same operations as an owned channel, under the same locks.
unsafe impl<T: Send, B: Buffer<T>> Sync for Buffered<T, B> {}

type TailGuard<'c, T, B> = Guard<'c, Tail<T, B>>;
type HeadGuard<'c, T, B> = Guard<'c, Head<T, B>>;

/// Where a message went.
enum Sent {
    /// To a waiting receiver. No room was used.
    ToReceiver,
    ToBuffer,
}

/// The deadline of a wait has passed.
struct TimedOut;

/// Why a message was not accepted.
enum Refused<'c, T, B: Buffer<T>> {
    Full(TailGuard<'c, T, B>, T),
    Disconnected(T),
}

impl<T, B: Buffer<T>> Buffered<T, B> {
    pub(super) fn new(buffer: B) -> Self {
        let simulated = crate::in_simulation();
        let tail = Tail {
            cursor: B::Tail::default(),
            head_seen: 0,
            reserved: 0,
            closed: false,
            deserted: false,
            unusual: simulated,
            receivers: Queue::new(),
            closings: Queue::new(),
        };
        let head = Head {
            cursor: B::Head::default(),
            tail_seen: 0,
            closed: false,
            any_returned: false,
            unusual: simulated,
            senders: Queue::new(),
            returned: VecDeque::new(),
        };
        Buffered {
            buffer,
            ends: Ends::new(),
            #[cfg(feature = "sim")]
            simulated,
            tail: CachePadded::new(End { lock: Lock::new(tail), count: AtomicUsize::new(0) }),
            head: CachePadded::new(End { lock: Lock::new(head), count: AtomicUsize::new(0) }),
        }
    }

    /// Locks the tail, with memory for one more message.
    #[inline]
    fn lock_tail(&self) -> TailGuard<'_, T, B> {
        self.with_more(self.tail.lock.lock())
    }

    #[inline(always)]
    fn with_more<'c>(&'c self, tail: TailGuard<'c, T, B>) -> TailGuard<'c, T, B> {
        if self.buffer.wants_more(&tail.cursor) { self.lock_tail_with_more(tail) } else { tail }
    }

    /// A point of choice in an operation that has locked an end, if the channel was made in a simulation.
    #[inline(always)]
    fn point<S>(&self, _end: &mut Guard<'_, S>) {
        #[cfg(feature = "sim")]
        if self.simulated {
            Guard::unlocked(_end, crate::point);
        }
    }

    #[cold]
    fn lock_tail_with_more<'c>(&'c self, mut tail: TailGuard<'c, T, B>) -> TailGuard<'c, T, B> {
        while self.buffer.wants_more(&tail.cursor) {
            drop(tail);
            let more = self.buffer.make_more();
            tail = self.tail.lock.lock();
            self.buffer.add_more(&mut tail.cursor, more);
        }
        tail
    }

    /// Returns `true` if one more message has room beside the reserved room.
    #[inline]
    fn has_room(&self, tail: &mut Tail<T, B>) -> bool {
        // Relaxed: the holder of this end's lock is the only writer.
        let reserved = if broken!("channel_reserved_room_is_used") { 0 } else { tail.reserved };
        let used = self.tail.count.load(Ordering::Relaxed).wrapping_add(reserved);
        if used.wrapping_sub(tail.head_seen) < self.buffer.limit() {
            return true;
        }
        // Acquire: the taker's use of the emptied slots happens before they are filled again. Partner: the
        // Release in `take`.
        tail.head_seen = self.head.count.load(Ordering::Acquire);
        used.wrapping_sub(tail.head_seen) < self.buffer.limit()
    }

    #[inline]
    fn put(&self, tail: &mut Tail<T, B>, message: T) {
        debug_assert!(
            self.tail.count.load(Ordering::Relaxed).wrapping_sub(tail.head_seen) < self.buffer.limit(),
            "a message is put where there is room"
        );
        // SAFETY: the caller has the tail's lock, taken with memory for a message, and has seen room.
        unsafe { self.buffer.put(&mut tail.cursor, message) };
        // Relaxed load: the holder of this lock is the only writer. Release store: the message happens before
        // its taking. Partner: the Acquire in the look at the tail's count.
        let count = self.tail.count.load(Ordering::Relaxed).wrapping_add(1);
        let order = if broken!("channel_put_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        self.tail.count.store(count, order);
    }

    #[inline]
    fn take(&self, head: &mut Head<T, B>) -> Option<T> {
        if head.is_unusual() && head.any_returned {
            return Some(head.take_returned());
        }
        // Relaxed: the holder of this end's lock is the only writer.
        let count = self.head.count.load(Ordering::Relaxed);
        if count == head.tail_seen {
            // Acquire: the messages were put before they were counted. Partner: the Release in `put`.
            head.tail_seen = self.tail.count.load(Ordering::Acquire);
            if count == head.tail_seen {
                return None;
            }
        }
        // SAFETY: the caller has the head's lock and has seen a message.
        let message = unsafe { self.buffer.take(&mut head.cursor) };
        // Release: the slot is emptied before it is counted. Partner: the Acquire in `has_room`.
        let order = if broken!("channel_take_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        self.head.count.store(count.wrapping_add(1), order);
        Some(message)
    }

    #[inline]
    fn offer(&self, mut message: T) -> Result<Sent, Refused<'_, T, B>> {
        let mut tail = self.lock_tail();
        if tail.is_unusual() {
            if cfg!(feature = "sim") {
                self.point(&mut tail);
                tail = self.with_more(tail);
            }
            if tail.closed {
                return Err(Refused::Disconnected(message));
            }
        }
        if !tail.receivers.is_empty() {
            match hand_over(&mut tail.receivers, message) {
                Ok(wake) => {
                    drop(tail);
                    drop(wake);
                    return Ok(Sent::ToReceiver);
                }
                Err(back) => message = back,
            }
        }
        if !self.has_room(&mut tail) {
            return Err(Refused::Full(tail, message));
        }
        self.put(&mut tail, message);
        if !tail.receivers.is_empty() {
            Self::wake_watchers(tail);
        }
        Ok(Sent::ToBuffer)
    }

    /// Offers a message as [`offer`](Buffered::offer) does. A sender that was woken for room
    /// (`has_been_told`) and did not use it wakes the next one.
    #[inline]
    fn offer_with(&self, has_been_told: bool, message: T) -> Result<(), Refused<'_, T, B>> {
        let sent = self.offer(message)?;
        if has_been_told && matches!(sent, Sent::ToReceiver) && !broken!("channel_room_not_needed_is_kept") {
            Self::wake_sender(self.head.lock.lock());
        }
        Ok(())
    }

    /// A message was put, and all waiting receivers are watchers: wakes them.
    #[cold]
    fn wake_watchers(mut tail: TailGuard<'_, T, B>) {
        let mut wakes = Wakes::new();
        wake_all(&mut tail.receivers, &mut wakes);
        drop(tail);
    }

    /// Room was made: wakes the first sender that waits for it, and the watchers in front of that.
    #[cold]
    fn wake_sender(mut head: HeadGuard<'_, T, B>) {
        let mut wakes = Wakes::new();
        while let Some(mut waiter) = head.senders.first() {
            let watches = waiter.payload().watches;
            if let Ok(wake) = waiter.wake() {
                wakes.add(wake);
                if !watches {
                    break;
                }
            }
        }
        drop(head);
    }

    pub(super) fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        match self.offer(message) {
            Ok(_) => Ok(()),
            Err(Refused::Full(tail, message)) => {
                drop(tail);
                // A loop of tries ends with the simulation, also if the channel was made outside.
                crate::point();
                Err(TrySendError::Full(message))
            }
            Err(Refused::Disconnected(message)) => Err(TrySendError::Disconnected(message)),
        }
    }

    pub(super) fn send(&self, mut message: T, deadline: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        let mut first = false;
        loop {
            let tail = match self.offer_with(first, message) {
                Ok(()) => return Ok(()),
                Err(Refused::Disconnected(message)) => return Err(SendTimeoutError::Disconnected(message)),
                Err(Refused::Full(tail, back)) => {
                    message = back;
                    tail
                }
            };
            let Some(head) = self.lock_full_head(tail) else { continue };
            if is_past(deadline) {
                return Err(SendTimeoutError::Timeout(message));
            }
            match self.wait_for_room(head, first, deadline) {
                Ok(woken) => first = woken,
                Err(TimedOut) => return Err(SendTimeoutError::Timeout(message)),
            }
        }
    }

    /// Waits as a sender, `first` in the queue or last. Returns `true` if the caller was woken for room, and
    /// `false` if it has to look again. Unwinds a caller that is cancelled.
    #[inline(always)]
    fn wait_for_room(
        &self,
        head: HeadGuard<'_, T, B>,
        first: bool,
        deadline: Option<Instant>,
    ) -> Result<bool, TimedOut> {
        match queue::wait(
            head,
            senders,
            // SAFETY: the channel lasts until this function returns, after the wait.
            unsafe { Waiting::begin_on(sched::Why::Send, self.ends.on(), Cancel::Ends) },
            WaitOptions { first, ..WaitOptions::from(deadline) },
            WaiterKind::default(),
        ) {
            Ok(_) => Ok(true),
            Err(ended) if ended.outcome == Outcome::TimedOut => Err(TimedOut),
            Err(ended) => {
                drop(ended);
                park::unwind_if_cancelled();
                Ok(first)
            }
        }
    }

    /// Returns the head's lock if the buffer is still full. No message is taken until that lock is released.
    #[inline]
    fn lock_full_head<'c>(&'c self, mut tail: TailGuard<'c, T, B>) -> Option<HeadGuard<'c, T, B>> {
        let head = self.head.lock.lock();
        if self.has_room(&mut tail) && !broken!("channel_sender_waits_beside_room") {
            return None;
        }
        Some(head)
    }

    #[inline]
    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut head = self.head.lock.lock();
        if cfg!(feature = "sim") && head.unusual {
            self.point(&mut head);
        }
        let Some(message) = self.take(&mut head) else {
            // The head is closed after the last message was put.
            let error = if head.closed { TryRecvError::Disconnected } else { TryRecvError::Empty };
            drop(head);
            // As in `try_send`.
            crate::point();
            return Err(error);
        };
        if !head.senders.is_empty() && !broken!("channel_room_is_told_to_nobody") {
            Self::wake_sender(head);
        }
        Ok(message)
    }

    pub(super) fn recv(&self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        loop {
            match self.try_recv() {
                Ok(message) => return Ok(message),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) => {}
            }
            if is_past(deadline) {
                return Err(RecvTimeoutError::Timeout);
            }
            let Some(tail) = self.lock_empty_tail() else { continue };
            match queue::wait(
                tail,
                receivers,
                // SAFETY: the channel lasts until this function returns, after the wait.
                unsafe { Waiting::begin_on(sched::Why::Receive, self.ends.on(), Cancel::Ends) },
                deadline,
                Wanted::message(),
            ) {
                Ok(wanted) => {
                    if let Some(Grant::Message(message)) = wanted.got {
                        return Ok(message);
                    }
                }
                Err(ended) if ended.outcome == Outcome::TimedOut => return Err(RecvTimeoutError::Timeout),
                Err(ended) => {
                    drop(ended);
                    park::unwind_if_cancelled();
                }
            }
        }
    }

    /// Returns the tail's lock if the buffer is still empty. No message is put until that lock is released.
    fn lock_empty_tail(&self) -> Option<TailGuard<'_, T, B>> {
        let tail = self.tail.lock.lock();
        let head = self.head.lock.lock();
        if head.closed
            || self.messages(&tail, &head) > 0 && !broken!("channel_receiver_waits_beside_a_message")
        {
            return None;
        }
        drop(head);
        Some(tail)
    }

    fn messages(&self, _tail: &Tail<T, B>, head: &Head<T, B>) -> usize {
        // Relaxed: both locks are held.
        let put = self.tail.count.load(Ordering::Relaxed);
        put.wrapping_sub(self.head.count.load(Ordering::Relaxed)) + head.returned.len()
    }

    pub(super) fn len(&self) -> usize {
        let tail = self.tail.lock.lock();
        let head = self.head.lock.lock();
        // A returned message may be one more than the limit.
        self.messages(&tail, &head).min(self.buffer.limit())
    }

    pub(super) fn capacity(&self) -> usize {
        self.buffer.limit()
    }

    pub(super) fn is_full(&self) -> bool {
        let tail = self.tail.lock.lock();
        let head = self.head.lock.lock();
        self.messages(&tail, &head) + tail.reserved >= self.buffer.limit()
    }

    /// Takes back a message that was given to a receiver which left: for the first waiting receiver, or the
    /// next to come.
    fn take_back(&self, mut tail: TailGuard<'_, T, B>, message: T) {
        match hand_over(&mut tail.receivers, message) {
            Ok(wake) => {
                drop(tail);
                drop(wake);
            }
            Err(message) => {
                let mut head = self.head.lock.lock();
                head.returned.push_back(message);
                (head.any_returned, head.unusual) = (true, true);
                drop(head);
                Self::wake_watchers(tail);
            }
        }
    }
}

impl<T, B: Buffer<T>> Tail<T, B> {
    /// Returns `unusual`. Without the feature `sim` that is `closed`, and asked once.
    #[inline(always)]
    fn is_unusual(&self) -> bool {
        if cfg!(feature = "sim") { self.unusual } else { self.closed }
    }
}

impl<T, B: Buffer<T>> Head<T, B> {
    /// As `Tail::is_unusual`.
    #[inline(always)]
    fn is_unusual(&self) -> bool {
        if cfg!(feature = "sim") { self.unusual } else { self.any_returned }
    }

    #[cold]
    fn take_returned(&mut self) -> T {
        let message = self.returned.pop_front().expect("any_returned has returned true");
        // `unusual` stays: it only says where to look.
        self.any_returned = !self.returned.is_empty();
        message
    }
}

impl<T, B: Buffer<T>> Disconnect for Buffered<T, B> {
    fn ends(&self) -> &Ends {
        &self.ends
    }

    fn ends_mut(&mut self) -> &mut Ends {
        &mut self.ends
    }

    fn fill(&self) -> (usize, Option<usize>) {
        // Relaxed: the answer may be out of date on return. The ends are read at two moments, the head first,
        // so the difference is not negative, but it may be too large.
        let head = self.head.count.load(Ordering::Relaxed);
        let messages = self.tail.count.load(Ordering::Relaxed).wrapping_sub(head);
        let limit = self.capacity();
        (messages.min(limit), (limit != usize::MAX).then_some(limit))
    }

    fn senders_gone(&self) {
        self.close(ClosedBy::LastSender);
    }

    fn receivers_gone(&self) {
        self.close(ClosedBy::LastReceiver);
        // No sender is left, and no other receiver. Not `try_recv`: a point of choice may unwind, and this is
        // a destructor.
        let next = || self.take(&mut self.head.lock.lock());
        while let Some(message) = next() {
            drop(message);
        }
    }
}

impl<T, B: Buffer<T>> Drop for Buffered<T, B> {
    fn drop(&mut self) {
        // The last receiver's end has dropped the messages.
        self.buffer.free(&self.head.lock.get_mut().cursor);
    }
}

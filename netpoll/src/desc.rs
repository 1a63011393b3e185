//! The descriptor of a registered source: attempts and waits in each direction.

use std::sync::Arc;
use std::{fmt, io};

use crate::arena::Slot;
use crate::poller::Netpoll;
use crate::semaphore::{Closed, Seen, Wait};
use crate::source::Source;
use crate::sys::Number;
#[cfg(windows)]
use crate::sys::Reporter;
use crate::waiter::{Direction, Waiter};

/// The descriptor by which threads wait for a registered source. All methods may run on any thread.
///
/// Dropping the descriptor gives its slot back. Drop the source first, or
/// [`deregister`](PollDesc::deregister) it: events of a source that outlives its descriptor are ignored.
pub struct PollDesc {
    netpoll: Arc<Netpoll>,
    /// Below 2^32: `arena.rs`.
    index: u32,
    /// The descriptor of the source; less than zero if it has none, or it is not known.
    fd: i32,
    number: Number,
}

/// The count of events in a direction before an attempt. A later count differs if an event has come since.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    direction: Direction,
    seen: Seen,
}

impl PollDesc {
    pub(crate) fn new(netpoll: Arc<Netpoll>, index: usize, fd: i64, number: Number) -> PollDesc {
        PollDesc { netpoll, index: index as u32, fd: i32::try_from(fd).unwrap_or(-1), number }
    }

    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.index as usize
    }

    #[inline]
    fn slot(&self) -> &Slot {
        self.netpoll.slot(self.index())
    }

    /// Begins an attempt. Call it *before* the system call whose `WouldBlock` leads to
    /// [`wait`](PollDesc::wait).
    #[inline]
    pub fn prepare(&self, direction: Direction) -> Attempt {
        Attempt { direction, seen: self.slot().side(direction).seen() }
    }

    /// Records that the attempt took all there was. Further attempts would find nothing until the next event,
    /// and can be left out. A short read of a stream is such an attempt where each arrival is an edge: epoll
    /// and kqueue.
    #[inline]
    pub fn set_drained(&self, attempt: Attempt) {
        self.slot().side(attempt.direction).set_drained(attempt.seen);
    }

    /// Returns `true` if the prepared attempt would find nothing. Then call [`wait`](PollDesc::wait) instead.
    #[inline]
    pub fn is_drained(&self, attempt: Attempt) -> bool {
        self.slot().side(attempt.direction).is_drained(attempt.seen)
    }

    /// Registers the waiter, unless an event has come since the attempt was prepared.
    ///
    /// Several waiters may wait in one direction. The next event wakes them all.
    ///
    /// # Errors
    ///
    /// [`Closed`] once [`close`](PollDesc::close) was called.
    pub fn wait(&self, attempt: Attempt, waiter: Waiter) -> Result<Wait, Closed> {
        self.slot().side(attempt.direction).wait(attempt.seen, waiter)
    }

    /// Counts that a thread is about to wait. Returns `true` each some tens of times, where sources can be
    /// moved: then [`move_to`](PollDesc::move_to) should be considered.
    #[inline]
    pub fn counts_wait(&self) -> bool {
        crate::near::MOVES && self.slot().at.counts_wait(self.index())
    }

    /// Returns near which of so many places the source belongs: that of the thread on the processor which has
    /// received the last packet. `None` if that is unknown, or if this place has more than its share of all
    /// sources.
    pub fn place_of_packets(&self, places: usize) -> Option<usize> {
        self.netpoll.near_place(self.index(), crate::near::incoming_processor(self.fd)?, places)
    }

    /// Returns near which place the source is.
    pub fn place(&self) -> Option<usize> {
        self.slot().at.poller()?.checked_sub(1)
    }

    /// Moves the source near a place, so that [`Netpoll::poll_near`] reports its events; or away from all
    /// with `None`. No event is lost. The source stays where it is if its registration had no number, the
    /// system has no near pollers, or it refuses. The caller keeps the source open, and no thread
    /// deregisters it before it returns.
    pub fn move_to(&self, place: Option<usize>) {
        if self.fd >= 0 {
            self.netpoll.change(self.index(), self.fd, place);
        }
    }

    /// Removes a waiter whose wait has ended otherwise (a time-out, a cancellation). Returns `true` if the
    /// netpoller will not return the waiter; `false` if a thread that polls or closes has taken the waiter
    /// already.
    pub fn withdraw(&self, direction: Direction, waiter: Waiter) -> bool {
        self.slot().side(direction).withdraw(waiter)
    }

    /// Ends all waits: adds the waiters to `ready`, for the caller to wake. Further waits are errors. The
    /// source stays registered until [`deregister`](PollDesc::deregister).
    pub fn close(&self, ready: &mut Vec<Waiter>) {
        self.slot().close(ready);
    }

    /// Returns `true` if [`close`](PollDesc::close) was called.
    pub fn is_closed(&self) -> bool {
        self.slot().side(Direction::Read).is_closed()
    }

    /// Deregisters the source of this descriptor. This wakes no waiter: call [`close`](PollDesc::close) first
    /// if threads may be waiting.
    ///
    /// # Errors
    ///
    /// The system's error if this source is not registered here.
    pub fn deregister<S: Source + ?Sized>(&self, source: &mut S) -> io::Result<()> {
        let done = self.netpoll.deregister(self.index(), self.fd, source);
        self.netpoll.forget(&self.number);
        done
    }

    /// Wakes the waiters of the directions that the caller has shut, as other systems do. AFD, by which mio
    /// polls on Windows, reports what the peer does, and not what this process does. The next poll wakes
    /// them. Call it *after* the system call that shuts.
    #[cfg(any(windows, all(portable, not(kqueue_model))))]
    pub fn report_shut(&self, how: std::net::Shutdown) {
        use std::net::Shutdown;
        self.netpoll.deliver_soon(
            self.netpoll.token(self.index()),
            crate::arena::What {
                read: how != Shutdown::Write,
                write: how != Shutdown::Read,
                unreported: true,
            },
        );
    }

    /// Returns what reports the events of this descriptor's source, if the system reports them elsewhere.
    #[cfg(windows)]
    pub fn reporter(&self) -> Reporter {
        // An operation may go on for ever, and must not keep the netpoller alive.
        let (netpoll, token) = (Arc::downgrade(&self.netpoll), self.netpoll.token(self.index()));
        Reporter::new(move |direction| {
            if let Some(netpoll) = netpoll.upgrade() {
                let (read, write) = (direction == Direction::Read, direction == Direction::Write);
                netpoll.deliver_soon(token, crate::arena::What { read, write, unreported: true });
            }
        })
    }

    /// Returns the netpoller of this descriptor.
    pub fn netpoll(&self) -> &Arc<Netpoll> {
        &self.netpoll
    }
}

impl Drop for PollDesc {
    fn drop(&mut self) {
        self.netpoll.forget(&self.number);
        self.netpoll.give_back(self.index());
    }
}

impl fmt::Debug for PollDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollDesc").field("index", &self.index).field("closed", &self.is_closed()).finish()
    }
}

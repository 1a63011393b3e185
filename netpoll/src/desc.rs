//! A registered source's descriptor: who waits for it, in which direction.

use std::sync::Arc;
use std::{fmt, io};

use crate::poller::Netpoll;
use crate::semaphore::{Closed, Seen, Wait};
use crate::source::Source;
use crate::waiter::{Direction, Waiter};

/// What one registered source waits with. All methods may run on any thread.
///
/// It ends with its owner: dropping it gives its place back. Drop the source first, or
/// [`deregister`](PollDesc::deregister) it; an event of a source that outlived its descriptor reaches nobody.
pub struct PollDesc {
    netpoll: Arc<Netpoll>,
    index: usize,
}

/// What had happened in one direction before an attempt was made: evidence that the attempt did not overlook
/// what happens after.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    direction: Direction,
    seen: Seen,
}

impl PollDesc {
    pub(crate) fn new(netpoll: Arc<Netpoll>, index: usize) -> PollDesc {
        PollDesc { netpoll, index }
    }

    /// Begins an attempt; comes *before* the system call whose `WouldBlock` leads to
    /// [`wait`](PollDesc::wait).
    #[inline]
    pub fn prepare(&self, direction: Direction) -> Attempt {
        Attempt { direction, seen: self.netpoll.slot(self.index).side(direction).seen() }
    }

    /// The attempt took all there was: further ones would find nothing until the next event, and may be left out. (A
    /// read of a stream that got less than it asked for is such an attempt, where the system reports each arrival as an
    /// edge: epoll and kqueue.)
    #[inline]
    pub fn set_drained(&self, attempt: Attempt) {
        self.netpoll.slot(self.index).side(attempt.direction).set_drained(attempt.seen);
    }

    /// Whether the attempt that was prepared would find nothing: then [`wait`](PollDesc::wait) instead.
    #[inline]
    pub fn is_drained(&self, attempt: Attempt) -> bool {
        self.netpoll.slot(self.index).side(attempt.direction).is_drained(attempt.seen)
    }

    /// Writes the waiter down, unless something has happened since the attempt was prepared.
    ///
    /// Several may wait in one direction; the next event wakes them all.
    ///
    /// # Errors
    ///
    /// [`Closed`] once [`close`](PollDesc::close) was called.
    pub fn wait(&self, attempt: Attempt, waiter: Waiter) -> Result<Wait, Closed> {
        self.netpoll.slot(self.index).side(attempt.direction).wait(attempt.seen, waiter)
    }

    /// Takes out a waiter whose wait has ended otherwise (a time-out, a cancellation). `true`: it was still
    /// there, and nobody will wake it. `false`: it has been, or is just being, handed to whoever polls or
    /// closes.
    pub fn withdraw(&self, direction: Direction, waiter: Waiter) -> bool {
        self.netpoll.slot(self.index).side(direction).withdraw(waiter)
    }

    /// Ends all waiting: those who wait are added to `ready`, for the caller to wake, and further waits are
    /// errors. The source stays registered until [`deregister`](PollDesc::deregister).
    pub fn close(&self, ready: &mut Vec<Waiter>) {
        self.netpoll.slot(self.index).close(ready);
    }

    /// Whether [`close`](PollDesc::close) was called.
    pub fn is_closed(&self) -> bool {
        self.netpoll.slot(self.index).side(Direction::Read).is_closed()
    }

    /// Takes the source this descriptor was made for out of the poller. It wakes nobody: close first if
    /// anybody may be waiting.
    ///
    /// # Errors
    ///
    /// What the system says, which is that this source is not registered here.
    pub fn deregister<S: Source + ?Sized>(&self, source: &mut S) -> io::Result<()> {
        self.netpoll.deregister(source)
    }

    /// The poller it belongs to.
    pub fn netpoll(&self) -> &Arc<Netpoll> {
        &self.netpoll
    }
}

impl Drop for PollDesc {
    fn drop(&mut self) {
        self.netpoll.give_back(self.index);
    }
}

impl fmt::Debug for PollDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollDesc").field("index", &self.index).field("closed", &self.is_closed()).finish()
    }
}

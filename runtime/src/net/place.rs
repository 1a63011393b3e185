//! A descriptor's place in the netpoller of a runtime: where its readiness is waited for.

use std::io;
#[cfg(any(unix, feature = "poll-io"))]
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(any(unix, feature = "poll-io"))]
use std::task::{Context, Poll};
use std::time::Instant;

use netpoll::source::Source;
use netpoll::{Attempt, Direction, PollDesc, Wait, Waiter};
#[cfg(any(unix, feature = "poll-io"))]
use sched::net_wakers;
use sched::park::{Waiting, unwind_if_cancelled};
use sched::{Cancel, Outcome, Sched, fork};

use crate::builder;

/// Given back when it is dropped; but not in a child of `fork`, where a thread that is not there may hold the lock.
#[derive(Debug)]
pub(crate) struct Place(Option<PollDesc>);

/// What a wait has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// Something may have happened: try again.
    Again,
    TimeIsUp,
}

impl Place {
    /// Registers `source` with the runtime of the caller.
    pub(crate) fn new(source: &mut impl Source) -> io::Result<Place> {
        fork::check()?;
        Place::in_runtime(&*builder::current_sched()?, source)
    }

    /// Registers `source` with that runtime.
    pub(crate) fn in_runtime(sched: &Sched, source: &mut impl Source) -> io::Result<Place> {
        Ok(Place(Some(sched.netpoll().register(source)?)))
    }

    #[inline]
    fn desc(&self) -> &PollDesc {
        self.0.as_ref().expect("it is there until it is dropped")
    }

    /// Comes before the attempt that a wait is for.
    #[inline]
    pub(crate) fn prepare(&self, direction: Direction) -> Attempt {
        self.desc().prepare(direction)
    }

    /// That attempt took all there was.
    #[inline]
    pub(crate) fn set_drained(&self, attempt: Attempt) {
        self.desc().set_drained(attempt);
    }

    /// Whether that attempt would find nothing.
    #[inline]
    pub(crate) fn is_drained(&self, attempt: Attempt) -> bool {
        self.desc().is_drained(attempt)
    }

    /// Waits until something has happened in that direction since the attempt, or until `until`.
    pub(crate) fn wait(
        &self,
        direction: Direction,
        attempt: Attempt,
        until: Option<Instant>,
    ) -> io::Result<Waited> {
        unwind_if_cancelled();
        fork::check()?;
        let waiting = Waiting::begin_for(sched::Why::Socket, Cancel::Ends);
        let waiter = Waiter::new(waiting.word());
        match self.desc().wait(attempt, waiter) {
            Ok(Wait::Ready) => Ok(Waited::Again),
            Ok(Wait::Park) => {
                let outcome = match until {
                    None => waiting.park(),
                    Some(until) => waiting.park_until(until),
                };
                if outcome == Outcome::Woken {
                    return Ok(Waited::Again);
                }
                self.desc().withdraw(direction, waiter);
                unwind_if_cancelled();
                Ok(if outcome == Outcome::TimedOut { Waited::TimeIsUp } else { Waited::Again })
            }
            Err(netpoll::Closed) => Err(closed()),
        }
    }

    /// The same for a future. Ready: try again. It is woken when something has happened in that direction since the attempt.
    #[cfg(any(unix, feature = "poll-io"))]
    pub(crate) fn poll_wait(
        &self,
        direction: Direction,
        attempt: Attempt,
        pending: &Pending,
        cx: &Context<'_>,
    ) -> Poll<io::Result<()>> {
        fork::check()?;
        let earlier = pending.0.load(Ordering::Relaxed);
        // Left by an earlier poll, and still with the netpoller: that has seen no event since then.
        if earlier != 0 && net_wakers::follow(earlier, cx.waker()) {
            return Poll::Pending;
        }
        let word = net_wakers::begin(cx.waker());
        match self.desc().wait(attempt, Waiter::new(word)) {
            Ok(Wait::Park) => {
                // What is still good has come from somebody else who polls the same handle.
                self.give_up(direction, pending.0.swap(word, Ordering::Relaxed));
                Poll::Pending
            }
            Ok(Wait::Ready) => {
                net_wakers::end(word);
                Poll::Ready(Ok(()))
            }
            Err(netpoll::Closed) => {
                net_wakers::end(word);
                Poll::Ready(Err(closed()))
            }
        }
    }

    /// Ends what `poll_wait` has begun, if it has not ended by itself.
    #[cfg(any(unix, feature = "poll-io"))]
    pub(crate) fn forget(&self, direction: Direction, pending: Pending) {
        self.give_up(direction, pending.0.into_inner());
    }

    #[cfg(any(unix, feature = "poll-io"))]
    fn give_up(&self, direction: Direction, word: u64) {
        if word != 0 && net_wakers::end(word) {
            self.desc().withdraw(direction, Waiter::new(word));
        }
    }

    /// Takes the source out of the poller before it is closed or given away: others may have its descriptor too (a
    /// duplicate, a child process), and then its events would come for ever.
    pub(crate) fn leave(&self, source: &mut impl Source) {
        // A child of `fork` shares the poller with its parent, who still wants the events.
        if !fork::is_forked() {
            // It can only fail for a descriptor that is closed already, by somebody whose it was not.
            let _ = self.desc().deregister(source);
        }
    }
}

/// What a future, or several in turn, have left with the netpoller for one direction of one handle. The last one that was
/// polled is woken. Relaxed: the word alone is handed over; what it stands for is under a lock.
#[cfg(any(unix, feature = "poll-io"))]
#[derive(Debug, Default)]
pub(crate) struct Pending(AtomicU64);

fn closed() -> io::Error {
    io::Error::new(
        io::ErrorKind::NotConnected,
        "the runtime in which this socket was made has been shut down: nobody waits for it any more",
    )
}

impl Drop for Place {
    fn drop(&mut self) {
        if fork::is_forked() {
            std::mem::forget(self.0.take());
        }
    }
}

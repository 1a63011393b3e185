//! `Registration`: a descriptor in the netpoller of a runtime, and waiting there for its readiness.

#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use netpoll::source::Source;
use netpoll::{Attempt, Direction, PollDesc, Wait, Waiter};
use sched::net_wakers;
use sched::park::{Waiting, unwind_if_cancelled};
use sched::sync::unpaused;
use sched::{Awaited, Cancel, On, Outcome, Sched, fork};

use crate::default;

/// Removed when it is dropped. In a child of `fork` it is leaked: a thread that is not there may hold the
/// lock.
#[derive(Debug)]
pub(crate) struct Registration(Option<PollDesc>);

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// Something may have happened: the caller tries again.
    Again,
    TimedOut,
}

impl Registration {
    /// Registers `source` with the caller's runtime. `number` is that of its descriptor, or less than zero.
    pub(crate) fn new(source: &mut impl Source, number: i64) -> io::Result<Registration> {
        fork::check()?;
        Registration::in_runtime(&*default::current_sched()?, source, number)
    }

    /// Registers `source` with the runtime of `sched`.
    pub(crate) fn in_runtime(
        sched: &Sched,
        source: &mut impl Source,
        number: i64,
    ) -> io::Result<Registration> {
        Ok(Registration(Some(unpaused(|| sched.netpoll().register_numbered(source, number))?)))
    }

    #[inline]
    fn desc(&self) -> &PollDesc {
        self.0.as_ref().expect("the registration is there until the drop")
    }

    /// Returns what reports events of the source, if the system does not report them to the poller.
    #[cfg(windows)]
    pub(crate) fn reporter(&self) -> netpoll::Reporter {
        self.desc().reporter()
    }

    /// Begins an attempt. A later wait with it misses no event that comes after this call.
    #[inline]
    pub(crate) fn prepare(&self, direction: Direction) -> Attempt {
        self.desc().prepare(direction)
    }

    /// Records that the attempt took all there was.
    #[inline]
    pub(crate) fn set_drained(&self, attempt: Attempt) {
        self.desc().set_drained(attempt);
    }

    /// Returns `true` if the attempt would find nothing.
    #[inline]
    pub(crate) fn is_drained(&self, attempt: Attempt) -> bool {
        self.desc().is_drained(attempt)
    }

    /// Waits until an event in that direction has come since the attempt, or until `until`. Unwinds a
    /// cancelled caller. Dumps show the descriptor `fd`, or nothing if that is negative.
    pub(crate) fn wait(
        &self,
        fd: i64,
        direction: Direction,
        attempt: Attempt,
        until: Option<Instant>,
    ) -> io::Result<WaitEnd> {
        unwind_if_cancelled();
        fork::check()?;
        if direction == Direction::Read {
            sched::before_wait(self.desc());
        }
        let object = (fd, direction == Direction::Write);
        let on = On::new(&object, |&(fd, to_write)| describe(fd, to_write));
        // SAFETY: `on` and `object` last until this function returns, after the wait.
        let waiting = unsafe { Waiting::begin_on(sched::Why::Socket, &on, Cancel::Ends) };
        let waiter = Waiter::new(waiting.word());
        match unpaused(|| self.desc().wait(attempt, waiter)) {
            Ok(Wait::Ready) => Ok(WaitEnd::Again),
            Ok(Wait::Park) => {
                let outcome = match until {
                    None => waiting.park(),
                    Some(until) => waiting.park_until(until),
                };
                if outcome == Outcome::Woken {
                    return Ok(WaitEnd::Again);
                }
                unpaused(|| self.desc().withdraw(direction, waiter));
                unwind_if_cancelled();
                Ok(if outcome == Outcome::TimedOut { WaitEnd::TimedOut } else { WaitEnd::Again })
            }
            Err(netpoll::Closed) => Err(closed()),
        }
    }

    /// Waits in a future. `Ready` means: try again. The task is woken when an event in that direction has
    /// come since the attempt.
    pub(crate) fn poll_wait(
        &self,
        direction: Direction,
        attempt: Attempt,
        pending: &Pending,
        cx: &Context<'_>,
    ) -> Poll<io::Result<()>> {
        fork::check()?;
        let earlier = pending.0.load(Ordering::Relaxed);
        // An earlier poll left this word with the netpoller, which has seen no event since.
        if earlier != 0 && net_wakers::follow(earlier, cx.waker()) {
            return Poll::Pending;
        }
        if direction == Direction::Read {
            sched::before_wait(self.desc());
        }
        let word = net_wakers::begin(cx.waker());
        match unpaused(|| self.desc().wait(attempt, Waiter::new(word))) {
            Ok(Wait::Park) => {
                // A word that is still valid was left by another task that polls the same handle.
                self.withdraw(direction, pending.0.swap(word, Ordering::Relaxed));
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

    /// Ends the wait that `poll_wait` has begun, if no event has ended it.
    pub(crate) fn cancel_poll_wait(&self, direction: Direction, pending: Pending) {
        self.withdraw(direction, pending.0.into_inner());
    }

    fn withdraw(&self, direction: Direction, word: u64) {
        if word != 0 && net_wakers::end(word) {
            unpaused(|| self.desc().withdraw(direction, Waiter::new(word)));
        }
    }

    /// Wakes those who wait in a direction that the caller has just shut, where the system does not.
    #[cfg(any(windows, all(portable, not(kqueue_model))))]
    pub(crate) fn report_shut(&self, how: std::net::Shutdown) {
        // A child of `fork` has no poller, and no thread that waits.
        if !fork::is_forked() {
            unpaused(|| self.desc().report_shut(how));
        }
    }

    /// Removes the source from the poller, before the descriptor is closed or given away. Another holder of
    /// the descriptor (a duplicate, a child process) would otherwise keep its events coming.
    pub(crate) fn deregister(&self, source: &mut impl Source) {
        // A child of `fork` shares the poller with its parent, which still wants the events.
        if !fork::is_forked() {
            // This fails only for a descriptor that was closed by code that did not own it.
            let _ = unpaused(|| self.desc().deregister(source));
        }
    }
}

/// Tells a dump about a descriptor, which its waiter keeps open meanwhile. *Runs on: any thread.*
fn describe(fd: i64, to_write: bool) -> Option<Awaited> {
    if fd < 0 {
        let (local, peer) = super::source::describe(fd)?;
        return Some(Awaited::Descriptor { fd, local, peer, to_write });
    }
    #[cfg(unix)]
    let (local, peer) = {
        // SAFETY: the waiter that names this descriptor borrows its socket, and is parked while this runs.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(i32::try_from(fd).ok()?) };
        let socket = socket2::SockRef::from(&fd);
        (socket.local_addr().ok(), socket.peer_addr().ok())
    };
    #[cfg(not(unix))]
    let (local, peer): (Option<socket2::SockAddr>, _) = (None, None);
    let in_words = |address: Option<socket2::SockAddr>| {
        let address = address?;
        #[cfg(unix)]
        if let Some(path) = address.as_pathname() {
            return Some(path.display().to_string());
        }
        address.as_socket().map(|address| address.to_string())
    };
    Some(Awaited::Descriptor { fd, local: in_words(local), peer: in_words(peer), to_write })
}

/// The word that a future has left with the netpoller, for one direction of one handle. If several tasks poll
/// in turn, the last one is woken. Relaxed: the word publishes nothing; what it names is under a lock.
#[derive(Debug, Default)]
pub(crate) struct Pending(AtomicU64);

fn closed() -> io::Error {
    io::Error::new(
        io::ErrorKind::NotConnected,
        "the runtime in which this socket was made has been shut down: it has no poller any more",
    )
}

impl Drop for Registration {
    fn drop(&mut self) {
        let desc = self.0.take();
        if fork::is_forked() {
            std::mem::forget(desc);
        } else {
            unpaused(|| drop(desc));
        }
    }
}

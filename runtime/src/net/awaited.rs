//! Calls of sockets in futures: try, leave the task's waker with the netpoller, and try again when the task
//! is woken.
//!
//! Each future leaves a word of its own with the netpoller, and an event wakes all words of its direction. So
//! several futures may wait for one socket. A future that is dropped takes its word back, and takes nothing
//! else with it. An attempt that succeeds ends its future within the same poll.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use netpoll::Direction;
use sched::budget;

#[cfg(unix)]
use super::interest::{Interest, Ready};
use super::registration::{Pending, Registration};
use super::socket::{Socket, call, copy_error};
use super::source::Sourced;

impl<S: Sourced> Socket<S> {
    /// Runs `op` until it would no longer block, as `run` does, in a future. The modes of blocking calls,
    /// which are the time-outs and the non-blocking mode, do not hold for it.
    pub(crate) async fn run_async<T>(
        &self,
        direction: Direction,
        mut op: impl FnMut(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.registration() {
            Ok(registration) => {
                Waits::new(registration, direction).run(|| self.attempt(direction, &mut op)).await
            }
            Err(refusal) => match self.ask(op) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(copy_error(refusal)),
                done => done,
            },
        }
    }
}

#[cfg(unix)]
impl<S: Sourced> Socket<S> {
    /// Waits until the socket is ready for something of `interest`. The modes of the socket do not hold.
    pub(crate) fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match interest.single() {
            Some(direction) => self.ready_in(direction, interest),
            // A parked thread waits in one direction. A future leaves a word in each, and may be polled on
            // any OS thread.
            None => sched::block_on::block_on(self.any_ready_async(interest)),
        }
    }

    fn ready_in(&self, direction: Direction, interest: Interest) -> io::Result<Ready> {
        let registration = self.registration();
        loop {
            let attempt = registration.map(|registration| registration.prepare(direction));
            let ready = self.ask(|source| source.look(interest))?;
            if !ready.is_empty() {
                return Ok(ready);
            }
            let registration = registration.map_err(copy_error)?;
            registration.wait(self.source().number(), direction, attempt.map_err(copy_error)?, None)?;
        }
    }

    /// Waits in a future until the socket is ready for something of `interest`.
    pub(crate) async fn any_ready_async(&self, interest: Interest) -> io::Result<Ready> {
        let registration = self.registration().map_err(copy_error)?;
        let wait = |direction| Waits::new(registration, direction);
        let waits = (
            interest.is_readable().then(|| wait(Direction::Read)),
            interest.is_writable().then(|| wait(Direction::Write)),
        );
        let look = || match self.source().look(interest)? {
            Ready::EMPTY => Err(io::ErrorKind::WouldBlock.into()),
            ready => Ok(ready),
        };
        poll_fn(|cx| {
            // Each prepares its attempt before its own look, so neither misses an event.
            for waits in [&waits.0, &waits.1].into_iter().flatten() {
                if let Poll::Ready(ready) = waits.poll(cx, look) {
                    return Poll::Ready(ready);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Makes one attempt for a user if the socket is ready for something of `interest`. The attempt never
    /// waits, if it is one at this socket.
    pub(crate) fn try_io<T>(&self, interest: Interest, op: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        crate::point();
        if self.ask(|source| source.look(interest))?.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        call(op)
    }

    /// Waits in a future until an attempt in that direction would not block.
    pub(crate) async fn ready_async(&self, direction: Direction) -> io::Result<()> {
        self.run_async(direction, |source| match source.is_ready(direction)? {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        })
        .await
    }
}

/// The waits of one future in one direction. Its drop ends a wait that no event has ended.
#[derive(Debug)]
pub(super) struct Waits<'a> {
    registration: &'a Registration,
    direction: Direction,
    pending: Pending,
}

impl<'a> Waits<'a> {
    pub(super) fn new(registration: &'a Registration, direction: Direction) -> Self {
        Waits { registration, direction, pending: Pending::default() }
    }

    /// Runs `op` until it would no longer block.
    pub(super) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        op: impl FnMut() -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        poll_attempts(self.registration, self.direction, &self.pending, cx, op)
    }

    pub(super) async fn run<T>(self, mut op: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        poll_fn(|cx| self.poll(cx, &mut op)).await
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.registration.cancel_poll_wait(self.direction, std::mem::take(&mut self.pending));
    }
}

/// Runs `op`, a system call, until it would no longer block. `pending` keeps the word that the task leaves
/// with the netpoller.
pub(super) fn poll_attempts<T>(
    registration: &Registration,
    direction: Direction,
    pending: &Pending,
    cx: &mut Context<'_>,
    mut op: impl FnMut() -> io::Result<T>,
) -> Poll<io::Result<T>> {
    budget::poll(cx, |cx| {
        loop {
            let attempt = registration.prepare(direction);
            match call(&mut op) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(registration.poll_wait(direction, attempt, pending, cx))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return Poll::Ready(done),
            }
        }
    })
}

//! Sockets and pipes are polled, for the traits of async crates (`polled.rs`).

use std::io;
use std::task::{Context, Poll};

use netpoll::Direction;
use netpoll::source::Source;

use super::awaited::poll_attempts;
use super::registration::Pending;
use super::socket::{Socket, copy_error};

impl<S: crate::net::source::Sourced> Socket<S> {
    /// Runs `op` until it would no longer block, as `run` does, in a future. The task is woken to try again.
    /// In one direction of one clone, the task that was polled last is woken.
    pub(crate) fn poll<T>(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        mut op: impl FnMut(&S) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let registration = self.registration().map_err(copy_error)?;
        poll_attempts(registration, direction, self.pending(direction), cx, || {
            self.attempt(direction, &mut op)
        })
    }

    /// Polls until an attempt in that direction would not block.
    #[cfg(unix)]
    pub(crate) fn poll_ready(&self, direction: Direction, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(direction, cx, |source| match source.is_ready(direction)? {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        })
    }

    fn pending(&self, direction: Direction) -> &Pending {
        &self.pending[direction as usize]
    }
}

impl<S: Source> Drop for Socket<S> {
    fn drop(&mut self) {
        for direction in [Direction::Read, Direction::Write] {
            let pending = std::mem::take(&mut self.pending[direction as usize]);
            if let Ok(registration) = self.registration() {
                registration.cancel_poll_wait(direction, pending);
            }
        }
    }
}
